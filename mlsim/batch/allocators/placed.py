"""What an allocator answers: units placed on stretches of neighbouring nodes, as many on each of a stretch.

Where stretches begin are bits, as those of runs are (:mod:`mlsim.batch.columns.runs`), so that they are found
in the order of nodes in whatever order an allocator places them. ``nodes.placed`` is 0 but where one begins.
"""

from __future__ import annotations

from typing import Final

from mlsim._jit import inner_kernel, leaf_kernel
from mlsim.batch.allocators.nodes import Nodes
from mlsim.batch.columns.packing import Ints
from mlsim.batch.columns.runs import begin_run, join_run, next_run

__all__ = [
    "bring_placed",
    "clear_placed",
    "fill",
    "first_placed",
    "is_kept",
    "keep_placed",
    "kept_words",
    "next_placed",
    "place_on_each",
    "put",
    "take_placed",
]

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
def place_on_each(units: Ints, nodes: Nodes) -> None:
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
def keep_placed(kept: Ints, nodes: Nodes) -> None:
    """Store the answer of the allocator as a list: its length, then two numbers for each stretch."""
    n, node = 0, first_placed(nodes)
    while node < len(nodes.placed):
        kept[2 * n + 1] = node
        kept[2 * n + 2] = (nodes.placed[node] << _COUNT_BITS) + nodes.placed_end[node] - node
        n += 1
        node = next_placed(node, nodes)
    kept[0] = n


@inner_kernel
def bring_placed(kept: Ints, nodes: Nodes) -> None:
    """Place what a list has, and nothing else."""
    clear_placed(nodes)
    for k in range(kept[0]):
        node, rest = kept[2 * k + 1], kept[2 * k + 2]
        put(node, node + (rest & _COUNT_MASK), rest >> _COUNT_BITS, nodes)


@inner_kernel
def is_kept(kept: Ints, nodes: Nodes) -> bool:
    """Whether a list has just what is placed, stretch by stretch."""
    n, node = 0, first_placed(nodes)
    while node < len(nodes.placed):
        rest = (nodes.placed[node] << _COUNT_BITS) + nodes.placed_end[node] - node
        if n == kept[0] or kept[2 * n + 1] != node or kept[2 * n + 2] != rest:
            return False
        n += 1
        node = next_placed(node, nodes)
    return bool(n == kept[0])
