"""Compiled calls of a pass, on a pool and on nodes."""

from __future__ import annotations

import numpy as np

from mlsim._jit import borrowed, kernel
from mlsim.batch.allocators import node_arrays, node_fit
from mlsim.batch.allocators.node_arrays import RETURNED, nodes_at
from mlsim.batch.backfill.easy import find_reservation, start_short_jobs
from mlsim.batch.columns.job_columns import FRONT, PLACES, QUEUED, IntColumn, IntColumns, columns_at
from mlsim.batch.columns.job_table import FIRST_ROW, HELD, ROWS
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE, run_of
from mlsim.batch.dispatch import passes
from mlsim.batch.matrix import node_future
from mlsim.batch.matrix.node_allocation import units_in_row
from mlsim.batch.order.queue_blocks import GONE
from mlsim.batch.room import room as steps
from mlsim.batch.room.pool import add_free, free_of, pool_at
from mlsim.batch.room.room import find_room

# A timestamp


@kernel
def arrive_at_nodes(
    now: float, n_ended: int, first: int, last: int, arrivals: IntColumn, columns: int, nodes: int
) -> None:
    """End the jobs in the column of ended jobs, and enqueue arriving ones; see :func:`.passes.arrive`."""
    s, room = columns_at(columns), nodes_at(nodes)
    node_fit.learn_arrivals(first, last, borrowed(arrivals), s, room)
    passes.arrive(now, n_ended, s.ended, first, last, borrowed(arrivals), s, room)


@kernel
def start_short(now: float, part: IntColumns, ordered: bool, columns: int, nodes: int) -> int:
    """Start short jobs on units released since the last pass; return their number.

    ``part`` (nodes, R) has the free ones of these units. The other parameters are those of :func:`make_pass`,
    which follows.
    """
    s, room = columns_at(columns), nodes_at(nodes)
    if s.counts[QUEUED] == 0:
        return 0
    passes.begin(now, ordered, s, room)
    return start_short_jobs(borrowed(part), now, s, room)


@kernel
def make_pass(
    now: float, n_started: int, ordered: bool, columns: int, nodes: int, reserving: passes.Reserving
) -> int:
    """Start the jobs that can start, after ``n_started`` earlier ones in this pass; return the new count.

    ``ordered``: the queue is in order already. ``reserving`` is that of :func:`.passes.reserving`.
    """
    s, room = columns_at(columns), nodes_at(nodes)
    if not passes.has_work(s):
        return n_started
    passes.begin(now, ordered, s, room)
    return passes.make_pass(n_started, now, s, room, reserving)


# Single steps


@kernel
def reserve_on_nodes(head: int, now: float, columns: int, nodes: int) -> float:
    """Return the time at which a waiting job could start, by estimates (s)."""
    return find_reservation(head, now, columns_at(columns), nodes_at(nodes))


@kernel
def begin_job(slot: int, now: float, backfilled: bool, columns: int, nodes: int) -> None:
    """Start a job on the units that are placed for it."""
    steps.begin(slot, now, backfilled, columns_at(columns), nodes_at(nodes))


@kernel
def start_if_fits(slot: int, now: float, backfilled: bool, columns: int, nodes: int) -> bool:
    """Start a job if there is room for it now."""
    s, room = columns_at(columns), nodes_at(nodes)
    if not find_room(slot, now, s, room):
        return False
    steps.begin(slot, now, backfilled, s, room)
    return True


@kernel
def end_job_on_nodes(slot: int, now: float, columns: int, nodes: int) -> None:
    """End a job: free what it still holds."""
    steps.end(slot, now, columns_at(columns), nodes_at(nodes))


@kernel
def release_row_on_nodes(slot: int, row: int, now: float, columns: int, nodes: int) -> None:
    """Free the nodes of an occupancy row of a job that continues."""
    steps.release_row(slot, row, now, columns_at(columns), nodes_at(nodes))


@kernel
def return_node_on_nodes(slot: int, node: int, now: float, columns: int, nodes: int) -> int:
    """Return a free node to a job that had released it; return the new occupancy row."""
    return steps.return_node(slot, node, now, columns_at(columns), nodes_at(nodes))


@kernel
def lift_reserves(columns: int, nodes: int) -> None:
    """Lift reserves for waiting jobs that would not fit on the other nodes in use."""
    s, room = columns_at(columns), nodes_at(nodes)
    for place in range(s.counts[FRONT], s.counts[PLACES] if room.kept.shape[1] > 0 else s.counts[FRONT]):
        if s.queue[place] != GONE:
            node_fit.lift_reserve(s.queue[place], s, room)


# Questions


@kernel
def units_on(slot: int, node: int, most: int, columns: int, nodes: int) -> int:
    """Return how many units of a job fit on a node now, at most ``most``."""
    room = nodes_at(nodes)
    return node_fit.units_on(slot, run_of(node, room.starts), most, room.free, columns_at(columns), room)


@kernel
def room_now(slot: int, need: int, now: float, columns: int, nodes: int) -> int:
    """Return how many units of a job could start now, at most ``need``."""
    return node_future.room_now(slot, need, now, columns_at(columns), nodes_at(nodes))


@kernel
def power_wanted(slot: int, columns: int, nodes: int) -> int:
    """Return the power of a job on the empty machine, in microwatts; -1: it does not fit."""
    return node_future.power_wanted(slot, columns_at(columns), nodes_at(nodes))


@kernel
def row_of(node: int, nodes: int) -> int:
    """Return the node whose row has the free resources of a node."""
    return run_of(node, nodes_at(nodes).starts)


@kernel
def renew_node(node: int, free: IntColumn, kind: int, nodes: int) -> None:
    """Change the kind and the free resources of a node."""
    room = nodes_at(nodes)
    node_fit.set_node(node, borrowed(free), kind, room.free, room.starts, room.kind)


@kernel
def place_units(units: IntColumn, nodes: int) -> None:
    """Place units of a job on each node."""
    node_arrays.place_on_each(borrowed(units), nodes_at(nodes))


@kernel
def drained_from(node: int, end: float, nodes: int) -> float:
    """Return when the first announced drain of a node begins, if that is before ``end``; else infinity."""
    return node_future.drained_from(node, end, nodes_at(nodes))


@kernel
def held_by(slots: IntColumn, columns: int, nodes: int) -> tuple[IntColumn, IntColumn, IntColumn]:
    """List the units of running jobs: place in ``slots``, node, units.

    Nodes out of use are left out: they do not return when their jobs end.
    """
    s, room = columns_at(columns), nodes_at(nodes)
    most = 0
    for k in range(len(slots)):
        most += s.ints[HELD, slots[k]]
    job, node, units = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    n = 0
    for k in range(len(slots)):
        slot = slots[k]
        first = s.ints[FIRST_ROW, slot]
        for row in range(first, first + s.ints[ROWS, slot]):
            if np.isnan(s.times[FINISH, row]):
                for held in range(s.rows[NODE, row], s.rows[NODE, row] + s.rows[COUNT, row]):
                    if room.capacity[held, 0] == 0:
                        continue
                    job[n], node[n], units[n] = k, held, units_in_row(slot, row, s, room)
                    n += 1
        if room.settings[RETURNED] > 0:
            for held in range(len(room.owner)):
                if room.owner[held] == slot + 1 and room.capacity[held, 0] > 0:
                    job[n], node[n], units[n] = k, held, 1
                    n += 1
    return job[:n].copy(), node[:n].copy(), units[:n].copy()


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
    reserving: passes.Reserving,
) -> int:
    """Call :func:`mlsim.batch.dispatch.passes.process_timestamp` for the ended jobs in their column.

    Every array passed from Python costs a fifth of a microsecond.
    """
    s, room = columns_at(columns), pool_at(pool)
    return passes.process_timestamp(
        now, n_ended, s.ended, first, last, borrowed(arrivals), borrowed(released), s, room, reserving
    )


@kernel
def reserve_on_pool(head: int, now: float, columns: int, pool: int) -> float:
    """Return the time at which a waiting job could start, by estimates (s)."""
    return find_reservation(head, now, columns_at(columns), pool_at(pool))


@kernel
def end_job_on_pool(slot: int, now: float, columns: int, pool: int) -> None:
    """End a job: free what it still holds."""
    steps.end(slot, now, columns_at(columns), pool_at(pool))


@kernel
def release_row_on_pool(slot: int, row: int, now: float, columns: int, pool: int) -> None:
    """Free the nodes of an occupancy row of a job that continues."""
    steps.release_row(slot, row, now, columns_at(columns), pool_at(pool))


@kernel
def return_node_on_pool(slot: int, node: int, now: float, columns: int, pool: int) -> int:
    """Return a free node to a job that had released it; return the new occupancy row."""
    return steps.return_node(slot, node, now, columns_at(columns), pool_at(pool))


@kernel
def free_cores(node: int, pool: int) -> int:
    """Return the free cores of a node."""
    room = pool_at(pool)
    return free_of(node, room.free, room.starts)


@kernel
def add_cores(node: int, more: int, pool: int) -> None:
    """Change the free cores of a node by ``more``; free units are not counted."""
    room = pool_at(pool)
    add_free(node, 1, more, room.free, room.cores, room.starts)
