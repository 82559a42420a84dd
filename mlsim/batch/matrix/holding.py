"""Who holds what: a job starts on placed units, ends, gives a node up, gets it back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel
from mlsim.batch.allocators.alike import join, split
from mlsim.batch.allocators.nodes import CAPPED, POWER_LEFT, RETURNED, Nodes
from mlsim.batch.allocators.placed import first_placed, next_placed, take_placed
from mlsim.batch.columns.columns import EXCLUSIVE, FREE, MERGE, USED_ROWS, Columns
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE, NODE_CORES, write_rows
from mlsim.batch.columns.runs import next_run
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
    total, node = 0, first_placed(nodes)
    while node < len(nodes.placed):
        added = powered_by(slot, nodes.placed[node], columns, nodes) * nodes.power[node]
        total += added * (nodes.placed_end[node] - node)
        node = next_placed(node, nodes)
    return total


@inner_kernel
def has_power(slot: int, columns: Columns, nodes: Nodes) -> bool:
    """Whether the power cap allows a job to start on the units placed for it."""
    return not nodes.settings[CAPPED] or power_placed(slot, columns, nodes) <= nodes.settings[POWER_LEFT]


@inner_kernel
def _change_free(
    slot: int, first: int, end: int, units: int, sign: int, columns: Columns, nodes: Nodes
) -> int:
    """Free units on each of some nodes (sign 1), or allocate them (-1); return how many are in use.

    Nothing is freed on one that is out of use.
    """
    split(first, nodes.free, nodes.starts)
    split(end, nodes.free, nodes.starts)
    in_use, run = 0, first
    while run < end:
        after = next_run(run, len(nodes.placed), nodes.starts)
        if nodes.settings[CAPPED]:
            _change_power(slot, run, after, units, sign, columns, nodes)
        if nodes.capacity[run, 0] > 0:
            _change_run(slot, run, after - run, units, sign, columns, nodes)
            in_use += after - run
        run = after
    join(end, nodes.free, nodes.starts, nodes.kind)
    join(first, nodes.free, nodes.starts, nodes.kind)
    return int(in_use)


@inner_kernel
def _change_power(
    slot: int, first: int, end: int, units: int, sign: int, columns: Columns, nodes: Nodes
) -> None:
    change = sign * powered_by(slot, units, columns, nodes)
    for node in range(first, end):
        nodes.used[node] -= change
    nodes.settings[POWER_LEFT] += change * nodes.power[first] * (end - first)


@inner_kernel
def _change_run(
    slot: int, run: int, count: int, units: int, sign: int, columns: Columns, nodes: Nodes
) -> None:
    for r in range(len(nodes.total)):
        amount = nodes.capacity[run, r] if columns.rules[EXCLUSIVE] else units * nodes.request[slot, r]
        nodes.free[run, r] += sign * amount
        nodes.total[r] += sign * amount * count
    counted = 1 if columns.rules[EXCLUSIVE] else units * nodes.request[slot, 0]
    columns.counts[FREE] += sign * counted * count


@inner_kernel
def hold(slot: int, now: float, columns: Columns, nodes: Nodes) -> None:
    """Allocate to a job the units that were placed for it, and what it asks of the machine as a whole."""
    shared.change(slot, shared.NOW, -1, nodes.shares, nodes.shared)
    first = columns.counts[USED_ROWS]
    row, taken, node = first, 0, first_placed(nodes)
    while node < len(nodes.placed):
        units, end = nodes.placed[node], nodes.placed_end[node]
        cores = nodes.capacity[node, 0] if columns.rules[EXCLUSIVE] else units * nodes.request[slot, 0]
        _change_free(slot, node, end, units, -1, columns, nodes)
        taken += cores * (end - node)
        merge, number = columns.rules[MERGE] != 0, columns.ints[NUMBER, slot]
        row = write_rows(row, first, merge, number, node, end - node, cores, now, columns.rows, columns.times)
        take_placed(node, nodes)
        node = next_placed(node, nodes)
    columns.counts[USED_ROWS] = row
    columns.ints[CORES, slot] = taken
    columns.ints[FIRST_ROW, slot], columns.ints[ROWS, slot] = first, row - first


@inner_kernel
def hold_part(slot: int, part: Ints, now: float, columns: Columns, nodes: Nodes) -> None:
    """Allocate to a job the units that were placed for it on a part of what is free, which is updated too."""
    first = first_placed(nodes)
    while first < len(nodes.placed):
        for node in range(first, nodes.placed_end[first]):
            if columns.rules[EXCLUSIVE]:
                part[node] = 0
            else:
                part[node] -= nodes.placed[first] * nodes.request[slot]
        first = next_placed(first, nodes)
    hold(slot, now, columns, nodes)


@inner_kernel
def free_row(slot: int, row: int, now: float, columns: Columns, nodes: Nodes) -> int:
    """End one occupancy row and free its nodes; return the units of nodes in use."""
    columns.times[FINISH, row] = now
    units = units_in_row(slot, row, columns, nodes)
    first = columns.rows[NODE, row]
    end = first + columns.rows[COUNT, row]
    in_use = _change_free(slot, first, end, units, 1, columns, nodes)
    if nodes.settings[RETURNED] > 0:
        for node in range(first, end):
            if nodes.owner[node] > 0:
                nodes.owner[node] = 0
                nodes.settings[RETURNED] -= 1
    return int(units * in_use)


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
    _change_free(slot, node, node + 1, 1, -1, columns, nodes)
    nodes.owner[node] = slot + 1
    nodes.settings[RETURNED] += 1
    return int(nodes.capacity[node, 0])
