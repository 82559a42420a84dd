"""Tables piece by piece: what keeps the analysis of very long runs in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from mlsim.record.growing import let_go
from mlsim.record.tables import Jobs, Occupancy

__all__ = [
    "BLOCK_ROWS",
    "LONG_ROWS",
    "blocks_of",
    "copies_of",
    "is_long",
    "let_go_of_table",
    "rows_of",
    "stays_of",
]

BLOCK_ROWS = 1 << 16
LONG_ROWS = 250_000
"""Longer tables are summed up and written piece by piece."""

Table = TypeVar("Table", Jobs, Occupancy)


def is_long(table: Jobs | Occupancy) -> bool:
    """Whether a table has so many rows that it is looked at piece by piece."""
    return n_rows(table) > LONG_ROWS


def n_rows(table: Jobs | Occupancy) -> int:
    """Rows of a table."""
    return len(table.job_id) if isinstance(table, Jobs) else len(table.job)


def rows_of(table: Table, rows: slice | np.ndarray[Any, Any]) -> Table:
    """Give some rows of a table."""
    return type(table)(**{field.name: getattr(table, field.name)[rows] for field in fields(table)})


def blocks_of(table: Table) -> Iterator[Table]:
    """Yield the rows of a table in order: all at once if it is short, else some at a time.

    The memory of a block of a long table is given back when the next one is asked for.
    """
    if not is_long(table):
        yield table
        return
    for first in range(0, n_rows(table), BLOCK_ROWS):
        yield rows_of(table, slice(first, first + BLOCK_ROWS))
        let_go_of_table(table)


def copies_of(table: Table, block_rows: int) -> Iterator[Table]:
    """Yield the rows of a table in order, so many at a time, each time as copies."""
    for first in range(0, n_rows(table), block_rows):
        rows = slice(first, first + block_rows)
        yield type(table)(**{field.name: _copy(getattr(table, field.name), rows) for field in fields(table)})


def _copy(column: np.ndarray[Any, Any], rows: slice) -> np.ndarray[Any, Any]:
    """Copy rows of a column; the system maps much more of a file than is asked for, so let go at once."""
    copied: np.ndarray[Any, Any] = column[rows].copy()
    let_go(column)
    return copied


def let_go_of_table(table: Jobs | Occupancy) -> None:
    """Give back the memory in which the columns of a table stand that are kept in files."""
    let_go(*(getattr(table, field.name) for field in fields(table)))


def stays_of(occupancy: Occupancy, block: Jobs, first: int) -> Occupancy:
    """Give the stays of some jobs alone, their jobs counted from the first of these.

    Parameters
    ----------
    occupancy
        All stays, in order of start; those of a job begin between its start and its end.
    block
        The jobs, which follow each other in the table.
    first
        Row of the first of them.
    """
    begin, end = block.start_time, block.end_time
    last = first + len(begin)
    started = ~np.isnan(begin)
    if not started.any():
        return rows_of(occupancy, slice(0, 0))
    low = int(np.searchsorted(occupancy.start, begin[started].min(), side="left"))
    high = int(np.searchsorted(occupancy.start, end[started].max(), side="right"))
    parts = []
    for at in range(low, high, BLOCK_ROWS):
        part = rows_of(occupancy, slice(at, min(at + BLOCK_ROWS, high)))
        parts.append(rows_of(part, (part.job >= first) & (part.job < last)))
        let_go_of_table(occupancy)
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(occupancy)
    }
    return Occupancy(**columns | {"job": columns["job"] - first})
