"""The questions of order and backfilling to a room, and the steps that change who holds what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from mlsim._jit import apart_kernel, by_last_type, leaf_kernel
from mlsim.batch.allocators import node_arrays
from mlsim.batch.allocators.node_arrays import Nodes
from mlsim.batch.columns.job_columns import (
    EARLY,
    FIRST,
    RUNNING,
    USED_ROWS,
    Columns,
    IntColumn,
    change_room,
    is_profile_kept,
    keep_profile,
)
from mlsim.batch.columns.job_table import (
    ACCOUNT,
    BACKFILLED,
    END,
    END_SEGMENT,
    ESTIMATE,
    EXPECTED,
    HELD,
    NUMBER,
    PROCESSORS,
    START,
    UNITS,
)
from mlsim.batch.columns.occupancy import RELEASED, write_row
from mlsim.batch.columns.running_jobs import add_running, remove_running
from mlsim.batch.matrix import node_allocation, node_future, node_profile
from mlsim.batch.order.policies import HALF_LIFE, change_rate
from mlsim.batch.room import pool
from mlsim.batch.room.pool import Pool

# mypy: disable-error-code="empty-body"

Room = Pool | Nodes

F = TypeVar("F", bound=Callable[..., Any])


def in_room(function: F) -> F:
    """Compile a function of a room: into its callers for a pool; beside them for nodes, with long answers."""
    return by_last_type({Pool: leaf_kernel(function), Nodes: apart_kernel(function)})(function)


# Starting jobs, and their ends


@by_last_type({Pool: pool.begin_pass, Nodes: node_future.begin_pass})
def begin_pass(room: Room) -> None:
    """Forget what an earlier pass found out."""


@by_last_type({Pool: pool.could_start, Nodes: node_future.could_start})
def could_start(slot: int, now: float, columns: Columns, room: Room) -> bool:
    """Whether it makes sense to look for room for a job now: quick, and never wrong when it says no."""


@by_last_type({Pool: pool.find_room, Nodes: node_future.find_room})
def find_room(slot: int, now: float, columns: Columns, room: Room) -> bool:
    """Whether there is room for a job that starts now; the room notes where."""


@by_last_type({Pool: pool.forget_found, Nodes: node_arrays.clear_placed})
def forget_found(room: Room) -> None:
    """Forget where there was room for a job."""


@by_last_type({Pool: pool.hold, Nodes: node_allocation.hold})
def hold(slot: int, now: float, columns: Columns, room: Room) -> None:
    """Allocate to a job the units that were found for it; write its occupancy rows."""


@by_last_type({Pool: pool.free_all, Nodes: node_allocation.free_all})
def free_all(slot: int, now: float, columns: Columns, room: Room) -> None:
    """Free all that a job still holds."""


@by_last_type({Pool: pool.free_row, Nodes: node_allocation.free_row})
def free_row(slot: int, row: int, now: float, columns: Columns, room: Room) -> int:
    """Free the nodes of one occupancy row; return the units that came back."""


@by_last_type({Pool: pool.take_node, Nodes: node_allocation.take_node})
def take_node(slot: int, node: int, columns: Columns, room: Room) -> int:
    """Take a free node, whole, for a job that had released it; return its cores."""


# Short jobs on what was released


@by_last_type({Pool: pool.measure_part, Nodes: node_future.measure_part})
def measure_part(part: IntColumn, columns: Columns, room: Room) -> None:
    """Prepare what was released since the last pass for the questions about it."""


@by_last_type({Pool: pool.find_room_in_part, Nodes: node_future.find_room_in_part})
def find_room_in_part(slot: int, part: IntColumn, now: float, columns: Columns, room: Room) -> bool:
    """Whether there is room for a job in what was released; the room notes where."""


@by_last_type({Pool: pool.hold_part, Nodes: node_allocation.hold_part})
def hold_part(slot: int, part: IntColumn, now: float, columns: Columns, room: Room) -> None:
    """Allocate to a job the units found in what was released, and take them out of that."""


# The head's reservation (EASY)


@by_last_type({Pool: pool.begin_future, Nodes: node_future.begin_future})
def begin_future(head: int, now: float, columns: Columns, room: Room) -> None:
    """Begin to look for the time at which the head fits: with what is free now."""


@by_last_type({Pool: pool.head_fits, Nodes: node_future.head_fits})
def head_fits(head: int, columns: Columns, room: Room) -> bool:
    """Whether the head fits at the time that is looked at."""


@by_last_type({Pool: pool.let_go, Nodes: node_future.let_go})
def let_go(slot: int, head: int, columns: Columns, room: Room) -> None:
    """Expect back, by the time that is looked at, what a running job holds."""


@by_last_type({Pool: pool.next_change, Nodes: node_future.next_change})
def next_change(time: float, now: float, room: Room) -> float:
    """Return the first time after another at which more comes back than what jobs hold; infinity: never."""


@by_last_type({Pool: pool.go_to, Nodes: node_future.go_to})
def go_to(time: float, head: int, now: float, columns: Columns, room: Room) -> None:
    """Look at a later time."""


@by_last_type({Pool: pool.most_beside, Nodes: node_future.most_beside})
def most_beside(room: Room) -> int:
    """Return more units than which it makes no sense to ask :func:`take_beside` for."""


@by_last_type({Pool: pool.take_beside, Nodes: node_future.take_beside})
def take_beside(slot: int, head: int, columns: Columns, room: Room) -> bool:
    """Take the units found for a job from the head's time, if the head fits all the same; whether it does."""


@by_last_type({Pool: pool.fits_beside, Nodes: node_future.fits_beside})
def fits_beside(slot: int, head: int, columns: Columns, room: Room) -> bool:
    """Whether the head fits all the same at its time where a job gets the units found for it."""


# The profile


@by_last_type({Pool: pool.open_profile, Nodes: node_profile.open_profile})
def open_profile(segment: int, columns: Columns, room: Room) -> None:
    """Begin the profile with what is free now, in its only segment."""


@by_last_type({Pool: pool.copy_segment, Nodes: node_profile.copy_segment})
def copy_segment(segment: int, source: int, columns: Columns, room: Room) -> None:
    """Have as much free in a segment of the profile as in another."""


@by_last_type({Pool: pool.expect_held, Nodes: node_profile.expect_held})
def expect_held(slot: int, segment: int, columns: Columns, room: Room) -> None:
    """Expect back in a segment what a running job holds."""


@by_last_type({Pool: pool.n_drains, Nodes: node_profile.n_drains})
def n_drains(room: Room) -> int:
    """Return how many announced drains are known."""


@by_last_type({Pool: pool.drain_begin, Nodes: node_profile.drain_begin})
def drain_begin(drain: int, now: float, room: Room) -> float:
    """Return when a drain begins, not before now (s)."""


@by_last_type({Pool: pool.drain_end, Nodes: node_profile.drain_end})
def drain_end(drain: int, now: float, room: Room) -> float:
    """Return when a drain ends (s); now, if its end has only not been handled yet."""


@by_last_type({Pool: pool.shut_segment, Nodes: node_profile.shut_segment})
def shut_segment(drain: int, segment: int, columns: Columns, room: Room) -> None:
    """Free nothing of a drain's nodes in a segment."""


@by_last_type({Pool: pool.open_window, Nodes: node_profile.open_window})
def open_window(segment: int, room: Room) -> None:
    """Begin a stretch of the profile with a segment."""


@by_last_type({Pool: pool.narrow_window, Nodes: node_profile.narrow_window})
def narrow_window(segment: int, room: Room) -> bool:
    """Add the next segment to the stretch; return whether less may be free throughout than before."""


@by_last_type({Pool: pool.fits_window, Nodes: node_profile.fits_window})
def fits_window(slot: int, segment: int, columns: Columns, room: Room) -> bool:
    """Whether a job fits throughout the stretch, the last segment of which is given."""


@by_last_type({Pool: pool.fits_segment, Nodes: node_profile.fits_segment})
def fits_segment(slot: int, segment: int, columns: Columns, room: Room) -> bool:
    """Whether a job fits in a segment by itself."""


@by_last_type({Pool: pool.place_in_window, Nodes: node_profile.place_in_window})
def place_in_window(slot: int, columns: Columns, room: Room) -> bool:
    """Whether there is room for a job throughout the stretch; the room notes where."""


@by_last_type({Pool: pool.place_at_once, Nodes: node_profile.place_at_once})
def place_at_once(slot: int, columns: Columns, room: Room) -> bool:
    """Whether there is room throughout the stretch, which begins now; the room notes where the job starts."""


@by_last_type({Pool: pool.change_segments, Nodes: node_profile.change_segments})
def change_segments(slot: int, first: int, last: int, sign: int, columns: Columns, room: Room) -> None:
    """Add the units found for a job to segments, up to the last one (sign 1), or take them (-1)."""


@by_last_type({Pool: pool.is_sound, Nodes: node_profile.is_sound})
def is_sound(segment: int, columns: Columns, room: Room) -> bool:
    """Whether a segment of the profile is non-negative."""


@by_last_type({Pool: pool.counts_units, Nodes: node_profile.counts_units})
def counts_units(room: Room) -> bool:
    """Whether the profile counts units, and knows of no nodes."""


@by_last_type({Pool: pool.counts_only_units, Nodes: node_profile.counts_only_units})
def counts_only_units(room: Room) -> bool:
    """Whether units are all that jobs ask for, so that counting them says all."""


@by_last_type({Pool: pool.asked, Nodes: node_profile.asked})
def asked(slot: int, columns: Columns, room: Room) -> int:
    """Return how much a job asks for of what ``profile_free`` counts; it does not fit where there is less."""


@by_last_type({Pool: pool.keeps_profile, Nodes: node_profile.keeps_profile})
def keeps_profile(room: Room) -> bool:
    """Whether the profile may be kept from pass to pass: nothing is in it but what jobs hold, or reserved."""


@by_last_type({Pool: pool.fits_less_in_less, Nodes: node_profile.fits_less_in_less})
def fits_less_in_less(room: Room) -> bool:
    """Whether a job that does not fit does not fit in less either: not sure with a user's allocator."""


# Reservations that are kept


@by_last_type({Pool: pool.keep_plan, Nodes: node_profile.keep_plan})
def keep_plan(slot: int, room: Room) -> None:
    """Store the units found for a job as its reservation's."""


@by_last_type({Pool: pool.is_planned, Nodes: node_profile.is_planned})
def is_planned(slot: int, room: Room) -> bool:
    """Whether the units found are those that a job has reserved."""


@by_last_type({Pool: pool.bring_plan, Nodes: node_profile.bring_plan})
def bring_plan(slot: int, room: Room) -> None:
    """Find the units that a job has reserved."""


@by_last_type({Pool: pool.plan_holds, Nodes: node_profile.plan_holds})
def plan_holds(room: Room) -> bool:
    """Whether the units found are in use, or known to come back."""


@by_last_type({Pool: pool.place_reserved, Nodes: node_profile.place_reserved})
def place_reserved(slot: int, columns: Columns, room: Room) -> None:
    """Find the units for a job that starts as it has reserved."""


@by_last_type({Pool: pool.is_free_now, Nodes: node_profile.is_free_now})
def is_free_now(slot: int, columns: Columns, room: Room) -> bool:
    """Whether nobody holds the units found for a job that starts as it has reserved."""


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
    columns.ints[HELD, slot] = columns.ints[UNITS, slot]
    columns.ints[BACKFILLED, slot] = 1 if backfilled else 0
    columns.floats[START, slot] = now
    columns.floats[EXPECTED, slot] = now + columns.floats[ESTIMATE, slot]
    add_running(slot, columns)
    columns.counts[RUNNING] += 1
    _change_usage(slot, 1, now, columns)


@leaf_kernel
def _change_usage(slot: int, sign: int, now: float, columns: Columns) -> None:
    """Have the owner of a job use more (sign 1) or fewer (-1) processors from now on."""
    if columns.shares.shape[1] > 0:
        account, processors = columns.ints[ACCOUNT, slot], columns.ints[PROCESSORS, slot]
        change_rate(account, sign * processors, now, columns.parameters[HALF_LIFE], columns.shares)


@in_room
def end(slot: int, now: float, columns: Columns, room: Room) -> None:
    """End a job: free what it still holds. Nothing happens if that was done before."""
    if not np.isnan(columns.floats[END, slot]):
        return
    follows = is_profile_kept(columns)
    # For a job that takes no time the profile has the shortest time that there is.
    if columns.floats[EXPECTED, slot] != now or columns.floats[START, slot] == now:
        follows = _note_early(slot, now, follows, columns, room)
    free_all(slot, now, columns, room)
    columns.ints[HELD, slot] = 0
    columns.floats[END, slot] = now
    remove_running(slot, columns)
    columns.counts[RUNNING] -= 1
    _change_usage(slot, -1, now, columns)
    change_room(columns)
    if follows:
        keep_profile(columns)


@in_room
def _note_early(slot: int, now: float, is_kept: bool, columns: Columns, room: Room) -> bool:
    """Take note that what a job holds comes back earlier than expected, or that nobody knew when it would.

    A profile that is kept has it from now on, if it can; returns whether it has.
    """
    k = columns.counts[EARLY]
    columns.counts[EARLY] = k + 1
    follows = is_kept and k < len(columns.back_units) and columns.floats[EXPECTED, slot] > now
    if follows:
        until, segment = columns.ints[END_SEGMENT, slot], columns.counts[FIRST]
        while segment != until:
            expect_held(slot, segment, columns, room)
            segment = columns.profile_next[segment]
        columns.back_units[k], columns.back_until[k] = columns.ints[HELD, slot], until
    return follows


@in_room
def release_row(slot: int, row: int, now: float, columns: Columns, room: Room) -> None:
    """Free one node of a job that goes on without it."""
    columns.ints[HELD, slot] -= free_row(slot, row, now, columns, room)
    columns.rows[RELEASED, row] = 1
    columns.counts[EARLY] = 1
    change_room(columns)


@in_room
def return_node(slot: int, node: int, now: float, columns: Columns, room: Room) -> int:
    """Return a free node to a job that had released it; return the new occupancy row."""
    row = columns.counts[USED_ROWS]
    cores = take_node(slot, node, columns, room)
    write_row(row, columns.ints[NUMBER, slot], node, cores, now, columns.rows, columns.times)
    columns.counts[USED_ROWS] = row + 1
    columns.ints[HELD, slot] += 1
    change_room(columns)
    return int(row)
