"""Backfilling with no reservation (greedy) or with one (EASY)."""

from typing import Final

import numpy as np

from mlsim._jit import apart_kernel, leaf_kernel
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns import running_jobs
from mlsim.batch.columns.job_columns import Columns, IntColumn, goes_before
from mlsim.batch.columns.occupancy import FINISH
from mlsim.batch.order.queue import compute_walk_keys, find_next_head, leave, sort_slots
from mlsim.batch.order.queue_blocks import GONE, next_fitting
from mlsim.batch.room import room as machine
from mlsim.batch.room.room import Room, in_room

_CHOSEN_SINGLY: Final = 8
"""Candidates that are found one by one in the order of backfilling, before all others are sorted."""


@in_room
def find_reservation(head: int, now: float, columns: Columns, room: Room) -> float:
    """Return the time (s) when the head is expected to fit; the room knows what else is free then.

    Running jobs are released in order of their expected ends, all of one time together. Nodes that a job has
    released early do not return a second time; nodes that forecasts expect back before their jobs end return
    then. A job that ends at this very time is expected now, one that
    outlived its estimate at :func:`mlsim.batch.columns.running_jobs.overdue_end`; ends of announced drains
    count like ends of jobs. The result is now if the head fits already, and infinity if it never will because
    nodes are out of use.
    """
    machine.begin_future(head, now, columns, room)
    late, n = running_jobs.first_after(now, columns), running_jobs.end_of_running(columns)
    overdue = late > 0 and _release_late(True, late, head, now, columns, room)
    k, time, overdue_time = late, now, running_jobs.overdue_end(now, columns)
    foreseen = _release_foreseen(0, now, head, columns, room)
    while not machine.head_fits(head, columns, room):
        upcoming = columns.floats[at.EXPECTED, running_jobs.running_at(k, columns)] if k < n else np.inf
        upcoming = min(upcoming, machine.next_change(time, now, room))
        if foreseen < columns.counts[at.FORESEEN]:
            upcoming = min(upcoming, columns.foreseen_times[foreseen])
        time = min(upcoming, overdue_time) if overdue else upcoming
        if time == np.inf:
            break
        if overdue and time == overdue_time:
            _release_late(False, late, head, now, columns, room)
            overdue = False
        foreseen = _release_foreseen(foreseen, time, head, columns, room)
        while k < n and columns.floats[at.EXPECTED, running_jobs.running_at(k, columns)] <= time:
            machine.add_ended(running_jobs.running_at(k, columns), head, columns, room)
            k = running_jobs.next_running(k, columns)
        machine.advance_future(time, head, now, columns, room)
    return float(time)


@in_room
def _release_foreseen(place: int, time: float, head: int, columns: Columns, room: Room) -> int:
    """Release the nodes that forecasts expect back by a time, from a place on; return the next place."""
    while place < columns.counts[at.FORESEEN]:
        row = columns.foreseen[0, place]
        if np.isnan(columns.times[FINISH, row]):
            if columns.foreseen_times[place] > time:
                break
            machine.add_foreseen(columns.foreseen[1, place], row, head, columns, room)
        place += 1
    return place


@in_room
def _release_late(due: bool, late: int, head: int, now: float, columns: Columns, room: Room) -> bool:
    """Release the jobs past their expected ends that end now (``due``), or others; whether some remain."""
    stay, place = False, 0
    while place < late:
        slot = running_jobs.running_at(place, columns)
        if running_jobs.is_due(slot, now, columns) == due:
            machine.add_ended(slot, head, columns, room)
        else:
            stay = True
        place = running_jobs.next_running(place, columns)
    return stay


@apart_kernel
def is_put_off(now: float, columns: Columns) -> bool:
    """Whether the head has to wait for its reservation, even if it fits (accasim)."""
    if columns.rules[at.EASY_AS] != at.ACCASIM or columns.counts[at.QUEUED] == 0:
        return False
    return bool(columns.floats[at.RESERVED, columns.queue[columns.counts[at.HEAD]]] > now)


@in_room
def keep_reservation(now: float, columns: Columns, room: Room) -> None:
    """Reserve for a head without a reservation, once and for all."""
    head = columns.queue[columns.counts[at.HEAD]]
    if np.isnan(columns.floats[at.RESERVED, head]):
        time = find_reservation(head, now, columns, room)
        if time < np.inf:
            columns.floats[at.RESERVED, head] = time


@apart_kernel
def _kept_reservation(columns: Columns) -> float:
    """Return the latest end of jobs that overtake a head with a kept reservation; infinity: any (accasim)."""
    time = columns.floats[at.RESERVED, columns.queue[columns.counts[at.HEAD]]]
    return np.inf if columns.rules[at.EASY_AS] == at.ACCASIM or np.isnan(time) else float(time)


@in_room
def _first_candidate(now: float, columns: Columns, room: Room) -> int:
    """Return the place of the first job behind the head that could start; beyond all places if none could."""
    place = next_behind(columns.counts[at.FRONT], at.MOST_UNITS, now, np.inf, columns)
    while place < columns.counts[at.PLACES]:
        if machine.could_start(columns.queue[place], now, columns, room):
            break
        place = next_behind(place + 1, at.MOST_UNITS, now, np.inf, columns)
    return place


@leaf_kernel
def next_behind(place: int, beside: int, now: float, time: float, columns: Columns) -> int:
    """Return the place of the next job behind the head that may fit and ends by ``time`` or ``beside`` it."""
    place = next_fitting(place, columns.counts[at.FREE], beside, now, time, columns)
    if place == columns.counts[at.HEAD]:
        place = next_fitting(place + 1, columns.counts[at.FREE], beside, now, time, columns)
    return place


@in_room
def _candidates(place: int, now: float, time: float, is_kept: bool, columns: Columns, room: Room) -> int:
    """List the jobs, from a place on, that could start without delaying the head; return their number.

    What is free only shrinks on the way, so jobs that do not qualify now need not be sorted.
    """
    n, beside = 0, -1 if is_kept else machine.extra_units(room)
    place = next_behind(place, beside, now, time, columns)
    while place < columns.counts[at.PLACES]:
        slot = columns.queue[place]
        if machine.could_start(slot, now, columns, room):
            columns.ints[at.PLACE, slot] = place
            columns.spare[n] = slot
            n += 1
        place = next_behind(place + 1, beside, now, time, columns)
    return n


@in_room
def _start_behind(
    slot: int, head: int, now: float, time: float, is_kept: bool, columns: Columns, room: Room
) -> bool:
    """Start a job behind the head if it does not delay the head's reservation."""
    in_time = now + columns.floats[at.ESTIMATE, slot] <= time
    if (is_kept and not in_time) or not machine.find_room(slot, now, columns, room):
        return False
    if not in_time and not machine.fits_with_reservation(slot, head, True, columns, room):
        machine.clear_found(room)
        return False
    machine.begin(slot, now, True, columns, room)
    return True


@apart_kernel
def _start_by_place(
    n_started: int, place: int, now: float, time: float, is_kept: bool, columns: Columns, room: Room
) -> int:
    """Start jobs in the order of the queue, from a place on; return the new count of starts."""
    head = columns.queue[columns.counts[at.HEAD]]
    while columns.counts[at.FREE] != 0:
        place = next_behind(place, -1 if is_kept else machine.extra_units(room), now, time, columns)
        if place >= columns.counts[at.PLACES]:
            break
        slot = columns.queue[place]
        if _start_behind(slot, head, now, time, is_kept, columns, room):
            columns.started[n_started] = slot
            n_started += 1
            leave(place, columns)
        place += 1
    return n_started


@apart_kernel
def _select_min(k: int, n: int, column: int, beside: int, now: float, time: float, columns: Columns) -> int:
    """Swap the first candidate by key to k; drop those that no longer qualify; return how many remain."""
    best, this, free = -1, k, columns.counts[at.FREE]
    while this < n:
        slot = columns.spare[this]
        units = columns.ints[at.UNITS, slot]
        if units > free or (units > beside and not now + columns.floats[at.ESTIMATE, slot] <= time):
            n -= 1
            columns.spare[this] = columns.spare[n]
            continue
        if best < 0 or goes_before(slot, columns.spare[best], column, columns.ints, columns.floats):
            best = this
        this += 1
    if best >= 0:
        columns.spare[k], columns.spare[best] = columns.spare[best], columns.spare[k]
    return n


@apart_kernel
def _start_by_key(
    n_started: int, place: int, now: float, time: float, is_kept: bool, columns: Columns, room: Room
) -> int:
    """Start jobs from a place on, in the order of backfilling; return the new count of starts."""
    head, column = columns.queue[columns.counts[at.HEAD]], at.KEY
    n, k = _candidates(place, now, time, is_kept, columns, room), 0
    if columns.rules[at.ORDER] != columns.rules[at.POLICY]:
        column = at.WALK_KEY
        compute_walk_keys(n, now, columns.spare, columns)
    while columns.counts[at.FREE] != 0:
        if k < _CHOSEN_SINGLY:
            beside = -1 if is_kept else machine.extra_units(room)
            n = _select_min(k, n, column, beside, now, time, columns)
        elif k == _CHOSEN_SINGLY:
            rest, scratch = columns.spare[k:], columns.spare[len(columns.queue) :]
            sort_slots(n - k, rest, scratch, column, columns.ints, columns.floats)
        if k == n:
            break
        slot = columns.spare[k]
        k += 1
        if _start_behind(slot, head, now, time, is_kept, columns, room):
            columns.started[n_started] = slot
            n_started += 1
            leave(columns.ints[at.PLACE, slot], columns)
    return n_started


@apart_kernel
def backfill(n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start jobs behind the head that do not delay its reservation, if any; return the count of starts."""
    place = _first_candidate(now, columns, room)
    if place >= columns.counts[at.PLACES]:
        return n_started
    time, is_kept = np.inf, columns.rules[at.EASY_AS] in (at.ACCASIM, at.BATSCHED)
    if is_kept:
        time = _kept_reservation(columns)
    elif columns.rules[at.BACKFILL] == at.EASY:
        time = find_reservation(columns.queue[columns.counts[at.HEAD]], now, columns, room)
    if columns.counts[at.UNSORTED] or columns.rules[at.ORDER] != columns.rules[at.POLICY]:
        return _start_by_key(n_started, place, now, time, is_kept, columns, room)
    return _start_by_place(n_started, place, now, time, is_kept, columns, room)


@apart_kernel
def _shortest(part: IntColumn, now: float, columns: Columns, room: Room) -> int:
    """Return the place of the shortest job that may start on a part of the free units; -1 if none."""
    head, best, time = columns.queue[columns.counts[at.HEAD]], -1, np.inf
    if columns.rules[at.BACKFILL] == at.EASY:
        time = find_reservation(head, now, columns, room)
    for k in range(columns.counts[at.FRONT], columns.counts[at.PLACES]):
        slot = columns.queue[k]
        if slot == GONE:
            continue
        if best >= 0 and not goes_before(
            slot, columns.queue[best], at.ESTIMATE, columns.ints, columns.floats
        ):
            continue
        if not machine.find_room_in_part(slot, part, now, columns, room):
            continue
        in_time = slot == head or now + columns.floats[at.ESTIMATE, slot] <= time
        if in_time or machine.fits_with_reservation(slot, head, False, columns, room):
            best = k
        machine.clear_found(room)
    return best


@apart_kernel
def start_short_jobs(part: IntColumn, now: float, columns: Columns, room: Room) -> int:
    """Start the shortest jobs that fit on ``part``, units released since the last pass; return how many."""
    machine.measure_part(part, columns, room)
    n_started = 0
    while columns.counts[at.QUEUED] > 0:
        k = _shortest(part, now, columns, room)
        if k < 0:
            break
        slot, overtakes = columns.queue[k], k != columns.counts[at.HEAD]
        leave(k, columns)
        if not overtakes and columns.counts[at.UNSORTED]:
            find_next_head(columns)
        machine.find_room_in_part(slot, part, now, columns, room)
        machine.begin_on_part(slot, part, now, overtakes, columns, room)
        columns.started[n_started] = slot
        n_started += 1
    return n_started
