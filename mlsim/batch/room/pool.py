"""A pool of equal units as a room, and the drains that it knows of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import apart_kernel, leaf_kernel
from mlsim.batch.columns import running_jobs
from mlsim.batch.columns.job_columns import (
    EXCLUSIVE,
    FREE,
    MERGE,
    NODES,
    USED_ROWS,
    Columns,
    IntColumn,
    IntColumns,
    by_address,
)
from mlsim.batch.columns.job_table import CORES, FIRST_ROW, HELD, NUMBER, ROWS, UNITS
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE, NODE_CORES
from mlsim.batch.room.first_fit import add_free, first_fit, free_of, take_back

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


# Starting jobs


@leaf_kernel
def begin_pass(pool: Pool) -> None:
    """Forget what an earlier pass found out; there is nothing."""


@leaf_kernel
def could_start(slot: int, _now: float, columns: Columns, _pool: Pool) -> bool:
    """Whether enough units are free."""
    return bool(columns.ints[UNITS, slot] <= columns.counts[FREE])


@leaf_kernel
def find_room(slot: int, now: float, columns: Columns, pool: Pool) -> bool:
    """Whether enough units are free."""
    return could_start(slot, now, columns, pool)


@leaf_kernel
def forget_found(pool: Pool) -> None:
    """Forget the units found for a job; none are noted."""


@leaf_kernel
def hold(slot: int, now: float, columns: Columns, pool: Pool) -> None:
    """Allocate the first free units to a job."""
    if columns.rules[NODES]:
        pool.counts[HINT] = _take_nodes(slot, now, pool.counts[HINT], pool.free, pool.starts, columns, pool)
    columns.counts[FREE] -= columns.ints[UNITS, slot]


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
    first = columns.counts[USED_ROWS]
    row, taken, hint = first_fit(
        columns.ints[NUMBER, slot],
        columns.ints[UNITS, slot],
        columns.rules[EXCLUSIVE] != 0,
        columns.rules[MERGE] != 0,
        now,
        first,
        hint,
        free,
        pool.cores,
        starts,
        columns.rows,
        columns.times,
    )
    columns.counts[USED_ROWS] = row
    columns.ints[CORES, slot] = taken
    columns.ints[FIRST_ROW, slot], columns.ints[ROWS, slot] = first, row - first
    return int(hint)


# Units that come back


@leaf_kernel
def free_all(slot: int, now: float, columns: Columns, pool: Pool) -> None:
    """Free all that a job still holds."""
    if columns.rules[NODES]:
        first = columns.ints[FIRST_ROW, slot]
        for row in range(first, first + columns.ints[ROWS, slot]):
            if np.isnan(columns.times[FINISH, row]):
                take_back(row, now, pool.free, pool.cores, pool.starts, columns.rows, columns.times)
                pool.counts[HINT] = min(pool.counts[HINT], columns.rows[NODE, row])
    columns.counts[FREE] += columns.ints[HELD, slot]


@leaf_kernel
def free_row(_slot: int, row: int, now: float, columns: Columns, pool: Pool) -> int:
    """Free the nodes of one occupancy row; return the units."""
    cores = take_back(row, now, pool.free, pool.cores, pool.starts, columns.rows, columns.times)
    units = columns.rows[COUNT, row] if columns.rules[EXCLUSIVE] else cores
    columns.counts[FREE] += units
    pool.counts[HINT] = min(pool.counts[HINT], columns.rows[NODE, row])
    return int(units)


@leaf_kernel
def take_node(_slot: int, node: int, columns: Columns, pool: Pool) -> int:
    """Take a free node; return its cores."""
    cores = free_of(node, pool.free, pool.starts)
    add_free(node, 1, -cores, pool.free, pool.cores, pool.starts)
    columns.counts[FREE] -= 1
    return int(cores)


# Short jobs on what was released


@apart_kernel
def measure_part(part: NDArray[np.int64], columns: Columns, pool: Pool) -> None:
    """Count the units of what was released; what failed in the meantime is gone."""
    units = 0
    for node in range(len(part)):
        if part[node] > 0:
            part[node] = min(part[node], free_of(node, pool.free, pool.starts))
        units += int(part[node] > 0) if columns.rules[EXCLUSIVE] else part[node]
    pool.counts[PART] = units


@leaf_kernel
def find_room_in_part(slot: int, _part: NDArray[np.int64], _now: float, columns: Columns, pool: Pool) -> bool:
    """Whether a job fits on what was released."""
    return bool(columns.ints[UNITS, slot] <= min(pool.counts[PART], columns.counts[FREE]))


@apart_kernel
def hold_part(slot: int, part: NDArray[np.int64], now: float, columns: Columns, pool: Pool) -> None:
    """Allocate to a job the first units of what was released, which is updated too."""
    first = columns.counts[USED_ROWS]
    _take_nodes(slot, now, 0, part, pool.no_starts, columns, pool)
    for row in range(first, columns.counts[USED_ROWS]):
        node, count = columns.rows[NODE, row], columns.rows[COUNT, row]
        add_free(node, count, -columns.rows[NODE_CORES, row], pool.free, pool.cores, pool.starts)
    columns.counts[FREE] -= columns.ints[UNITS, slot]
    pool.counts[PART] -= columns.ints[UNITS, slot]


# The head's reservation (EASY)


@leaf_kernel
def begin_future(head: int, _now: float, columns: Columns, pool: Pool) -> None:
    """Look at what is free now."""
    pool.counts[EXTRA] = columns.counts[FREE] - columns.ints[UNITS, head]


@leaf_kernel
def head_fits(_head: int, _columns: Columns, pool: Pool) -> bool:
    """Whether no unit is lacking."""
    return bool(pool.counts[EXTRA] >= 0)


@leaf_kernel
def let_go(slot: int, _head: int, columns: Columns, pool: Pool) -> None:
    """Expect back what a job still holds: not again what it has released early."""
    pool.counts[EXTRA] += columns.ints[HELD, slot]


@leaf_kernel
def next_change(_time: float, _now: float, _pool: Pool) -> float:
    """Return when else units come back; never."""
    return np.inf


@leaf_kernel
def go_to(_time: float, _head: int, _now: float, _columns: Columns, _pool: Pool) -> None:
    """Look at a time; nothing depends on it."""


@leaf_kernel
def most_beside(pool: Pool) -> int:
    """Return how many units the head leaves."""
    return int(pool.counts[EXTRA])


@leaf_kernel
def take_beside(slot: int, _head: int, columns: Columns, pool: Pool) -> bool:
    """Take the units of a job from what the head leaves, if that suffices."""
    fits = columns.ints[UNITS, slot] <= pool.counts[EXTRA]
    if fits:
        pool.counts[EXTRA] -= columns.ints[UNITS, slot]
    return bool(fits)


@leaf_kernel
def fits_beside(slot: int, _head: int, columns: Columns, pool: Pool) -> bool:
    """Whether what the head leaves suffices for a job."""
    return bool(columns.ints[UNITS, slot] <= pool.counts[EXTRA])


# The profile


@leaf_kernel
def open_profile(segment: int, columns: Columns, _pool: Pool) -> None:
    """Begin with what is free now."""
    running_jobs.open_profile(segment, columns)


@leaf_kernel
def copy_segment(segment: int, source: int, columns: Columns, _pool: Pool) -> None:
    """Have as many units free in a segment as in another."""
    running_jobs.copy_segment(segment, source, columns)


@leaf_kernel
def expect_held(slot: int, segment: int, columns: Columns, _pool: Pool) -> None:
    """Expect back in a segment what a job still holds."""
    running_jobs.expect_held(slot, segment, columns)


@leaf_kernel
def n_drains(_pool: Pool) -> int:
    """Return how many announced drains there are; a pool cannot plan around any."""
    return 0


@leaf_kernel
def drain_begin(_drain: int, now: float, _pool: Pool) -> float:
    """Return when a drain begins; there is none."""
    return now


@leaf_kernel
def drain_end(_drain: int, now: float, _pool: Pool) -> float:
    """Return when a drain ends; there is none."""
    return now


@leaf_kernel
def shut_segment(_drain: int, _segment: int, _columns: Columns, _pool: Pool) -> None:
    """Free nothing of a drain's nodes in a segment; there is none."""


@leaf_kernel
def open_window(_segment: int, _pool: Pool) -> None:
    """Begin a stretch of the profile; every segment is looked at by itself."""


@leaf_kernel
def narrow_window(_segment: int, _pool: Pool) -> bool:
    """Add a segment to the stretch; every segment is looked at by itself, so that it may have less."""
    return True


@leaf_kernel
def fits_window(slot: int, segment: int, columns: Columns, _pool: Pool) -> bool:
    """Whether a job fits in the last segment of the stretch."""
    return running_jobs.fits_segment(slot, segment, columns)


@leaf_kernel
def fits_segment(slot: int, segment: int, columns: Columns, _pool: Pool) -> bool:
    """Whether a job fits in a segment."""
    return running_jobs.fits_segment(slot, segment, columns)


@leaf_kernel
def place_in_window(_slot: int, _columns: Columns, _pool: Pool) -> bool:
    """Find units throughout the stretch; any will do."""
    return True


@leaf_kernel
def place_at_once(_slot: int, _columns: Columns, _pool: Pool) -> bool:
    """Find units for a start now; any will do."""
    return True


@leaf_kernel
def change_segments(slot: int, first: int, last: int, sign: int, columns: Columns, _pool: Pool) -> None:
    """Add the units of a job to segments (sign 1), or take them (-1)."""
    running_jobs.change_segments(slot, first, last, sign, columns)


@leaf_kernel
def is_sound(segment: int, columns: Columns, _pool: Pool) -> bool:
    """Whether a segment is non-negative."""
    return running_jobs.is_sound(segment, columns)


@leaf_kernel
def counts_units(_pool: Pool) -> bool:
    """Whether reservations count units; that is all there is."""
    return True


@leaf_kernel
def counts_only_units(_pool: Pool) -> bool:
    """Whether units are all that jobs ask for."""
    return True


@leaf_kernel
def asked(slot: int, columns: Columns, _pool: Pool) -> int:
    """Return the units that a job asks for."""
    return int(columns.ints[UNITS, slot])


@leaf_kernel
def keeps_profile(_pool: Pool) -> bool:
    """Whether the profile may be kept from pass to pass."""
    return True


@leaf_kernel
def fits_less_in_less(_pool: Pool) -> bool:
    """Whether a job that does not fit does not fit in less either."""
    return True


@leaf_kernel
def keep_plan(_slot: int, _pool: Pool) -> None:
    """Store which units a job has reserved; any will do."""


@leaf_kernel
def is_planned(_slot: int, _pool: Pool) -> bool:
    """Whether the units found are those that a job has reserved; any will do."""
    return True


@leaf_kernel
def bring_plan(_slot: int, _pool: Pool) -> None:
    """Bring back which units a job has reserved; any will do."""


@leaf_kernel
def plan_holds(_pool: Pool) -> bool:
    """Whether the units of a reservation are in use; any will do."""
    return True


@leaf_kernel
def place_reserved(_slot: int, _columns: Columns, _pool: Pool) -> None:
    """Find the units that a job has reserved; any will do."""


@leaf_kernel
def is_free_now(slot: int, columns: Columns, _pool: Pool) -> bool:
    """Whether enough units are free for a job that starts as it has reserved."""
    return bool(columns.ints[UNITS, slot] <= columns.counts[FREE])


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
