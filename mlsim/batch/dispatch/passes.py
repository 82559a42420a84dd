"""One timestamp of the batch level, compiled: ends, arrivals, and the pass over the queue."""

# mypy: disable-error-code="empty-body"
# by_last_type gives a declared function its bodies.

from typing import Final, NamedTuple

from mlsim._jit import borrowed, by_last_type, kernel, leaf_kernel
from mlsim.batch.backfill.conservative import backfill_conservative
from mlsim.batch.backfill.easy import backfill, is_put_off, keep_reservation, start_short_jobs
from mlsim.batch.backfill.reservations import backfill_several
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import Columns, IntColumn, columns_at
from mlsim.batch.columns.running_jobs import first_after, next_running, running_at
from mlsim.batch.order.queue import enqueue, find_head, find_next_head, leave, order_queue, sort_by_keys, tidy
from mlsim.batch.room import room as machine
from mlsim.batch.room.pool import pool_at
from mlsim.batch.room.room import Room, in_room

_HEADS_FOUND_SINGLY: Final = 8
"""Starts from the head after which a queue that is not in the order of its keys is sorted."""


@leaf_kernel
def enter_queue(now: float, first: int, last: int, arrivals: IntColumn, columns: Columns) -> None:
    """Enqueue the jobs ``arrivals[first:last]``."""
    for k in range(first, last):
        enqueue(arrivals[k], now, columns)


@kernel
def queue_arrivals(now: float, first: int, last: int, arrivals: IntColumn, columns: int) -> None:
    """Call :func:`enter_queue` from Python, with the address of the columns."""
    enter_queue(now, first, last, arrivals, columns_at(columns))


@kernel
def head_slot(now: float, columns: int) -> int:
    """Return the slot of the head now, for Python; the queue is not empty."""
    s = columns_at(columns)
    if s.counts[at.UNSORTED]:
        find_head(now, s)
    return int(s.queue[s.counts[at.HEAD]])


@in_room
def _start_in_order(n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start jobs from the queue's head up to the first that does not fit; return the new count of starts."""
    before = n_started
    while columns.counts[at.QUEUED] > 0:
        slot = columns.queue[columns.counts[at.HEAD]]
        if not machine.find_room(slot, now, columns, room):
            break
        machine.begin(slot, now, False, columns, room)
        columns.started[n_started] = slot
        n_started += 1
        leave(columns.counts[at.HEAD], columns)
        if columns.counts[at.UNSORTED]:
            if n_started - before == _HEADS_FOUND_SINGLY:
                sort_by_keys(columns)
            else:
                find_next_head(columns)
    return n_started


@in_room
def _end_due_jobs(now: float, columns: Columns, room: Room) -> None:
    """End jobs whose estimated end has come, and that end now, before their end is handled."""
    n, place, due = 0, 0, first_after(now, columns)
    while place < due:
        slot = running_at(place, columns)
        if columns.floats[at.PLANNED, slot] == now:
            columns.spare[n] = slot
            n += 1
        place = next_running(place, columns)
    for k in range(n):
        machine.end(columns.spare[k], now, columns, room)


@kernel(inline="always")
def arrive(
    now: float, n_ended: int, first: int, last: int, arrivals: IntColumn, columns: Columns, room: Room
) -> None:
    """End the first jobs in the column of ended jobs, and enqueue the jobs ``arrivals[first:last]``."""
    for k in range(n_ended):
        machine.end(columns.ended[k], now, columns, room)
    if columns.rules[at.PER_EVENT] and not columns.rules[at.ENDS_FIRST]:
        _end_due_jobs(now, columns, room)
    enter_queue(now, first, last, arrivals, columns)


@kernel(inline="always")
def _may_backfill(columns: Columns) -> bool:
    """Whether jobs behind the head may start in this pass, and could."""
    counts = columns.counts
    return bool(columns.rules[at.ALLOW_BACKFILL] and counts[at.QUEUED] > 1 and counts[at.FREE] != 0)


class OneReservation(NamedTuple):
    """Selects kernels compiled for passes with at most one reservation (``most``)."""

    most: int


class ManyReservations(NamedTuple):
    """Selects kernels compiled for passes with more, which take three times as long to compile.

    Conservative backfilling makes one reservation per job, whatever ``most`` is.
    """

    most: int


Reserving = OneReservation | ManyReservations


def reserving(rules: IntColumn) -> Reserving:
    """Return the kind of passes that these rules need."""
    many = rules[at.BACKFILL] == at.CONSERVATIVE or rules[at.RESERVATIONS] != 1
    return (ManyReservations if many else OneReservation)(int(rules[at.RESERVATIONS]))


@leaf_kernel
def _make_pass(n_started: int, now: float, columns: Columns, room: Room, _reserving: Reserving) -> int:
    if not is_put_off(now, columns):
        n_started = _start_in_order(n_started, now, columns, room)
    if columns.rules[at.KEEPS] and columns.counts[at.QUEUED] > 0:
        keep_reservation(now, columns, room)
    if columns.rules[at.BACKFILL] == at.NONE or not _may_backfill(columns):
        return n_started
    return backfill(n_started, now, columns, room)


@leaf_kernel
def _make_reserving_pass(
    n_started: int, now: float, columns: Columns, room: Room, _reserving: Reserving
) -> int:
    if columns.rules[at.BACKFILL] == at.CONSERVATIVE:
        tidy(columns)
        return backfill_conservative(n_started, now, columns, room)
    n_started = _start_in_order(n_started, now, columns, room)
    if not _may_backfill(columns):
        return n_started
    return backfill_several(n_started, now, columns, room)


@by_last_type({OneReservation: _make_pass, ManyReservations: _make_reserving_pass})
def make_pass(n_started: int, now: float, columns: Columns, room: Room, reserving: Reserving) -> int:
    """Start the jobs that can start; the queue is in order. Return the new count of starts."""


@kernel(inline="always")
def reserves(columns: Columns) -> bool:
    """Whether jobs besides the head have reservations."""
    return bool(columns.rules[at.BACKFILL] == at.CONSERVATIVE or columns.rules[at.RESERVATIONS] != 1)


@kernel(inline="always")
def has_work(columns: Columns) -> bool:
    """Whether a pass could change anything."""
    return bool(columns.counts[at.QUEUED] > 0 and (columns.counts[at.FREE] != 0 or columns.rules[at.KEEPS]))


@kernel(inline="always")
def begin(now: float, ordered: bool, columns: Columns, room: Room) -> None:
    """Begin a pass over the queue, which is sorted unless it is ``ordered`` already."""
    machine.begin_pass(room)
    if not ordered:
        order_queue(now, reserves(columns), columns)


@kernel
def process_timestamp(
    now: float,
    n_ended: int,
    first: int,
    last: int,
    arrivals: IntColumn,
    released: IntColumn,
    columns: int,
    pool: int,
    reserving: Reserving,
) -> int:
    """Handle all events on a pool at one time, then make a pass; return the number of starts.

    The first ``n_ended`` jobs in the column of ended jobs end; the jobs ``arrivals[first:last]`` arrive.
    ``released``: cores of each node released since the last pass, for short jobs first; empty: none.
    """
    s, room = columns_at(columns), pool_at(pool)
    arrive(now, n_ended, first, last, borrowed(arrivals), s, room)
    if not has_work(s):
        return 0
    begin(now, False, s, room)
    n_started = start_short_jobs(borrowed(released), now, s, room) if len(released) > 0 else 0
    return make_pass(n_started, now, s, room, reserving)
