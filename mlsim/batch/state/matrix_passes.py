"""One instant of the general batch level, compiled: what ended, what arrived, and the pass over the queue."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel, kernel
from mlsim.batch.backfill.easy import is_put_off
from mlsim.batch.backfill.matrix_easy import (
    backfill,
    keep_reservation,
    start_if_fits,
    start_short_jobs,
)
from mlsim.batch.backfill.matrix_reservations import backfill_conservative, backfill_several
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
    RUNNING,
    Arrays,
    arrays_at,
)
from mlsim.batch.columns.table import EXPECTED, PLANNED
from mlsim.batch.order.queue import order_queue
from mlsim.batch.room.grid import REFUSED, Grid, grid_at
from mlsim.batch.room.matrix import end_job
from mlsim.batch.state.dispatch import enter_queue

__all__ = ["arrive", "make_pass", "make_reserving_pass", "start_short"]

Ints = NDArray[np.int64]


@inner_kernel
def _free_what_is_due(now: float, s: Arrays, g: Grid) -> None:
    """Let jobs whose estimated end has come, and that end now, be gone before their end is handled."""
    k = 0
    while k < s.counts[RUNNING] and s.floats[EXPECTED, s.running[k]] <= now:
        slot = s.running[k]
        if s.floats[PLANNED, slot] == now:
            end_job(slot, now, s, g)
        else:
            k += 1


@kernel
def arrive(
    now: float,
    n_ended: int,
    ended: Ints,
    first: int,
    last: int,
    arrivals: Ints,
    places: Ints,
    grid_places: Ints,
) -> None:
    """Let jobs end and arrive; where the state is, see :func:`make_pass`."""
    s, g = arrays_at(places), grid_at(grid_places)
    for k in range(n_ended):
        end_job(ended[k], now, s, g)
    if s.rules[PER_EVENT] and not s.rules[ENDS_FIRST]:
        _free_what_is_due(now, s, g)
    enter_queue(now, first, last, arrivals, s)


@kernel
def start_short(now: float, part: Ints, ordered: bool, places: Ints, grid_places: Ints) -> int:
    """Let short jobs start on what was released since the last pass; give how many do.

    ``part`` (nodes, R) is what is free of it. The other parameters are those of :func:`make_pass`, which
    comes next.
    """
    s, g = arrays_at(places), grid_at(grid_places)
    if s.counts[QUEUED] == 0:
        return 0
    g.settings[REFUSED] = 0
    if not ordered:
        order_queue(now, s)
    return start_short_jobs(part, now, s, g)


@kernel
def make_pass(now: float, n_started: int, ordered: bool, places: Ints, grid_places: Ints) -> int:
    """Start what can start, with one reservation at most; give how many jobs have started.

    Parameters
    ----------
    now
        Current time in seconds.
    n_started
        How many have started before in this pass.
    ordered
        Whether the queue is in its order already.
    places, grid_places
        Where the state of the batch level is (:func:`mlsim.batch.columns.arrays.places_of`); it is
        changed.
    """
    s, g = arrays_at(places), grid_at(grid_places)
    if s.counts[QUEUED] == 0 or (s.counts[FREE] == 0 and not s.rules[KEEPS]):
        return n_started
    g.settings[REFUSED] = 0
    if not ordered:
        order_queue(now, s)
    if not is_put_off(now, s):
        n_started = _start_in_order(n_started, now, s, g)
    if s.rules[KEEPS] and s.counts[QUEUED] > 0:
        keep_reservation(now, s, g)
    if s.rules[BACKFILL] == NONE or not s.rules[LOOKS_BEHIND]:
        return n_started
    if s.counts[QUEUED] < 2 or s.counts[FREE] == 0:
        return n_started
    return backfill(n_started, now, s, g)


@kernel
def make_reserving_pass(now: float, n_started: int, ordered: bool, places: Ints, grid_places: Ints) -> int:
    """Do what :func:`make_pass` does, with more than one reservation."""
    s, g = arrays_at(places), grid_at(grid_places)
    conservative = s.rules[BACKFILL] == CONSERVATIVE
    if s.counts[QUEUED] == 0 or (s.counts[FREE] == 0 and not conservative):
        return n_started
    g.settings[REFUSED] = 0
    if not ordered:
        order_queue(now, s)
    if conservative:
        return backfill_conservative(n_started, now, s, g)
    n_started = _start_in_order(n_started, now, s, g)
    if not s.rules[LOOKS_BEHIND] or s.counts[QUEUED] < 2 or s.counts[FREE] == 0:
        return n_started
    return backfill_several(n_started, now, s, g)


@inner_kernel
def _start_in_order(n_started: int, now: float, s: Arrays, g: Grid) -> int:
    """Start jobs from the queue's head up to the first that does not fit; give the new count of starts."""
    n, head = s.counts[QUEUED], 0
    while head < n and start_if_fits(s.queue[head], now, False, s, g):
        s.started[n_started + head] = s.queue[head]
        head += 1
    if head > 0:
        for k in range(head, n):
            s.queue[k - head] = s.queue[k]
        s.counts[QUEUED] = n - head
    return n_started + head
