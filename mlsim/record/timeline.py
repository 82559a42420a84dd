"""How many of something there were over time: step functions from interval columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["step_function", "time_average"]

Floats = NDArray[np.float64]


def step_function(begin: ArrayLike, end: ArrayLike, weight: ArrayLike = 1.0) -> tuple[Floats, Floats]:
    """Sum the weights of the intervals [begin, end) that are open, over time.

    Parameters
    ----------
    begin, end
        Interval bounds, in seconds. Intervals of no length, or with a NaN bound, count nowhere.
    weight
        What an open interval adds: one number for all, or one an interval.

    Returns
    -------
    times, values
        Strictly increasing times, and the sum that holds from each of them to the next; the last
        value is 0. Both are empty where there is no interval.
    """
    begin, end = np.asarray(begin, np.float64), np.asarray(end, np.float64)
    weights = np.broadcast_to(np.asarray(weight, np.float64), begin.shape)
    kept = end > begin
    changes = np.concatenate([weights[kept], -weights[kept]])
    times, where = np.unique(np.concatenate([begin[kept], end[kept]]), return_inverse=True)
    deltas = np.bincount(where, weights=changes, minlength=len(times))
    return times, np.cumsum(deltas)


def time_average(times: Floats, values: Floats, begin: float, end: float) -> float:
    """Average a step function over [begin, end]; 0 where the span has no length."""
    if end <= begin or not len(times):
        return 0.0
    edges = np.clip(np.append(times, np.inf), begin, end)
    return float(np.sum(values * np.diff(edges)) / (end - begin))
