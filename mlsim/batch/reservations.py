"""Backfilling with several reservations: the first k jobs that do not fit, or every waiting job."""

from __future__ import annotations

import numpy as np

from mlsim._jit import kernel
from mlsim.batch.arrays import EARLY, FREE, ORDER, POLICY, QUEUED, RESERVATIONS, SEGMENTS, Arrays
from mlsim.batch.backfill import drop_started
from mlsim.batch.profile import earliest, fits_now, give, make_profile, take
from mlsim.batch.queue import order_walk
from mlsim.batch.steps import begin_job
from mlsim.batch.table import ESTIMATE, RESERVED, UNITS

__all__ = ["backfill_conservative", "backfill_several"]


@kernel(forceinline=True)
def _reserve_earliest(slot: int, s: Arrays) -> float:
    """Give a job its earliest place in the profile; infinity if there is none."""
    units, estimate = s.ints[UNITS, slot], s.floats[ESTIMATE, slot]
    time = earliest(units, estimate, s)
    if time < np.inf:
        take(time, time + estimate, units, s)
    return time


@kernel(forceinline=True)
def _start_in_profile(slot: int, n_started: int, now: float, s: Arrays) -> int:
    """Start a job behind the head if it fits without touching a reservation; give the count of starts."""
    units, estimate = s.ints[UNITS, slot], s.floats[ESTIMATE, slot]
    if not fits_now(units, estimate, s):
        return n_started
    take(now, now + estimate, units, s)
    begin_job(slot, now, True, s)
    s.started[n_started] = slot
    return n_started + 1


@kernel
def backfill_several(n_started: int, now: float, s: Arrays) -> int:
    """Start jobs behind the head that do not delay the reservations of the first k jobs that do not fit.

    The queue is walked in its own order until k jobs have a reservation, the rest of it in the order of
    backfilling. With k = 1 this is EASY. Gives the new count of starts.
    """
    make_profile(now, s)
    _reserve_earliest(s.queue[0], s)
    before, reserved, k = n_started, 1, 1
    while k < s.counts[QUEUED] and reserved < s.rules[RESERVATIONS]:
        so_far = n_started
        n_started = _start_in_profile(s.queue[k], n_started, now, s)
        if n_started == so_far:
            _reserve_earliest(s.queue[k], s)
            reserved += 1
        k += 1
    rest, n = s.spare, 0
    for place in range(k, s.counts[QUEUED]):
        if s.ints[UNITS, s.queue[place]] <= s.counts[FREE]:
            rest[n] = s.queue[place]
            n += 1
    if s.rules[ORDER] != s.rules[POLICY]:
        order_walk(n, now, rest, s.spare[len(s.queue) :], s)
    for place in range(n):
        n_started = _start_in_profile(rest[place], n_started, now, s)
    if n_started > before:
        drop_started(1, s)
    return n_started


@kernel(forceinline=True)
def _restore(now: float, s: Arrays) -> bool:
    """Make the profile with the reservations that jobs have; give whether they still hold."""
    make_profile(now, s)
    for k in range(s.counts[QUEUED]):
        slot = s.queue[k]
        time = s.floats[RESERVED, slot]
        if time < now:
            return False
        if time < np.inf:
            take(time, time + s.floats[ESTIMATE, slot], s.ints[UNITS, slot], s)
    return bool(s.profile_free[: s.counts[SEGMENTS]].min() >= 0)


@kernel(forceinline=True)
def _compress(s: Arrays) -> None:
    """Let each job with a reservation have its earliest place, given all others, until nothing moves.

    No reservation becomes later, as each job could always have its old place.
    """
    moved = True
    while moved:
        moved = False
        for k in range(s.counts[QUEUED]):
            slot = s.queue[k]
            old = s.floats[RESERVED, slot]
            if not old < np.inf:
                continue
            give(old, old + s.floats[ESTIMATE, slot], s.ints[UNITS, slot], s)
            s.floats[RESERVED, slot] = _reserve_earliest(slot, s)
            moved = moved or s.floats[RESERVED, slot] < old


@kernel
def backfill_conservative(n_started: int, now: float, s: Arrays) -> int:
    """Start the jobs whose reserved time has come; every other waiting job gets or keeps a reservation.

    Reservations are kept from pass to pass. Where units came back earlier than expected, they move
    forward, in the queue's order; where they do not hold any more, because a job outlives its
    estimate or nodes are out of use, all are made anew. Gives the new count of starts.
    """
    n = s.counts[QUEUED]
    if not _restore(now, s):
        for k in range(n):
            s.floats[RESERVED, s.queue[k]] = np.nan
        make_profile(now, s)
    elif s.counts[EARLY]:
        _compress(s)
    s.counts[EARLY] = 0
    before, overtakes = n_started, False
    for k in range(n):
        slot = s.queue[k]
        if not s.floats[RESERVED, slot] < np.inf:
            s.floats[RESERVED, slot] = _reserve_earliest(slot, s)
        if s.floats[RESERVED, slot] > now:
            overtakes = True
            continue
        begin_job(slot, now, overtakes, s)
        s.started[n_started] = slot
        n_started += 1
    if n_started > before:
        drop_started(0, s)
    return n_started
