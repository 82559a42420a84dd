"""What Python asks of a pool of units, compiled; a timestamp is one call.

``columns`` and ``pool`` are where the state of the batch level is written down
(:func:`mlsim.batch.columns.packing.pack_pointers`); it is changed.
"""

from __future__ import annotations

from mlsim._jit import borrowed, kernel
from mlsim.batch.backfill.easy import find_reservation
from mlsim.batch.columns.columns import columns_at
from mlsim.batch.columns.packing import Ints
from mlsim.batch.dispatch import passes
from mlsim.batch.room import steps
from mlsim.batch.room.first_fit import add_free, free_of
from mlsim.batch.room.pool import pool_at

__all__ = [
    "add_cores",
    "end_job",
    "free_cores",
    "process_timestamp",
    "release_row",
    "reserve",
    "return_node",
]


@kernel
def process_timestamp(
    now: float,
    n_ended: int,
    first: int,
    last: int,
    arrivals: Ints,
    released: Ints,
    columns: int,
    pool: int,
    reserving: passes.Reserving,
) -> int:
    """Do what :func:`mlsim.batch.dispatch.passes.process_timestamp` does; those that end are in the columns.

    Every array that Python hands over takes a fifth of a microsecond.
    """
    s, room = columns_at(columns), pool_at(pool)
    return passes.process_timestamp(
        now, n_ended, s.ended, first, last, borrowed(arrivals), borrowed(released), s, room, reserving
    )


@kernel
def reserve(head: int, now: float, columns: int, pool: int) -> float:
    """Return when a waiting job could start, by estimates (s)."""
    return find_reservation(head, now, columns_at(columns), pool_at(pool))


@kernel
def end_job(slot: int, now: float, columns: int, pool: int) -> None:
    """End a job: free what it still holds."""
    steps.end(slot, now, columns_at(columns), pool_at(pool))


@kernel
def release_row(slot: int, row: int, now: float, columns: int, pool: int) -> None:
    """Free the nodes of an occupancy row of a job that goes on."""
    steps.release_row(slot, row, now, columns_at(columns), pool_at(pool))


@kernel
def return_node(slot: int, node: int, now: float, columns: int, pool: int) -> int:
    """Return a free node to a job that had released it; return the new occupancy row."""
    return steps.return_node(slot, node, now, columns_at(columns), pool_at(pool))


@kernel
def free_cores(node: int, pool: int) -> int:
    """Return the free cores of a node."""
    room = pool_at(pool)
    return free_of(node, room.free, room.starts)


@kernel
def add_cores(node: int, more: int, pool: int) -> None:
    """Have more free cores on a node, or fewer if that is negative; free units are not counted."""
    room = pool_at(pool)
    add_free(node, 1, more, room.free, room.cores, room.starts)
