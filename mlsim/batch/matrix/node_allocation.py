"""Nodes x resources: allocation to jobs, and release."""

from typing import Final

import numpy as np

from mlsim._jit import inner_kernel, leaf_kernel
from mlsim._runtime.arrays import Ints
from mlsim.batch.allocators import node_arrays as at
from mlsim.batch.allocators.node_arrays import Nodes, first_placed, next_placed
from mlsim.batch.allocators.node_fit import change_devices, join, split
from mlsim.batch.columns import job_columns as col
from mlsim.batch.columns.job_columns import Columns, IntColumns
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE, NODE_CORES, devices_of, next_run, write_rows

NOW, LATER, WINDOW = range(3)
N_SHARED_ROWS: Final = 3


@leaf_kernel
def suffices(slot: int, row: int, shares: IntColumns, free: IntColumns) -> bool:
    """Whether the free amounts suffice for a job."""
    for k in range(shares.shape[1]):  # noqa: SIM110  # a kernel knows no generators
        if shares[slot, k] > free[row, k]:
            return False
    return True


@leaf_kernel
def change(slot: int, row: int, sign: int, shares: IntColumns, free: IntColumns) -> None:
    """Free the amounts of a job (sign 1), or take them (-1)."""
    for k in range(shares.shape[1]):
        free[row, k] += sign * shares[slot, k]


@leaf_kernel
def copy(row: int, free: IntColumns, source: int, of: IntColumns) -> None:
    """Copy the free amounts of a row, possibly of another array."""
    for k in range(free.shape[1]):
        free[row, k] = of[source, k]


@leaf_kernel
def narrow(row: int, free: IntColumns, segment: int, profile: IntColumns) -> None:
    """Limit the free amounts of a row to those of a segment."""
    for k in range(free.shape[1]):
        free[row, k] = min(free[row, k], profile[segment, k])


@leaf_kernel
def is_sound(segment: int, profile: IntColumns) -> bool:
    """Whether the amounts of a segment are non-negative."""
    for k in range(profile.shape[1]):  # noqa: SIM110  # a kernel knows no generators
        if profile[segment, k] < 0:
            return False
    return True


@inner_kernel
def units_in_row(slot: int, row: int, columns: Columns, nodes: Nodes) -> int:
    """Return the units that a job holds on each node of an occupancy row."""
    return 1 if columns.rules[col.EXCLUSIVE] else columns.rows[NODE_CORES, row] // nodes.request[slot, 0]


@inner_kernel
def powered_by(slot: int, units: int, columns: Columns, nodes: Nodes) -> int:
    """Return how many nodes, or cores where these are allocated singly, units of a job on one node are."""
    return 1 if columns.rules[col.EXCLUSIVE] else units * nodes.request[slot, 0]


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
def _change_free(
    slot: int, first: int, end: int, units: int, devices: int, sign: int, columns: Columns, nodes: Nodes
) -> int:
    """Free units on each of some nodes in use (sign 1), or allocate them (-1); return how many are in use."""
    split(first, nodes.free, nodes.starts)
    split(end, nodes.free, nodes.starts)
    in_use, run = 0, first
    while run < end:
        after = next_run(run, len(nodes.placed), nodes.starts)
        if nodes.settings[at.CAPPED]:
            _change_power(slot, run, after, units, sign, columns, nodes)
        if nodes.capacity[run, 0] > 0:
            _change_run(slot, run, after - run, units, sign, columns, nodes)
            change_devices(slot, run, devices, sign, nodes.free, nodes)
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
    nodes.settings[at.POWER_LEFT] += change * nodes.power[first] * (end - first)


@inner_kernel
def _change_run(
    slot: int, run: int, count: int, units: int, sign: int, columns: Columns, nodes: Nodes
) -> None:
    for r in range(len(nodes.total)):
        amount = nodes.capacity[run, r] if columns.rules[col.EXCLUSIVE] else units * nodes.request[slot, r]
        nodes.free[run, r] += sign * amount
        nodes.total[r] += sign * amount * count
    counted = 1 if columns.rules[col.EXCLUSIVE] else units * nodes.request[slot, 0]
    columns.counts[col.FREE] += sign * counted * count


@inner_kernel
def hold(slot: int, now: float, columns: Columns, nodes: Nodes) -> None:
    """Allocate to a job the units that were placed for it, and what it asks of the machine as a whole."""
    change(slot, NOW, -1, nodes.shares, nodes.shared)
    first = columns.counts[col.USED_ROWS]
    row, taken, node = first, 0, first_placed(nodes)
    while node < len(nodes.placed):
        units, end = nodes.placed[node], nodes.placed_end[node]
        cores = nodes.capacity[node, 0] if columns.rules[col.EXCLUSIVE] else units * nodes.request[slot, 0]
        devices = nodes.placed_devices[node]
        _change_free(slot, node, end, units, devices, -1, columns, nodes)
        taken += cores * (end - node)
        merge, number = columns.rules[col.MERGE] != 0, columns.ints[col.NUMBER, slot]
        row = write_rows(
            row, first, merge, number, node, end - node, cores, devices, now, columns.rows, columns.times
        )
        at.take_placed(node, nodes)
        node = next_placed(node, nodes)
    columns.counts[col.USED_ROWS] = row
    columns.ints[col.CORES, slot] = taken
    columns.ints[col.FIRST_ROW, slot], columns.ints[col.ROWS, slot] = first, row - first


@inner_kernel
def hold_part(slot: int, part: Ints, now: float, columns: Columns, nodes: Nodes) -> None:
    """Allocate to a job the units that were placed for it on a part of what is free, which is updated too."""
    first = first_placed(nodes)
    while first < len(nodes.placed):
        for node in range(first, nodes.placed_end[first]):
            if columns.rules[col.EXCLUSIVE]:
                part[node] = 0
            else:
                for r in range(nodes.request.shape[1]):
                    part[node, r] -= nodes.placed[first] * nodes.request[slot, r]
                change_devices(slot, node, nodes.placed_devices[first], -1, part, nodes)
        first = next_placed(first, nodes)
    hold(slot, now, columns, nodes)


@inner_kernel
def free_row(slot: int, row: int, now: float, columns: Columns, nodes: Nodes) -> int:
    """End one occupancy row and free its nodes; return the units of nodes in use."""
    columns.times[FINISH, row] = now
    units = units_in_row(slot, row, columns, nodes)
    first = columns.rows[NODE, row]
    end = first + columns.rows[COUNT, row]
    in_use = _change_free(slot, first, end, units, devices_of(row, columns.rows), 1, columns, nodes)
    if nodes.settings[at.RETURNED] > 0:
        for node in range(first, end):
            if nodes.owner[node] > 0:
                nodes.owner[node] = 0
                nodes.settings[at.RETURNED] -= 1
    return int(units * in_use)


@inner_kernel
def free_all(slot: int, now: float, columns: Columns, nodes: Nodes) -> None:
    """Free all that a job still holds."""
    change(slot, NOW, 1, nodes.shares, nodes.shared)
    first = columns.ints[col.FIRST_ROW, slot]
    for row in range(first, first + columns.ints[col.ROWS, slot]):
        if np.isnan(columns.times[FINISH, row]):
            free_row(slot, row, now, columns, nodes)


@inner_kernel
def take_node(slot: int, node: int, columns: Columns, nodes: Nodes) -> int:
    """Allocate a whole free node; return its cores."""
    _change_free(slot, node, node + 1, 1, 0, -1, columns, nodes)
    nodes.owner[node] = slot + 1
    nodes.settings[at.RETURNED] += 1
    return int(nodes.capacity[node, 0])
