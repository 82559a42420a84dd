"""How many units of a job fit on nodes: the sum over nodes of min over resources ⌊free / request⌋."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel, kernel
from mlsim.batch.columns.arrays import EXCLUSIVE, FREE, Arrays
from mlsim.batch.columns.table import UNITS
from mlsim.batch.room.grid import ALLOCATOR, MOST_REFUSED, OWN, REFUSED, Grid
from mlsim.batch.room.reach import reach

__all__ = ["could_fit", "fill_room", "refuse", "room_for", "sums_suffice", "units_on"]

Ints = NDArray[np.int64]


@kernel(forceinline=True)  # it is called for every node, and takes many arrays
def units_on(slot: int, node: int, most: int, free: Ints, s: Arrays, g: Grid) -> int:
    """Give how many units of a job fit on a node, at most ``most``; one if nodes are given whole."""
    n = min(most, 1) if s.rules[EXCLUSIVE] else most
    for r in range(free.shape[1]):
        asked = g.request[slot, r]
        if asked > 0:
            if free[node, r] < asked:
                return 0
            if n * asked > free[node, r]:
                n = free[node, r] // asked
    return n


@kernel
def room_for(slot: int, need: int, free: Ints, s: Arrays, g: Grid) -> int:
    """Give how many units of a job fit on all nodes, at most ``need``."""
    found = 0
    for node in range(free.shape[0]):
        found += units_on(slot, node, need - found, free, s, g)
        if found >= need:
            break
    return found


@inner_kernel
def fill_room(slot: int, free: Ints, s: Arrays, g: Grid) -> int:
    """Note for each node how many units of a job fit there, at most all of them; give the sum."""
    found = 0
    for node in range(free.shape[0]):
        g.room[node] = units_on(slot, node, s.ints[UNITS, slot], free, s, g)
        found += g.room[node]
    return found


@inner_kernel
def sums_suffice(slot: int, total: Ints, s: Arrays, g: Grid) -> bool:
    """Tell whether a job could fit by the sums over all nodes; quick, and never wrong when it says no."""
    units = s.ints[UNITS, slot]
    for r in range(len(total)):  # noqa: SIM110  # a kernel knows no generators
        if units * g.request[slot, r] > total[r]:
            return False
    return True


@inner_kernel
def refuse(slot: int, now: float, s: Arrays, g: Grid) -> None:
    """Remember until the pass is over that a job does not fit: larger ones do not fit either.

    Of those that would run into fewer announced drains this says nothing.
    """
    n = g.settings[REFUSED]
    if n == MOST_REFUSED or g.settings[ALLOCATOR] == OWN:
        return
    g.refused[n, 0] = s.ints[UNITS, slot]
    g.refused[n, 1:-1] = g.request[slot]
    g.refused[n, -1] = reach(slot, now, s, g)
    g.settings[REFUSED] = n + 1


@inner_kernel
def could_fit(slot: int, now: float, s: Arrays, g: Grid) -> bool:
    """Tell whether it makes sense to look for room now; what is free only becomes less during a pass."""
    units = s.ints[UNITS, slot]
    if units > s.counts[FREE] or not sums_suffice(slot, g.total, s, g):
        return False
    reached, r_last = reach(slot, now, s, g), g.refused.shape[1] - 1
    for k in range(g.settings[REFUSED]):
        larger = units >= g.refused[k, 0] and reached >= g.refused[k, r_last]
        r = 0
        while larger and r < g.request.shape[1]:
            larger = g.request[slot, r] >= g.refused[k, r + 1]
            r += 1
        if larger:
            return False
    return True
