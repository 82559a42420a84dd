"""A pool of equal units as a room, and the drains that it knows of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import apart_kernel, leaf_kernel
from mlsim._runtime.arrays import Ints
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import Columns, IntColumn, IntColumns, by_address
from mlsim.batch.columns.job_table import CORES, FIRST_ROW, HELD, NUMBER, ROWS, UNITS
from mlsim.batch.columns.occupancy import (
    COUNT,
    FINISH,
    NODE,
    NODE_CORES,
    begin_run,
    join_run,
    next_run,
    run_of,
    write_rows,
)

# Places in the array of counts.
HINT, EXTRA, PART = range(3)
N_POOL_COUNTS: Final = 3


class Pool(NamedTuple):
    """A pool of equal units. It goes with :class:`mlsim.batch.columns.job_columns.Columns`.

    There, ``counts[FREE]`` are the free units, and ``profile_free`` those expected to be free.

    Attributes
    ----------
    free, cores : int64
        Free cores of the nodes of each run, at its first node; all cores of each node.
    starts : int64, shape (3, any)
        Where runs of nodes begin that have as many cores, free and in all;
        :mod:`mlsim.batch.columns.occupancy`.
    no_starts : int64, shape (3, 0)
        Each node by itself, as what was released is counted.
    counts : int64
        The first node that may have room; units free at the head's reservation beyond those that it needs;
        units left of what was released since the last pass.
    """

    free: IntColumn
    cores: IntColumn
    starts: IntColumns
    no_starts: IntColumns
    counts: IntColumn


pool_at = by_address(Pool)


# First-fit on runs of nodes with as many free cores; without ``starts`` each node is a run


@leaf_kernel
def first_fit(
    job: int,
    units: int,
    exclusive: bool,
    merge: bool,
    now: float,
    first_row: int,
    hint: int,
    free: Ints,
    cores: Ints,
    starts: Ints,
    rows: Ints,
    times: NDArray[np.float64],
) -> tuple[int, int, int]:
    """Allocate the first nodes with room to a job; the caller has made sure that there are enough units.

    Units are nodes if ``exclusive``, else cores. Occupancy rows are written from ``first_row`` on; with
    ``merge``, neighbouring nodes with as many cores share one, which they cannot where nodes may be released
    one by one. No node before ``hint`` has room. Returns one past the last row, the cores taken, and the new
    hint.
    """
    row, taken, node = first_row, 0, _run(hint, len(free), starts)
    while units > 0:
        available, end = free[node], _next(node, len(free), starts)
        if available == 0 or (exclusive and available < cores[node]):
            node = end
            continue
        take, count = available, min(end - node, units)
        if not exclusive:
            take = min(available, units)
            count = min(end - node, units // take)
        units -= count if exclusive else take * count
        taken += take * count
        row = write_rows(row, first_row, merge, job, node, count, take, now, rows, times)
        if starts.shape[1] > 0:
            add_free(node, count, -take, free, cores, starts)
        else:
            free[node] -= take
        node += count
    hint = _run(hint, len(free), starts)
    while hint < len(free) and free[hint] == 0:
        hint = _next(hint, len(free), starts)
    return row, taken, hint


@leaf_kernel
def _run(node: int, n_nodes: int, starts: Ints) -> int:
    return run_of(node, starts) if starts.shape[1] > 0 and node < n_nodes else node


@leaf_kernel
def _next(node: int, n_nodes: int, starts: Ints) -> int:
    return next_run(node, n_nodes, starts) if starts.shape[1] > 0 else node + 1


@leaf_kernel
def free_of(node: int, free: Ints, starts: Ints) -> int:
    """Return the free cores of a node."""
    return int(free[run_of(node, starts)])


@leaf_kernel
def add_free(node: int, count: int, more: int, free: Ints, cores: Ints, starts: Ints) -> None:
    """Add ``more`` free cores, which may be negative, to each node of a stretch."""
    end = node + count
    _split(node, free, starts)
    if end < len(free):
        _split(end, free, starts)
    run = node
    while run < end:
        free[run] += more
        run = next_run(run, len(free), starts)
    if end < len(free):
        _join(end, free, cores, starts)
    if node > 0:
        _join(node, free, cores, starts)


@leaf_kernel
def _split(node: int, free: Ints, starts: Ints) -> None:
    """Begin a run at a node."""
    run = run_of(node, starts)
    if run != node:
        begin_run(node, starts)
        free[node] = free[run]


@leaf_kernel
def _join(node: int, free: Ints, cores: Ints, starts: Ints) -> None:
    """Join the run that begins at a node to the one before, if they are alike."""
    before = run_of(node - 1, starts)
    if free[before] == free[node] and cores[before] == cores[node]:
        join_run(node, starts)


@leaf_kernel
def end_row(
    row: int, now: float, free: Ints, cores: Ints, starts: Ints, rows: Ints, times: NDArray[np.float64]
) -> int:
    """End one occupancy row and free its nodes; return the freed cores."""
    times[FINISH, row] = now
    held, count = rows[NODE_CORES, row], rows[COUNT, row]
    add_free(rows[NODE, row], count, held, free, cores, starts)
    return int(held * count)


# Allocating, and units that come back


@leaf_kernel
def hold(slot: int, now: float, columns: Columns, pool: Pool) -> None:
    """Allocate the first free units to a job."""
    if columns.rules[at.NODES]:
        pool.counts[HINT] = _take_nodes(slot, now, pool.counts[HINT], pool.free, pool.starts, columns, pool)
    columns.counts[at.FREE] -= columns.ints[UNITS, slot]


@leaf_kernel
def _take_nodes(
    slot: int,
    now: float,
    hint: int,
    free: NDArray[np.int64],
    starts: NDArray[np.int64],
    columns: Columns,
    pool: Pool,
) -> int:
    """Allocate the first free cores to a job, none of them before the node ``hint``; return the new hint."""
    first = columns.counts[at.USED_ROWS]
    row, taken, hint = first_fit(
        columns.ints[NUMBER, slot],
        columns.ints[UNITS, slot],
        columns.rules[at.EXCLUSIVE] != 0,
        columns.rules[at.MERGE] != 0,
        now,
        first,
        hint,
        free,
        pool.cores,
        starts,
        columns.rows,
        columns.times,
    )
    columns.counts[at.USED_ROWS] = row
    columns.ints[CORES, slot] = taken
    columns.ints[FIRST_ROW, slot], columns.ints[ROWS, slot] = first, row - first
    return int(hint)


@leaf_kernel
def free_all(slot: int, now: float, columns: Columns, pool: Pool) -> None:
    """Free all that a job still holds."""
    if columns.rules[at.NODES]:
        first = columns.ints[FIRST_ROW, slot]
        for row in range(first, first + columns.ints[ROWS, slot]):
            if np.isnan(columns.times[FINISH, row]):
                end_row(row, now, pool.free, pool.cores, pool.starts, columns.rows, columns.times)
                pool.counts[HINT] = min(pool.counts[HINT], columns.rows[NODE, row])
    columns.counts[at.FREE] += columns.ints[HELD, slot]


@leaf_kernel
def free_row(_slot: int, row: int, now: float, columns: Columns, pool: Pool) -> int:
    """Free the nodes of one occupancy row; return the units."""
    cores = end_row(row, now, pool.free, pool.cores, pool.starts, columns.rows, columns.times)
    units = columns.rows[COUNT, row] if columns.rules[at.EXCLUSIVE] else cores
    columns.counts[at.FREE] += units
    pool.counts[HINT] = min(pool.counts[HINT], columns.rows[NODE, row])
    return int(units)


@leaf_kernel
def take_node(_slot: int, node: int, columns: Columns, pool: Pool) -> int:
    """Allocate a free node; return its cores."""
    cores = free_of(node, pool.free, pool.starts)
    add_free(node, 1, -cores, pool.free, pool.cores, pool.starts)
    columns.counts[at.FREE] -= 1
    return int(cores)


# Short jobs on what was released


@apart_kernel
def measure_part(part: NDArray[np.int64], columns: Columns, pool: Pool) -> None:
    """Count the units of what was released; what failed in the meantime is gone."""
    units = 0
    for node in range(len(part)):
        if part[node] > 0:
            part[node] = min(part[node], free_of(node, pool.free, pool.starts))
        units += int(part[node] > 0) if columns.rules[at.EXCLUSIVE] else part[node]
    pool.counts[PART] = units


@leaf_kernel
def find_room_in_part(slot: int, _part: NDArray[np.int64], _now: float, columns: Columns, pool: Pool) -> bool:
    """Whether a job fits on what was released."""
    return bool(columns.ints[UNITS, slot] <= min(pool.counts[PART], columns.counts[at.FREE]))


@apart_kernel
def hold_part(slot: int, part: NDArray[np.int64], now: float, columns: Columns, pool: Pool) -> None:
    """Allocate to a job the first units of what was released, which is updated too."""
    first = columns.counts[at.USED_ROWS]
    _take_nodes(slot, now, 0, part, pool.no_starts, columns, pool)
    for row in range(first, columns.counts[at.USED_ROWS]):
        node, count = columns.rows[NODE, row], columns.rows[COUNT, row]
        add_free(node, count, -columns.rows[NODE_CORES, row], pool.free, pool.cores, pool.starts)
    columns.counts[at.FREE] -= columns.ints[UNITS, slot]
    pool.counts[PART] -= columns.ints[UNITS, slot]


@dataclass(frozen=True, slots=True)
class AnnouncedDrain:
    """A drain that dispatchers know of.

    Attributes
    ----------
    start, end
        From when and until when the nodes are promised to maintenance, in s; infinity: for good.
    nodes
        Numbers of the nodes, ascending.
    has_begun
        Whether the nodes are out of use for it.
    """

    start: float
    end: float
    nodes: tuple[int, ...]
    has_begun: bool = False
