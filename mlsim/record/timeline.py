"""Step functions over time from columns of intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from mlsim._arrays import Floats

__all__ = ["Spans", "step_function", "step_parts", "time_average"]

Spans = tuple[Floats, Floats, Floats]
"""Begin and end of intervals in s, and what each adds while it is open."""


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


def step_parts(blocks: Iterable[Spans], others: Spans) -> Iterator[tuple[Floats, Floats]]:
    """Yield the step function of very many intervals in parts; memory follows the intervals open at one time.

    Parameters
    ----------
    blocks
        Intervals, in blocks: none begins before one of an earlier block. A NaN begin stands for no interval.
    others
        More of them, in any order.

    Yields
    ------
    times, values
        As of :func:`step_function`; each part goes on where the one before ended.
    """
    waiting, value = others, 0.0
    for block in blocks:
        joined: Spans = (
            np.concatenate([waiting[0], block[0]]),
            np.concatenate([waiting[1], block[1]]),
            np.concatenate([waiting[2], block[2]]),
        )
        horizon = float(np.fmax.reduce(block[0], initial=-np.inf))
        times, deltas, waiting = _changes(joined, horizon)
        if len(times):
            values = value + np.cumsum(deltas)
            value = float(values[-1])
            yield times, values
    times, deltas, _ = _changes(waiting, np.inf)
    if len(times):
        yield times, value + np.cumsum(deltas)


def _changes(spans: Spans, horizon: float) -> tuple[Floats, Floats, Spans]:
    """Sum the changes at each time before the horizon; return the later changes too."""
    begin, end, weight = spans
    kept = end > begin
    begin, end, weight = begin[kept], end[kept], weight[kept]
    began = (begin < horizon) & (begin > -np.inf)
    ended = end < horizon
    changes = np.concatenate([weight[began], -weight[ended]])
    times, where = np.unique(np.concatenate([begin[began], end[ended]]), return_inverse=True)
    deltas = np.bincount(where, weights=changes, minlength=len(times)).astype(np.float64)
    left = ~ended
    # What has begun already begins no more.
    since = np.where(begin < horizon, -np.inf, begin)[left]
    return times, deltas, (since, end[left], weight[left])


def time_average(times: Floats, values: Floats, begin: float, end: float) -> float:
    """Average a step function over [begin, end]; 0 where the span has no length."""
    if end <= begin or not len(times):
        return 0.0
    edges = np.clip(np.append(times, np.inf), begin, end)
    return float(np.sum(values * np.diff(edges)) / (end - begin))
