"""Nodes as kernels see them, and placements of units on them."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel, leaf_kernel
from mlsim.batch.columns import job_columns
from mlsim.batch.columns.job_columns import FloatColumn, FloatColumns, IntBlocks, IntColumn, IntColumns
from mlsim.batch.columns.occupancy import begin_run, first_nodes, join_run, next_run
from mlsim.scenario.resources_section import DEVICE_PARTS
from mlsim.scenario.words import Allocator

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

# Places in the array of settings. The first four are fixed: allocator (code), whether jobs wait for
# neighbouring nodes, whether reservations count units and not nodes, seed of random choices.
ALLOCATOR, STRICT, POOLED, SEED = range(4)
# Units of the head that fit at its reservation; requests remembered not to fit; nodes that went back to jobs
# that had released them.
HAVE, REFUSED, RETURNED = range(4, 7)
# Of a power cap, in microwatts: whether there is one, whether all nodes add the same, what is left of it now
# and at the head's reservation, and the idle power that nodes which return from drains by then take again.
CAPPED, EVEN, POWER_LEFT, POWER_LATER, POWER_BACK = range(7, 12)
# Announced drains that are known and not over; whether the demand for scarce resources is learned from
# arrivals; address of the C function that asks a user-defined allocator; whether some jobs may not use some
# nodes, which are kept for others or not in their sets.
DRAINS, LEARNS, ASKED, RESTRICTS = range(12, 16)
N_SETTINGS: Final = 16
MICRO: Final = 1e6
"""Microwatts in a watt."""

MOST_REFUSED: Final = 16
"""Requests that a pass remembers not to fit."""


PARTS: Final = DEVICE_PARTS
"""Parts of a device: amounts of a resource of devices are counted in these."""


class Nodes(NamedTuple):
    """Nodes by resources, R of them, cores first; it goes with :class:`.job_columns.Columns`.

    Behind the R columns of amounts of nodes follow D, one for each device of a node, and its parts.

    There, ``counts[FREE]`` are free nodes if these are allocated whole, else free cores. Arrays of *starts*
    have the begins of runs of nodes (:mod:`.occupancy`): amounts are at the first node of each run.
    """

    settings: IntColumn
    request: IntColumns  # (slots, R): of a unit of each job
    device_of: IntColumn  # (D,): the resource that each device is of
    # Neighbours with the same number have as much of everything when they are in use, add as much power, are
    # in use or not, are in the same sets of nodes, and are promised to the same announced drains.
    kind: IntColumn
    free: IntColumns  # (nodes, R + D): unallocated; 0 on nodes out of use
    starts: IntColumns  # (3, any): runs of nodes of one kind with as much free
    full_starts: IntColumns  # (3, any): runs of one kind if all nodes are in use
    no_starts: IntColumns  # (3, 0): each node by itself
    capacity: IntColumns  # (nodes, R + D): 0 on nodes out of use
    total: IntColumn  # (R,): sums of what is free
    # The allocator's last answer: units on each node of a stretch, and the stretch's end, at its first node.
    placed: IntColumn
    placed_end: IntColumn
    placed_starts: IntColumns
    placed_devices: IntColumn  # a bit for each device that is taken on each node; likewise
    # Scratch of allocators: units that fit on a node of each run, where the run ends, and a heap of runs.
    room: IntColumn
    run_end: IntColumn
    heap_nodes: IntColumn
    heap_keys: FloatColumns  # (2, nodes)
    # Expected to be free at the head's reservation.
    future: IntColumns  # (nodes, R + D)
    future_starts: IntColumns
    future_total: IntColumn  # (R,)
    refused: IntColumns  # (16, 3 + R + J): requests that did not fit in this pass; node_fit.refuse
    owner: IntColumn  # 1 + slot of the job that a node went back to; else 0
    window: IntColumns  # (nodes, R + D): free throughout a stretch of the profile
    profile: IntBlocks  # (segments, nodes, R + D): expected to be free from each of profile_times on
    plan: IntColumns  # (slots, kept_words): kept reservations of jobs; store_placed
    near: IntColumns  # (nodes, nodes): all nodes by distance from each; topology-aware only
    links: IntColumns  # (nodes, nodes): links between two nodes; topology-aware only
    scarcity: FloatColumn  # (R,): weights of the heterogeneity-aware allocator
    # Nodes with scarce types are of J sorts (node_fit.sorts_of); J is 0 unless the allocator is demand-aware.
    sort: IntColumn  # -1: none
    place_in_sort: IntColumn  # 1 for the last node of its sort
    scarce: IntColumns  # (J, R): 1 for the scarce types of a sort
    sort_size: IntColumn  # (J,)
    kept: IntColumns  # (slots, J): how many of the last nodes of each sort a job stays off
    # 1 for the nodes that jobs of each set may use (ints[NODE_SET]), all in row 0; no rows where there are
    # none.
    node_sets: IntColumns  # (sets + 1, nodes)
    demand: FloatColumn  # (R + 1,): arrivals that asked for each type, and all arrivals
    reserve: FloatColumn  # (1,): share of its demand that is kept of a sort
    power: IntColumn  # what a node, or a core of it, adds when it is held [microwatts]; 0 without a cap
    used: IntColumn  # how many of these are held, also on nodes out of use; under a power cap
    aside: IntColumn  # what is placed, while the head is placed
    full: IntColumns  # (nodes, R + D): what nodes have when they are in use
    back: FloatColumn  # when a node is expected to be in use [s]: -infinity: it is; infinity: not known
    drain_times: FloatColumns  # (2, D): begin and end of the announced drains that are not over, by begin
    drain_first: IntColumn  # (D + 1,): where the nodes of each drain begin in drain_nodes
    drain_nodes: IntColumn
    drain_shuts: IntColumn  # (D,): 1 for drains that the head, started at its reservation, would meet
    shut: IntColumn  # 1 for their nodes
    masked: IntColumns  # (nodes, R + D): free on nodes that are open to a job, in runs as those that are not
    wakes: IntColumn  # idle power less that of a node out of use [microwatts]; 0 without a cap
    # Of the S amounts that the machine has as a whole.
    shares: IntColumns  # (slots, S): what jobs ask for
    shared: IntColumns  # (3, S): free now, at the head's reservation, and throughout a window
    shared_profile: IntColumns  # (segments, S): expected to be free


nodes_at = job_columns.by_address(Nodes)


def free_of_each(nodes: Nodes) -> NDArray[np.int64]:
    """Return what is free of each resource on each node; shape (nodes, R)."""
    return nodes.free[first_nodes(nodes.starts, len(nodes.free))]


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
        last = len(units) if len(nodes.device_of) == 0 else end  # devices are those of one node
        while end < last and units[end] == units[node] and nodes.kind[end] == nodes.kind[node]:
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


def kept_words(n_nodes: int, with_devices: bool) -> int:
    """Return how many whole numbers hold any answer of an allocator."""
    return (3 if with_devices else 2) * n_nodes + 1


@inner_kernel
def store_placed(kept: IntColumn, nodes: Nodes) -> None:
    """Store the answer of the allocator as a list: its length, then two numbers for each stretch.

    Those of devices follow behind all others.
    """
    n, node = 0, first_placed(nodes)
    while node < len(nodes.placed):
        kept[2 * n + 1] = node
        kept[2 * n + 2] = (nodes.placed[node] << _COUNT_BITS) + nodes.placed_end[node] - node
        if len(nodes.device_of) > 0:
            kept[2 * len(nodes.placed) + 1 + n] = nodes.placed_devices[node]
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
        if len(nodes.device_of) > 0:
            nodes.placed_devices[node] = kept[2 * len(nodes.placed) + 1 + k]


@inner_kernel
def is_kept(kept: IntColumn, nodes: Nodes) -> bool:
    """Whether a list has just what is placed, stretch by stretch."""
    n, node = 0, first_placed(nodes)
    while node < len(nodes.placed):
        rest = (nodes.placed[node] << _COUNT_BITS) + nodes.placed_end[node] - node
        if n == kept[0] or kept[2 * n + 1] != node or kept[2 * n + 2] != rest:
            return False
        devices = len(nodes.device_of) > 0
        if devices and kept[2 * len(nodes.placed) + 1 + n] != nodes.placed_devices[node]:
            return False
        n += 1
        node = next_placed(node, nodes)
    return bool(n == kept[0])
