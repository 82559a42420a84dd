"""Tables in blocks, for very long runs."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, NDArray, ranges
from mlsim.record.chunk_store import BLOCK_ROWS as CHUNK_ROWS
from mlsim.record.chunk_store import StoredChunks
from mlsim.record.column_types import column, let_go, zeros
from mlsim.record.record_tables import (
    Attempts,
    Chunks,
    Jobs,
    Loops,
    Messages,
    Occupancy,
    Passes,
    Records,
    Rejections,
)

BLOCK_ROWS = 1 << 16
LONG_ROWS = 250_000  # longer tables are summed up and written piece by piece
LARGE_ROWS = 50_000  # up to here a run takes little more memory than the libraries it uses

AnyTable = TypeVar("AnyTable")
Table = TypeVar("Table", Jobs, Loops, Occupancy, Passes, Attempts, Messages)
Long = Jobs | Loops | Occupancy | Passes | Attempts | Chunks | Messages


def is_long(table: Long) -> bool:
    """Whether a table has so many rows that it is processed in blocks."""
    return n_rows(table) > LONG_ROWS


def is_large(records: Records) -> bool:
    """Whether it is worth a tenth of a second to give memory back between the steps of a run."""
    tables = (records.jobs, records.occupancy, records.passes, records.chunks)
    return max(map(n_rows, tables)) > LARGE_ROWS


def are_many(values: NDArray[Any]) -> bool:
    """Whether there are so many values that they are processed in blocks."""
    return len(values) > LONG_ROWS


def n_rows(table: Any) -> int:
    """Return the number of rows of a table of columns."""
    if isinstance(table, StoredChunks):
        return table.n_rows
    return len(getattr(table, fields(table)[0].name))


def rows_of(table: AnyTable, rows: slice | NDArray[Any]) -> AnyTable:
    """Return some rows of a table, as a table."""
    columns = _columns(table)
    return type(table)(**{name: column[rows] for name, column in columns.items()})


def _columns(table: Any) -> dict[str, NDArray[Any]]:
    """Return the columns that a table has, by name."""
    columns = {field.name: getattr(table, field.name) for field in fields(table)}
    return {name: column for name, column in columns.items() if column is not None}


def blocks_of(table: Table) -> Iterator[Table]:
    """Yield the rows of a table: all at once if it is short, else in blocks, released when read."""
    if not is_long(table):
        yield table
        return
    for first in range(0, n_rows(table), BLOCK_ROWS):
        yield rows_of(table, slice(first, first + BLOCK_ROWS))
        let_go_of_table(table)


def chunk_blocks(chunks: Chunks) -> Iterator[Chunks]:
    """Yield the chunks in order: all at once if they are few, else some at a time."""
    if isinstance(chunks, StoredChunks):
        yield from chunks.blocks(CHUNK_ROWS)
    elif not is_long(chunks):
        yield chunks
    else:
        for first in range(0, n_rows(chunks), CHUNK_ROWS):
            yield rows_of(chunks, slice(first, first + CHUNK_ROWS))


def size_range(chunks: Chunks) -> tuple[int, int] | None:
    """Return the least and the largest size of chunks; None if there are none."""
    if not n_rows(chunks):
        return None
    if isinstance(chunks, StoredChunks):
        return chunks.sizes()
    return int(chunks.size.min()), int(chunks.size.max())


def value_blocks(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield an array of values: all at once if it is short, else a block at a time."""
    if not are_many(values):
        yield values
        return
    for first in range(0, len(values), BLOCK_ROWS):
        yield values[first : first + BLOCK_ROWS]
        let_go(values)


def copies_of(table: Table, block_rows: int) -> Iterator[Table]:
    """Yield the rows of a table in order, in blocks of the given size, as copies."""
    for first in range(0, n_rows(table), block_rows):
        rows = slice(first, first + block_rows)
        columns = {}
        for name, values in _columns(table).items():
            columns[name] = values[rows].copy()
            let_go(values)  # the system maps more of a file than is read
        yield type(table)(**columns)


def let_go_of_table(table: Long) -> None:
    """Release the memory of a table's columns that are kept in files."""
    let_go(*_columns(table).values())


def sums_by_job(occupancy: Occupancy, n_jobs: int, values: Callable[[Occupancy], Floats]) -> Floats:
    """Add up for each job a value of each of its stays; in a file where there are many jobs."""
    sums = zeros(n_jobs)
    for block in blocks_of(occupancy):
        np.add.at(sums, block.job, values(block))
        let_go(sums)
    return sums


def stay_once(occupancy: Occupancy, jobs: Jobs, attempts: Attempts | None = None) -> bool:
    """Whether all stays begin with their jobs: no node has returned to a job, and no job was restarted."""
    if attempts is not None and len(attempts.job):
        return False
    return all(bool((stays.start == jobs.start_time[stays.job]).all()) for stays in blocks_of(occupancy))


def record_blocks(records: Records, block_rows: int) -> Iterator[Records]:
    """Yield the records of some jobs after the other; rows of jobs count from the first of these."""
    first, held = 0, records.occupancy
    runs = _runs_of_jobs(held, n_rows(records.jobs)) if is_long(held) else None
    for jobs in copies_of(records.jobs, block_rows):
        last = first + len(jobs.job_id)
        attempts = rows_of(records.attempts, _between(records.attempts.job, first, last))
        attempts = replace(attempts, job=attempts.job - first)
        turned_away = records.rejections
        rows = _between(turned_away.job, first, last)
        rejections = Rejections(
            turned_away.job[rows] - first, turned_away.reason[rows].copy(), turned_away.reasons
        )
        let_go(turned_away.job, turned_away.reason)
        stays = (
            _stays_of(held, jobs, attempts, first) if runs is None else _run_stays(held, *runs, first, last)
        )
        own = records.own.rows(first, last)
        steps = rows_of(records.power_steps, _between(records.power_steps.job, first, last))
        yield replace(
            records,
            jobs=jobs,
            occupancy=stays,
            attempts=attempts,
            rejections=rejections,
            own=own,
            power_steps=replace(steps, job=steps.job - first),
        )
        first = last


def _between(job: NDArray[np.int64], first: int, last: int) -> slice:
    """Find the rows of jobs from ``first`` on, before ``last``, in a column in order of jobs."""
    low, high = np.searchsorted(job, (first, last))
    return slice(int(low), int(high))


def _runs_of_jobs(occupancy: Occupancy, n_jobs: int) -> tuple[Ints, Ints] | None:
    """Return the first stay of each job and their number; None where others lie between those of a job."""
    begin, count = column((n_jobs,), np.int64), column((n_jobs,), np.int64)
    count[:] = 0
    row, runs, last = 0, 0, -1
    for stays in blocks_of(occupancy):
        at = np.flatnonzero(np.diff(stays.job, prepend=last))  # where those of another job begin
        job, lengths = stays.job[at], np.diff(at, append=len(stays.job))
        if last >= 0:
            count[last] += len(stays.job) - lengths.sum()
        begin[job] = row + at
        np.add.at(count, job, lengths)
        row, runs, last = row + len(stays.job), runs + len(job), int(stays.job[-1])
        let_go(begin, count)
    return (begin, count) if runs == np.count_nonzero(count) else None


def _run_stays(occupancy: Occupancy, begin: Ints, count: Ints, first: int, last: int) -> Occupancy:
    """Return the stays of jobs from ``first`` to before ``last``, counted from ``first``."""
    held = first + np.flatnonzero(count[first:last])
    held = held[np.argsort(begin[held])]
    low, many = begin[held], count[held]
    let_go(begin, count)
    rows = ranges(low, many)
    columns = {}
    for name, values in _columns(occupancy).items():  # the system maps more of a file than is read
        columns[name] = values[rows]
        let_go(values)
    return Occupancy(**columns | {"job": columns["job"] - first})


def _stays_of(occupancy: Occupancy, block: Jobs, attempts: Attempts, first: int) -> Occupancy:
    """Return the stays of consecutive jobs, counted from ``first``; a job has stays from start to end."""
    last = first + len(block.job_id)
    begins = np.concatenate([block.start_time, attempts.start])
    ends = np.concatenate([block.end_time, attempts.end])
    started = ~np.isnan(begins)
    if not started.any():
        return rows_of(occupancy, slice(0, 0))
    low = int(np.searchsorted(occupancy.start, begins[started].min(), side="left"))
    high = int(np.searchsorted(occupancy.start, ends[started].max(), side="right"))
    parts = []
    for at in range(low, high, BLOCK_ROWS):
        part = rows_of(occupancy, slice(at, min(at + BLOCK_ROWS, high)))
        parts.append(rows_of(part, (part.job >= first) & (part.job < last)))
        let_go_of_table(occupancy)
    if not parts:
        return rows_of(occupancy, slice(0, 0))
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (field.name for field in fields(occupancy))
        if getattr(occupancy, name) is not None
    }
    return Occupancy(**columns | {"job": columns["job"] - first})
