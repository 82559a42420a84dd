"""Metrics of single jobs, which are aggregated, broken down and compared.

Formulas and sources stand with the functions of :mod:`mlsim.record.derived`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Floats
from mlsim.record import Jobs
from mlsim.record.blocks import blocks_of
from mlsim.record.derived import (
    bounded_slowdown,
    per_processor_bounded_slowdown,
    response_time,
    slowdown,
    wait_time,
)

__all__ = ["JOB_METRICS", "JobMetric", "backfilled_share"]


@dataclass(frozen=True, slots=True)
class JobMetric:
    """A metric that each job has one value of; less is better for all of them."""

    title: str
    """The metric in words."""
    unit: str
    """``s``, or ``1`` for a ratio."""
    values: Callable[[Jobs, float], Floats]
    """One value a job from the jobs and τ (s); NaN where it is undefined."""


JOB_METRICS: dict[str, JobMetric] = {
    "wait_time": JobMetric("wait", "s", lambda jobs, _: wait_time(jobs)),
    "response_time": JobMetric("response", "s", lambda jobs, _: response_time(jobs)),
    "slowdown": JobMetric("slowdown", "1", lambda jobs, _: slowdown(jobs)),
    "bounded_slowdown": JobMetric("bounded slowdown", "1", bounded_slowdown),
    "per_processor_bounded_slowdown": JobMetric(
        "per-processor bounded slowdown", "1", per_processor_bounded_slowdown
    ),
}
"""By their keys in ``summary.json``."""


def backfilled_share(jobs: Jobs) -> float | None:
    """Return the share of started jobs that were backfilled, in [0, 1] (Zrigui 2021, §4.3.4, counts them)."""
    started = backfilled = 0
    for block in blocks_of(jobs):
        started += int(np.count_nonzero(~np.isnan(block.start_time)))
        backfilled += int(np.count_nonzero(block.backfilled))
    return backfilled / started if started else None
