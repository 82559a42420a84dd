"""The jobs in the system, as columns."""

from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from mlsim.record import JobState
from mlsim.workload.workload_jobs import JobBlock


class _Columns:
    """Columns in the order in which they are declared; a kernel knows each by its place."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.of_block: list[str] = []

    def column(self, name: str, *, of_block: bool = False) -> int:
        """Declare a column, ``of_block`` if blocks of jobs have it; return its place."""
        self.names.append(name)
        if of_block:
            self.of_block.append(name)
        return len(self.names) - 1


_ints, _floats = _Columns(), _Columns()

NUMBER = _ints.column("number")  # place in the log, by (submit time of the log, id), from 0
JOB_ID = _ints.column("job_id", of_block=True)
PROCESSORS = _ints.column("processors", of_block=True)
UNITS = _ints.column("units")  # what it asks of the machine: nodes or cores
CORES = _ints.column("cores")  # cores it got
HELD = _ints.column("held")  # units it still holds
FIRST_ROW = _ints.column("first_row")  # its rows in the occupancy table
ROWS = _ints.column("rows")
STATE = _ints.column("state")
BACKFILLED = _ints.column("backfilled")
USER = _ints.column("user", of_block=True)
GROUP = _ints.column("group", of_block=True)
EXECUTABLE = _ints.column("executable", of_block=True)
QUEUE = _ints.column("queue", of_block=True)
PARTITION = _ints.column("partition", of_block=True)
LOOP_ITERATIONS = _ints.column("loop_iterations", of_block=True)  # of its own loop; -1: those of the scenario
LOOP_LIMIT = _ints.column("loop_limit", of_block=True)
ACCOUNT = _ints.column("account")  # of fairshare: its owner
BEGIN_SEGMENT = _ints.column("begin_segment")  # of the profile: with which its reservation begins
END_SEGMENT = _ints.column("end_segment")  # and the one with which it, or the running job, is gone
SIZE = _ints.column("size")  # class of its units, where reservations are kept
PLACE = _ints.column("place")  # in the queue, of a job that may be started in this pass
NEXT_BESIDE = _ints.column("next_beside")  # the next job whose reservation begins with the same segment
DUE = _ints.column("due")  # list of the gaps with which it is to be looked at
ASKED = _ints.column("asked")  # of what the profile counts, while reservations on nodes are compressed
LOOK_SEGMENT = _ints.column("look_segment")  # where the first of the gaps begins with which it is looked at
QOS = _ints.column("qos", of_block=True)
LARGE = _ints.column("large")  # of classes: whether it goes after those that are taken for small
NODE_SET = _ints.column("node_set")  # the nodes that it may use; 0: all

SUBMIT = _floats.column("submit_time")  # when it came to the queue: its eligible time, if held before
RUN = _floats.column("run_time")
ESTIMATE = _floats.column("estimate")  # what the dispatcher sees: the walltime, or a prediction up to it
START = _floats.column("start_time")
END = _floats.column("end_time")
EXPECTED = _floats.column("expected_end")  # start + estimate, or later where the estimate was corrected
KEY = _floats.column("key")  # the policy's key; smaller goes first
WALK_KEY = _floats.column("walk_key")  # the same for the order of backfilling
RESERVED = _floats.column("reserved")  # start that conservative backfilling has promised; NaN for none
PLANNED = _floats.column("planned_end")  # forecast of the applications
WALLTIME = _floats.column("walltime")  # what the user asked; the limit of its run time
LOOK_UNTIL = _floats.column("look_until")  # when the last of these gaps ends
WITHDRAWAL = _floats.column("withdraw_time")  # when it leaves unless it has started; infinity: never

INTS: Final = tuple(_ints.names)
FLOATS: Final = tuple(_floats.names)

_INT_INDEX = {name: i for i, name in enumerate(INTS)}
_FLOAT_INDEX = {name: i for i, name in enumerate(FLOATS)}
_FROM_BLOCK = tuple(_ints.of_block)


class Accounts(Protocol):
    """Mapping of jobs to usage accounts."""

    def of(self, jobs: JobBlock, /) -> NDArray[np.int64]:
        """Return the account of each job."""
        ...


class JobTable:
    """Columns of the jobs in the system, ``ints`` and ``floats``; times in seconds, NaN for "not yet"."""

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
        """Fill slots with a block of jobs in arrival order; return them in the block's order."""
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
        self.floats[WITHDRAWAL, slots] = block.withdrawals()
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
