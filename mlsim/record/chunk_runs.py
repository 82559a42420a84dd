"""Compiled writing of runs of chunks: blocks of rows in order, in few bytes.

A run is a head and then one column after the other, each from a whole word of 8 bytes on. Times have 8
bytes a value. Whole numbers are kept as what is above the least of the run, in 8, 4, 2 or 1 bytes, or none
where all are equal: chunks of a block are close to each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim._jit import inner_kernel, kernel
from mlsim.record.tables import Int32s

__all__ = [
    "HEAD",
    "LARGEST_SIZE",
    "LEAST",
    "PE",
    "ROWS",
    "SIZE",
    "WIDTH",
    "Memory",
    "in_views",
    "most_words",
    "pack",
]

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
    """Return how many words a run of so many rows takes at most."""
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
