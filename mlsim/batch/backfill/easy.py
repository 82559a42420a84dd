"""Backfilling with no reservation (greedy) or with one (EASY).

EASY is that of Mu'alem and Feitelson 2001, with an order of its own for the walk of backfilling as in Zrigui
2021, Algorithm 1. What other simulators mean by EASY, and where it is here: accasim and batsched keep the
head's reservation from pass to pass and are in this module; cqsim is in
:mod:`mlsim.batch.backfill.reservations`.
"""

from __future__ import annotations

import numpy as np

from mlsim._jit import inner_kernel
from mlsim.batch.columns.columns import (
    ACCASIM,
    BACKFILL,
    BATSCHED,
    EASY,
    EASY_AS,
    FREE,
    LEAST_UNITS,
    ORDER,
    POLICY,
    QUEUED,
    Columns,
)
from mlsim.batch.columns.running import end_of_running, first_after, next_running, running_at
from mlsim.batch.columns.table import ESTIMATE, EXPECTED, RESERVED, START, UNITS
from mlsim.batch.columns.times import overdue_end
from mlsim.batch.order.queue import order_walk
from mlsim.batch.room.room import (
    Room,
    begin_future,
    could_pass,
    could_start,
    find_room,
    forget_found,
    go_to,
    head_fits,
    in_room,
    let_go,
    next_change,
    take_beside,
)
from mlsim.batch.room.steps import begin

__all__ = ["backfill", "drop_started", "find_reservation", "is_put_off", "keep_reservation"]


@in_room
def find_reservation(head: int, now: float, columns: Columns, room: Room) -> float:
    """Find when a job is expected to fit; the room knows what is expected to be free besides.

    Running jobs are let go in the order of their expected ends, all of one time together. What a job has
    released early is not expected a second time. A job that outlived its estimate is expected at
    :func:`mlsim.batch.columns.times.overdue_end`; the ends of announced drains are looked at as ends of jobs
    are.

    Parameters
    ----------
    head
        Slot of the job with the reservation.
    now
        Current time in seconds.
    columns, room
        State of the batch level.

    Returns
    -------
    float
        The time in seconds; now if it fits already, infinity where nodes are out of use and it never will.
    """
    begin_future(head, now, columns, room)
    late, n = first_after(now, columns), end_of_running(columns)
    overdue, k, time, overdue_time = late > 0, late, now, overdue_end(now, columns)
    while not head_fits(head, columns, room):
        upcoming = columns.floats[EXPECTED, running_at(k, columns)] if k < n else np.inf
        upcoming = min(upcoming, next_change(time, now, room))
        time = min(upcoming, overdue_time) if overdue else upcoming
        if time == np.inf:
            break
        if overdue and time == overdue_time:
            j = 0
            while j < late:
                let_go(running_at(j, columns), head, columns, room)
                j = next_running(j, columns)
            overdue = False
        while k < n and columns.floats[EXPECTED, running_at(k, columns)] <= time:
            let_go(running_at(k, columns), head, columns, room)
            k = next_running(k, columns)
        go_to(time, head, now, columns, room)
    return float(time)


@inner_kernel
def is_put_off(now: float, columns: Columns) -> bool:
    """Whether the head has to wait for its reservation, even if it fits (accasim)."""
    if columns.rules[EASY_AS] != ACCASIM or columns.counts[QUEUED] == 0:
        return False
    return bool(columns.floats[RESERVED, columns.queue[0]] > now)


@in_room
def keep_reservation(now: float, columns: Columns, room: Room) -> None:
    """Reserve for a head that has no reservation yet, once for good."""
    head = columns.queue[0]
    if np.isnan(columns.floats[RESERVED, head]):
        time = find_reservation(head, now, columns, room)
        if time < np.inf:
            columns.floats[RESERVED, head] = time


@inner_kernel
def _kept_reservation(columns: Columns) -> float:
    """Return by when jobs must end that overtake a head whose reservation is kept; infinity: whenever.

    accasim never vetoes; batsched does, where the head has a reservation.
    """
    time = columns.floats[RESERVED, columns.queue[0]]
    return np.inf if columns.rules[EASY_AS] == ACCASIM or np.isnan(time) else float(time)


@in_room
def _candidates(now: float, columns: Columns, room: Room) -> int:
    """List the jobs behind the head that could start; return how many there are.

    Fewer units than the narrowest waiting job asks for, as are free in most passes over a long queue, are of
    no use to any. That bound is of the last time that all were looked at; jobs that
    have come since have lowered it.
    """
    if columns.counts[FREE] < columns.counts[LEAST_UNITS]:
        return 0
    n, least = 0, columns.ints[UNITS, columns.queue[0]]
    for k in range(1, columns.counts[QUEUED]):
        least = min(least, columns.ints[UNITS, columns.queue[k]])
        if could_start(columns.queue[k], now, columns, room):
            columns.spare[n] = columns.queue[k]
            n += 1
    columns.counts[LEAST_UNITS] = least
    return n


@in_room
def _drop_hopeless(n: int, now: float, time: float, is_kept: bool, columns: Columns, room: Room) -> int:
    """Drop the candidates that would delay the head; return how many are left.

    Room only becomes less on the way, so jobs that do not pass now need not be sorted.
    """
    left = 0
    for k in range(n):
        slot = columns.spare[k]
        in_time = now + columns.floats[ESTIMATE, slot] <= time
        if in_time or (not is_kept and could_pass(slot, columns, room)):
            columns.spare[left] = slot
            left += 1
    return left


@in_room
def _start_behind(
    slot: int, head: int, now: float, time: float, is_kept: bool, columns: Columns, room: Room
) -> bool:
    """Start a job behind the head if it does not delay the head's reservation."""
    in_time = now + columns.floats[ESTIMATE, slot] <= time
    if (is_kept and not in_time) or not find_room(slot, now, columns, room):
        return False
    if not in_time and not take_beside(slot, head, columns, room):
        forget_found(room)
        return False
    begin(slot, now, True, columns, room)
    return True


@inner_kernel
def backfill(n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start jobs behind the head that do not delay its reservation, if it has one.

    Returns the new count of starts.
    """
    head, time = columns.queue[0], np.inf
    is_kept = columns.rules[EASY_AS] == ACCASIM or columns.rules[EASY_AS] == BATSCHED
    n = _candidates(now, columns, room)
    if n == 0:
        return n_started
    if is_kept:
        time = _kept_reservation(columns)
    elif columns.rules[BACKFILL] == EASY:
        time = find_reservation(head, now, columns, room)
    if time < np.inf:
        n = _drop_hopeless(n, now, time, is_kept, columns, room)
    if columns.rules[ORDER] != columns.rules[POLICY]:
        order_walk(n, now, columns.spare, columns.spare[len(columns.queue) :], columns)
    before = n_started
    for k in range(n):
        if columns.counts[FREE] == 0:
            break
        slot = columns.spare[k]
        if _start_behind(slot, head, now, time, is_kept, columns, room):
            columns.started[n_started] = slot
            n_started += 1
    if n_started > before:
        drop_started(1, columns)
    return n_started


@inner_kernel
def drop_started(first: int, columns: Columns) -> None:
    """Take jobs that have started out of the queue, from a place on."""
    kept = first
    for k in range(first, columns.counts[QUEUED]):
        slot = columns.queue[k]
        if np.isnan(columns.floats[START, slot]):
            columns.queue[kept] = slot
            kept += 1
    columns.counts[QUEUED] = kept
