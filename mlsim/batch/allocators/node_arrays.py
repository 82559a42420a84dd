"""Nodes as kernels see them, and placements of units on them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel, leaf_kernel
from mlsim.batch.columns.job_columns import (
    FloatColumn,
    FloatColumns,
    IntBlocks,
    IntColumn,
    IntColumns,
    by_address,
)
from mlsim.batch.columns.occupancy import begin_run, first_nodes, join_run, next_run
from mlsim.scenario import Allocator

CODES = {word.value: code for code, word in enumerate(Allocator)}
FIRST_FIT = CODES["first-fit"]
BEST_FIT = CODES["best-fit"]
CONTIGUOUS = CODES["contiguous"]
RANDOM = CODES["random"]
TOPOLOGY = CODES["topology-aware"]
HETEROGENEITY = CODES["heterogeneity-aware"]
DEMAND = CODES["demand-aware"]
OWN = 100
"""A user-defined allocator, or a dispatcher that chooses nodes."""

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
# Address of the C function that asks an allocator of the user's own.
ASKED: Final = 14
# Whether some jobs may not use some nodes: those that are kept for others, or that are not in their sets.
RESTRICTS: Final = 15
N_SETTINGS: Final = 16

MOST_REFUSED: Final = 16
"""Requests that a pass remembers not to fit."""


class Nodes(NamedTuple):
    """Nodes by resources, R of them, cores first.

    It goes with :class:`~mlsim.batch.columns.job_columns.Columns`.

    There, ``counts[FREE]`` are free nodes if these are given whole, else free cores.

    Attributes
    ----------
    settings : int64
        Allocator; whether jobs wait for neighbouring nodes; whether reservations count units and not nodes;
        seed of random choices. Then, as kernels need them: units of the head that fit at its reservation,
        requests remembered not to fit, nodes that went back to jobs that had released them.
    request : int64, shape (slots, R)
        Resources requested per unit of the job in each slot.
    kind : int64, shape (nodes,)
        Neighbours with the same number have as much of everything when they are in use, add as much power,
        are in use or not, are in the same sets of nodes, and are promised to the same announced drains.
    free : int64, shape (nodes, R)
        Unallocated resources, 0 on nodes out of use. Whole nodes are held whole. The value is at the first
        node of each run; :mod:`mlsim.batch.allocators.node_fit`.
    starts, full_starts, no_starts : int64, shapes (3, any), (3, any), (3, 0)
        Where runs of nodes begin that are of the same kind and have as much free, or have as much when they
        are in use; and each node by itself.
    capacity : int64, shape (nodes, R)
        What there is, 0 on nodes out of use.
    total : int64, shape (R,)
        Sums of what is free.
    placed, placed_end, placed_starts : int64, shapes (nodes,), (nodes,), (3, any)
        Units on each node, as the allocator last answered; 0 when it is unused.
        :mod:`mlsim.batch.allocators.node_arrays`.
    room, run_end, heap_nodes : int64, heap_keys : float64, shapes (nodes,), (2, nodes)
        Scratch of the allocators: units that fit on a node of each run, and where it ends, at its first node;
        and a heap of runs.
    future, future_starts, future_total : int64, shapes (nodes, R), (3, any), (R,)
        What is expected to be free at the head's reservation, at the first node of each run; where these
        begin; and the sums.
    refused : int64, shape (16, R + J + 3)
        Requests that did not fit before in this pass: units, announced drains that the job would have run
        into, its set of nodes, a unit's request, and the nodes kept from the job.
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
        end, 1 for the last node. :mod:`mlsim.batch.allocators.node_fit`.
    scarce, sort_size : int64, shapes (J, R), (J,)
        1 for the scarce types that each sort has, and how many nodes it has.
    kept : int64, shape (slots, J)
        How many of the last nodes of each sort the job in each slot stays off. J is 0 unless the allocator is
        demand-aware.
    node_sets : int64, shape (sets + 1, nodes)
        1 for the nodes that jobs of each set may use, all in row 0; no rows where there are no sets.
        ``ints[NODE_SET]`` has the set of each job.
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

    settings: IntColumn
    request: IntColumns
    kind: IntColumn
    free: IntColumns
    starts: IntColumns
    full_starts: IntColumns
    no_starts: IntColumns
    capacity: IntColumns
    total: IntColumn
    placed: IntColumn
    placed_end: IntColumn
    placed_starts: IntColumns
    room: IntColumn
    run_end: IntColumn
    heap_nodes: IntColumn
    heap_keys: FloatColumns
    future: IntColumns
    future_starts: IntColumns
    future_total: IntColumn
    refused: IntColumns
    owner: IntColumn
    window: IntColumns
    profile: IntBlocks
    plan: IntColumns
    near: IntColumns
    links: IntColumns
    scarcity: FloatColumn
    sort: IntColumn
    place_in_sort: IntColumn
    scarce: IntColumns
    sort_size: IntColumn
    kept: IntColumns
    node_sets: IntColumns
    asked: FloatColumn
    reserve: FloatColumn
    power: IntColumn
    used: IntColumn
    aside: IntColumn
    full: IntColumns
    back: FloatColumn
    drain_times: FloatColumns
    drain_first: IntColumn
    drain_nodes: IntColumn
    drain_shuts: IntColumn
    shut: IntColumn
    masked: IntColumns
    wakes: IntColumn
    shares: IntColumns
    shared: IntColumns
    shared_profile: IntColumns


nodes_at = by_address(Nodes)


def free_of_each(nodes: Nodes) -> NDArray[np.int64]:
    """Return what is free of each resource on each node; shape (nodes, R)."""
    free: NDArray[np.int64] = nodes.free[first_nodes(nodes.starts, len(nodes.free))]
    return free


_COUNT_BITS: Final = 32
_COUNT_MASK: Final = (1 << _COUNT_BITS) - 1


@inner_kernel
def put(first: int, end: int, units: int, nodes: Nodes) -> None:
    """Place units on each node of a stretch, in place of a stretch that began with it."""
    begin_run(first, nodes.placed_starts)
    nodes.placed[first], nodes.placed_end[first] = units, end


@inner_kernel
def fill(first: int, end: int, units: int, left: int, nodes: Nodes) -> int:
    """Place ``units`` on each of some nodes, one after the other, until none are left; return how many."""
    if units == 0 or left == 0:
        return 0
    count = min(end - first, left // units)
    if count > 0:
        put(first, first + count, units, nodes)
    rest = left - count * units
    if rest > 0 and first + count < end:
        put(first + count, first + count + 1, rest, nodes)
        return left
    return int(count * units)


@inner_kernel
def place_on_each(units: IntColumn, nodes: Nodes) -> None:
    """Place units on each node; neighbours of one kind with as many are one stretch."""
    node = 0
    while node < len(units):
        end = node + 1
        while end < len(units) and units[end] == units[node] and nodes.kind[end] == nodes.kind[node]:
            end += 1
        if units[node] > 0:
            put(node, end, units[node], nodes)
        node = end


@leaf_kernel
def first_placed(nodes: Nodes) -> int:
    """Return where the first stretch begins; the number of nodes if nothing is placed."""
    return 0 if nodes.placed[0] > 0 else next_run(0, len(nodes.placed), nodes.placed_starts)


@leaf_kernel
def next_placed(first: int, nodes: Nodes) -> int:
    """Return where the next stretch begins; the number of nodes if there is none."""
    return next_run(first, len(nodes.placed), nodes.placed_starts)


@inner_kernel
def take_placed(first: int, nodes: Nodes) -> None:
    """Forget a stretch."""
    nodes.placed[first] = 0
    join_run(first, nodes.placed_starts)


@inner_kernel
def clear_placed(nodes: Nodes) -> None:
    """Forget the allocator's last answer."""
    node = first_placed(nodes)
    while node < len(nodes.placed):
        take_placed(node, nodes)
        node = next_placed(node, nodes)


def kept_words(n_nodes: int) -> int:
    """Return how many whole numbers hold any answer of an allocator."""
    return 2 * n_nodes + 1


@inner_kernel
def store_placed(kept: IntColumn, nodes: Nodes) -> None:
    """Store the answer of the allocator as a list: its length, then two numbers for each stretch."""
    n, node = 0, first_placed(nodes)
    while node < len(nodes.placed):
        kept[2 * n + 1] = node
        kept[2 * n + 2] = (nodes.placed[node] << _COUNT_BITS) + nodes.placed_end[node] - node
        n += 1
        node = next_placed(node, nodes)
    kept[0] = n


@inner_kernel
def load_placed(kept: IntColumn, nodes: Nodes) -> None:
    """Place what a list has, and nothing else."""
    clear_placed(nodes)
    for k in range(kept[0]):
        node, rest = kept[2 * k + 1], kept[2 * k + 2]
        put(node, node + (rest & _COUNT_MASK), rest >> _COUNT_BITS, nodes)


@inner_kernel
def is_kept(kept: IntColumn, nodes: Nodes) -> bool:
    """Whether a list has just what is placed, stretch by stretch."""
    n, node = 0, first_placed(nodes)
    while node < len(nodes.placed):
        rest = (nodes.placed[node] << _COUNT_BITS) + nodes.placed_end[node] - node
        if n == kept[0] or kept[2 * n + 1] != node or kept[2 * n + 2] != rest:
            return False
        n += 1
        node = next_placed(node, nodes)
    return bool(n == kept[0])
