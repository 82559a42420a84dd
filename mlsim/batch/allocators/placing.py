"""Allocators: which nodes the units of a job get, all of them or none.

Each is a function ``(slot, free, s, g) -> bool`` that looks for room in ``free`` and leaves the units on each
node in ``g.placed``; nothing else changes. Where room runs out it leaves ``g.placed`` at 0 and says so.

The *score* of a node is the mean of the used shares of the resources it has,

    score(n) = mean over r with capacity[n, r] > 0 of (capacity[n, r] - free[n, r]) / capacity[n, r],

so that a node with two idle GPUs and no free core is half used. Ties go in node order.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel, kernel
from mlsim.batch.allocators import user_allocator as own
from mlsim.batch.allocators.heap import pop, push
from mlsim.batch.columns.arrays import Arrays
from mlsim.batch.columns.table import NUMBER, UNITS
from mlsim.batch.room.fit import fill_room, units_on
from mlsim.batch.room.grid import (
    ALLOCATOR,
    BEST_FIT,
    CONTIGUOUS,
    DRAINS,
    FIRST_FIT,
    HETEROGENEITY,
    OWN,
    RANDOM,
    SEED,
    STRICT,
    TOPOLOGY,
    Grid,
)

__all__ = ["clear_placed", "has_window", "place", "score"]

Ints = NDArray[np.int64]


@inner_kernel
def place(slot: int, free: Ints, s: Arrays, g: Grid) -> bool:
    """Let the scenario's allocator answer for a job."""
    allocator = g.settings[ALLOCATOR]
    if allocator == FIRST_FIT:
        return _first_fit(slot, free, s, g)
    if allocator == OWN:
        return _own(slot, free, s, g)
    if fill_room(slot, free, s, g) < s.ints[UNITS, slot]:
        return False
    if allocator == CONTIGUOUS:
        return _contiguous(slot, free, s, g)
    if allocator == TOPOLOGY:
        _topology_aware(slot, s, g)
    elif allocator in (BEST_FIT, HETEROGENEITY, RANDOM):
        _in_order_of_keys(slot, free, s, g)
    else:
        _worst_fit(slot, free, s, g)
    return True


@inner_kernel
def clear_placed(g: Grid) -> None:
    """Forget the allocator's last answer."""
    g.placed[:] = 0


@inner_kernel
def _first_fit(slot: int, free: Ints, s: Arrays, g: Grid) -> bool:
    """Fill the first nodes that have room, in the platform's order."""
    left, node = s.ints[UNITS, slot], 0
    while left > 0 and node < free.shape[0]:
        g.placed[node] = units_on(slot, node, left, free, s, g)
        left -= g.placed[node]
        node += 1
    if left > 0:
        clear_placed(g)
    return bool(left == 0)


@inner_kernel
def score(slot: int, node: int, units: int, free: Ints, g: Grid) -> float:
    """Give the score of a node once it holds ``units`` more of a job."""
    used, kinds = 0.0, 0
    for r in range(free.shape[1]):
        capacity = g.full[node, r]
        if capacity > 0:
            used += (capacity - free[node, r] + units * g.request[slot, r]) / capacity
            kinds += 1
    return used / kinds


@inner_kernel
def _waste(slot: int, node: int, free: Ints, g: Grid) -> float:
    """Give what a job that does not ask for them would stand in the way of, on a node.

    waste(n) = Σ over r that the job does not ask for of scarcity[r] · free[n, r] / capacity[n, r], with
    scarcity[r] = nodes / (nodes that have r) - 1: 0 for what every node has, the more the fewer have it.
    """
    waste = 0.0
    for r in range(free.shape[1]):
        if g.request[slot, r] == 0 and g.full[node, r] > 0:
            waste += g.scarcity[r] * (free[node, r] / g.full[node, r])
    return waste


@inner_kernel
def _mixed(value: np.uint64) -> np.uint64:
    """Mix the bits of a number (the finalizer of SplitMix64; Steele, Lea and Flood 2014)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@inner_kernel
def _draw(seed: int, number: int, node: int) -> float:
    """Give a number in [0, 1) that depends on the seed, the job's number and the node alone."""
    step = np.uint64(0x9E3779B97F4A7C15)
    mixed = _mixed(_mixed(np.uint64(seed) + step) ^ (np.uint64(number + 1) * step))
    mixed = _mixed(mixed + np.uint64(node + 1) * step)
    return float(mixed >> np.uint64(11)) / 9007199254740992.0  # 2^53


@inner_kernel
def _in_order_of_keys(slot: int, free: Ints, s: Arrays, g: Grid) -> None:
    """Fill one node after the other: the busiest, the least wasted, or any at random.

    - ``best-fit``: the highest score first. That is the same as sorting anew after every unit: the node
      that got one has become busier yet.
    - ``heterogeneity-aware``: the least waste first, then the highest score.
    - ``random``: by numbers drawn for (seed, job, node).
    """
    allocator, n = g.settings[ALLOCATOR], 0
    for node in range(free.shape[0]):
        if g.room[node] == 0:
            continue
        first, second = 0.0, 0.0
        if allocator == RANDOM:
            first = _draw(g.settings[SEED], s.ints[NUMBER, slot], node)
        else:
            second = -score(slot, node, 0, free, g)
        if allocator == HETEROGENEITY:
            first = _waste(slot, node, free, g)
        push(n, first, second, node, g.heap_keys, g.heap_nodes)
        n += 1
    left = s.ints[UNITS, slot]
    while left > 0:
        node = pop(n, g.heap_keys, g.heap_nodes)
        n -= 1
        g.placed[node] = min(g.room[node], left)
        left -= g.placed[node]


@inner_kernel
def _worst_fit(slot: int, free: Ints, s: Arrays, g: Grid) -> None:
    """Put unit after unit on the node with the lowest score, counting those before it."""
    n = 0
    for node in range(free.shape[0]):
        if g.room[node] > 0:
            push(n, score(slot, node, 0, free, g), 0.0, node, g.heap_keys, g.heap_nodes)
            n += 1
    for _ in range(s.ints[UNITS, slot]):
        node = pop(n, g.heap_keys, g.heap_nodes)
        n -= 1
        g.placed[node] += 1
        if g.placed[node] < g.room[node]:
            push(n, score(slot, node, g.placed[node], free, g), 0.0, node, g.heap_keys, g.heap_nodes)
            n += 1


@inner_kernel
def _window(need: int, g: Grid) -> tuple[int, int]:
    """Find the fewest neighbouring nodes, all with room, that hold so many units; (-1, -1) if there are none.

    Of several such stretches it is the first.
    """
    best, best_last = -1, -1
    first, held = 0, 0
    for last in range(len(g.room)):
        if g.room[last] == 0:
            first, held = last + 1, 0
            continue
        held += g.room[last]
        while held - g.room[first] >= need:
            held -= g.room[first]
            first += 1
        if held >= need and (best < 0 or last - first < best_last - best):
            best, best_last = first, last
    return best, best_last


@kernel
def has_window(slot: int, free: Ints, s: Arrays, g: Grid) -> bool:
    """Tell whether a job that waits for neighbouring nodes has them in ``free``; yes if it does not wait."""
    if not g.settings[STRICT]:
        return True
    fill_room(slot, free, s, g)
    return _window(s.ints[UNITS, slot], g)[0] >= 0


@inner_kernel
def _contiguous(slot: int, free: Ints, s: Arrays, g: Grid) -> bool:
    """Fill the shortest stretch of neighbouring nodes that holds the job, from its first node on.

    Where there is none, the job gets nodes as by first-fit, or waits (``contiguity: strict``).
    """
    left = s.ints[UNITS, slot]
    first, last = _window(left, g)
    if first < 0:
        return False if g.settings[STRICT] else _first_fit(slot, free, s, g)
    for node in range(first, last + 1):
        g.placed[node] = min(g.room[node], left)
        left -= g.placed[node]
    return True


@inner_kernel
def _topology_aware(slot: int, s: Arrays, g: Grid) -> None:
    """Fill the nodes around a node, by links from it; the centre is the one that needs the fewest.

    Greedy: from every node with room as the centre, nodes are filled in the order of their links from the
    centre. The best centre has the smallest radius (most links to a node of the job), then the smallest sum
    over the units of the links to them. No two nodes of the job are farther apart than twice the radius.
    """
    best, best_radius, best_sum = -1, 0, 0
    for centre in range(len(g.room)):
        if g.room[centre] == 0:
            continue
        left, radius, links = s.ints[UNITS, slot], 0, 0
        for k in range(len(g.room)):
            node = g.near[centre, k]
            taken = min(g.room[node], left)
            if taken > 0:
                radius = g.links[centre, node]
                links += taken * radius
                left -= taken
            if left == 0 or (best >= 0 and radius > best_radius):
                break
        if left == 0 and (best < 0 or (radius, links) < (best_radius, best_sum)):
            best, best_radius, best_sum = centre, radius, links
    left = s.ints[UNITS, slot]
    for k in range(len(g.room)):
        node = g.near[best, k]
        g.placed[node] = min(g.room[node], left)
        left -= g.placed[node]


@inner_kernel
def _capacity_then(free: Ints, g: Grid) -> Ints:
    """Give what nodes have, with those that are known to have come back when ``free`` is free."""
    if g.settings[DRAINS] == 0:
        return g.capacity
    capacity = g.capacity.copy()
    for node in range(len(capacity)):
        if free[node, 0] > 0:
            capacity[node] = g.full[node]
    return capacity


@kernel(nogil=False)
def _own(slot: int, free: Ints, s: Arrays, g: Grid) -> bool:
    """Ask the user's allocator."""
    number, units = s.ints[NUMBER, slot], s.ints[UNITS, slot]
    request, capacity, placed = g.request[slot], _capacity_then(free, g), g.placed
    with numba.objmode(found="boolean"):
        found = own.answer(number, units, request, free, capacity, placed)
    return bool(found)
