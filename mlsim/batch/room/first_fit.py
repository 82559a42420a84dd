"""First-fit allocation: the first nodes, in the platform's order, that have room."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import leaf_kernel
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE, NODE_CORES, write_row

__all__ = ["first_fit", "take_back"]


@leaf_kernel
def first_fit(
    job: int,
    units: int,
    exclusive: bool,
    merge: bool,
    now: float,
    first_row: int,
    hint: int,
    free: NDArray[np.int64],
    cores: NDArray[np.int64],
    rows: NDArray[np.int64],
    times: NDArray[np.float64],
) -> tuple[int, int, int]:
    """Allocate the units of a job; the caller has made sure that there are enough.

    Parameters
    ----------
    job
        Number of the job, for the occupancy rows.
    units
        Nodes if ``exclusive``, else cores.
    exclusive
        Whether nodes are given whole.
    merge
        Whether neighbouring nodes with as many cores share one row. They cannot where nodes may be
        released one by one.
    now
        Start time in seconds.
    first_row, rows, times
        Where to write occupancy rows.
    hint
        No node before this one has room.
    free, cores
        Free and all cores of each node; ``free`` is updated.

    Returns
    -------
    row, taken, hint
        One past the last row written, cores taken, and the new hint.
    """
    row, taken, node = first_row, 0, hint
    while units > 0:
        available = free[node]
        if available == 0 or (exclusive and available < cores[node]):
            node += 1
            continue
        take = available if exclusive else min(available, units)
        free[node] -= take
        units -= 1 if exclusive else take
        taken += take
        last = row - 1
        if (
            merge
            and last >= first_row
            and rows[NODE, last] + rows[COUNT, last] == node
            and rows[NODE_CORES, last] == take
        ):
            rows[COUNT, last] += 1
        else:
            write_row(row, job, node, take, now, rows, times)
            row += 1
        node += 1
    while hint < len(free) and free[hint] == 0:
        hint += 1
    return row, taken, hint


@leaf_kernel
def take_back(
    row: int,
    now: float,
    free: NDArray[np.int64],
    rows: NDArray[np.int64],
    times: NDArray[np.float64],
) -> int:
    """End one occupancy row and free its nodes; give the number of cores that came back."""
    times[FINISH, row] = now
    held = rows[NODE_CORES, row]
    for node in range(rows[NODE, row], rows[NODE, row] + rows[COUNT, row]):
        free[node] += held
    return int(held * rows[COUNT, row])
