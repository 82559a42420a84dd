"""Backfilling with several reservations: the first k jobs that do not fit have one, in each pass anew.

What a pass reserves is forgotten at its end. So it reserves only while there is a job that it might keep from
starting: a *candidate*, for which enough is free now, and stays free for as long as the job asks for room. As
less and less is free, a job that is no candidate any more never is one again in the same pass.
"""

from __future__ import annotations

import numpy as np

from mlsim._jit import inner_kernel
from mlsim.batch.backfill.easy import next_behind
from mlsim.batch.backfill.profile import END, fits_now, make_profile, short_of, take
from mlsim.batch.backfill.searches import begin_searches, earliest
from mlsim.batch.columns.columns import (
    CQSIM,
    EASY_AS,
    FIRST,
    HEAD,
    MOST_UNITS,
    ORDER,
    PLACES,
    POLICY,
    RESERVATIONS,
    Columns,
)
from mlsim.batch.columns.table import PLACE
from mlsim.batch.columns.times import reserved_time, stay_end
from mlsim.batch.order.blocks import GONE
from mlsim.batch.order.queue import leave, order_walk
from mlsim.batch.room.room import (
    Room,
    asked,
    could_start,
    counts_units,
    forget_found,
    in_room,
)
from mlsim.batch.room.steps import begin

__all__ = ["backfill_several"]


@in_room
def _start_in_profile(place: int, n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start a job behind the head if it fits without touching a reservation; return the count of starts."""
    slot = columns.queue[place]
    if not could_start(slot, now, columns, room) or not fits_now(slot, columns, room):
        return n_started
    take(slot, columns.counts[FIRST], columns, room)
    begin(slot, now, True, columns, room)
    columns.started[n_started] = slot
    leave(place, columns)
    return n_started + 1


@in_room
def _reserve_unkept(slot: int, columns: Columns, room: Room) -> int:
    """Take a job's earliest place out of the profile, for this pass only; return its segment, or END."""
    first = earliest(slot, columns, room)
    if first != END:
        take(slot, first, columns, room)
    forget_found(room)
    return int(first)


@in_room
def _list_candidates(reserved: int, now: float, columns: Columns, room: Room) -> int:
    """List the places of the jobs behind the head that could start; return how many there are.

    They end by the segment with which the head is ``reserved``, or are content with what is free then.
    """
    time, beside, n = columns.profile_times[reserved], columns.profile_free[reserved], 0
    if not counts_units(room) or columns.rules[EASY_AS] == CQSIM:
        time = np.inf  # not only units and estimates matter
    place = next_behind(columns.counts[HEAD] + 1, beside, now, time, columns)
    while place < columns.counts[PLACES]:
        slot = columns.queue[place]
        if could_start(slot, now, columns, room):
            columns.spare[n] = place
            n += 1
        place = next_behind(place + 1, beside, now, time, columns)
    return n


@in_room
def _stays_free(slot: int, columns: Columns, room: Room) -> bool:
    """Whether as much as a job asks for is counted as free from now on, for as long as it asks for room."""
    first = columns.counts[FIRST]
    end = stay_end(columns.profile_times[first], reserved_time(slot, columns))
    return bool(short_of(asked(slot, columns, room), first, end, columns) == END)


@in_room
def _first_candidate(k: int, n: int, columns: Columns, room: Room) -> int:
    """Return which of the candidates, from the k-th on, is the first that still is one; n if none is."""
    while k < n and not _stays_free(columns.queue[columns.spare[k]], columns, room):
        k += 1
    return k


@in_room
def _start_rest(k: int, n: int, n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start candidates from the k-th on in the order of backfilling; return the new count of starts."""
    rest = columns.spare
    for this in range(k, n):
        place = columns.spare[this]
        rest[this - k] = columns.queue[place]
        columns.ints[PLACE, columns.queue[place]] = place
    if columns.rules[ORDER] != columns.rules[POLICY]:
        order_walk(n - k, now, rest, columns.spare[len(columns.queue) :], columns)
    for this in range(n - k):
        place = columns.ints[PLACE, rest[this]]
        n_started = _start_in_profile(place, n_started, now, columns, room)
    return n_started


@in_room
def _reserve(n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Reserve for k jobs in their order, start candidates on the way and then; return the count of starts."""
    place = columns.counts[HEAD]
    first = _reserve_unkept(columns.queue[place], columns, room)
    n, reserved = _list_candidates(first, now, columns, room), 1
    k = _first_candidate(0, n, columns, room)
    while k < n and reserved < columns.rules[RESERVATIONS]:
        place += 1
        slot, so_far = columns.queue[place], n_started
        if slot == GONE:
            continue
        if place == columns.spare[k]:
            n_started = _start_in_profile(place, n_started, now, columns, room)
            k += 1
        if n_started == so_far:
            _reserve_unkept(slot, columns, room)
            reserved += 1
        k = _first_candidate(k, n, columns, room)
    return _start_rest(k, n, n_started, now, columns, room)


@inner_kernel
def backfill_several(n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start jobs behind the head that do not delay the reservations of the first k jobs that do not fit.

    The queue is walked in its own order until k jobs have a reservation, the rest of it in the order of
    backfilling. With k = 1 this is EASY. Returns the new count of starts.
    """
    if next_behind(columns.counts[HEAD] + 1, MOST_UNITS, now, np.inf, columns) == columns.counts[PLACES]:
        return n_started
    make_profile(now, columns, room)
    begin_searches(columns)
    return _reserve(n_started, now, columns, room)
