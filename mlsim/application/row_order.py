"""Compiled ordering of chunk rows that start at the same time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim._jit import kernel

__all__ = ["break_ties"]

_MOST_MOVES = 200
"""For each row; beyond, sorting by insertion takes too long."""


@kernel
def break_ties(order: Ints, start: Floats, pe: NDArray[np.int32]) -> bool:
    """Order rows of equal start by PE, keeping the order of a PE's own.

    Parameters
    ----------
    order
        Rows in order of start; changed.
    start
        In that order.
    pe
        Of the rows as they are.

    Returns
    -------
    bool
        Whether that is done; where too many rows would have to move, it is not.
    """
    moves = _MOST_MOVES * len(order)
    for place in range(1, len(order)):
        row, to = order[place], place
        while to > 0 and start[to - 1] == start[place] and pe[order[to - 1]] > pe[row]:
            order[to] = order[to - 1]
            to -= 1
        order[to] = row
        moves -= place - to
        if moves < 0:
            return False
    return True
