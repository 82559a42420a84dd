"""Metrics by week."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats
from mlsim.analysis.metrics.groups import WEEK
from mlsim.record import Jobs

__all__ = ["Weekly", "weekly"]


@dataclass(frozen=True, slots=True)
class Weekly:
    """One metric of jobs, week by week; one row a week, from the first to the last in which a job ended.

    Attributes
    ----------
    week
        The week's number; week 1 is the first of the scenario.
    count, total
        How many jobs that have the metric ended in it, and the sum of their values.
    mean
        total / count; NaN where no such job ended in it.
    cumulative_mean
        Mean over all jobs that ended by its end: Σ total / Σ count (Zrigui 2021, Fig. 4.1).
    band_low, band_high
        10th and 90th percentile, interpolated linearly, of ``mean`` over the weeks up to it: how much weeks
        differ. The source's band is over resampled workloads; one run has its weeks for samples.
    """

    week: NDArray[np.int64]
    count: NDArray[np.int64]
    total: Floats
    mean: Floats
    cumulative_mean: Floats
    band_low: Floats
    band_high: Floats


def weekly(jobs: Jobs, values: Floats) -> Weekly:
    """Gather a metric by the weeks in which jobs ended.

    Parameters
    ----------
    jobs
        Of a run.
    values
        One value a job; NaN where the metric is undefined.
    """
    ended = np.flatnonzero(~np.isnan(jobs.end_time))
    weeks = np.floor(jobs.end_time[ended] / WEEK).astype(np.int64)
    first, n = (int(weeks.min()), int(np.ptp(weeks)) + 1) if len(weeks) else (0, 0)
    mine = values[ended]
    known = ~np.isnan(mine)
    count = np.bincount(weeks[known] - first, minlength=n)
    total = np.bincount(weeks[known] - first, weights=mine[known], minlength=n).astype(np.float64)
    mean = total / _or_nan(count)
    low, high = _band(mean)
    return Weekly(
        week=np.arange(n) + first + 1,
        count=count,
        total=total,
        mean=mean,
        cumulative_mean=np.cumsum(total) / _or_nan(np.cumsum(count)),
        band_low=low,
        band_high=high,
    )


def _or_nan(count: NDArray[np.int64]) -> Floats:
    return np.where(count > 0, count, np.nan)


def _band(mean: Floats) -> tuple[Floats, Floats]:
    """Return the 10th and the 90th percentile of the known values so far."""
    band = np.full((2, len(mean)), np.nan)
    known: list[float] = []
    for week, value in enumerate(mean.tolist()):
        if value == value:
            known.append(value)
        if known:
            band[:, week] = np.percentile(known, [10, 90])
    return band[0], band[1]
