"""Speeds and absences of the PEs of one loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.coordination import NodeSet
from mlsim.platform import Perturbations


class Perturbation(NamedTuple):
    """Speed factors of each PE over time [s from the loop's start].

    Each row of the table holds the factors of one node, or of none; PEs can share a row.
    """

    slow_of_pe: Ints
    """int64[P]: row of each PE."""
    slow_index: Ints
    """int64[rows + 1]: entries ``slow_index[r]`` to ``slow_index[r + 1] - 1`` belong to row r."""
    slow_time: Floats
    """float64[m]: begin of the entry's factor, which holds until the next of its row; rising within a row.
    Times before the start of the loop are negative. Before a row's first entry the factor is 1.
    """
    slow_factor: Floats
    """float64[m], more than 0 and finite: 0.5 is half as fast."""


def none(p: int) -> Perturbation:
    """Return the perturbation under which ``p`` PEs always run at their own speed."""
    return Perturbation(np.zeros(p, np.int64), np.zeros(2, np.int64), np.empty(0), np.empty(0))


@inner_kernel
def _entries_begun(slow_time: Floats, first: int, end: int, time: float) -> int:
    """Return the first entry of ``first`` to ``end`` that begins after ``time``; ``end`` if none does."""
    while first < end:
        middle = (first + end) // 2
        if slow_time[middle] <= time:
            first = middle + 1
        else:
            end = middle
    return first


@inner_kernel
def elapsed_time(
    seconds: float,
    start: float,
    pe: int,
    slow_of_pe: Ints,
    slow_index: Ints,
    slow_time: Floats,
    slow_factor: Floats,
) -> float:
    """Return the time [s] from ``start`` in which a PE does ``seconds`` of work at its own speed."""
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
    """Return the work done under one row from 0 to each of the times (>= 0), in s at undisturbed speed."""
    index = perturbation.slow_index
    begin = perturbation.slow_time[index[row] : index[row + 1]]
    factor = np.append(1.0, perturbation.slow_factor[index[row] : index[row + 1]])
    now = np.searchsorted(begin, 0.0, side="right")
    begin, factor = np.append(0.0, begin[now:]), factor[now:]
    done = np.append(0.0, np.cumsum(np.diff(begin) * factor[:-1]))
    entry = np.searchsorted(begin, times, side="right") - 1
    progress: Floats = done[entry] + (times - begin[entry]) * factor[entry]
    return progress


def loop_perturbation(
    perturbations: Perturbations, nodes: NodeSet, node_of_pe: NDArray[np.int64], start: float, end: float
) -> Perturbation:
    """Return the slow-downs of a loop's PEs between two simulated times [s], with one row per node.

    Times of the result count from ``start``; slow-downs that begin at ``end`` or later are left out.
    """
    rows = [perturbations.steps(node, start, end) for node in nodes.node.tolist()]
    return Perturbation(
        slow_of_pe=node_of_pe,
        slow_index=np.cumsum([0, *(len(row.time) for row in rows)], dtype=np.int64),
        slow_time=np.concatenate([np.empty(0), *(row.time for row in rows)]) - start,
        slow_factor=np.concatenate([np.empty(0), *(row.factor for row in rows)]),
    )


class Unavailability(NamedTuple):
    """Intervals in which PEs request no chunks [s from the loop's start].

    A PE that would request at a time in [begin, end) requests at ``end`` instead; infinity: it has left. It
    still executes the chunks that it holds or has requested.

    Attributes
    ----------
    entries
        int64[P + 1]: spans ``entries[p]`` to ``entries[p + 1] - 1`` belong to PE p; a single 0 where all PEs
        are always available.
    begin, end
        float64[m]: rising and disjoint within a PE.
    """

    entries: Ints
    begin: Floats
    end: Floats


def always_available() -> Unavailability:
    """Return the unavailability of PEs that never leave."""
    return Unavailability(np.zeros(1, np.int64), np.empty(0), np.empty(0))


def unavailability_of(node_of_pe: Ints, spans: Sequence[Sequence[tuple[float, float]]]) -> Unavailability:
    """Return the unavailability of PEs; ``spans``: the absences (begin, end) of each node."""
    of_pe = [spans[node] for node in node_of_pe.tolist()]
    flat = [span for own in of_pe for span in own]
    return Unavailability(
        entries=np.cumsum([0, *(len(own) for own in of_pe)], dtype=np.int64),
        begin=np.array([begin for begin, _ in flat], np.float64),
        end=np.array([end for _, end in flat], np.float64),
    )


@inner_kernel
def next_asking(time: float, pe: int, entries: Ints, begin: Floats, end: Floats) -> float:
    """Return when a PE that is out of work at ``time`` requests a chunk [s]; infinity: never."""
    for k in range(entries[pe], entries[pe + 1]):
        if begin[k] <= time < end[k]:
            time = end[k]
    return time
