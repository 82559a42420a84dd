"""Jobs that are withdrawn: they leave the queue at the time that their log has, unless they have started."""

from __future__ import annotations

import numpy as np

from mlsim._jit import apart_kernel, kernel, leaf_kernel
from mlsim.batch.columns.columns import EARLY, FRONT, PLACES, UNSORTED, Columns, columns_at
from mlsim.batch.columns.packing import FloatColumns, Ints
from mlsim.batch.columns.table import RESERVED, START, STATE, WITHDRAWAL
from mlsim.batch.columns.versions import forget_profile
from mlsim.batch.order.queue import find_next_head, leave
from mlsim.record import JobState

__all__ = ["next_withdrawal", "skip_started", "withdraw", "withdraw_one", "withdrawals_in_order"]

_WITHDRAWN = int(JobState.WITHDRAWN)


@leaf_kernel
def skip_started(first: int, withdrawals: Ints, columns: Columns) -> int:
    """Return the place of the first withdrawal, from a place on, of a job that has not started."""
    while first < len(withdrawals) and not np.isnan(columns.floats[START, withdrawals[first]]):
        first += 1
    return first


@leaf_kernel
def next_withdrawal(first: int, withdrawals: Ints, columns: Columns) -> float:
    """Return when the job at a place is withdrawn [s]; infinity if there is none."""
    return float(columns.floats[WITHDRAWAL, withdrawals[first]]) if first < len(withdrawals) else np.inf


@apart_kernel
def withdrawals_in_order(slots: Ints, floats: FloatColumns) -> Ints:
    """Return the slots of the jobs that are withdrawn if they wait for too long, in order of that time."""
    coming = slots[floats[WITHDRAWAL][slots] < np.inf]
    ordered: Ints = coming[np.argsort(floats[WITHDRAWAL][coming], kind="mergesort")]
    return ordered


@apart_kernel
def withdraw(slot: int, columns: Columns) -> None:
    """Take a waiting job out of the queue for good; what was reserved for it is free."""
    place = columns.counts[FRONT]
    while place < columns.counts[PLACES] and columns.queue[place] != slot:
        place += 1
    if place < columns.counts[PLACES]:
        leave(place, columns)
        if columns.counts[UNSORTED]:
            find_next_head(columns)
    if columns.floats[RESERVED, slot] < np.inf:
        columns.counts[EARLY] = 1
        forget_profile(columns)
    columns.floats[RESERVED, slot] = np.nan
    columns.ints[STATE, slot] = _WITHDRAWN


@kernel
def withdraw_one(slot: int, columns: int) -> None:
    """Do what :func:`withdraw` does, for Python, which gives the address of the columns."""
    withdraw(slot, columns_at(columns))
