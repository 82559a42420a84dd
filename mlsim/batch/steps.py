"""The steps that change who holds what: a job starts, ends, gives a node up, gets it back."""

from __future__ import annotations

import numpy as np

from mlsim._jit import kernel
from mlsim.batch.allocation import first_fit, take_back, write_row
from mlsim.batch.arrays import EARLY, EXCLUSIVE, FREE, HINT, MERGE, NODES, RUNNING, USED_ROWS, Arrays
from mlsim.batch.fairshare import change_rate
from mlsim.batch.occupancy import COUNT, FINISH, NODE, RELEASED
from mlsim.batch.policies import HALF_LIFE
from mlsim.batch.running import add_running, remove_running
from mlsim.batch.table import (
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

__all__ = ["begin_job", "end_job", "release_row", "return_node"]


@kernel
def begin_job(slot: int, now: float, backfilled: bool, s: Arrays) -> None:
    """Start a job that fits."""
    units = s.ints[UNITS, slot]
    if s.rules[NODES]:
        first = s.counts[USED_ROWS]
        row, taken, hint = first_fit(
            s.ints[NUMBER, slot],
            units,
            s.rules[EXCLUSIVE] != 0,
            s.rules[MERGE] != 0,
            now,
            first,
            s.counts[HINT],
            s.free,
            s.cores,
            s.rows,
            s.times,
        )
        s.counts[USED_ROWS], s.counts[HINT] = row, hint
        s.ints[CORES, slot] = taken
        s.ints[FIRST_ROW, slot], s.ints[ROWS, slot] = first, row - first
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


@kernel
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
