"""What is expected to be free at the reservation of the queue's head, on every node (EASY)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel, kernel
from mlsim.batch.allocators.placing import clear_placed, has_window, place
from mlsim.batch.backfill.drains import expect_back, next_end, open_future, shut
from mlsim.batch.backfill.easy import overdue_end
from mlsim.batch.columns.arrays import EXCLUSIVE, RUNNING, Arrays
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE
from mlsim.batch.columns.running import first_after
from mlsim.batch.columns.table import EXPECTED, FIRST_ROW, ROWS, UNITS
from mlsim.batch.room.fit import units_on
from mlsim.batch.room.grid import (
    CAPPED,
    DRAINS,
    EVEN,
    HAVE,
    POWER_BACK,
    POWER_LATER,
    POWER_LEFT,
    RETURNED,
    STRICT,
    Grid,
)
from mlsim.batch.room.matrix import power_placed, powered_by, units_in_row

__all__ = ["head_keeps", "power_wanted", "reserve", "take_from_future"]


@inner_kernel
def _change_future(slot: int, node: int, units: int, sign: int, head: int, s: Arrays, g: Grid) -> None:
    """Let a node have more (sign 1) or less (-1) in the future, and count what of the head fits."""
    if g.back[node] == np.inf:
        return  # it is out of use, nobody knows until when
    g.settings[POWER_LATER] += sign * powered_by(slot, units, s, g) * g.power[node]
    most = 0 if g.shut[node] == 1 else s.ints[UNITS, head]
    g.settings[HAVE] -= units_on(head, node, most, g.future, s, g)
    for r in range(len(g.future_total)):
        amount = g.full[node, r] if s.rules[EXCLUSIVE] else units * g.request[slot, r]
        g.future[node, r] += sign * amount
        g.future_total[r] += sign * amount
    g.settings[HAVE] += units_on(head, node, most, g.future, s, g)


@inner_kernel
def _add_held(slot: int, head: int, s: Arrays, g: Grid) -> None:
    """Let a running job be gone in the future."""
    first = s.ints[FIRST_ROW, slot]
    for row in range(first, first + s.ints[ROWS, slot]):
        if np.isnan(s.times[FINISH, row]):
            units, node = units_in_row(slot, row, s, g), s.rows[NODE, row]
            for held in range(node, node + s.rows[COUNT, row]):
                _change_future(slot, held, units, 1, head, s, g)
    if g.settings[RETURNED] > 0:
        for node in range(len(g.owner)):
            if g.owner[node] == slot + 1:
                _change_future(slot, node, 1, 1, head, s, g)


@inner_kernel
def head_keeps(head: int, s: Arrays, g: Grid) -> bool:
    """Tell whether the head fits in the future."""
    if g.settings[HAVE] < s.ints[UNITS, head]:
        return False
    if g.settings[STRICT] and not has_window(head, open_future(g), s, g):
        return False
    return not g.settings[CAPPED] or _power_suffices(head, s, g)


@inner_kernel
def _power_suffices(head: int, s: Arrays, g: Grid) -> bool:
    """Tell whether the power cap lets the head start in the future, where the allocator would put it."""
    if g.settings[EVEN]:
        needed = s.ints[UNITS, head] * powered_by(head, 1, s, g) * g.power[0]
        return bool(needed <= g.settings[POWER_LATER])
    g.aside[:] = g.placed  # another job may be placed
    clear_placed(g)
    fits = place(head, open_future(g), s, g) and power_placed(head, s, g) <= g.settings[POWER_LATER]
    g.placed[:] = g.aside
    return fits


@inner_kernel
def _count_head(head: int, s: Arrays, g: Grid) -> None:
    """Count the units of the head that fit in the future, on nodes that are open to it."""
    g.settings[HAVE] = 0
    for node in range(len(g.placed)):
        if g.shut[node] == 0:
            g.settings[HAVE] += units_on(head, node, s.ints[UNITS, head], g.future, s, g)


@inner_kernel
def _begin_future(head: int, now: float, s: Arrays, g: Grid) -> None:
    """Let the future be what is free now, and what drained nodes that come back will have."""
    g.settings[POWER_LATER], g.settings[POWER_BACK] = g.settings[POWER_LEFT], 0
    expect_back(g.future, s, g)
    g.future_total[:] = g.total
    if g.settings[DRAINS] > 0:
        for r in range(len(g.future_total)):
            g.future_total[r] = g.future[:, r].sum()
        shut(head, now, now, s, g)
    _count_head(head, s, g)


@inner_kernel
def _meet_drains(head: int, time: float, now: float, s: Arrays, g: Grid) -> None:
    """Let the nodes be open to the head that are so at ``time``, and those that have come back take power."""
    if shut(head, time, now, s, g):
        _count_head(head, s, g)
    if not g.settings[CAPPED]:
        return
    g.settings[POWER_LATER] += g.settings[POWER_BACK]
    g.settings[POWER_BACK] = 0
    for node in range(len(g.back)):
        if g.capacity[node, 0] == 0 and g.back[node] <= time and g.used[node] == 0:
            g.settings[POWER_BACK] += g.wakes[node]
    g.settings[POWER_LATER] -= g.settings[POWER_BACK]


@kernel
def reserve(head: int, now: float, s: Arrays, g: Grid) -> float:
    """Find when a job is expected to fit, and leave in ``g.future`` what is free then on every node.

    Running jobs are let go in the order of their expected ends, all of one time together, until enough units
    of the job fit: sum over nodes of min over resources ⌊free / request⌋. A job that outlived its estimate is
    expected at :func:`mlsim.batch.backfill.easy.overdue_end`. Nodes on which the job would meet an announced
    drain do not count, and are in ``g.shut``; the ends of drains are looked at as ends of jobs are.

    Returns
    -------
    float
        The time in seconds; now if it fits already, infinity where nodes are out of use and it never will.
    """
    _begin_future(head, now, s, g)
    n = s.counts[RUNNING]
    late = first_after(now, s.running, n, s.floats)
    overdue, k, time, overdue_time = late > 0, late, now, overdue_end(now, s)
    while not head_keeps(head, s, g):
        upcoming = s.floats[EXPECTED, s.running[k]] if k < n else np.inf
        upcoming = min(upcoming, next_end(time, now, g))
        time = min(upcoming, overdue_time) if overdue else upcoming
        if time == np.inf:
            break
        if overdue and time == overdue_time:
            for j in range(late):
                _add_held(s.running[j], head, s, g)
            overdue = False
        while k < n and s.floats[EXPECTED, s.running[k]] <= time:
            _add_held(s.running[k], head, s, g)
            k += 1
        if g.settings[DRAINS] > 0:
            _meet_drains(head, time, now, s, g)
    return float(time)


@inner_kernel
def take_from_future(slot: int, head: int, s: Arrays, g: Grid) -> bool:
    """Take what is placed for a job out of the future if the head fits all the same; give whether so."""
    for r in range(len(g.future_total)):
        left = g.future_total[r] - s.ints[UNITS, slot] * g.request[slot, r]
        if left < s.ints[UNITS, head] * g.request[head, r]:
            return False
    for node in range(len(g.placed)):
        if g.placed[node] > 0:
            _change_future(slot, node, g.placed[node], -1, head, s, g)
    if head_keeps(head, s, g):
        return True
    for node in range(len(g.placed)):
        if g.placed[node] > 0:
            _change_future(slot, node, g.placed[node], 1, head, s, g)
    return False


@kernel
def power_wanted(slot: int, free: NDArray[np.int64], s: Arrays, g: Grid) -> int:
    """Give the power that a job would add on the nodes it would get of these, in microwatts; -1: on none."""
    if not place(slot, free, s, g):
        return -1
    added = power_placed(slot, s, g)
    clear_placed(g)
    return int(added)
