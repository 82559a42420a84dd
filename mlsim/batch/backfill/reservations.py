"""Backfilling with several reservations: the first k jobs that do not fit, or every waiting job."""

from __future__ import annotations

import numpy as np

from mlsim._jit import inner_kernel, kernel
from mlsim.batch.backfill.easy import drop_started
from mlsim.batch.backfill.profile import earliest, fits_now, make_profile, restore, take
from mlsim.batch.columns.columns import EARLY, ONE_ROUND, ORDER, POLICY, QUEUED, RESERVATIONS, Columns
from mlsim.batch.columns.packing import FloatColumns, Ints
from mlsim.batch.columns.table import RESERVED
from mlsim.batch.order.queue import order_walk
from mlsim.batch.room.room import (
    Room,
    bring_plan,
    could_start,
    forget_found,
    in_room,
    is_sound,
    keep_plan,
    place_reserved,
    plan_holds,
)
from mlsim.batch.room.steps import begin

__all__ = ["backfill_conservative", "backfill_several", "next_reservation"]


@kernel(forceinline=True)
def next_reservation(now: float, n: int, queue: Ints, floats: FloatColumns) -> float:
    """Return the first reservation after now of the ``n`` waiting jobs; infinity if there is none."""
    time = np.inf
    for k in range(n):
        reserved = floats[RESERVED, queue[k]]
        if now < reserved < time:
            time = float(reserved)
    return time


@in_room
def _start_in_profile(slot: int, n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start a job behind the head if it fits without touching a reservation; return the count of starts."""
    if not could_start(slot, now, columns, room) or not fits_now(slot, columns, room):
        return n_started
    take(slot, now, columns, room)
    begin(slot, now, True, columns, room)
    columns.started[n_started] = slot
    return n_started + 1


@in_room
def _reserve_unkept(slot: int, columns: Columns, room: Room) -> None:
    """Take a job's earliest place out of the profile, for this pass only."""
    time = earliest(slot, columns, room)
    if time < np.inf:
        take(slot, time, columns, room)
    forget_found(room)


@inner_kernel
def backfill_several(n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start jobs behind the head that do not delay the reservations of the first k jobs that do not fit.

    The queue is walked in its own order until k jobs have a reservation, the rest of it in the order of
    backfilling. With k = 1 this is EASY. Returns the new count of starts.
    """
    make_profile(now, columns, room)
    _reserve_unkept(columns.queue[0], columns, room)
    before, reserved, k = n_started, 1, 1
    while k < columns.counts[QUEUED] and reserved < columns.rules[RESERVATIONS]:
        so_far = n_started
        n_started = _start_in_profile(columns.queue[k], n_started, now, columns, room)
        if n_started == so_far:
            _reserve_unkept(columns.queue[k], columns, room)
            reserved += 1
        k += 1
    rest, n = columns.spare, 0
    for waiting in range(k, columns.counts[QUEUED]):
        if could_start(columns.queue[waiting], now, columns, room):
            rest[n] = columns.queue[waiting]
            n += 1
    if columns.rules[ORDER] != columns.rules[POLICY]:
        order_walk(n, now, rest, columns.spare[len(columns.queue) :], columns)
    for waiting in range(n):
        n_started = _start_in_profile(rest[waiting], n_started, now, columns, room)
    if n_started > before:
        drop_started(1, columns)
    return n_started


@in_room
def _reserve_earliest(slot: int, columns: Columns, room: Room) -> None:
    """Reserve a job's earliest place in the profile; at infinity if there is none."""
    time = earliest(slot, columns, room)
    columns.floats[RESERVED, slot] = time
    if time < np.inf:
        take(slot, time, columns, room)
        keep_plan(slot, room)


@in_room
def _bring_reservations(now: float, columns: Columns, room: Room) -> bool:
    """Make the profile with the reservations that jobs have; return whether they still hold."""
    make_profile(now, columns, room)
    for k in range(columns.counts[QUEUED]):
        slot = columns.queue[k]
        time = columns.floats[RESERVED, slot]
        if time < now:
            return False
        if time < np.inf:
            bring_plan(slot, room)
            if not plan_holds(room):
                forget_found(room)
                return False
            take(slot, time, columns, room)
            forget_found(room)
    return is_sound(columns, room)


@in_room
def _compress(columns: Columns, room: Room) -> None:
    """Move each reservation to its earliest start, given all others, until nothing moves.

    No reservation becomes later, as each job can have its old place. Where the earliest time is the old one,
    it keeps its old nodes. In one round, each job has one try; it may then start at a time at which nothing
    else happens.
    """
    moved = True
    while moved:
        moved = False
        for k in range(columns.counts[QUEUED]):
            slot = columns.queue[k]
            old = columns.floats[RESERVED, slot]
            if not old < np.inf:
                continue
            bring_plan(slot, room)
            restore(slot, old, columns, room)
            forget_found(room)
            time = earliest(slot, columns, room)
            if time < old:
                moved = True
                keep_plan(slot, room)
            columns.floats[RESERVED, slot] = min(time, old)
            bring_plan(slot, room)
            take(slot, columns.floats[RESERVED, slot], columns, room)
            forget_found(room)
        moved = moved and not columns.rules[ONE_ROUND]


@inner_kernel
def backfill_conservative(n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start the jobs whose reserved time has come; every other waiting job gets or keeps a reservation.

    Reservations are kept from pass to pass, with their nodes. Where something came back earlier than
    expected, they move forward, in the queue's order; where they do not hold any more, because a job
    outlives its estimate or nodes are out of use, all are made anew. Returns the new count of starts.
    """
    n = columns.counts[QUEUED]
    if not _bring_reservations(now, columns, room):
        for k in range(n):
            columns.floats[RESERVED, columns.queue[k]] = np.nan
        make_profile(now, columns, room)
    elif columns.counts[EARLY]:
        _compress(columns, room)
    columns.counts[EARLY] = 0
    before, overtakes = n_started, False
    for k in range(n):
        slot = columns.queue[k]
        if not columns.floats[RESERVED, slot] < np.inf:
            _reserve_earliest(slot, columns, room)
        if columns.floats[RESERVED, slot] > now:
            overtakes = True
            continue
        place_reserved(slot, columns, room)
        begin(slot, now, overtakes, columns, room)
        columns.started[n_started] = slot
        n_started += 1
    if n_started > before:
        drop_started(0, columns)
    return n_started
