"""What is expected to be free at the reservation of the queue's head, on every node (EASY)."""

from __future__ import annotations

import numpy as np

from mlsim._jit import inner_kernel
from mlsim.batch.allocators.alike import copy_alike, join, split
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
from mlsim.batch.allocators.placed import (
    bring_placed,
    clear_placed,
    first_placed,
    keep_placed,
    next_placed,
)
from mlsim.batch.allocators.placing import has_window, place
from mlsim.batch.columns.columns import EXCLUSIVE, Columns
from mlsim.batch.columns.copying import copy_ints
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE
from mlsim.batch.columns.runs import copy_runs, next_run
from mlsim.batch.columns.table import FIRST_ROW, ROWS, UNITS
from mlsim.batch.matrix import shared
from mlsim.batch.matrix.drains import expect_back, open_future, shut
from mlsim.batch.matrix.holding import power_placed, powered_by, units_in_row

__all__ = [
    "begin_future",
    "could_pass",
    "fits_beside",
    "go_to",
    "head_fits",
    "let_go",
    "power_wanted",
    "take_beside",
]


@inner_kernel
def _change_future(
    slot: int, first: int, end: int, units: int, sign: int, head: int, columns: Columns, nodes: Nodes
) -> None:
    """Add (sign 1) or subtract (-1) what some nodes have in the future, and count what of the head fits."""
    split(first, nodes.future, nodes.future_starts)
    split(end, nodes.future, nodes.future_starts)
    run = first
    while run < end:
        after = next_run(run, len(nodes.placed), nodes.future_starts)
        if nodes.back[run] < np.inf:  # else it is out of use, nobody knows until when
            _change_run(slot, run, after - run, units, sign, head, columns, nodes)
        run = after
    join(end, nodes.future, nodes.future_starts, nodes.kind)
    join(first, nodes.future, nodes.future_starts, nodes.kind)


@inner_kernel
def _change_run(
    slot: int, run: int, count: int, units: int, sign: int, head: int, columns: Columns, nodes: Nodes
) -> None:
    power = powered_by(slot, units, columns, nodes) * nodes.power[run]
    nodes.settings[POWER_LATER] += sign * power * count
    most = 0 if nodes.shut[run] == 1 else columns.ints[UNITS, head]
    nodes.settings[HAVE] -= units_on(head, run, most, nodes.future, columns, nodes) * count
    for r in range(len(nodes.future_total)):
        amount = nodes.full[run, r] if columns.rules[EXCLUSIVE] else units * nodes.request[slot, r]
        nodes.future[run, r] += sign * amount
        nodes.future_total[r] += sign * amount * count
    nodes.settings[HAVE] += units_on(head, run, most, nodes.future, columns, nodes) * count


@inner_kernel
def let_go(slot: int, head: int, columns: Columns, nodes: Nodes) -> None:
    """Expect back what a running job holds of each node, and of the machine as a whole."""
    shared.change(slot, shared.LATER, 1, nodes.shares, nodes.shared)
    first = columns.ints[FIRST_ROW, slot]
    for row in range(first, first + columns.ints[ROWS, slot]):
        if np.isnan(columns.times[FINISH, row]):
            units, node = units_in_row(slot, row, columns, nodes), columns.rows[NODE, row]
            end = node + columns.rows[COUNT, row]
            _change_future(slot, node, end, units, 1, head, columns, nodes)
    if nodes.settings[RETURNED] > 0:
        for node in range(len(nodes.owner)):
            if nodes.owner[node] == slot + 1:
                _change_future(slot, node, node + 1, 1, 1, head, columns, nodes)


@inner_kernel
def head_fits(head: int, columns: Columns, nodes: Nodes) -> bool:
    """Whether the head fits in the future."""
    if nodes.settings[HAVE] < columns.ints[UNITS, head]:
        return False
    if not shared.suffices(head, shared.LATER, nodes.shares, nodes.shared):
        return False
    if nodes.settings[STRICT] and not has_window(
        head, open_future(nodes), nodes.future_starts, columns, nodes
    ):
        return False
    return not nodes.settings[CAPPED] or _power_suffices(head, columns, nodes)


@inner_kernel
def _power_suffices(head: int, columns: Columns, nodes: Nodes) -> bool:
    """Whether the power cap allows the head to start in the future, where the allocator would place it."""
    if nodes.settings[EVEN]:
        needed = columns.ints[UNITS, head] * powered_by(head, 1, columns, nodes) * nodes.power[0]
        return bool(needed <= nodes.settings[POWER_LATER])
    keep_placed(nodes.aside, nodes)  # another job may be placed
    clear_placed(nodes)
    fits = (
        place(head, open_future(nodes), nodes.future_starts, columns, nodes)
        and power_placed(head, columns, nodes) <= nodes.settings[POWER_LATER]
    )
    bring_placed(nodes.aside, nodes)
    return fits


@inner_kernel
def _count_head(head: int, columns: Columns, nodes: Nodes) -> None:
    """Count the units of the head that fit in the future, on nodes that are open to it."""
    have, run, most = 0, 0, columns.ints[UNITS, head]
    while run < len(nodes.placed):
        after = next_run(run, len(nodes.placed), nodes.future_starts)
        if nodes.shut[run] == 0:
            have += units_on(head, run, most, nodes.future, columns, nodes) * (after - run)
        run = after
    nodes.settings[HAVE] = have


@inner_kernel
def begin_future(head: int, now: float, columns: Columns, nodes: Nodes) -> None:
    """Begin the future with what is free now, and what drained nodes that come back will have."""
    nodes.settings[POWER_LATER], nodes.settings[POWER_BACK] = nodes.settings[POWER_LEFT], 0
    shared.copy(shared.LATER, nodes.shared, shared.NOW, nodes.shared)
    copy_runs(nodes.future_starts, nodes.starts)
    copy_alike(nodes.future, nodes.free, nodes.starts)
    expect_back(nodes.future, columns, nodes)
    copy_ints(nodes.future_total, nodes.total, len(nodes.total))
    if nodes.settings[DRAINS] > 0:
        _sum_future(nodes)
        shut(head, now, now, columns, nodes)
    _count_head(head, columns, nodes)


@inner_kernel
def _sum_future(nodes: Nodes) -> None:
    """Sum what is expected to be free on all nodes."""
    nodes.future_total[:] = 0
    run = 0
    while run < len(nodes.placed):
        after = next_run(run, len(nodes.placed), nodes.future_starts)
        for r in range(len(nodes.future_total)):
            nodes.future_total[r] += nodes.future[run, r] * (after - run)
        run = after


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


@inner_kernel
def could_pass(_slot: int, _columns: Columns, _nodes: Nodes) -> bool:
    """Whether it makes sense to ask whether a job fits beside the head; only its nodes can tell."""
    return True


@inner_kernel
def _change_by_placed(slot: int, sign: int, head: int, columns: Columns, nodes: Nodes) -> None:
    """Add what is found for a job to the future (sign 1), or take it (-1)."""
    shared.change(slot, shared.LATER, sign, nodes.shares, nodes.shared)
    node = first_placed(nodes)
    while node < len(nodes.placed):
        _change_future(slot, node, nodes.placed_end[node], nodes.placed[node], sign, head, columns, nodes)
        node = next_placed(node, nodes)


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
def power_wanted(slot: int, columns: Columns, nodes: Nodes) -> int:
    """Return the power (microwatts) that a job would add on the empty machine; -1: it does not fit there."""
    if not place(slot, nodes.full, nodes.full_starts, columns, nodes):
        return -1
    added = power_placed(slot, columns, nodes)
    clear_placed(nodes)
    return int(added)
