"""Backfilling with several reservations: the first k jobs that do not fit have one, in each pass anew."""

from __future__ import annotations

from mlsim._jit import apart_kernel
from mlsim.batch.backfill.profile import END, earliest, fits_now, make_profile, take
from mlsim.batch.columns.columns import FIRST, ORDER, POLICY, QUEUED, RESERVATIONS, Columns
from mlsim.batch.order.queue import drop_started, order_walk
from mlsim.batch.room.room import (
    Room,
    could_start,
    forget_found,
    in_room,
)
from mlsim.batch.room.steps import begin

__all__ = ["backfill_several"]


@in_room
def _start_in_profile(slot: int, n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start a job behind the head if it fits without touching a reservation; return the count of starts."""
    if not could_start(slot, now, columns, room) or not fits_now(slot, columns, room):
        return n_started
    take(slot, columns.counts[FIRST], columns, room)
    begin(slot, now, True, columns, room)
    columns.started[n_started] = slot
    return n_started + 1


@in_room
def _reserve_unkept(slot: int, columns: Columns, room: Room) -> None:
    """Take a job's earliest place out of the profile, for this pass only."""
    first = earliest(slot, columns, room)
    if first != END:
        take(slot, first, columns, room)
    forget_found(room)


@apart_kernel
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
        drop_started(columns)
    return n_started
