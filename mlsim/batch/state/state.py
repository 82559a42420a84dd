"""The state of the batch level: jobs, queue, running jobs, nodes; arrays that the kernels change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mlsim.batch.backfill.easy import reserve
from mlsim.batch.backfill.reservations import next_reservation
from mlsim.batch.columns import columns as at
from mlsim.batch.columns.columns import (
    EARLY,
    FREE,
    N_COUNTS,
    N_RULES,
    QUEUED,
    RUNNING,
    USED_ROWS,
    Columns,
)
from mlsim.batch.columns.holders import find_holders
from mlsim.batch.columns.occupancy import FINISH, NODE, NODE_CORES, RELEASED, OccupancyLog
from mlsim.batch.columns.packing import pack_pointers
from mlsim.batch.columns.running import add_running, remove_running
from mlsim.batch.columns.table import (
    BACKFILLED,
    CORES,
    END,
    EXPECTED,
    FIRST_ROW,
    HELD,
    NUMBER,
    PLANNED,
    RESERVED,
    ROWS,
    START,
    UNITS,
    JobTable,
)
from mlsim.batch.order.fairshare import N_SHARES, Accounts
from mlsim.batch.order.policies import CODES, parameters_of
from mlsim.batch.room.announced import AnnouncedDrain
from mlsim.batch.room.pool import HINT, N_POOL_COUNTS, Pool
from mlsim.batch.room.power import PowerCap
from mlsim.batch.room.requests import Requests
from mlsim.batch.room.steps import end_job, release_row, return_node
from mlsim.batch.state.passes import enter_queue, process_timestamp
from mlsim.platform import Machine
from mlsim.record import Solves
from mlsim.scenario import (
    Backfill,
    BatchConfig,
    Compression,
    EasyRule,
    OverrunRule,
    Policy,
    TieOrder,
)
from mlsim.workload.jobs import JobBlock

__all__ = ["BEYOND_CAP", "BatchState", "rules_of"]

Ints = NDArray[np.int64]

BEYOND_CAP = "asks for more than the power cap leaves"
"""Why a job is turned away."""

_BACKFILL = {
    Backfill.NONE: at.NONE,
    Backfill.GREEDY: at.GREEDY,
    Backfill.EASY: at.EASY,
    Backfill.CONSERVATIVE: at.CONSERVATIVE,
}
_EASY = {
    EasyRule.STANDARD: at.STANDARD,
    EasyRule.ACCASIM: at.ACCASIM,
    EasyRule.CQSIM: at.CQSIM,
    EasyRule.BATSCHED: at.BATSCHED,
}
_ON_PROFILE = 0
"""Reservations beside the head's, for which room is looked up in the profile of free units."""


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
    rules[at.RESERVATIONS] = 1
    if config.backfill is Backfill.EASY:
        easy = _EASY[config.easy]
        rules[at.RESERVATIONS] = _ON_PROFILE if easy == at.CQSIM else config.reservations
        rules[at.EASY_AS], rules[at.KEEPS] = easy, easy in (at.ACCASIM, at.BATSCHED)
    if config.backfill is Backfill.CONSERVATIVE:
        rules[at.KEEPS], rules[at.ONE_ROUND] = True, config.compression is Compression.ONE_ROUND
    rules[at.EXCLUSIVE], rules[at.MERGE], rules[at.NODES] = exclusive, merge, nodes
    rules[at.PER_EVENT] = config.ties is not TieOrder.DRAINED
    rules[at.ENDS_FIRST] = config.ties is TieOrder.ENDS_FIRST
    rules[at.KILLS] = config.on_overrun is OverrunRule.KILL
    rules[at.ALLOW_BACKFILL] = True
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
    cap
        How much power jobs may add; None: as much as they like.

    Attributes
    ----------
    table, occupancy
        Jobs in the system, and which nodes each one holds or held.
    rejected
        Slots, with reasons, of jobs that a dispatcher turned away; the batch system empties it.
    columns, pool
        All of it as the kernels see it, until arrays grow.
    """

    def __init__(
        self,
        machine: Machine,
        config: BatchConfig,
        requests: Requests,
        nodes_one_by_one: bool,
        cap: PowerCap | None = None,
    ) -> None:
        self._accounts = Accounts(config.fairshare) if Policy.FAIRSHARE in config.policies else None
        self.table = JobTable(self._accounts)
        self.occupancy = OccupancyLog()
        self.requests = requests
        self._rules = rules_of(config, requests.exclusive, merge=not nodes_one_by_one, nodes=True)
        self._parameters = parameters_of(config)
        self._cores = machine.cores
        self._free = machine.cores.copy()
        self._pool_counts = np.zeros(N_POOL_COUNTS, np.int64)
        self._down = np.zeros(machine.n_nodes, np.int64)
        # Cores that jobs still hold of nodes that are out of use.
        self._left_over = np.zeros(machine.n_nodes, np.int64)
        self._held_back = np.empty(0, np.int64)
        self._cap = cap
        self._withheld = 0  # units that are free, but not counted so, for the power they would take
        self._counts = np.zeros(N_COUNTS, np.int64)
        self._counts[FREE] = requests.capacity
        self._ended = np.empty(requests.capacity, np.int64)
        self._queue = self._running = self.started = np.empty(0, np.int64)
        self.rejected: list[tuple[int, str]] = []
        self.ensure_capacity()
        self._withhold()

    @property
    def n_waiting(self) -> int:
        """Jobs in the queue."""
        return int(self._counts[QUEUED])

    @property
    def n_running(self) -> int:
        """Jobs that run."""
        return int(self._counts[RUNNING])

    @property
    def n_free(self) -> int:
        """Units that no job holds."""
        return int(self._counts[FREE])

    @property
    def n_nodes(self) -> int:
        """Nodes of the machine."""
        return len(self._cores)

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

    def will_come(self, row: int, slot: int, now: float) -> bool:
        """Whether the node of an occupancy row is held, and will be free for a waiting job after that."""
        node = int(self.occupancy.ints[NODE, row])
        return self.is_held(row) and self._down[node] == 0 and self.may_take(slot, node, now)

    def holders(self, node: int) -> dict[int, int]:
        """Slots of the jobs that hold part of a node by the rows of their start, and the units of each."""
        n = int(self._counts[RUNNING])
        slots, cores = np.empty((2, n), np.int64)
        n = find_holders(
            node,
            self._running,
            n,
            self.table.ints,
            self.occupancy.ints,
            self.occupancy.floats,
            slots,
            cores,
        )
        units = np.ones(n, np.int64) if self.requests.exclusive else cores[:n]
        return dict(zip(slots[:n].tolist(), units.tolist(), strict=True))

    @property
    def holds_back(self) -> bool:
        """Whether jobs hold parts of nodes that are out of use, which must not be given on."""
        return len(self._held_back) > 0

    def is_free(self, node: int) -> bool:
        """Whether nobody holds any part of a node and it is in use."""
        return bool(self._free[node] == self._cores[node] and not self._down[node])

    # ResourceState reads what the jobs of the block ask for.
    def never_fit(self, slots: Ints, block: JobBlock) -> dict[str, NDArray[np.bool_]]:  # noqa: ARG002
        """Give which of the jobs that come no set of nodes could hold, by reason."""
        units = self.table.ints[UNITS, slots]
        too_wide = units > self.requests.capacity
        reasons = {"asks for more than the whole machine has": too_wide}
        if self._cap is not None:
            reasons[BEYOND_CAP] = (units > self._cap.largest) & ~too_wide
        return reasons

    def room_for(self, slot: int, now: float) -> int:  # noqa: ARG002  # all units are alike
        """Units of a job that fit now; more than it asks for, if there is more room."""
        return self.n_free

    def advance(
        self, now: float, ended: list[int], arrivals: Ints, first: int, last: int, released: Ints
    ) -> int:
        """Let jobs end and arrive, then make a pass; the slots of those that start are in ``started``."""
        if len(self._held_back) and self._rules[at.PER_EVENT] and not self._rules[at.ENDS_FIRST]:
            self._end_what_is_due(now)
        for k, slot in enumerate(ended):
            self._ended[k] = slot
        return process_timestamp(
            now, len(ended), self._ended, first, last, arrivals, released, self._packed, self._packed_pool
        )

    def allow_backfill(self, allows: bool) -> None:
        """Have the next passes backfill, or only start jobs from the queue's head."""
        self._rules[at.ALLOW_BACKFILL] = allows

    def _end_what_is_due(self, now: float) -> None:
        """Do here what a pass with ties per event does first: it must not use what is held back."""
        floats = self.table.floats
        for slot in self.running():
            if floats[EXPECTED, slot] <= now and floats[PLANNED, slot] == now:
                self.end(slot, now)

    def enter_queue(self, now: float, arrivals: Ints, first: int, last: int) -> None:
        """Queue jobs without a pass."""
        enter_queue(now, first, last, arrivals, self.columns)

    def end(self, slot: int, now: float) -> None:
        """Let a running job end without a pass."""
        end_job(slot, now, self.columns, self.pool)
        self._hold_back()

    def requeue(self, slot: int, now: float) -> None:
        """Put a job that has ended back into the queue."""
        table = self.table
        table.ints[[CORES, FIRST_ROW, ROWS, BACKFILLED], slot] = 0
        table.floats[[START, END, EXPECTED, RESERVED, PLANNED], slot] = np.nan
        self.enter_queue(now, np.array([slot], np.int64), 0, 1)

    def expect(self, slot: int, end: float) -> None:
        """Expect a running job to end at another time."""
        floats, ints, running = self.table.floats, self.table.ints, self._running
        n = int(self._counts[RUNNING])
        remove_running(slot, running, n, ints, floats)
        floats[EXPECTED, slot] = end
        add_running(slot, running, n - 1, ints, floats)

    def release(self, slot: int, row: int, now: float) -> None:
        """Take the nodes of an occupancy row from a job that goes on."""
        if self._down[self.occupancy.ints[NODE, row]]:
            # Units of a node that is out of use are not counted, neither with the job nor as free.
            units = 1 if self.requests.exclusive else self.occupancy.ints[NODE_CORES, row]
            self.table.ints[HELD, slot] += units
            self._counts[FREE] -= units
        release_row(slot, row, now, self.columns, self.pool)
        self._hold_back()

    def end_returned(self, slot: int, row: int, now: float) -> None:
        """Take back, at its job's end, a node that the job had given up and got back."""
        self.release(slot, row, now)
        self.occupancy.ints[RELEASED, row] = 0

    def empty_queue(self) -> list[int]:
        """Empty the queue of jobs that will never start; gives their slots."""
        slots: list[int] = self._queue[: self._counts[QUEUED]].tolist()
        self._counts[QUEUED] = 0
        return slots

    def give_back(self, slot: int, node: int, now: float) -> int:
        """Give a free node to a job that had released it; gives its occupancy row."""
        row = return_node(slot, node, now, self.columns, self.pool)
        self.ensure_capacity()
        return row

    def take_down(self, node: int, holders: Mapping[int, int]) -> None:
        """Take a node out of use; what jobs hold of it they keep, but it does not come back at their ends.

        Parameters
        ----------
        node
            Number of the node.
        holders
            Slots of the jobs that hold part of it, and the units each holds there.
        """
        if self._down[node] == 0:
            for slot, units in holders.items():
                self.table.ints[HELD, slot] -= units
            self._left_over[node] = self._cores[node] - self._free[node]
            self._counts[FREE] -= self._free_units(node)
            self._free[node] = 0
        self._down[node] += 1
        self._held_back = np.flatnonzero(self._left_over)
        self._withhold()

    def bring_up(self, node: int, holders: Mapping[int, int]) -> None:
        """Take a node back into use, if there is no other reason for it to be out of use.

        Parameters
        ----------
        node, holders
            As when it was taken down; those who have left since are not among them.
        """
        self._down[node] -= 1
        if self._down[node] == 0:
            for slot, units in holders.items():
                self.table.ints[HELD, slot] += units
            self._free[node] = self._cores[node] - self._left_over[node]
            self._counts[FREE] += self._free_units(node)
            self._pool_counts[HINT] = min(int(self._pool_counts[HINT]), node)
            self._counts[EARLY] = 1
            self._left_over[node] = 0
        self._held_back = np.flatnonzero(self._left_over)
        self._withhold()

    # Only ResourceState, which is chosen where a drain is announced, can keep jobs off some nodes.
    def know_of(self, drains: Sequence[AnnouncedDrain]) -> None:
        """Plan around these announced drains from now on."""
        raise NotImplementedError("a pool of units cannot plan around drains")

    def may_take(self, slot: int, node: int, now: float) -> bool:  # noqa: ARG002  # nothing is announced
        """Whether no announced drain of a node keeps a job off it."""
        return True

    def _free_units(self, node: int) -> int:
        """Units of a node in use that nobody holds."""
        if self.requests.exclusive:
            return int(self._free[node] == self._cores[node])
        return int(self._free[node])

    def _hold_back(self) -> None:
        """Keep from the next jobs what jobs have left of nodes that are out of use."""
        if len(self._held_back):
            nodes = self._held_back
            self._left_over[nodes] -= self._free[nodes]
            self._free[nodes] = 0
            self._held_back = nodes[self._left_over[nodes] > 0]
            self._withhold()

    def set_power_cap(self, watts: float) -> None:
        """Have another cap from now on; what runs goes on."""
        assert self._cap is not None
        self._cap.watts = watts
        self._withhold()

    def _withhold(self) -> None:
        """Count as free no more units than the power cap leaves; below 0 where jobs hold more than that."""
        if self._cap is None:
            return
        in_use, exclusive = self._down == 0, self.requests.exclusive
        units = np.count_nonzero(in_use) if exclusive else int(self._cores[in_use].sum())
        left_over = len(self._held_back) if exclusive else int(self._left_over.sum())
        allowed = self._cap.units(in_use | (self._left_over > 0)) - left_over
        withheld = max(0, int(units) - allowed)
        if withheld < self._withheld:
            self._counts[EARLY] = 1
        self._counts[FREE] += self._withheld - withheld
        self._withheld = withheld

    def reservation(self, slot: int, now: float) -> float:
        """When a waiting job could start, by estimates; infinity if that is not known."""
        if self.units(slot) <= self.n_free:
            return now
        return float(reserve(slot, now, self.columns, self.pool))

    def next_reservation(self, now: float) -> float:
        """When a waiting job has been promised to start, at the earliest after now; infinity: none has."""
        return float(next_reservation(now, self._counts[QUEUED], self._queue, self.table.floats))

    @property
    def wakes(self) -> bool:
        """Whether reservations may come at which nothing else happens."""
        return bool(self._rules[at.ONE_ROUND])

    def solves(self) -> Solves:
        """Give how the passes of a dispatcher that plans went: here there is none."""
        return Solves.none()

    def ensure_capacity(self) -> None:
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
        self.columns = Columns(
            rules=self._rules,
            parameters=self._parameters,
            floats=self.table.floats,
            ints=self.table.ints,
            queue=self._queue,
            spare=self._spare,
            running=self._running,
            counts=self._counts,
            rows=self.occupancy.ints,
            times=self.occupancy.floats,
            shares=_NOBODY if self._accounts is None else self._accounts.shares,
            profile_times=self._profile[0],
            profile_free=self._profile[1],
            started=self.started,
        )
        self.pool = Pool(self._free, self._cores, self._pool_counts)
        self._packed, self._packed_pool = pack_pointers(self.columns), pack_pointers(self.pool)


_NOBODY = np.empty((N_SHARES, 0))


def _grown(array: Ints, capacity: int) -> Ints:
    grown = np.empty(capacity, np.int64)
    grown[: len(array)] = array
    return grown
