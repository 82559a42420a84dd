"""The state of the batch level at one time: jobs, machine room, passes; and the steps that change it."""

import math
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mlsim._jit import kernel
from mlsim._runtime.arrays import Ints, Mask
from mlsim.batch.backfill.conservative import next_reservation
from mlsim.batch.backfill.easy import find_reservation
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import columns_at
from mlsim.batch.columns.occupancy import NODE, RELEASED, find_holders
from mlsim.batch.columns.running_jobs import running_slots
from mlsim.batch.dispatch.passes import head_slot, queue_arrivals
from mlsim.batch.order.queue import withdraw_one
from mlsim.batch.room import room as machine
from mlsim.batch.room.pool import AnnouncedDrain
from mlsim.batch.room.room import RoomAddress, room_of
from mlsim.batch.room.unit_requests import Requests, without_start
from mlsim.batch.state.batch_columns import BatchColumns
from mlsim.batch.state.expected_nodes import ExpectedNodes
from mlsim.coordination import Answer, Disturbance, Forecast, ReleaseRequest
from mlsim.record import JobState, Solves, empty
from mlsim.scenario import BatchConfig
from mlsim.scenario.words import Dispatcher
from mlsim.workload.workload_jobs import JobBlock

Attempt = tuple[int, int]  # number of a job, and how often it has started again


@kernel
def _end(slot: int, now: float, columns: int, room: RoomAddress) -> None:
    machine.end(slot, now, columns_at(columns), room_of(room))


@kernel
def _release_row(slot: int, row: int, now: float, columns: int, room: RoomAddress) -> None:
    machine.release_row(slot, row, now, columns_at(columns), room_of(room))


@kernel
def _return_node(slot: int, node: int, now: float, columns: int, room: RoomAddress) -> int:
    return machine.return_node(slot, node, now, columns_at(columns), room_of(room))


@kernel
def _reservation(slot: int, now: float, columns: int, room: RoomAddress) -> float:
    return find_reservation(slot, now, columns_at(columns), room_of(room))


class Applications(Protocol):
    """Starts the applications of jobs and forecasts them."""

    def launch(self, slot: int, at: float) -> Forecast:
        """Start the application of the job in this slot on the nodes it got."""
        ...

    def apply_change(self, slot: int, at: float, change: Disturbance, /) -> Forecast:
        """Apply a disturbance to an application and return its new forecast."""
        ...

    def request_release(self, slot: int, at: float, request: ReleaseRequest) -> tuple[Answer, Forecast]:
        """Request nodes of an application; return its answer and its forecast."""
        ...

    def finish(self, slot: int, at: float, state: JobState) -> None:
        """End the application of a job."""
        ...

    def requeue(self, slot: int, at: float, /) -> float:
        """End an attempt of a job that returns to the queue; return the PE-seconds it has computed."""
        ...

    def idle_share(self, slot: int, /) -> float:
        """Return the share of the job's node-seconds in which its nodes had run out of work."""
        ...


class MachineRoom(Protocol):
    """The units of the machine: the base of a pool of equal units, and of nodes by resources."""

    arrays: Any  # the room, as a tuple of arrays
    address: int  # at which kernels find the pointers to the arrays, until these grow
    holds_back: bool = False  # whether jobs hold parts of nodes out of use, which must not be allocated again
    _down: Ints  # for how many reasons each node is out of use

    _jobs: BatchColumns

    @property
    def there(self) -> RoomAddress:
        """Its address, for kernels."""
        ...

    def end(self, slot: int, now: float, /) -> None:
        """End a job: free what it still holds."""
        _end(slot, now, self._jobs.address, self.there)

    def release_row(self, slot: int, row: int, now: float, /) -> None:
        """Free the nodes of an occupancy row of a job that continues."""
        _release_row(slot, row, now, self._jobs.address, self.there)

    def return_node(self, slot: int, node: int, now: float, /) -> int:
        """Return a free node to a job that had released it; return the new occupancy row."""
        return _return_node(slot, node, now, self._jobs.address, self.there)

    def reservation(self, slot: int, now: float, /) -> float:
        """Return when a waiting job could start, by estimates, in s; infinity if that is not known."""
        return _reservation(slot, now, self._jobs.address, self.there)

    def ensure_capacity(self) -> None:
        """Make the arrays, those of jobs too, large enough for the next pass."""
        ...

    def never_fit(self, slots: Ints, block: JobBlock, /) -> dict[str, Mask]:
        """Store what jobs that will be submitted ask for; return those that never fit, by reason."""
        ...

    def room_for(self, slot: int, now: float, /) -> int:
        """Return the units of a job that could start now; possibly more than it asks for."""
        ...

    def is_free(self, node: int) -> bool:
        """Whether a node is in use, no job holds any part of it, and the power cap allows a job on it."""
        ...

    def is_down(self, node: int) -> bool:
        """Whether a node is out of use."""
        return bool(self._down[node])

    def are_uncounted(self, nodes: Ints, /) -> Mask:
        """Return which of some held nodes are not among the units that a job returns: those out of use."""
        return self._down[nodes] > 0

    def lacks_shared(self, _slot: int, /) -> bool:
        """Whether an amount that the machine has as a whole blocks a job, whatever nodes are free."""
        return False

    def may_use(self, _slot: int, _node: int, /) -> bool:
        """Whether a node is in the set of nodes that a job may use."""
        return True

    def may_take(self, _slot: int, _node: int, _now: float, /) -> bool:
        """Whether a job that runs, or would start now, may use a node, which no announced drain forbids."""
        return True

    def units_of_cores(self, slot: int, cores: int, /) -> int:
        """Return a job's units for a number of cores on one node."""
        ...

    def update_free(self) -> None:
        """Count the units that jobs have just freed, if kernels do not."""
        return

    def prepare_release(self, _slot: int, _row: int, /) -> None:
        """Prepare for the release of an occupancy row."""
        return

    def take_down(self, node: int, holders: Mapping[int, int]) -> None:
        """Remove a node from service; jobs keep their parts of it, which are not free after their ends.

        ``holders`` has the slots of the jobs that hold part of it, and the units each holds there.
        """
        ...

    def bring_up(self, node: int, holders: Mapping[int, int]) -> None:
        """Return a node to service, unless there is another reason for its outage."""
        ...

    def plan_around(self, _drains: Sequence[AnnouncedDrain], /) -> None:
        """Plan around these announced drains from now on; nodes out of service for them will return."""
        raise TypeError("a pool of units cannot plan around drains")

    def set_power_cap(self, watts: float) -> None:
        """Change the cap; running jobs continue."""
        ...


class Passes(Protocol):
    """Makes passes over the queue; the base of those on a pool and on nodes."""

    rejected: list[tuple[int, str]]  # slots and reasons, of a dispatcher; the batch system empties it

    def advance(
        self, now: float, ended: list[int], arrivals: Ints, first: int, last: int, released: Ints, /
    ) -> int:
        """Free the units of jobs that end, queue ``arrivals[first:last]``, make a pass; return the starts.

        ``released`` are the cores of each node that short jobs get first; empty: none.
        """
        ...

    def admit(self, _block: JobBlock) -> None:
        """Keep the columns of jobs that plugins see."""
        return

    def next_wake(self, _now: float, /) -> float:
        """Return the first time after now for which a dispatcher has asked, in s; infinity: never."""
        return math.inf

    def solves(self) -> Solves:
        """Return the statistics of the passes of a planning dispatcher."""
        return empty(Solves)


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run; its functions must be called before the run continues."""

    time: float  # simulated seconds
    done: int  # jobs that ended
    waiting: int
    running: int
    free_units: int
    nodes: Callable[[], str]  # a letter per node
    messages: Callable[[], list[dict[str, Any]]] = list  # the last coordination messages


class BatchState(BatchColumns):
    """Everything that handlers read and change: jobs, queue, occupancy, machine room, passes."""

    room: MachineRoom
    passes: Passes
    applications: Applications  # of the running jobs

    def __init__(
        self, config: BatchConfig, requests: Requests, n_nodes: int, merge: bool, most_rows: int
    ) -> None:
        super().__init__(config, requests.exclusive, merge, most_rows, requests.named)
        self._needs_start = config.dispatcher is Dispatcher.RECORDED
        self.requests, self.n_nodes = requests, n_nodes
        # Slots of jobs that enter the queue in the next pass: arrivals[first_arrival:last_arrival].
        self.arrivals = np.empty(0, np.int64)
        self.first_arrival = self.last_arrival = 0
        self.ending: list[int] = []  # slots of jobs that end now and hold their units up to the pass
        self.restarts: dict[int, int] = {}  # how often jobs have started again, by slot
        # Occupancy rows of the nodes that a job had released and got back: slot -> node -> row.
        self.returned: dict[int, dict[int, int]] = {}
        self.expected_nodes: ExpectedNodes | None = None  # by forecasts, where dispatchers see them
        self.all_submitted = False
        self.to_come: list[Sized] = []  # collections of jobs that may arrive when all are submitted

    def ensure_capacity(self) -> None:
        """Make every array large enough for the next pass."""
        self.room.ensure_capacity()

    # Jobs

    @property
    def n_waiting(self) -> int:
        """Jobs in the queue."""
        return int(self.counts[at.QUEUED])

    @property
    def n_running(self) -> int:
        """Jobs that run."""
        return int(self.counts[at.RUNNING])

    @property
    def n_free(self) -> int:
        """Units that no job holds."""
        return int(self.counts[at.FREE])

    @property
    def n_rows(self) -> int:
        """Occupancy rows written so far."""
        return int(self.counts[at.USED_ROWS])

    @property
    def jobs_to_come(self) -> bool:
        """Whether jobs will be submitted, or become eligible at a known time."""
        return not self.all_submitted or any(self.to_come)

    def head(self, now: float) -> int:
        """Return the slot of the waiting job that goes first."""
        return int(head_slot(now, self.address))

    def number(self, slot: int) -> int:
        """Return the place in the log of the job in a slot."""
        return int(self.table.ints[at.NUMBER, slot])

    def attempt(self, slot: int) -> Attempt:
        """Return the current attempt of the job in a slot."""
        return self.number(slot), self.restarts.get(slot, 0)

    def is_waiting(self, slot: int, number: int) -> bool:
        """Whether that job is in that slot and has not started."""
        withdrawn = self.table.ints[at.STATE, slot] == JobState.WITHDRAWN
        waits = math.isnan(self.table.floats[at.START, slot]) and not withdrawn
        return self.number(slot) == number and waits

    def units(self, slot: int) -> int:
        """Return the units that a job asks for."""
        return int(self.table.ints[at.UNITS, slot])

    def held(self, slot: int) -> int:
        """Return the units that a job holds."""
        return int(self.table.ints[at.HELD, slot])

    def rows_of(self, slot: int) -> range:
        """Return the occupancy rows that a job got at its start."""
        first = int(self.table.ints[at.FIRST_ROW, slot])
        return range(first, first + int(self.table.ints[at.ROWS, slot]))

    def holders(self, node: int) -> dict[int, int]:
        """Return the slots of the running jobs that hold part of a node, and the units of each there."""
        columns, running = self.columns, running_slots(self.columns)
        slots, cores = np.empty((2, len(running)), np.int64)
        n = find_holders(node, running, columns.ints, columns.rows, columns.times, slots, cores)
        found = zip(slots[:n].tolist(), cores[:n].tolist(), strict=True)
        holders = {slot: self.room.units_of_cores(slot, held) for slot, held in found}
        for slot, rows in self.returned.items():
            if node in rows and self.is_held(rows[node]):
                holders[slot] = 1
        return holders

    # Room

    def never_fit(self, slots: Ints, block: JobBlock) -> dict[str, Mask]:
        """Return, by reason, which of the jobs that will be submitted no set of nodes could hold."""
        if block.node_sets is not None and not self.requests.node_sets:
            raise ValueError("jobs have sets of nodes; allowed where Requests.node_sets is true")
        self.passes.admit(block)
        reasons = self.room.never_fit(slots, block)
        return reasons | without_start(block, reasons) if self._needs_start else reasons

    def node_letters(self) -> str:
        """Return a letter per node: ``.`` free, ``x`` out of use, ``#`` held, at least in part."""
        room = self.room
        return "".join(
            "x" if room.is_down(node) else "." if room.is_free(node) else "#" for node in range(self.n_nodes)
        )

    def holds_usable(self, slot: int, other: int) -> bool:
        """Whether a running job holds a node that another job may use."""
        held = [int(self.occupancy.ints[NODE, row]) for row in self.rows_of(slot) if self.is_held(row)]
        return any(self.room.may_use(other, node) for node in (*held, *self.returned.get(slot, ())))

    def will_come(self, row: int, slot: int, now: float) -> bool:
        """Whether the node of an occupancy row is held, and will be free for a waiting job after that."""
        node = int(self.occupancy.ints[NODE, row])
        return self.is_held(row) and not self.room.is_down(node) and self.room.may_take(slot, node, now)

    def take_down(self, node: int) -> None:
        """Remove a node from service."""
        self.change_room()
        self.room.take_down(node, self.holders(node))
        self._list_expected()

    def bring_up(self, node: int) -> None:
        """Return a node to service, unless there is another reason for its outage."""
        self.change_room()
        self.room.bring_up(node, self.holders(node))
        self._list_expected()

    def _list_expected(self) -> None:
        if self.expected_nodes is not None:
            self.expected_nodes.list_all()

    def plan_around(self, drains: Sequence[AnnouncedDrain]) -> None:
        """Plan around these announced drains from now on."""
        self.change_room()
        self.room.plan_around(drains)

    def set_power_cap(self, watts: float) -> None:
        """Change the cap; running jobs continue."""
        self.change_room()
        self.room.set_power_cap(watts)

    # The queue

    def allow_backfill(self, allows: bool) -> None:
        """Make the next passes backfill, or only start jobs from the queue's head."""
        self.rules[at.ALLOW_BACKFILL] = allows

    def enter_queue(self, now: float, arrivals: Ints, first: int, last: int) -> None:
        """Queue ``arrivals[first:last]`` without a pass."""
        queue_arrivals(now, first, last, arrivals, self.address)

    def enter_arrivals(self, now: float) -> None:
        """Queue the jobs that have arrived, without a pass."""
        self.enter_queue(now, self.arrivals, self.first_arrival, self.last_arrival)
        self.first_arrival = self.last_arrival

    def add_arrivals(self, slots: Ints) -> None:
        """Add jobs that enter the queue in the next pass."""
        pending = self.arrivals[self.first_arrival : self.last_arrival]
        self.arrivals = np.concatenate([pending, slots]) if len(pending) else slots
        self.first_arrival, self.last_arrival = 0, len(self.arrivals)

    def remove_arrival(self, slot: int) -> None:
        """Remove a job from those that enter the queue in the next pass, if it is among them."""
        arriving = self.arrivals[self.first_arrival : self.last_arrival]
        if slot in arriving:
            self.arrivals = arriving[arriving != slot]
            self.first_arrival, self.last_arrival = 0, len(self.arrivals)

    def empty_queue(self) -> list[int]:
        """Empty the queue of jobs that will never start; return their slots."""
        slots: list[int] = self.waiting().tolist()
        self.set_waiting([])
        return slots

    def next_reservation(self, now: float) -> float:
        """Return the first time after now that a waiting job has reserved, or a dispatcher has asked for."""
        promised = float(next_reservation(now, int(self.counts[at.PLACES]), self.queue, self.table.floats))
        return min(promised, self.passes.next_wake(now))

    @property
    def wakes(self) -> bool:
        """Whether passes may be due at times without events."""
        return bool(self.rules[at.ONE_ROUND]) or self.passes.next_wake(-math.inf) < math.inf

    # Steps between passes

    def end(self, slot: int, now: float) -> None:
        """End a running job without a pass."""
        self.room.end(slot, now)
        self.room.update_free()

    def requeue(self, slot: int, now: float) -> None:
        """Requeue a job that has ended."""
        table = self.table
        table.ints[[at.CORES, at.FIRST_ROW, at.ROWS, at.BACKFILLED, at.BEGIN_SEGMENT], slot] = 0
        table.floats[[at.START, at.END, at.EXPECTED, at.RESERVED, at.PLANNED], slot] = np.nan
        self.enter_queue(now, np.array([slot], np.int64), 0, 1)

    def withdraw(self, slot: int) -> None:
        """Remove a waiting job from the queue for good."""
        withdraw_one(slot, self.address)

    def release(self, slot: int, row: int, now: float) -> None:
        """Free the nodes of an occupancy row of a job that continues."""
        self.room.prepare_release(slot, row)
        self.room.release_row(slot, row, now)
        self.room.update_free()

    def return_node(self, slot: int, node: int, now: float) -> int:
        """Return a free node to a job that had released it; return its occupancy row."""
        row = self.room.return_node(slot, node, now)
        self.returned.setdefault(slot, {})[node] = row
        self.ensure_capacity()
        return row

    def end_returned(self, slot: int, now: float) -> None:
        """Free, at a job's end, the nodes that it had released and got back."""
        for row in self.returned.pop(slot, {}).values():
            if self.is_held(row):
                self.release(slot, row, now)
                self.occupancy.ints[RELEASED, row] = 0

    def progress(self, now: float, done: int) -> Progress:
        """Return the progress of a run, given the number of ended jobs."""
        return Progress(now, done, self.n_waiting, self.n_running, self.n_free, self.node_letters)
