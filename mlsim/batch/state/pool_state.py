"""The state on a pool of equal units, and the choice between it and nodes by resources."""

from collections.abc import Mapping

import numpy as np

from mlsim._jit import kernel
from mlsim._runtime.arrays import Ints, Mask
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import pack_pointers
from mlsim.batch.columns.occupancy import NODE, NODE_CORES, runs_of
from mlsim.batch.dispatch.passes import process_timestamp, reserving
from mlsim.batch.room.pool import HINT, N_POOL_COUNTS, Pool, add_free, free_of, pool_at
from mlsim.batch.room.room import PoolAddress
from mlsim.batch.room.unit_requests import Misfits, PowerCap, Requests
from mlsim.batch.state.batch_columns import BatchColumns, expanded
from mlsim.batch.state.batch_state import BatchState, MachineRoom, Passes
from mlsim.errors import InputError
from mlsim.platform import Machine
from mlsim.scenario import BatchConfig, Policy
from mlsim.scenario.words import Allocator, Dispatcher
from mlsim.workload.workload_jobs import JobBlock


@kernel
def free_cores(node: int, pool: int) -> int:
    """Return the free cores of a node."""
    return free_of(node, pool_at(pool))


@kernel
def add_cores(node: int, more: int, pool: int) -> None:
    """Change the free cores of a node by ``more``; free units are not counted."""
    add_free(node, 1, more, pool_at(pool))


class PoolRoom(MachineRoom):
    """A pool of equal units."""

    def __init__(
        self, jobs: BatchColumns, machine: Machine, requests: Requests, cap: PowerCap | None = None
    ) -> None:
        cores = machine.cores
        self._jobs = jobs
        self._requests = requests
        self._misfits = Misfits(machine, requests, cap=cap)
        self._cores = cores
        self._down = np.zeros(len(cores), np.int64)
        # Cores that jobs still hold of nodes that are out of use.
        self._left_over = np.zeros(len(cores), np.int64)
        self._held_back = np.empty(0, np.int64)
        self.holds_back = False
        self._cap = cap
        self._withheld = 0  # units that are free, but not counted so, for the power they would take
        self._counts = np.zeros(N_POOL_COUNTS, np.int64)
        jobs.counts[at.FREE] = requests.capacity
        no_starts = np.empty((0, 0), np.int64)
        self.arrays = Pool(cores.copy(), self._cores, runs_of(cores), no_starts, self._counts)
        self._packed = pack_pointers(self.arrays)
        self.address = self._packed.ctypes.data
        self._withhold()

    def ensure_capacity(self) -> None:
        """Make the arrays large enough for the next pass."""
        self._jobs.grow()

    @property
    def there(self) -> PoolAddress:
        """Its address, for kernels."""
        return PoolAddress(self.address)

    def never_fit(self, slots: Ints, block: JobBlock) -> dict[str, Mask]:
        """Return which of the jobs that come no set of nodes could hold, by reason."""
        most = (
            self._requests.capacity if self._cap is None else min(self._requests.capacity, self._cap.largest)
        )
        rows = np.flatnonzero(self._jobs.table.ints[at.UNITS, slots] > most)
        reasons = {}
        for reason, found in self._misfits.find_in(block.select(rows)).items() if len(rows) else ():
            reasons[reason] = np.zeros(len(slots), np.bool_)
            reasons[reason][rows] = found
        return reasons

    def room_for(self, _slot: int, _now: float) -> int:
        """Units of a job that fit now; more than it asks for, if there is more room."""
        return int(self._jobs.counts[at.FREE])

    def is_free(self, node: int) -> bool:
        """Whether a node is in use and no job holds any part of it."""
        return bool(self._free(node) == self._cores[node] and not self._down[node])

    def units_of_cores(self, _slot: int, cores: int) -> int:
        """Return a job's units for a number of cores on one node."""
        return 1 if self._requests.exclusive else cores

    def end_due(self, now: float) -> None:
        """End jobs that end at this time, before a pass with ties per event uses what is held back."""
        rules, floats = self._jobs.rules, self._jobs.table.floats
        if not rules[at.PER_EVENT] or rules[at.ENDS_FIRST]:
            return
        for slot in self._jobs.running():
            if floats[at.EXPECTED, slot] <= now and floats[at.PLANNED, slot] == now:
                self.end(slot, now)
                self.update_free()

    def update_free(self) -> None:
        """Withhold freed cores of nodes out of service from the next jobs."""
        if len(self._held_back):
            nodes = self._held_back
            for node in nodes.tolist():
                self._left_over[node] -= self._free(node)
                self._set_free(node, 0)
            self._hold_back(nodes[self._left_over[nodes] > 0])

    def prepare_release(self, slot: int, row: int) -> None:
        """Count units of a node that is out of use neither with the job nor as free."""
        rows = self._jobs.occupancy.ints
        if self._down[rows[NODE, row]]:
            units = self.units_of_cores(slot, rows[NODE_CORES, row])
            self._jobs.table.ints[at.HELD, slot] += units
            self._jobs.counts[at.FREE] -= units

    def take_down(self, node: int, holders: Mapping[int, int]) -> None:
        """Remove a node from service."""
        if self._down[node] == 0:
            for slot, units in holders.items():
                self._jobs.table.ints[at.HELD, slot] -= units
            self._left_over[node] = self._cores[node] - self._free(node)
            self._jobs.counts[at.FREE] -= self._free_units(node)
            self._set_free(node, 0)
        self._down[node] += 1
        self._hold_back(np.flatnonzero(self._left_over))

    def bring_up(self, node: int, holders: Mapping[int, int]) -> None:
        """Return a node to service, unless there is another reason for its outage."""
        self._down[node] -= 1
        if self._down[node] == 0:
            for slot, units in holders.items():
                self._jobs.table.ints[at.HELD, slot] += units
            self._set_free(node, int(self._cores[node] - self._left_over[node]))
            self._jobs.counts[at.FREE] += self._free_units(node)
            self._counts[HINT] = min(int(self._counts[HINT]), node)
            self._jobs.counts[at.EARLY] = 1
            self._left_over[node] = 0
        self._hold_back(np.flatnonzero(self._left_over))

    def _hold_back(self, nodes: Ints) -> None:
        """Set the nodes of which jobs hold parts that must not be allocated again."""
        self._held_back, self.holds_back = nodes, len(nodes) > 0
        self._withhold()

    def set_power_cap(self, watts: float) -> None:
        """Change the cap; running jobs continue."""
        assert self._cap is not None
        self._cap.watts = watts
        self._withhold()

    def _free_units(self, node: int) -> int:
        """Return the free units of a node in use."""
        if self._requests.exclusive:
            return int(self._free(node) == self._cores[node])
        return self._free(node)

    def _free(self, node: int) -> int:
        """Return the free cores of a node."""
        return int(free_cores(node, self.address))

    def _set_free(self, node: int, cores: int) -> None:
        """Set the free cores of a node, without counting free units."""
        add_cores(node, cores - self._free(node), self.address)

    def _withhold(self) -> None:
        """Limit the counted free units to those that the power cap allows; below 0 if jobs hold more."""
        if self._cap is None:
            return
        in_use, exclusive = self._down == 0, self._requests.exclusive
        units = np.count_nonzero(in_use) if exclusive else int(self._cores[in_use].sum())
        left_over = len(self._held_back) if exclusive else int(self._left_over.sum())
        allowed = self._cap.units(in_use | (self._left_over > 0)) - left_over
        withheld = max(0, int(units) - allowed)
        if withheld < self._withheld:
            self._jobs.counts[at.EARLY] = 1
        if withheld != self._withheld:
            self._jobs.change_room()
        self._jobs.counts[at.FREE] += self._withheld - withheld
        self._withheld = withheld


class PoolPasses(Passes):
    """Passes on a pool of units."""

    def __init__(self, jobs: BatchColumns, room: PoolRoom) -> None:
        self._jobs, self._room = jobs, room
        self._reserving = reserving(jobs.rules)
        self.rejected: list[tuple[int, str]] = []

    def advance(
        self, now: float, ended: list[int], arrivals: Ints, first: int, last: int, released: Ints
    ) -> int:
        """End jobs, add arrivals, then make a pass; return the number of started jobs."""
        if self._room.holds_back:
            self._room.end_due(now)
        for k, slot in enumerate(ended):  # mostly few: faster than an array's slice
            self._jobs.ended[k] = slot
        columns, pool = self._jobs.address, self._room.address
        return process_timestamp(
            now, len(ended), first, last, arrivals, released, columns, pool, self._reserving
        )


def needs_resources(config: BatchConfig, requests: Requests) -> bool:
    """Whether a scenario needs more than a pool of nodes or cores and policies of the catalogue."""
    return (
        not requests.plain
        or bool(requests.shared)
        or requests.node_sets
        or config.allocator != Allocator.FIRST_FIT
        or config.names_nodes
        or config.dispatcher not in (Dispatcher.QUEUE, Dispatcher.REJECT, Dispatcher.RECORDED)
        or not isinstance(config.policy, Policy)
    )


def state_on_pool(
    machine: Machine,
    config: BatchConfig,
    requests: Requests,
    nodes_one_by_one: bool,
    cap: PowerCap | None = None,
) -> BatchState:
    """Make a state on a pool of units; the parameters are those of :func:`state_for`."""
    # A pass writes no more rows than there are units on the machine.
    state = BatchState(config, requests, machine.n_nodes, not nodes_one_by_one, requests.capacity + 1)
    state.room = room = PoolRoom(state, machine, requests, cap)
    state.passes = PoolPasses(state, room)
    state.ensure_capacity()
    return state


def state_on_nodes(
    machine: Machine,
    config: BatchConfig,
    requests: Requests,
    nodes_one_by_one: bool,
    seed: int = 0,
    cap: PowerCap | None = None,
    announced: bool = False,
) -> BatchState:
    """Make a state on nodes by resources; the parameters are those of :func:`state_for`."""
    # Here, as only they load their kernels.
    from mlsim.batch.state.node_passes import NodePasses
    from mlsim.batch.state.node_state import NodesRoom

    if isinstance(config.dispatcher, Dispatcher) and config.dispatcher.solves:
        plans = f"batch.dispatcher: {config.dispatcher} plans with"
        allowed = "allowed: queue, prb, or a dispatcher of your own"
        if requests.node_sets:
            raise InputError(f"{plans} all nodes, and some jobs may use only some of them; {allowed}")
        if requests.devices and not requests.exclusive:
            names = ", ".join(requests.devices)
            raise InputError(
                f"{plans} amounts of nodes, and {names} of this platform is of devices; {allowed}; or write "
                "the number alone in platform.nodes.resources, and whole numbers in requests"
            )
    state = BatchState(config, requests, machine.n_nodes, not nodes_one_by_one, machine.n_cores + 1)
    config = expanded(config)
    state.room = room = NodesRoom(state, machine, config, requests, seed, cap, announced)
    state.passes = NodePasses(state, room, machine, config, requests, seed)
    state.ensure_capacity()
    return state


def state_for(
    machine: Machine,
    config: BatchConfig,
    requests: Requests,
    nodes_one_by_one: bool,
    seed: int,
    cap: PowerCap | None = None,
    announced: bool = False,
) -> BatchState:
    """Make the simplest state that suffices.

    With ``nodes_one_by_one`` each node has an occupancy row of its own, as nodes may be released one by one.
    With ``announced`` drains, or sets of nodes that jobs may use, a pool is not enough: it cannot distinguish
    nodes.
    """
    simple = not needs_resources(config, requests) and (cap is None or cap.is_even)
    if simple and not announced:
        return state_on_pool(machine, config, requests, nodes_one_by_one, cap)
    return state_on_nodes(machine, config, requests, nodes_one_by_one, seed, cap, announced)
