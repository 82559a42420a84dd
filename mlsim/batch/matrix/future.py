"""What is expected to be free at the reservation of the queue's head, on every node (EASY)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel, leaf_kernel
from mlsim.batch.allocators.fit import units_on
from mlsim.batch.allocators.nodes import (
    CAPPED,
    DRAINS,
    EVEN,
    HAVE,
    POWER_BACK,
    POWER_LATER,
    POWER_LEFT,
    RETURNED,
    STRICT,
    Nodes,
)
from mlsim.batch.allocators.placing import clear_placed, has_window, place
from mlsim.batch.columns.columns import EXCLUSIVE, MOST_UNITS, Columns
from mlsim.batch.columns.copying import copy_ints
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE
from mlsim.batch.columns.table import FIRST_ROW, ROWS, UNITS
from mlsim.batch.matrix import shared
from mlsim.batch.matrix.drains import expect_back, open_future, shut
from mlsim.batch.matrix.holding import power_placed, powered_by, units_in_row

__all__ = [
    "begin_future",
    "fits_beside",
    "go_to",
    "head_fits",
    "let_go",
    "most_beside",
    "power_wanted",
    "take_beside",
]


@inner_kernel
def _change_future(
    slot: int, node: int, units: int, sign: int, head: int, columns: Columns, nodes: Nodes
) -> None:
    """Add (sign 1) or subtract (-1) what a node has in the future, and count what of the head fits."""
    if nodes.back[node] == np.inf:
        return  # it is out of use, nobody knows until when
    nodes.settings[POWER_LATER] += sign * powered_by(slot, units, columns, nodes) * nodes.power[node]
    most = 0 if nodes.shut[node] == 1 else columns.ints[UNITS, head]
    nodes.settings[HAVE] -= units_on(head, node, most, nodes.future, columns, nodes)
    for r in range(len(nodes.future_total)):
        amount = nodes.full[node, r] if columns.rules[EXCLUSIVE] else units * nodes.request[slot, r]
        nodes.future[node, r] += sign * amount
        nodes.future_total[r] += sign * amount
    nodes.settings[HAVE] += units_on(head, node, most, nodes.future, columns, nodes)


@inner_kernel
def let_go(slot: int, head: int, columns: Columns, nodes: Nodes) -> None:
    """Expect back what a running job holds of each node, and of the machine as a whole."""
    shared.change(slot, shared.LATER, 1, nodes.shares, nodes.shared)
    first = columns.ints[FIRST_ROW, slot]
    for row in range(first, first + columns.ints[ROWS, slot]):
        if np.isnan(columns.times[FINISH, row]):
            units, node = units_in_row(slot, row, columns, nodes), columns.rows[NODE, row]
            for held in range(node, node + columns.rows[COUNT, row]):
                _change_future(slot, held, units, 1, head, columns, nodes)
    if nodes.settings[RETURNED] > 0:
        for node in range(len(nodes.owner)):
            if nodes.owner[node] == slot + 1:
                _change_future(slot, node, 1, 1, head, columns, nodes)


@inner_kernel
def head_fits(head: int, columns: Columns, nodes: Nodes) -> bool:
    """Whether the head fits in the future."""
    if nodes.settings[HAVE] < columns.ints[UNITS, head]:
        return False
    if not shared.suffices(head, shared.LATER, nodes.shares, nodes.shared):
        return False
    if nodes.settings[STRICT] and not has_window(head, open_future(nodes), columns, nodes):
        return False
    return not nodes.settings[CAPPED] or _power_suffices(head, columns, nodes)


@inner_kernel
def _power_suffices(head: int, columns: Columns, nodes: Nodes) -> bool:
    """Whether the power cap allows the head to start in the future, where the allocator would place it."""
    if nodes.settings[EVEN]:
        needed = columns.ints[UNITS, head] * powered_by(head, 1, columns, nodes) * nodes.power[0]
        return bool(needed <= nodes.settings[POWER_LATER])
    copy_ints(nodes.aside, nodes.placed, len(nodes.placed))  # another job may be placed
    clear_placed(nodes)
    fits = (
        place(head, open_future(nodes), columns, nodes)
        and power_placed(head, columns, nodes) <= nodes.settings[POWER_LATER]
    )
    copy_ints(nodes.placed, nodes.aside, len(nodes.placed))
    return fits


@inner_kernel
def _count_head(head: int, columns: Columns, nodes: Nodes) -> None:
    """Count the units of the head that fit in the future, on nodes that are open to it."""
    nodes.settings[HAVE] = 0
    for node in range(len(nodes.placed)):
        if nodes.shut[node] == 0:
            nodes.settings[HAVE] += units_on(
                head, node, columns.ints[UNITS, head], nodes.future, columns, nodes
            )


@inner_kernel
def begin_future(head: int, now: float, columns: Columns, nodes: Nodes) -> None:
    """Begin the future with what is free now, and what drained nodes that come back will have."""
    nodes.settings[POWER_LATER], nodes.settings[POWER_BACK] = nodes.settings[POWER_LEFT], 0
    shared.copy(shared.LATER, nodes.shared, shared.NOW, nodes.shared)
    expect_back(nodes.future, columns, nodes)
    copy_ints(nodes.future_total, nodes.total, len(nodes.total))
    if nodes.settings[DRAINS] > 0:
        for r in range(len(nodes.future_total)):
            nodes.future_total[r] = 0
            for node in range(nodes.future.shape[0]):
                nodes.future_total[r] += nodes.future[node, r]
        shut(head, now, now, columns, nodes)
    _count_head(head, columns, nodes)


@inner_kernel
def go_to(time: float, head: int, now: float, columns: Columns, nodes: Nodes) -> None:
    """Look at a time: other nodes may be open to the head, and those that have come back take power."""
    if nodes.settings[DRAINS] == 0:
        return
    if shut(head, time, now, columns, nodes):
        _count_head(head, columns, nodes)
    if not nodes.settings[CAPPED]:
        return
    nodes.settings[POWER_LATER] += nodes.settings[POWER_BACK]
    nodes.settings[POWER_BACK] = 0
    for node in range(len(nodes.back)):
        if nodes.capacity[node, 0] == 0 and nodes.back[node] <= time and nodes.used[node] == 0:
            nodes.settings[POWER_BACK] += nodes.wakes[node]
    nodes.settings[POWER_LATER] -= nodes.settings[POWER_BACK]


@leaf_kernel
def most_beside(_nodes: Nodes) -> int:
    """Return how many units a job may ask for, whenever it ends; only its nodes can tell."""
    return MOST_UNITS


@inner_kernel
def _change_by_placed(slot: int, sign: int, head: int, columns: Columns, nodes: Nodes) -> None:
    """Add what is found for a job to the future (sign 1), or take it (-1)."""
    shared.change(slot, shared.LATER, sign, nodes.shares, nodes.shared)
    for node in range(len(nodes.placed)):
        if nodes.placed[node] > 0:
            _change_future(slot, node, nodes.placed[node], sign, head, columns, nodes)


@inner_kernel
def take_beside(slot: int, head: int, columns: Columns, nodes: Nodes) -> bool:
    """Take what is placed for a job out of the future, if the head fits all the same."""
    for r in range(len(nodes.future_total)):
        left = nodes.future_total[r] - columns.ints[UNITS, slot] * nodes.request[slot, r]
        if left < columns.ints[UNITS, head] * nodes.request[head, r]:
            return False
    _change_by_placed(slot, -1, head, columns, nodes)
    if head_fits(head, columns, nodes):
        return True
    _change_by_placed(slot, 1, head, columns, nodes)
    return False


@inner_kernel
def fits_beside(slot: int, head: int, columns: Columns, nodes: Nodes) -> bool:
    """Whether the head fits all the same where a job gets what is placed for it."""
    if not take_beside(slot, head, columns, nodes):
        return False
    _change_by_placed(slot, 1, head, columns, nodes)
    return True


@inner_kernel
def power_wanted(slot: int, free: NDArray[np.int64], columns: Columns, nodes: Nodes) -> int:
    """Return the power (microwatts) that a job would add on the nodes it would get of these; -1: on none."""
    if not place(slot, free, columns, nodes):
        return -1
    added = power_placed(slot, columns, nodes)
    clear_placed(nodes)
    return int(added)
