"""What the kernels of the general batch level know of the nodes, as one tuple of arrays."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim.batch.catalogue import ALLOCATORS
from mlsim.batch.columns.packing import FloatColumns, Floats, IntBlocks, IntColumns, Ints, by_address
from mlsim.batch.columns.runs import first_nodes

__all__ = ["N_SETTINGS", "Nodes", "free_of_each", "nodes_at"]

CODES = {allocator.name: allocator.code for allocator in ALLOCATORS}
FIRST_FIT = CODES["first-fit"]
BEST_FIT = CODES["best-fit"]
CONTIGUOUS = CODES["contiguous"]
RANDOM = CODES["random"]
TOPOLOGY = CODES["topology-aware"]
HETEROGENEITY = CODES["heterogeneity-aware"]
DEMAND = CODES["demand-aware"]
OWN = 100
"""An allocator of the user's own, or of a dispatcher that chooses nodes."""

# Places in the array of settings: the first four are fixed, the others change.
ALLOCATOR, STRICT, POOLED, SEED, HAVE, REFUSED, RETURNED = range(7)
# Of a power cap, in microwatts: whether there is one, whether all nodes add the same, and what is left of it
# now and at the head's reservation.
CAPPED, EVEN, POWER_LEFT, POWER_LATER = range(7, 11)
MICRO: Final = 1e6
"""Microwatts in a watt."""
# How many announced drains are known and not over, and the idle power (microwatts) that nodes which come back
# from them by the head's reservation take again.
DRAINS, POWER_BACK = range(11, 13)
# Whether the demand for scarce resources is learned from arrivals.
LEARNS: Final = 13
N_SETTINGS: Final = 14

MOST_REFUSED: Final = 16
"""Requests that a pass remembers not to fit."""


class Nodes(NamedTuple):
    """Nodes by resources, R of them, cores first. It goes with :class:`mlsim.batch.columns.columns.Columns`.

    There, ``counts[FREE]`` are free nodes if these are given whole, else free cores.

    Attributes
    ----------
    settings : int64
        Allocator; whether jobs wait for neighbouring nodes; whether reservations count units and not nodes;
        seed of random choices. Then, as kernels need them: units of the head that fit at its reservation,
        requests remembered not to fit, nodes that went back to jobs that had released them.
    request : int64, shape (slots, R)
        What a unit of the job in each slot asks for.
    kind : int64, shape (nodes,)
        Neighbours with the same number have as much of everything when they are in use, add as much power,
        are in use or not, and are promised to the same announced drains.
    free : int64, shape (nodes, R)
        What nobody holds, 0 on nodes out of use. Whole nodes are held whole. It stands at the first node of
        each run; :mod:`mlsim.batch.allocators.alike`.
    starts, full_starts, no_starts : int64, shapes (3, any), (3, any), (3, 0)
        Where runs of nodes begin that are of the same kind and have as much free, or have as much when they
        are in use; and each node by itself.
    capacity : int64, shape (nodes, R)
        What there is, 0 on nodes out of use.
    total : int64, shape (R,)
        Sums of what is free.
    placed, placed_end, placed_starts : int64, shapes (nodes,), (nodes,), (3, any)
        Units on each node, as the allocator last answered; 0 when nobody uses it.
        :mod:`mlsim.batch.allocators.placed`.
    room, run_end, heap_nodes : int64, heap_keys : float64, shapes (nodes,), (2, nodes)
        Scratch of the allocators: units that fit on a node of each run, and where it ends, at its first node;
        and a heap of runs.
    future, future_starts, future_total : int64, shapes (nodes, R), (3, any), (R,)
        What is expected to be free at the head's reservation, at the first node of each run; where these
        begin; and the sums.
    refused : int64, shape (16, R + J + 2)
        Requests that did not fit before in this pass: units, a unit's request, the nodes kept from the job,
        and how many announced drains it would have run into.
    owner : int64, shape (nodes,)
        1 + slot of the job that a node went back to; else 0.
    window : int64, shape (nodes, R)
        What is free throughout a stretch of the profile.
    profile : int64, shape (segments, nodes, R)
        Expected to be free from each of ``profile_times`` on; empty where no reservations need it.
    plan : int64, shape (slots, 2 nodes + 1)
        Where jobs with a reservation have their units; empty where there are none to keep.
    near, links : int64, shape (nodes, nodes)
        All nodes by their distance from each node, and links between any two; empty unless the allocator is
        topology-aware.
    scarcity : float64, shape (R,)
        Weight of each resource for the heterogeneity-aware allocator.
    sort, place_in_sort : int64, shape (nodes,)
        Of the J sorts of nodes with scarce types, that of each node (-1: none), and its place in it from the
        end, 1 for the last node. :mod:`mlsim.batch.allocators.demand`.
    scarce, sort_size : int64, shapes (J, R), (J,)
        1 for the scarce types that each sort has, and how many nodes it has.
    kept : int64, shape (slots, J)
        How many of the last nodes of each sort the job in each slot stays off. J is 0 unless the allocator is
        demand-aware.
    asked, reserve : float64, shapes (R + 1,), (1,)
        How many arrivals have asked for each type, and how many there were; and the share of its demand that
        is kept of a sort.
    power : int64, shape (nodes,)
        What a node, or each of its cores where these are given singly, adds when it is held, in microwatts;
        0 without a power cap.
    used : int64, shape (nodes,)
        How many of these are held, also on nodes out of use; under a power cap.
    aside : int64, shape (2 nodes + 1,)
        Where what is placed is kept while the head is placed.
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
        What is free of nodes that are open to a job, in runs as those that are not.
    wakes : int64, shape (nodes,)
        Idle power less that of a node out of use, in microwatts; 0 without a power cap.
    shares : int64, shape (slots, S)
        What the job in each slot asks for of each of the S amounts that the machine has as a whole.
    shared : int64, shape (3, S)
        How much of each is free now, expected to be free at the head's reservation, and free throughout a
        stretch of the profile.
    shared_profile : int64, shape (segments, S)
        Expected to be free from each of ``profile_times`` on.
    """

    settings: Ints
    request: IntColumns
    kind: Ints
    free: IntColumns
    starts: IntColumns
    full_starts: IntColumns
    no_starts: IntColumns
    capacity: IntColumns
    total: Ints
    placed: Ints
    placed_end: Ints
    placed_starts: IntColumns
    room: Ints
    run_end: Ints
    heap_nodes: Ints
    heap_keys: FloatColumns
    future: IntColumns
    future_starts: IntColumns
    future_total: Ints
    refused: IntColumns
    owner: Ints
    window: IntColumns
    profile: IntBlocks
    plan: IntColumns
    near: IntColumns
    links: IntColumns
    scarcity: Floats
    sort: Ints
    place_in_sort: Ints
    scarce: IntColumns
    sort_size: Ints
    kept: IntColumns
    asked: Floats
    reserve: Floats
    power: Ints
    used: Ints
    aside: Ints
    full: IntColumns
    back: Floats
    drain_times: FloatColumns
    drain_first: Ints
    drain_nodes: Ints
    drain_shuts: Ints
    shut: Ints
    masked: IntColumns
    wakes: Ints
    shares: IntColumns
    shared: IntColumns
    shared_profile: IntColumns


nodes_at = by_address(Nodes)


def free_of_each(nodes: Nodes) -> NDArray[np.int64]:
    """Return what is free of each resource on each node; shape (nodes, R)."""
    free: NDArray[np.int64] = nodes.free[first_nodes(nodes.starts, len(nodes.free))]
    return free
