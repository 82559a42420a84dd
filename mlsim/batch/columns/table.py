"""The jobs in the system, as columns: one slot for each job that waits or runs.

A slot is taken when a job is read from the workload and given back some time after the job has
ended, so memory follows the number of jobs in the system and not the length of the workload.
Whole-number columns are the rows of one array and real-number columns those of another, so that a
compiled pass takes two arguments and not twenty.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from mlsim.record import JobState
from mlsim.workload.jobs import JobBlock

__all__ = ["FLOATS", "INTS", "JobTable"]

INTS: Final = (
    "number",  # order of arrival, from 0
    "job_id",
    "processors",
    "units",  # what it asks of the machine: nodes or cores
    "cores",  # cores it got
    "held",  # units it still holds
    "first_row",  # its rows in the occupancy table
    "rows",
    "state",
    "backfilled",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "loop_iterations",  # of its own loop; -1: as the scenario says
    "loop_limit",
    "account",  # of fairshare: its owner
    "qos",
)
FLOATS: Final = (
    "submit_time",
    "run_time",
    "estimate",  # what the dispatcher sees: the walltime, or a prediction of at most that
    "start_time",
    "end_time",
    "expected_end",  # start + estimate, or later where the estimate was corrected
    "key",  # the policy's key; smaller goes first
    "walk_key",  # the same for the order of backfilling
    "reserved",  # start that conservative backfilling has promised; NaN for none
    "planned_end",  # when it will end, as the applications say
    "walltime",  # what the user asked; the limit of its run time
)

NUMBER, JOB_ID, PROCESSORS, UNITS, CORES, HELD, FIRST_ROW, ROWS, STATE, BACKFILLED = range(10)
EXECUTABLE = INTS.index("executable")
LOOP_ITERATIONS, LOOP_LIMIT = INTS.index("loop_iterations"), INTS.index("loop_limit")
ACCOUNT = INTS.index("account")
SUBMIT, RUN, ESTIMATE, START, END, EXPECTED, KEY, WALK_KEY, RESERVED, PLANNED, WALLTIME = range(11)

_INT_INDEX = {name: i for i, name in enumerate(INTS)}
_FLOAT_INDEX = {name: i for i, name in enumerate(FLOATS)}
_FROM_BLOCK = (
    *("job_id", "processors", "user", "group", "executable", "queue", "partition"),
    *("loop_iterations", "loop_limit", "qos"),
)


class Accounts(Protocol):
    """Whose usage a job counts to."""

    def of(self, jobs: JobBlock, /) -> NDArray[np.int64]:
        """Return the account of each job."""
        ...


class JobTable:
    """Columns of the jobs in the system.

    Parameters
    ----------
    accounts
        Gives each job the account of its owner; None where nobody compares usage.
    capacity
        Number of slots to begin with.

    Attributes
    ----------
    ints : ndarray of int64, shape (len(INTS), capacity)
        Whole-number columns.
    floats : ndarray of float64, shape (len(FLOATS), capacity)
        Real-number columns; times in seconds, NaN for "not yet".
    """

    def __init__(self, accounts: Accounts | None = None, capacity: int = 1024) -> None:
        self._accounts = accounts
        self.ints: NDArray[np.int64] = np.zeros((len(INTS), capacity), np.int64)
        self.floats: NDArray[np.float64] = np.full((len(FLOATS), capacity), np.nan)
        self._free = np.arange(capacity)[::-1]
        self._n_free = capacity
        self._arrivals = 0

    @property
    def capacity(self) -> int:
        """Number of slots."""
        return int(self.ints.shape[1])

    def column(self, name: str) -> NDArray[Any]:
        """Return one column by name, as a view."""
        view: NDArray[Any] = (
            self.ints[_INT_INDEX[name]] if name in _INT_INDEX else self.floats[_FLOAT_INDEX[name]]
        )
        return view

    def admit(self, block: JobBlock, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Take slots for a block of jobs in arrival order and fill in what is known of them.

        Parameters
        ----------
        block
            The jobs.
        units
            What each asks of the machine.

        Returns
        -------
        NDArray
            Their slots, in the block's order.
        """
        slots = self._claim_slots(len(block.job_id))
        self.ints[:, slots] = 0
        self.floats[:, slots] = np.nan
        for name in _FROM_BLOCK:
            self.ints[_INT_INDEX[name], slots] = getattr(block, name)
        self.ints[NUMBER, slots] = np.arange(self._arrivals, self._arrivals + len(slots))
        self.ints[UNITS, slots] = units
        self.ints[STATE, slots] = JobState.COMPLETED
        self.floats[SUBMIT, slots] = block.submit_time
        self.floats[RUN, slots] = block.run_time
        self.floats[ESTIMATE, slots] = self.floats[WALLTIME, slots] = block.estimate
        if self._accounts is not None:
            self.ints[ACCOUNT, slots] = self._accounts.of(block)
        self._arrivals += len(slots)
        return slots

    def free_slots(self, slots: NDArray[np.int64]) -> None:
        """Free the slots of jobs that have left the system."""
        self._free[self._n_free : self._n_free + len(slots)] = slots[::-1]
        self._n_free += len(slots)

    @property
    def n_free(self) -> int:
        """Number of slots that can be taken without growing."""
        return self._n_free

    def _claim_slots(self, count: int) -> NDArray[np.int64]:
        if count > self._n_free:
            self._grow(max(2 * self.capacity, self.capacity + count))
        self._n_free -= count
        return self._free[self._n_free : self._n_free + count][::-1].copy()

    def _grow(self, capacity: int) -> None:
        old = self.capacity
        self.ints = np.concatenate([self.ints, np.zeros((len(INTS), capacity - old), np.int64)], axis=1)
        self.floats = np.concatenate([self.floats, np.full((len(FLOATS), capacity - old), np.nan)], axis=1)
        free = np.empty(capacity, np.int64)
        free[: capacity - old] = np.arange(old, capacity)[::-1]
        free[capacity - old : capacity - old + self._n_free] = self._free[: self._n_free]
        self._free, self._n_free = free, self._n_free + capacity - old
