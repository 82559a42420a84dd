"""Backfilling with no reservation (greedy) or with one (EASY).

EASY is that of Mu'alem and Feitelson 2001, with an order of its own for the walk of backfilling as in Zrigui
2021, Algorithm 1. What other simulators mean by EASY, and where it is here: accasim and batsched keep the
head's reservation from pass to pass and are in this module; cqsim is in
:mod:`mlsim.batch.backfill.reservations`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.batch.columns.arrays import (
    ACCASIM,
    BACKFILL,
    BATSCHED,
    EASY,
    EASY_AS,
    EXCLUSIVE,
    FREE,
    ORDER,
    POLICY,
    QUEUED,
    RUNNING,
    Arrays,
)
from mlsim.batch.columns.running import first_after
from mlsim.batch.columns.table import ESTIMATE, EXPECTED, HELD, NUMBER, RESERVED, START, UNITS
from mlsim.batch.order.queue import order_walk
from mlsim.batch.room.pool import begin_job, begin_on

__all__ = [
    "OVERDUE_GRACE",
    "backfill",
    "drop_started",
    "is_put_off",
    "keep_reservation",
    "kept_reservation",
    "overdue_end",
    "reserve",
    "start_short_jobs",
]

OVERDUE_GRACE = 1.0
"""Seconds after now at which a job that outlived its estimate is expected to end."""


@kernel(forceinline=True)
def overdue_end(now: float, s: Arrays) -> float:
    """Return when jobs that outlived their estimates are expected to end; AccaSim believes in their past."""
    return now if s.rules[EASY_AS] == ACCASIM else now + OVERDUE_GRACE


@kernel(forceinline=True)
def reserve(need: int, now: float, s: Arrays) -> tuple[float, int]:
    """Find when enough units are expected to be free, and how many are left over then.

    Units are counted as each job still holds them, so nodes that a job has released early are not
    expected a second time. A job that outlived its estimate is expected at :func:`overdue_end`.

    Parameters
    ----------
    need
        Units that the job with the reservation asks for; more than are free now.
    now
        Current time in seconds.
    s
        State of the batch level.

    Returns
    -------
    time, extra
        The reservation's time, and the units free at that time beyond ``need``; infinity and none where
        nodes are out of use and there will not be enough.
    """
    n = s.counts[RUNNING]
    late = first_after(now, s.running, n, s.floats)
    overdue = 0
    for k in range(late):
        overdue += s.ints[HELD, s.running[k]]
    free, k, time, overdue_time = s.counts[FREE], late, now, overdue_end(now, s)
    while free < need and time < np.inf:
        upcoming = s.floats[EXPECTED, s.running[k]] if k < n else np.inf
        time = min(upcoming, overdue_time) if overdue > 0 else upcoming
        if overdue > 0 and time == overdue_time:
            free += overdue
            overdue = 0
        while k < n and s.floats[EXPECTED, s.running[k]] <= time:
            free += s.ints[HELD, s.running[k]]
            k += 1
    return time, max(free - need, 0)


@kernel(forceinline=True)
def is_put_off(now: float, s: Arrays) -> bool:
    """Whether the head has to wait for its reservation, even if it fits (accasim)."""
    return bool(s.rules[EASY_AS] == ACCASIM and s.counts[QUEUED] > 0 and s.floats[RESERVED, s.queue[0]] > now)


@kernel(forceinline=True)
def keep_reservation(now: float, s: Arrays) -> None:
    """Reserve for a head that has no reservation yet, once for good."""
    head = s.queue[0]
    if np.isnan(s.floats[RESERVED, head]):
        time, _ = reserve(s.ints[UNITS, head], now, s)
        if time < np.inf:
            s.floats[RESERVED, head] = time


@kernel(forceinline=True)
def kept_reservation(s: Arrays) -> float:
    """Return by when jobs must end that overtake a head whose reservation is kept; infinity: whenever.

    accasim never vetoes; batsched does, where the head has a reservation.
    """
    time = s.floats[RESERVED, s.queue[0]]
    return np.inf if s.rules[EASY_AS] == ACCASIM or np.isnan(time) else float(time)


@kernel(forceinline=True)
def backfill(n_started: int, now: float, s: Arrays) -> int:
    """Start jobs behind the head that do not delay its reservation, if it has one.

    Gives the new count of starts.
    """
    time, extra = np.inf, 0
    if s.rules[EASY_AS] == ACCASIM or s.rules[EASY_AS] == BATSCHED:
        time = kept_reservation(s)
    elif s.rules[BACKFILL] == EASY:
        time, extra = reserve(s.ints[UNITS, s.queue[0]], now, s)
    if s.rules[ORDER] == s.rules[POLICY]:
        return _walk_queue(n_started, now, time, extra, s)
    return _walk_in_order(n_started, now, time, extra, s)


@kernel(forceinline=True)
def _walk_queue(n_started: int, now: float, time: float, extra: int, s: Arrays) -> int:
    """Walk the queue itself, closing the gaps on the way."""
    n, kept, k = s.counts[QUEUED], 1, 1
    while k < n and s.counts[FREE] > 0:
        slot = s.queue[k]
        units = s.ints[UNITS, slot]
        in_time = now + s.floats[ESTIMATE, slot] <= time
        if units <= s.counts[FREE] and (in_time or units <= extra):
            if not in_time:
                extra -= units
            begin_job(slot, now, True, s)
            s.started[n_started] = slot
            n_started += 1
        else:
            s.queue[kept] = slot
            kept += 1
        k += 1
    if kept < k:
        for j in range(k, n):
            s.queue[kept + j - k] = s.queue[j]
        s.counts[QUEUED] = n - (k - kept)
    return n_started


@kernel(forceinline=True)
def _walk_in_order(n_started: int, now: float, time: float, extra: int, s: Arrays) -> int:
    """Walk the waiting jobs in an order of their own.

    Free and extra units only become fewer on the way, so jobs that do not pass now need not be sorted.
    """
    candidates, n = s.spare, 0
    for k in range(1, s.counts[QUEUED]):
        slot = s.queue[k]
        units = s.ints[UNITS, slot]
        if units <= s.counts[FREE] and (now + s.floats[ESTIMATE, slot] <= time or units <= extra):
            candidates[n] = slot
            n += 1
    order_walk(n, now, candidates, s.spare[len(s.queue) :], s)
    before = n_started
    for k in range(n):
        slot = candidates[k]
        units = s.ints[UNITS, slot]
        in_time = now + s.floats[ESTIMATE, slot] <= time
        if units <= s.counts[FREE] and (in_time or units <= extra):
            if not in_time:
                extra -= units
            begin_job(slot, now, True, s)
            s.started[n_started] = slot
            n_started += 1
    if n_started > before:
        drop_started(1, s)
    return n_started


@kernel
def drop_started(first: int, s: Arrays) -> None:
    """Take jobs that have started out of the queue, from a place on."""
    kept = first
    for k in range(first, s.counts[QUEUED]):
        slot = s.queue[k]
        if np.isnan(s.floats[START, slot]):
            s.queue[kept] = slot
            kept += 1
    s.counts[QUEUED] = kept


@kernel
def _shortest(room: int, now: float, s: Arrays) -> int:
    """Find the place in the queue of the shortest job that may start on ``room`` released units; -1: none."""
    easy = s.rules[BACKFILL] == EASY
    head = s.queue[0]
    shadow, extra = now, s.counts[FREE] - s.ints[UNITS, head]
    if extra < 0:
        shadow, extra = reserve(s.ints[UNITS, head], now, s)
    best = -1
    for k in range(s.counts[QUEUED]):
        slot = s.queue[k]
        units = s.ints[UNITS, slot]
        harmless = k == 0 or not easy or now + s.floats[ESTIMATE, slot] <= shadow or units <= extra
        if units > min(room, s.counts[FREE]) or not harmless:
            continue
        if (
            best < 0
            or s.floats[ESTIMATE, slot] < s.floats[ESTIMATE, s.queue[best]]
            or (
                s.floats[ESTIMATE, slot] == s.floats[ESTIMATE, s.queue[best]]
                and s.ints[NUMBER, slot] < s.ints[NUMBER, s.queue[best]]
            )
        ):
            best = k
    return best


@kernel
def start_short_jobs(released: NDArray[np.int64], now: float, s: Arrays) -> int:
    """Start the shortest jobs that fit on what was released since the last pass; give how many."""
    np.minimum(released, s.free, released)  # what failed in the meantime is gone
    room = 0
    for node in range(len(released)):
        room += int(released[node] > 0) if s.rules[EXCLUSIVE] else released[node]
    n_started = 0
    while room > 0 and s.counts[QUEUED] > 0:
        k = _shortest(room, now, s)
        if k < 0:
            break
        slot = s.queue[k]
        for j in range(k + 1, s.counts[QUEUED]):
            s.queue[j - 1] = s.queue[j]
        s.counts[QUEUED] -= 1
        room -= s.ints[UNITS, slot]
        begin_on(released, slot, now, k > 0, s)
        s.started[n_started] = slot
        n_started += 1
    return n_started
