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

from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import OutputError
from mlsim.record.column_types import empty, stored_columns
from mlsim.record.growing_arrays import let_go
from mlsim.record.record_tables import Chunks, Int32s

HELD_ROWS = 1 << 16
"""Number of rows kept in memory."""
BLOCK_ROWS = 1 << 16
"""Number of rows simulated, and read, at a time."""
_ROW_WORDS = 7
"""Approximate number of words per row in memory."""


class _Run(NamedTuple):
    """A block as it was kept: its place and its end in words of 8 bytes, its rows, and its time step."""

    at: int
    end: int
    rows: int
    time_step: int


class _Shift(NamedTuple):
    """Offsets added to the rows of a time step: its begin (s), and the steps and iterations before it."""

    begin: float
    steps: int
    iterations: int


class LoopChunks:
    """Chunks of one simulated loop, added in blocks of at most ``block_rows``; ``attempt`` counts from 1."""

    def __init__(self, store: ChunkStore) -> None:
        self.store = store
        self.attempt = 1
        self.runs: list[_Run] = []
        self.shifts: list[_Shift] = []
        self.rows = 0
        self.block_rows = store.block_rows

    def begin_step(self, begin: float, steps: int, iterations: int) -> None:
        """Begin a time step at ``begin`` [s from the loop's start], after so many steps and iterations."""
        self.shifts.append(_Shift(begin, steps, iterations))

    def take(
        self, pe: Int32s, step: Ints, first: Ints, size: Ints, requested: Floats, start: Floats, end: Floats
    ) -> None:
        """Store a block of the current time step.

        Columns are those of :class:`~mlsim.record.record_tables.Chunks`, with times from the begin of the
        time step. Chunks of a PE are in order of execution, within a block and from block to block. Raises
        OutputError if the disk is full.
        """
        if len(pe):
            place, after = self.store.keep(pe, step, first, size, requested, start, end)
            self.runs.append(_Run(place, after, len(pe), len(self.shifts) - 1))
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

    def sizes(self) -> tuple[int, int]:
        """Return the least and the largest size of its chunks; there must be one."""
        from mlsim.record.chunk_merge import LARGEST_SIZE, LEAST, SIZE

        words = self.store.words()
        least = min(int(words[run.at + LEAST + SIZE]) for run in self.runs)
        return least, max(int(words[run.at + LARGEST_SIZE]) for run in self.runs)

    def forget(self) -> None:
        """Forget all blocks; their room is used again if nothing was kept after them."""
        if self.runs:
            self.store.release(self.runs[0].at, self.runs[-1].end)
        self.runs, self.shifts, self.rows = [], [], 0


StartedLoop = tuple[float, int, LoopChunks]
"""When a job's loop started (s), the job, and the chunks."""


class ChunkStore:
    """Store of the chunks of many loops, read back by loop in order of start.

    About ``held_rows`` rows are kept in memory; an event loop adds at most ``block_rows`` at a time.
    """

    def __init__(self, held_rows: int = HELD_ROWS, block_rows: int = BLOCK_ROWS) -> None:
        self.block_rows = block_rows
        self._held_rows = held_rows
        self._held: Ints = np.empty(0, np.int64)
        self._packed: Ints = np.empty(0, np.int64)  # the run that is kept next
        self._file: IO[bytes] | None = None
        self._used = 0
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

    def keep(
        self, pe: Int32s, step: Ints, first: Ints, size: Ints, requested: Floats, start: Floats, end: Floats
    ) -> tuple[int, int]:
        """Keep rows, one or more, as a run; return its place and its end."""
        from mlsim.record.chunk_merge import in_views, most_words, order_of, pack

        if most_words(len(pe)) > len(self._packed):
            self._packed = np.empty(most_words(len(pe)), np.int64)
        order, to = order_of(start, pe), in_views(self._packed)
        run = self._packed[: pack(order, pe, step, first, size, requested, start, end, to)]
        at, after = self._used, self._used + len(run)
        if self._file is None and after > _ROW_WORDS * self._held_rows:
            self._file = self._open_file()
        if self._file is None:
            self._keep_in_memory(at, after, run)
        else:
            self._write(self._file, run)
        self._used = after
        self._mapped = None
        return at, after

    def release(self, first: int, end: int) -> None:
        """Use the room of runs again, if they were the last."""
        if end == self._used:
            self._used = first
            self._mapped = None
            if self._file is not None:
                self._file.seek(8 * first)

    def _keep_in_memory(self, at: int, after: int, run: Ints) -> None:
        if after > len(self._held):
            grown = np.empty(min(max(2 * len(self._held), after), _ROW_WORDS * self._held_rows), np.int64)
            grown[:at] = self._held[:at]
            self._held = grown
        self._held[at:after] = run

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
    """Chunks in a store, ``n_rows`` of them.

    Access to a column reads it whole; :meth:`blocks` reads some rows at a time.
    """

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
        sizes = [loop.sizes() for _, _, loop in self._loops if loop.rows]
        return min(least for least, _ in sizes), max(largest for _, largest in sizes)

    def blocks(self, rows: int) -> Iterator[Chunks]:
        """Yield all rows in order, in blocks of the given size."""
        words, left = self._store.words(), self.n_rows
        block = _new_block(self._columns, min(rows, left))
        filled = 0
        for began, job, loop in self._loops:
            for runs, shift in loop.time_steps():
                source = _Merged(words, runs, job, loop.attempt, began, shift)
                while source.left:
                    filled += source.fill(block, filled)
                    if filled == len(block.job):
                        yield block
                        let_go(words)
                        left -= filled
                        block, filled = _new_block(self._columns, min(rows, left)), 0


_COLUMNS = {stored.field: stored.dtype for stored in stored_columns(Chunks)}


def _new_block(columns: Sequence[str], rows: int) -> Chunks:
    return Chunks(**{name: np.empty(rows, _COLUMNS[name]) for name in columns})


class _Merged:
    """The rows of one time step of a loop, read in order from its runs."""

    def __init__(
        self, words: Ints, runs: list[_Run], job: int, attempt: int, began: float, shift: _Shift
    ) -> None:
        from mlsim.record.chunk_merge import Shift, heap_of, in_views

        self._job, self._attempt = job, attempt
        self._memory = in_views(words)
        self._shift = Shift(float(shift.begin), float(began), shift.steps, shift.iterations)
        self._at = np.array([run.at for run in runs], np.int64)
        self._read = np.zeros(len(runs), np.int64)
        self._heap = heap_of(self._memory, self._at, self._read)
        self.left = sum(run.rows for run in runs)

    def fill(self, block: Chunks, filled: int) -> int:
        """Write rows into a block behind those it has, until it is full; return how many."""
        from mlsim.record.chunk_merge import Columns, merge

        count = min(self.left, len(block.job) - filled)
        block.job[filled : filled + count] = self._job
        if block.attempt is not None:
            block.attempt[filled : filled + count] = self._attempt
        columns = Columns(*(getattr(block, name) for name in Columns._fields))
        merge(self._memory, self._at, self._read, self._heap, self._shift, columns, filled, count)
        self.left -= count
        return count
