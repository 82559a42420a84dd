"""Questions of order and backfilling to a room, and the steps by which jobs start and end.

A question is declared once. Its body is the answer of a pool, where counting units is enough; the decorator
names the answer of nodes by resources. The type of the room decides between them when a kernel is compiled.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mlsim._jit import apart_kernel, by_last_type, leaf_kernel
from mlsim.batch.allocators import node_arrays
from mlsim.batch.allocators.node_arrays import Nodes, nodes_at
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns import running_jobs
from mlsim.batch.columns.job_columns import Columns, IntColumn, change_room, is_profile_kept, keep_profile
from mlsim.batch.columns.occupancy import RELEASED, RELEASED_SOON, write_row
from mlsim.batch.columns.running_jobs import add_running, remove_running
from mlsim.batch.matrix import node_allocation, node_future, node_profile
from mlsim.batch.order.policies import change_rate
from mlsim.batch.room import pool
from mlsim.batch.room.pool import EXTRA, Pool, pool_at
from mlsim.scenario.policy_words import HALF_LIFE

# mypy: disable-error-code="empty-body"

Room = Pool | Nodes

F = TypeVar("F", bound=Callable[..., Any])


class PoolAddress(NamedTuple):
    """The address of a pool, for kernels."""

    place: int


class NodesAddress(NamedTuple):
    """The address of nodes, for kernels."""

    place: int


RoomAddress = PoolAddress | NodesAddress


@leaf_kernel
def _pool_of(address: PoolAddress) -> Pool:
    return pool_at(address.place)


@leaf_kernel
def _nodes_of(address: NodesAddress) -> Nodes:
    return nodes_at(address.place)


@by_last_type({PoolAddress: _pool_of, NodesAddress: _nodes_of})
def room_of(address: RoomAddress) -> Any:
    """Return the room at an address, for kernels that Python calls."""


def in_room(function: F) -> F:
    """Compile a function of a room: into its callers for a pool; beside them for nodes, with long answers."""
    return by_last_type({Pool: leaf_kernel(function), Nodes: apart_kernel(function)})(function)


def nodes_answer(answer: Callable[..., Any]) -> Callable[[F], F]:
    """Declare a question to a room whose body is the answer of a pool; ``answer`` is that of nodes."""

    def declare(function: F) -> F:
        return by_last_type({Pool: leaf_kernel(function), Nodes: answer})(function)

    return declare


# Starting jobs, and their ends


@nodes_answer(node_future.begin_pass)
def begin_pass(_room: Room) -> None:
    """Forget what an earlier pass found out."""


@nodes_answer(node_future.could_start)
def could_start(slot: int, _now: float, columns: Columns, _room: Room) -> bool:
    """Whether a job may fit now: quick, and never false for a job that fits."""
    return bool(columns.ints[at.UNITS, slot] <= columns.counts[at.FREE])


@nodes_answer(node_future.find_room)
def find_room(slot: int, _now: float, columns: Columns, _room: Room) -> bool:
    """Whether a job fits now; nodes are left placed."""
    return bool(columns.ints[at.UNITS, slot] <= columns.counts[at.FREE])


@nodes_answer(node_arrays.clear_placed)
def clear_found(_room: Room) -> None:
    """Forget the units found for a job."""


@by_last_type({Pool: pool.hold, Nodes: node_allocation.hold})
def hold(slot: int, now: float, columns: Columns, room: Room) -> None:
    """Allocate to a job the units that were found for it; write its occupancy rows."""


@by_last_type({Pool: pool.free_all, Nodes: node_allocation.free_all})
def free_all(slot: int, now: float, columns: Columns, room: Room) -> None:
    """Free all that a job still holds."""


@by_last_type({Pool: pool.free_row, Nodes: node_allocation.free_row})
def free_row(slot: int, row: int, now: float, columns: Columns, room: Room) -> int:
    """Free the nodes of one occupancy row; return the freed units."""


@by_last_type({Pool: pool.take_node, Nodes: node_allocation.take_node})
def take_node(slot: int, node: int, columns: Columns, room: Room) -> int:
    """Allocate a whole free node to a job that had released it; return its cores."""


# Short jobs on released nodes


@by_last_type({Pool: pool.measure_part, Nodes: node_future.measure_part})
def measure_part(part: IntColumn, columns: Columns, room: Room) -> None:
    """Count the units released since the last pass, for the questions about them."""


@by_last_type({Pool: pool.find_room_in_part, Nodes: node_future.find_room_in_part})
def find_room_in_part(slot: int, part: IntColumn, now: float, columns: Columns, room: Room) -> bool:
    """Whether a job fits on the released units; nodes are left placed."""


@by_last_type({Pool: pool.hold_part, Nodes: node_allocation.hold_part})
def hold_part(slot: int, part: IntColumn, now: float, columns: Columns, room: Room) -> None:
    """Allocate to a job the units found for it among the released ones, which are updated too."""


# The head's reservation (EASY): the future is the free units at a time that moves forward


@nodes_answer(node_future.begin_future)
def begin_future(head: int, _now: float, columns: Columns, room: Any) -> None:
    """Begin the future with the units that are free now."""
    room.counts[EXTRA] = columns.counts[at.FREE] - columns.ints[at.UNITS, head]


@nodes_answer(node_future.head_fits)
def head_fits(_head: int, _columns: Columns, room: Any) -> bool:
    """Whether the head fits in the future."""
    return bool(room.counts[EXTRA] >= 0)


@nodes_answer(node_future.add_ended)
def add_ended(slot: int, _head: int, columns: Columns, room: Any) -> None:
    """Add to the future the units of a running job: not again those that it has released early.

    Nodes that forecasts expect back before its end have been added by then (:func:`add_foreseen`).
    """
    room.counts[EXTRA] += columns.ints[at.HELD, slot] - columns.ints[at.SOON, slot]


@nodes_answer(node_future.add_foreseen)
def add_foreseen(_slot: int, row: int, _head: int, columns: Columns, room: Any) -> None:
    """Add to the future the node of an occupancy row, which a running job is expected to release."""
    room.counts[EXTRA] += pool.units_of_row(row, columns)


@nodes_answer(node_future.next_change)
def next_change(_time: float, _now: float, _room: Room) -> float:
    """Return the first time after another at which units come back that no job holds; infinity: never."""
    return np.inf


@nodes_answer(node_future.advance_future)
def advance_future(_time: float, _head: int, _now: float, _columns: Columns, _room: Room) -> None:
    """Move the future to a later time."""


@nodes_answer(node_future.extra_units)
def extra_units(room: Any) -> int:
    """Return the most units that a job may get without delaying the head."""
    return int(room.counts[EXTRA])


@nodes_answer(node_future.fits_with_reservation)
def fits_with_reservation(slot: int, _head: int, keeps: bool, columns: Columns, room: Any) -> bool:
    """Whether the head still fits in the future if a job gets the units found; it ``keeps`` them then."""
    fits = columns.ints[at.UNITS, slot] <= room.counts[EXTRA]
    if fits and keeps:
        room.counts[EXTRA] -= columns.ints[at.UNITS, slot]
    return bool(fits)


# The profile: in each segment of time a pool counts free units


@nodes_answer(node_profile.open_profile)
def open_profile(segment: int, columns: Columns, _room: Room) -> None:
    """Begin the profile with the units that are free now, in its only segment."""
    running_jobs.open_profile(segment, columns)


@nodes_answer(node_profile.copy_segment)
def copy_segment(segment: int, source: int, columns: Columns, _room: Room) -> None:
    """Copy the free units of a segment to another."""
    running_jobs.copy_segment(segment, source, columns)


@nodes_answer(node_profile.expect_held)
def expect_held(slot: int, segment: int, columns: Columns, _room: Room) -> None:
    """Add to a segment the units of a running job."""
    running_jobs.expect_held(slot, segment, columns)


# A window is a stretch of segments with all that is free throughout; of a pool each segment stands alone


@nodes_answer(node_profile.open_window)
def open_window(slot: int, segment: int, columns: Columns, _room: Room) -> bool:
    """Begin a window with a segment; return whether a job fits in it."""
    return running_jobs.fits_segment(slot, segment, columns)


@nodes_answer(node_profile.extend_window)
def extend_window(slot: int, segment: int, columns: Columns, _room: Room) -> bool:
    """Add the next segment to the window; return whether a job that fitted fits throughout."""
    return running_jobs.fits_segment(slot, segment, columns)


@nodes_answer(node_profile.fits_segment)
def fits_segment(slot: int, segment: int, columns: Columns, _room: Room) -> bool:
    """Whether a job fits in a segment by itself."""
    return running_jobs.fits_segment(slot, segment, columns)


@nodes_answer(node_profile.place_in_window)
def place_in_window(_slot: int, _starts: bool, _columns: Columns, _room: Room) -> bool:
    """Whether the allocator finds units for a job, which may start now, throughout the window."""
    return True


@nodes_answer(node_profile.change_segments)
def change_segments(slot: int, first: int, last: int, sign: int, columns: Columns, _room: Room) -> None:
    """Add the units found for a job to segments, up to the last one (sign 1), or take them (-1)."""
    running_jobs.change_segments(slot, first, last, sign, columns)


@nodes_answer(node_profile.is_sound)
def is_sound(segment: int, columns: Columns, _room: Room) -> bool:
    """Whether a segment of the profile is non-negative."""
    return running_jobs.is_sound(segment, columns)


@nodes_answer(node_profile.counts_units)
def counts_units(_room: Room) -> bool:
    """Whether the profile counts units, and knows of no nodes."""
    return True


@nodes_answer(node_profile.counts_only_units)
def counts_only_units(_room: Room) -> bool:
    """Whether jobs request nothing but units, so that counting them decides."""
    return True


@nodes_answer(node_profile.requested)
def requested(slot: int, columns: Columns, _room: Room) -> int:
    """Return how much a job asks for of what ``profile_free`` counts; it does not fit where there is less."""
    return int(columns.ints[at.UNITS, slot])


@nodes_answer(node_profile.keeps_profile)
def keeps_profile(_room: Room) -> bool:
    """Whether the profile may be kept from pass to pass: all in it is held or reserved by jobs."""
    return True


# Kept reservations; any units of a pool will do


@nodes_answer(node_profile.store_plan)
def store_plan(_slot: int, _room: Room) -> None:
    """Store the units found for a job as its reservation."""


@nodes_answer(node_profile.load_plan)
def load_plan(_slot: int, _room: Room) -> None:
    """Load the units that a job has reserved."""


@nodes_answer(node_profile.plan_holds)
def plan_holds(_room: Room) -> bool:
    """Whether the units found are in use, or known to return."""
    return True


@nodes_answer(node_profile.place_reserved)
def place_reserved(_slot: int, _columns: Columns, _room: Room) -> None:
    """Load the units for a job that starts as it has reserved."""


@nodes_answer(node_profile.is_free_now)
def is_free_now(slot: int, columns: Columns, _room: Room) -> bool:
    """Whether no job holds the units found for a job that starts as it has reserved."""
    return bool(columns.ints[at.UNITS, slot] <= columns.counts[at.FREE])


# Starts and ends


@in_room
def begin(slot: int, now: float, backfilled: bool, columns: Columns, room: Room) -> None:
    """Start a job on the units that were found for it."""
    hold(slot, now, columns, room)
    _note_start(slot, now, backfilled, columns)


@apart_kernel
def begin_on_part(
    slot: int, part: IntColumn, now: float, backfilled: bool, columns: Columns, room: Room
) -> None:
    """Start a job on the units that were found for it in what was released."""
    hold_part(slot, part, now, columns, room)
    _note_start(slot, now, backfilled, columns)


@leaf_kernel
def _note_start(slot: int, now: float, backfilled: bool, columns: Columns) -> None:
    change_room(columns)
    columns.ints[at.HELD, slot] = columns.ints[at.UNITS, slot]
    columns.ints[at.BACKFILLED, slot] = 1 if backfilled else 0
    columns.floats[at.START, slot] = now
    columns.floats[at.EXPECTED, slot] = now + columns.floats[at.ESTIMATE, slot]
    add_running(slot, columns)
    columns.counts[at.RUNNING] += 1
    _change_usage(slot, 1, now, columns)


@leaf_kernel
def _change_usage(slot: int, sign: int, now: float, columns: Columns) -> None:
    """Count the processors of a job to the usage of its owner (sign 1), or stop counting them (-1)."""
    if columns.shares.shape[1] > 0:
        account, processors = columns.ints[at.ACCOUNT, slot], columns.ints[at.PROCESSORS, slot]
        change_rate(account, sign * processors, now, columns.parameters[HALF_LIFE], columns.shares)


@in_room
def end(slot: int, now: float, columns: Columns, room: Room) -> None:
    """End a job: free what it still holds. Nothing happens if that was done before."""
    if not np.isnan(columns.floats[at.END, slot]):
        return
    follows = is_profile_kept(columns)
    # For a job that takes no time the profile has the shortest time that there is.
    if columns.floats[at.EXPECTED, slot] != now or columns.floats[at.START, slot] == now:
        follows = _note_early(slot, now, follows, columns, room)
    free_all(slot, now, columns, room)
    columns.ints[at.HELD, slot] = 0
    columns.floats[at.END, slot] = now
    remove_running(slot, columns)
    columns.counts[at.RUNNING] -= 1
    columns.counts[at.ENDED] += 1
    _change_usage(slot, -1, now, columns)
    change_room(columns)
    if follows:
        keep_profile(columns)


@in_room
def _note_early(slot: int, now: float, is_kept: bool, columns: Columns, room: Room) -> bool:
    """Note that units come back early; return whether a kept profile has them from now on."""
    k = columns.counts[at.EARLY]
    columns.counts[at.EARLY] = k + 1
    follows = is_kept and k < len(columns.back_units) and columns.floats[at.EXPECTED, slot] > now
    if follows:
        until, segment = columns.ints[at.END_SEGMENT, slot], columns.counts[at.FIRST]
        while segment != until:
            expect_held(slot, segment, columns, room)
            segment = columns.profile_next[segment]
        columns.back_units[k], columns.back_until[k] = columns.ints[at.HELD, slot], until
    return follows


@in_room
def release_row(slot: int, row: int, now: float, columns: Columns, room: Room) -> None:
    """Free one node of a job that continues without it."""
    units = free_row(slot, row, now, columns, room)
    columns.ints[at.HELD, slot] -= units
    if columns.rows[RELEASED, row] == RELEASED_SOON:
        columns.ints[at.SOON, slot] -= units
    columns.rows[RELEASED, row] = 1
    columns.counts[at.EARLY] = 1
    change_room(columns)


@in_room
def return_node(slot: int, node: int, now: float, columns: Columns, room: Room) -> int:
    """Return a free node to a job that had released it; return the new occupancy row."""
    row = columns.counts[at.USED_ROWS]
    cores = take_node(slot, node, columns, room)
    write_row(row, columns.ints[at.NUMBER, slot], node, cores, now, columns.rows, columns.times)
    columns.counts[at.USED_ROWS] = row + 1
    columns.ints[at.HELD, slot] += 1
    change_room(columns)
    return int(row)
