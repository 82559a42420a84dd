"""One timestamp of the batch level, compiled: what ended, what arrived, and the pass over the queue."""

from __future__ import annotations

from mlsim._jit import borrowed, inner_kernel, kernel
from mlsim.batch.allocators.nodes import unpack_nodes
from mlsim.batch.backfill.easy import backfill, is_put_off, keep_reservation
from mlsim.batch.backfill.reservations import backfill_conservative, backfill_several
from mlsim.batch.backfill.short_jobs import start_short_jobs
from mlsim.batch.columns.columns import (
    ALLOW_BACKFILL,
    BACKFILL,
    CONSERVATIVE,
    ENDS_FIRST,
    FREE,
    KEEPS,
    NONE,
    PER_EVENT,
    QUEUED,
    RESERVATIONS,
    RUNNING,
    Columns,
    unpack_columns,
)
from mlsim.batch.columns.packing import IntColumns, Ints
from mlsim.batch.columns.table import EXPECTED, PLANNED
from mlsim.batch.order.queue import enqueue, order_queue
from mlsim.batch.room.pool import Pool, unpack_pool
from mlsim.batch.room.room import Room, begin_pass, find_room
from mlsim.batch.room.steps import begin_job, end_job

__all__ = [
    "advance",
    "arrive_at_nodes",
    "enter_queue",
    "make_pass",
    "make_reserving_pass",
    "process_timestamp",
    "start_short",
]


@kernel(forceinline=True)
def enter_queue(now: float, first: int, last: int, arrivals: Ints, columns: Columns) -> None:
    """Put the jobs ``arrivals[first:last]`` into the queue."""
    for k in range(first, last):
        enqueue(arrivals[k], now, columns)


@inner_kernel
def _start_in_order(n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start jobs from the queue's head up to the first that does not fit; return the new count of starts."""
    n, head = columns.counts[QUEUED], 0
    while head < n and find_room(columns.queue[head], now, columns, room):
        slot = columns.queue[head]
        begin_job(slot, now, False, columns, room)
        columns.started[n_started + head] = slot
        head += 1
    if head > 0:
        for k in range(head, n):
            columns.queue[k - head] = columns.queue[k]
        columns.counts[QUEUED] = n - head
    return n_started + head


@inner_kernel
def _free_what_is_due(now: float, columns: Columns, room: Room) -> None:
    """End jobs whose estimated end has come, and that end now, before their end is handled."""
    k = 0
    while k < columns.counts[RUNNING] and columns.floats[EXPECTED, columns.running[k]] <= now:
        slot = columns.running[k]
        if columns.floats[PLANNED, slot] == now:
            end_job(slot, now, columns, room)
        else:
            k += 1


@kernel(inline="always")
def _arrive(
    now: float,
    n_ended: int,
    ended: Ints,
    first: int,
    last: int,
    arrivals: Ints,
    columns: Columns,
    room: Room,
) -> None:
    """End jobs, and put those that arrive into the queue."""
    for k in range(n_ended):
        end_job(ended[k], now, columns, room)
    if columns.rules[PER_EVENT] and not columns.rules[ENDS_FIRST]:
        _free_what_is_due(now, columns, room)
    enter_queue(now, first, last, arrivals, columns)


@kernel(inline="always")
def _may_backfill(columns: Columns) -> bool:
    """Whether jobs behind the head may start in this pass, and could."""
    return bool(columns.rules[ALLOW_BACKFILL] and columns.counts[QUEUED] > 1 and columns.counts[FREE] != 0)


@kernel(inline="always")
def _pass(n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start what can start, with one reservation at most; the queue is in order."""
    if not is_put_off(now, columns):
        n_started = _start_in_order(n_started, now, columns, room)
    if columns.rules[KEEPS] and columns.counts[QUEUED] > 0:
        keep_reservation(now, columns, room)
    if columns.rules[BACKFILL] == NONE or not _may_backfill(columns):
        return n_started
    return backfill(n_started, now, columns, room)


@kernel(inline="always")
def _reserving_pass(n_started: int, now: float, columns: Columns, room: Room) -> int:
    """Start what can start, with more than one reservation; the queue is in order."""
    if columns.rules[BACKFILL] == CONSERVATIVE:
        return backfill_conservative(n_started, now, columns, room)
    n_started = _start_in_order(n_started, now, columns, room)
    if not _may_backfill(columns):
        return n_started
    return backfill_several(n_started, now, columns, room)


@kernel(inline="always")
def _has_work(columns: Columns) -> bool:
    """Whether a pass could change anything."""
    return bool(columns.counts[QUEUED] > 0 and (columns.counts[FREE] != 0 or columns.rules[KEEPS]))


@kernel(inline="always")
def _begin_pass(now: float, ordered: bool, columns: Columns, room: Room) -> None:
    begin_pass(room)
    if not ordered:
        order_queue(now, columns)


# On a pool of units: all in one call


@kernel(inline="always")
def advance(
    now: float,
    n_ended: int,
    ended: Ints,
    first: int,
    last: int,
    arrivals: Ints,
    released: Ints,
    columns: Columns,
    pool: Pool,
) -> int:
    """Process a timestamp; see :func:`process_timestamp`."""
    _arrive(now, n_ended, ended, first, last, arrivals, columns, pool)
    if not _has_work(columns):
        return 0
    _begin_pass(now, False, columns, pool)
    n_started = start_short_jobs(released, now, columns, pool) if len(released) > 0 else 0
    if columns.rules[BACKFILL] == CONSERVATIVE or columns.rules[RESERVATIONS] != 1:
        return _reserving_pass(n_started, now, columns, pool)
    return _pass(n_started, now, columns, pool)


@kernel
def process_timestamp(
    now: float,
    n_ended: int,
    ended: Ints,
    first: int,
    last: int,
    arrivals: Ints,
    released: Ints,
    packed: IntColumns,
    packed_pool: IntColumns,
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
    packed, packed_pool
        Where the state of the batch level is (:func:`mlsim.batch.columns.packing.pack_pointers`), which is
        changed.

    Returns
    -------
    int
        How many jobs start.
    """
    return advance(
        now,
        n_ended,
        borrowed(ended),
        first,
        last,
        borrowed(arrivals),
        borrowed(released),
        unpack_columns(packed),
        unpack_pool(packed_pool),
    )


# On nodes by resources: in steps, between which the user's code may be asked


@kernel
def arrive_at_nodes(
    now: float,
    n_ended: int,
    ended: Ints,
    first: int,
    last: int,
    arrivals: Ints,
    packed: IntColumns,
    packed_nodes: IntColumns,
) -> None:
    """End jobs, and put those that arrive into the queue; see :func:`make_pass`."""
    columns, nodes = unpack_columns(packed), unpack_nodes(packed_nodes)
    _arrive(now, n_ended, borrowed(ended), first, last, borrowed(arrivals), columns, nodes)


@kernel
def start_short(
    now: float, part: IntColumns, ordered: bool, packed: IntColumns, packed_nodes: IntColumns
) -> int:
    """Start short jobs on what was released since the last pass; return how many.

    ``part`` (nodes, R) is what is free of it. The other parameters are those of :func:`make_pass`, which
    comes next.
    """
    columns, nodes = unpack_columns(packed), unpack_nodes(packed_nodes)
    if columns.counts[QUEUED] == 0:
        return 0
    _begin_pass(now, ordered, columns, nodes)
    return start_short_jobs(borrowed(part), now, columns, nodes)


@kernel
def make_pass(now: float, n_started: int, ordered: bool, packed: IntColumns, packed_nodes: IntColumns) -> int:
    """Start what can start, with one reservation at most; return how many jobs have started.

    Parameters
    ----------
    now
        Current time in seconds.
    n_started
        How many have started before in this pass.
    ordered
        Whether the queue is in its order already.
    packed, packed_nodes
        Where the state of the batch level is (:func:`mlsim.batch.columns.packing.pack_pointers`), which is
        changed.
    """
    columns, nodes = unpack_columns(packed), unpack_nodes(packed_nodes)
    if not _has_work(columns):
        return n_started
    _begin_pass(now, ordered, columns, nodes)
    return _pass(n_started, now, columns, nodes)


@kernel
def make_reserving_pass(
    now: float, n_started: int, ordered: bool, packed: IntColumns, packed_nodes: IntColumns
) -> int:
    """Do what :func:`make_pass` does, with more than one reservation."""
    columns, nodes = unpack_columns(packed), unpack_nodes(packed_nodes)
    if not _has_work(columns):
        return n_started
    _begin_pass(now, ordered, columns, nodes)
    return _reserving_pass(n_started, now, columns, nodes)
