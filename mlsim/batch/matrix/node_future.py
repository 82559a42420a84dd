"""Nodes x resources: expected free resources, announced drains, and where jobs could start now."""

import numpy as np

from mlsim._jit import inner_kernel, leaf_kernel
from mlsim._runtime.arrays import Ints
from mlsim.batch.allocators import node_arrays as at
from mlsim.batch.allocators import node_fit
from mlsim.batch.allocators.node_arrays import Nodes, clear_placed, first_placed, next_placed
from mlsim.batch.allocators.node_choice import has_window, place
from mlsim.batch.allocators.node_fit import change_devices, copy_alike, join, split, units_on
from mlsim.batch.columns import job_columns as col
from mlsim.batch.columns.job_columns import Columns, IntColumn, copy_ints
from mlsim.batch.columns.occupancy import (
    COUNT,
    FINISH,
    NODE,
    RELEASED,
    RELEASED_SOON,
    copy_runs,
    devices_of,
    next_run,
)
from mlsim.batch.columns.running_jobs import end_of_running, next_running, running_at, stay_end
from mlsim.batch.matrix import node_allocation
from mlsim.batch.matrix.node_allocation import power_placed, powered_by, units_in_row


@inner_kernel
def end_of(drain: int, now: float, nodes: Nodes) -> float:
    """Return when nodes return from a drain: after now, if they have not yet."""
    return float(max(nodes.drain_times[1, drain], np.nextafter(now, np.inf)))


@inner_kernel
def next_change(time: float, now: float, nodes: Nodes) -> float:
    """Return the first time after ``time`` at which a drain ends; infinity if there is none."""
    found = np.inf
    for drain in range(nodes.settings[at.DRAINS]):
        end = end_of(drain, now, nodes)
        if time < end < found:
            found = end
    return found


@inner_kernel
def _open_now(slot: int, free: Ints, starts: Ints, now: float, columns: Columns, nodes: Nodes) -> Ints:
    """Return what is free of nodes on which a job, started now, would run into no announced drain.

    Nodes of a run are of one kind, and so promised to the same drains.
    """
    n = node_fit.reach(slot, now, columns, nodes)
    if n == 0:
        return free
    copy_alike(nodes.masked, free, starts)
    for k in range(nodes.drain_first[n]):
        nodes.masked[nodes.drain_nodes[k]] = 0
    return nodes.masked


@inner_kernel
def room_now(slot: int, need: int, now: float, columns: Columns, nodes: Nodes) -> int:
    """Return how many units of a job could start now, at most ``need``."""
    free = _open_now(slot, nodes.free, nodes.starts, now, columns, nodes)
    return int(node_fit.room_for(slot, need, free, nodes.starts, columns, nodes))


@inner_kernel
def drained_from(node: int, end: float, nodes: Nodes) -> float:
    """Return when the first announced drain of a node begins, if that is before ``end``; else infinity."""
    for drain in range(nodes.settings[at.DRAINS]):
        if nodes.drain_times[0, drain] >= end:
            break
        for k in range(nodes.drain_first[drain], nodes.drain_first[drain + 1]):
            if nodes.drain_nodes[k] == node:
                return float(nodes.drain_times[0, drain])
    return np.inf


@inner_kernel
def expect_back(target: Ints, columns: Columns, nodes: Nodes) -> None:
    """Add nodes that will come back from a drain to ``target``, which has what is free now.

    A node that is out of use is alike to no other.
    """
    if nodes.settings[at.DRAINS] == 0:
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
    """Subtract a running job's units from nodes that will return to service."""
    first = columns.ints[col.FIRST_ROW, slot]
    for row in range(first, first + columns.ints[col.ROWS, slot]):
        if np.isnan(columns.times[FINISH, row]):
            units, devices = units_in_row(slot, row, columns, nodes), devices_of(row, columns.rows)
            for node in range(columns.rows[NODE, row], columns.rows[NODE, row] + columns.rows[COUNT, row]):
                _take_units(slot, node, units, devices, target, columns, nodes)
    if nodes.settings[at.RETURNED] > 0:
        for node in range(len(nodes.owner)):
            if nodes.owner[node] == slot + 1:
                _take_units(slot, node, 1, 0, target, columns, nodes)


@inner_kernel
def _take_units(
    slot: int, node: int, units: int, devices: int, target: Ints, columns: Columns, nodes: Nodes
) -> None:
    if nodes.capacity[node, 0] > 0 or nodes.back[node] == np.inf:
        return
    change_devices(slot, node, devices, -1, target, nodes)
    for r in range(nodes.request.shape[1]):
        amount = nodes.full[node, r] if columns.rules[col.EXCLUSIVE] else units * nodes.request[slot, r]
        target[node, r] -= amount


@inner_kernel
def shut(slot: int, time: float, now: float, columns: Columns, nodes: Nodes) -> bool:
    """Mark the nodes where a job that starts at ``time`` would meet a drain; return whether they changed."""
    changed, end = False, stay_end(time, columns.floats[col.ESTIMATE, slot])
    for drain in range(nodes.settings[at.DRAINS]):
        meets = nodes.drain_times[0, drain] < end and time < end_of(drain, now, nodes)
        if meets != (nodes.drain_shuts[drain] == 1):
            nodes.drain_shuts[drain] = 1 if meets else 0
            changed = True
    if changed:
        nodes.shut[:] = 0
        for drain in range(nodes.settings[at.DRAINS]):
            if nodes.drain_shuts[drain] == 1:
                for k in range(nodes.drain_first[drain], nodes.drain_first[drain + 1]):
                    nodes.shut[nodes.drain_nodes[k]] = 1
    return changed


@inner_kernel
def open_future(nodes: Nodes) -> Ints:
    """Return what is expected to be free at the head's reservation, of nodes that are open to it."""
    if nodes.settings[at.DRAINS] == 0:
        return nodes.future
    copy_alike(nodes.masked, nodes.future, nodes.future_starts)
    for node in range(len(nodes.shut)):
        if nodes.shut[node] == 1:
            nodes.masked[node] = 0
    return nodes.masked


@inner_kernel
def _change_future(
    slot: int,
    first: int,
    end: int,
    units: int,
    devices: int,
    sign: int,
    head: int,
    columns: Columns,
    nodes: Nodes,
) -> None:
    """Add (sign 1) or subtract (-1) what some nodes have in the future, and count what of the head fits."""
    split(first, nodes.future, nodes.future_starts)
    split(end, nodes.future, nodes.future_starts)
    run = first
    while run < end:
        after = next_run(run, len(nodes.placed), nodes.future_starts)
        if nodes.back[run] < np.inf:  # else it is out of use for an unknown time
            _change_run(slot, run, after - run, units, devices, sign, head, columns, nodes)
        run = after
    join(end, nodes.future, nodes.future_starts, nodes.kind)
    join(first, nodes.future, nodes.future_starts, nodes.kind)


@inner_kernel
def _change_run(
    slot: int,
    run: int,
    count: int,
    units: int,
    devices: int,
    sign: int,
    head: int,
    columns: Columns,
    nodes: Nodes,
) -> None:
    power = powered_by(slot, units, columns, nodes) * nodes.power[run]
    nodes.settings[at.POWER_LATER] += sign * power * count
    most = 0 if nodes.shut[run] == 1 else columns.ints[col.UNITS, head]
    nodes.settings[at.HAVE] -= units_on(head, run, most, nodes.future, columns, nodes) * count
    for r in range(len(nodes.future_total)):
        amount = nodes.full[run, r] if columns.rules[col.EXCLUSIVE] else units * nodes.request[slot, r]
        nodes.future[run, r] += sign * amount
        nodes.future_total[r] += sign * amount * count
    change_devices(slot, run, devices, sign, nodes.future, nodes)
    nodes.settings[at.HAVE] += units_on(head, run, most, nodes.future, columns, nodes) * count


@inner_kernel
def add_foreseen(slot: int, row: int, head: int, columns: Columns, nodes: Nodes) -> None:
    """Add to the future the nodes of an occupancy row."""
    units, node = units_in_row(slot, row, columns, nodes), columns.rows[NODE, row]
    end, devices = node + columns.rows[COUNT, row], devices_of(row, columns.rows)
    _change_future(slot, node, end, units, devices, 1, head, columns, nodes)


@inner_kernel
def add_ended(slot: int, head: int, columns: Columns, nodes: Nodes) -> None:
    """Add to the future all that a running job holds, but the nodes that it is expected to release before."""
    node_allocation.change(slot, node_allocation.LATER, 1, nodes.shares, nodes.shared)
    first = columns.ints[col.FIRST_ROW, slot]
    for row in range(first, first + columns.ints[col.ROWS, slot]):
        if np.isnan(columns.times[FINISH, row]) and columns.rows[RELEASED, row] != RELEASED_SOON:
            add_foreseen(slot, row, head, columns, nodes)
    if nodes.settings[at.RETURNED] > 0:
        for node in range(len(nodes.owner)):
            if nodes.owner[node] == slot + 1:
                _change_future(slot, node, node + 1, 1, 0, 1, head, columns, nodes)


@inner_kernel
def head_fits(head: int, columns: Columns, nodes: Nodes) -> bool:
    """Whether the head fits in the future."""
    if nodes.settings[at.HAVE] < columns.ints[col.UNITS, head]:
        return False
    if not node_allocation.suffices(head, node_allocation.LATER, nodes.shares, nodes.shared):
        return False
    if nodes.settings[at.STRICT] and not has_window(
        head, open_future(nodes), nodes.future_starts, columns, nodes
    ):
        return False
    return not nodes.settings[at.CAPPED] or _power_suffices(head, columns, nodes)


@inner_kernel
def _power_suffices(head: int, columns: Columns, nodes: Nodes) -> bool:
    """Whether the power cap allows the head to start in the future, where the allocator would place it."""
    if nodes.settings[at.EVEN]:
        needed = columns.ints[col.UNITS, head] * powered_by(head, 1, columns, nodes) * nodes.power[0]
        return bool(needed <= nodes.settings[at.POWER_LATER])
    at.store_placed(nodes.aside, nodes)  # another job may be placed
    clear_placed(nodes)
    fits = (
        place(head, open_future(nodes), nodes.future_starts, columns, nodes)
        and power_placed(head, columns, nodes) <= nodes.settings[at.POWER_LATER]
    )
    at.load_placed(nodes.aside, nodes)
    return fits


@inner_kernel
def _count_head(head: int, columns: Columns, nodes: Nodes) -> None:
    """Count the units of the head that fit in the future, on nodes that are open to it."""
    have, run, most = 0, 0, columns.ints[col.UNITS, head]
    while run < len(nodes.placed):
        after = next_run(run, len(nodes.placed), nodes.future_starts)
        if nodes.shut[run] == 0:
            have += units_on(head, run, most, nodes.future, columns, nodes) * (after - run)
        run = after
    nodes.settings[at.HAVE] = have


@inner_kernel
def begin_future(head: int, now: float, columns: Columns, nodes: Nodes) -> None:
    """Begin the future with what is free now, and what drained nodes that come back will have."""
    nodes.settings[at.POWER_LATER], nodes.settings[at.POWER_BACK] = nodes.settings[at.POWER_LEFT], 0
    node_allocation.copy(node_allocation.LATER, nodes.shared, node_allocation.NOW, nodes.shared)
    copy_runs(nodes.future_starts, nodes.starts)
    copy_alike(nodes.future, nodes.free, nodes.starts)
    expect_back(nodes.future, columns, nodes)
    copy_ints(nodes.future_total, nodes.total, len(nodes.total))
    if nodes.settings[at.DRAINS] > 0:
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
def advance_future(time: float, head: int, now: float, columns: Columns, nodes: Nodes) -> None:
    """Move the future to a time: nodes open or close to the head, and returning nodes take power."""
    if nodes.settings[at.DRAINS] == 0:
        return
    if shut(head, time, now, columns, nodes):
        _count_head(head, columns, nodes)
    if not nodes.settings[at.CAPPED]:
        return
    nodes.settings[at.POWER_LATER] += nodes.settings[at.POWER_BACK]
    nodes.settings[at.POWER_BACK] = 0
    for node in range(len(nodes.back)):
        if nodes.capacity[node, 0] == 0 and nodes.back[node] <= time and nodes.used[node] == 0:
            nodes.settings[at.POWER_BACK] += nodes.wakes[node]
    nodes.settings[at.POWER_LATER] -= nodes.settings[at.POWER_BACK]


@leaf_kernel
def extra_units(_nodes: Nodes) -> int:
    """Return the most units of a job that may fit beside the head: no limit, as it depends on nodes."""
    return col.MOST_UNITS


@inner_kernel
def _change_by_placed(slot: int, sign: int, head: int, columns: Columns, nodes: Nodes) -> None:
    """Add what is found for a job to the future (sign 1), or take it (-1)."""
    node_allocation.change(slot, node_allocation.LATER, sign, nodes.shares, nodes.shared)
    node = first_placed(nodes)
    while node < len(nodes.placed):
        end, units, devices = nodes.placed_end[node], nodes.placed[node], nodes.placed_devices[node]
        _change_future(slot, node, end, units, devices, sign, head, columns, nodes)
        node = next_placed(node, nodes)


@inner_kernel
def fits_with_reservation(slot: int, head: int, keeps: bool, columns: Columns, nodes: Nodes) -> bool:
    """Whether the head still fits if a job gets the units placed for it; it ``keeps`` them then."""
    for r in range(len(nodes.future_total)):
        left = nodes.future_total[r] - columns.ints[col.UNITS, slot] * nodes.request[slot, r]
        if left < columns.ints[col.UNITS, head] * nodes.request[head, r]:
            return False
    _change_by_placed(slot, -1, head, columns, nodes)
    fits = head_fits(head, columns, nodes)
    if not (fits and keeps):
        _change_by_placed(slot, 1, head, columns, nodes)
    return fits


@inner_kernel
def power_wanted(slot: int, columns: Columns, nodes: Nodes) -> int:
    """Return the power (microwatts) that a job would add on the empty machine; -1: it does not fit there."""
    if not place(slot, nodes.full, nodes.full_starts, columns, nodes):
        return -1
    added = power_placed(slot, columns, nodes)
    clear_placed(nodes)
    return int(added)


@inner_kernel
def begin_pass(nodes: Nodes) -> None:
    """Forget the requests that did not fit in an earlier pass."""
    nodes.settings[at.REFUSED] = 0


@inner_kernel
def could_start(slot: int, now: float, columns: Columns, nodes: Nodes) -> bool:
    """Whether a job may fit now: quick, and never false for a job that fits."""
    enough = node_allocation.suffices(slot, node_allocation.NOW, nodes.shares, nodes.shared)
    return enough and node_fit.could_fit(slot, now, columns, nodes)


@inner_kernel
def find_room(slot: int, now: float, columns: Columns, nodes: Nodes) -> bool:
    """Whether the allocator finds nodes for a job that starts now; its units are left placed."""
    if not could_start(slot, now, columns, nodes):
        return False
    free = _open_now(slot, nodes.free, nodes.starts, now, columns, nodes)
    if not place(slot, free, nodes.starts, columns, nodes):
        node_fit.refuse(slot, now, columns, nodes)
        return False
    return _has_power(slot, columns, nodes)


@inner_kernel
def _has_power(slot: int, columns: Columns, nodes: Nodes) -> bool:
    """Whether the power cap allows a job to start on the units placed for it; if not, forget them."""
    if nodes.settings[at.CAPPED] and power_placed(slot, columns, nodes) > nodes.settings[at.POWER_LEFT]:
        clear_placed(nodes)
        return False
    return True


@inner_kernel
def measure_part(_part: IntColumn, _columns: Columns, _nodes: Nodes) -> None:
    """No-op: released resources are read when needed."""


@inner_kernel
def find_room_in_part(slot: int, part: IntColumn, now: float, columns: Columns, nodes: Nodes) -> bool:
    """Whether the allocator finds nodes in a part of what is free; the job's units are left placed."""
    free = _open_now(slot, part, nodes.no_starts, now, columns, nodes)
    return (
        could_start(slot, now, columns, nodes)
        and place(slot, free, nodes.no_starts, columns, nodes)
        and _has_power(slot, columns, nodes)
    )
