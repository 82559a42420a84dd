"""Slow-downs of the PEs during one loop, and the time that work takes under them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import inner_kernel, kernel

__all__ = ["Perturbation", "elapsed_time", "none", "work_done"]


class Perturbation(NamedTuple):
    """Speed factors of each PE over time [s from the loop's start].

    Rows of a table hold the factors of one node each, or of no node; several PEs share a row.
    """

    slow_of_pe: Ints
    """int64[P]: row of each PE."""
    slow_index: Ints
    """int64[rows + 1]: entries ``slow_index[r]`` to ``slow_index[r + 1] - 1`` belong to row r.
    """
    slow_time: Floats
    """float64[m]: from when the entry's factor holds, until the next one of its row; rising within a row.
    Times before the start of the loop are negative. Before a row's first entry the factor is 1.
    """
    slow_factor: Floats
    """float64[m], more than 0 and finite: 0.5 is half as fast."""


def none(p: int) -> Perturbation:
    """Return the perturbation under which ``p`` PEs run at their own speed all the time."""
    return Perturbation(np.zeros(p, np.int64), np.zeros(2, np.int64), np.empty(0), np.empty(0))


@inner_kernel
def _entries_begun(slow_time: Floats, first: int, end: int, time: float) -> int:
    """Return the first entry of ``first`` to ``end`` that begins after ``time``; ``end`` if there is none."""
    while first < end:
        middle = (first + end) // 2
        if slow_time[middle] <= time:
            first = middle + 1
        else:
            end = middle
    return first


@kernel
def elapsed_time(
    seconds: float,
    start: float,
    pe: int,
    slow_of_pe: Ints,
    slow_index: Ints,
    slow_time: Floats,
    slow_factor: Floats,
) -> float:
    """Return how long [s] a PE needs from ``start`` for what takes ``seconds`` at its own speed."""
    row = slow_of_pe[pe]
    first, end = slow_index[row], slow_index[row + 1]
    if first == end:
        return seconds
    entry = _entries_begun(slow_time, first, end, start)
    factor = slow_factor[entry - 1] if entry > first else 1.0
    now, left = start, seconds
    while entry < end and left > (slow_time[entry] - now) * factor:
        left -= (slow_time[entry] - now) * factor
        now, factor = slow_time[entry], slow_factor[entry]
        entry += 1
    return (now - start) + left / factor


def work_done(perturbation: Perturbation, row: int, times: Floats) -> Floats:
    """Return the work done by a time under one row, from time 0, in seconds at undisturbed speed.

    Parameters
    ----------
    perturbation
        The table.
    row
        One of its rows.
    times
        In s from the loop's start, 0 or more.
    """
    index = perturbation.slow_index
    begin = perturbation.slow_time[index[row] : index[row + 1]]
    factor = np.append(1.0, perturbation.slow_factor[index[row] : index[row + 1]])
    now = np.searchsorted(begin, 0.0, side="right")
    begin, factor = np.append(0.0, begin[now:]), factor[now:]
    done = np.append(0.0, np.cumsum(np.diff(begin) * factor[:-1]))
    entry = np.searchsorted(begin, times, side="right") - 1
    progress: Floats = done[entry] + (times - begin[entry]) * factor[entry]
    return progress
