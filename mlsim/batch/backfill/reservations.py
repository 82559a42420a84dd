"""Backfilling with reservations for the first k jobs."""

import math
from typing import Final

import numpy as np

from mlsim._jit import inner_kernel, leaf_kernel
from mlsim.batch.backfill import free_profile
from mlsim.batch.backfill.easy import next_behind
from mlsim.batch.backfill.free_profile import END
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import Columns
from mlsim.batch.columns.running_jobs import reserved_time, stay_end
from mlsim.batch.order.queue import leave, order_walk
from mlsim.batch.order.queue_blocks import GONE
from mlsim.batch.room.room import Room, begin, clear_found, could_start, counts_units, in_room, requested

_FINE: Final = 2
"""Classes of sizes in which numbers of units double."""
N_SIZES: Final = 64
"""Classes; the last one has no end."""
N_DURATIONS: Final = 63
"""Classes of durations, two in which they double, one bit of a word each; the last one has no end."""

_LONG: Final = 2.0**31


@leaf_kernel
def size_of(units: int) -> int:
    """Return the class of a number of units, 0 of them or more."""
    doubled = 0
    while units >= 2 * _FINE:
        units >>= 1
        doubled += 1
    return min(_FINE * doubled + units, N_SIZES - 1)


@leaf_kernel
def least_of(size: int) -> int:
    """Return the smallest number of units of a class."""
    doubled = max(size // _FINE - 1, 0)
    return (size - _FINE * doubled) << doubled


@leaf_kernel
def duration_class(seconds: float) -> int:
    """Return the class of a duration (s), 0 or more."""
    if seconds >= _LONG:
        return N_DURATIONS - 1
    fraction, exponent = math.frexp(seconds)
    return int(min(max(2 * exponent + (1 if fraction >= 0.75 else 0), 0), N_DURATIONS - 1))


@leaf_kernel
def shortest_of(lasts: int) -> float:
    """Return the shortest duration (s) of a class."""
    if lasts == 0:
        return 0.0
    return math.ldexp(0.75 if lasts & 1 else 0.5, lasts >> 1)


@leaf_kernel
def begin_searches(columns: Columns) -> None:
    """Begin to search a profile in which free units only decrease."""
    columns.searched_classes[:] = 0


@leaf_kernel
def _least_place(units: int, duration: float, columns: Columns) -> int:
    """Return the first segment at which the smallest job of the class of such a job fits."""
    size, lasts = size_of(units), duration_class(duration)
    bit = np.int64(1) << np.int64(lasts)
    first = columns.counts[at.FIRST]
    if columns.searched_classes[size] & bit:
        first = columns.searched[size, lasts]
    columns.searched_classes[size] |= bit
    first = free_profile.earliest_counted(least_of(size), shortest_of(lasts), first, columns)
    columns.searched[size, lasts] = first
    return int(first)


@in_room
def earliest(slot: int, columns: Columns, room: Room) -> int:
    """Return the first segment at which a job fits for its duration, or END; note its units."""
    first = _least_place(requested(slot, columns, room), reserved_time(slot, columns), columns)
    return free_profile.earliest_in(slot, first, np.inf, columns, room)


@in_room
def _start_in_profile(place: int, n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start a job behind the head if it fits without touching a reservation; return the count of starts."""
    slot = columns.queue[place]
    if not could_start(slot, now, columns, room) or not free_profile.fits_now(slot, columns, room):
        return n_started
    free_profile.take(slot, columns.counts[at.FIRST], columns, room)
    begin(slot, now, True, columns, room)
    columns.started[n_started] = slot
    leave(place, columns)
    return n_started + 1


@in_room
def _reserve_unkept(slot: int, columns: Columns, room: Room) -> int:
    """Reserve a job's earliest place, for this pass only; return its segment, or END."""
    first = earliest(slot, columns, room)
    if first != END:
        free_profile.take(slot, first, columns, room)
    clear_found(room)
    return int(first)


@in_room
def _list_candidates(reserved: int, now: float, columns: Columns, room: Room) -> int:
    """List the places of jobs that could start beside the head, by what is counted; return how many."""
    time, beside, n = columns.profile_times[reserved], columns.profile_free[reserved], 0
    if not counts_units(room) or columns.rules[at.EASY_AS] == at.CQSIM:
        time = np.inf  # not only units and estimates matter
    place = next_behind(columns.counts[at.HEAD] + 1, beside, now, time, columns)
    while place < columns.counts[at.PLACES]:
        slot = columns.queue[place]
        if could_start(slot, now, columns, room):
            columns.spare[n] = place
            n += 1
        place = next_behind(place + 1, beside, now, time, columns)
    return n


@in_room
def _stays_free(slot: int, columns: Columns, room: Room) -> bool:
    """Whether enough units for a job are counted as free from now on for its duration."""
    first = columns.counts[at.FIRST]
    end = stay_end(columns.profile_times[first], reserved_time(slot, columns))
    return bool(free_profile.short_of(requested(slot, columns, room), first, end, columns) == END)


@in_room
def _first_candidate(k: int, n: int, columns: Columns, room: Room) -> int:
    """Return the first candidate, from the k-th on, that still is one; n if none is."""
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
        columns.ints[at.PLACE, columns.queue[place]] = place
    if columns.rules[at.ORDER] != columns.rules[at.POLICY]:
        order_walk(n - k, now, rest, columns.spare[len(columns.queue) :], columns)
    for this in range(n - k):
        place = columns.ints[at.PLACE, rest[this]]
        n_started = _start_in_profile(place, n_started, now, columns, room)
    return n_started


@in_room
def _reserve(n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Reserve for k jobs in order, start candidates between and after; return the count of starts."""
    place = columns.counts[at.HEAD]
    first = _reserve_unkept(columns.queue[place], columns, room)
    n, reserved = _list_candidates(first, now, columns, room), 1
    k = _first_candidate(0, n, columns, room)
    while k < n and reserved < columns.rules[at.RESERVATIONS]:
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

    The queue is walked in its own order until k jobs have a reservation, the rest in the order of
    backfilling. With k = 1 this is EASY. Returns the new count of starts.
    """
    behind = columns.counts[at.HEAD] + 1
    if next_behind(behind, at.MOST_UNITS, now, np.inf, columns) == columns.counts[at.PLACES]:
        return n_started
    free_profile.make_profile(now, columns, room)
    begin_searches(columns)
    return _reserve(n_started, now, columns, room)
