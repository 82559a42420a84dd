"""The nodes that forecasts expect back before their jobs end, as reservations count them."""

from collections.abc import Callable

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.occupancy import FINISH, NODE, NODE_CORES, RELEASED, RELEASED_SOON
from mlsim.batch.state.batch_columns import BatchColumns


class ExpectedNodes:
    """Nodes, one per occupancy row, with the times at which running jobs are expected to release them.

    Nodes that are not among the units that a job returns (``are_uncounted``) are not listed.
    """

    def __init__(self, jobs: BatchColumns, most: int, are_uncounted: Callable[[Ints], Mask]) -> None:
        self._jobs, self._are_uncounted = jobs, are_uncounted
        self._rows, self._times = np.empty((2, 0), np.int64), np.empty(0)  # rows: of occupancy, and slots
        jobs.foreseen, jobs.foreseen_times = np.empty((2, most), np.int64), np.empty(most)

    def expect(self, slot: int, rows: Ints, times: Floats) -> None:
        """Expect a running job to release these rows at these times [s], and the others at its end."""
        self.forget(slot)
        self._rows = np.concatenate([self._rows, [rows, np.full(len(rows), slot)]], axis=1)
        self._times = np.concatenate([self._times, times])
        self.list_all()

    def forget(self, slot: int) -> None:
        """Expect all nodes of a job at its end."""
        mine = self._rows[1] == slot
        flags, rows = self._jobs.occupancy.ints[RELEASED], self._rows[0, mine]
        flags[rows[flags[rows] == RELEASED_SOON]] = 0
        self._jobs.table.ints[at.SOON, slot] = 0
        self._rows, self._times = self._rows[:, ~mine], self._times[~mine]

    def list_all(self) -> None:
        """List the nodes that are still held and in use, in order of time, for kernels."""
        jobs, ints = self._jobs, self._jobs.occupancy.ints
        order = np.lexsort((self._rows[0], self._times))
        order = order[np.isnan(jobs.occupancy.floats[FINISH, self._rows[0, order]])]
        (rows, slots), self._times = self._rows[:, order], self._times[order]
        self._rows = self._rows[:, order]
        there = ~self._are_uncounted(ints[NODE, rows])
        ints[RELEASED, rows] = np.where(there, RELEASED_SOON, 0)
        soon, units = jobs.table.ints[at.SOON], 1 if jobs.rules[at.EXCLUSIVE] else ints[NODE_CORES, rows]
        soon[slots] = 0
        np.add.at(soon, slots, there * units)
        n = jobs.counts[at.FORESEEN] = int(there.sum())
        jobs.foreseen[:, :n], jobs.foreseen_times[:n] = self._rows[:, there], self._times[there]
        jobs.change_room()
