"""Speeds and absences of the PEs of one loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim._jit import inner_kernel
from mlsim.coordination import NodeSet
from mlsim.platform import Perturbations


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


def loop_perturbation(
    perturbations: Perturbations,
    nodes: NodeSet,
    node_of_pe: NDArray[np.int64],
    start: float,
    end: float,
) -> Perturbation:
    """Return the slow-downs that a loop's PEs meet.

    Parameters
    ----------
    perturbations
        Those of the machine.
    nodes
        The nodes of the loop.
    node_of_pe
        For each PE the index of its node in ``nodes``.
    start
        When the loop starts, in s of simulated time; times of the result count from then.
    end
        Slow-downs that begin from then on, in s of simulated time, are left out.

    Returns
    -------
    Perturbation
        One row for each node, in the order of ``nodes``.
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

    A PE that would ask at a time in [begin, end) asks at ``end`` instead; where that is infinity it has
    left. What it has in hand, or has asked for before, it executes.

    Attributes
    ----------
    entries
        int64[P + 1]: spans ``entries[p]`` to ``entries[p + 1] - 1`` belong to PE p; one 0 where nobody
        ever leaves.
    begin, end
        float64[m]: rising within a PE, apart from each other.
    """

    entries: Ints
    begin: Floats
    end: Floats


def always_available() -> Unavailability:
    """Return that every PE is there all the time."""
    return Unavailability(np.zeros(1, np.int64), np.empty(0), np.empty(0))


def unavailability_of(node_of_pe: Ints, spans: Sequence[Sequence[tuple[float, float]]]) -> Unavailability:
    """Return the intervals of PEs whose nodes leave and come back at these times.

    Parameters
    ----------
    node_of_pe
        int64[P]: index of each PE's node.
    spans
        For each node the times between which it is away.
    """
    of_pe = [spans[node] for node in node_of_pe.tolist()]
    flat = [span for own in of_pe for span in own]
    return Unavailability(
        entries=np.cumsum([0, *(len(own) for own in of_pe)], dtype=np.int64),
        begin=np.array([begin for begin, _ in flat], np.float64),
        end=np.array([end for _, end in flat], np.float64),
    )


@inner_kernel
def next_asking(time: float, pe: int, entries: Ints, begin: Floats, end: Floats) -> float:
    """Return when a PE that has nothing left to execute at ``time`` asks for a chunk [s]; infinity: never."""
    for k in range(entries[pe], entries[pe + 1]):
        if begin[k] <= time < end[k]:
            time = end[k]
    return time
