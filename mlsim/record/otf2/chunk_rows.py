"""The chunks of a trace, put where the pass over the rows of the trace reads them: interval after interval.

Records have them by job and time. They are read twice, a block at a time: to count those of each interval,
and to put them in their places. Where they are many, these places are in an unnamed file.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import kernel
from mlsim.record.blocks import chunk_blocks, rows_of
from mlsim.record.growing import column, let_go
from mlsim.record.otf2.content import CHUNK_FIELDS, ChunkColumns
from mlsim.record.otf2.places import PePlaces
from mlsim.record.otf2.selection import Part
from mlsim.record.tables import Chunks, Records

__all__ = ["chunks_by_interval", "nth_chunk", "row_ranges"]

_ROWS_AT_ONCE = 1 << 18
"""So many chunks are written before the memory that they took is released."""


def chunks_by_interval(
    records: Records, places: PePlaces, part: Part, intervals: int, *, asked: bool = False
) -> ChunkColumns:
    """Arrange the chunks by interval, and inside of one in order of the records, which is that of time.

    Of jobs of which nothing is shown they are left out. ``asked``: with when they were asked for.
    """
    first = np.zeros(intervals + 1, np.int64)
    for _, stay in _found(records, places, part):
        _count(stay, first)
    first = np.cumsum(first)
    rows = column((int(first[-1]), len(CHUNK_FIELDS) + asked), np.int64)
    place = first[:-1].copy()
    for block, stay in _found(records, places, part):
        if asked:
            _put_asked(stay, place, block.requested, rows)
        _put(stay, place, block.start, block.end, block.first, block.size, block.step, rows)
        let_go(rows)
    return ChunkColumns(first, rows)


def _found(records: Records, places: PePlaces, part: Part) -> Iterator[tuple[Chunks, Ints]]:
    """Yield the chunks of jobs that are shown in blocks, with the interval of each."""
    for block in chunk_blocks(records.chunks):
        if not part.shown.all():
            block = rows_of(block, part.shown[block.job])
        yield block, places.find(records.jobs, block.job, block.attempt, block.pe, block.start)


@kernel
def _count(stay: Ints, first: Ints) -> None:
    for row in range(len(stay)):
        first[stay[row] + 1] += 1


@kernel
def _put(
    stay: Ints, place: Ints, start: Floats, end: Floats, first: Ints, size: Ints, step: Ints, rows: Ints
) -> None:
    """Write chunks into the next places of their intervals, with times in ns."""
    for row in range(len(stay)):
        to = place[stay[row]]
        place[stay[row]] += 1
        rows[to, 0], rows[to, 1] = int(np.rint(start[row] * 1e9)), int(np.rint(end[row] * 1e9))
        rows[to, 2], rows[to, 3], rows[to, 4] = first[row], size[row], step[row]


@kernel
def _put_asked(stay: Ints, place: Ints, requested: Floats, rows: Ints) -> None:
    """Write when chunks were asked for into the next places of their intervals, in ns."""
    following = place.copy()
    for row in range(len(stay)):
        to = following[stay[row]]
        following[stay[row]] += 1
        rows[to, 5] = int(np.rint(requested[row] * 1e9))


def row_ranges(row_first: Ints, chunks: ChunkColumns) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows of the trace that have a bounded number of chunks, or are one row.

    Parameters
    ----------
    row_first
        The intervals of row r are ``row_first[r]`` to ``row_first[r + 1] - 1``.
    chunks
        Of all intervals.
    """
    rows = len(row_first) - 1
    if not len(chunks.rows):
        yield 0, rows
        return
    before = chunks.first[row_first]
    low = 0
    while low < rows:
        high = int(np.searchsorted(before, before[low] + _ROWS_AT_ONCE, side="right")) - 1
        high = min(max(high, low + 1), rows)
        yield low, high
        low = high


def nth_chunk(records: Records, places: PePlaces, part: Part, chunks: ChunkColumns, number: int) -> Chunks:
    """Return, as a table of one row, the chunk with a number in the order of intervals."""
    interval = int(np.searchsorted(chunks.first, number, side="right")) - 1
    left = number - int(chunks.first[interval])
    for block, stay in _found(records, places, part):
        rows = np.flatnonzero(stay == interval)
        if left < len(rows):
            return rows_of(block, slice(int(rows[left]), int(rows[left]) + 1))
        left -= len(rows)
    raise AssertionError("there are fewer chunks than were counted")
