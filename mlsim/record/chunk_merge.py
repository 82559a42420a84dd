"""Runs of chunks, written and merged in the order of (start, PE)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel, kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.record.record_tables import Int32s

_FEW, _MANY = 4, 200
"""Places that a row moves, on average; beyond, sorting by insertion takes longer than sorting otherwise."""


def order_of(start: Floats, pe: NDArray[np.int32]) -> Ints:
    """Return the order of rows by (start, pe).

    Rows are nearly sorted, or consist of long sorted stretches where nodes run ahead of each other.
    """
    order = np.arange(len(start))
    if not _insert(order, start, pe, _FEW):
        order = np.argsort(start, kind="stable")
        if not _insert(order, start, pe, _MANY):
            order = np.lexsort((pe, start))
    return order


@kernel
def _insert(order: Ints, start: Floats, pe: NDArray[np.int32], most: int) -> bool:
    """Sort rows by insertion, from an order in which those of a PE that start together are as they happened.

    Return whether that is done; where rows would move by more places than ``most``, it is not.
    """
    moves = 0
    for place in range(1, len(order)):
        row, to = order[place], place
        time, who = start[row], pe[row]
        while to > 0:
            other = order[to - 1]
            if start[other] < time or (start[other] == time and pe[other] <= who):
                break
            order[to] = other
            to -= 1
        order[to] = row
        moves += place - to
        if moves > most * (place + 16):
            return False
    return True


ROWS, LEAST, WIDTH, LARGEST_SIZE, HEAD = 0, 1, 5, 9, 10
"""Words of the head: rows, least value and width in bytes of each whole number, largest size; its length."""
PE, STEP, FIRST, SIZE = 0, 1, 2, 3
"""Whole numbers in their order."""
_TIMES, _NUMBERS = 3, 4


class Memory(NamedTuple):
    """The same memory as values of 8, 4 and 2 bytes, and of 1."""

    words: Ints
    reals: Floats
    halves: NDArray[np.uint32]
    quarters: NDArray[np.uint16]
    bytes: NDArray[np.uint8]


def in_views(words: Ints) -> Memory:
    """Return words as values of each kind."""
    return Memory(
        words, words.view(np.float64), words.view(np.uint32), words.view(np.uint16), words.view(np.uint8)
    )


def most_words(rows: int) -> int:
    """Return the maximum number of words of a run with this number of rows."""
    return HEAD + (_TIMES + _NUMBERS) * rows


@kernel
def pack(
    order: Ints,
    pe: Int32s,
    step: Ints,
    first: Ints,
    size: Ints,
    requested: Floats,
    start: Floats,
    end: Floats,
    to: Memory,
) -> int:
    """Write rows in an order as a run; return how many words it takes."""
    n = len(order)
    to.words[ROWS] = n
    _copy(start, order, to.reals, HEAD)
    _copy(requested, order, to.reals, HEAD + n)
    _copy(end, order, to.reals, HEAD + 2 * n)
    at = _put(pe, order, to, HEAD + _TIMES * n, PE)
    at = _put(step, order, to, at, STEP)
    at = _put(first, order, to, at, FIRST)
    return _put(size, order, to, at, SIZE)


@inner_kernel
def _copy(values: Floats, order: Ints, to: Floats, at: int) -> None:
    for row in range(len(order)):
        to[at + row] = values[order[row]]


@inner_kernel
def _put(values: Ints | Int32s, order: Ints, to: Memory, at: int, column: int) -> int:
    """Write a column of whole numbers; return where the next one begins."""
    least, largest = np.int64(values[0]), np.int64(values[0])
    for row in range(len(values)):
        least, largest = min(least, np.int64(values[row])), max(largest, np.int64(values[row]))
    span = np.uint64(largest - least)
    width = 8
    if span == np.uint64(0):
        width = 0
    elif span < np.uint64(1 << 8):
        width = 1
        _narrow(values, order, least, to.bytes, 8 * at)
    elif span < np.uint64(1 << 16):
        width = 2
        _narrow(values, order, least, to.quarters, 4 * at)
    elif span < np.uint64(1 << 32):
        width = 4
        _narrow(values, order, least, to.halves, 2 * at)
    else:
        _narrow(values, order, least, to.words, at)
    to.words[LEAST + column], to.words[WIDTH + column] = least, width
    if column == SIZE:
        to.words[LARGEST_SIZE] = largest
    return at + (width * len(order) + 7) // 8


@inner_kernel
def _narrow(values: Ints | Int32s, order: Ints, least: np.int64, to: NDArray[Any], at: int) -> None:
    for row in range(len(order)):
        to[at + row] = values[order[row]] - least


class Columns(NamedTuple):
    """Columns to be filled in, as those of :class:`~mlsim.record.record_tables.Chunks`."""

    pe: Int32s
    step: Ints
    first: Ints
    size: Ints
    requested: Floats
    start: Floats
    end: Floats


class Shift(NamedTuple):
    """Offsets added to rows: the begin of their time step, that of their loop, and preceding counts."""

    begin: float
    began: float
    steps: int
    iterations: int


@kernel
def heap_of(memory: Memory, at: Ints, read: Ints) -> Ints:
    """Return a heap of the runs that have unread rows, by their next row: its length, then numbers of runs.

    ``at`` and ``read`` are the place of each run in words and its number of rows read.
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
