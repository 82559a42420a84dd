"""Conservative backfilling: every waiting job has a reservation, which is kept from pass to pass.

The profile is kept too, except where drains are announced, nodes have returned to a job, or the allocator is
user-defined. A pass without early releases drops the past and reserves for new jobs. The units of a job that
ends early are added. Any other change of what is free, or expected to be, gives the room another version
(:mod:`mlsim.batch.columns.job_columns`); then the profile is rebuilt with the existing reservations.
"""

import numpy as np

from mlsim._jit import inner_kernel, kernel
from mlsim.batch.backfill import free_profile
from mlsim.batch.backfill.free_profile import END
from mlsim.batch.backfill.gaps import close_gaps, earlier_place, move, note_gap
from mlsim.batch.backfill.node_gaps import compress_on_nodes
from mlsim.batch.backfill.recheck import NONE, begin_recheck, list_jobs, next_due, recheck_all
from mlsim.batch.backfill.reservations import begin_searches, earliest, size_of
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import Columns, forget_profile, is_profile_kept, keep_profile
from mlsim.batch.columns.running_jobs import running_at
from mlsim.batch.order.queue import drop_started, sort_slots
from mlsim.batch.order.queue_blocks import GONE
from mlsim.batch.room import room as machine
from mlsim.batch.room.room import Room, in_room, nodes_answer


@kernel(forceinline=True)
def next_reservation(now: float, n: int, queue: at.IntColumn, floats: at.FloatColumns) -> float:
    """Return the first reservation after now of the jobs in ``n`` places; infinity if there is none."""
    time = np.inf
    for k in range(n):
        if queue[k] == GONE:
            continue
        reserved = floats[at.RESERVED, queue[k]]
        if now < reserved < time:
            time = float(reserved)
    return time


# The profile of now


@in_room
def _reserve_earliest(slot: int, columns: Columns, room: Room) -> None:
    """Reserve a job's earliest place in the profile; at infinity if there is none."""
    columns.counts[at.GROUPED] = 0
    first = earliest(slot, columns, room)
    if first == END:
        columns.floats[at.RESERVED, slot] = np.inf
        return
    columns.ints[at.SIZE, slot] = size_of(columns.ints[at.UNITS, slot])
    free_profile.reserve_from(slot, first, columns, room)
    machine.store_plan(slot, room)


@inner_kernel
def _is_missed(now: float, columns: Columns) -> bool:
    """Whether the time of a reservation has passed."""
    for k in range(columns.counts[at.QUEUED]):  # noqa: SIM110  # a kernel knows no generators
        if columns.floats[at.RESERVED, columns.queue[k]] < now:
            return True
    return False


@inner_kernel
def _is_sound(segment: int, columns: Columns, room: Room) -> bool:
    """Whether the profile is non-negative from a segment on.

    Before the first reservation it may be negative, where a power cap has fallen below what runs.
    """
    while segment != END:
        if not machine.is_sound(segment, columns, room):
            return False
        segment = columns.profile_next[segment]
    return True


@inner_kernel
def _make_with_reservations(now: float, columns: Columns, room: Room) -> bool:
    """Build the profile with the existing reservations; return whether they still hold."""
    free_profile.make_profile(now, columns, room)
    n = 0
    for k in range(columns.counts[at.QUEUED]):
        slot = columns.queue[k]
        columns.ints[at.BEGIN_SEGMENT, slot] = END
        if columns.floats[at.RESERVED, slot] < np.inf:
            columns.spare[n] = slot
            n += 1
    sort_slots(
        n, columns.spare, columns.spare[len(columns.queue) :], at.RESERVED, columns.ints, columns.floats
    )
    segment = columns.counts[at.FIRST]
    for k in range(n):
        slot = columns.spare[k]
        machine.load_plan(slot, room)
        if not machine.plan_holds(room):
            machine.clear_found(room)
            return False
        segment = free_profile.begin_at(columns.floats[at.RESERVED, slot], segment, columns, room)
        free_profile.reserve_from(slot, segment, columns, room)
        machine.clear_found(room)
    return n == 0 or _is_sound(columns.ints[at.BEGIN_SEGMENT, columns.spare[0]], columns, room)


@inner_kernel
def _has_overdue(now: float, columns: Columns) -> bool:
    """Whether a running job has outlived its estimate: its expected end moves in every pass."""
    return bool(columns.counts[at.RUNNING] > 0 and columns.floats[at.EXPECTED, running_at(0, columns)] <= now)


@inner_kernel
def _advance_reservations(now: float, columns: Columns, room: Room) -> bool:
    """Advance the profile, with its reservations, to now; return whether they still hold."""
    if _is_missed(now, columns):
        return False
    if is_profile_kept(columns) and not _has_overdue(now, columns):
        free_profile.forget_past(now, columns)
        if columns.profile_free[columns.counts[at.FIRST]] == columns.counts[at.FREE]:
            return True
    forget_profile(columns)
    columns.counts[at.GROUPED], columns.counts[at.UNSEEN] = 0, 1
    return _make_with_reservations(now, columns, room)


# Compression


@in_room
def _note_early_releases(columns: Columns, room: Room) -> None:
    """Note early releases as one gap, up to the last time at which they were expected."""
    first = last = columns.counts[at.FIRST]
    units = 0
    for k in range(columns.counts[at.EARLY]):
        units += columns.back_units[k]
        if columns.profile_times[columns.back_until[k]] > columns.profile_times[last]:
            last = columns.back_until[k]
    note_gap(first, last, units, columns, room)
    for k in range(columns.counts[at.EARLY]):
        if columns.profile_times[columns.back_until[k]] > columns.profile_times[first]:
            free_profile.stop_using(columns.back_until[k], columns)


@in_room
def _compress_counted(columns: Columns, room: Room) -> None:
    """Compress reservations where units are counted; try only jobs that could move."""
    moved, closed, since = True, 0, 0
    while moved:
        moved = False
        close_gaps(closed, since, columns)
        closed, this_round = since, columns.counts[at.GAPS]
        k = next_due(0, columns)
        while k != NONE:
            slot = columns.queue[k]
            first = earlier_place(slot, columns, room)
            if first != END:
                move(slot, first, columns, room)
                moved = True
            k = next_due(k + 1, columns)
        since = this_round
        moved = moved and not columns.rules[at.ONE_ROUND]
    close_gaps(closed, columns.counts[at.GAPS], columns)


@nodes_answer(compress_on_nodes)
def _compress_by_node(_columns: Columns, _room: Room) -> None:
    """Compress reservations of certain nodes; a pool has none."""


@inner_kernel
def _compress(columns: Columns, room: Room) -> None:
    """Move each reservation to its earliest start, given all others, until nothing moves or for one round.

    A job whose earliest start is the old one keeps its nodes. After one round it may start at a time without
    event.
    """
    if not machine.counts_units(room):
        _compress_by_node(columns, room)
        return
    scattered = columns.counts[at.MOVED] > columns.counts[at.QUEUED]
    if scattered and is_profile_kept(columns) and machine.counts_only_units(room):
        free_profile.sort_segments(columns)
    if scattered or not columns.counts[at.GROUPED]:
        list_jobs(columns)
        columns.counts[at.GROUPED], columns.counts[at.MOVED] = 1, 0
    begin_recheck(columns)
    columns.counts[at.GAPS] = 0
    if columns.counts[at.UNSEEN]:
        recheck_all(columns)
    if is_profile_kept(columns):
        _note_early_releases(columns, room)
    _compress_counted(columns, room)
    columns.counts[at.MOVED] += columns.counts[at.GAPS]
    columns.counts[at.UNSEEN] = columns.rules[at.ONE_ROUND]


# The pass


@inner_kernel
def backfill_conservative(n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start the jobs whose reserved time has come; all other waiting jobs get or keep a reservation.

    Reservations are kept from pass to pass, with their nodes. After early releases they move forward, in the
    queue's order. If one does not hold any more, because a job outlives its estimate or nodes are out of use,
    all are made anew. Returns the new count of starts.
    """
    n = columns.counts[at.QUEUED]
    if not _advance_reservations(now, columns, room):
        for k in range(n):
            columns.floats[at.RESERVED, columns.queue[k]] = np.nan
            columns.ints[at.BEGIN_SEGMENT, columns.queue[k]] = END
        free_profile.make_profile(now, columns, room)
        columns.counts[at.UNSEEN] = 0
    elif columns.counts[at.EARLY] or (columns.rules[at.AT_ENDS] and columns.counts[at.ENDED]):
        _compress(columns, room)
    columns.counts[at.EARLY] = columns.counts[at.ENDED] = 0
    begin_searches(columns)
    before, overtakes = n_started, False
    for k in range(n):
        slot = columns.queue[k]
        if not columns.floats[at.RESERVED, slot] < np.inf:
            _reserve_earliest(slot, columns, room)
        if columns.floats[at.RESERVED, slot] > now:
            overtakes = True
            continue
        machine.place_reserved(slot, columns, room)
        if columns.counts[at.PENDING] and not machine.is_free_now(slot, columns, room):
            machine.clear_found(room)
            overtakes = True  # it waits for an end of this very time
            continue
        machine.begin(slot, now, overtakes, columns, room)
        columns.ints[at.BEGIN_SEGMENT, slot] = END
        columns.started[n_started] = slot
        n_started += 1
    if machine.keeps_profile(room) and not _has_overdue(now, columns):
        keep_profile(columns)
    else:
        forget_profile(columns)
    if n_started > before:
        columns.profile_begins[columns.counts[at.FIRST]] = NONE
        drop_started(columns)
    return n_started
