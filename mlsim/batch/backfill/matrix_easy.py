"""Backfilling with no reservation (greedy) or with one (EASY), exact for every node and resource.

The job that heads the queue gets the earliest time at which it is expected to fit, from estimates. At that
time the free resources of every node are known: running jobs whose expected end is not later are gone. A
later job starts if it fits now, on the nodes that the allocator gives it, and either is expected to end by
then, or the head still fits at that time on what these nodes then have left. No sum over nodes decides: a
job that takes the last GPU node delays a head that needs it, however many cores are free elsewhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel, kernel
from mlsim.batch.allocators.placing import clear_placed
from mlsim.batch.backfill.drains import place_now
from mlsim.batch.backfill.easy import drop_started, kept_reservation
from mlsim.batch.backfill.future import reserve, take_from_future
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
    Arrays,
)
from mlsim.batch.columns.table import ESTIMATE, NUMBER, RESERVED
from mlsim.batch.order.queue import order_walk
from mlsim.batch.room.fit import could_fit, refuse
from mlsim.batch.room.grid import Grid
from mlsim.batch.room.matrix import begin_placed, has_power

__all__ = ["backfill", "keep_reservation", "start_if_fits", "start_short_jobs"]

Ints = NDArray[np.int64]


@kernel
def start_if_fits(slot: int, now: float, backfilled: bool, s: Arrays, g: Grid) -> bool:
    """Start a job if the allocator finds nodes for it now."""
    if not could_fit(slot, now, s, g):
        return False
    if not place_now(slot, g.free, now, s, g):
        refuse(slot, now, s, g)
        return False
    if not has_power(slot, s, g):
        clear_placed(g)
        return False
    begin_placed(slot, now, backfilled, s, g)
    return True


@inner_kernel
def keep_reservation(now: float, s: Arrays, g: Grid) -> None:
    """Reserve for a head that has no reservation yet, once for good."""
    head = s.queue[0]
    if np.isnan(s.floats[RESERVED, head]):
        time = reserve(head, now, s, g)
        if time < np.inf:
            s.floats[RESERVED, head] = time


@inner_kernel
def backfill(n_started: int, now: float, s: Arrays, g: Grid) -> int:
    """Start jobs behind the head that do not delay its reservation, if it has one.

    Gives the new count of starts.
    """
    head, time = s.queue[0], np.inf
    is_kept = s.rules[EASY_AS] == ACCASIM or s.rules[EASY_AS] == BATSCHED
    candidates, n = s.spare, 0
    for k in range(1, s.counts[QUEUED]):
        if could_fit(s.queue[k], now, s, g):
            candidates[n] = s.queue[k]
            n += 1
    if n == 0:
        return n_started
    if is_kept:
        time = kept_reservation(s)
    elif s.rules[BACKFILL] == EASY:
        time = reserve(head, now, s, g)
    if s.rules[ORDER] != s.rules[POLICY]:
        order_walk(n, now, candidates, s.spare[len(s.queue) :], s)
    before = n_started
    for k in range(n):
        if s.counts[FREE] == 0:
            break
        slot = candidates[k]
        if time < np.inf and now + s.floats[ESTIMATE, slot] > time:
            started = not is_kept and _start_beside(slot, head, now, s, g)
        else:
            started = start_if_fits(slot, now, True, s, g)
        if started:
            s.started[n_started] = slot
            n_started += 1
    if n_started > before:
        drop_started(1, s)
    return n_started


@inner_kernel
def _start_beside(slot: int, head: int, now: float, s: Arrays, g: Grid) -> bool:
    """Start a job that is expected to run on at the head's reservation, if both fit then."""
    if not could_fit(slot, now, s, g):
        return False
    if not place_now(slot, g.free, now, s, g):
        refuse(slot, now, s, g)
        return False
    if not has_power(slot, s, g) or not take_from_future(slot, head, s, g):
        clear_placed(g)
        return False
    begin_placed(slot, now, True, s, g)
    return True


@inner_kernel
def _goes_before(a: int, b: int, s: Arrays) -> bool:
    if s.floats[ESTIMATE, a] != s.floats[ESTIMATE, b]:
        return bool(s.floats[ESTIMATE, a] < s.floats[ESTIMATE, b])
    return bool(s.ints[NUMBER, a] < s.ints[NUMBER, b])


@inner_kernel
def _shortest(part: Ints, now: float, s: Arrays, g: Grid) -> int:
    """Find the place in the queue of the shortest job that may start on a part of what is free; -1: none."""
    easy = s.rules[BACKFILL] == EASY
    head, best = s.queue[0], -1
    for k in range(s.counts[QUEUED]):
        slot = s.queue[k]
        if best >= 0 and not _goes_before(slot, s.queue[best], s):
            continue
        if not could_fit(slot, now, s, g):
            continue
        if easy and k > 0:
            time = reserve(head, now, s, g)  # anew each time: the test below takes from it
            if not place_now(slot, part, now, s, g):
                continue
            harmless = now + s.floats[ESTIMATE, slot] <= time or take_from_future(slot, head, s, g)
        else:
            harmless = place_now(slot, part, now, s, g)
        harmless = harmless and has_power(slot, s, g)
        clear_placed(g)
        if harmless:
            best = k
    return best


@inner_kernel
def start_short_jobs(part: Ints, now: float, s: Arrays, g: Grid) -> int:
    """Start the shortest jobs that fit on what was released since the last pass; give how many.

    ``part`` (nodes, R) is what is free of it; it is updated.
    """
    n_started = 0
    while s.counts[QUEUED] > 0:
        k = _shortest(part, now, s, g)
        if k < 0:
            break
        slot = s.queue[k]
        for j in range(k + 1, s.counts[QUEUED]):
            s.queue[j - 1] = s.queue[j]
        s.counts[QUEUED] -= 1
        place_now(slot, part, now, s, g)
        for node in range(len(g.placed)):
            if g.placed[node] > 0 and s.rules[EXCLUSIVE]:
                part[node] = 0
            elif g.placed[node] > 0:
                part[node] -= g.placed[node] * g.request[slot]
        begin_placed(slot, now, k > 0, s, g)
        s.started[n_started] = slot
        n_started += 1
    return n_started
