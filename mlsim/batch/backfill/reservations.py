"""Backfilling with several reservations: the first k jobs that do not fit, or every waiting job."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.batch.backfill.easy import drop_started
from mlsim.batch.backfill.profile import earliest, fits_now, give, make_profile, take
from mlsim.batch.columns.arrays import (
    CQSIM,
    EARLY,
    EASY_AS,
    FREE,
    KILLS,
    ONE_ROUND,
    ORDER,
    POLICY,
    QUEUED,
    RESERVATIONS,
    SEGMENTS,
    Arrays,
)
from mlsim.batch.columns.table import ESTIMATE, RESERVED, RUN, UNITS, WALLTIME
from mlsim.batch.order.queue import order_walk
from mlsim.batch.room.pool import begin_job, leave_time

__all__ = ["backfill_conservative", "backfill_several", "next_reservation", "reserved_time"]


@kernel(forceinline=True)
def reserved_time(slot: int, s: Arrays) -> float:
    """Return for how long (s) a waiting job asks for room: its estimate, or how long it will run (cqsim)."""
    if s.rules[EASY_AS] != CQSIM:
        return float(s.floats[ESTIMATE, slot])
    return leave_time(s.floats[RUN, slot], 0.0, s.floats[WALLTIME, slot], s.rules[KILLS] != 0)


@kernel(forceinline=True)
def next_reservation(now: float, n: int, queue: NDArray[np.int64], floats: NDArray[np.float64]) -> float:
    """Return the first reservation after now of the ``n`` waiting jobs; infinity if there is none."""
    time = np.inf
    for k in range(n):
        reserved = floats[RESERVED, queue[k]]
        if now < reserved < time:
            time = float(reserved)
    return time


@kernel(forceinline=True)
def _reserve_earliest(slot: int, s: Arrays) -> float:
    """Give a job its earliest place in the profile; infinity if there is none."""
    units, duration = s.ints[UNITS, slot], reserved_time(slot, s)
    time = earliest(units, duration, s)
    if time < np.inf:
        take(time, duration, units, s)
    return time


@kernel(forceinline=True)
def _start_in_profile(slot: int, n_started: int, now: float, s: Arrays) -> int:
    """Start a job behind the head if it fits without touching a reservation; give the count of starts."""
    units, duration = s.ints[UNITS, slot], reserved_time(slot, s)
    if not fits_now(units, duration, s):
        return n_started
    take(now, duration, units, s)
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
            take(time, reserved_time(slot, s), s.ints[UNITS, slot], s)
    return bool(s.profile_free[: s.counts[SEGMENTS]].min() >= 0)


@kernel(forceinline=True)
def _compress(s: Arrays) -> None:
    """Let each job with a reservation have its earliest place, given all others, until nothing moves.

    No reservation becomes later, as each job could always have its old place. In one round, each job has one
    try; it may then start at a time at which nothing else happens.
    """
    moved = True
    while moved:
        moved = False
        for k in range(s.counts[QUEUED]):
            slot = s.queue[k]
            old = s.floats[RESERVED, slot]
            if not old < np.inf:
                continue
            give(old, reserved_time(slot, s), s.ints[UNITS, slot], s)
            s.floats[RESERVED, slot] = _reserve_earliest(slot, s)
            moved = moved or s.floats[RESERVED, slot] < old
        moved = moved and not s.rules[ONE_ROUND]


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
