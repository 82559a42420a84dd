"""Which nodes each job holds: the growing columns that allocation writes and the records keep."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mlsim.record import Occupancy

__all__ = ["OccupancyLog"]

JOB, NODE, COUNT, NODE_CORES, RELEASED = range(5)
BEGIN, FINISH = range(2)
_N_INTS: Final = 5
_N_FLOATS: Final = 2


class OccupancyLog:
    """Rows of "this job holds so many cores on each of these nodes", in order of start.

    Attributes
    ----------
    ints : ndarray of int64, shape (5, capacity)
        Job number, first node, number of nodes, cores on each, released early.
    floats : ndarray of float64, shape (2, capacity)
        Start and end in seconds; the end is NaN while the nodes are held.
    """

    def __init__(self, capacity: int = 1024) -> None:
        self.ints: NDArray[np.int64] = np.zeros((_N_INTS, capacity), np.int64)
        self.floats: NDArray[np.float64] = np.full((_N_FLOATS, capacity), np.nan)

    def reserve(self, used: int, more: int) -> None:
        """Make room for ``more`` rows behind the ``used`` ones."""
        capacity = self.ints.shape[1]
        if used + more <= capacity:
            return
        grown = max(2 * capacity, used + more)
        ints = np.zeros((_N_INTS, grown), np.int64)
        floats = np.full((_N_FLOATS, grown), np.nan)
        ints[:, :used], floats[:, :used] = self.ints[:, :used], self.floats[:, :used]
        self.ints, self.floats = ints, floats

    def record(self, used: int) -> Occupancy:
        """Give the first ``used`` rows as a table of records."""
        return Occupancy(
            job=self.ints[JOB, :used].copy(),
            node=self.ints[NODE, :used].copy(),
            count=self.ints[COUNT, :used].copy(),
            cores=self.ints[NODE_CORES, :used].copy(),
            start=self.floats[BEGIN, :used].copy(),
            end=self.floats[FINISH, :used].copy(),
            released=self.ints[RELEASED, :used].astype(np.bool_),
        )
