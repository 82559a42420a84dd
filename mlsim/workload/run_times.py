"""Run times and walltimes of synthetic jobs."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim.workload.mix import Length, Mix
from mlsim.workload.series import Scripts, Series

__all__ = ["Times", "campaign_levels", "job_times"]


_SAME_RUN_TIME = 0.3
_SPREAD = 0.08
_SLACK = (1.2, 3.0)
_WALLTIME_STEP = 600.0
_LONGER_QUEUE = 0.75
_MINUTE = 60.0
_LATE_BY = 30
_LIMIT_SHARE = 0.5  # of scripts that ask for the limit, where nothing is published

Times = tuple[Floats, Floats, Ints]
"""Run time and walltime [s] and queue of each job."""


def campaign_levels(mix: Mix, series: Series, rng: np.random.Generator) -> Floats:
    """Draw the level of run time of each campaign [s]: one from each part of its length's distribution."""
    levels = np.empty(len(series))
    for k, length in enumerate(mix.lengths):
        median = _median(length)
        for rows in _apart(mix, series, k):
            parts = (_places(mix, series, rows, rng) + rng.random(rows.size)) / max(rows.size, 1)
            levels[rows] = _quantiles(length, median, parts)
    return levels


def _apart(mix: Mix, series: Series, length: int) -> list[Ints]:
    """Return the campaigns of a length; of each class alone where scripts have levels of their own."""
    rows = np.flatnonzero(series.length == length)
    if not mix.arrivals.steady:
        return [rows]
    return [rows[series.job_class[rows] == k] for k in range(len(mix.classes))]


def _places(mix: Mix, series: Series, rows: Ints, rng: np.random.Generator) -> Ints:
    """Place campaigns in the order of their levels: those of one script beside each other, or at random."""
    if not mix.arrivals.steady:
        return rng.permutation(rows.size)
    _, script = np.unique(series.script[rows], return_inverse=True)
    of_script = rng.random(rows.size)[script]
    key = np.where(rng.random(rows.size) < mix.arrivals.steady, of_script, rng.random(rows.size))
    places: Ints = np.empty(rows.size, np.int64)
    places[np.lexsort((rng.random(rows.size), key))] = np.arange(rows.size)
    return places


def _quantiles(length: Length, median: float, parts: Floats) -> Floats:
    """Return quantiles of the lognormal distribution truncated to the length's limits [s]."""
    normal = NormalDist(float(np.log(median)), length.sigma)
    low, high = normal.cdf(float(np.log(length.low))), normal.cdf(float(np.log(length.high)))
    inside = np.clip(low + parts * (high - low), 1e-15, 1.0 - 1e-15)
    logs = np.array([normal.inv_cdf(part) for part in inside.tolist()])
    cut: Floats = np.clip(np.exp(logs), length.low, length.high)
    return cut


def _median(length: Length) -> float:
    """Find the median with which the mean is the length's."""
    parts = (np.arange(500) + 0.5) / 500

    def too_low(log_median: float) -> bool:
        return bool(_quantiles(length, float(np.exp(log_median)), parts).mean() < length.mean)

    return float(np.exp(_edge(too_low, float(np.log(length.low)) - 2.0, float(np.log(length.high)) + 2.0)))


def _edge(is_low: Callable[[float], bool], low: float, high: float) -> float:
    """Find where a condition that holds for small values ends."""
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return low


def job_times(
    mix: Mix, series: Series, scripts: Scripts, levels: Floats, row: Ints, rng: np.random.Generator
) -> Times:
    """Draw run time, walltime and queue of each job.

    Parameters
    ----------
    mix, series, scripts
        The campaigns.
    levels
        Of each campaign.
    row
        The campaign of each job.
    rng
        Where randomness comes from.
    """
    run_time = _run_times(mix, series, levels, row, rng)
    longest = np.zeros(len(series))
    np.maximum.at(longest, row, run_time)
    limits = np.array([queue.limit for queue in mix.queues])
    queue = np.maximum(np.searchsorted(limits, longest), rng.random(len(series)) < _LONGER_QUEUE)
    limit = limits[queue]
    slack = rng.uniform(*_SLACK, len(series))
    needed = np.minimum(np.ceil(longest * slack / _WALLTIME_STEP) * _WALLTIME_STEP, limit)
    late = _late(mix, series, levels, rng)
    minutes = np.floor(levels / _MINUTE) * _MINUTE
    run_time = np.where(late[row], minutes[row] + rng.integers(1, _LATE_BY, row.size), run_time)

    # The script at the edge of the share asks for the limit in some of its campaigns.
    rank = scripts.rank[series.script] + rng.random(len(series)) / len(scripts.rank)

    def asked(share: float) -> Floats:
        walltime = np.where(rank < share, limit, needed)
        return np.where(late, minutes, walltime)[row]

    def too_right(share: float) -> bool:
        return bool(np.abs(asked(share) - run_time).mean() < (mix.walltime_error or 0.0))

    share = _LIMIT_SHARE if mix.walltime_error is None else _edge(too_right, 0.0, 1.0)
    return run_time, asked(share), queue[row]


def _run_times(mix: Mix, series: Series, levels: Floats, row: Ints, rng: np.random.Generator) -> Floats:
    """Draw run times around each campaign's level: whole seconds inside the length's limits."""
    spread = np.where(rng.random(len(series)) < _SAME_RUN_TIME, 0.0, _SPREAD)
    times = levels[row] * np.exp(spread[row] * rng.standard_normal(row.size))
    low = np.array([length.low for length in mix.lengths])[series.length[row]]
    high = np.array([length.high for length in mix.lengths])[series.length[row]]
    rounded: Floats = np.clip(np.round(times), np.ceil(low), np.ceil(high) - 1.0)
    return rounded


def _late(mix: Mix, series: Series, levels: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Choose campaigns of a minute or more whose jobs run longer than their walltimes."""
    rows = rng.permutation(np.flatnonzero(levels >= _MINUTE))
    late = np.zeros(len(series), np.bool_)
    late[rows[np.cumsum(series.jobs[rows]) <= mix.late * series.jobs.sum()]] = True
    return late
