"""The questions that order, backfilling and reservations ask of what jobs take units of, the *room*.

A room is a :class:`Pool` of equal units or :class:`Nodes` by resources; which of them answers is decided by
the type of the last argument when a kernel is compiled. Some questions find units for a job: the room notes
them, until they are held, kept as a plan, or forgotten.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mlsim._jit import apart_kernel, by_last_type, leaf_kernel
from mlsim.batch.allocators import placed
from mlsim.batch.allocators.nodes import Nodes
from mlsim.batch.columns.columns import Columns
from mlsim.batch.columns.packing import Ints
from mlsim.batch.matrix import drains, future, holding, profile, starting
from mlsim.batch.room import pool
from mlsim.batch.room.pool import Pool

__all__ = [
    "Room",
    "asked",
    "begin_future",
    "begin_pass",
    "bring_plan",
    "change_segments",
    "copy_segment",
    "could_start",
    "counts_only_units",
    "counts_units",
    "drain_begin",
    "drain_end",
    "expect_held",
    "find_room",
    "find_room_in_part",
    "fits_beside",
    "fits_less_in_less",
    "fits_segment",
    "fits_window",
    "forget_found",
    "free_all",
    "free_row",
    "go_to",
    "head_fits",
    "hold",
    "hold_part",
    "in_room",
    "is_free_now",
    "is_planned",
    "is_sound",
    "keep_plan",
    "keeps_profile",
    "let_go",
    "measure_part",
    "most_beside",
    "n_drains",
    "narrow_window",
    "next_change",
    "open_profile",
    "open_window",
    "place_at_once",
    "place_in_window",
    "place_reserved",
    "plan_holds",
    "shut_segment",
    "take_beside",
    "take_node",
]

Room = Pool | Nodes

F = TypeVar("F", bound=Callable[..., Any])


def in_room(function: F) -> F:
    """Compile a function of a room: into its callers for a pool; beside them for nodes, with long answers."""
    return by_last_type({Pool: leaf_kernel(function), Nodes: apart_kernel(function)})(function)


# Starting jobs, and their ends


@by_last_type({Pool: pool.begin_pass, Nodes: starting.begin_pass})
def begin_pass(room: Room) -> None:
    """Forget what an earlier pass found out."""


@by_last_type({Pool: pool.could_start, Nodes: starting.could_start})
def could_start(slot: int, now: float, columns: Columns, room: Room) -> bool:
    """Whether it makes sense to look for room for a job now: quick, and never wrong when it says no."""


@by_last_type({Pool: pool.find_room, Nodes: starting.find_room})
def find_room(slot: int, now: float, columns: Columns, room: Room) -> bool:
    """Whether there is room for a job that starts now; the room notes where."""


@by_last_type({Pool: pool.forget_found, Nodes: placed.clear_placed})
def forget_found(room: Room) -> None:
    """Forget where there was room for a job."""


@by_last_type({Pool: pool.hold, Nodes: holding.hold})
def hold(slot: int, now: float, columns: Columns, room: Room) -> None:
    """Allocate to a job the units that were found for it; write its occupancy rows."""


@by_last_type({Pool: pool.free_all, Nodes: holding.free_all})
def free_all(slot: int, now: float, columns: Columns, room: Room) -> None:
    """Free all that a job still holds."""


@by_last_type({Pool: pool.free_row, Nodes: holding.free_row})
def free_row(slot: int, row: int, now: float, columns: Columns, room: Room) -> int:
    """Free the nodes of one occupancy row; return the units that came back."""


@by_last_type({Pool: pool.take_node, Nodes: holding.take_node})
def take_node(slot: int, node: int, columns: Columns, room: Room) -> int:
    """Take a free node, whole, for a job that had released it; return its cores."""


# Short jobs on what was released


@by_last_type({Pool: pool.measure_part, Nodes: starting.measure_part})
def measure_part(part: Ints, columns: Columns, room: Room) -> None:
    """Prepare what was released since the last pass for the questions about it."""


@by_last_type({Pool: pool.find_room_in_part, Nodes: starting.find_room_in_part})
def find_room_in_part(slot: int, part: Ints, now: float, columns: Columns, room: Room) -> bool:
    """Whether there is room for a job in what was released; the room notes where."""


@by_last_type({Pool: pool.hold_part, Nodes: holding.hold_part})
def hold_part(slot: int, part: Ints, now: float, columns: Columns, room: Room) -> None:
    """Allocate to a job the units found in what was released, and take them out of that."""


# The head's reservation (EASY)


@by_last_type({Pool: pool.begin_future, Nodes: future.begin_future})
def begin_future(head: int, now: float, columns: Columns, room: Room) -> None:
    """Begin to look for the time at which the head fits: with what is free now."""


@by_last_type({Pool: pool.head_fits, Nodes: future.head_fits})
def head_fits(head: int, columns: Columns, room: Room) -> bool:
    """Whether the head fits at the time that is looked at."""


@by_last_type({Pool: pool.let_go, Nodes: future.let_go})
def let_go(slot: int, head: int, columns: Columns, room: Room) -> None:
    """Expect back, by the time that is looked at, what a running job holds."""


@by_last_type({Pool: pool.next_change, Nodes: drains.next_change})
def next_change(time: float, now: float, room: Room) -> float:
    """Return the first time after another at which more comes back than what jobs hold; infinity: never."""


@by_last_type({Pool: pool.go_to, Nodes: future.go_to})
def go_to(time: float, head: int, now: float, columns: Columns, room: Room) -> None:
    """Look at a later time."""


@by_last_type({Pool: pool.most_beside, Nodes: future.most_beside})
def most_beside(room: Room) -> int:
    """Return more units than which it makes no sense to ask :func:`take_beside` for."""


@by_last_type({Pool: pool.take_beside, Nodes: future.take_beside})
def take_beside(slot: int, head: int, columns: Columns, room: Room) -> bool:
    """Take the units found for a job from the head's time, if the head fits all the same; whether it does."""


@by_last_type({Pool: pool.fits_beside, Nodes: future.fits_beside})
def fits_beside(slot: int, head: int, columns: Columns, room: Room) -> bool:
    """Whether the head fits all the same at its time where a job gets the units found for it."""


# The profile


@by_last_type({Pool: pool.open_profile, Nodes: profile.open_profile})
def open_profile(segment: int, columns: Columns, room: Room) -> None:
    """Begin the profile with what is free now, in its only segment."""


@by_last_type({Pool: pool.copy_segment, Nodes: profile.copy_segment})
def copy_segment(segment: int, source: int, columns: Columns, room: Room) -> None:
    """Have as much free in a segment of the profile as in another."""


@by_last_type({Pool: pool.expect_held, Nodes: profile.expect_held})
def expect_held(slot: int, segment: int, columns: Columns, room: Room) -> None:
    """Expect back in a segment what a running job holds."""


@by_last_type({Pool: pool.n_drains, Nodes: profile.n_drains})
def n_drains(room: Room) -> int:
    """Return how many announced drains are known."""


@by_last_type({Pool: pool.drain_begin, Nodes: profile.drain_begin})
def drain_begin(drain: int, now: float, room: Room) -> float:
    """Return when a drain begins, not before now (s)."""


@by_last_type({Pool: pool.drain_end, Nodes: profile.drain_end})
def drain_end(drain: int, now: float, room: Room) -> float:
    """Return when a drain ends (s); now, if its end has only not been handled yet."""


@by_last_type({Pool: pool.shut_segment, Nodes: profile.shut_segment})
def shut_segment(drain: int, segment: int, columns: Columns, room: Room) -> None:
    """Free nothing of a drain's nodes in a segment."""


@by_last_type({Pool: pool.open_window, Nodes: profile.open_window})
def open_window(segment: int, room: Room) -> None:
    """Begin a stretch of the profile with a segment."""


@by_last_type({Pool: pool.narrow_window, Nodes: profile.narrow_window})
def narrow_window(segment: int, room: Room) -> bool:
    """Add the next segment to the stretch; return whether less may be free throughout than before."""


@by_last_type({Pool: pool.fits_window, Nodes: profile.fits_window})
def fits_window(slot: int, segment: int, columns: Columns, room: Room) -> bool:
    """Whether a job fits throughout the stretch, the last segment of which is given."""


@by_last_type({Pool: pool.fits_segment, Nodes: profile.fits_segment})
def fits_segment(slot: int, segment: int, columns: Columns, room: Room) -> bool:
    """Whether a job fits in a segment by itself."""


@by_last_type({Pool: pool.place_in_window, Nodes: profile.place_in_window})
def place_in_window(slot: int, columns: Columns, room: Room) -> bool:
    """Whether there is room for a job throughout the stretch; the room notes where."""


@by_last_type({Pool: pool.place_at_once, Nodes: profile.place_at_once})
def place_at_once(slot: int, columns: Columns, room: Room) -> bool:
    """Whether there is room throughout the stretch, which begins now; the room notes where the job starts."""


@by_last_type({Pool: pool.change_segments, Nodes: profile.change_segments})
def change_segments(slot: int, first: int, last: int, sign: int, columns: Columns, room: Room) -> None:
    """Add the units found for a job to segments, up to the last one (sign 1), or take them (-1)."""


@by_last_type({Pool: pool.is_sound, Nodes: profile.is_sound})
def is_sound(segment: int, columns: Columns, room: Room) -> bool:
    """Whether a segment of the profile is non-negative."""


@by_last_type({Pool: pool.counts_units, Nodes: profile.counts_units})
def counts_units(room: Room) -> bool:
    """Whether the profile counts units, and knows of no nodes."""


@by_last_type({Pool: pool.counts_only_units, Nodes: profile.counts_only_units})
def counts_only_units(room: Room) -> bool:
    """Whether units are all that jobs ask for, so that counting them says all."""


@by_last_type({Pool: pool.asked, Nodes: profile.asked})
def asked(slot: int, columns: Columns, room: Room) -> int:
    """Return how much a job asks for of what ``profile_free`` counts; it does not fit where there is less."""


@by_last_type({Pool: pool.keeps_profile, Nodes: profile.keeps_profile})
def keeps_profile(room: Room) -> bool:
    """Whether the profile may be kept from pass to pass: nothing is in it but what jobs hold, or reserved."""


@by_last_type({Pool: pool.fits_less_in_less, Nodes: profile.fits_less_in_less})
def fits_less_in_less(room: Room) -> bool:
    """Whether a job that does not fit does not fit in less either: not sure with a user's allocator."""


# Reservations that are kept


@by_last_type({Pool: pool.keep_plan, Nodes: profile.keep_plan})
def keep_plan(slot: int, room: Room) -> None:
    """Store the units found for a job as its reservation's."""


@by_last_type({Pool: pool.is_planned, Nodes: profile.is_planned})
def is_planned(slot: int, room: Room) -> bool:
    """Whether the units found are those that a job has reserved."""


@by_last_type({Pool: pool.bring_plan, Nodes: profile.bring_plan})
def bring_plan(slot: int, room: Room) -> None:
    """Find the units that a job has reserved."""


@by_last_type({Pool: pool.plan_holds, Nodes: profile.plan_holds})
def plan_holds(room: Room) -> bool:
    """Whether the units found are in use, or known to come back."""


@by_last_type({Pool: pool.place_reserved, Nodes: profile.place_reserved})
def place_reserved(slot: int, columns: Columns, room: Room) -> None:
    """Find the units for a job that starts as it has reserved."""


@by_last_type({Pool: pool.is_free_now, Nodes: profile.is_free_now})
def is_free_now(slot: int, columns: Columns, room: Room) -> bool:
    """Whether nobody holds the units found for a job that starts as it has reserved."""
