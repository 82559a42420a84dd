"""How many units of a job fit on nodes: the sum over nodes of min over resources ⌊free / request⌋."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel, leaf_kernel
from mlsim.batch.allocators.alike import end_of_run
from mlsim.batch.allocators.demand import kept_nodes, note_request
from mlsim.batch.allocators.nodes import ALLOCATOR, LEARNS, MOST_REFUSED, OWN, REFUSED, Nodes
from mlsim.batch.allocators.reach import reach
from mlsim.batch.columns.columns import EXCLUSIVE, FREE, Columns
from mlsim.batch.columns.table import UNITS

__all__ = [
    "could_fit",
    "fill_room",
    "learn_arrivals",
    "lift_reserve",
    "refuse",
    "room_for",
    "sums_suffice",
    "units_on",
]

Ints = NDArray[np.int64]


@leaf_kernel
def _is_kept_from(slot: int, node: int, nodes: Nodes) -> bool:
    sort = nodes.sort[node]
    return bool(sort >= 0 and nodes.place_in_sort[node] <= nodes.kept[slot, sort])


@leaf_kernel  # it is called for every node
def units_on(slot: int, node: int, most: int, free: Ints, columns: Columns, nodes: Nodes) -> int:
    """Return how many units of a job fit on a node, at most ``most``; one if nodes are allocated whole.

    None fit on a node that is kept from the job.
    """
    if nodes.kept.shape[1] > 0 and _is_kept_from(slot, node, nodes):
        return 0
    n = min(most, 1) if columns.rules[EXCLUSIVE] else most
    for r in range(free.shape[1]):
        asked = nodes.request[slot, r]
        if asked > 0:
            if free[node, r] < asked:
                return 0
            if n * asked > free[node, r]:
                n = free[node, r] // asked
    return n


@inner_kernel
def room_for(slot: int, need: int, free: Ints, starts: Ints, columns: Columns, nodes: Nodes) -> int:
    """Return how many units of a job fit on all nodes, at most ``need``."""
    found, node = 0, 0
    while node < free.shape[0] and found < need:
        end = end_of_run(node, free, starts, nodes.kind)
        found += units_on(slot, node, need, free, columns, nodes) * (end - node)
        node = end
    return min(found, need)


@inner_kernel
def fill_room(slot: int, free: Ints, starts: Ints, columns: Columns, nodes: Nodes) -> int:
    """Count for a node of each run how many units of a job fit there, at most all of them.

    Return the sum over all nodes. Where a run ends is noted for its first node.
    """
    found, node = 0, 0
    while node < free.shape[0]:
        end = end_of_run(node, free, starts, nodes.kind)
        units = units_on(slot, node, columns.ints[UNITS, slot], free, columns, nodes)
        nodes.room[node], nodes.run_end[node] = units, end
        found += units * (end - node)
        node = end
    return found


@inner_kernel
def sums_suffice(slot: int, total: Ints, columns: Columns, nodes: Nodes) -> bool:
    """Whether a job could fit by the sums over all nodes; quick, and never wrong when it says no."""
    units = columns.ints[UNITS, slot]
    for r in range(len(total)):  # noqa: SIM110  # a kernel knows no generators
        if units * nodes.request[slot, r] > total[r]:
            return False
    return True


@inner_kernel
def refuse(slot: int, now: float, columns: Columns, nodes: Nodes) -> None:
    """Remember until the pass is over that a job does not fit: larger ones do not fit either.

    Of those that would run into fewer announced drains this says nothing.
    """
    n = nodes.settings[REFUSED]
    if n == MOST_REFUSED or nodes.settings[ALLOCATOR] == OWN:
        return
    nodes.refused[n, 0] = columns.ints[UNITS, slot]
    for r in range(nodes.request.shape[1]):
        nodes.refused[n, r + 1] = nodes.request[slot, r]
    for sort in range(nodes.kept.shape[1]):
        nodes.refused[n, nodes.request.shape[1] + 1 + sort] = nodes.kept[slot, sort]
    nodes.refused[n, -1] = reach(slot, now, columns, nodes)
    nodes.settings[REFUSED] = n + 1


@leaf_kernel
def could_fit(slot: int, now: float, columns: Columns, nodes: Nodes) -> bool:
    """Whether it makes sense to look for room now; what is free only becomes less during a pass."""
    return bool(columns.ints[UNITS, slot] <= columns.counts[FREE]) and _could_fit(slot, now, columns, nodes)


@inner_kernel
def _could_fit(slot: int, now: float, columns: Columns, nodes: Nodes) -> bool:
    """Look closer than by the units that are free."""
    units = columns.ints[UNITS, slot]
    if not sums_suffice(slot, nodes.total, columns, nodes):
        return False
    reached, r_last = reach(slot, now, columns, nodes), nodes.refused.shape[1] - 1
    for k in range(nodes.settings[REFUSED]):
        larger = units >= nodes.refused[k, 0] and reached >= nodes.refused[k, r_last]
        r = 0
        while larger and r < nodes.request.shape[1]:
            larger = nodes.request[slot, r] >= nodes.refused[k, r + 1]
            r += 1
        sort = 0
        while larger and sort < nodes.kept.shape[1]:
            larger = nodes.kept[slot, sort] >= nodes.refused[k, r + 1 + sort]
            sort += 1
        if larger:
            return False
    return True


@inner_kernel
def learn_arrivals(first: int, last: int, arrivals: Ints, columns: Columns, nodes: Nodes) -> None:
    """Learn what the jobs ``arrivals[first:last]`` ask for, then decide which nodes are kept from them."""
    if nodes.kept.shape[1] == 0:
        return
    for k in range(first, last if nodes.settings[LEARNS] else first):
        note_request(nodes.request[arrivals[k]], nodes.asked)
    for k in range(first, last):
        _keep_off(arrivals[k], nodes)
        lift_reserve(arrivals[k], columns, nodes)


@inner_kernel
def _keep_off(slot: int, nodes: Nodes) -> None:
    """Keep nodes of each sort of which a job asks for no scarce type from it."""
    for sort in range(nodes.kept.shape[1]):
        asks = False
        for r in range(nodes.scarce.shape[1]):
            asks = asks or (nodes.scarce[sort, r] > 0 and nodes.request[slot, r] > 0)
        kept = kept_nodes(nodes.scarce[sort], nodes.sort_size[sort], nodes.reserve[0], nodes.asked)
        nodes.kept[slot, sort] = 0 if asks else kept


@inner_kernel
def lift_reserve(slot: int, columns: Columns, nodes: Nodes) -> None:
    """Keep no nodes from a job that would not fit on the others of those that are in use."""
    is_kept = False
    for sort in range(nodes.kept.shape[1]):
        is_kept = is_kept or nodes.kept[slot, sort] > 0
    units = columns.ints[UNITS, slot]
    if is_kept and room_for(slot, units, nodes.capacity, nodes.no_starts, columns, nodes) < units:
        for sort in range(nodes.kept.shape[1]):
            nodes.kept[slot, sort] = 0
