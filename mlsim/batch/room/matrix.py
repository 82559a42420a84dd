"""Who holds what: a job starts on placed units, ends, gives a node up, gets it back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel, kernel
from mlsim.batch.columns.arrays import EARLY, EXCLUSIVE, FREE, MERGE, RUNNING, USED_ROWS, Arrays
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE, NODE_CORES, RELEASED
from mlsim.batch.columns.running import add_running, remove_running
from mlsim.batch.columns.table import (
    ACCOUNT,
    BACKFILLED,
    CORES,
    END,
    ESTIMATE,
    EXPECTED,
    FIRST_ROW,
    HELD,
    NUMBER,
    PROCESSORS,
    ROWS,
    START,
    UNITS,
)
from mlsim.batch.order.fairshare import change_rate
from mlsim.batch.order.policies import HALF_LIFE
from mlsim.batch.room.allocation import write_row
from mlsim.batch.room.grid import CAPPED, POWER_LEFT, RETURNED, Grid

__all__ = [
    "begin_placed",
    "end_job",
    "has_power",
    "power_placed",
    "powered_by",
    "release_row",
    "return_node",
    "units_in_row",
]

Ints = NDArray[np.int64]


@inner_kernel
def units_in_row(slot: int, row: int, s: Arrays, g: Grid) -> int:
    """Give the units that a job holds on each node of an occupancy row."""
    return 1 if s.rules[EXCLUSIVE] else s.rows[NODE_CORES, row] // g.request[slot, 0]


@inner_kernel
def powered_by(slot: int, units: int, s: Arrays, g: Grid) -> int:
    """Give how many nodes, or cores where these are given singly, units of a job on one node are."""
    return 1 if s.rules[EXCLUSIVE] else units * g.request[slot, 0]


@inner_kernel
def power_placed(slot: int, s: Arrays, g: Grid) -> int:
    """Give the power that a job would add on the units placed for it, in microwatts."""
    total = 0
    for node in range(len(g.placed)):
        if g.placed[node] > 0:
            total += powered_by(slot, g.placed[node], s, g) * g.power[node]
    return total


@inner_kernel
def has_power(slot: int, s: Arrays, g: Grid) -> bool:
    """Tell whether the power cap lets a job start on the units placed for it."""
    return not g.settings[CAPPED] or power_placed(slot, s, g) <= g.settings[POWER_LEFT]


@inner_kernel
def _change_free(slot: int, node: int, units: int, sign: int, s: Arrays, g: Grid) -> None:
    """Give units on a node back (sign 1), or take them (-1); nothing comes back of one that is out of use."""
    change = sign * powered_by(slot, units, s, g)
    g.used[node] -= change
    g.settings[POWER_LEFT] += change * g.power[node]
    if g.capacity[node, 0] == 0:
        return
    for r in range(len(g.total)):
        amount = g.capacity[node, r] if s.rules[EXCLUSIVE] else units * g.request[slot, r]
        g.free[node, r] += sign * amount
        g.total[r] += sign * amount
    s.counts[FREE] += sign * (1 if s.rules[EXCLUSIVE] else units * g.request[slot, 0])


@kernel
def begin_placed(slot: int, now: float, backfilled: bool, s: Arrays, g: Grid) -> None:
    """Start a job on the units that were placed for it."""
    first = s.counts[USED_ROWS]
    row, taken = first, 0
    for node in range(len(g.placed)):
        units = g.placed[node]
        if units == 0:
            continue
        g.placed[node] = 0
        cores = g.capacity[node, 0] if s.rules[EXCLUSIVE] else units * g.request[slot, 0]
        _change_free(slot, node, units, -1, s, g)
        taken += cores
        last = row - 1
        if (
            s.rules[MERGE]
            and last >= first
            and s.rows[NODE, last] + s.rows[COUNT, last] == node
            and s.rows[NODE_CORES, last] == cores
        ):
            s.rows[COUNT, last] += 1
        else:
            write_row(row, s.ints[NUMBER, slot], node, cores, now, s.rows, s.times)
            row += 1
    s.counts[USED_ROWS] = row
    s.ints[CORES, slot] = taken
    s.ints[FIRST_ROW, slot], s.ints[ROWS, slot] = first, row - first
    s.ints[HELD, slot] = s.ints[UNITS, slot]
    s.ints[BACKFILLED, slot] = 1 if backfilled else 0
    s.floats[START, slot] = now
    s.floats[EXPECTED, slot] = now + s.floats[ESTIMATE, slot]
    add_running(slot, s.running, s.counts[RUNNING], s.ints, s.floats)
    s.counts[RUNNING] += 1
    if s.shares.shape[1] > 0:
        account, processors = s.ints[ACCOUNT, slot], s.ints[PROCESSORS, slot]
        change_rate(account, processors, now, s.parameters[HALF_LIFE], s.shares)


@inner_kernel
def _take_back(slot: int, row: int, now: float, s: Arrays, g: Grid) -> int:
    """End one occupancy row and free its nodes; give the units that came back."""
    s.times[FINISH, row] = now
    back = 0
    units, first, count = units_in_row(slot, row, s, g), s.rows[NODE, row], s.rows[COUNT, row]
    for node in range(first, first + count):
        _change_free(slot, node, units, 1, s, g)
        back += units if g.capacity[node, 0] > 0 else 0
        if g.owner[node] > 0:
            g.owner[node] = 0
            g.settings[RETURNED] -= 1
    return int(back)


@kernel
def end_job(slot: int, now: float, s: Arrays, g: Grid) -> None:
    """Let a job leave: free what it still holds. Nothing happens if that was done before."""
    if not np.isnan(s.floats[END, slot]):
        return
    first = s.ints[FIRST_ROW, slot]
    for row in range(first, first + s.ints[ROWS, slot]):
        if np.isnan(s.times[FINISH, row]):
            _take_back(slot, row, now, s, g)
    if s.floats[EXPECTED, slot] != now:
        s.counts[EARLY] = 1
    s.ints[HELD, slot] = 0
    s.floats[END, slot] = now
    remove_running(slot, s.running, s.counts[RUNNING], s.ints, s.floats)
    s.counts[RUNNING] -= 1
    if s.shares.shape[1] > 0:
        account, processors = s.ints[ACCOUNT, slot], s.ints[PROCESSORS, slot]
        change_rate(account, -processors, now, s.parameters[HALF_LIFE], s.shares)


@kernel
def release_row(slot: int, row: int, now: float, s: Arrays, g: Grid) -> None:
    """Give back one node of a job that goes on without it."""
    s.ints[HELD, slot] -= _take_back(slot, row, now, s, g)
    s.rows[RELEASED, row] = 1
    s.counts[EARLY] = 1


@kernel
def return_node(slot: int, node: int, now: float, s: Arrays, g: Grid) -> int:
    """Give a free node back, whole, to a job that had released it; gives the new occupancy row."""
    row = s.counts[USED_ROWS]
    write_row(row, s.ints[NUMBER, slot], node, g.capacity[node, 0], now, s.rows, s.times)
    s.counts[USED_ROWS] = row + 1
    _change_free(slot, node, 1, -1, s, g)
    g.owner[node] = slot + 1
    g.settings[RETURNED] += 1
    s.ints[HELD, slot] += 1
    return int(row)
