"""The order of chunk rows: by (start, PE), those of a PE that start together as they happened."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim._jit import kernel

__all__ = ["order_of"]

_FEW, _MANY = 4, 200
"""Places that a row moves, on average; beyond, sorting by insertion takes longer than sorting otherwise."""


def order_of(start: Floats, pe: NDArray[np.int32]) -> Ints:
    """Return the rows in order.

    Event loops leave rows that hardly have to move, or, where nodes run ahead of each other, long stretches
    in order.

    Parameters
    ----------
    start, pe
        Of the rows as they happened.
    """
    order = np.arange(len(start))
    if not _insert(order, start, pe, _FEW):
        order = np.argsort(start, kind="stable")
        if not _insert(order, start, pe, _MANY):
            order = np.lexsort((pe, start))
    return order


@kernel
def _insert(order: Ints, start: Floats, pe: NDArray[np.int32], most: int) -> bool:
    """Sort rows by insertion, from an order in which those of a PE that start together are as they happened.

    Return whether that is done; where rows would move by more places than ``most``, it is not.
    """
    moves = 0
    for place in range(1, len(order)):
        row, to = order[place], place
        time, who = start[row], pe[row]
        while to > 0:
            other = order[to - 1]
            if start[other] < time or (start[other] == time and pe[other] <= who):
                break
            order[to] = other
            to -= 1
        order[to] = row
        moves += place - to
        if moves > most * (place + 16):
            return False
    return True
