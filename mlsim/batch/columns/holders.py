"""Who holds a node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE, NODE_CORES
from mlsim.batch.columns.table import FIRST_ROW, ROWS

__all__ = ["find_holders"]

Ints = NDArray[np.int64]


@kernel
def find_holders(
    node: int,
    running: Ints,
    ints: Ints,
    rows: Ints,
    times: NDArray[np.float64],
    slots: Ints,
    held: Ints,
) -> int:
    """Find the running jobs that hold part of a node by the rows of their start.

    Parameters
    ----------
    node
        Number of the node.
    running, ints, rows, times
        State of the batch level.
    slots, held
        Receive the slot of each such job, and how many cores of the node it holds.

    Returns
    -------
    int
        How many jobs there are.
    """
    n = 0
    for k in range(len(running)):
        slot = running[k]
        first = ints[FIRST_ROW, slot]
        for row in range(first, first + ints[ROWS, slot]):
            if rows[NODE, row] <= node < rows[NODE, row] + rows[COUNT, row] and np.isnan(times[FINISH, row]):
                slots[n], held[n] = slot, rows[NODE_CORES, row]
                n += 1
    return n
