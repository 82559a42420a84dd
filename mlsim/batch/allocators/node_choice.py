"""Allocators: which nodes the units of a job get."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

import numpy as np

from mlsim._jit import c_function, inner_kernel, kernel, leaf_kernel, zeros
from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.allocators import node_arrays as at
from mlsim.batch.allocators.node_arrays import Nodes, clear_placed, fill, put
from mlsim.batch.allocators.node_fit import (
    dislike,
    end_of_run,
    fill_room,
    give_devices,
    may_use,
    row_of,
    spread,
    units_on,
)
from mlsim.batch.columns.job_columns import (
    FIRST_NAMED,
    NAMED,
    NUMBER,
    UNITS,
    Columns,
    copy_columns,
    copy_ints,
)


@inner_kernel
def _before(a: int, b: int, keys: Floats, nodes: Ints) -> bool:
    for level in range(2):
        if keys[level, a] != keys[level, b]:
            return bool(keys[level, a] < keys[level, b])
    return bool(nodes[a] < nodes[b])


@inner_kernel
def _swap(a: int, b: int, keys: Floats, nodes: Ints) -> None:
    for level in range(2):
        keys[level, a], keys[level, b] = keys[level, b], keys[level, a]
    nodes[a], nodes[b] = nodes[b], nodes[a]


@inner_kernel
def push(n: int, key: float, second: float, node: int, keys: Floats, nodes: Ints) -> None:
    """Add a node to a heap of ``n``."""
    keys[0, n], keys[1, n], nodes[n] = key, second, node
    child = n
    while child > 0 and _before(child, (child - 1) // 2, keys, nodes):
        _swap(child, (child - 1) // 2, keys, nodes)
        child = (child - 1) // 2


@inner_kernel
def pop(n: int, keys: Floats, nodes: Ints) -> int:
    """Remove and return the first node of a heap of ``n``."""
    first = nodes[0]
    _swap(0, n - 1, keys, nodes)
    parent, last = 0, n - 1
    while True:
        child = 2 * parent + 1
        if child >= last:
            break
        if child + 1 < last and _before(child + 1, child, keys, nodes):
            child += 1
        if not _before(child, parent, keys, nodes):
            break
        _swap(child, parent, keys, nodes)
        parent = child
    return int(first)


Answer = Callable[[int, int, Ints, Ints, Ints, Ints], bool]

_current: list[Answer] = []
_call_answer = c_function("int32", *["int64"] * 4, *["intp"] * 4)


@contextmanager
def called_in_kernels(allocator: Answer | None) -> Iterator[None]:
    """Make this allocator callable from kernels in the context."""
    if allocator is None:
        yield
        return
    _current.append(allocator)
    try:
        yield
    finally:
        _current.pop()


@cache
def answer_address() -> int:
    """Return the address of the C function by which kernels ask the current allocator."""
    return ctypes.cast(_ANSWER, ctypes.c_void_p).value or 0


def _answer(number: int, units: int, n: int, resources: int, *places: int) -> int:
    """Place units on nodes in ``placed``; return whether all fit.

    Arrays come by address: request [resources], free and capacity [n, resources], placed [n].
    """
    shapes = ((resources,), (n, resources), (n, resources), (n,))
    return _current[-1](number, units, *(_array_at(*each) for each in zip(places, shapes, strict=True)))


_ANSWER = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 4, *[ctypes.c_void_p] * 4)(_answer)


def _array_at(address: int, shape: tuple[int, ...]) -> Ints:
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_int64)), shape)


_CLASSES: Final = 256
"""Of random numbers: half a thousand of 10^5 are in each."""


@inner_kernel
def place(slot: int, free: Ints, starts: Ints, columns: Columns, nodes: Nodes) -> bool:
    """Ask the scenario's allocator for the nodes of a job, unless those that its log names hold it.

    Its devices there are chosen too.
    """
    return _place(slot, free, starts, columns, nodes) and give_devices(slot, free, starts, nodes)


@inner_kernel
def _place(slot: int, free: Ints, starts: Ints, columns: Columns, nodes: Nodes) -> bool:
    if columns.ints[NAMED, slot] > 0 and _on_named(slot, free, starts, columns, nodes):
        return True
    allocator = nodes.settings[at.ALLOCATOR]
    if allocator == at.FIRST_FIT:
        return _first_fit(slot, free, starts, columns, nodes)
    if allocator == at.OWN:
        return _own(slot, free, starts, columns, nodes)
    if fill_room(slot, free, starts, columns, nodes) < columns.ints[UNITS, slot]:
        return False
    if allocator == at.CONTIGUOUS:
        return _contiguous(slot, free, starts, columns, nodes)
    if allocator == at.TOPOLOGY:
        _topology_aware(slot, columns, nodes)
    elif allocator == at.RANDOM:
        _random(slot, columns, nodes)
    elif allocator in (at.BEST_FIT, at.HETEROGENEITY, at.DEMAND):
        _in_order_of_keys(slot, free, columns, nodes)
    else:
        _worst_fit(slot, free, starts, columns, nodes)
    return True


@inner_kernel
def _on_named(slot: int, free: Ints, starts: Ints, columns: Columns, nodes: Nodes) -> bool:
    """Place a job on the nodes that its log names, about as many units on each, if they hold it."""
    left, n = columns.ints[UNITS, slot], columns.ints[NAMED, slot]
    for k in range(n):
        node = columns.named[columns.ints[FIRST_NAMED, slot] + k]
        units = units_on(slot, row_of(node, starts), -(-left // (n - k)), free, columns, nodes)
        if units > 0:
            put(node, node + 1, units, nodes)
            left -= units
    if left > 0:
        clear_placed(nodes)
    return bool(left == 0)


@inner_kernel
def _first_fit(slot: int, free: Ints, starts: Ints, columns: Columns, nodes: Nodes) -> bool:
    """Fill the first nodes that have room, in the platform's order."""
    left, node = columns.ints[UNITS, slot], 0
    while left > 0 and node < free.shape[0]:
        end = end_of_run(node, free, starts, nodes.kind)
        left -= fill(node, end, units_on(slot, node, left, free, columns, nodes), left, nodes)
        node = end
    if left > 0:
        clear_placed(nodes)
    return bool(left == 0)


@inner_kernel
def score(slot: int, node: int, units: int, free: Ints, nodes: Nodes) -> float:
    """Return the score of a node once it holds ``units`` more of a job."""
    used, kinds = 0.0, 0
    for r in range(nodes.request.shape[1]):
        capacity = nodes.full[node, r]
        if capacity > 0:
            used += (capacity - free[node, r] + units * nodes.request[slot, r]) / capacity
            kinds += 1
    return used / kinds


@inner_kernel
def _waste(slot: int, node: int, free: Ints, nodes: Nodes) -> float:
    """Return what other jobs could no longer get of a node if a job that does not ask for it were there.

    waste(n) = Σ over r that the job does not ask for of scarcity[r] · free[n, r] / capacity[n, r], with
    scarcity[r] = nodes / (nodes that have r) - 1: 0 for what every node has, the more the fewer have it.
    """
    waste = 0.0
    for r in range(nodes.request.shape[1]):
        if nodes.request[slot, r] == 0 and nodes.full[node, r] > 0:
            waste += nodes.scarcity[r] * (free[node, r] / nodes.full[node, r])
    return waste


@inner_kernel
def _mixed(value: np.uint64) -> np.uint64:
    """Mix the bits of a number (the finalizer of SplitMix64; Steele, Lea and Flood 2014)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@inner_kernel
def _draw(seed: int, number: int, node: int) -> float:
    """Return a number in [0, 1) that depends on the seed, the job's number and the node alone."""
    step = np.uint64(0x9E3779B97F4A7C15)
    mixed = _mixed(_mixed(np.uint64(seed) + step) ^ (np.uint64(number + 1) * step))
    mixed = _mixed(mixed + np.uint64(node + 1) * step)
    return float(mixed >> np.uint64(11)) / 9007199254740992.0  # 2^53


@inner_kernel
def _in_order_of_keys(slot: int, free: Ints, columns: Columns, nodes: Nodes) -> None:
    """Fill one node after the other: the busiest, the least wasted, or the least disliked.

    - ``best-fit``: the highest score first. That is the same as sorting anew after every unit: the node
      that got one has become busier yet.
    - ``heterogeneity-aware``: the least waste first, then the highest score.
    - ``demand-aware``: the least dislike first, then the highest score.

    Nodes of a run have the same keys, so that they follow each other.
    """
    allocator, n, run = nodes.settings[at.ALLOCATOR], 0, 0
    while run < free.shape[0]:
        if nodes.room[run] > 0:
            first = 0.0
            if allocator == at.HETEROGENEITY:
                first = _waste(slot, run, free, nodes)
            elif allocator == at.DEMAND:
                first = dislike(nodes.request[slot], nodes.full[run], nodes.demand)
            second = -score(slot, run, 0, free, nodes)
            push(n, first, second, run, nodes.heap_keys, nodes.heap_nodes)
            n += 1
        run = nodes.run_end[run]
    left = columns.ints[UNITS, slot]
    while left > 0:
        run = pop(n, nodes.heap_keys, nodes.heap_nodes)
        n -= 1
        left -= fill(run, nodes.run_end[run], nodes.room[run], left, nodes)


@leaf_kernel
def _class_of(key: float) -> int:
    return int(key * _CLASSES)


@inner_kernel
def _random(slot: int, columns: Columns, nodes: Nodes) -> None:
    """Fill one node after the other, by numbers drawn for (seed, job, node).

    Numbers are sorted only as far as needed: nodes of the lower classes of numbers are all filled, and
    those of one class in order.
    """
    room = zeros(_CLASSES, np.int64)
    n_nodes, run = len(nodes.room), 0
    while run < n_nodes:
        units, end = nodes.room[run], nodes.run_end[run]
        if units > 0:
            for node in range(run, end):
                key = _draw(nodes.settings[at.SEED], columns.ints[NUMBER, slot], node)
                nodes.heap_keys[0, node] = key
                room[_class_of(key)] += units
        run = end
    left, middle = columns.ints[UNITS, slot], 0
    while room[middle] < left:
        left -= room[middle]
        middle += 1
    n, run = 0, 0
    while run < n_nodes:
        units, end = nodes.room[run], nodes.run_end[run]
        if units > 0:
            for node in range(run, end):
                key = nodes.heap_keys[0, node]  # the heap has not come as far
                if _class_of(key) < middle:
                    put(node, node + 1, units, nodes)
                elif _class_of(key) == middle:
                    push(n, key, 0.0, node, nodes.heap_keys, nodes.heap_nodes)
                    nodes.room[node] = units
                    n += 1
        run = end
    while left > 0:
        node = pop(n, nodes.heap_keys, nodes.heap_nodes)
        n -= 1
        left -= fill(node, node + 1, nodes.room[node], left, nodes)


@inner_kernel
def _worst_fit(slot: int, free: Ints, starts: Ints, columns: Columns, nodes: Nodes) -> None:
    """Place each unit on the node with the lowest score, given the units placed before it.

    A node with a new unit is busier than the others of its run, which therefore come before it. Nodes with
    equally many new units form a run of their own from then on.
    """
    n, node = 0, 0
    while node < free.shape[0]:
        if nodes.room[node] > 0:
            push(n, score(slot, node, 0, free, nodes), 0.0, node, nodes.heap_keys, nodes.heap_nodes)
            n += 1
        node = nodes.run_end[node]
    left = columns.ints[UNITS, slot]
    while left > 0:
        run = pop(n, nodes.heap_keys, nodes.heap_nodes)
        n -= 1
        end, units, row = nodes.run_end[run], nodes.placed[run], row_of(run, starts)
        before = score(slot, row, units, free, nodes)
        after = score(slot, row, units + 1, free, nodes)
        # Where rounding loses the difference, the same node is the first again.
        last = min(end, run + left) if after > before else run + 1
        put(run, last, units + 1, nodes)
        left -= last - run
        nodes.run_end[run] = last
        if last < end:
            nodes.run_end[last], nodes.room[last] = end, nodes.room[run]
            if units > 0:
                put(last, end, units, nodes)
            push(n, before, 0.0, last, nodes.heap_keys, nodes.heap_nodes)
            n += 1
        if units + 1 < nodes.room[run]:
            push(n, after, 0.0, run, nodes.heap_keys, nodes.heap_nodes)
            n += 1


@inner_kernel
def _shrink(first: int, run: int, held: int, need: int, nodes: Nodes) -> tuple[int, int, int]:
    """Drop the first nodes of a window that holds enough without; return its first node, run and units."""
    while held - nodes.room[run] >= need:
        out = min((held - need) // nodes.room[run], nodes.run_end[run] - first)
        held -= out * nodes.room[run]
        first += out
        if first == nodes.run_end[run]:
            run = first
    return first, run, held


@inner_kernel
def _nodes_ahead(first: int, run: int, held: int, need: int, units: int, nodes: Nodes) -> int:
    """Return after how many more nodes, with ``units`` each, a stretch could be shorter than those before it.

    Where nodes ahead have no more units than those left behind, no stretch becomes shorter until it begins
    with another run; where they have more, it may with every node.
    """
    if held < need:
        return int(-(-(need - held) // units))
    if units > nodes.room[run]:
        return 1
    behind = (nodes.run_end[run] - first) * nodes.room[run]
    return int(max(-(-(need + behind - held) // units), 1))


@inner_kernel
def _window(need: int, nodes: Nodes) -> tuple[int, int]:
    """Find the fewest neighbouring nodes, all with room, that hold so many units; (-1, -1) if there are none.

    Of several such stretches it is the first. The first node is returned, and the run it is of.
    """
    best, best_run, fewest = -1, -1, len(nodes.room) + 1
    first, run, held, node = 0, 0, 0, 0
    while node < len(nodes.room):
        units, end = nodes.room[node], nodes.run_end[node]
        if units == 0:
            first, run, held = end, end, 0
        last = node
        while units > 0 and last < end:
            more = min(_nodes_ahead(first, run, held, need, units, nodes), end - last)
            last += more
            held += more * units
            first, run, held = _shrink(first, run, held, need, nodes)
            if held >= need and last - first < fewest:
                best, best_run, fewest = first, run, last - first
        node = end
    return best, best_run


@inner_kernel
def has_window(slot: int, free: Ints, starts: Ints, columns: Columns, nodes: Nodes) -> bool:
    """Whether a job that waits for neighbouring nodes has them in ``free``; true if it does not wait."""
    if not nodes.settings[at.STRICT]:
        return True
    fill_room(slot, free, starts, columns, nodes)
    return _window(columns.ints[UNITS, slot], nodes)[0] >= 0


@inner_kernel
def _contiguous(slot: int, free: Ints, starts: Ints, columns: Columns, nodes: Nodes) -> bool:
    """Fill the shortest stretch of neighbouring nodes that holds the job, from its first node on.

    Where there is none, the job gets nodes as by first-fit, or waits (``contiguity: strict``).
    """
    left = columns.ints[UNITS, slot]
    first, run = _window(left, nodes)
    if first < 0:
        return False if nodes.settings[at.STRICT] else _first_fit(slot, free, starts, columns, nodes)
    while left > 0:
        left -= fill(first, nodes.run_end[run], nodes.room[run], left, nodes)
        first = run = nodes.run_end[run]
    return True


@inner_kernel
def _topology_aware(slot: int, columns: Columns, nodes: Nodes) -> None:
    """Fill the nodes around a node, by links from it; the centre is the one that needs the fewest.

    Greedy: from every node with room as the centre, nodes are filled in the order of their links from the
    centre. The best centre has the smallest radius (most links to a node of the job), then the smallest sum
    over the units of the links to them. No two nodes of the job are farther apart than twice the radius.
    """
    run = 0
    while run < len(nodes.room):
        for node in range(run + 1, nodes.run_end[run]):
            nodes.room[node] = nodes.room[run]
        run = nodes.run_end[run]
    best, best_radius, best_sum = -1, 0, 0
    for centre in range(len(nodes.room)):
        if nodes.room[centre] == 0:
            continue
        left, radius, links = columns.ints[UNITS, slot], 0, 0
        for k in range(len(nodes.room)):
            node = nodes.near[centre, k]
            taken = min(nodes.room[node], left)
            if taken > 0:
                radius = nodes.links[centre, node]
                links += taken * radius
                left -= taken
            if left == 0 or (best >= 0 and radius > best_radius):
                break
        if left == 0 and (best < 0 or (radius, links) < (best_radius, best_sum)):
            best, best_radius, best_sum = centre, radius, links
    left = columns.ints[UNITS, slot]
    for k in range(len(nodes.room)):
        node = nodes.near[best, k]
        left -= fill(node, node + 1, nodes.room[node], left, nodes)


@inner_kernel
def _free_to(slot: int, free: Ints, starts: Ints, columns: Columns, nodes: Nodes) -> Ints:
    """Return what is free of each node, 0 on those that a job may not use."""
    each = nodes.masked  # ``free`` may be the same array
    if starts.shape[1] > 0:
        spread(each, free, starts)
    else:
        copy_columns(each, free)
    for node in range(len(each) if nodes.node_sets.shape[0] > 0 else 0):
        if not may_use(slot, node, columns, nodes):
            each[node] = 0
    return each


@inner_kernel
def _capacity_then(free: Ints, nodes: Nodes) -> Ints:
    """Return the capacity of nodes, with those that are known to have come back when ``free`` is free."""
    if nodes.settings[at.DRAINS] == 0:
        return nodes.capacity
    capacity = nodes.capacity.copy()
    for node in range(len(capacity)):
        if free[node, 0] > 0:
            copy_ints(capacity[node], nodes.full[node], capacity.shape[1])
    return capacity


@kernel(nogil=False)
def _own(slot: int, free: Ints, starts: Ints, columns: Columns, nodes: Nodes) -> bool:
    """Ask the user's allocator, which sees every node."""
    number, units = columns.ints[NUMBER, slot], columns.ints[UNITS, slot]
    free = _free_to(slot, free, starts, columns, nodes)
    request, capacity, placed = nodes.request[slot], _capacity_then(free, nodes), nodes.room
    if len(nodes.device_of) > 0:  # it is not asked for devices
        free, capacity = free[:, : len(request)].copy(), capacity[:, : len(request)].copy()
    found = _call_answer(
        nodes.settings[at.ASKED],
        number,
        units,
        free.shape[0],
        free.shape[1],
        request.ctypes.data,
        free.ctypes.data,
        capacity.ctypes.data,
        placed.ctypes.data,
    )
    if found:
        at.place_on_each(placed, nodes)
    # They may be copies, which Numba frees after their last use: they must outlive the call.
    return found != 0 and capacity.shape[0] > 0 and free.shape[0] > 0
