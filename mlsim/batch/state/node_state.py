"""Nodes by resources, and what is out of use of them."""

from collections.abc import Mapping, Sequence

import numpy as np

from mlsim._jit import borrowed, kernel
from mlsim._runtime.arrays import Ints, Mask
from mlsim.batch.allocators import node_arrays as at
from mlsim.batch.allocators import node_fit
from mlsim.batch.allocators.node_arrays import Nodes, free_of_each, kept_words, nodes_at
from mlsim.batch.allocators.node_choice import answer_address
from mlsim.batch.columns import job_columns as col
from mlsim.batch.columns.job_columns import IntColumn, columns_at, pack_pointers
from mlsim.batch.columns.occupancy import COUNT, DEVICES, NODE, run_of, runs_of
from mlsim.batch.dispatch.dispatcher_answers import drained_from
from mlsim.batch.matrix import node_future
from mlsim.batch.matrix.node_allocation import N_SHARED_ROWS, NOW
from mlsim.batch.order.queue_blocks import GONE
from mlsim.batch.room.pool import AnnouncedDrain
from mlsim.batch.room.room import NodesAddress
from mlsim.batch.room.unit_requests import Misfits, PowerCap, Requests
from mlsim.batch.state.batch_columns import BatchColumns
from mlsim.batch.state.batch_state import MachineRoom
from mlsim.batch.state.node_setup import demand_arrays, drain_arrays, kinds_by, parts_of_devices, scratch
from mlsim.errors import InputError
from mlsim.platform import Machine
from mlsim.scenario import BatchConfig
from mlsim.scenario.words import Allocator, Backfill, Contiguity, Dispatcher, EasyRule
from mlsim.workload.workload_jobs import JobBlock, NodeSets

_SEGMENTS_BESIDE = 4
"""Segments of the profile beside those of jobs and drains: after the last, from now on, overdue ends."""
_MOST_POWER = 2.0**62


@kernel
def lift_reserves(columns: int, nodes: int) -> None:
    """Lift reserves for waiting jobs that would not fit on the other nodes in use."""
    s, room = columns_at(columns), nodes_at(nodes)
    front, end = s.counts[col.FRONT], s.counts[col.PLACES]
    for place in range(front, end if room.kept.shape[1] > 0 else front):
        if s.queue[place] != GONE:
            node_fit.lift_reserve(s.queue[place], s, room)


@kernel
def room_now(slot: int, need: int, now: float, columns: int, nodes: int) -> int:
    """Return how many units of a job could start now, at most ``need``."""
    return node_future.room_now(slot, need, now, columns_at(columns), nodes_at(nodes))


@kernel
def power_wanted(slot: int, columns: int, nodes: int) -> int:
    """Return the power of a job on the empty machine, in microwatts; -1: it does not fit."""
    return node_future.power_wanted(slot, columns_at(columns), nodes_at(nodes))


@kernel
def row_of(node: int, nodes: int) -> int:
    """Return the node whose row has the free resources of a node."""
    return run_of(node, nodes_at(nodes).starts)


@kernel
def renew_node(node: int, free: IntColumn, kind: int, nodes: int) -> None:
    """Change the kind and the free resources of a node."""
    room = nodes_at(nodes)
    node_fit.set_node(node, borrowed(free), kind, room.free, room.starts, room.kind)


class NodesRoom(MachineRoom):
    """Nodes by resources; kernels see to nodes out of use of which jobs hold parts, which have capacity 0."""

    def __init__(
        self,
        jobs: BatchColumns,
        machine: Machine,
        config: BatchConfig,
        requests: Requests,
        seed: int = 0,
        cap: PowerCap | None = None,
        announced: bool = False,
    ) -> None:
        n_nodes, n_resources = machine.capacity.shape
        devices = parts_of_devices(machine, requests.exclusive)
        self._jobs, self._requests, self._cap = jobs, requests, cap
        self._misfits = Misfits(machine, requests, config.contiguity is Contiguity.STRICT)
        self._cores = machine.cores
        self._capacity = np.hstack([machine.capacity, devices])
        self._available, self._total = self._capacity.copy(), machine.capacity.sum(axis=0)
        self._settings = np.zeros(at.N_SETTINGS, np.int64)
        self._request = np.zeros((0, n_resources), np.int64)
        self._plan = np.zeros((0, kept_words(n_nodes, devices.shape[1] > 0)), np.int64)
        n_shared = len(machine.shared.names)
        self._shares = np.zeros((0, n_shared), np.int64)
        self._shared = np.zeros((N_SHARED_ROWS, n_shared), np.int64)
        self._shared[NOW] = machine.shared.capacity
        self._shared_profile = np.zeros((0, n_shared), np.int64)
        self._profile = np.zeros((0, *self._capacity.shape), np.int64)
        distinct = [machine.capacity] if cap is None else [machine.capacity, cap.of_each, cap.of_waking]
        demand = demand_arrays(machine, config)
        most_kept = (config.reserve * demand["sort_size"]).astype(np.int64)
        if len(most_kept):
            # The last nodes of a sort are kept from some jobs, each by itself.
            is_kept = demand["place_in_sort"] <= most_kept[demand["sort"]]
            distinct.append(np.where(is_kept, np.arange(n_nodes), -1))
        self._static = kinds_by(*distinct)
        self._node_sets, self._set_numbers = np.zeros((0, n_nodes), np.int64), {b"\1" * n_nodes: 0}
        self._kept = np.zeros((0, len(most_kept)), np.int64)
        self._kinds: dict[tuple[int, ...], int] = {}  # of nodes that announced drains are for
        self._drains_of: dict[int, tuple[int, ...]] = {}
        self._scratch = scratch(machine, config.allocator, self._static, len(most_kept), devices) | demand
        jobs.number_devices(devices.shape[1] > 0)
        self._drains: tuple[AnnouncedDrain, ...] = ()
        self._drain_arrays = drain_arrays(())
        # Reasons for which a node is out of use, announced drains among them, and when these will be over.
        self._down, self._drained = np.zeros((2, n_nodes), np.int64)
        self._drained_until = np.zeros(n_nodes)
        self._keeps_plans = config.backfill is Backfill.CONSERVATIVE
        # Dispatchers that name nodes can choose those that add least; else the allocator chooses.
        self._names_nodes = not isinstance(config.dispatcher, Dispatcher) or config.dispatcher.solves
        if cap is not None:
            _check_cap(config)
            self._scratch["power"] = np.rint(cap.of_each * at.MICRO).astype(np.int64)
            self._scratch["wakes"] = np.rint(cap.of_waking * at.MICRO).astype(np.int64)
            self._settings[at.CAPPED], self._settings[at.EVEN] = True, cap.is_even
        jobs.counts[col.FREE] = n_nodes if requests.exclusive else machine.n_cores
        # User-defined allocators have no code in the catalogue.
        self._settings[at.ALLOCATOR] = at.CODES.get(config.allocator, at.OWN)
        self._settings[at.STRICT] = config.contiguity is Contiguity.STRICT
        self._settings[at.SEED] = seed
        self._settings[at.ASKED] = answer_address()
        self._settings[at.LEARNS] = config.demand is None
        self._settings[at.RESTRICTS] = len(most_kept) > 0
        # A job is kept off nodes that are drained or not in its set, and not off others.
        by_node = announced or requests.node_sets or config.names_nodes
        self._settings[at.POOLED] = not by_node and self._is_pool()
        self._make_arrays()

    def _is_pool(self) -> bool:
        """Whether reservations may count units: nodes are alike, and allocated whole or core by core."""
        alike = bool((self._capacity == self._capacity[0]).all())
        simple = self._requests.exclusive or self._requests.plain
        own = self._settings[at.ALLOCATOR] == at.OWN
        return alike and simple and not self._settings[at.STRICT] and not own

    @property
    def counts_units(self) -> bool:
        """Whether reservations count units and not nodes."""
        return bool(self._settings[at.POOLED])

    @property
    def there(self) -> NodesAddress:
        """Its address, for kernels."""
        return NodesAddress(self.address)

    # Jobs that come

    def never_fit(self, slots: Ints, block: JobBlock) -> dict[str, Mask]:
        """Store what jobs ask for; return those that no set of nodes could hold, by reason."""
        units = self._jobs.table.ints[col.UNITS, slots]
        self._request[slots] = self._requests.per_unit(block, units)
        self._shares[slots] = self._requests.shares_of(block)
        self._kept[slots] = 0  # until they arrive
        if block.node_sets is not None:
            self._jobs.table.ints[col.NODE_SET, slots] = self._numbers_of(block.node_sets)
        reasons = self._misfits.find(units, self._request[slots], self._shares[slots], block.node_sets)
        return reasons if self._cap is None else reasons | self._beyond_cap(slots, reasons)

    def _numbers_of(self, sets: NodeSets) -> Ints:
        """Return the number of each job's set of nodes, by which kernels know it; add the new sets."""
        known = len(self._set_numbers)
        numbers = [
            self._set_numbers.setdefault(mask.tobytes(), len(self._set_numbers)) for mask in sets.masks
        ]
        if len(self._set_numbers) > known:
            masks = [np.frombuffer(mask, np.bool_) for mask in self._set_numbers]
            self._node_sets = np.array(masks, np.int64)
            self._settings[at.RESTRICTS] = True
            # Nodes of a run are in the same sets.
            self._static = kinds_by(self._static, self._node_sets.T)
            self.arrays.full_starts[:] = runs_of(self._static)
            self._renew_kinds()
            self._make_arrays()
        return np.array([0, *numbers], np.int64)[sets.of_job]

    def _beyond_cap(self, slots: Ints, reasons: Mapping[str, Mask]) -> dict[str, Mask]:
        """Return which other jobs the cap forbids even on the empty machine, by reason."""
        assert self._cap is not None
        others = ~np.logical_or.reduce([np.zeros(len(slots), np.bool_), *reasons.values()])
        highest = _micro(self._cap.highest, self._total_units)
        beyond: dict[str, Mask] = {}
        asked = self._jobs.table.ints[[col.UNITS, col.NODE_SET]][:, slots]
        asked = np.column_stack([asked.T, self._request[slots]])
        _, first, of = np.unique(asked, axis=0, return_index=True, return_inverse=True)
        for k, row in enumerate(first.tolist()):
            slot, found = int(slots[row]), others & (of.ravel() == k)
            wanted = (
                self._least_power(slot)
                if self._names_nodes
                else power_wanted(slot, self._jobs.address, self.address)
            )
            if wanted > highest and found.any():
                there = f"the power cap leaves {self._cap.highest:,.10g} W"
                reason = self._misfits.say(f"{wanted / at.MICRO:,.10g} ", "W", "", there)
                beyond[reason] = beyond.get(reason, np.zeros_like(found)) | found
        return dict(sorted(beyond.items()))

    def _least_power(self, slot: int) -> int:
        """Return the power (microwatts) that a job adds on the nodes of the empty machine that add least."""
        units, request = int(self._jobs.table.ints[col.UNITS, slot]), self._request[slot]
        asked, exclusive = request > 0, self._requests.exclusive
        most = 1 if exclusive else units
        has = self._capacity[:, : len(request)]
        fit = (has[:, asked] // request[asked]).min(axis=1, initial=most)
        if len(self._node_sets):
            fit *= self._node_sets[self._jobs.table.ints[col.NODE_SET, slot]]
        order = np.argsort(self.arrays.power, kind="stable")
        before = np.cumsum(fit[order]) - fit[order]
        taken = np.clip(units - before, 0, fit[order])
        return int(taken @ self.arrays.power[order]) * (1 if exclusive else int(request[0]))

    def measure(self) -> None:
        """Find out how much power the cap leaves; the kernels keep count of it from here on."""
        if self._cap is not None:
            is_on = (self._down == 0) | (self.arrays.used > 0)
            left = _micro(self._cap.left(is_on), self._total_units)
            self._settings[at.POWER_LEFT] = left - int(self.arrays.used @ self.arrays.power)

    @property
    def _total_units(self) -> int:
        return len(self._cores) if self._requests.exclusive else int(self._cores.sum())

    def set_power_cap(self, watts: float) -> None:
        """Change the cap; running jobs continue."""
        assert self._cap is not None
        self._cap.watts = watts

    def may_use(self, slot: int, node: int) -> bool:
        """Whether a node is in the set of nodes that a job may use."""
        number = self._jobs.table.ints[col.NODE_SET, slot]
        return not len(self._node_sets) or bool(self._node_sets[number, node])

    def may_take(self, slot: int, node: int, now: float) -> bool:
        """Whether a job that runs, or would start now, may use a node, which no announced drain forbids."""
        if not self.may_use(slot, node):
            return False
        ends = now + self._jobs.table.floats[col.ESTIMATE, slot]
        if not np.isnan(self._jobs.table.floats[col.START, slot]):
            ends = self._jobs.table.floats[col.EXPECTED, slot]
        return not drained_from(node, ends, self.address) < np.inf

    def lacks_shared(self, slot: int) -> bool:
        """Whether an amount of the whole machine blocks a job, whatever nodes are free."""
        return bool((self._shares[slot] > self._shared[NOW]).any())

    def units_of_cores(self, slot: int, cores: int) -> int:
        """Return a job's units for a number of cores on one node."""
        return 1 if self._requests.exclusive else cores // int(self._request[slot, 0])

    def is_free(self, node: int) -> bool:
        """Whether a node is in use, no job holds any part of it, and the power cap allows a job on it."""
        if self._cap is not None and self.arrays.power[node] > self._settings[at.POWER_LEFT]:
            return False
        return bool((self._free_of(node) == self._capacity[node]).all() and not self._down[node])

    def _free_of(self, node: int) -> Ints:
        """Return what is free of each resource of a node."""
        free: Ints = self._available[row_of(node, self.address)].copy()
        return free

    def _renew(self, node: int, free: Ints) -> None:
        """Set the free resources of a node, which may have become of another kind."""
        renew_node(node, free, self._kind_of(node), self.address)

    def _kind_of(self, node: int) -> int:
        """Return the number of a node's kind; one out of use is alike to no other."""
        if self._down[node] > 0:
            return -1 - node
        if node not in self._drains_of:
            return int(self._static[node])
        kind = (int(self._static[node]), *self._drains_of[node])
        return self._kinds.setdefault(kind, len(self._static) + len(self._kinds))

    def take_down(self, node: int, holders: Mapping[int, int]) -> None:
        """Remove a node from service; jobs keep their parts of it, which are not free after their ends."""
        if self._down[node] == 0:
            for slot, units in holders.items():
                self._jobs.table.ints[col.HELD, slot] -= units
            free = self._free_of(node)
            self._jobs.counts[col.FREE] -= self._free_units(node, free)
            self._total -= free[: len(self._total)]
            self.arrays.capacity[node] = 0
            self._down[node] = 1
            self._renew(node, np.zeros_like(free))
            lift_reserves(self._jobs.address, self.address)
        else:
            self._down[node] += 1
        self._expect_back(node)

    def bring_up(self, node: int, holders: Mapping[int, int]) -> None:
        """Return a node to service, unless there is another reason for its outage."""
        self._down[node] -= 1
        if self._down[node] == 0:
            held, n = np.zeros_like(self._capacity[node]), len(self._total)
            for slot, units in holders.items():
                self._jobs.table.ints[col.HELD, slot] += units
                held[:n] += (
                    self._capacity[node, :n] if self._requests.exclusive else units * self._request[slot]
                )
                held[n:] += self._devices_held(slot, node)
            self.arrays.capacity[node] = self._capacity[node]
            free = self._capacity[node] - held
            self._renew(node, free)
            self._total += free[:n]
            self._jobs.counts[col.FREE] += self._free_units(node, free)
            self._jobs.counts[col.EARLY] = 1
        self._expect_back(node)

    def _devices_held(self, slot: int, node: int) -> Ints:
        """Return what a running job holds of each device of a node, in parts."""
        device_of, log = self.arrays.device_of, self._jobs.occupancy
        held = np.zeros(len(device_of), np.int64)
        first, rows = self._jobs.table.ints[[col.FIRST_ROW, col.ROWS], slot]
        for row in range(first, first + rows if len(device_of) else first):
            begin = log.ints[NODE, row]
            if self._jobs.is_held(row) and begin <= node < begin + log.ints[COUNT, row]:
                taken = (log.ints[DEVICES, row] >> np.arange(len(device_of))) & 1
                held += taken * np.minimum(self._request[slot, device_of], at.PARTS)
        return held

    def plan_around(self, drains: Sequence[AnnouncedDrain]) -> None:
        """Plan around these announced drains from now on; nodes out of service for them will return."""
        self._drains = tuple(sorted(drains, key=lambda drain: drain.start))
        self._drained[:], self._drained_until[:] = 0, 0.0
        for drain in self._drains:
            if drain.has_begun:
                nodes = np.array(drain.nodes, np.int64)
                self._drained[nodes] += 1
                self._drained_until[nodes] = np.maximum(self._drained_until[nodes], drain.end)
        for node in range(len(self._down)):
            self._expect_back(node)
        self._settings[at.DRAINS] = len(self._drains)
        self.arrays.shut[:] = 0  # it goes with drain_shuts, which begin anew
        self._drain_arrays = drain_arrays(self._drains)
        self._renew_kinds()
        self.ensure_capacity()

    def _renew_kinds(self) -> None:
        """Distinguish nodes by the announced drains that they are promised to."""
        self._drains_of = {}
        for number, drain in enumerate(self._drains):
            for node in drain.nodes:
                self._drains_of[node] = (*self._drains_of.get(node, ()), number)
        self._kinds = {}
        free, kind = free_of_each(self.arrays), self.arrays.kind
        kind[:] = [self._kind_of(node) for node in range(len(kind))]
        self._available[:] = free
        self.arrays.starts[:] = runs_of(kind, free)

    def are_uncounted(self, nodes: Ints, /) -> Mask:
        """Return none of the nodes: reservations know by themselves which return, and when."""
        return np.zeros(len(nodes), np.bool_)

    def _expect_back(self, node: int) -> None:
        """Store when a node is expected to be in use: known only where announced drains are all there is."""
        reasons, drained = self._down[node], self._drained[node]
        known = self._drained_until[node] if reasons == drained else np.inf
        back = known if reasons > 0 else -np.inf
        if back < self.arrays.back[node]:
            self._jobs.counts[col.EARLY] = 1  # reservations may move forward
        self.arrays.back[node] = back

    def _free_units(self, node: int, free: Ints) -> int:
        """Return what a node in use adds to the free units: one if allocated whole, else its free cores."""
        if self._requests.exclusive:
            return int(free[0] == self._capacity[node, 0])
        return int(free[0])

    def room_for(self, slot: int, now: float) -> int:
        """Units of a job that could start now, at most all of them."""
        units = int(self._jobs.table.ints[col.UNITS, slot])
        return room_now(slot, units, now, self._jobs.address, self.address)

    def ensure_capacity(self) -> None:
        """Make every array large enough for the next pass, and note where they are."""
        self._jobs.grow(2 * len(self._drains))  # the begin and the end of each
        capacity = self._jobs.table.capacity
        self._request = _grown(self._request, capacity)
        self._shares = _grown(self._shares, capacity)
        self._kept = _grown(self._kept, capacity)
        if self._shared.size:
            self._shared_profile = _grown(self._shared_profile, len(self._jobs.columns.profile_times))
        if self._keeps_plans:
            self._plan = _grown(self._plan, capacity)
        self._make_arrays()

    def _make_arrays(self) -> None:
        self.arrays = Nodes(
            settings=self._settings,
            request=self._request,
            free=self._available,
            total=self._total,
            profile=self._profile,
            plan=self._plan,
            shares=self._shares,
            kept=self._kept,
            node_sets=self._node_sets,
            shared=self._shared,
            shared_profile=self._shared_profile,
            **self._scratch,
            **self._drain_arrays,
        )
        self._packed = pack_pointers(self.arrays)
        self.address = self._packed.ctypes.data

    def reserve_segments(self) -> None:
        """Ensure the capacity of the profile: a segment a running job, two a waiting one, and two a drain."""
        counts = self._jobs.counts
        jobs = int(counts[col.RUNNING] + counts[col.EARLY] + 2 * counts[col.QUEUED])
        most = jobs + _SEGMENTS_BESIDE + 2 * len(self._drains)
        if len(self._profile) < most:
            profile = np.zeros((2 * most, *self._capacity.shape), np.int64)
            profile[: len(self._profile)] = self._profile
            self._profile = profile
            self._make_arrays()

    def part_of_free(self, released: Ints) -> Ints:
        """Return what is free of the released cores of each node, and all else that is free there."""
        part: Ints = np.where(released[:, None] > 0, free_of_each(self.arrays), 0)
        np.minimum(part[:, 0], released, out=part[:, 0])
        return part


def _grown(array: Ints, rows: int) -> Ints:
    """Return an array with at least the given number of rows."""
    if len(array) >= rows:
        return array
    grown = np.zeros((rows, array.shape[1]), np.int64)
    grown[: len(array)] = array
    return grown


def _micro(watts: float, units: int) -> int:
    """Turn W into microwatts, with a microwatt a unit to spare, by which those of units are rounded."""
    return int(min(watts * at.MICRO, _MOST_POWER)) + units


def _check_cap(config: BatchConfig) -> None:
    """Refuse what does not take a power cap into account."""
    several = config.backfill is Backfill.EASY and (config.reservations > 1 or config.easy is EasyRule.CQSIM)
    own = not isinstance(config.allocator, Allocator)
    if several or own or config.backfill is Backfill.CONSERVATIVE:
        raise InputError(
            "batch.power_cap: nodes that add unequal power, other resources than cores, other allocators "
            "than first-fit, and announced drains go with dispatcher queue and backfill none, greedy, or "
            "easy with one reservation only, and not with easy: cqsim; or with dispatchers that plan and "
            "those of your own; change that, or take the cap out"
        )
