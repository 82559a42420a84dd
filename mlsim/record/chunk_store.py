"""Chunks of many loops, kept in blocks: in memory while they are few, in an unnamed file when they are many.

An event loop gives its chunks in blocks of bounded size, each in order of (start, PE). Nodes may run ahead
of each other, so blocks of one loop overlap in time: reading merges them. What was kept is read back in
blocks as well, as often as it is asked for, so that neither side ever holds all rows.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim.errors import OutputError
from mlsim.record.columns import empty, stored_columns
from mlsim.record.growing import let_go
from mlsim.record.tables import Chunks, Int32s

__all__ = ["BLOCK_ROWS", "ChunkStore", "LoopChunks", "StoredChunks"]

HELD_ROWS = 1 << 16
"""So many rows are kept in memory."""
BLOCK_ROWS = 1 << 16
"""So many rows are simulated, and read, at a time."""
_LONG_COLUMNS = 6
"""Of 8 bytes a value; the PE has 4."""


class _Run(NamedTuple):
    """A block as it was kept: its place in words of 8 bytes, its rows, and which time step it is of.

    A run has one column after the other: start, requested, end, step, first, size, PE.
    """

    at: int
    rows: int
    time_step: int

    @property
    def end(self) -> int:
        """The first word after it."""
        return self.at + _LONG_COLUMNS * self.rows + (self.rows + 1) // 2


class _Shift(NamedTuple):
    """What is added to the rows of a time step: its begin (s), and the steps and iterations before it."""

    begin: float
    steps: int
    iterations: int


class LoopChunks:
    """The chunks of one simulated loop, given in blocks.

    Attributes
    ----------
    store
        Where they are kept.
    rows
        How many there are.
    block_rows
        So many are given at a time, at most.
    """

    def __init__(self, store: ChunkStore) -> None:
        self.store = store
        self.runs: list[_Run] = []
        self.shifts: list[_Shift] = []
        self.rows = 0
        self.block_rows = store.block_rows

    def begin_step(self, begin: float, steps: int, iterations: int) -> None:
        """Begin a time step.

        Parameters
        ----------
        begin
            When, in s from the loop's start.
        steps, iterations
            Of the time steps before it.
        """
        self.shifts.append(_Shift(begin, steps, iterations))

    def take(
        self, pe: Int32s, step: Ints, first: Ints, size: Ints, requested: Floats, start: Floats, end: Floats
    ) -> None:
        """Keep a block of the time step begun last.

        Columns are those of :class:`~mlsim.record.tables.Chunks`, in order of (start, PE), with times from
        the time step's begin. A PE's chunks come in the order in which it executed them, from block to block.

        Raises
        ------
        OutputError
            If there is no room for them.
        """
        if len(pe):
            at = self.store.keep((start, requested, end, step, first, size), pe)
            self.runs.append(_Run(at, len(pe), len(self.shifts) - 1))
            self.rows += len(pe)

    def time_steps(self) -> Iterator[tuple[list[_Run], _Shift]]:
        """Yield the runs of each time step that has chunks, and what is added to their rows."""
        first = 0
        while first < len(self.runs):
            step, last = self.runs[first].time_step, first
            while last < len(self.runs) and self.runs[last].time_step == step:
                last += 1
            yield self.runs[first:last], self.shifts[step]
            first = last

    def forget(self) -> None:
        """Forget all blocks; their room is used again if nothing was kept after them."""
        if self.runs:
            self.store.release(self.runs[0].at, self.runs[-1].end)
        self.runs, self.shifts, self.rows = [], [], 0


StartedLoop = tuple[float, int, LoopChunks]
"""When a job's loop started (s), the job, and the chunks."""


class ChunkStore:
    """Keeps the chunks of many loops, and gives them back by loop, in order of start.

    Parameters
    ----------
    held_rows
        So many rows are kept in memory, about.
    block_rows
        So many rows an event loop gives at a time.
    """

    def __init__(self, held_rows: int = HELD_ROWS, block_rows: int = BLOCK_ROWS) -> None:
        self.block_rows = block_rows
        self._most_held = (_LONG_COLUMNS + 1) * held_rows
        self._held: Ints = np.empty(0, np.int64)
        self._file: IO[bytes] | None = None
        self._used = 0
        self._mapped: Ints | None = None

    def open(self) -> LoopChunks:
        """Make room for a loop's chunks."""
        return LoopChunks(self)

    def table(self, loops: Sequence[StartedLoop]) -> Chunks:
        """Return one row a chunk of loops, by job in order of start, then by the chunks' start."""
        stored = StoredChunks(self, sorted(loops, key=lambda loop: loop[:2]))
        if stored.n_rows * (_LONG_COLUMNS + 1) > self._most_held:
            return stored
        return next(stored.blocks(max(stored.n_rows, 1)), empty(Chunks))

    def keep(self, longs: tuple[NDArray[Any], ...], pe: Int32s) -> int:
        """Keep a run; return its place."""
        at, rows = self._used, len(pe)
        end = _Run(at, rows, 0).end
        if self._file is None and end > self._most_held:
            self._file = self._open_file()
        if self._file is None:
            self._keep_in_memory(at, end, longs, pe)
        else:
            self._write(self._file, *longs, pe, np.zeros(rows % 2, np.int32))
        self._used = end
        self._mapped = None
        return at

    def release(self, first: int, end: int) -> None:
        """Use the room of runs again, if they were the last."""
        if end == self._used:
            self._used = first
            self._mapped = None
            if self._file is not None:
                self._file.seek(8 * first)

    def _keep_in_memory(self, at: int, end: int, longs: tuple[NDArray[Any], ...], pe: Int32s) -> None:
        if end > len(self._held):
            grown = np.empty(min(max(2 * len(self._held), end), self._most_held), np.int64)
            grown[:at] = self._held[:at]
            self._held = grown
        rows = len(pe)
        for column, values in enumerate(longs):
            self._held[at + column * rows : at + (column + 1) * rows] = values.view(np.int64)
        self._held.view(np.int32)[2 * (at + _LONG_COLUMNS * rows) :][:rows] = pe

    def _open_file(self) -> IO[bytes]:
        """Open an unnamed file, which is gone with the process, and move what is in memory into it."""
        try:
            file: IO[bytes] = tempfile.TemporaryFile(prefix="mlsim-", buffering=0)  # noqa: SIM115 - open while the store is
        except OSError as error:
            raise _no_room(error) from error
        self._write(file, self._held[: self._used])
        self._held = np.empty(0, np.int64)
        return file

    @staticmethod
    def _write(file: IO[bytes], *columns: NDArray[Any]) -> None:
        try:
            for values in columns:
                rest = np.ascontiguousarray(values).data.cast("B")
                while rest:  # a disk that fills up takes a part, and refuses the next
                    rest = rest[file.write(rest) :]
        except OSError as error:
            raise _no_room(error) from error

    def words(self) -> Ints:
        """Return everything kept, as words of 8 bytes."""
        if self._file is None:
            return self._held
        if self._mapped is None:
            mapped = mmap.mmap(self._file.fileno(), 8 * self._used)
            self._mapped = np.frombuffer(mapped, np.int64)
        return self._mapped


def _no_room(error: OSError) -> OutputError:
    reason = error.strerror or error
    return OutputError(
        f"{tempfile.gettempdir()}: no room for the chunks of loops until they are written: {reason}; set "
        "TMPDIR to a directory with more"
    )


class StoredChunks(Chunks):
    """Chunks that a store keeps.

    A column is read whole where it is asked for; :meth:`blocks` reads some rows at a time.

    Attributes
    ----------
    n_rows
        How many there are.
    """

    __slots__ = ("_loops", "_store", "n_rows")

    n_rows: int

    def __init__(self, store: ChunkStore, loops: Sequence[StartedLoop]) -> None:
        for name, value in (("_store", store), ("_loops", loops)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "n_rows", sum(loop.rows for _, _, loop in loops))

    def __getattribute__(self, name: str) -> Any:
        if name in _COLUMNS:
            parts = [getattr(block, name) for block in self.blocks(BLOCK_ROWS)]
            return np.concatenate(parts) if parts else np.empty(0, _COLUMNS[name])
        return object.__getattribute__(self, name)

    def blocks(self, rows: int) -> Iterator[Chunks]:
        """Yield all rows in order, so many at a time."""
        words, left = self._store.words(), self.n_rows
        block = _new_block(min(rows, left))
        filled = 0
        for began, job, loop in self._loops:
            for runs, shift in loop.time_steps():
                source = _Merged(words, runs, job, began, shift)
                while source.left:
                    filled += source.fill(block, filled)
                    if filled == len(block.job):
                        yield block
                        let_go(words)
                        left -= filled
                        block, filled = _new_block(min(rows, left)), 0


_COLUMNS = {stored.field: stored.dtype for stored in stored_columns(Chunks)}


def _new_block(rows: int) -> Chunks:
    return Chunks(**{name: np.empty(rows, dtype) for name, dtype in _COLUMNS.items()})


class _Merged:
    """The rows of one time step of a loop, read in order from its runs."""

    def __init__(self, words: Ints, runs: list[_Run], job: int, began: float, shift: _Shift) -> None:
        self._words = words
        self._job, self._began, self._shift = job, began, shift
        self._at = np.array([run.at for run in runs], np.int64)
        self._rows = np.array([run.rows for run in runs], np.int64)
        self._read = np.zeros(len(runs), np.int64)
        self.left = int(self._rows.sum())
        self._heap: Ints | None = None

    def fill(self, block: Chunks, filled: int) -> int:
        """Write rows into a block behind those it has, until it is full; return how many."""
        count = min(self.left, len(block.job) - filled)
        to = slice(filled, filled + count)
        block.job[to] = self._job
        if len(self._at) == 1:
            self._copy(block, to, count)
        else:
            self._merge(block, filled, count)
        for times in (block.requested, block.start, block.end):
            times[to] += self._shift.begin
            times[to] += self._began
        if self._shift.steps or self._shift.iterations:
            block.step[to] += self._shift.steps
            block.first[to] += self._shift.iterations
        self.left -= count
        return count

    def _copy(self, block: Chunks, to: slice, count: int) -> None:
        at, rows, read = int(self._at[0]), int(self._rows[0]), int(self._read[0])
        longs = (block.start, block.requested, block.end, block.step, block.first, block.size)
        for column, values in enumerate(longs):
            begin = at + column * rows + read
            values.view(np.int64)[to] = self._words[begin : begin + count]
        begin = 2 * (at + _LONG_COLUMNS * rows) + read
        block.pe[to] = self._words.view(np.int32)[begin : begin + count]
        self._read[0] += count

    def _merge(self, block: Chunks, filled: int, count: int) -> None:
        from mlsim.record.chunk_merge import heap_of, merge

        words = self._words
        views = words, words.view(np.float64), words.view(np.int32)
        if self._heap is None:
            self._heap = heap_of(*views, self._at, self._rows, self._read)
        ints = block.step, block.first, block.size
        times = block.requested, block.start, block.end
        merge(*views, self._at, self._rows, self._read, self._heap, block.pe, *ints, *times, filled, count)
