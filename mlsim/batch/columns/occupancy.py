"""Which nodes each job holds: the growing columns that allocation writes and the records keep."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import apart_kernel, leaf_kernel
from mlsim.record import Occupancy
from mlsim.record.growing import GrowingArray, let_go

__all__ = ["OccupancyLog", "write_row", "write_rows"]

JOB, NODE, COUNT, NODE_CORES, RELEASED = range(5)
BEGIN, FINISH = range(2)
_N_INTS: Final = 5
_N_FLOATS: Final = 2
_BLOCK_ROWS: Final = 1 << 16


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
        self._ints = GrowingArray(np.int64, _N_INTS, capacity)
        self._floats = GrowingArray(np.float64, _N_FLOATS, capacity)
        self.ints: NDArray[np.int64] = self._ints.array
        self.floats: NDArray[np.float64] = self._floats.array

    def reserve(self, used: int, more: int) -> None:
        """Ensure capacity for ``more`` rows behind the ``used`` ones."""
        self._ints.reserve(used + more, used)
        self._floats.reserve(used + more, used)
        self.ints, self.floats = self._ints.array, self._floats.array

    def free_filed(self) -> None:
        """Free the memory of rows that are kept in files."""
        let_go(self.ints, self.floats)

    def record(self, used: int) -> Occupancy:
        """Return the first ``used`` rows as a table of records, which shares the columns."""
        released = np.empty(used, np.bool_)
        for first in range(0, used, _BLOCK_ROWS):
            rows = slice(first, min(first + _BLOCK_ROWS, used))
            released[rows] = self.ints[RELEASED, rows]
            self.free_filed()
        return Occupancy(
            job=self.ints[JOB, :used],
            node=self.ints[NODE, :used],
            count=self.ints[COUNT, :used],
            cores=self.ints[NODE_CORES, :used],
            start=self.floats[BEGIN, :used],
            end=self.floats[FINISH, :used],
            released=released,
        )


@leaf_kernel
def write_row(
    row: int,
    job: int,
    node: int,
    cores: int,
    now: float,
    rows: NDArray[np.int64],
    times: NDArray[np.float64],
) -> None:
    """Write that a job holds ``cores`` cores of a node from ``now`` on."""
    rows[JOB, row] = job
    rows[NODE, row] = node
    rows[COUNT, row] = 1
    rows[NODE_CORES, row] = cores
    rows[RELEASED, row] = 0
    times[BEGIN, row] = now
    times[FINISH, row] = np.nan


@apart_kernel
def write_rows(
    row: int,
    first_row: int,
    merge: bool,
    job: int,
    node: int,
    count: int,
    cores: int,
    now: float,
    rows: NDArray[np.int64],
    times: NDArray[np.float64],
) -> int:
    """Write that a job holds cores of each of some nodes; return one past the last row."""
    if not merge:
        for each in range(node, node + count):
            write_row(row, job, each, cores, now, rows, times)
            row += 1
        return row
    last = row - 1
    if last >= first_row and rows[NODE, last] + rows[COUNT, last] == node and rows[NODE_CORES, last] == cores:
        rows[COUNT, last] += count
        return row
    write_row(row, job, node, cores, now, rows, times)
    rows[COUNT, row] = count
    return row + 1
