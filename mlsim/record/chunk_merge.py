"""Compiled merging of runs of chunks, each in order of (start, PE), into one order.

A run has one column after the other, each of its number of rows: start, requested, end, step, first, size,
PE. At the same start of the same PE, an earlier run comes first: what a PE did stays in its order.
"""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import inner_kernel, kernel, leaf_kernel
from mlsim.record.tables import Int32s

__all__ = ["heap_of", "merge"]


@kernel
def heap_of(_words: Ints, reals: Floats, halves: Int32s, at: Ints, rows: Ints, read: Ints) -> Ints:
    """Make the heap of runs that are not empty, by the next row of each.

    Parameters
    ----------
    _words, reals, halves
        The same memory as int64, float64 and int32.
    at, rows, read
        Of each run: its place in words of 8 bytes, its rows, and how many of them have been read.

    Returns
    -------
    NDArray
        The number of runs in it, and then these.
    """
    heap = np.zeros(len(at) + 1, np.int64)
    for run in range(len(at)):
        if read[run] < rows[run]:
            heap[0] += 1
            heap[heap[0]] = run
    for place in range(heap[0] // 2, 0, -1):
        _sift(reals, halves, at, rows, read, heap, place)
    return heap


@leaf_kernel
def _is_before(reals: Floats, halves: Int32s, at: Ints, rows: Ints, read: Ints, one: int, other: int) -> bool:
    """Whether the next row of a run comes before that of another."""
    start, other_start = reals[at[one] + read[one]], reals[at[other] + read[other]]
    if start != other_start:
        return bool(start < other_start)
    pe = halves[2 * (at[one] + 6 * rows[one]) + read[one]]
    other_pe = halves[2 * (at[other] + 6 * rows[other]) + read[other]]
    if pe != other_pe:
        return bool(pe < other_pe)
    return one < other


@inner_kernel
def _sift(reals: Floats, halves: Int32s, at: Ints, rows: Ints, read: Ints, heap: Ints, place: int) -> None:
    """Move a run down the heap to where it belongs."""
    while 2 * place <= heap[0]:
        child = 2 * place
        if child < heap[0] and _is_before(reals, halves, at, rows, read, heap[child + 1], heap[child]):
            child += 1
        if not _is_before(reals, halves, at, rows, read, heap[child], heap[place]):
            return
        heap[place], heap[child] = heap[child], heap[place]
        place = child


@kernel
def merge(
    words: Ints,
    reals: Floats,
    halves: Int32s,
    at: Ints,
    rows: Ints,
    read: Ints,
    heap: Ints,
    pe: Int32s,
    step: Ints,
    first: Ints,
    size: Ints,
    requested: Floats,
    start: Floats,
    end: Floats,
    filled: int,
    count: int,
) -> None:
    """Write the next ``count`` rows of all runs into columns, from row ``filled`` on.

    Parameters are those of :func:`heap_of`, and what that returns. Rows are copied in stretches: as long as
    the run with the first row is before the one with the second.
    """
    to, last = filled, filled + count
    while to < last:
        run, n, second = heap[1], rows[heap[1]], 0
        if heap[0] > 1:
            second = 2
            if heap[0] > 2 and _is_before(reals, halves, at, rows, read, heap[3], heap[2]):
                second = 3
        base = at[run]
        while True:
            row = base + read[run]
            start[to], requested[to], end[to] = reals[row], reals[row + n], reals[row + 2 * n]
            step[to], first[to], size[to] = words[row + 3 * n], words[row + 4 * n], words[row + 5 * n]
            pe[to] = halves[2 * (base + 6 * n) + read[run]]
            to += 1
            read[run] += 1
            if read[run] == n:
                heap[1] = heap[heap[0]]
                heap[0] -= 1
                break
            if to == last:
                break
            if second > 0 and _is_before(reals, halves, at, rows, read, heap[second], run):
                break
        _sift(reals, halves, at, rows, read, heap, 1)
