"""Backfilling with several reservations: the first k jobs that do not fit, or every waiting job.

The rules are those of :mod:`mlsim.batch.backfill.reservations`; here a reservation is of nodes at a time.
"""

from __future__ import annotations

import numpy as np

from mlsim._jit import inner_kernel
from mlsim.batch.allocators.placing import clear_placed, place
from mlsim.batch.backfill.easy import drop_started
from mlsim.batch.backfill.matrix_profile import earliest, fits_now, give, is_sound, make_profile, take
from mlsim.batch.columns.arrays import EARLY, ONE_ROUND, ORDER, POLICY, QUEUED, RESERVATIONS, Arrays
from mlsim.batch.columns.table import RESERVED
from mlsim.batch.order.queue import order_walk
from mlsim.batch.room.fit import could_fit
from mlsim.batch.room.grid import POOLED, Grid
from mlsim.batch.room.matrix import begin_placed

__all__ = ["backfill_conservative", "backfill_several"]


@inner_kernel
def _start_in_profile(slot: int, n_started: int, now: float, s: Arrays, g: Grid) -> int:
    """Start a job behind the head if it fits without touching a reservation; give the count of starts."""
    if not could_fit(slot, now, s, g) or not fits_now(slot, s, g):
        return n_started
    take(slot, now, s, g)
    begin_placed(slot, now, True, s, g)
    s.started[n_started] = slot
    return n_started + 1


@inner_kernel
def _reserve_unkept(slot: int, s: Arrays, g: Grid) -> None:
    """Take a job's earliest place out of the profile, for this pass only."""
    time = earliest(slot, s, g)
    if time < np.inf:
        take(slot, time, s, g)
    clear_placed(g)


@inner_kernel
def backfill_several(n_started: int, now: float, s: Arrays, g: Grid) -> int:
    """Start jobs behind the head that do not delay the reservations of the first k jobs that do not fit.

    The queue is walked in its own order until k jobs have a reservation, the rest of it in the order of
    backfilling. Gives the new count of starts.
    """
    make_profile(now, s, g)
    _reserve_unkept(s.queue[0], s, g)
    before, reserved, k = n_started, 1, 1
    while k < s.counts[QUEUED] and reserved < s.rules[RESERVATIONS]:
        so_far = n_started
        n_started = _start_in_profile(s.queue[k], n_started, now, s, g)
        if n_started == so_far:
            _reserve_unkept(s.queue[k], s, g)
            reserved += 1
        k += 1
    rest, n = s.spare, 0
    for waiting in range(k, s.counts[QUEUED]):
        if could_fit(s.queue[waiting], now, s, g):
            rest[n] = s.queue[waiting]
            n += 1
    if s.rules[ORDER] != s.rules[POLICY]:
        order_walk(n, now, rest, s.spare[len(s.queue) :], s)
    for waiting in range(n):
        n_started = _start_in_profile(rest[waiting], n_started, now, s, g)
    if n_started > before:
        drop_started(1, s)
    return n_started


@inner_kernel
def _bring_plan(slot: int, g: Grid) -> None:
    """Place a job as its reservation has it."""
    if not g.settings[POOLED]:
        g.placed[:] = g.plan[slot]


@inner_kernel
def _keep_plan(slot: int, g: Grid) -> None:
    """Note what is placed as the job's reservation."""
    if not g.settings[POOLED]:
        g.plan[slot] = g.placed
        clear_placed(g)


@inner_kernel
def _reserve_earliest(slot: int, s: Arrays, g: Grid) -> None:
    """Give a job its earliest place in the profile."""
    time = earliest(slot, s, g)
    s.floats[RESERVED, slot] = time
    if time < np.inf:
        take(slot, time, s, g)
        _keep_plan(slot, g)


@inner_kernel
def _restore(now: float, s: Arrays, g: Grid) -> bool:
    """Make the profile with the reservations that jobs have; give whether they still hold."""
    make_profile(now, s, g)
    for k in range(s.counts[QUEUED]):
        slot = s.queue[k]
        time = s.floats[RESERVED, slot]
        if time < now:
            return False
        if time < np.inf:
            _bring_plan(slot, g)
            if not _is_in_use(g):
                clear_placed(g)
                return False
            take(slot, time, s, g)
            clear_placed(g)
    return is_sound(s, g)


@inner_kernel
def _is_in_use(g: Grid) -> bool:
    """Tell whether all nodes on which units are placed are in use, or known to come back."""
    for node in range(len(g.placed)):  # noqa: SIM110  # a kernel knows no generators
        if g.placed[node] > 0 and g.back[node] == np.inf:
            return False
    return True


@inner_kernel
def _compress(s: Arrays, g: Grid) -> None:
    """Let each job with a reservation have its earliest place, given all others, until nothing moves.

    No reservation becomes later, as each job can have its old place. Where the earliest time is the old one,
    it keeps its old nodes. In one round, each job has one try.
    """
    moved = True
    while moved:
        moved = False
        for k in range(s.counts[QUEUED]):
            slot = s.queue[k]
            old = s.floats[RESERVED, slot]
            if not old < np.inf:
                continue
            _bring_plan(slot, g)
            give(slot, old, s, g)
            clear_placed(g)
            time = earliest(slot, s, g)
            if time < old:
                moved = True
                _keep_plan(slot, g)
            s.floats[RESERVED, slot] = min(time, old)
            _bring_plan(slot, g)
            take(slot, s.floats[RESERVED, slot], s, g)
            clear_placed(g)
        moved = moved and not s.rules[ONE_ROUND]


@inner_kernel
def backfill_conservative(n_started: int, now: float, s: Arrays, g: Grid) -> int:
    """Start the jobs whose reserved time has come; every other waiting job gets or keeps a reservation.

    Reservations are kept from pass to pass, with their nodes. Where something came back earlier than
    expected, they move forward, in the queue's order; where they do not hold any more, because a job
    outlives its estimate or nodes are out of use, all are made anew. Gives the new count of starts.
    """
    n = s.counts[QUEUED]
    if not _restore(now, s, g):
        for k in range(n):
            s.floats[RESERVED, s.queue[k]] = np.nan
        make_profile(now, s, g)
    elif s.counts[EARLY]:
        _compress(s, g)
    s.counts[EARLY] = 0
    before, overtakes = n_started, False
    for k in range(n):
        slot = s.queue[k]
        if not s.floats[RESERVED, slot] < np.inf:
            _reserve_earliest(slot, s, g)
        if s.floats[RESERVED, slot] > now:
            overtakes = True
            continue
        if g.settings[POOLED]:
            place(slot, g.free, s, g)
        else:
            _bring_plan(slot, g)
        begin_placed(slot, now, overtakes, s, g)
        s.started[n_started] = slot
        n_started += 1
    if n_started > before:
        drop_started(0, s)
    return n_started
