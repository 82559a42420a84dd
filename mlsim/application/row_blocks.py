"""Chunk rows on their way out of an event loop: blocks of bounded size, each handed over when it is full."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from mlsim.application.outcome import ChunkRows

if TYPE_CHECKING:
    from mlsim.application.models.state import Rows
    from mlsim.record import LoopChunks

__all__ = ["RowBlocks", "in_order", "new_rows"]

_Full = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)


class RowBlocks:
    """The block that an event loop fills, and who takes it.

    Parameters
    ----------
    chunks
        Takes blocks.
    most
        Rows that there are at most.

    Attributes
    ----------
    rows
        What an event loop is given.
    """

    def __init__(self, chunks: LoopChunks, most: int) -> None:
        self._chunks = chunks
        self._handed_over = 0
        self._error: BaseException | None = None
        self._called: Any = _Full(self._full)  # must live as long as the event loop may call it
        # Not by ctypes.cast, which makes what it is given refer to itself.
        address = ctypes.c_void_p.from_buffer(self._called).value or 0
        self.rows = new_rows(min(most, chunks.block_rows), -np.inf, address)

    def _full(self, rows: int) -> int:
        """Take a full block. No exception can pass through compiled code: it is raised when that is done."""
        if self._error is None:
            try:
                self._take(rows)
            except BaseException as error:
                self._error = error
        return 0

    def _take(self, rows: int) -> None:
        filled = self.rows
        self._chunks.take(filled.pe[:rows], *filled.numbers[:, :rows], *filled.times[:, :rows])
        self._handed_over += rows

    def finish(self, rows: int) -> None:
        """Hand over the last block; ``rows`` is how many there were in all.

        Raises
        ------
        OutputError
            If there was no room for a block.
        """
        self._called = None  # it refers to this object: none would be freed before a search for garbage
        if self._error is None:
            self._take(rows - self._handed_over)
        if self._error is not None:
            raise self._error


def new_rows(n: int, since: float, full: int = 0) -> Rows:
    """Make room for n rows; the other parameters are fields of ``Rows``."""
    from mlsim.application.models.state import Rows

    columns = np.zeros(n, np.int32), np.zeros((3, n), np.int64), np.zeros((3, n))
    return Rows(*columns, since, full, np.zeros(3, np.int64))


def in_order(rows: Rows, n: int) -> ChunkRows:
    """Sort the first n chunk rows by (start, PE); a PE's rows of equal start stay as they happened."""
    from mlsim.record.row_order import order_of

    pe, (step, first, size), (requested, start, end) = rows.pe[:n], rows.numbers[:, :n], rows.times[:, :n]
    order = order_of(start, pe)
    columns = (np.take(column, order) for column in (pe, step, first, size, requested, start, end))
    return ChunkRows(*columns)
