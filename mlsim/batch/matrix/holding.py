"""Who holds what: a job starts on placed units, ends, gives a node up, gets it back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel
from mlsim.batch.allocators.nodes import CAPPED, POWER_LEFT, RETURNED, Nodes
from mlsim.batch.columns.columns import EXCLUSIVE, FREE, MERGE, USED_ROWS, Columns
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE, NODE_CORES, write_row
from mlsim.batch.columns.table import (
    CORES,
    FIRST_ROW,
    NUMBER,
    ROWS,
)
from mlsim.batch.matrix import shared

__all__ = [
    "free_all",
    "free_row",
    "has_power",
    "hold",
    "hold_part",
    "power_placed",
    "powered_by",
    "take_node",
    "units_in_row",
]

Ints = NDArray[np.int64]


@inner_kernel
def units_in_row(slot: int, row: int, columns: Columns, nodes: Nodes) -> int:
    """Return the units that a job holds on each node of an occupancy row."""
    return 1 if columns.rules[EXCLUSIVE] else columns.rows[NODE_CORES, row] // nodes.request[slot, 0]


@inner_kernel
def powered_by(slot: int, units: int, columns: Columns, nodes: Nodes) -> int:
    """Return how many nodes, or cores where these are allocated singly, units of a job on one node are."""
    return 1 if columns.rules[EXCLUSIVE] else units * nodes.request[slot, 0]


@inner_kernel
def power_placed(slot: int, columns: Columns, nodes: Nodes) -> int:
    """Return the power that a job would add on the units placed for it, in microwatts."""
    total = 0
    for node in range(len(nodes.placed)):
        if nodes.placed[node] > 0:
            total += powered_by(slot, nodes.placed[node], columns, nodes) * nodes.power[node]
    return total


@inner_kernel
def has_power(slot: int, columns: Columns, nodes: Nodes) -> bool:
    """Whether the power cap allows a job to start on the units placed for it."""
    return not nodes.settings[CAPPED] or power_placed(slot, columns, nodes) <= nodes.settings[POWER_LEFT]


@inner_kernel
def _change_free(slot: int, node: int, units: int, sign: int, columns: Columns, nodes: Nodes) -> None:
    """Free units on a node (sign 1), or allocate them (-1); nothing is freed on one that is out of use."""
    change = sign * powered_by(slot, units, columns, nodes)
    nodes.used[node] -= change
    nodes.settings[POWER_LEFT] += change * nodes.power[node]
    if nodes.capacity[node, 0] == 0:
        return
    for r in range(len(nodes.total)):
        amount = nodes.capacity[node, r] if columns.rules[EXCLUSIVE] else units * nodes.request[slot, r]
        nodes.free[node, r] += sign * amount
        nodes.total[r] += sign * amount
    columns.counts[FREE] += sign * (1 if columns.rules[EXCLUSIVE] else units * nodes.request[slot, 0])


@inner_kernel
def hold(slot: int, now: float, columns: Columns, nodes: Nodes) -> None:
    """Allocate to a job the units that were placed for it, and what it asks of the machine as a whole."""
    shared.change(slot, shared.NOW, -1, nodes.shares, nodes.shared)
    first = columns.counts[USED_ROWS]
    row, taken = first, 0
    for node in range(len(nodes.placed)):
        units = nodes.placed[node]
        if units == 0:
            continue
        nodes.placed[node] = 0
        cores = nodes.capacity[node, 0] if columns.rules[EXCLUSIVE] else units * nodes.request[slot, 0]
        _change_free(slot, node, units, -1, columns, nodes)
        taken += cores
        last = row - 1
        if (
            columns.rules[MERGE]
            and last >= first
            and columns.rows[NODE, last] + columns.rows[COUNT, last] == node
            and columns.rows[NODE_CORES, last] == cores
        ):
            columns.rows[COUNT, last] += 1
        else:
            write_row(row, columns.ints[NUMBER, slot], node, cores, now, columns.rows, columns.times)
            row += 1
    columns.counts[USED_ROWS] = row
    columns.ints[CORES, slot] = taken
    columns.ints[FIRST_ROW, slot], columns.ints[ROWS, slot] = first, row - first


@inner_kernel
def hold_part(slot: int, part: Ints, now: float, columns: Columns, nodes: Nodes) -> None:
    """Allocate to a job the units that were placed for it on a part of what is free, which is updated too."""
    for node in range(len(nodes.placed)):
        if nodes.placed[node] > 0 and columns.rules[EXCLUSIVE]:
            part[node] = 0
        elif nodes.placed[node] > 0:
            part[node] -= nodes.placed[node] * nodes.request[slot]
    hold(slot, now, columns, nodes)


@inner_kernel
def free_row(slot: int, row: int, now: float, columns: Columns, nodes: Nodes) -> int:
    """End one occupancy row and free its nodes; return the units of nodes in use."""
    columns.times[FINISH, row] = now
    back = 0
    units = units_in_row(slot, row, columns, nodes)
    first, count = columns.rows[NODE, row], columns.rows[COUNT, row]
    for node in range(first, first + count):
        _change_free(slot, node, units, 1, columns, nodes)
        back += units if nodes.capacity[node, 0] > 0 else 0
        if nodes.owner[node] > 0:
            nodes.owner[node] = 0
            nodes.settings[RETURNED] -= 1
    return int(back)


@inner_kernel
def free_all(slot: int, now: float, columns: Columns, nodes: Nodes) -> None:
    """Free all that a job still holds."""
    shared.change(slot, shared.NOW, 1, nodes.shares, nodes.shared)
    first = columns.ints[FIRST_ROW, slot]
    for row in range(first, first + columns.ints[ROWS, slot]):
        if np.isnan(columns.times[FINISH, row]):
            free_row(slot, row, now, columns, nodes)


@inner_kernel
def take_node(slot: int, node: int, columns: Columns, nodes: Nodes) -> int:
    """Take a free node, whole; return its cores."""
    _change_free(slot, node, 1, -1, columns, nodes)
    nodes.owner[node] = slot + 1
    nodes.settings[RETURNED] += 1
    return int(nodes.capacity[node, 0])
