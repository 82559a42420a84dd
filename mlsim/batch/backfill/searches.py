"""Where the search for a job's earliest place begins, if many are looked for in one pass.

While a pass reserves, less and less is free. So where a job did not fit, none fits that asks for as many
units or more, for as long or longer. For each class of jobs by units and duration it is noted from where on
the least job of the class would fit, and the search goes on from there: a segment is looked at once for each
class, and not for each job.
"""

from __future__ import annotations

import numpy as np

from mlsim._jit import leaf_kernel
from mlsim.batch.backfill.classes import duration_class, least_of, shortest_of, size_of
from mlsim.batch.backfill.profile import earliest_counted, earliest_in
from mlsim.batch.columns.columns import FIRST, Columns
from mlsim.batch.columns.times import reserved_time
from mlsim.batch.room.room import Room, asked, in_room

__all__ = ["begin_searches", "earliest"]


@leaf_kernel
def begin_searches(columns: Columns) -> None:
    """Begin to look for places in a profile in which only less will be free."""
    columns.searched_classes[:] = 0


@leaf_kernel
def _least_place(units: int, duration: float, columns: Columns) -> int:
    """Find the first segment with which the least job fits that is in the class of such a one."""
    size, lasts = size_of(units), duration_class(duration)
    bit = np.int64(1) << np.int64(lasts)
    first = columns.counts[FIRST]
    if columns.searched_classes[size] & bit:
        first = columns.searched[size, lasts]
    columns.searched_classes[size] |= bit
    first = earliest_counted(least_of(size), shortest_of(lasts), first, columns)
    columns.searched[size, lasts] = first
    return int(first)


@in_room
def earliest(slot: int, columns: Columns, room: Room) -> int:
    """Find the first segment from which on a job fits for as long as it asks for room; END if never.

    The room notes the units.
    """
    first = _least_place(asked(slot, columns, room), reserved_time(slot, columns), columns)
    return earliest_in(slot, first, np.inf, columns, room)
