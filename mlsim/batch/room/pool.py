"""The steps that change who holds what: a job starts, ends, gives a node up, gets it back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.batch.columns.arrays import EARLY, EXCLUSIVE, FREE, HINT, MERGE, NODES, RUNNING, USED_ROWS, Arrays
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
from mlsim.batch.room.allocation import first_fit, take_back, write_row

__all__ = ["begin_job", "begin_on", "end_job", "leave_time", "release_row", "return_node"]


@kernel
def leave_time(end: float, start: float, walltime: float, kills: bool) -> float:
    """Return when a job leaves that would end by itself at ``end`` (s): before that, if it is killed.

    The limit is the walltime, what the user asked; the dispatcher may see a shorter estimate. A job that ends
    exactly at the limit completes.
    """
    limit = start + walltime
    return limit if kills and end > limit else end


@kernel
def begin_job(slot: int, now: float, backfilled: bool, s: Arrays) -> None:
    """Start a job that fits."""
    if s.rules[NODES]:
        s.counts[HINT] = _take_nodes(slot, now, s.counts[HINT], s.free, s)
    _note_start(slot, now, backfilled, s)


@kernel
def begin_on(part: NDArray[np.int64], slot: int, now: float, backfilled: bool, s: Arrays) -> None:
    """Start a job that fits on a part of the free cores, which is updated too."""
    first = s.counts[USED_ROWS]
    _take_nodes(slot, now, 0, part, s)
    for row in range(first, s.counts[USED_ROWS]):
        for node in range(s.rows[NODE, row], s.rows[NODE, row] + s.rows[COUNT, row]):
            s.free[node] -= s.rows[NODE_CORES, row]
    _note_start(slot, now, backfilled, s)


@kernel
def _take_nodes(slot: int, now: float, hint: int, free: NDArray[np.int64], s: Arrays) -> int:
    """Give a job the first free cores, none of which are before the node ``hint``; gives the new hint."""
    first = s.counts[USED_ROWS]
    row, taken, hint = first_fit(
        s.ints[NUMBER, slot],
        s.ints[UNITS, slot],
        s.rules[EXCLUSIVE] != 0,
        s.rules[MERGE] != 0,
        now,
        first,
        hint,
        free,
        s.cores,
        s.rows,
        s.times,
    )
    s.counts[USED_ROWS] = row
    s.ints[CORES, slot] = taken
    s.ints[FIRST_ROW, slot], s.ints[ROWS, slot] = first, row - first
    return int(hint)


@kernel
def _note_start(slot: int, now: float, backfilled: bool, s: Arrays) -> None:
    units = s.ints[UNITS, slot]
    s.counts[FREE] -= units
    s.ints[HELD, slot] = units
    s.ints[BACKFILLED, slot] = 1 if backfilled else 0
    s.floats[START, slot] = now
    s.floats[EXPECTED, slot] = now + s.floats[ESTIMATE, slot]
    add_running(slot, s.running, s.counts[RUNNING], s.ints, s.floats)
    s.counts[RUNNING] += 1
    if s.shares.shape[1] > 0:
        account, processors = s.ints[ACCOUNT, slot], s.ints[PROCESSORS, slot]
        change_rate(account, processors, now, s.parameters[HALF_LIFE], s.shares)


@kernel(forceinline=True)
def end_job(slot: int, now: float, s: Arrays) -> None:
    """Let a job leave: free what it still holds. Nothing happens if that was done before."""
    if not np.isnan(s.floats[END, slot]):
        return
    if s.rules[NODES]:
        first = s.ints[FIRST_ROW, slot]
        for row in range(first, first + s.ints[ROWS, slot]):
            if np.isnan(s.times[FINISH, row]):
                take_back(row, now, s.free, s.rows, s.times)
                s.counts[HINT] = min(s.counts[HINT], s.rows[NODE, row])
    if s.floats[EXPECTED, slot] != now:
        s.counts[EARLY] = 1
    s.counts[FREE] += s.ints[HELD, slot]
    s.ints[HELD, slot] = 0
    s.floats[END, slot] = now
    remove_running(slot, s.running, s.counts[RUNNING], s.ints, s.floats)
    s.counts[RUNNING] -= 1
    if s.shares.shape[1] > 0:
        account, processors = s.ints[ACCOUNT, slot], s.ints[PROCESSORS, slot]
        change_rate(account, -processors, now, s.parameters[HALF_LIFE], s.shares)


@kernel
def release_row(slot: int, row: int, now: float, s: Arrays) -> None:
    """Give back one node of a job that goes on without it."""
    cores = take_back(row, now, s.free, s.rows, s.times)
    units = s.rows[COUNT, row] if s.rules[EXCLUSIVE] else cores
    s.rows[RELEASED, row] = 1
    s.ints[HELD, slot] -= units
    s.counts[FREE] += units
    s.counts[HINT] = min(s.counts[HINT], s.rows[NODE, row])
    s.counts[EARLY] = 1


@kernel
def return_node(slot: int, node: int, now: float, s: Arrays) -> int:
    """Give a free node back to a job that had released it; gives the new occupancy row."""
    row = s.counts[USED_ROWS]
    write_row(row, s.ints[NUMBER, slot], node, s.free[node], now, s.rows, s.times)
    s.counts[USED_ROWS] = row + 1
    s.free[node] = 0
    s.counts[FREE] -= 1
    s.ints[HELD, slot] += 1
    return int(row)
