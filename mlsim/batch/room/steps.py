"""The steps that change who holds what: a job starts, ends, gives a node up, gets it back."""

from __future__ import annotations

import numpy as np

from mlsim._jit import apart_kernel, leaf_kernel
from mlsim.batch.columns.columns import EARLY, FIRST, RUNNING, USED_ROWS, Columns
from mlsim.batch.columns.occupancy import RELEASED, write_row
from mlsim.batch.columns.packing import Ints
from mlsim.batch.columns.running import add_running, remove_running
from mlsim.batch.columns.table import (
    ACCOUNT,
    BACKFILLED,
    END,
    END_SEGMENT,
    ESTIMATE,
    EXPECTED,
    HELD,
    NUMBER,
    PROCESSORS,
    START,
    UNITS,
)
from mlsim.batch.columns.versions import change_room, is_profile_kept, keep_profile
from mlsim.batch.order.fairshare import change_rate
from mlsim.batch.order.policies import HALF_LIFE
from mlsim.batch.room.room import Room, expect_held, free_all, free_row, hold, hold_part, in_room, take_node

__all__ = [
    "begin",
    "begin_on_part",
    "end",
    "release_row",
    "return_node",
]


@in_room
def begin(slot: int, now: float, backfilled: bool, columns: Columns, room: Room) -> None:
    """Start a job on the units that were found for it."""
    hold(slot, now, columns, room)
    _note_start(slot, now, backfilled, columns)


@apart_kernel
def begin_on_part(slot: int, part: Ints, now: float, backfilled: bool, columns: Columns, room: Room) -> None:
    """Start a job on the units that were found for it in what was released."""
    hold_part(slot, part, now, columns, room)
    _note_start(slot, now, backfilled, columns)


@leaf_kernel
def _note_start(slot: int, now: float, backfilled: bool, columns: Columns) -> None:
    change_room(columns)
    columns.ints[HELD, slot] = columns.ints[UNITS, slot]
    columns.ints[BACKFILLED, slot] = 1 if backfilled else 0
    columns.floats[START, slot] = now
    columns.floats[EXPECTED, slot] = now + columns.floats[ESTIMATE, slot]
    add_running(slot, columns)
    columns.counts[RUNNING] += 1
    _change_usage(slot, 1, now, columns)


@leaf_kernel
def _change_usage(slot: int, sign: int, now: float, columns: Columns) -> None:
    """Have the owner of a job use more (sign 1) or fewer (-1) processors from now on."""
    if columns.shares.shape[1] > 0:
        account, processors = columns.ints[ACCOUNT, slot], columns.ints[PROCESSORS, slot]
        change_rate(account, sign * processors, now, columns.parameters[HALF_LIFE], columns.shares)


@in_room
def end(slot: int, now: float, columns: Columns, room: Room) -> None:
    """End a job: free what it still holds. Nothing happens if that was done before."""
    if not np.isnan(columns.floats[END, slot]):
        return
    follows = is_profile_kept(columns)
    # For a job that takes no time the profile has the shortest time that there is.
    if columns.floats[EXPECTED, slot] != now or columns.floats[START, slot] == now:
        follows = _note_early(slot, now, follows, columns, room)
    free_all(slot, now, columns, room)
    columns.ints[HELD, slot] = 0
    columns.floats[END, slot] = now
    remove_running(slot, columns)
    columns.counts[RUNNING] -= 1
    _change_usage(slot, -1, now, columns)
    change_room(columns)
    if follows:
        keep_profile(columns)


@in_room
def _note_early(slot: int, now: float, is_kept: bool, columns: Columns, room: Room) -> bool:
    """Take note that what a job holds comes back earlier than expected, or that nobody knew when it would.

    A profile that is kept has it from now on, if it can; returns whether it has.
    """
    k = columns.counts[EARLY]
    columns.counts[EARLY] = k + 1
    follows = is_kept and k < len(columns.back_units) and columns.floats[EXPECTED, slot] > now
    if follows:
        until, segment = columns.ints[END_SEGMENT, slot], columns.counts[FIRST]
        while segment != until:
            expect_held(slot, segment, columns, room)
            segment = columns.profile_next[segment]
        columns.back_units[k], columns.back_until[k] = columns.ints[HELD, slot], until
    return follows


@in_room
def release_row(slot: int, row: int, now: float, columns: Columns, room: Room) -> None:
    """Free one node of a job that goes on without it."""
    columns.ints[HELD, slot] -= free_row(slot, row, now, columns, room)
    columns.rows[RELEASED, row] = 1
    columns.counts[EARLY] = 1
    change_room(columns)


@in_room
def return_node(slot: int, node: int, now: float, columns: Columns, room: Room) -> int:
    """Return a free node to a job that had released it; return the new occupancy row."""
    row = columns.counts[USED_ROWS]
    cores = take_node(slot, node, columns, room)
    write_row(row, columns.ints[NUMBER, slot], node, cores, now, columns.rows, columns.times)
    columns.counts[USED_ROWS] = row + 1
    columns.ints[HELD, slot] += 1
    change_room(columns)
    return int(row)
