"""One instant of the batch level, compiled: what ended, what arrived, and the pass over the queue."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import borrowed, kernel
from mlsim.batch.backfill.easy import backfill, is_put_off, keep_reservation, start_short_jobs
from mlsim.batch.backfill.reservations import backfill_conservative, backfill_several
from mlsim.batch.columns.arrays import (
    BACKFILL,
    CONSERVATIVE,
    ENDS_FIRST,
    FREE,
    KEEPS,
    LOOKS_BEHIND,
    NONE,
    PER_EVENT,
    QUEUED,
    RESERVATIONS,
    RUNNING,
    Arrays,
    arrays_at,
)
from mlsim.batch.columns.table import EXPECTED, PLANNED, UNITS
from mlsim.batch.order.queue import enqueue, order_queue
from mlsim.batch.room.pool import begin_job, end_job

__all__ = ["enter_queue", "happen", "instant"]

Ints = NDArray[np.int64]


@kernel(forceinline=True)
def enter_queue(now: float, first: int, last: int, arrivals: Ints, s: Arrays) -> None:
    """Put the jobs ``arrivals[first:last]`` into the queue."""
    for k in range(first, last):
        enqueue(arrivals[k], now, s)


@kernel(forceinline=True)
def _start_in_order(n_started: int, now: float, s: Arrays) -> int:
    """Start jobs from the queue's head up to the first that does not fit; give the new count of starts."""
    n, head = s.counts[QUEUED], 0
    while head < n and s.ints[UNITS, s.queue[head]] <= s.counts[FREE]:
        slot = s.queue[head]
        begin_job(slot, now, False, s)
        s.started[n_started + head] = slot
        head += 1
    if head > 0:
        for k in range(head, n):
            s.queue[k - head] = s.queue[k]
        s.counts[QUEUED] = n - head
    return n_started + head


@kernel(forceinline=True)
def _free_what_is_due(now: float, s: Arrays) -> None:
    """Let jobs whose estimated end has come, and that end now, be gone before their end is handled."""
    k = 0
    while k < s.counts[RUNNING] and s.floats[EXPECTED, s.running[k]] <= now:
        slot = s.running[k]
        if s.floats[PLANNED, slot] == now:
            end_job(slot, now, s)
        else:
            k += 1


@kernel(inline="always")
def _make_pass(now: float, released: Ints, s: Arrays) -> int:
    """Start what can start; give how many jobs do."""
    rule = s.rules[BACKFILL]
    if s.counts[QUEUED] == 0 or (s.counts[FREE] == 0 and not s.rules[KEEPS]):
        return 0
    order_queue(now, s)
    n_started = start_short_jobs(released, now, s) if len(released) > 0 else 0
    if rule == CONSERVATIVE:
        return backfill_conservative(n_started, now, s)
    if not is_put_off(now, s):
        n_started = _start_in_order(n_started, now, s)
    if s.rules[KEEPS] and s.counts[QUEUED] > 0:
        keep_reservation(now, s)
    if rule == NONE or not s.rules[LOOKS_BEHIND] or s.counts[QUEUED] < 2 or s.counts[FREE] == 0:
        return n_started
    if s.rules[RESERVATIONS] != 1:
        return backfill_several(n_started, now, s)
    return backfill(n_started, now, s)


@kernel(inline="always")
def happen(
    now: float, n_ended: int, ended: Ints, first: int, last: int, arrivals: Ints, released: Ints, s: Arrays
) -> int:
    """Let jobs end and arrive, then make a pass; see :func:`instant`."""
    for k in range(n_ended):
        end_job(ended[k], now, s)
    if s.rules[PER_EVENT] and not s.rules[ENDS_FIRST]:
        _free_what_is_due(now, s)
    enter_queue(now, first, last, arrivals, s)
    return _make_pass(now, released, s)


@kernel
def instant(
    now: float,
    n_ended: int,
    ended: Ints,
    first: int,
    last: int,
    arrivals: Ints,
    released: Ints,
    places: Ints,
) -> int:
    """Handle everything that happens to the batch level at one time, then make a pass.

    Parameters
    ----------
    now
        Current time in seconds.
    n_ended, ended
        Slots of the jobs that end now.
    first, last, arrivals
        Slots of the jobs submitted now, ``arrivals[first:last]``.
    released
        Cores of each node released since the last pass, which go to short jobs first; empty where there are
        none or they are like any others.
    places
        Where the state of the batch level is (:func:`mlsim.batch.columns.arrays.places_of`); it is
        changed.

    Returns
    -------
    int
        How many jobs start.
    """
    s = arrays_at(places)
    return happen(now, n_ended, borrowed(ended), first, last, borrowed(arrivals), borrowed(released), s)
