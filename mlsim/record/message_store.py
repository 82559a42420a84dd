"""Coordination messages: kept as they are sent, in an unnamed file where they are many, then sorted."""

import tempfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, NDArray
from mlsim.errors import OutputError
from mlsim.record.column_types import HELD_ROWS, column, let_go, stored_columns
from mlsim.record.record_tables import Messages

_BLOCK_ROWS = 1 << 16
_SAMPLED = 64
"""Of so many messages of a block one is sampled, by whose times the messages are divided for sorting."""
_TYPES = {stored.field: np.dtype(stored.dtype) for stored in stored_columns(Messages)}
_TIED = tuple(reversed(("job", "kind", "node", "nodes", "for_job", "remaining_iterations", "remaining_work")))
"""Columns that order messages sent at one time, the last one first."""

Block = dict[str, NDArray[Any]]


class MessageStore:
    """Messages of any order, given back in order of sending; about ``held_rows`` are kept in memory."""

    def __init__(self, held_rows: int = HELD_ROWS, block_rows: int = _BLOCK_ROWS) -> None:
        self._held_rows, self._block_rows = held_rows, block_rows
        self._held: list[Block] = []
        self._sizes: list[int] = []  # of the blocks that are full, those in the file first
        self._file: IO[bytes] | None = None
        self._samples: list[Floats] = []
        self._filled = 0
        self._block = self._new_block()

    def __len__(self) -> int:
        return sum(self._sizes) + self._filled

    def add(
        self,
        job: int,
        sent: Floats | float,
        received: Floats | float,
        kind: int,
        node: Ints | int = -1,
        nodes: int = 1,
        for_job: int = -1,
        remaining_iterations: Ints | int = 0,
        remaining_work: Floats | float = 0.0,
    ) -> None:
        """Add messages of a job, given by number, with the values of :class:`Messages`; raise OutputError."""
        n = node.size if isinstance(node, np.ndarray) else 1
        if self._filled + n > len(self._block["job"]):
            self._keep()
            if n > len(self._block["job"]):
                self._block = self._new_block(n)
        rows, block = slice(self._filled, self._filled + n), self._block
        block["job"][rows], block["sent"][rows], block["received"][rows] = job, sent, received
        block["kind"][rows], block["node"][rows], block["nodes"][rows] = kind, node, nodes
        block["for_job"][rows], block["remaining_iterations"][rows] = for_job, remaining_iterations
        block["remaining_work"][rows] = remaining_work
        self._filled += n

    def table(self) -> Messages:
        """Return all messages by (sent, job, kind, node, ...)."""
        self._keep()
        n = len(self)
        table = {name: column((n,), kind) for name, kind in _TYPES.items()}
        times = np.sort(np.concatenate(self._samples)) if self._samples else np.empty(0)
        bounds = times[:: max(4 * _BLOCK_ROWS // _SAMPLED, 1)][1:]  # the parts that are sorted by themselves
        counts = np.zeros(len(bounds) + 1, np.int64)
        for block in self._blocks():
            counts += np.bincount(_parts(bounds, block), minlength=len(counts))
        ends = np.cumsum(counts)
        places = ends - counts
        for block in self._blocks():
            parts = _parts(bounds, block)
            order = np.argsort(parts, kind="stable")
            found, at = np.unique(parts[order], return_index=True)
            for part, rows in zip(found.tolist(), np.split(order, at[1:]), strict=True):
                to = slice(int(places[part]), int(places[part]) + len(rows))
                places[part] = to.stop
                for name, values in table.items():
                    values[to] = block[name][rows]
            let_go(*table.values())
        self._held, self._file = [], None
        for first, end in zip((ends - counts).tolist(), ends.tolist(), strict=True):
            _sort({name: values[first:end] for name, values in table.items()})
            let_go(*table.values())
        return Messages(**table)

    def _new_block(self, rows: int = 0) -> Block:
        return {name: np.empty(rows or self._block_rows, kind) for name, kind in _TYPES.items()}

    def _keep(self) -> None:
        """Keep the messages of the current block, and begin the next one."""
        rows, self._filled = self._filled, 0
        if not rows:
            return
        self._samples.append(self._block["sent"][:rows:_SAMPLED].copy())
        if self._file is None and sum(self._sizes) + rows > self._held_rows:
            self._open_file()
        self._sizes.append(rows)
        if self._file is None:
            self._held.append({name: values[:rows] for name, values in self._block.items()})
        else:
            self._write(self._file, {name: values[:rows] for name, values in self._block.items()})
        if self._file is None or len(self._block["job"]) != self._block_rows:
            self._block = self._new_block()

    def _blocks(self) -> Iterator[Block]:
        """Yield all messages in blocks, as they were added."""
        yield from self._held
        if self._file is not None:
            self._file.seek(0)
            for rows in self._sizes:
                yield {
                    name: np.frombuffer(self._file.read(rows * kind.itemsize), kind)
                    for name, kind in _TYPES.items()
                }

    def _open_file(self) -> None:
        """Open an unnamed file, which is gone with the process, and move what is in memory into it."""
        try:
            self._file = tempfile.TemporaryFile(prefix="mlsim-")  # noqa: SIM115 - open while the store is
        except OSError as error:
            raise _no_room(error) from error
        for block in self._held:
            self._write(self._file, block)
        self._held = []

    @staticmethod
    def _write(file: IO[bytes], block: Block) -> None:
        try:
            for values in block.values():
                file.write(values.data)
            file.flush()
        except OSError as error:
            raise _no_room(error) from error


def _parts(bounds: Floats, block: Block) -> Ints:
    """Return the part of all messages that each one of a block belongs to."""
    return np.searchsorted(bounds, block["sent"], side="right")


def _sort(block: Block) -> None:
    """Sort messages by time of sending; those of one time by the other columns."""
    order = np.argsort(block["sent"], kind="stable")
    sent = block["sent"][order]
    same = sent[1:] == sent[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(tied):
        rows = order[tied]
        order[tied] = rows[np.lexsort([*(block[name][rows] for name in _TIED), block["sent"][rows]])]
    for values in block.values():
        values[:] = values[order]


def _no_room(error: OSError) -> OutputError:
    reason = error.strerror or error
    return OutputError(
        f"{tempfile.gettempdir()}: no room for coordination messages until they are written: {reason}; set "
        "TMPDIR to a directory with more"
    )
