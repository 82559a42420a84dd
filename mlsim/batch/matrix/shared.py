"""What the machine has as a whole, licences for instance: an amount that a job holds from start to end.

How much of each is free now, at the head's time, or throughout a stretch of the profile are rows of
``nodes.shared``; in a segment of the profile it is a row of ``nodes.shared_profile``. What a job asks for is
its row of ``nodes.shares``. Nodes that go back early take nothing of it with them. Where nothing is shared,
rows are empty.
"""

from __future__ import annotations

from typing import Final

from mlsim._jit import leaf_kernel
from mlsim.batch.columns.packing import IntColumns

__all__ = [
    "LATER",
    "NOW",
    "N_SHARED_ROWS",
    "WINDOW",
    "change",
    "copy",
    "is_sound",
    "narrow",
    "suffices",
]

NOW, LATER, WINDOW = range(3)
N_SHARED_ROWS: Final = 3


@leaf_kernel
def suffices(slot: int, row: int, shares: IntColumns, free: IntColumns) -> bool:
    """Whether there is as much as a job asks for."""
    for k in range(shares.shape[1]):  # noqa: SIM110  # a kernel knows no generators
        if shares[slot, k] > free[row, k]:
            return False
    return True


@leaf_kernel
def change(slot: int, row: int, sign: int, shares: IntColumns, free: IntColumns) -> None:
    """Free what a job asks for (sign 1), or take it (-1)."""
    for k in range(shares.shape[1]):
        free[row, k] += sign * shares[slot, k]


@leaf_kernel
def copy(row: int, free: IntColumns, source: int, of: IntColumns) -> None:
    """Have as much free in a row as in another, which may be of another array."""
    for k in range(free.shape[1]):
        free[row, k] = of[source, k]


@leaf_kernel
def narrow(row: int, free: IntColumns, segment: int, profile: IntColumns) -> None:
    """Have no more free in a row than there is in a segment."""
    for k in range(free.shape[1]):
        free[row, k] = min(free[row, k], profile[segment, k])


@leaf_kernel
def is_sound(segment: int, profile: IntColumns) -> bool:
    """Whether nothing is taken out of a segment that is not there."""
    for k in range(profile.shape[1]):  # noqa: SIM110  # a kernel knows no generators
        if profile[segment, k] < 0:
            return False
    return True
