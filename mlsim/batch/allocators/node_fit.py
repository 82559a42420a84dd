"""Units of a job that fit on nodes, and scarce resources to avoid."""

from typing import Final

import numpy as np

from mlsim._jit import inner_kernel, kernel, leaf_kernel
from mlsim._runtime.arrays import Ints, Mask
from mlsim.batch.allocators import node_arrays as at
from mlsim.batch.allocators.node_arrays import Nodes
from mlsim.batch.columns import job_columns as col
from mlsim.batch.columns.job_columns import Columns, FloatColumn, FloatColumns, IntColumn, IntColumns
from mlsim.batch.columns.occupancy import begin_run, join_run, next_run, run_of
from mlsim.batch.columns.running_jobs import stay_end


@leaf_kernel
def _are_alike(node: int, other: int, amounts: IntColumns, kind: IntColumn) -> bool:
    if kind[node] != kind[other]:
        return False
    for r in range(amounts.shape[1]):  # noqa: SIM110  # a kernel knows no generators
        if amounts[node, r] != amounts[other, r]:
            return False
    return True


@inner_kernel
def end_of_run(node: int, amounts: IntColumns, starts: IntColumns, kind: IntColumn) -> int:
    """Return one past the last node of the run that begins at a node."""
    n_nodes = amounts.shape[0]
    if starts.shape[1] > 0:
        return next_run(node, n_nodes, starts)
    end = node + 1
    while end < n_nodes and _are_alike(node, end, amounts, kind):
        end += 1
    return int(end)


@leaf_kernel
def row_of(node: int, starts: IntColumns) -> int:
    """Return the row with the amounts of a node."""
    return run_of(node, starts) if starts.shape[1] > 0 else node


@inner_kernel
def split(node: int, amounts: IntColumns, starts: IntColumns) -> None:
    """Begin a run at a node, if the node exists."""
    if node == amounts.shape[0]:
        return
    run = run_of(node, starts)
    if run != node:
        begin_run(node, starts)
        for r in range(amounts.shape[1]):
            amounts[node, r] = amounts[run, r]


@inner_kernel
def join(node: int, amounts: IntColumns, starts: IntColumns, kind: IntColumn) -> None:
    """Join the run that begins at a node to the one before, if they are alike."""
    if 0 < node < amounts.shape[0] and _are_alike(run_of(node - 1, starts), node, amounts, kind):
        join_run(node, starts)


@inner_kernel
def set_node(
    node: int, own: IntColumn, own_kind: int, amounts: IntColumns, starts: IntColumns, kind: IntColumn
) -> None:
    """Set the kind and the amounts of a node."""
    split(node, amounts, starts)
    split(node + 1, amounts, starts)
    kind[node] = own_kind
    for r in range(amounts.shape[1]):
        amounts[node, r] = own[r]
    join(node + 1, amounts, starts, kind)
    join(node, amounts, starts, kind)


@inner_kernel
def copy_alike(target: IntColumns, source: IntColumns, starts: IntColumns) -> None:
    """Copy amounts; those in ``target`` are then in the same runs."""
    if starts.shape[1] == 0:
        col.copy_columns(target, source)
        return
    run = 0
    while run < source.shape[0]:
        for r in range(source.shape[1]):
            target[run, r] = source[run, r]
        run = next_run(run, source.shape[0], starts)


@inner_kernel
def spread(target: IntColumns, source: IntColumns, starts: IntColumns) -> None:
    """Copy amounts to each node, which then has its own."""
    node = 0
    while node < source.shape[0]:
        run, end = node, next_run(node, source.shape[0], starts)
        for each in range(run, end):
            for r in range(source.shape[1]):
                target[each, r] = source[run, r]
        node = end


@leaf_kernel
def reach(slot: int, now: float, columns: Columns, nodes: Nodes) -> int:
    """Count the drains, the first ones, that begin before a job that starts now is expected to end."""
    if nodes.settings[at.DRAINS] == 0:
        return 0
    end, n = stay_end(now, columns.floats[col.ESTIMATE, slot]), 0
    while n < nodes.settings[at.DRAINS] and nodes.drain_times[0, n] < end:
        n += 1
    return n


Bools = Mask

_FORGET: Final = 0.999
"""Weight of an arrival relative to the next one."""


@kernel
def note_request(request: IntColumn, demand: FloatColumn) -> None:
    """Count an arrival by its request; ``demand`` has a count per type, then the number of arrivals."""
    for r in range(len(request)):
        demand[r] = demand[r] * _FORGET + (1.0 if request[r] > 0 else 0.0)
    demand[-1] = demand[-1] * _FORGET + 1.0


@kernel
def share_of(r: int, demand: FloatColumn) -> float:
    """Return the share of arrivals that ask for a type; 0 before the first."""
    return float(demand[r] / max(demand[-1], 1.0))


@kernel
def dislike(request: IntColumn, has: IntColumn, demand: FloatColumn) -> float:
    """Return how little a job should be on a node that has so much of each type."""
    total = 0.0
    for r in range(len(request)):
        if request[r] == 0 and has[r] > 0:
            total += share_of(r, demand)
    return total


@kernel
def kept_nodes(scarce: IntColumn, size: int, reserve: float, demand: FloatColumn) -> int:
    """Return how many nodes of a sort are kept for jobs that request its scarce types."""
    most = 0.0
    for r in range(len(scarce)):
        if scarce[r] > 0:
            most = max(most, share_of(r, demand))
    return int(reserve * most * size)


@kernel
def dislikes(requests: IntColumns, has: IntColumns, demand: FloatColumn, out: FloatColumns) -> None:
    """Fill in the dislike of each job, a row each, for each row of what nodes have."""
    for job in range(requests.shape[0]):
        for row in range(has.shape[0]):
            out[job, row] = dislike(requests[job], has[row], demand)


def scarce_types(capacity: IntColumns) -> Bools:
    """Return which types only some of the nodes in use have."""
    has = capacity > 0
    in_use = has[has.any(axis=1)]
    return np.array(in_use.any(axis=0) & ~in_use.all(axis=0), np.bool_)


def sorts_of(capacity: IntColumns) -> tuple[IntColumn, IntColumn]:
    """Sort nodes by the scarce types that they have.

    Returns the sort of each node, -1 for nodes without a scarce type; and for each sort 1 for the scarce
    types of its nodes, shape (sorts, R).
    """
    marks = ((capacity > 0) & scarce_types(capacity)).astype(np.int64)
    rows, sort = np.unique(marks, axis=0, return_inverse=True)
    none = int(not rows[0].any())  # rows are in lexicographic order, so that the empty one is first
    return sort.reshape(-1).astype(np.int64) - none, rows[none:].copy()


@leaf_kernel
def may_use(slot: int, node: int, columns: Columns, nodes: Nodes) -> bool:
    """Whether a node is in the set of nodes that a job may use."""
    return bool(nodes.node_sets.shape[0] == 0 or nodes.node_sets[columns.ints[col.NODE_SET, slot], node] != 0)


@leaf_kernel
def _is_kept_from(slot: int, node: int, columns: Columns, nodes: Nodes) -> bool:
    if not may_use(slot, node, columns, nodes):
        return True
    if nodes.kept.shape[1] == 0:
        return False
    sort = nodes.sort[node]
    return bool(sort >= 0 and nodes.place_in_sort[node] <= nodes.kept[slot, sort])


@leaf_kernel  # it is called for every node
def units_on(slot: int, node: int, most: int, free: Ints, columns: Columns, nodes: Nodes) -> int:
    """Return how many units of a job fit on a node, at most ``most``; one if nodes are allocated whole.

    None fit on a node that is not in the job's set, or that is kept for others.
    """
    if nodes.settings[at.RESTRICTS] and _is_kept_from(slot, node, columns, nodes):
        return 0
    n = min(most, 1) if columns.rules[col.EXCLUSIVE] else most
    for r in range(nodes.request.shape[1]):
        asked = nodes.request[slot, r]
        if asked > 0:
            if free[node, r] < asked:
                return 0
            if n * asked > free[node, r]:
                n = free[node, r] // asked
    return n if len(nodes.device_of) == 0 else _with_devices(slot, node, n, free, nodes)


@inner_kernel
def _with_devices(slot: int, node: int, most: int, free: Ints, nodes: Nodes) -> int:
    """Return how many units, at most ``most``, find their devices on a node: whole ones, or one with a share.

    A job of which a unit asks for a share has no other unit.
    """
    n = most
    for r in range(nodes.request.shape[1]):
        asked, is_of_devices, found = nodes.request[slot, r], False, 0
        need = min(asked, at.PARTS)
        for d in range(len(nodes.device_of) if asked > 0 else 0):
            if nodes.device_of[d] == r:
                is_of_devices = True
                found += 1 if free[node, nodes.request.shape[1] + d] >= need else 0
        if is_of_devices:
            n = min(n, found if asked < at.PARTS else found // (asked // at.PARTS))
    return int(n)


@inner_kernel
def _choose_devices(slot: int, node: int, units: int, free: Ints, nodes: Nodes) -> int:
    """Return the devices that units of a job get on a node, a bit for each; -1 if there are too few.

    Whole ones are the first that are wholly free; a share is of the device with the least that has it free.
    """
    first, devices = nodes.request.shape[1], 0
    for r in range(first):
        asked = nodes.request[slot, r]
        need, best, least = units * (asked // at.PARTS), -1, at.PARTS + 1
        is_of_devices = False
        for d in range(len(nodes.device_of) if asked > 0 else 0):
            if nodes.device_of[d] != r:
                continue
            is_of_devices, has = True, free[node, first + d]
            if asked < at.PARTS and asked <= has < least:
                best, least = d, has
            if need > 0 and has == at.PARTS:
                devices += 1 << d
                need -= 1
        if best >= 0:
            devices += 1 << best
        if is_of_devices and (need > 0 or (asked < at.PARTS and best < 0)):
            return -1
    return int(devices)


@inner_kernel
def give_devices(slot: int, free: Ints, starts: Ints, nodes: Nodes) -> bool:
    """Choose the devices of a job on the nodes where it is placed; forget these if devices are too few."""
    if len(nodes.device_of) == 0:
        return True
    node = at.first_placed(nodes)
    while node < len(nodes.placed):
        devices = _choose_devices(slot, row_of(node, starts), nodes.placed[node], free, nodes)
        if devices < 0:
            at.clear_placed(nodes)
            return False
        nodes.placed_devices[node] = devices
        node = at.next_placed(node, nodes)
    return True


@inner_kernel
def change_devices(slot: int, node: int, devices: int, sign: int, free: Ints, nodes: Nodes) -> None:
    """Free what a job holds of devices of a node (sign 1), or take it (-1)."""
    d = 0
    while devices >> d > 0:
        if (devices >> d) & 1:
            amount = min(nodes.request[slot, nodes.device_of[d]], at.PARTS)
            free[node, nodes.request.shape[1] + d] += sign * amount
        d += 1


@inner_kernel
def has_devices(slot: int, node: int, devices: int, free: Ints, nodes: Nodes) -> bool:
    """Whether these devices of a node have free what a job asks for."""
    d = 0
    while devices >> d > 0:
        if (devices >> d) & 1:
            amount = min(nodes.request[slot, nodes.device_of[d]], at.PARTS)
            if free[node, nodes.request.shape[1] + d] < amount:
                return False
        d += 1
    return True


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
    """Note the units of a job that fit on a node of each run, and where runs end; return their sum."""
    found, node = 0, 0
    while node < free.shape[0]:
        end = end_of_run(node, free, starts, nodes.kind)
        units = units_on(slot, node, columns.ints[col.UNITS, slot], free, columns, nodes)
        nodes.room[node], nodes.run_end[node] = units, end
        found += units * (end - node)
        node = end
    return found


@inner_kernel
def sums_suffice(slot: int, total: Ints, columns: Columns, nodes: Nodes) -> bool:
    """Whether a job could fit by the sums over all nodes: quick, and never false for a job that fits."""
    units = columns.ints[col.UNITS, slot]
    for r in range(len(total)):  # noqa: SIM110  # a kernel knows no generators
        if units * nodes.request[slot, r] > total[r]:
            return False
    return True


# Columns of refused requests.
_UNITS, _REACH, _SET, _REQUEST = range(4)


@inner_kernel
def refuse(slot: int, now: float, columns: Columns, nodes: Nodes) -> None:
    """Remember until the end of the pass that a job does not fit: larger ones do not fit either.

    This excludes jobs that would run into fewer announced drains, or may use other nodes.
    """
    n = nodes.settings[at.REFUSED]
    if n == at.MOST_REFUSED or nodes.settings[at.ALLOCATOR] == at.OWN:
        return
    nodes.refused[n, _UNITS] = columns.ints[col.UNITS, slot]
    nodes.refused[n, _REACH] = reach(slot, now, columns, nodes)
    nodes.refused[n, _SET] = columns.ints[col.NODE_SET, slot]
    for r in range(nodes.request.shape[1]):
        nodes.refused[n, _REQUEST + r] = nodes.request[slot, r]
    for sort in range(nodes.kept.shape[1]):
        nodes.refused[n, _REQUEST + nodes.request.shape[1] + sort] = nodes.kept[slot, sort]
    nodes.settings[at.REFUSED] = n + 1


@leaf_kernel
def could_fit(slot: int, now: float, columns: Columns, nodes: Nodes) -> bool:
    """Whether a job may fit now; during a pass free resources only become fewer."""
    few = bool(columns.ints[col.UNITS, slot] <= columns.counts[col.FREE])
    return few and _could_fit(slot, now, columns, nodes)


@inner_kernel
def _could_fit(slot: int, now: float, columns: Columns, nodes: Nodes) -> bool:
    """Check the sums and the remembered requests."""
    units = columns.ints[col.UNITS, slot]
    if not sums_suffice(slot, nodes.total, columns, nodes):
        return False
    reached, node_set = reach(slot, now, columns, nodes), columns.ints[col.NODE_SET, slot]
    for k in range(nodes.settings[at.REFUSED]):
        larger = units >= nodes.refused[k, _UNITS] and reached >= nodes.refused[k, _REACH]
        # A set that is part of another one is not known as such, but every set is part of all nodes.
        larger = larger and (nodes.refused[k, _SET] == node_set or nodes.refused[k, _SET] == 0)
        r = 0
        while larger and r < nodes.request.shape[1]:
            larger = nodes.request[slot, r] >= nodes.refused[k, _REQUEST + r]
            r += 1
        sort = 0
        while larger and sort < nodes.kept.shape[1]:
            larger = nodes.kept[slot, sort] >= nodes.refused[k, _REQUEST + r + sort]
            sort += 1
        if larger:
            return False
    return True


@inner_kernel
def learn_arrivals(first: int, last: int, arrivals: Ints, columns: Columns, nodes: Nodes) -> None:
    """Learn what the jobs ``arrivals[first:last]`` ask for, then decide which nodes are kept from them."""
    if nodes.kept.shape[1] == 0:
        return
    for k in range(first, last if nodes.settings[at.LEARNS] else first):
        note_request(nodes.request[arrivals[k]], nodes.demand)
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
        kept = kept_nodes(nodes.scarce[sort], nodes.sort_size[sort], nodes.reserve[0], nodes.demand)
        nodes.kept[slot, sort] = 0 if asks else kept


@inner_kernel
def lift_reserve(slot: int, columns: Columns, nodes: Nodes) -> None:
    """Keep no nodes from a job that would not fit on the others of those that are in use."""
    is_kept = False
    for sort in range(nodes.kept.shape[1]):
        is_kept = is_kept or nodes.kept[slot, sort] > 0
    units = columns.ints[col.UNITS, slot]
    if is_kept and room_for(slot, units, nodes.capacity, nodes.no_starts, columns, nodes) < units:
        for sort in range(nodes.kept.shape[1]):
            nodes.kept[slot, sort] = 0
