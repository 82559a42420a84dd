"""Which PE is due next: a tournament tree over the PEs, keyed by time.

Every PE waits for at most one thing, so its next event is one number. A match between two PEs is won
by the earlier time, and by the lower rank where the times are equal; so the winner of all is the next
event in order of (time, rank), and a change costs one walk from a leaf to the root.

The tree is two arrays of length 2·width: node 1 is the root, node k has the children 2k and 2k + 1,
PE j is leaf width + j. ``times[k]`` is the earliest time below node k, infinity where nothing is due,
and ``ranks[k]`` is the PE it belongs to: PE ``ranks[1]`` is due next, at ``times[1]``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel

__all__ = ["due_lowest_rank", "move", "new_calendar"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def new_calendar(due: Floats) -> tuple[Floats, Ints]:
    """Enter the first event of every PE (one or more); gives ``times`` and ``ranks``."""
    width = 1
    while width < len(due):
        width *= 2
    times, ranks = np.full(2 * width, np.inf), np.zeros(2 * width, np.int64)
    for rank in range(width):
        ranks[width + rank] = rank
        if rank < len(due):
            times[width + rank] = due[rank]
    for node in range(width - 1, 0, -1):
        winner = 2 * node + (1 if times[2 * node + 1] < times[2 * node] else 0)
        times[node] = times[winner]
        ranks[node] = ranks[winner]
    return times, ranks


@kernel
def move(times: Floats, ranks: Ints, rank: int, time: float) -> None:
    """Set the next event of a PE; infinity: none."""
    node = len(times) // 2 + rank
    times[node] = time
    while node > 1:
        rival = node ^ 1
        other = times[rival]
        if other < time or (other == time and rival < node):
            time = other
            rank = ranks[rival]
        node >>= 1
        times[node] = time
        ranks[node] = rank


@kernel
def due_lowest_rank(times: Floats, now: float) -> int:
    """Find the lowest rank whose event is due by ``now``; there must be one (``times[1] <= now``)."""
    node = 1
    while node < len(times) // 2:
        node *= 2
        if times[node] > now:
            node += 1
    return node - len(times) // 2
