"""What the kernels of the general batch level know of the nodes, as one tuple of arrays."""

from __future__ import annotations

from typing import Final, NamedTuple

from mlsim.batch.catalogue import ALLOCATORS
from mlsim.batch.columns.packing import FloatColumns, Floats, IntBlocks, IntColumns, Ints, by_address

__all__ = ["N_SETTINGS", "Nodes", "nodes_at"]

CODES = {allocator.name: allocator.code for allocator in ALLOCATORS}
FIRST_FIT = CODES["first-fit"]
BEST_FIT = CODES["best-fit"]
CONTIGUOUS = CODES["contiguous"]
RANDOM = CODES["random"]
TOPOLOGY = CODES["topology-aware"]
HETEROGENEITY = CODES["heterogeneity-aware"]
OWN = 100
"""An allocator of the user's own, or of a dispatcher that chooses nodes."""

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
    free, capacity : int64, shape (nodes, R)
        What nobody holds and what there is, 0 on nodes out of use. Whole nodes are held whole.
    total : int64, shape (R,)
        Sums of ``free``.
    placed : int64, shape (nodes,)
        Units on each node, as the allocator last answered; 0 when nobody uses it.
    room, run_end, heap_nodes : int64, heap_keys : float64, shapes (nodes,), (2, nodes)
        Scratch of the allocators: units that fit on each node; of the first node of each run of nodes that
        are alike, where it ends; and a heap of such runs.
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
    free: IntColumns
    capacity: IntColumns
    total: Ints
    placed: Ints
    room: Ints
    run_end: Ints
    heap_nodes: Ints
    heap_keys: FloatColumns
    future: IntColumns
    future_total: Ints
    refused: IntColumns
    owner: Ints
    window: IntColumns
    profile: IntBlocks
    plan: IntColumns
    near: IntColumns
    links: IntColumns
    scarcity: Floats
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
