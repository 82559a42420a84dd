"""A run in one dictionary: the summary that ``summary.json`` holds.

Keys are a contract: new ones may be added, none is renamed without a new ``schema_version``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim.analysis.metrics import (
    aggregate_jobs,
    coordination_metrics,
    job_counts,
    loop_metrics,
    makespan,
    makespan_from_submit,
    queue_length,
    throughput,
    utilization,
)
from mlsim.record import Jobs, Records
from mlsim.record.blocks import blocks_of
from mlsim.record.derived import (
    TAU,
    bounded_slowdown,
    per_processor_bounded_slowdown,
    response_time,
    run_time,
    slowdown,
    wait_time,
)

__all__ = ["SCHEMA_VERSION", "json_safe", "summarize"]

SCHEMA_VERSION = 1


def summarize(
    records: Records,
    *,
    scenario: str,
    seed: int,
    technique: str | None = None,
    tau: float = TAU,
    measured: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Compute every metric of a run.

    Times are in seconds, throughput in jobs per hour, utilization in shares of 1. Aggregates are over the
    jobs that started. A metric that is undefined is None; there is no NaN and no infinity.

    Parameters
    ----------
    records
        What happened.
    scenario, seed
        The scenario's name and seed.
    technique
        The run's technique; None if jobs ran no loop.
    tau
        The bound of bounded slowdowns, in seconds.
    measured
        What the tool measured about itself; becomes the key ``self``.

    Returns
    -------
    dict
        JSON-safe; see the page of this package for each key with formula, unit and source.
    """
    jobs = records.jobs
    summary: dict[str, Any] = json_safe(
        {
            "schema_version": SCHEMA_VERSION,
            "scenario": scenario,
            "seed": seed,
            "technique": technique,
            "jobs": job_counts(jobs),
            **_per_job(jobs, tau),
            "queue_length": queue_length(jobs),
            "makespan": makespan(jobs),
            "makespan_from_submit": makespan_from_submit(jobs),
            "utilization": utilization(records),
            "throughput": throughput(jobs),
            "loops": loop_metrics(records.loops),
            "coordination": coordination_metrics(records),
            "self": dict(measured or {}),
        }
    )
    return summary


def json_safe(value: Any) -> Any:
    """Copy nested values into what JSON can hold: plain numbers, no NaN, no infinity (None instead)."""
    if isinstance(value, Mapping):
        return {str(key): json_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [json_safe(item) for item in value]
    if isinstance(value, np.generic):
        return json_safe(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _per_job(jobs: Jobs, tau: float) -> dict[str, Any]:
    """Aggregate what each job has one value of."""
    undefined = sum(int(np.count_nonzero(run_time(block) == 0)) for block in blocks_of(jobs))

    def bounded(some: Jobs) -> NDArray[np.float64]:
        return bounded_slowdown(some, tau)

    def per_processor(some: Jobs) -> NDArray[np.float64]:
        return per_processor_bounded_slowdown(some, tau)

    return {
        "wait_time": aggregate_jobs(jobs, wait_time),
        "response_time": aggregate_jobs(jobs, response_time),
        "slowdown": aggregate_jobs(jobs, slowdown) | {"undefined": undefined},
        "bounded_slowdown": aggregate_jobs(jobs, bounded) | {"tau": tau},
        "per_processor_bounded_slowdown": aggregate_jobs(jobs, per_processor),
    }
