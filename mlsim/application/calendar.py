"""Which PE is due next: tournament trees over PEs, keyed by time.

Every PE waits for at most one thing, so its next event is one number. A match between two PEs is won
by the earlier time, and by the lower rank where the times are equal; so the winner of all is the next
event in order of (time, rank), and a change costs one walk from a leaf to the root.

A tree over ``width`` PEs, a power of two, is two arrays: ``times[j]`` is when PE j is due, infinity where
nothing is; ``ranks[k]`` is the PE that wins at node k, where node 1 is the root, node k has the children
2k and 2k + 1, and PE j is leaf width + j. PE ``ranks[1]`` is due next, at ``times[ranks[1]]``. Where every
node of the platform has a tree of its own, the trees stand one after the other in the same two arrays:
tree v begins at ``times[begin[v]]`` and ``ranks[2 * begin[v]]``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel

__all__ = ["due_lowest_rank", "move", "move_in", "new_calendar", "new_calendars"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def new_calendar(due: Floats) -> tuple[Floats, Ints]:
    """Enter the first event of every PE (one or more); gives ``times`` and ``ranks``."""
    first = np.zeros(2, np.int64)
    first[1] = len(due)
    times, ranks, _ = new_calendars(due.copy(), first)
    return times, ranks


@kernel
def new_calendars(due: Floats, first: Ints) -> tuple[Floats, Ints, Ints]:
    """Make a tree for each node, whose PEs are ``first[v]`` to ``first[v + 1] - 1``, one or more.

    Gives ``times``, ``ranks`` and ``begin``; in a tree, PEs are counted from the node's first.
    """
    trees = len(first) - 1
    begin = np.zeros(trees + 1, np.int64)
    for tree in range(trees):
        width = 1
        while width < first[tree + 1] - first[tree]:
            width *= 2
        begin[tree + 1] = begin[tree] + width
    times = np.full(begin[trees], np.inf)
    ranks = np.zeros(2 * begin[trees], np.int64)
    for tree in range(trees):
        base, width = begin[tree], begin[tree + 1] - begin[tree]
        for rank in range(width):
            ranks[2 * base + width + rank] = rank
            if rank < first[tree + 1] - first[tree]:
                times[base + rank] = due[first[tree] + rank]
        for node in range(width - 1, 0, -1):
            left, right = ranks[2 * (base + node)], ranks[2 * (base + node) + 1]
            ranks[2 * base + node] = right if times[base + right] < times[base + left] else left
    return times, ranks, begin


@kernel
def move(times: Floats, ranks: Ints, rank: int, time: float) -> None:
    """Set the next event of a PE; infinity: none."""
    move_in(times, ranks, 0 * rank, len(times), rank, time)


@kernel
def move_in(times: Floats, ranks: Ints, begin: int, width: int, rank: int, time: float) -> None:
    """Set the next event of a PE in one of several trees."""
    node = width + rank
    times[begin + rank] = time
    while node > 1:
        rival = ranks[2 * begin + (node ^ 1)]
        other = times[begin + rival]
        # One comparison that the processor can foresee or not, rather than two.
        loses = (other < time) | ((other == time) & (rival < rank))
        time = other if loses else time
        rank = rival if loses else rank
        node >>= 1
        ranks[2 * begin + node] = rank


@kernel
def due_lowest_rank(times: Floats, ranks: Ints, begin: int, width: int, now: float) -> int:
    """Find the lowest rank in a tree that is due by ``now``; there must be one."""
    node = 1
    while node < width:
        node *= 2
        if times[begin + ranks[2 * begin + node]] > now:
            node += 1
    return node - width
