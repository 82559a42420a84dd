"""Chunks of many loops, kept in blocks: in memory while they are few, in an unnamed file when they are many.

An event loop gives its chunks in blocks of bounded size, each in order of (start, PE). Nodes may run ahead
of each other, so blocks of one loop overlap in time: reading merges them. What was kept is read back in
blocks as well, as often as it is asked for, so that neither side ever holds all rows.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import IO, Any, NamedTuple

import numpy as np

from mlsim._jit import inner_kernel, kernel
from mlsim._runtime.arrays import Floats, Ints, NDArray
from mlsim.errors import OutputError
from mlsim.record.column_types import empty, let_go, stored_columns
from mlsim.record.record_tables import Chunks, Int32s

HELD_ROWS = 1 << 16  # number of rows kept in memory
BLOCK_ROWS = 1 << 16  # number of rows simulated, and read, at a time
_ROW_WORDS = 7  # approximate number of words of 8 bytes per row in memory
_WIDTHS = (np.uint8, np.uint16, np.uint32)
"""Types of differences from the least of a block's whole numbers; larger ones take 8 bytes."""


class _Run(NamedTuple):
    """A block as it was kept: start, requested and end of all rows, then each column of whole numbers."""

    at: int  # place of the first word
    after: int  # place behind the last one
    rows: int
    time_step: int
    numbers: Ints  # of each column of whole numbers: its place, bytes of a number, the least, the largest


class Shift(NamedTuple):
    """Offsets added to the rows of a time step: its begin, that of its loop, and preceding counts."""

    begin: float  # s from the loop's start
    began: float  # s
    steps: int
    iterations: int


class LoopChunks:
    """Chunks of one simulated loop, added in blocks of at most ``block_rows``; ``attempt`` counts from 1."""

    def __init__(self, store: ChunkStore) -> None:
        self.store = store
        self.attempt = 1
        self.runs: list[_Run] = []
        self.shifts: list[Shift] = []
        self.rows = 0
        self.latest = np.inf  # s from the loop's start: no time is read back as a later one
        self.block_rows = store.block_rows

    def begin_step(self, begin: float, steps: int, iterations: int) -> None:
        """Begin a time step at ``begin`` [s from the loop's start], after so many steps and iterations."""
        self.shifts.append(Shift(float(begin), 0.0, steps, iterations))

    def take(
        self, pe: Int32s, step: Ints, first: Ints, size: Ints, requested: Floats, start: Floats, end: Floats
    ) -> None:
        """Store a block of the current time step.

        Columns are those of :class:`~mlsim.record.record_tables.Chunks`, with times from the begin of the
        time step. Chunks of a PE are in order of execution, within a block and from block to block. Raises
        OutputError if the disk is full.
        """
        if not len(pe):
            return
        order = order_of(start, pe)
        columns = [_words_of(times[order]) for times in (start, requested, end)]
        place, found = self.store.end + 3 * len(pe), []
        whole: tuple[NDArray[Any], ...] = pe, step, first, size
        for values in whole:
            least, largest = int(values.min()), int(values.max())
            kind = next((kind for kind in _WIDTHS if largest - least <= np.iinfo(kind).max), np.int64)
            columns.append(_words_of((values[order].astype(np.int64) - least).astype(kind)))
            found.append((place, np.dtype(kind).itemsize, least, largest))
            place += len(columns[-1])
        at, after = self.store.keep(np.concatenate(columns))
        self.runs.append(_Run(at, after, len(pe), len(self.shifts) - 1, np.array(found, np.int64)))
        self.rows += len(pe)

    def time_steps(self) -> Iterator[tuple[list[_Run], Shift]]:
        """Yield the runs of each time step that has chunks, and what is added to their rows."""
        for step, runs in groupby(self.runs, lambda run: run.time_step):
            yield list(runs), self.shifts[step]

    def forget(self) -> None:
        """Forget all blocks; their room is used again if nothing was kept after them."""
        if self.runs:
            self.store.release(self.runs[0].at, self.runs[-1].after)
        self.runs, self.shifts, self.rows = [], [], 0


def _words_of(column: NDArray[Any]) -> Ints:
    """Return a column as words of 8 bytes, the last one filled up."""
    words = np.zeros(-(-column.nbytes // 8), np.int64)
    words.view(column.dtype)[: len(column)] = column
    return words


StartedLoop = tuple[float, int, LoopChunks]  # when a job's loop started (s), the job, and the chunks


class ChunkStore:
    """Chunks of many loops, read back by loop in order of start; about ``held_rows`` are kept in memory."""

    def __init__(self, held_rows: int = HELD_ROWS, block_rows: int = BLOCK_ROWS) -> None:
        self.block_rows = block_rows
        self._held_rows = held_rows
        self._held: Ints = np.empty(0, np.int64)
        self._file: IO[bytes] | None = None
        self.end = 0
        self._mapped: Ints | None = None

    def open(self) -> LoopChunks:
        """Make room for a loop's chunks."""
        return LoopChunks(self)

    def table(self, loops: Sequence[StartedLoop]) -> Chunks:
        """Return one row per chunk of loops, which are in order, then by the chunks' start."""
        stored = StoredChunks(self, loops)
        if stored.n_rows > self._held_rows:
            return stored
        return next(stored.blocks(max(stored.n_rows, 1)), empty(Chunks))

    def keep(self, run: Ints) -> tuple[int, int]:
        """Keep words; return their place and their end."""
        at, after = self.end, self.end + len(run)
        if self._file is None and after > _ROW_WORDS * self._held_rows:
            self._file = self._open_file()
        if self._file is None:
            if after > len(self._held):
                grown = np.empty(min(max(2 * len(self._held), after), _ROW_WORDS * self._held_rows), np.int64)
                grown[:at] = self._held[:at]
                self._held = grown
            self._held[at:after] = run
        else:
            self._write(self._file, run)
        self.end, self._mapped = after, None
        return at, after

    def release(self, first: int, end: int) -> None:
        """Use the room of runs again, if they were the last."""
        if end == self.end:
            self.end, self._mapped = first, None
            if self._file is not None:
                self._file.seek(8 * first)

    def _open_file(self) -> IO[bytes]:
        """Open an unnamed file, which is gone with the process, and move what is in memory into it."""
        try:
            file: IO[bytes] = tempfile.TemporaryFile(prefix="mlsim-", buffering=0)  # noqa: SIM115 - open while the store is
        except OSError as error:
            raise _no_room(error) from error
        self._write(file, self._held[: self.end])
        self._held = np.empty(0, np.int64)
        return file

    @staticmethod
    def _write(file: IO[bytes], words: Ints) -> None:
        rest = words.data.cast("B")
        try:
            while rest:  # a disk that fills up takes a part, and refuses the next
                rest = rest[file.write(rest) :]
        except OSError as error:
            raise _no_room(error) from error

    def words(self) -> Ints:
        """Return everything kept, as words of 8 bytes."""
        if self._file is None:
            return self._held
        if self._mapped is None:
            mapped = mmap.mmap(self._file.fileno(), 8 * self.end)
            self._mapped = np.frombuffer(mapped, np.int64)
        return self._mapped


def _no_room(error: OSError) -> OutputError:
    reason = error.strerror or error
    return OutputError(
        f"{tempfile.gettempdir()}: no room for the chunks of loops until they are written: {reason}; set "
        "TMPDIR to a directory with more"
    )


class StoredChunks(Chunks):
    """Chunks in a store; access to a column reads it whole, :meth:`blocks` reads some rows at a time."""

    __slots__ = ("_columns", "_loops", "_store", "n_rows")

    n_rows: int

    def __init__(self, store: ChunkStore, loops: Sequence[StartedLoop]) -> None:
        again = any(loop.attempt > 1 for _, _, loop in loops)
        columns = [column.field for column in stored_columns(Chunks) if again or not column.optional]
        for name, value in (("_store", store), ("_loops", loops), ("_columns", columns)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "n_rows", sum(loop.rows for _, _, loop in loops))

    def __getattribute__(self, name: str) -> Any:
        if name in _COLUMNS and name not in self._columns:
            return None
        if name in _COLUMNS:
            parts = [getattr(block, name) for block in self.blocks(BLOCK_ROWS)]
            return np.concatenate(parts) if parts else np.empty(0, _COLUMNS[name])
        return object.__getattribute__(self, name)

    def sizes(self) -> tuple[int, int]:
        """Return the least and the largest size, without reading the chunks; there must be one."""
        runs = [run for _, _, loop in self._loops for run in loop.runs]
        sizes = np.array([run.numbers[-1] for run in runs])
        return int(sizes[:, 2].min()), int(sizes[:, 3].max())

    def blocks(self, rows: int) -> Iterator[Chunks]:
        """Yield all rows in order, in blocks of the given size."""
        words, left = self._store.words(), self.n_rows
        block, filled = _new_block(self._columns, min(rows, left)), 0
        for began, job, loop in self._loops:
            for runs, shift in loop.time_steps():
                shift, source = shift._replace(began=float(began)), _unread(words, runs)
                unread = sum(run.rows for run in runs)
                while unread:
                    count = min(unread, len(block.job) - filled)
                    block.job[filled : filled + count] = job
                    if block.attempt is not None:
                        block.attempt[filled : filled + count] = loop.attempt
                    merge(source, shift, Columns(*(getattr(block, name) for name in _FILLED)), filled, count)
                    for times in (block.requested, block.start, block.end) if loop.latest < np.inf else ():
                        rest = times[filled : filled + count]
                        np.minimum(rest, began + loop.latest, out=rest)
                    unread, filled = unread - count, filled + count
                    if filled == len(block.job):
                        yield block
                        let_go(words)
                        left -= filled
                        block, filled = _new_block(self._columns, min(rows, left)), 0


_COLUMNS = {stored.field: stored.dtype for stored in stored_columns(Chunks)}


def _new_block(columns: Sequence[str], rows: int) -> Chunks:
    return Chunks(**{name: np.empty(rows, _COLUMNS[name]) for name in columns})


_FEW, _MANY = 4, 200
"""Places that a row moves, on average; beyond, sorting by insertion takes longer than sorting otherwise."""


def order_of(start: Floats, pe: Int32s) -> Ints:
    """Return the order by (start, pe) of rows that are nearly sorted, or sorted in long stretches."""
    order = np.arange(len(start))
    if not _insert(order, start, pe, _FEW):
        order = np.argsort(start, kind="stable")
        if not _insert(order, start, pe, _MANY):
            order = np.lexsort((pe, start))
    return order


@kernel
def _insert(order: Ints, start: Floats, pe: Int32s, most: int) -> bool:
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


class Columns(NamedTuple):
    """Columns to be filled in, as those of :class:`~mlsim.record.record_tables.Chunks`."""

    pe: Int32s
    step: Ints
    first: Ints
    size: Ints
    requested: Floats
    start: Floats
    end: Floats


_FILLED = Columns._fields


class Unread(NamedTuple):
    """Runs with rows left, in a heap by their next row; all words, as values of each width."""

    words: Ints
    reals: Floats
    halves: NDArray[np.uint32]
    quarters: NDArray[np.uint16]
    bytes: NDArray[np.uint8]
    numbers: Ints  # of each run, as of _Run
    at: Ints
    rows: Ints
    read: Ints
    heap: Ints  # its length, then numbers of runs


def _unread(words: Ints, runs: Sequence[_Run]) -> Unread:
    halves, quarters, single = words.view(np.uint32), words.view(np.uint16), words.view(np.uint8)
    at, rows = (np.array([getattr(run, name) for run in runs], np.int64) for name in ("at", "rows"))
    read, heap = np.zeros(len(runs), np.int64), np.arange(-1, len(runs))
    heap[0] = len(runs)
    numbers, reals = np.array([run.numbers for run in runs]), words.view(np.float64)
    source = Unread(words, reals, halves, quarters, single, numbers, at, rows, read, heap)
    _build_heap(source)
    return source


@kernel
def _build_heap(source: Unread) -> None:
    for place in range(source.heap[0] // 2, 0, -1):
        _sift(source, place)


@inner_kernel
def _pe(source: Unread, run: int, row: int) -> int:
    """Return the PE of a row of a run."""
    place, width, least = source.numbers[run, 0, 0], source.numbers[run, 0, 1], source.numbers[run, 0, 2]
    if width == 1:
        return int(least + np.int64(source.bytes[8 * place + row]))
    if width == 2:
        return int(least + np.int64(source.quarters[4 * place + row]))
    return int(least + np.int64(source.halves[2 * place + row]))


@inner_kernel
def _is_before(source: Unread, one: int, row: int, other: int) -> bool:
    """Whether a row of a run comes before the next one of another run."""
    mine, others = source.at[one] + row, source.at[other] + source.read[other]
    start, other_start = source.reals[mine], source.reals[others]
    if start != other_start:
        return bool(start < other_start)
    pe, other_pe = _pe(source, one, row), _pe(source, other, source.read[other])
    if pe != other_pe:
        return bool(pe < other_pe)
    return one < other


@inner_kernel
def _sift(source: Unread, place: int) -> None:
    """Move a run down the heap to where it belongs."""
    heap, read = source.heap, source.read
    while 2 * place <= heap[0]:
        child = 2 * place
        if child < heap[0]:
            right = heap[child + 1]
            if _is_before(source, right, read[right], heap[child]):
                child += 1
        lower = heap[child]
        if not _is_before(source, lower, read[lower], heap[place]):
            return
        heap[place], heap[child] = lower, heap[place]
        place = child


@kernel
def merge(source: Unread, shift: Shift, block: Columns, filled: int, count: int) -> None:
    """Write the next ``count`` rows of all runs into columns, from row ``filled`` on.

    Rows are copied in stretches: as long as the run with the first row is before the one with the second.
    """
    heap, read = source.heap, source.read
    to, last = filled, filled + count
    while to < last:
        run, second = heap[1], 0
        if heap[0] > 1:
            second = heap[2]
            if heap[0] > 2 and _is_before(source, heap[3], read[heap[3]], second):
                second = heap[3]
            second += 1
        end = min(source.rows[run], read[run] + last - to)
        if second > 0:
            end = _end_of_stretch(source, run, end, second - 1)
        _copy_rows(source, run, end, shift, block, to)
        to += end - read[run]
        read[run] = end
        if end == source.rows[run]:
            heap[1] = heap[heap[0]]
            heap[0] -= 1
        _sift(source, 1)


@inner_kernel
def _end_of_stretch(source: Unread, run: int, end: int, second: int) -> int:
    """Return the first row of a run, up to ``end``, that is not before the next one of another run."""
    if _is_before(source, run, end - 1, second):
        return end
    row = source.read[run] + 1  # the next one is before: the run is the first in the heap
    while row < end and _is_before(source, run, row, second):
        row += 1
    return int(row)


@inner_kernel
def _copy_rows(source: Unread, run: int, end: int, shift: Shift, block: Columns, to: int) -> None:
    n, begin = source.rows[run], source.read[run]
    first = source.at[run] + begin
    for row in range(end - begin):
        block.start[to + row] = (source.reals[first + row] + shift.begin) + shift.began
        block.requested[to + row] = (source.reals[first + n + row] + shift.begin) + shift.began
        block.end[to + row] = (source.reals[first + 2 * n + row] + shift.begin) + shift.began
    _copy_numbers(source, run, 0, end, 0, block.pe, to)
    _copy_numbers(source, run, 1, end, shift.steps, block.step, to)
    _copy_numbers(source, run, 2, end, shift.iterations, block.first, to)
    _copy_numbers(source, run, 3, end, 0, block.size, to)


@inner_kernel
def _copy_numbers(
    source: Unread, run: int, number: int, end: int, added: int, column: Ints | Int32s, to: int
) -> None:
    """Copy values of a column of whole numbers, up to row ``end`` of the run."""
    begin, count = source.read[run], end - source.read[run]
    place, width = source.numbers[run, number, 0], source.numbers[run, number, 1]
    least = source.numbers[run, number, 2] + added
    if width == 1:
        _widen(source.bytes, 8 * place + begin, count, least, column, to)
    elif width == 2:
        _widen(source.quarters, 4 * place + begin, count, least, column, to)
    elif width == 4:
        _widen(source.halves, 2 * place + begin, count, least, column, to)
    else:
        _widen(source.words, place + begin, count, least, column, to)


@inner_kernel
def _widen(values: NDArray[Any], begin: int, count: int, least: int, column: Ints | Int32s, to: int) -> None:
    for row in range(count):
        column[to + row] = least + np.int64(values[begin + row])
