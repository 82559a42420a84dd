"""A pool of equal units as a room, and the drains that it knows of."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from mlsim._jit import apart_kernel, leaf_kernel
from mlsim._runtime.arrays import Ints
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns import occupancy
from mlsim.batch.columns.job_columns import Columns, IntColumn, IntColumns, by_address
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE, NODE_CORES, write_rows

# Places in the array of counts: the first node that may have room; units free at the head's reservation
# beyond those that it needs; units left of what was released since the last pass.
HINT, EXTRA, PART = range(3)
N_POOL_COUNTS: Final = 3


class Pool(NamedTuple):
    """A pool of equal units. It goes with :class:`mlsim.batch.columns.job_columns.Columns`.

    There, ``counts[FREE]`` are the free units, and ``profile_free`` those expected to be free.
    """

    free: IntColumn  # free cores of the nodes of each run, at its first node
    cores: IntColumn  # all cores of each node
    starts: IntColumns  # (3, any): runs of nodes with as many cores, free and in all; occupancy.runs_of
    no_starts: IntColumns  # (3, 0): each node by itself, as what was released is counted
    counts: IntColumn


pool_at = by_address(Pool)


@leaf_kernel
def _run(node: int, n_nodes: int, starts: Ints) -> int:
    return occupancy.run_of(node, starts) if starts.shape[1] > 0 and node < n_nodes else node


@leaf_kernel
def _next(node: int, n_nodes: int, starts: Ints) -> int:
    return occupancy.next_run(node, n_nodes, starts) if starts.shape[1] > 0 else node + 1


@leaf_kernel
def free_of(node: int, pool: Pool) -> int:
    """Return the free cores of a node."""
    return int(pool.free[occupancy.run_of(node, pool.starts)])


@leaf_kernel
def add_free(node: int, count: int, more: int, pool: Pool) -> None:
    """Add ``more`` free cores, which may be negative, to each node of a stretch."""
    end = node + count
    _split(node, pool)
    if end < len(pool.free):
        _split(end, pool)
    run = node
    while run < end:
        pool.free[run] += more
        run = occupancy.next_run(run, len(pool.free), pool.starts)
    if end < len(pool.free):
        _join(end, pool)
    if node > 0:
        _join(node, pool)


@leaf_kernel
def _split(node: int, pool: Pool) -> None:
    """Begin a run at a node."""
    run = occupancy.run_of(node, pool.starts)
    if run != node:
        occupancy.begin_run(node, pool.starts)
        pool.free[node] = pool.free[run]


@leaf_kernel
def _join(node: int, pool: Pool) -> None:
    """Join the run that begins at a node to the one before, if they are alike."""
    before = occupancy.run_of(node - 1, pool.starts)
    if pool.free[before] == pool.free[node] and pool.cores[before] == pool.cores[node]:
        occupancy.join_run(node, pool.starts)


@leaf_kernel
def _end_row(row: int, now: float, columns: Columns, pool: Pool) -> int:
    """End one occupancy row and free its nodes; return the freed cores."""
    columns.times[FINISH, row] = now
    node, held, count = (columns.rows[NODE, row], columns.rows[NODE_CORES, row], columns.rows[COUNT, row])
    add_free(node, count, held, pool)
    pool.counts[HINT] = min(pool.counts[HINT], node)
    return int(held * count)


@leaf_kernel
def hold(slot: int, now: float, columns: Columns, pool: Pool) -> None:
    """Allocate the first free units to a job."""
    if columns.rules[at.NODES] and (
        columns.ints[at.NAMED, slot] == 0 or not _hold_named(slot, now, columns, pool)
    ):
        pool.counts[HINT] = _first_fit(slot, now, pool.counts[HINT], pool.free, pool.starts, columns, pool)
    columns.counts[at.FREE] -= columns.ints[at.UNITS, slot]


@leaf_kernel
def _first_fit(
    slot: int, now: float, hint: int, free: Ints, starts: Ints, columns: Columns, pool: Pool
) -> int:
    """Allocate the first free nodes, or cores, to a job that fits, and write its rows; return the new hint.

    No node before ``hint`` has room. Without ``starts``, ``free`` is what was released, and changes alone.
    """
    exclusive, merge = columns.rules[at.EXCLUSIVE] != 0, columns.rules[at.MERGE] != 0
    number, units = columns.ints[at.NUMBER, slot], columns.ints[at.UNITS, slot]
    first = columns.counts[at.USED_ROWS]
    row, taken, node = first, 0, _run(hint, len(free), starts)
    while units > 0:
        available, end = free[node], _next(node, len(free), starts)
        if available == 0 or (exclusive and available < pool.cores[node]):
            node = end
            continue
        take, count = available, min(end - node, units)
        if not exclusive:
            take = min(available, units)
            count = min(end - node, units // take)
        units -= count if exclusive else take * count
        taken += take * count
        row = write_rows(row, first, merge, number, node, count, take, 0, now, columns.rows, columns.times)
        if starts.shape[1] > 0:
            add_free(node, count, -take, pool)
        else:
            free[node] -= take
        node += count
    columns.counts[at.USED_ROWS], columns.ints[at.CORES, slot] = row, taken
    columns.ints[at.FIRST_ROW, slot], columns.ints[at.ROWS, slot] = first, row - first
    hint = _run(hint, len(free), starts)
    while hint < len(free) and free[hint] == 0:
        hint = _next(hint, len(free), starts)
    return int(hint)


@leaf_kernel
def _named_units(left: int, nodes: int, node: int, columns: Columns, pool: Pool) -> int:
    """Return the units of a job on the next of some nodes that are to hold about as many each."""
    free = free_of(node, pool)
    if columns.rules[at.EXCLUSIVE]:
        return 1 if left > 0 and free == pool.cores[node] else 0
    return int(min(free, -(-left // nodes)))


@apart_kernel
def _hold_named(slot: int, now: float, columns: Columns, pool: Pool) -> bool:
    """Allocate to a job the nodes that its log names, if they hold it, and write its rows."""
    begin, n = columns.ints[at.FIRST_NAMED, slot], columns.ints[at.NAMED, slot]
    left = columns.ints[at.UNITS, slot]
    for k in range(n):
        left -= _named_units(left, n - k, columns.named[begin + k], columns, pool)
    if left > 0:
        return False
    exclusive, merge = columns.rules[at.EXCLUSIVE] != 0, columns.rules[at.MERGE] != 0
    number, left = columns.ints[at.NUMBER, slot], columns.ints[at.UNITS, slot]
    first = columns.counts[at.USED_ROWS]
    row, taken = first, 0
    for k in range(n):
        node = columns.named[begin + k]
        units = _named_units(left, n - k, node, columns, pool)
        if units > 0:
            cores = pool.cores[node] if exclusive else units
            row = write_rows(row, first, merge, number, node, 1, cores, 0, now, columns.rows, columns.times)
            add_free(node, 1, -cores, pool)
            left -= units
            taken += cores
    columns.counts[at.USED_ROWS], columns.ints[at.CORES, slot] = row, taken
    columns.ints[at.FIRST_ROW, slot], columns.ints[at.ROWS, slot] = first, row - first
    return True


@leaf_kernel
def free_all(slot: int, now: float, columns: Columns, pool: Pool) -> None:
    """Free all that a job still holds."""
    if columns.rules[at.NODES]:
        first = columns.ints[at.FIRST_ROW, slot]
        for row in range(first, first + columns.ints[at.ROWS, slot]):
            if np.isnan(columns.times[FINISH, row]):
                _end_row(row, now, columns, pool)
    columns.counts[at.FREE] += columns.ints[at.HELD, slot]


@leaf_kernel
def free_row(_slot: int, row: int, now: float, columns: Columns, pool: Pool) -> int:
    """Free the nodes of one occupancy row; return the units."""
    _end_row(row, now, columns, pool)
    units = units_of_row(row, columns)
    columns.counts[at.FREE] += units
    return units


@leaf_kernel
def units_of_row(row: int, columns: Columns) -> int:
    """Return the units of the nodes of an occupancy row."""
    each = 1 if columns.rules[at.EXCLUSIVE] else columns.rows[NODE_CORES, row]
    return int(columns.rows[COUNT, row] * each)


@leaf_kernel
def take_node(_slot: int, node: int, columns: Columns, pool: Pool) -> int:
    """Allocate a free node; return its cores."""
    cores = free_of(node, pool)
    add_free(node, 1, -cores, pool)
    columns.counts[at.FREE] -= 1
    return int(cores)


# Short jobs on what was released


@apart_kernel
def measure_part(part: Ints, columns: Columns, pool: Pool) -> None:
    """Count the units of what was released; what failed in the meantime is gone."""
    units = 0
    for node in range(len(part)):
        if part[node] > 0:
            part[node] = min(part[node], free_of(node, pool))
        units += int(part[node] > 0) if columns.rules[at.EXCLUSIVE] else part[node]
    pool.counts[PART] = units


@leaf_kernel
def find_room_in_part(slot: int, _part: Ints, _now: float, columns: Columns, pool: Pool) -> bool:
    """Whether a job fits on what was released."""
    return bool(columns.ints[at.UNITS, slot] <= min(pool.counts[PART], columns.counts[at.FREE]))


@apart_kernel
def hold_part(slot: int, part: Ints, now: float, columns: Columns, pool: Pool) -> None:
    """Allocate to a job the first units of what was released, which is updated too."""
    first = columns.counts[at.USED_ROWS]
    _first_fit(slot, now, 0, part, pool.no_starts, columns, pool)
    for row in range(first, columns.counts[at.USED_ROWS]):
        node, count = columns.rows[NODE, row], columns.rows[COUNT, row]
        add_free(node, count, -columns.rows[NODE_CORES, row], pool)
    columns.counts[at.FREE] -= columns.ints[at.UNITS, slot]
    pool.counts[PART] -= columns.ints[at.UNITS, slot]


@dataclass(frozen=True, slots=True)
class AnnouncedDrain:
    """A drain that dispatchers know of."""

    start: float  # from when its nodes are promised to maintenance [s]
    end: float  # until when; infinity: for good
    nodes: tuple[int, ...]  # ascending
    has_begun: bool = False  # whether the nodes are out of use for it
