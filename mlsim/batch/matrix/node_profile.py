"""The profile of every node."""

import numpy as np

from mlsim._jit import inner_kernel
from mlsim.batch.allocators import node_arrays as at
from mlsim.batch.allocators.node_arrays import Nodes, first_placed, next_placed
from mlsim.batch.allocators.node_choice import place
from mlsim.batch.allocators.node_fit import change_devices, has_devices, room_for, spread, units_on
from mlsim.batch.columns import running_jobs
from mlsim.batch.columns.job_columns import EXCLUSIVE, FIRST_ROW, PENDING, ROWS, UNITS, Columns, copy_columns
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE, devices_of, run_of
from mlsim.batch.matrix import node_allocation
from mlsim.batch.matrix.node_allocation import units_in_row
from mlsim.batch.matrix.node_future import expect_back


@inner_kernel
def open_profile(segment: int, columns: Columns, nodes: Nodes) -> None:
    """Begin with what is free now, and on nodes that come back from drains."""
    node_allocation.copy(segment, nodes.shared_profile, node_allocation.NOW, nodes.shared)
    if nodes.settings[at.POOLED]:
        running_jobs.open_profile(segment, columns)
    else:
        spread(nodes.profile[segment], nodes.free, nodes.starts)
        expect_back(nodes.profile[segment], columns, nodes)
        columns.profile_free[segment] = 0
        for node in range(nodes.profile.shape[1]):
            columns.profile_free[segment] += _counted(segment, node, columns, nodes)


@inner_kernel
def copy_segment(segment: int, source: int, columns: Columns, nodes: Nodes) -> None:
    """Copy the free resources of a segment."""
    node_allocation.copy(segment, nodes.shared_profile, source, nodes.shared_profile)
    running_jobs.copy_segment(segment, source, columns)
    if not nodes.settings[at.POOLED]:
        copy_columns(nodes.profile[segment], nodes.profile[source])


@inner_kernel
def expect_held(slot: int, segment: int, columns: Columns, nodes: Nodes) -> None:
    """Expect back in a segment what a job still holds."""
    node_allocation.change(slot, segment, 1, nodes.shares, nodes.shared_profile)
    if nodes.settings[at.POOLED]:
        running_jobs.expect_held(slot, segment, columns)
    else:
        _expect_on_nodes(slot, segment, columns, nodes)


@inner_kernel
def _counted(segment: int, node: int, columns: Columns, nodes: Nodes) -> int:
    """Return what a node adds to what is counted as free in a segment."""
    cores = nodes.profile[segment, node, 0]
    return int(cores > 0) if columns.rules[EXCLUSIVE] else int(cores)


@inner_kernel
def _add(
    slot: int, node: int, units: int, devices: int, sign: int, segment: int, columns: Columns, nodes: Nodes
) -> None:
    if nodes.back[node] == np.inf and sign > 0:
        return  # it is out of use for an unknown time
    change_devices(slot, node, devices, sign, nodes.profile[segment], nodes)
    for r in range(nodes.request.shape[1]):
        amount = nodes.full[node, r] if columns.rules[EXCLUSIVE] else units * nodes.request[slot, r]
        nodes.profile[segment, node, r] += sign * amount
    columns.profile_free[segment] += sign * _counted_for(slot, units, columns, nodes)


@inner_kernel
def _counted_for(slot: int, units: int, columns: Columns, nodes: Nodes) -> int:
    """Return what units of a job are of what is counted as free: whole nodes, or cores."""
    return units if columns.rules[EXCLUSIVE] else int(units * nodes.request[slot, 0])


@inner_kernel
def requested(slot: int, columns: Columns, nodes: Nodes) -> int:
    """Return how much a job asks for of what is counted as free in a segment."""
    units = columns.ints[UNITS, slot]
    return int(units) if nodes.settings[at.POOLED] else _counted_for(slot, units, columns, nodes)


@inner_kernel
def _expect_on_nodes(slot: int, segment: int, columns: Columns, nodes: Nodes) -> None:
    """Expect back what a job holds of each node."""
    first = columns.ints[FIRST_ROW, slot]
    for row in range(first, first + columns.ints[ROWS, slot]):
        if np.isnan(columns.times[FINISH, row]):
            units, node = units_in_row(slot, row, columns, nodes), columns.rows[NODE, row]
            devices = devices_of(row, columns.rows)
            for held in range(node, node + columns.rows[COUNT, row]):
                _add(slot, held, units, devices, 1, segment, columns, nodes)
    if nodes.settings[at.RETURNED] > 0:
        for node in range(len(nodes.owner)):
            if nodes.owner[node] == slot + 1:
                _add(slot, node, 1, 0, 1, segment, columns, nodes)


@inner_kernel
def close_segment(drain: int, segment: int, columns: Columns, nodes: Nodes) -> None:
    """Free nothing of a drain's nodes in a segment."""
    for k in range(nodes.drain_first[drain], nodes.drain_first[drain + 1]):
        columns.profile_free[segment] -= _counted(segment, nodes.drain_nodes[k], columns, nodes)
        nodes.profile[segment, nodes.drain_nodes[k]] = 0


@inner_kernel
def open_window(slot: int, segment: int, columns: Columns, nodes: Nodes) -> bool:
    """Begin a window with all that is free in a segment; return whether a job fits in it."""
    node_allocation.copy(node_allocation.WINDOW, nodes.shared, segment, nodes.shared_profile)
    if not nodes.settings[at.POOLED]:
        copy_columns(nodes.window, nodes.profile[segment])
    return _fits_window(slot, segment, columns, nodes)


@inner_kernel
def extend_window(slot: int, segment: int, columns: Columns, nodes: Nodes) -> bool:
    """Limit the window to what is free in the next segment too; return whether a job still fits."""
    node_allocation.narrow(node_allocation.WINDOW, nodes.shared, segment, nodes.shared_profile)
    if nodes.settings[at.POOLED]:
        return _fits_window(slot, segment, columns, nodes)
    # As numbers one after the other they are compared several at a time.
    window, free, lost = nodes.window.ravel(), nodes.profile[segment].ravel(), 0
    for k in range(len(window)):
        narrowed = min(window[k], free[k])
        lost += window[k] - narrowed
        window[k] = narrowed
    return (lost == 0 and nodes.shares.shape[1] == 0) or _fits_window(slot, segment, columns, nodes)


@inner_kernel
def _fits_window(slot: int, segment: int, columns: Columns, nodes: Nodes) -> bool:
    if not node_allocation.suffices(slot, node_allocation.WINDOW, nodes.shares, nodes.shared):
        return False
    if nodes.settings[at.POOLED]:
        return running_jobs.fits_segment(slot, segment, columns)
    units = columns.ints[UNITS, slot]
    return bool(room_for(slot, units, nodes.window, nodes.no_starts, columns, nodes) == units)


@inner_kernel
def fits_segment(slot: int, segment: int, columns: Columns, nodes: Nodes) -> bool:
    """Whether a job fits in a segment."""
    if not node_allocation.suffices(slot, segment, nodes.shares, nodes.shared_profile):
        return False
    if nodes.settings[at.POOLED]:
        return running_jobs.fits_segment(slot, segment, columns)
    if requested(slot, columns, nodes) > columns.profile_free[segment]:
        return False
    units = columns.ints[UNITS, slot]
    return bool(room_for(slot, units, nodes.profile[segment], nodes.no_starts, columns, nodes) == units)


@inner_kernel
def place_in_window(slot: int, starts: bool, columns: Columns, nodes: Nodes) -> bool:
    """Place a job with the allocator on nodes free throughout the window, and now if it ``starts``."""
    if nodes.settings[at.POOLED]:
        return not starts or place(slot, nodes.free, nodes.starts, columns, nodes)
    if starts and columns.counts[PENDING]:
        _narrow_to_now(nodes)
    return place(slot, nodes.window, nodes.no_starts, columns, nodes)


@inner_kernel
def _narrow_to_now(nodes: Nodes) -> None:
    """Limit the window to what is free now: the profile counts jobs that end at this time as ended."""
    for node in range(nodes.window.shape[0]):
        row = run_of(node, nodes.starts)
        for r in range(nodes.window.shape[1]):
            nodes.window[node, r] = min(nodes.window[node, r], nodes.free[row, r])


@inner_kernel
def change_segments(slot: int, first: int, last: int, sign: int, columns: Columns, nodes: Nodes) -> None:
    """Add what is found for a job to segments (sign 1), or take it (-1)."""
    segment = first
    while nodes.shares.shape[1] > 0 and segment != last:
        node_allocation.change(slot, segment, sign, nodes.shares, nodes.shared_profile)
        segment = columns.profile_next[segment]
    if nodes.settings[at.POOLED]:
        running_jobs.change_segments(slot, first, last, sign, columns)
        return
    stretch = first_placed(nodes)
    while stretch < len(nodes.placed):
        segment, units, devices = first, nodes.placed[stretch], nodes.placed_devices[stretch]
        while segment != last:
            for node in range(stretch, nodes.placed_end[stretch]):
                _add(slot, node, units, devices, sign, segment, columns, nodes)
            segment = columns.profile_next[segment]
        stretch = next_placed(stretch, nodes)


@inner_kernel
def is_sound(segment: int, columns: Columns, nodes: Nodes) -> bool:
    """Whether a segment is non-negative."""
    if not node_allocation.is_sound(segment, nodes.shared_profile):
        return False
    if nodes.settings[at.POOLED]:
        return running_jobs.is_sound(segment, columns)
    for node in range(nodes.profile.shape[1]):
        for r in range(nodes.profile.shape[2]):
            if nodes.profile[segment, node, r] < 0:
                return False
    return True


@inner_kernel
def counts_units(nodes: Nodes) -> bool:
    """Whether reservations count units and not nodes."""
    return bool(nodes.settings[at.POOLED])


@inner_kernel
def counts_only_units(nodes: Nodes) -> bool:
    """Whether units are all that jobs ask for: nothing is shared."""
    return bool(nodes.settings[at.POOLED]) and nodes.shares.shape[1] == 0


@inner_kernel
def keeps_profile(nodes: Nodes) -> bool:
    """Whether the profile may be kept: nothing is in it but what jobs hold, or have reserved."""
    if nodes.settings[at.POOLED]:
        return bool(nodes.shares.shape[1] == 0)
    is_plain = nodes.settings[at.DRAINS] == 0 and nodes.settings[at.RETURNED] == 0
    return bool(is_plain and fits_less_in_less(nodes))


@inner_kernel
def fits_less_in_less(nodes: Nodes) -> bool:
    """Whether a job that does not fit does not fit in less either; a user's allocator may think otherwise."""
    return bool(nodes.settings[at.ALLOCATOR] != at.OWN)


@inner_kernel
def store_plan(slot: int, nodes: Nodes) -> None:
    """Store what is placed as the job's reservation."""
    if not nodes.settings[at.POOLED]:
        at.store_placed(nodes.plan[slot], nodes)
        at.clear_placed(nodes)


@inner_kernel
def is_stored_plan(slot: int, nodes: Nodes) -> bool:
    """Whether what is placed is the job's reservation."""
    return bool(nodes.settings[at.POOLED]) or bool(at.is_kept(nodes.plan[slot], nodes))


@inner_kernel
def load_plan(slot: int, nodes: Nodes) -> None:
    """Place a job as its reservation has it."""
    if not nodes.settings[at.POOLED]:
        at.load_placed(nodes.plan[slot], nodes)


@inner_kernel
def plan_holds(nodes: Nodes) -> bool:
    """Whether all nodes on which units are placed are in use, or known to come back."""
    first = first_placed(nodes)
    while first < len(nodes.placed):
        for node in range(first, nodes.placed_end[first]):
            if nodes.back[node] == np.inf:
                return False
        first = next_placed(first, nodes)
    return True


@inner_kernel
def place_reserved(slot: int, columns: Columns, nodes: Nodes) -> None:
    """Place a job that starts as its reservation has it."""
    if nodes.settings[at.POOLED]:
        place(slot, nodes.free, nodes.starts, columns, nodes)
    else:
        load_plan(slot, nodes)


@inner_kernel
def is_free_now(slot: int, columns: Columns, nodes: Nodes) -> bool:
    """Whether the units placed for a job that starts as reserved are free."""
    if not node_allocation.suffices(slot, node_allocation.NOW, nodes.shares, nodes.shared):
        return False
    units, first = 0, first_placed(nodes)
    while first < len(nodes.placed):
        for node in range(first, nodes.placed_end[first]):
            asked_there = nodes.placed[first]
            row = run_of(node, nodes.starts)
            if units_on(slot, row, asked_there, nodes.free, columns, nodes) < asked_there:
                return False
            if not has_devices(slot, row, nodes.placed_devices[first], nodes.free, nodes):
                return False
            units += asked_there
        first = next_placed(first, nodes)
    return bool(units == columns.ints[UNITS, slot])
