"""The view of a dispatcher, and its answers executed."""

from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import borrowed, kernel
from mlsim._runtime.arrays import Ints
from mlsim.batch.allocators import node_arrays as at
from mlsim.batch.allocators import node_fit
from mlsim.batch.allocators.node_arrays import Nodes, free_of_each, nodes_at
from mlsim.batch.columns import job_columns as col
from mlsim.batch.columns.job_columns import Columns, IntColumn, JobTable, columns_at
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE, run_of
from mlsim.batch.columns.running_jobs import OVERDUE_GRACE, running_slots
from mlsim.batch.matrix import node_future
from mlsim.batch.matrix.node_allocation import NOW, units_in_row
from mlsim.batch.room import room as steps
from mlsim.batch.user_dispatch import OwnAllocator, OwnPolicy
from mlsim.batch.view import Drains, FurtherColumns, Reject, RunningJobs, Start, StateView, WaitingJobs, Wake
from mlsim.errors import InputError, user_code_error
from mlsim.platform import Machine
from mlsim.plugins import shielded
from mlsim.workload.workload_jobs import OwnColumns, joined_own


@kernel
def begin_job(slot: int, now: float, backfilled: bool, columns: int, nodes: int) -> None:
    """Start a job on the units that are placed for it."""
    steps.begin(slot, now, backfilled, columns_at(columns), nodes_at(nodes))


@kernel
def start_if_fits(slot: int, now: float, backfilled: bool, columns: int, nodes: int) -> bool:
    """Start a job if there is room for it now."""
    s, room = columns_at(columns), nodes_at(nodes)
    if not steps.find_room(slot, now, s, room):
        return False
    steps.begin(slot, now, backfilled, s, room)
    return True


@kernel
def units_on(slot: int, node: int, most: int, columns: int, nodes: int) -> int:
    """Return how many units of a job fit on a node now, at most ``most``."""
    room = nodes_at(nodes)
    return node_fit.units_on(slot, run_of(node, room.starts), most, room.free, columns_at(columns), room)


@kernel
def place_units(slot: int, units: IntColumn, nodes: int) -> None:
    """Place units of a job on each node, and choose their devices among those that are free."""
    room = nodes_at(nodes)
    at.place_on_each(borrowed(units), room)
    node_fit.give_devices(slot, room.free, room.starts, room)


@kernel
def drained_from(node: int, end: float, nodes: int) -> float:
    """Return when the first announced drain of a node begins, if that is before ``end``; else infinity."""
    return node_future.drained_from(node, end, nodes_at(nodes))


@kernel
def held_by(slots: IntColumn, columns: int, nodes: int) -> tuple[IntColumn, IntColumn, IntColumn]:
    """List the units of running jobs on nodes in use: place in ``slots``, node, units."""
    s, room = columns_at(columns), nodes_at(nodes)
    most = 0
    for k in range(len(slots)):
        most += s.ints[col.HELD, slots[k]]
    job, node, units = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    n = 0
    for k in range(len(slots)):
        slot = slots[k]
        first = s.ints[col.FIRST_ROW, slot]
        for row in range(first, first + s.ints[col.ROWS, slot]):
            if np.isnan(s.times[FINISH, row]):
                for held in range(s.rows[NODE, row], s.rows[NODE, row] + s.rows[COUNT, row]):
                    if room.capacity[held, 0] == 0:
                        continue
                    job[n], node[n], units[n] = k, held, units_in_row(slot, row, s, room)
                    n += 1
        if room.settings[at.RETURNED] > 0:
            for held in range(len(room.owner)):
                if room.owner[held] == slot + 1 and room.capacity[held, 0] > 0:
                    job[n], node[n], units[n] = k, held, 1
                    n += 1
    return job[:n].copy(), node[:n].copy(), units[:n].copy()


def keys_of(title: str, policy: OwnPolicy, now: float, jobs: WaitingJobs) -> NDArray[np.float64]:
    """Return a user-defined policy's keys of waiting jobs; InputError unless it gives one number per job."""
    answer = shielded(title, now, policy.key, now, jobs)
    try:
        keys = np.array(answer, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{title}: key gives {answer!r:.60} at {now:g} s; allowed: numbers") from error
    except BaseException as error:  # whatever an array of the user's own raises
        raise user_code_error(f"{title}: failed at {now:g} s", error) from error
    if keys.shape != (len(jobs),):
        raise InputError(
            f"{title}: key gives an array of shape {keys.shape} at {now:g} s; allowed: ({len(jobs)},), "
            "a key for each waiting job"
        )
    if np.isnan(keys).any():
        job = jobs.job_id[int(np.argmax(np.isnan(keys)))]
        raise InputError(f"{title}: the key of job {job} at {now:g} s is NaN; allowed: numbers")
    return keys


def _placement(place: str, nodes: Any, units: int, n_nodes: int) -> Ints:
    """Convert the node of each unit to the units of each node."""
    try:
        listed = np.asarray(list(nodes))
    except (TypeError, ValueError) as error:
        raise InputError(f"{place}: nodes are {nodes!r:.60}; allowed: the node of each unit") from error
    except BaseException as error:  # whatever a sequence of the user's own raises
        raise user_code_error(f"{place}: failed", error) from error
    if listed.shape != (units,) or not np.issubdtype(listed.dtype, np.integer):
        raise InputError(f"{place}: nodes are {nodes!r:.60}; allowed: {units} whole numbers, one a unit")
    if listed.min() < 0 or listed.max() >= n_nodes:
        wrong = listed[(listed < 0) | (listed >= n_nodes)][0]
        raise InputError(f"{place}: there is no node {wrong}; allowed: 0 to {n_nodes - 1}")
    return np.bincount(listed, minlength=n_nodes)


def later_time(title: str, at: object, now: float) -> float:
    """Return the time of a requested pass, if it is in the future."""
    if not isinstance(at, Real) or isinstance(at, bool) or not now < float(at) < np.inf:
        raise InputError(
            f"{title}: wants to be woken at {at!r:.60} at {now:g} s; allowed: seconds, more than now, finite"
        )
    return float(at)


class AllocatorCalls:
    """Calls a user-defined allocator for kernels, which cannot raise errors."""

    def __init__(self, title: str, allocator: OwnAllocator, exclusive: bool) -> None:
        self._title, self._allocator, self._exclusive = title, allocator, exclusive
        self.error: BaseException | None = None  # the first one
        self.job_ids: dict[int, int] = {}  # by number; for messages, as is the current time
        self.now = 0.0

    def __call__(
        self, number: int, units: int, request: Ints, free: Ints, capacity: Ints, placed: Ints
    ) -> bool:
        """Place units on nodes, in ``placed``; return whether all fit."""
        if self.error is not None:
            return False
        try:
            placement = self._ask(number, units, request, free, capacity)
        except BaseException as error:  # also a signal: kernels drop what is raised here
            self.error = error
            return False
        if placement is None:
            return False
        placed[:] = placement
        return True

    def _ask(self, number: int, units: int, request: Ints, free: Ints, capacity: Ints) -> Ints | None:
        copies = [array.copy() for array in (request, free, capacity)]
        place = f"{self._title}: job {self.job_ids.get(number, number)} at {self.now:g} s"
        nodes = shielded(place, self.now, self._allocator.allocate, units, *copies)
        if nodes is None:
            return None
        placement = _placement(place, nodes, units, len(free))
        over = (placement[:, None] * request > free).any(axis=1) | (self._exclusive & (placement > 1))
        if over.any():
            node = int(np.argmax(over))
            raise InputError(
                f"{place}: {placement[node]} units do not fit on node {node}; a unit asks for "
                f"{request.tolist()}, free are {free[node].tolist()}"
            )
        return placement

    def check(self) -> None:
        """Raise the first error."""
        if self.error is not None:
            raise self.error


class Answers:
    """Executes the answers of a dispatcher in one pass.

    ``waiting``: slots of the rows of ``view.waiting``; ``places``: addresses of ``columns`` and ``nodes``.
    """

    def __init__(
        self, title: str, now: float, waiting: Ints, columns: Columns, nodes: Nodes, places: tuple[int, int]
    ) -> None:
        self._title, self._now, self._waiting = title, now, waiting
        self._columns, self._nodes, self._places = columns, nodes, places
        self._done: set[int] = set()
        self.started: list[int] = []  # slots, in order
        self.rejected: list[tuple[int, str]] = []  # slots and reasons
        self.wakes: list[float] = []  # times of passes that the dispatcher asks for
        nodes.settings[at.REFUSED] = 0

    def carry_out(self, answers: Iterable[Start | Reject | Wake]) -> None:
        """Execute answers in their order; InputError with the job and the time if one cannot be."""
        try:
            each = iter(answers)
        except TypeError as error:
            raise InputError(
                f"{self._title}: gives {answers!r:.60} at {self._now:g} s; "
                "allowed: Start and Reject, any number"
            ) from error
        except BaseException as error:  # whatever an iterable of the user's own raises
            raise user_code_error(f"{self._title}: failed at {self._now:g} s", error) from error
        while True:
            answer = self._ask(next, each, None)
            if answer is None:
                return
            if isinstance(answer, Wake):
                self.wakes.append(later_time(self._title, answer.at, self._now))
                continue
            if not isinstance(answer, Start | Reject):
                raise InputError(
                    f"{self._title}: gives {answer!r:.60} at {self._now:g} s; allowed: Start(row) and "
                    "Reject(row, reason) of mlsim.batch.view, and Wake(at)"
                )
            slot = self._slot(answer)
            if isinstance(answer, Reject):
                self.rejected.append((slot, self._ask(str, answer.reason)))
            else:
                self._start(slot, answer)
                self.started.append(slot)

    def _ask(self, method: Callable[..., Any], *arguments: object) -> Any:
        """Call the user's code."""
        return shielded(self._title, self._now, method, *arguments)

    def _slot(self, answer: Start | Reject) -> int:
        row, n = answer.job, len(self._waiting)
        if not isinstance(row, Integral) or not 0 <= row < n:
            raise InputError(
                f"{self._title}: names row {row!r} at {self._now:g} s; "
                f"allowed: rows of view.waiting, 0 to {n - 1}"
            )
        slot = int(self._waiting[int(row)])
        if slot in self._done:
            raise InputError(f"{self._place(slot)}: is named twice in one pass; allowed: once")
        self._done.add(slot)
        return slot

    def _place(self, slot: int) -> str:
        return f"{self._title}: job {self._columns.ints[col.JOB_ID, slot]} at {self._now:g} s"

    def _start(self, slot: int, answer: Start) -> None:
        backfilled = self._ask(bool, answer.backfilled)
        self._check_shared(slot)
        if answer.nodes is None:
            if not start_if_fits(slot, self._now, backfilled, *self._places):
                kept_off = ", on nodes without an announced drain before it is expected to end"
                where = kept_off if self._nodes.settings[at.DRAINS] else ""
                raise InputError(f"{self._place(slot)}: does not fit on what is free{where}")
            return
        units, nodes = int(self._columns.ints[col.UNITS, slot]), self._nodes
        placement = _placement(self._place(slot), answer.nodes, units, len(nodes.free))
        for node in np.flatnonzero(placement).tolist():
            if len(nodes.node_sets) and not nodes.node_sets[self._columns.ints[col.NODE_SET, slot], node]:
                raise InputError(
                    f"{self._place(slot)}: may not use node {node}; see view.node_sets, and its row in "
                    "view.waiting.node_set"
                )
            fit = units_on(slot, node, units, *self._places)
            if placement[node] > fit:
                asks, free = nodes.request[slot].tolist(), _of_resources(free_of_each(nodes), nodes)
                free = free[node].tolist()
                raise InputError(
                    f"{self._place(slot)}: {placement[node]} of its units do not fit on node {node}, there "
                    f"is room for {fit}; a unit asks for {asks}, free are {free}"
                )
        self._check_drains(slot, placement)
        self._check_power(slot, placement)
        place_units(slot, placement, self._places[1])
        begin_job(slot, self._now, backfilled, *self._places)

    def _check_shared(self, slot: int) -> None:
        """Refuse a job that asks for more of a machine-wide amount than is free."""
        asks, free = self._nodes.shares[slot], self._nodes.shared[NOW]
        if (asks > free).any():
            raise InputError(
                f"{self._place(slot)}: asks for {asks.tolist()} of what the machine has as a whole, free are "
                f"{free.tolist()}; see view.shared"
            )

    def _check_power(self, slot: int, placement: Ints) -> None:
        """Refuse nodes that would exceed the power cap."""
        nodes = self._nodes
        if not nodes.settings[at.CAPPED]:
            return
        each = 1 if self._columns.rules[col.EXCLUSIVE] else int(nodes.request[slot, 0])
        added = each * int(placement @ nodes.power)
        if added > nodes.settings[at.POWER_LEFT]:
            raise InputError(
                f"{self._place(slot)}: adds {added / at.MICRO:g} W, and the power cap leaves "
                f"{round(max(nodes.settings[at.POWER_LEFT], 0) / at.MICRO, 3):g} W; see view.power_units"
            )

    def _check_drains(self, slot: int, placement: Ints) -> None:
        """Refuse nodes with a drain announced before the job's expected end."""
        end = self._now + float(self._columns.floats[col.ESTIMATE, slot])
        for node in np.flatnonzero(placement).tolist():
            drained = drained_from(node, end, self._places[1])
            if drained < np.inf:
                raise InputError(
                    f"{self._place(slot)}: an announced drain of node {node} begins at {drained:g} s, and "
                    f"the job is expected to end at {end:g} s; see view.drains"
                )


_LABELS = ("user", "group", "executable", "queue", "partition")


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only."""
    array.flags.writeable = False
    return array


class OwnOfJobs:
    """User-defined columns of all jobs that have arrived, by their numbers."""

    def __init__(self) -> None:
        self._parts: list[OwnColumns | None] = []

    def add(self, block: OwnColumns | None) -> None:
        """Add those of the next jobs."""
        if block is not None:
            self._parts.append(block)

    def of(self, numbers: Ints) -> FurtherColumns:
        """Return those of some jobs."""
        if len(self._parts) > 1:
            self._parts = [joined_own(self._parts)]
        known = self._parts[0] if self._parts else None
        if known is None:
            return FurtherColumns()
        return FurtherColumns({name: frozen(values[numbers]) for name, values in known.of.items()})


def _of_resources(amounts: Ints, nodes: Nodes) -> Ints:
    """Return a copy of amounts of nodes without those of each device."""
    return amounts[:, : nodes.request.shape[1]].copy()


def by_arrival(slots: Ints, table: JobTable) -> Ints:
    """Order slots by arrival in the queue, then by place in the log."""
    return slots[np.lexsort((table.ints[col.NUMBER, slots], table.floats[col.SUBMIT, slots]))]


def waiting_jobs(slots: Ints, table: JobTable, nodes: Nodes, own: OwnOfJobs) -> WaitingJobs:
    """Copy the columns of waiting jobs."""
    labels: dict[str, Any] = {name: frozen(table.column(name)[slots]) for name in _LABELS}
    return WaitingJobs(
        number=frozen(table.ints[col.NUMBER, slots]),
        job_id=frozen(table.ints[col.JOB_ID, slots]),
        submit_time=frozen(table.floats[col.SUBMIT, slots]),
        estimate=frozen(table.floats[col.ESTIMATE, slots]),
        processors=frozen(table.ints[col.PROCESSORS, slots]),
        units=frozen(table.ints[col.UNITS, slots]),
        request=frozen(nodes.request[slots]),
        **labels,
        columns=own.of(table.ints[col.NUMBER, slots]),
        shares=frozen(nodes.shares[slots]),
        node_set=frozen(table.ints[col.NODE_SET, slots]),
    )


def running_jobs(
    slots: Ints, now: float, table: JobTable, nodes: Nodes, places: tuple[int, int], own: OwnOfJobs
) -> RunningJobs:
    """Copy the columns of running jobs and their allocations; ``places`` are those of :func:`view_of`."""
    labels: dict[str, Any] = {name: frozen(table.column(name)[slots]) for name in _LABELS}
    expected = table.floats[col.START, slots] + table.floats[col.ESTIMATE, slots]
    job, node, units = held_by(slots, *places)
    return RunningJobs(
        number=frozen(table.ints[col.NUMBER, slots]),
        job_id=frozen(table.ints[col.JOB_ID, slots]),
        start_time=frozen(table.floats[col.START, slots]),
        expected_end=frozen(np.maximum(expected, now + OVERDUE_GRACE)),
        units=frozen(table.ints[col.HELD, slots]),
        request=frozen(nodes.request[slots]),
        **labels,
        held_job=frozen(job),
        held_node=frozen(node),
        held_units=frozen(units),
        columns=own.of(table.ints[col.NUMBER, slots]),
        shares=frozen(nodes.shares[slots]),
    )


def view_of(
    now: float,
    waiting: Ints,
    machine: Machine,
    exclusive: bool,
    table: JobTable,
    columns: Columns,
    nodes: Nodes,
    places: tuple[int, int],
    own: OwnOfJobs,
) -> StateView:
    """Copy the state; a dispatcher may keep it."""
    running = by_arrival(running_slots(columns), table)
    return StateView(
        now=now,
        resources=machine.resources,
        capacity=frozen(_of_resources(nodes.capacity, nodes)),
        free=frozen(_of_resources(free_of_each(nodes), nodes)),
        exclusive=exclusive,
        waiting=waiting_jobs(waiting, table, nodes, own),
        running=running_jobs(running, now, table, nodes, places, own),
        drains=_drains(nodes),
        node_sets=frozen(
            nodes.node_sets != 0 if len(nodes.node_sets) else np.ones((1, len(nodes.capacity)), np.bool_)
        ),
        shared=machine.shared.names,
        shared_capacity=frozen(machine.shared.capacity.copy()),
        shared_free=frozen(nodes.shared[NOW].copy()),
        power_units=_power_units(nodes, len(nodes.capacity) if exclusive else machine.n_cores),
        power_left=int(nodes.settings[at.POWER_LEFT]) if nodes.settings[at.CAPPED] else None,
        power_added=frozen(nodes.power.copy() if nodes.settings[at.CAPPED] else nodes.power[:0].copy()),
    )


def _power_units(nodes: Nodes, most: int) -> int | None:
    """Return how many units of equal power the cap leaves, at most ``most``."""
    if not (nodes.settings[at.CAPPED] and nodes.settings[at.EVEN]):
        return None
    left, each = int(nodes.settings[at.POWER_LEFT]), int(nodes.power[0])
    if each == 0:  # what jobs hold makes no difference
        return most if left >= 0 else -most
    return min(left // each, most)


def _drains(nodes: Nodes) -> Drains:
    """Copy the announced drains."""
    begin, end = np.repeat(nodes.drain_times, np.diff(nodes.drain_first), axis=1)
    return Drains(frozen(nodes.drain_nodes.copy()), frozen(begin), frozen(end))
