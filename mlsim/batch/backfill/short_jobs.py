"""Short jobs first on what running jobs have released."""

from __future__ import annotations

import numpy as np

from mlsim._jit import apart_kernel
from mlsim.batch.backfill.easy import find_reservation
from mlsim.batch.columns.before import goes_before
from mlsim.batch.columns.columns import BACKFILL, EASY, FRONT, HEAD, PLACES, QUEUED, UNSORTED, Columns
from mlsim.batch.columns.packing import Ints
from mlsim.batch.columns.table import ESTIMATE
from mlsim.batch.order.blocks import GONE
from mlsim.batch.order.queue import find_next_head, leave
from mlsim.batch.room.room import Room, find_room_in_part, fits_beside, forget_found, measure_part
from mlsim.batch.room.steps import begin_on_part

__all__ = ["start_short_jobs"]


@apart_kernel
def _shortest(part: Ints, now: float, columns: Columns, room: Room) -> int:
    """Find the place in the queue of the shortest job that may start on a part of what is free; -1: none."""
    head, best, time = columns.queue[columns.counts[HEAD]], -1, np.inf
    if columns.rules[BACKFILL] == EASY:
        time = find_reservation(head, now, columns, room)
    for k in range(columns.counts[FRONT], columns.counts[PLACES]):
        slot = columns.queue[k]
        if slot == GONE:
            continue
        if best >= 0 and not goes_before(slot, columns.queue[best], ESTIMATE, columns.ints, columns.floats):
            continue
        if not find_room_in_part(slot, part, now, columns, room):
            continue
        in_time = slot == head or now + columns.floats[ESTIMATE, slot] <= time
        if in_time or fits_beside(slot, head, columns, room):
            best = k
        forget_found(room)
    return best


@apart_kernel
def start_short_jobs(part: Ints, now: float, columns: Columns, room: Room) -> int:
    """Start the shortest jobs that fit on what was released since the last pass; return how many.

    ``part`` is what is free of it, as the room counts; it is updated.
    """
    measure_part(part, columns, room)
    n_started = 0
    while columns.counts[QUEUED] > 0:
        k = _shortest(part, now, columns, room)
        if k < 0:
            break
        slot, overtakes = columns.queue[k], k != columns.counts[HEAD]
        leave(k, columns)
        if not overtakes and columns.counts[UNSORTED]:
            find_next_head(columns)
        find_room_in_part(slot, part, now, columns, room)
        begin_on_part(slot, part, now, overtakes, columns, room)
        columns.started[n_started] = slot
        n_started += 1
    return n_started
