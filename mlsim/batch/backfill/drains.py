"""Announced drains: stretches of time for which nodes are promised to maintenance, begin and end known.

The known ones that are not over are kept in order of their begin. A job may have a node if it is expected to
end by the begin of the node's next one, or starts at its end or later. Where none is known every function
here costs a comparison.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel, kernel
from mlsim.batch.allocators.placing import place
from mlsim.batch.columns.arrays import EXCLUSIVE, RUNNING, Arrays
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE
from mlsim.batch.columns.table import ESTIMATE, FIRST_ROW, ROWS
from mlsim.batch.room.fit import room_for
from mlsim.batch.room.grid import DRAINS, RETURNED, Grid
from mlsim.batch.room.matrix import units_in_row
from mlsim.batch.room.reach import reach

__all__ = [
    "drained_from",
    "end_of",
    "expect_back",
    "next_end",
    "open_future",
    "place_now",
    "room_now",
    "shut",
]

Ints = NDArray[np.int64]


@inner_kernel
def end_of(drain: int, now: float, g: Grid) -> float:
    """Give when nodes come back from a drain: after now, if they have not yet."""
    return float(max(g.drain_times[1, drain], np.nextafter(now, np.inf)))


@inner_kernel
def next_end(time: float, now: float, g: Grid) -> float:
    """Give the first time after ``time`` at which a drain ends; infinity if there is none."""
    found = np.inf
    for drain in range(g.settings[DRAINS]):
        end = end_of(drain, now, g)
        if time < end < found:
            found = end
    return found


@inner_kernel
def _open_now(slot: int, free: Ints, now: float, s: Arrays, g: Grid) -> Ints:
    """Give what is free of nodes on which a job, started now, would run into no announced drain."""
    n = reach(slot, now, s, g)
    if n == 0:
        return free
    g.masked[:] = free
    for k in range(g.drain_first[n]):
        g.masked[g.drain_nodes[k]] = 0
    return g.masked


@inner_kernel
def place_now(slot: int, free: Ints, now: float, s: Arrays, g: Grid) -> bool:
    """Let the scenario's allocator answer for a job that would start now."""
    return place(slot, _open_now(slot, free, now, s, g), s, g)


@kernel
def room_now(slot: int, need: int, now: float, s: Arrays, g: Grid) -> int:
    """Give how many units of a job could start now, at most ``need``."""
    return int(room_for(slot, need, _open_now(slot, g.free, now, s, g), s, g))


@kernel
def drained_from(node: int, end: float, g: Grid) -> float:
    """Give when the first announced drain of a node begins, if that is before ``end``; else infinity."""
    for drain in range(g.settings[DRAINS]):
        if g.drain_times[0, drain] >= end:
            break
        for k in range(g.drain_first[drain], g.drain_first[drain + 1]):
            if g.drain_nodes[k] == node:
                return float(g.drain_times[0, drain])
    return np.inf


@inner_kernel
def expect_back(target: Ints, s: Arrays, g: Grid) -> None:
    """Fill in what is free, as if nodes that are known to come back from a drain had done so."""
    target[:] = g.free
    if g.settings[DRAINS] == 0:
        return
    away = False
    for node in range(len(g.back)):
        if g.capacity[node, 0] == 0 and g.back[node] < np.inf:
            target[node] = g.full[node]
            away = True
    if not away:
        return
    for k in range(s.counts[RUNNING]):
        _take_what_is_held(s.running[k], target, s, g)


@inner_kernel
def _take_what_is_held(slot: int, target: Ints, s: Arrays, g: Grid) -> None:
    """Take from nodes that will come back what a running job holds of them."""
    first = s.ints[FIRST_ROW, slot]
    for row in range(first, first + s.ints[ROWS, slot]):
        if np.isnan(s.times[FINISH, row]):
            units = units_in_row(slot, row, s, g)
            for node in range(s.rows[NODE, row], s.rows[NODE, row] + s.rows[COUNT, row]):
                _take_units(slot, node, units, target, s, g)
    if g.settings[RETURNED] > 0:
        for node in range(len(g.owner)):
            if g.owner[node] == slot + 1:
                _take_units(slot, node, 1, target, s, g)


@inner_kernel
def _take_units(slot: int, node: int, units: int, target: Ints, s: Arrays, g: Grid) -> None:
    if g.capacity[node, 0] > 0 or g.back[node] == np.inf:
        return
    for r in range(target.shape[1]):
        target[node, r] -= g.full[node, r] if s.rules[EXCLUSIVE] else units * g.request[slot, r]


@inner_kernel
def shut(slot: int, time: float, now: float, s: Arrays, g: Grid) -> bool:
    """Note on which nodes a job that starts at ``time`` would meet a drain; give whether they are others now.

    They are marked in ``g.shut``; the drains in ``g.drain_shuts``.
    """
    changed, end = False, time + s.floats[ESTIMATE, slot]
    for drain in range(g.settings[DRAINS]):
        meets = g.drain_times[0, drain] < end and time < end_of(drain, now, g)
        if meets != (g.drain_shuts[drain] == 1):
            g.drain_shuts[drain] = 1 if meets else 0
            changed = True
    if changed:
        g.shut[:] = 0
        for drain in range(g.settings[DRAINS]):
            if g.drain_shuts[drain] == 1:
                for k in range(g.drain_first[drain], g.drain_first[drain + 1]):
                    g.shut[g.drain_nodes[k]] = 1
    return changed


@inner_kernel
def open_future(g: Grid) -> Ints:
    """Give what is expected to be free at the head's reservation, of nodes that are open to it."""
    if g.settings[DRAINS] == 0:
        return g.future
    g.masked[:] = g.future
    for node in range(len(g.shut)):
        if g.shut[node] == 1:
            g.masked[node] = 0
    return g.masked
