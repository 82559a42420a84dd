"""Blocks of the queue with bounds on their jobs, so that a pass examines few of them."""

from typing import Final

import numpy as np

from mlsim._jit import apart_kernel, last_bit, leaf_kernel
from mlsim.batch.columns.job_columns import ESTIMATE, KEY, MOST_UNITS, PLACES, QUEUED, SUBMIT, UNITS, Columns

BLOCK: Final = 64  # places of a block
GONE: Final = -1  # marks a place whose job has left
_SHORT: Final = 2 * BLOCK  # places up to which it takes as long to measure a block as to look at all jobs
_N_SIZES: Final = 32
OLDEST: Final = _N_SIZES
"""Row of the times of blocks, after those of sizes: the first submission of a job whose key is not -inf."""
N_BLOCK_TIMES: Final = _N_SIZES + 1

# What is known of a block: nothing; the units; all, but it may be more; all.
UNKNOWN, _ONLY_UNITS, _BOUNDS, _ALL = range(4)


def blocks_of(capacity: int) -> int:
    """Return the number of blocks for this many places: rows of them begin in different sets of a cache."""
    lines = -(-(capacity // BLOCK + 1) // 8)
    return 8 * (lines | 1)


@leaf_kernel
def _size_of(units: int) -> int:
    """Return the class of a number of units: its binary logarithm."""
    return min(last_bit(max(units, 0), 63) + 1, _N_SIZES - 1)


@leaf_kernel
def allow_for(slot: int, place: int, columns: Columns) -> None:
    """Widen the bounds of a place's block for a job that is inserted there."""
    block = place // BLOCK
    known, units, time = columns.block_known[block], columns.ints[UNITS, slot], columns.floats[ESTIMATE, slot]
    if known == UNKNOWN:
        return
    columns.block_units[block] = min(columns.block_units[block], units)
    if known == _ONLY_UNITS:
        return
    size = _size_of(units)
    while size < _N_SIZES and time < columns.block_times[size, block]:
        columns.block_times[size, block] = time
        size += 1
    if (
        columns.floats[SUBMIT, slot] < columns.block_times[OLDEST, block]
        and columns.floats[KEY, slot] > -np.inf
    ):
        columns.block_times[OLDEST, block] = columns.floats[SUBMIT, slot]


@leaf_kernel
def begin_block(place: int, columns: Columns) -> None:
    """Begin an empty block at a place."""
    columns.block_known[place // BLOCK], columns.block_units[place // BLOCK] = _ONLY_UNITS, MOST_UNITS


@leaf_kernel
def loosen(place: int, columns: Columns) -> None:
    """Mark the bounds of a block as loose: a job has left, and the others may ask for more."""
    if columns.block_known[place // BLOCK] == _ALL:
        columns.block_known[place // BLOCK] = _BOUNDS


@leaf_kernel
def forget_blocks(first: int, columns: Columns) -> None:
    """Forget the bounds of blocks from a place on."""
    for block in range(first // BLOCK, columns.counts[PLACES] // BLOCK + 1):
        columns.block_known[block] = UNKNOWN


@leaf_kernel
def knows_all(block: int, columns: Columns) -> bool:
    """Whether all bounds of a block are known."""
    return bool(columns.block_known[block] >= _BOUNDS)


@apart_kernel
def measure(block: int, columns: Columns) -> None:
    """Compute the bounds of a block: the least that its jobs ask for."""
    columns.block_known[block], columns.block_units[block] = _ALL, MOST_UNITS
    for row in range(N_BLOCK_TIMES):
        columns.block_times[row, block] = np.inf
    for place in range(block * BLOCK, min((block + 1) * BLOCK, columns.counts[PLACES])):
        if columns.queue[place] != GONE:
            allow_for(columns.queue[place], place, columns)


@leaf_kernel
def _has_none(
    block: int, free: int, beside: int, now: float, time: float, size: int, columns: Columns
) -> bool:
    """Whether bounds exclude that a job of the block is one that :func:`next_fitting` looks for."""
    known, least = columns.block_known[block], columns.block_units[block]
    if known == UNKNOWN:
        return False
    if least > free:
        return True
    return bool(known >= _BOUNDS and least > beside and not now + columns.block_times[size, block] <= time)


@apart_kernel
def next_fitting(place: int, free: int, beside: int, now: float, time: float, columns: Columns) -> int:
    """Return the place of the next job that asks for few units and ends in time, or for even fewer.

    Among the places from ``place`` on, it asks for at most ``free`` units, and ends by ``time`` (s) unless it
    asks for at most ``beside``. The result is the number of places if there is none.
    """
    end, size = columns.counts[PLACES], _size_of(free)
    while place < end:
        block = place // BLOCK
        after = min((block + 1) * BLOCK, end)
        if _has_none(block, free, beside, now, time, size, columns):
            place = after
            continue
        whole, least = place == block * BLOCK, MOST_UNITS
        while place < after:
            slot = columns.queue[place]
            if slot != GONE:
                units = columns.ints[UNITS, slot]
                least = min(least, units)
                if units <= free and (units <= beside or now + columns.floats[ESTIMATE, slot] <= time):
                    return int(place)
            place += 1
        if whole and columns.block_known[block] != _ALL:
            if columns.counts[QUEUED] > _SHORT:
                measure(block, columns)
            else:
                columns.block_units[block] = least
                columns.block_known[block] = max(columns.block_known[block], _ONLY_UNITS)
    return int(end)
