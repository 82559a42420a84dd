"""Compiled merging of runs of chunks, each in order of (start, PE), into one order.

At the same start of the same PE, an earlier run comes first: what a PE did stays in its order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim._jit import inner_kernel, kernel
from mlsim.record.chunk_runs import HEAD, LEAST, PE, ROWS, WIDTH, Memory
from mlsim.record.tables import Int32s

__all__ = ["Columns", "Shift", "heap_of", "merge"]


class Columns(NamedTuple):
    """Columns to be filled in, as those of :class:`~mlsim.record.tables.Chunks`."""

    pe: Int32s
    step: Ints
    first: Ints
    size: Ints
    requested: Floats
    start: Floats
    end: Floats


class Shift(NamedTuple):
    """What is added to rows: the begin of their time step, that of their loop, and numbers before them."""

    begin: float
    began: float
    steps: int
    iterations: int


@kernel
def heap_of(memory: Memory, at: Ints, read: Ints) -> Ints:
    """Make the heap of runs that are not empty, by the next row of each.

    Parameters
    ----------
    memory
        Where they are.
    at, read
        Of each run: its place in words, and how many rows of it have been read.

    Returns
    -------
    NDArray
        The number of runs in it, and then these.
    """
    heap = np.zeros(len(at) + 1, np.int64)
    for run in range(len(at)):
        if read[run] < memory.words[at[run] + ROWS]:
            heap[0] += 1
            heap[heap[0]] = run
    for place in range(heap[0] // 2, 0, -1):
        _sift(memory, at, read, heap, place)
    return heap


@inner_kernel
def _start(memory: Memory, at: int, row: int) -> float:
    return float(memory.reals[at + HEAD + row])


@inner_kernel
def _pe(memory: Memory, at: int, row: int) -> int:
    """Return the PE of a row of the run at ``at``."""
    words = memory.words
    place, width = at + HEAD + 3 * words[at + ROWS], words[at + WIDTH + PE]
    least = words[at + LEAST + PE]
    if width == 0:
        return int(least)
    if width == 1:
        return int(least + np.int64(memory.bytes[8 * place + row]))
    if width == 2:
        return int(least + np.int64(memory.quarters[4 * place + row]))
    return int(least + np.int64(memory.halves[2 * place + row]))


@inner_kernel
def _is_before(memory: Memory, at: Ints, read: Ints, one: int, row: int, other: int) -> bool:
    """Whether a row of a run comes before the next one of another run."""
    start, other_start = _start(memory, at[one], row), _start(memory, at[other], read[other])
    if start != other_start:
        return bool(start < other_start)
    pe, other_pe = _pe(memory, at[one], row), _pe(memory, at[other], read[other])
    if pe != other_pe:
        return bool(pe < other_pe)
    return one < other


@inner_kernel
def _sift(memory: Memory, at: Ints, read: Ints, heap: Ints, place: int) -> None:
    """Move a run down the heap to where it belongs."""
    while 2 * place <= heap[0]:
        child = 2 * place
        if child < heap[0]:
            right = heap[child + 1]
            if _is_before(memory, at, read, right, read[right], heap[child]):
                child += 1
        lower = heap[child]
        if not _is_before(memory, at, read, lower, read[lower], heap[place]):
            return
        heap[place], heap[child] = lower, heap[place]
        place = child


@kernel
def merge(
    memory: Memory, at: Ints, read: Ints, heap: Ints, shift: Shift, block: Columns, filled: int, count: int
) -> None:
    """Write the next ``count`` rows of all runs into columns, from row ``filled`` on.

    Other parameters are those of :func:`heap_of`, and what that returns. Rows are copied in stretches: as
    long as the run with the first row is before the one with the second.
    """
    to, last = filled, filled + count
    while to < last:
        run, second = heap[1], 0
        if heap[0] > 1:
            second = heap[2]
            if heap[0] > 2 and _is_before(memory, at, read, heap[3], read[heap[3]], second):
                second = heap[3]
            second += 1
        rows = memory.words[at[run] + ROWS]
        end = min(rows, read[run] + last - to)
        if second > 0:
            end = _end_of_stretch(memory, at, read, run, end, second - 1)
        _copy_rows(memory, at[run], read[run], end, shift, block, to)
        to += end - read[run]
        read[run] = end
        if end == rows:
            heap[1] = heap[heap[0]]
            heap[0] -= 1
        _sift(memory, at, read, heap, 1)


@inner_kernel
def _end_of_stretch(memory: Memory, at: Ints, read: Ints, run: int, end: int, second: int) -> int:
    """Return the first row of a run, up to ``end``, that is not before the next one of another run."""
    if _is_before(memory, at, read, run, end - 1, second):
        return end
    row = read[run] + 1  # the next one is before: the run is the first in the heap
    while row < end and _is_before(memory, at, read, run, row, second):
        row += 1
    return int(row)


@inner_kernel
def _copy_rows(memory: Memory, at: int, begin: int, end: int, shift: Shift, block: Columns, to: int) -> None:
    n = memory.words[at + ROWS]
    place = at + HEAD
    _copy_times(memory.reals, place, begin, end, shift, block.start, to)
    _copy_times(memory.reals, place + n, begin, end, shift, block.requested, to)
    _copy_times(memory.reals, place + 2 * n, begin, end, shift, block.end, to)
    place = _copy_numbers(memory, at, place + 3 * n, PE, begin, end, 0, block.pe, to)
    place = _copy_numbers(memory, at, place, PE + 1, begin, end, shift.steps, block.step, to)
    place = _copy_numbers(memory, at, place, PE + 2, begin, end, shift.iterations, block.first, to)
    _copy_numbers(memory, at, place, PE + 3, begin, end, 0, block.size, to)


@inner_kernel
def _copy_times(
    reals: Floats, place: int, begin: int, end: int, shift: Shift, column: Floats, to: int
) -> None:
    for row in range(end - begin):
        column[to + row] = (reals[place + begin + row] + shift.begin) + shift.began


@inner_kernel
def _copy_numbers(
    memory: Memory,
    at: int,
    place: int,
    number: int,
    begin: int,
    end: int,
    added: int,
    column: Ints | Int32s,
    to: int,
) -> int:
    """Copy values of a column of whole numbers; return where the next one begins."""
    words = memory.words
    width, least = words[at + WIDTH + number], words[at + LEAST + number] + added
    if width == 0:
        for row in range(end - begin):
            column[to + row] = least
    elif width == 1:
        _widen(memory.bytes, 8 * place + begin, end - begin, least, column, to)
    elif width == 2:
        _widen(memory.quarters, 4 * place + begin, end - begin, least, column, to)
    elif width == 4:
        _widen(memory.halves, 2 * place + begin, end - begin, least, column, to)
    else:
        _widen(words, place + begin, end - begin, least, column, to)
    return int(place + (width * words[at + ROWS] + 7) // 8)


@inner_kernel
def _widen(values: NDArray[Any], begin: int, count: int, least: int, column: Ints | Int32s, to: int) -> None:
    for row in range(count):
        column[to + row] = least + np.int64(values[begin + row])
