"""Announced drains: stretches of time for which nodes are promised to maintenance, begin and end known.

The known ones that are not over are kept in order of their begin. A job may have a node if it is expected to
end by the begin of the node's next one, or starts at its end or later. Where none is known every function
here costs a comparison.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel
from mlsim.batch.allocators.alike import copy_alike
from mlsim.batch.allocators.fit import room_for
from mlsim.batch.allocators.nodes import DRAINS, RETURNED, Nodes
from mlsim.batch.allocators.placing import place
from mlsim.batch.allocators.reach import reach
from mlsim.batch.columns.columns import EXCLUSIVE, Columns
from mlsim.batch.columns.copying import copy_ints
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE
from mlsim.batch.columns.running import end_of_running, next_running, running_at
from mlsim.batch.columns.table import ESTIMATE, FIRST_ROW, ROWS
from mlsim.batch.columns.times import stay_end
from mlsim.batch.matrix.holding import units_in_row

__all__ = [
    "drained_from",
    "end_of",
    "expect_back",
    "next_change",
    "open_future",
    "place_now",
    "room_now",
    "shut",
]

Ints = NDArray[np.int64]


@inner_kernel
def end_of(drain: int, now: float, nodes: Nodes) -> float:
    """Return when nodes come back from a drain: after now, if they have not yet."""
    return float(max(nodes.drain_times[1, drain], np.nextafter(now, np.inf)))


@inner_kernel
def next_change(time: float, now: float, nodes: Nodes) -> float:
    """Return the first time after ``time`` at which a drain ends; infinity if there is none."""
    found = np.inf
    for drain in range(nodes.settings[DRAINS]):
        end = end_of(drain, now, nodes)
        if time < end < found:
            found = end
    return found


@inner_kernel
def _open_now(slot: int, free: Ints, starts: Ints, now: float, columns: Columns, nodes: Nodes) -> Ints:
    """Return what is free of nodes on which a job, started now, would run into no announced drain.

    Nodes of a run are of one kind, and so promised to the same drains.
    """
    n = reach(slot, now, columns, nodes)
    if n == 0:
        return free
    copy_alike(nodes.masked, free, starts)
    for k in range(nodes.drain_first[n]):
        nodes.masked[nodes.drain_nodes[k]] = 0
    return nodes.masked


@inner_kernel
def place_now(slot: int, free: Ints, starts: Ints, now: float, columns: Columns, nodes: Nodes) -> bool:
    """Ask the scenario's allocator for the nodes of a job that would start now."""
    return place(slot, _open_now(slot, free, starts, now, columns, nodes), starts, columns, nodes)


@inner_kernel
def room_now(slot: int, need: int, now: float, columns: Columns, nodes: Nodes) -> int:
    """Return how many units of a job could start now, at most ``need``."""
    free = _open_now(slot, nodes.free, nodes.starts, now, columns, nodes)
    return int(room_for(slot, need, free, nodes.starts, columns, nodes))


@inner_kernel
def drained_from(node: int, end: float, nodes: Nodes) -> float:
    """Return when the first announced drain of a node begins, if that is before ``end``; else infinity."""
    for drain in range(nodes.settings[DRAINS]):
        if nodes.drain_times[0, drain] >= end:
            break
        for k in range(nodes.drain_first[drain], nodes.drain_first[drain + 1]):
            if nodes.drain_nodes[k] == node:
                return float(nodes.drain_times[0, drain])
    return np.inf


@inner_kernel
def expect_back(target: Ints, columns: Columns, nodes: Nodes) -> None:
    """Have nodes that are known to come back from a drain have done so; what is free now is filled in.

    A node that is out of use is alike to no other.
    """
    if nodes.settings[DRAINS] == 0:
        return
    away = False
    for node in range(len(nodes.back)):
        if nodes.capacity[node, 0] == 0 and nodes.back[node] < np.inf:
            copy_ints(target[node], nodes.full[node], target.shape[1])
            away = True
    if not away:
        return
    place = 0
    while place < end_of_running(columns):
        _take_what_is_held(running_at(place, columns), target, columns, nodes)
        place = next_running(place, columns)


@inner_kernel
def _take_what_is_held(slot: int, target: Ints, columns: Columns, nodes: Nodes) -> None:
    """Take from nodes that will come back what a running job holds of them."""
    first = columns.ints[FIRST_ROW, slot]
    for row in range(first, first + columns.ints[ROWS, slot]):
        if np.isnan(columns.times[FINISH, row]):
            units = units_in_row(slot, row, columns, nodes)
            for node in range(columns.rows[NODE, row], columns.rows[NODE, row] + columns.rows[COUNT, row]):
                _take_units(slot, node, units, target, columns, nodes)
    if nodes.settings[RETURNED] > 0:
        for node in range(len(nodes.owner)):
            if nodes.owner[node] == slot + 1:
                _take_units(slot, node, 1, target, columns, nodes)


@inner_kernel
def _take_units(slot: int, node: int, units: int, target: Ints, columns: Columns, nodes: Nodes) -> None:
    if nodes.capacity[node, 0] > 0 or nodes.back[node] == np.inf:
        return
    for r in range(target.shape[1]):
        target[node, r] -= nodes.full[node, r] if columns.rules[EXCLUSIVE] else units * nodes.request[slot, r]


@inner_kernel
def shut(slot: int, time: float, now: float, columns: Columns, nodes: Nodes) -> bool:
    """Mark the nodes on which a job that starts at ``time`` would meet a drain; return whether they changed.

    They are marked in ``nodes.shut``; the drains in ``nodes.drain_shuts``.
    """
    changed, end = False, stay_end(time, columns.floats[ESTIMATE, slot])
    for drain in range(nodes.settings[DRAINS]):
        meets = nodes.drain_times[0, drain] < end and time < end_of(drain, now, nodes)
        if meets != (nodes.drain_shuts[drain] == 1):
            nodes.drain_shuts[drain] = 1 if meets else 0
            changed = True
    if changed:
        nodes.shut[:] = 0
        for drain in range(nodes.settings[DRAINS]):
            if nodes.drain_shuts[drain] == 1:
                for k in range(nodes.drain_first[drain], nodes.drain_first[drain + 1]):
                    nodes.shut[nodes.drain_nodes[k]] = 1
    return changed


@inner_kernel
def open_future(nodes: Nodes) -> Ints:
    """Return what is expected to be free at the head's reservation, of nodes that are open to it."""
    if nodes.settings[DRAINS] == 0:
        return nodes.future
    copy_alike(nodes.masked, nodes.future, nodes.future_starts)
    for node in range(len(nodes.shut)):
        if nodes.shut[node] == 1:
            nodes.masked[node] = 0
    return nodes.masked
