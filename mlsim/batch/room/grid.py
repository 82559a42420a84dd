"""What the kernels of the general batch level know of the nodes, as one tuple of arrays."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba.np.numpy_support import carray
from numpy.typing import NDArray

from mlsim._jit import kernel, pointer
from mlsim.batch.columns.arrays import float_columns_at, floats_at, int_columns_at, ints_at

__all__ = ["N_SETTINGS", "Grid", "grid_at"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Allocators.
FIRST_FIT, BEST_FIT, WORST_FIT, CONTIGUOUS, RANDOM, TOPOLOGY, HETEROGENEITY, OWN = range(8)

# Places in the array of settings: the first four are fixed, the others change.
ALLOCATOR, STRICT, POOLED, SEED, HAVE, REFUSED, RETURNED = range(7)
# Of a power cap, in microwatts: whether there is one, whether all nodes add the same, and what is left of it
# now and at the head's reservation.
CAPPED, EVEN, POWER_LEFT, POWER_LATER = range(7, 11)
# How many announced drains are known and not over, and the idle power (microwatts) that nodes which come back
# from them by the head's reservation take again.
DRAINS, POWER_BACK = range(11, 13)
N_SETTINGS: Final = 13

MOST_REFUSED: Final = 16
"""Requests that a pass remembers not to fit."""


class Grid(NamedTuple):
    """Nodes by resources, R of them, cores first. It goes with :class:`mlsim.batch.columns.arrays.Arrays`.

    There, ``counts[FREE]`` are free nodes if these are given whole, else free cores, and ``free`` and
    ``cores`` are not read.

    Attributes
    ----------
    settings : int64
        Allocator; whether jobs wait for neighbouring nodes; whether reservations count units and not nodes;
        seed of random choices. Then, as kernels need them: units of the head that fit at its reservation,
        requests remembered not to fit, nodes that went back to jobs that had released them.
    request : int64, shape (slots, R)
        What a unit of the job in each slot asks for.
    free, capacity : int64, shape (nodes, R)
        What nobody holds and what there is, 0 on nodes out of use. Whole nodes are held whole.
    total : int64, shape (R,)
        Sums of ``free``.
    placed : int64, shape (nodes,)
        Units on each node, as the allocator last answered; 0 when nobody uses it.
    room, heap_nodes : int64, heap_keys : float64, shapes (nodes,), (2, nodes)
        Scratch of the allocators.
    future, future_total : int64, shapes (nodes, R), (R,)
        What is expected to be free at the head's reservation, and its sums.
    refused : int64, shape (16, R + 2)
        Requests that did not fit before in this pass: units, a unit's request, and how many announced drains
        the job would have run into.
    owner : int64, shape (nodes,)
        1 + slot of the job that a node went back to; else 0.
    window : int64, shape (nodes, R)
        What is free throughout a stretch of the profile.
    profile : int64, shape (segments, nodes, R)
        Expected to be free from each of ``profile_times`` on; empty where no reservations need it.
    plan : int64, shape (slots, nodes)
        Units of jobs with a reservation; empty where there are none to keep.
    near, links : int64, shape (nodes, nodes)
        All nodes by their distance from each node, and links between any two; empty unless the allocator is
        topology-aware.
    scarcity : float64, shape (R,)
        Weight of each resource for the heterogeneity-aware allocator.
    power : int64, shape (nodes,)
        What a node, or each of its cores where these are given singly, adds when it is held, in microwatts;
        0 without a power cap.
    used : int64, shape (nodes,)
        How many of these are held, also on nodes out of use.
    aside : int64, shape (nodes,)
        Where ``placed`` is kept while the head is placed.
    full : int64, shape (nodes, R)
        What nodes have when they are in use.
    back : float64, shape (nodes,)
        When nodes are expected to be in use (s): minus infinity for those that are; for those out of use the
        end of announced drains where these are the only reason, else infinity.
    drain_times : float64, shape (2, D)
        Begin and end of the announced drains that are known and not over, in order of begin.
    drain_first, drain_nodes : int64, shapes (D + 1,), (any,)
        Where the nodes of each drain begin in the list of the nodes of all.
    drain_shuts, shut : int64, shapes (D,), (nodes,)
        1 for the drains that the head, started at its reservation, would meet, and for their nodes.
    masked : int64, shape (nodes, R)
        What is free of nodes that are open to a job.
    wakes : int64, shape (nodes,)
        Idle power less that of a node out of use, in microwatts; 0 without a power cap.
    """

    settings: Ints
    request: Ints
    free: Ints
    capacity: Ints
    total: Ints
    placed: Ints
    room: Ints
    heap_nodes: Ints
    heap_keys: Floats
    future: Ints
    future_total: Ints
    refused: Ints
    owner: Ints
    window: Ints
    profile: Ints
    plan: Ints
    near: Ints
    links: Ints
    scarcity: Floats
    power: Ints
    used: Ints
    aside: Ints
    full: Ints
    back: Floats
    drain_times: Floats
    drain_first: Ints
    drain_nodes: Ints
    drain_shuts: Ints
    shut: Ints
    masked: Ints
    wakes: Ints


@kernel(inline="always")
def grid_at(places: Ints) -> Grid:
    """Find a grid by :func:`mlsim.batch.columns.arrays.places_of` it, inside a kernel."""
    return Grid(
        settings=ints_at(places[0]),
        request=int_columns_at(places[1]),
        free=int_columns_at(places[2]),
        capacity=int_columns_at(places[3]),
        total=ints_at(places[4]),
        placed=ints_at(places[5]),
        room=ints_at(places[6]),
        heap_nodes=ints_at(places[7]),
        heap_keys=float_columns_at(places[8]),
        future=int_columns_at(places[9]),
        future_total=ints_at(places[10]),
        refused=int_columns_at(places[11]),
        owner=ints_at(places[12]),
        window=int_columns_at(places[13]),
        profile=carray(pointer(places[14, 0]), (places[14, 1], places[14, 2], places[14, 3]), np.int64),
        plan=int_columns_at(places[15]),
        near=int_columns_at(places[16]),
        links=int_columns_at(places[17]),
        scarcity=floats_at(places[18]),
        power=ints_at(places[19]),
        used=ints_at(places[20]),
        aside=ints_at(places[21]),
        full=int_columns_at(places[22]),
        back=floats_at(places[23]),
        drain_times=float_columns_at(places[24]),
        drain_first=ints_at(places[25]),
        drain_nodes=ints_at(places[26]),
        drain_shuts=ints_at(places[27]),
        shut=ints_at(places[28]),
        masked=int_columns_at(places[29]),
        wakes=ints_at(places[30]),
    )
