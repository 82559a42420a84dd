"""The state of the batch level: jobs, queue, running jobs, nodes; arrays that the kernels change."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mlsim.batch import arrays as at
from mlsim.batch.arrays import EARLY, FREE, HINT, N_COUNTS, N_RULES, QUEUED, RUNNING, USED_ROWS, Arrays
from mlsim.batch.backfill import reserve
from mlsim.batch.dispatch import enter_queue, instant
from mlsim.batch.fairshare import N_SHARES, Accounts
from mlsim.batch.occupancy import COUNT, FINISH, NODE, RELEASED, OccupancyLog
from mlsim.batch.policies import CODES, parameters_of
from mlsim.batch.requests import Requests
from mlsim.batch.steps import end_job, release_row, return_node
from mlsim.batch.table import FIRST_ROW, HELD, NUMBER, ROWS, START, UNITS, JobTable
from mlsim.platform import Machine
from mlsim.record import Solves
from mlsim.scenario import Backfill, BatchConfig, Policy, TieOrder
from mlsim.workload.jobs import JobBlock

__all__ = ["BatchState", "rules_of"]

Ints = NDArray[np.int64]

_BACKFILL = {
    Backfill.NONE: at.NONE,
    Backfill.GREEDY: at.GREEDY,
    Backfill.EASY: at.EASY,
    Backfill.CONSERVATIVE: at.CONSERVATIVE,
}


def rules_of(config: BatchConfig, exclusive: bool, merge: bool, nodes: bool) -> Ints:
    """Give the rules as the kernels read them.

    Parameters
    ----------
    config
        The ``batch`` section.
    exclusive
        Whether nodes are given whole.
    merge
        Whether occupancy rows of neighbouring nodes are merged.
    nodes
        Whether it matters which nodes a job gets; units are only counted if not.
    """
    rules = np.zeros(N_RULES, np.int64)
    rules[at.POLICY] = CODES[config.ordering.value]
    rules[at.ORDER] = CODES[(config.backfill_order or config.ordering).value]
    rules[at.BACKFILL] = _BACKFILL[config.backfill]
    rules[at.RESERVATIONS] = config.reservations if config.backfill is Backfill.EASY else 1
    rules[at.EXCLUSIVE], rules[at.MERGE], rules[at.NODES] = exclusive, merge, nodes
    rules[at.PER_EVENT] = config.ties is TieOrder.PER_EVENT
    return rules


class BatchState:
    """What there is at one time, and the steps that change it.

    Parameters
    ----------
    machine
        The nodes.
    config
        Policy and backfilling.
    requests
        How jobs ask for room.
    nodes_one_by_one
        Whether nodes may be given back one by one, so that each has an occupancy row of its own.

    Attributes
    ----------
    table, occupancy
        Jobs in the system, and which nodes each one holds or held.
    rejected
        Slots, with reasons, of jobs that a dispatcher turned away; the batch system empties it.
    arrays
        All of it as the kernels see it, until arrays grow.
    """

    def __init__(
        self, machine: Machine, config: BatchConfig, requests: Requests, nodes_one_by_one: bool
    ) -> None:
        self._accounts = Accounts(config.fairshare) if Policy.FAIRSHARE in config.policies else None
        self.table = JobTable(self._accounts)
        self.occupancy = OccupancyLog()
        self.requests = requests
        self._rules = rules_of(config, requests.exclusive, merge=not nodes_one_by_one, nodes=True)
        self._parameters = parameters_of(config)
        self._cores = machine.cores
        self._free = machine.cores.copy()
        self._down = np.zeros(machine.n_nodes, np.int64)
        self._counts = np.zeros(N_COUNTS, np.int64)
        self._counts[FREE] = requests.capacity
        self._ended = np.empty(requests.capacity, np.int64)
        self._queue = self._running = self.started = np.empty(0, np.int64)
        self.rejected: list[tuple[int, str]] = []
        self.make_room()

    @property
    def n_waiting(self) -> int:
        """Jobs in the queue."""
        return int(self._counts[QUEUED])

    @property
    def n_free(self) -> int:
        """Units that no job holds."""
        return int(self._counts[FREE])

    @property
    def n_rows(self) -> int:
        """Occupancy rows written so far."""
        return int(self._counts[USED_ROWS])

    @property
    def head(self) -> int:
        """Slot of the first waiting job."""
        return int(self._queue[0])

    def running(self) -> list[int]:
        """Slots of the running jobs, in order of expected end."""
        slots: list[int] = self._running[: self._counts[RUNNING]].tolist()
        return slots

    def number(self, slot: int) -> int:
        """Which job is in a slot, as its order of arrival."""
        return int(self.table.ints[NUMBER, slot])

    def is_waiting(self, slot: int, number: int) -> bool:
        """Whether that job is in that slot and has not started."""
        return self.number(slot) == number and math.isnan(self.table.floats[START, slot])

    def units(self, slot: int) -> int:
        """Units that a job asks for."""
        return int(self.table.ints[UNITS, slot])

    def held(self, slot: int) -> int:
        """Units that a job holds."""
        return int(self.table.ints[HELD, slot])

    def rows_of(self, slot: int) -> range:
        """Occupancy rows that a job got at its start."""
        first = int(self.table.ints[FIRST_ROW, slot])
        return range(first, first + int(self.table.ints[ROWS, slot]))

    def is_held(self, row: int) -> bool:
        """Whether the nodes of an occupancy row are still with its job."""
        return math.isnan(self.occupancy.floats[FINISH, row])

    def holds(self, slot: int, node: int) -> bool:
        """Whether a job holds part of a node by the rows of its start."""
        rows = self.rows_of(slot)
        first = self.occupancy.ints[NODE, rows.start : rows.stop]
        count = self.occupancy.ints[COUNT, rows.start : rows.stop]
        still = np.isnan(self.occupancy.floats[FINISH, rows.start : rows.stop])
        return bool((still & (first <= node) & (node < first + count)).any())

    def is_free(self, node: int) -> bool:
        """Whether nobody holds any part of a node and it is in use."""
        return bool(self._free[node] == self._cores[node] and not self._down[node])

    def never_fit(self, slots: Ints, block: JobBlock) -> dict[str, NDArray[np.bool_]]:  # noqa: ARG002
        """Give which of the jobs that come no set of nodes could hold, by reason."""
        too_wide = self.table.ints[UNITS, slots] > self.requests.capacity
        return {"asks for more than the whole machine has": too_wide}

    def room_for(self, slot: int) -> int:  # noqa: ARG002  # all units are alike
        """Units of a job that fit now; more than it asks for, if there is more room."""
        return self.n_free

    def happen(
        self, now: float, ended: list[int], arrivals: Ints, first: int, last: int, short_first: int
    ) -> int:
        """Let jobs end and arrive, then make a pass; the slots of those that start are in ``started``."""
        for k, slot in enumerate(ended):
            self._ended[k] = slot
        return instant(now, len(ended), self._ended, first, last, arrivals, short_first, *self.arrays)

    def enter_queue(self, now: float, arrivals: Ints, first: int, last: int) -> None:
        """Queue jobs without a pass."""
        enter_queue(now, first, last, arrivals, self.arrays)

    def end(self, slot: int, now: float) -> None:
        """Let a running job end without a pass."""
        end_job(slot, now, self.arrays)

    def release(self, slot: int, row: int, now: float) -> None:
        """Take the nodes of an occupancy row from a job that goes on."""
        release_row(slot, row, now, self.arrays)

    def end_returned(self, slot: int, row: int, now: float) -> None:
        """Take back, at its job's end, a node that the job had given up and got back."""
        self.release(slot, row, now)
        self.occupancy.ints[RELEASED, row] = 0

    def abandon_queue(self) -> list[int]:
        """Empty the queue of jobs that will never start; gives their slots."""
        slots: list[int] = self._queue[: self._counts[QUEUED]].tolist()
        self._counts[QUEUED] = 0
        return slots

    def give_back(self, slot: int, node: int, now: float) -> int:
        """Give a free node to a job that had released it; gives its occupancy row."""
        row = return_node(slot, node, now, self.arrays)
        self.make_room()
        return row

    def take_down(self, node: int) -> None:
        """Take a node that nobody holds out of use."""
        if self._down[node] == 0:
            self._counts[FREE] -= 1 if self.requests.exclusive else self._free[node]
            self._free[node] = 0
        self._down[node] += 1

    def bring_up(self, node: int) -> None:
        """Take a node back into use, if it has no other failure."""
        self._down[node] -= 1
        if self._down[node] == 0:
            self._free[node] = self._cores[node]
            self._counts[FREE] += 1 if self.requests.exclusive else self._free[node]
            self._counts[HINT] = min(int(self._counts[HINT]), node)
            self._counts[EARLY] = 1

    def reservation(self, slot: int, now: float) -> float:
        """When a waiting job could start, by estimates; infinity if that is not known."""
        if self.units(slot) <= self.n_free:
            return now
        time, _ = reserve(self.units(slot), now, self.arrays)
        return float(time)

    def solves(self) -> Solves:
        """Give how the passes of a dispatcher that plans went: here there is none."""
        return Solves.none()

    def make_room(self) -> None:
        """Let every array be large enough for the next pass, and remember where they are."""
        capacity = self.table.capacity
        if len(self._queue) < capacity:
            self._queue = _grown(self._queue, capacity)
            self._running = _grown(self._running, capacity)
            self._spare = np.empty(2 * capacity, np.int64)
            self.started = np.empty(capacity, np.int64)
            # Now, an overdue end, two for each waiting job, one for each running one.
            self._profile = np.empty(2 * capacity + 2), np.empty(2 * capacity + 2, np.int64)
        # A pass writes no more rows than there are units on the machine.
        self.occupancy.reserve(self.n_rows, self.requests.capacity + 1)
        self.row_limit = self.occupancy.ints.shape[1] - self.requests.capacity - 1
        self.arrays = Arrays(
            rules=self._rules,
            parameters=self._parameters,
            floats=self.table.floats,
            ints=self.table.ints,
            queue=self._queue,
            spare=self._spare,
            running=self._running,
            counts=self._counts,
            free=self._free,
            cores=self._cores,
            rows=self.occupancy.ints,
            times=self.occupancy.floats,
            shares=_NOBODY if self._accounts is None else self._accounts.shares,
            profile_times=self._profile[0],
            profile_free=self._profile[1],
            started=self.started,
        )


_NOBODY = np.empty((N_SHARES, 0))


def _grown(array: Ints, capacity: int) -> Ints:
    grown = np.empty(capacity, np.int64)
    grown[: len(array)] = array
    return grown
