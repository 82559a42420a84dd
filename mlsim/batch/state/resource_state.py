"""The state of a batch level with several resources on every node, any allocator, plugins."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim.batch.allocators import nodes as at
from mlsim.batch.allocators.fit import room_for
from mlsim.batch.allocators.nodes import (
    ALLOCATOR,
    CAPPED,
    DRAINS,
    EVEN,
    MOST_REFUSED,
    N_SETTINGS,
    POOLED,
    POWER_LEFT,
    SEED,
    STRICT,
    Nodes,
)
from mlsim.batch.allocators.placing import has_window
from mlsim.batch.allocators.user_allocator import asked_in_kernels
from mlsim.batch.backfill.easy import reserve
from mlsim.batch.columns.columns import (
    BACKFILL,
    CONSERVATIVE,
    EARLY,
    FREE,
    QUEUED,
    RESERVATIONS,
    RUNNING,
)
from mlsim.batch.columns.packing import pack_pointers
from mlsim.batch.columns.table import ESTIMATE, EXPECTED, HELD, KEY, NUMBER, START, SUBMIT, UNITS
from mlsim.batch.matrix.drains import drained_from, room_now
from mlsim.batch.matrix.future import power_wanted
from mlsim.batch.plugins import make_plugin, shielded
from mlsim.batch.room.announced import AnnouncedDrain
from mlsim.batch.room.power import PowerCap
from mlsim.batch.room.requests import Requests
from mlsim.batch.room.steps import end_job, release_row, return_node
from mlsim.batch.state.answers import Answers, AskedAllocator, keys_of
from mlsim.batch.state.passes import arrive_at_nodes, make_pass, make_reserving_pass, start_short
from mlsim.batch.state.state import BEYOND_CAP, BatchState
from mlsim.batch.state.viewing import OwnOfJobs, by_arrival, view_of, waiting_jobs
from mlsim.errors import InputError
from mlsim.platform import Machine
from mlsim.record import Solves
from mlsim.scenario import (
    Allocator,
    Backfill,
    BatchConfig,
    Contiguity,
    Dispatcher,
    EasyRule,
    Policy,
)
from mlsim.workload.jobs import JobBlock

__all__ = ["ResourceState"]

Ints = NDArray[np.int64]

_CODES = {
    Allocator.FIRST_FIT: at.FIRST_FIT,
    Allocator.BEST_FIT: at.BEST_FIT,
    Allocator.WORST_FIT: at.WORST_FIT,
    Allocator.CONTIGUOUS: at.CONTIGUOUS,
    Allocator.RANDOM: at.RANDOM,
    Allocator.TOPOLOGY_AWARE: at.TOPOLOGY,
    Allocator.HETEROGENEITY_AWARE: at.HETEROGENEITY,
}
_MOST_NODES_IN_PAIRS = 4096
_MOST_IDLE_WAKES = 1_000_000
_MICRO = 1e6
_MOST_POWER = 2.0**62


class ResourceState(BatchState):
    """What there is at one time, and the steps that change it: the same as BatchState, node by node.

    Parameters
    ----------
    machine
        The nodes.
    config
        The dispatcher. Files of plugins are seen from the current directory.
    requests
        How jobs ask for room.
    nodes_one_by_one
        Whether nodes may be given back one by one, so that each has an occupancy row of its own.
    seed
        Of random choices of nodes.
    cap
        A cap on power.
    announced
        Whether drains may be announced.
    """

    def __init__(
        self,
        machine: Machine,
        config: BatchConfig,
        requests: Requests,
        nodes_one_by_one: bool,
        seed: int = 0,
        cap: PowerCap | None = None,
        announced: bool = False,
    ) -> None:
        config = _expanded(config)
        n_nodes, n_resources = machine.capacity.shape
        self._machine, self._config = machine, config
        self._capacity, self._available = machine.capacity.copy(), machine.capacity.copy()
        self._total = self._available.sum(axis=0)
        self._settings = np.zeros(N_SETTINGS, np.int64)
        self._request = np.zeros((0, n_resources), np.int64)
        self._plan = np.zeros((0, n_nodes), np.int64)
        self._keys, self._asked = np.zeros(0), np.zeros(0, np.int64)  # of the user's policy, and whose
        self._profile_of_nodes = np.zeros((0, n_nodes, n_resources), np.int64)
        self._scratch = _scratch(machine, config.allocator)
        self._wakes: list[float] = []  # a heap of the times at which the dispatcher wants to be asked
        self._idle_wakes = 0
        self._own = OwnOfJobs()
        self._drains: tuple[AnnouncedDrain, ...] = ()
        self._drain_arrays = _drain_arrays(())
        self._announced = announced
        # For how many announced drains a node is out of use, and when they will be over.
        self._drained = np.zeros(n_nodes, np.int64)
        self._drained_until = np.zeros(n_nodes)
        self._keeps_plans = config.backfill is Backfill.CONSERVATIVE
        self._load(config, requests.exclusive, seed)
        if cap is not None:
            _check_cap(config)
            self._scratch["power"] = np.rint(cap.of_each * _MICRO).astype(np.int64)
            self._scratch["wakes"] = np.rint(cap.of_waking * _MICRO).astype(np.int64)
            self._settings[CAPPED], self._settings[EVEN] = True, cap.is_even
        super().__init__(machine, config, requests, nodes_one_by_one)
        self._cap = cap
        self._counts[FREE] = n_nodes if requests.exclusive else machine.n_cores
        self._ended = np.empty(machine.n_cores, np.int64)
        # The key may be a name of the user's own, which the codes of the catalogue do not have.
        self._settings[ALLOCATOR] = _CODES.get(config.allocator, at.OWN)  # type: ignore[call-overload]
        self._settings[STRICT] = config.contiguity is Contiguity.STRICT
        self._settings[SEED] = seed
        self._settings[POOLED] = self._is_pool()
        rules = self.columns.rules
        self._reserves = bool(rules[BACKFILL] == CONSERVATIVE or rules[RESERVATIONS] != 1)
        self._has_profile = self._reserves and not self._settings[POOLED]
        self.ensure_capacity()

    def _load(self, config: BatchConfig, exclusive: bool, seed: int) -> None:
        """Make the plugins."""
        self._dispatcher = self._policy = self._allocator = self._planning = None
        if not isinstance(config.dispatcher, Dispatcher):
            self._dispatcher = make_plugin("dispatcher", config.dispatcher)
        elif config.dispatcher.solves:
            from mlsim.batch.cp.dispatcher import CpDispatcher  # here, as it loads the solver

            self._dispatcher = self._planning = CpDispatcher.of(config.dispatcher, config.cp, seed)
        if not isinstance(config.policy, Policy):
            self._policy = make_plugin("policy", config.policy)
        if not isinstance(config.allocator, Allocator):
            title = f"allocator {config.allocator}"
            plugin = make_plugin("allocator", config.allocator)
            self._allocator = AskedAllocator(title, plugin, exclusive)

    def _is_pool(self) -> bool:
        """Whether reservations may count units: nodes are alike, and given whole or core by core."""
        alike = bool((self._capacity == self._capacity[0]).all())
        simple = self.requests.exclusive or self.requests.plain
        if self._announced:  # a job is kept off some nodes, and not off others
            return False
        return alike and simple and not self._settings[STRICT] and self._allocator is None

    # Jobs that come

    def never_fit(self, slots: Ints, block: JobBlock) -> dict[str, NDArray[np.bool_]]:
        """Note what jobs ask for; give those that no set of nodes could hold, by reason."""
        units = self.table.ints[UNITS, slots]
        self._request[slots] = self.requests.per_unit(block, units)
        self._own.add(block.own)
        asked = np.column_stack([units, self._request[slots]])
        distinct, first, of = np.unique(asked, axis=0, return_index=True, return_inverse=True)
        reasons = [
            self._trouble(int(slots[row]), int(asks[0])) for row, asks in zip(first, distinct, strict=True)
        ]
        return {
            reason: np.array([found == reason for found in reasons], np.bool_)[of.ravel()]
            for reason in sorted(set(reasons) - {""})
        }

    def _trouble(self, slot: int, units: int) -> str:
        if room_for(slot, 1, self._capacity, self.columns, self.nodes) == 0:
            return "no node has what a unit asks for"
        if room_for(slot, units, self._capacity, self.columns, self.nodes) < units:
            return "asks for more than the whole machine has"
        if not has_window(slot, self._capacity, self.columns, self.nodes):
            return "no neighbouring nodes could hold it"
        return self._beyond_cap(slot)

    def _beyond_cap(self, slot: int) -> str:
        """Say whether the cap forbids a job even where it has the whole machine to itself."""
        if self._cap is None:
            return ""
        wanted = power_wanted(slot, self._capacity, self.columns, self.nodes)
        return BEYOND_CAP if wanted > _micro(self._cap.highest, self._total_units) else ""

    # Passes

    def advance(
        self, now: float, ended: list[int], arrivals: Ints, first: int, last: int, released: Ints
    ) -> int:
        """Let jobs end and arrive, then make a pass; the slots of those that start are in ``started``."""
        for k, slot in enumerate(ended):
            self._ended[k] = slot
        arrive_at_nodes(now, len(ended), self._ended, first, last, arrivals, self._packed, self._packed_nodes)
        self._measure()
        if self._allocator is None:
            return self._make_pass(now, released)
        self._allocator.now = now
        waiting = self._queue[: self._counts[QUEUED]]
        numbers, ids = (
            self.table.ints[NUMBER, waiting].tolist(),
            self.table.column("job_id")[waiting].tolist(),
        )
        self._allocator.job_ids = dict(zip(numbers, ids, strict=True))
        with asked_in_kernels(self._allocator):
            n_started = self._make_pass(now, released)
        self._allocator.check()
        return n_started

    def _measure(self) -> None:
        """Find out how much power the cap leaves; the kernels keep count of it from here on."""
        if self._cap is not None:
            is_on = (self._down == 0) | (self.nodes.used > 0)
            left = _micro(self._cap.left(is_on), self._total_units)
            self._settings[POWER_LEFT] = left - int(self.nodes.used @ self.nodes.power)

    @property
    def _total_units(self) -> int:
        return len(self._cores) if self.requests.exclusive else int(self._cores.sum())

    def set_power_cap(self, watts: float) -> None:
        """Have another cap from now on; what runs goes on."""
        assert self._cap is not None
        self._cap.watts = watts

    def _make_pass(self, now: float, released: Ints) -> int:
        if not self._counts[QUEUED]:
            return 0
        if self._dispatcher is not None:
            return self._dispatch(now)
        if self._policy is not None:
            self._order(now)
        if self._has_profile:
            self._reserve_segments()
        n, ordered = 0, self._policy is not None
        if len(released):
            part = self._part_of_free(released)
            n, ordered = start_short(now, part, ordered, self._packed, self._packed_nodes), True
        run = make_reserving_pass if self._reserves else make_pass
        started: int = run(now, n, ordered, self._packed, self._packed_nodes)
        return started

    def _part_of_free(self, released: Ints) -> Ints:
        """Give what is free of the released cores of each node, and all else that is free there."""
        part: Ints = np.where(released[:, None] > 0, self.nodes.free, 0)
        np.minimum(part[:, 0], released, out=part[:, 0])
        return part

    def _order(self, now: float) -> None:
        """Order the queue by the user's policy; jobs past the threshold go to its head."""
        assert self._policy is not None
        floats = self.table.floats
        slots = by_arrival(self._queue[: self._counts[QUEUED]], self.table)
        numbers = self.table.ints[NUMBER, slots]
        unasked, title = slots, f"policy {self._config.policy}"
        if not shielded(title, now, getattr, self._policy, "live", True):
            unasked = slots[self._asked[slots] != numbers]
        if len(unasked):
            jobs = waiting_jobs(unasked, self.table, self._request, self._own)
            self._keys[unasked] = keys_of(title, self._policy, now, jobs)
        self._asked[slots] = numbers
        keys = self._keys[slots]
        if self._config.threshold is not None:
            keys[now - floats[SUBMIT, slots] > self._config.threshold] = -np.inf
        floats[KEY, slots] = keys
        self._queue[: len(slots)] = slots[np.argsort(keys, kind="stable")]

    def _dispatch(self, now: float) -> int:
        """Ask the dispatcher, and carry out what it answers."""
        assert self._dispatcher is not None
        title = f"dispatcher {self._config.dispatcher}"
        waiting = by_arrival(self._queue[: self._counts[QUEUED]], self.table)
        view = view_of(
            now,
            waiting,
            self._machine.resources,
            self.requests.exclusive,
            self.table,
            self.columns,
            self.nodes,
            self._own,
        )
        answers = Answers(title, now, waiting, self.columns, self.nodes)
        answers.carry_out(shielded(title, now, self._dispatcher.dispatch, view))
        gone = {slot for slot, _ in answers.rejected}
        left = [s for s in waiting.tolist() if np.isnan(self.table.floats[START, s]) and s not in gone]
        self._queue[: len(left)] = left
        self._counts[QUEUED] = len(left)
        for later in answers.wakes:
            heapq.heappush(self._wakes, later)
        self._check_progress(bool(answers.started or answers.rejected or not answers.wakes), now)
        self.started[: len(answers.started)] = answers.started
        self.rejected.extend(answers.rejected)
        return len(answers.started)

    def _check_progress(self, moves: bool, now: float) -> None:
        """Refuse a dispatcher that only ever asks to be woken."""
        self._idle_wakes = 0 if moves or self.n_running else self._idle_wakes + 1
        if self._idle_wakes > _MOST_IDLE_WAKES:
            raise InputError(
                f"dispatcher {self._config.dispatcher}: at {now:g} s it has asked to be woken "
                f"{_MOST_IDLE_WAKES:,} times in a row while nothing ran or started; ask for later times"
            )

    def next_reservation(self, now: float) -> float:
        """When a waiting job may start, or a dispatcher wants to be asked, at the earliest after now."""
        while self._wakes and self._wakes[0] <= now:
            heapq.heappop(self._wakes)
        return min(super().next_reservation(now), *self._wakes[:1], math.inf)

    @property
    def wakes(self) -> bool:
        """Whether there may be passes at which nothing else happens."""
        return super().wakes or bool(self._wakes)

    def solves(self) -> Solves:
        """Give how the passes of a dispatcher that plans went."""
        return super().solves() if self._planning is None else self._planning.solves()

    # Who holds what

    def end(self, slot: int, now: float) -> None:
        """Let a running job end without a pass."""
        end_job(slot, now, self.columns, self.nodes)

    def release(self, slot: int, row: int, now: float) -> None:
        """Take the nodes of an occupancy row from a job that goes on."""
        # What is out of use has capacity 0: the kernels count it neither with the job nor as free.
        release_row(slot, row, now, self.columns, self.nodes)

    def give_back(self, slot: int, node: int, now: float) -> int:
        """Give a free node to a job that had released it; gives its occupancy row."""
        row: int = return_node(slot, node, now, self.columns, self.nodes)
        self.ensure_capacity()
        return row

    def may_take(self, slot: int, node: int, now: float) -> bool:
        """Whether no announced drain of a node keeps a job off it: one that runs, or would start now."""
        ends = now + self.table.floats[ESTIMATE, slot]
        if not np.isnan(self.table.floats[START, slot]):
            ends = self.table.floats[EXPECTED, slot]
        return not drained_from(node, ends, self.nodes) < np.inf

    def is_free(self, node: int) -> bool:
        """Whether nobody holds any part of a node, it is in use, and the power cap lets a job have it."""
        if self._cap is not None and self.nodes.power[node] > self._settings[POWER_LEFT]:
            return False
        return bool((self.nodes.free[node] == self._capacity[node]).all() and not self._down[node])

    def holders(self, node: int) -> dict[int, int]:
        """Slots of the jobs that hold part of a node by the rows of their start, and the units of each."""
        held = super().holders(node)
        if self.requests.exclusive:
            return held
        return {slot: cores // int(self._request[slot, 0]) for slot, cores in held.items()}

    def take_down(self, node: int, holders: Mapping[int, int]) -> None:
        """Take a node out of use; what jobs hold of it they keep, but it does not come back at their ends."""
        if self._down[node] == 0:
            for slot, units in holders.items():
                self.table.ints[HELD, slot] -= units
            self._counts[FREE] -= self._free_units(node)
            self._total -= self._available[node]
            self._available[node] = 0
            self.nodes.capacity[node] = 0
        self._down[node] += 1
        self._expect_back(node)

    def bring_up(self, node: int, holders: Mapping[int, int]) -> None:
        """Take a node back into use, if there is no other reason for it to be out of use."""
        self._down[node] -= 1
        if self._down[node] == 0:
            held = np.zeros_like(self._capacity[node])
            for slot, units in holders.items():
                self.table.ints[HELD, slot] += units
                held += self._capacity[node] if self.requests.exclusive else units * self._request[slot]
            self.nodes.capacity[node] = self._capacity[node]
            self._available[node] = self._capacity[node] - held
            self._total += self._available[node]
            self._counts[FREE] += self._free_units(node)
            self._counts[EARLY] = 1
        self._expect_back(node)

    def know_of(self, drains: Sequence[AnnouncedDrain]) -> None:
        """Plan around these announced drains from now on; nodes out of use for them will come back."""
        self._drains = tuple(sorted(drains, key=lambda drain: drain.start))
        self._drained[:], self._drained_until[:] = 0, 0.0
        for drain in self._drains:
            if drain.has_begun:
                nodes = np.array(drain.nodes, np.int64)
                self._drained[nodes] += 1
                self._drained_until[nodes] = np.maximum(self._drained_until[nodes], drain.end)
        for node in range(self.n_nodes):
            self._expect_back(node)
        self._settings[DRAINS] = len(self._drains)
        self.nodes.shut[:] = 0  # it goes with drain_shuts, which begin anew
        self._drain_arrays = _drain_arrays(self._drains)
        self.ensure_capacity()

    def _expect_back(self, node: int) -> None:
        """Note when a node is expected to be in use: known only where announced drains are all there is."""
        reasons, drained = self._down[node], self._drained[node]
        known = self._drained_until[node] if reasons == drained else np.inf
        back = known if reasons > 0 else -np.inf
        if back < self.nodes.back[node]:
            self._counts[EARLY] = 1  # reservations may move forward
        self.nodes.back[node] = back

    def _free_units(self, node: int) -> int:
        """Give what a node in use adds to the free units: one if it is given whole, else its free cores."""
        if self.requests.exclusive:
            return int(self._available[node, 0] == self._capacity[node, 0])
        return int(self._available[node, 0])

    def room_for(self, slot: int, now: float) -> int:
        """Units of a job that could start now, at most all of them."""
        found: int = room_now(slot, self.units(slot), now, self.columns, self.nodes)
        return found

    def reservation(self, slot: int, now: float) -> float:
        """When a waiting job could start, by estimates; infinity if that is not known."""
        return float(reserve(slot, now, self.columns, self.nodes))

    # Memory

    def ensure_capacity(self) -> None:
        """Let every array be large enough for the next pass, and remember where they are."""
        super().ensure_capacity()
        most = self._machine.n_cores + 1
        self.occupancy.reserve(self.n_rows, most)
        self.row_limit = self.occupancy.ints.shape[1] - most
        capacity, (n_nodes, n_resources) = self.table.capacity, self._capacity.shape
        if len(self._request) < capacity:
            grown = np.zeros((capacity, n_resources), np.int64)
            grown[: len(self._request)] = self._request
            self._request = grown
            self._keys = np.concatenate([self._keys, np.zeros(capacity - len(self._keys))])
            self._asked = np.concatenate([self._asked, np.full(capacity - len(self._asked), -1)])
        if self._keeps_plans and len(self._plan) < capacity:
            grown = np.zeros((capacity, n_nodes), np.int64)
            grown[: len(self._plan)] = self._plan
            self._plan = grown
        # The begin and the end of each drain add to what a profile of the pool has.
        times = self.columns.profile_times
        most = 2 * capacity + 2 + 2 * len(self._drains)
        if len(times) < most:
            times = np.empty(2 * most)
        self.columns = self.columns._replace(
            rows=self.occupancy.ints, times=self.occupancy.floats, profile_times=times
        )
        self._packed = pack_pointers(self.columns)
        self._make_nodes()

    def _make_nodes(self) -> None:
        self.nodes = Nodes(
            settings=self._settings,
            request=self._request,
            free=self._available,
            total=self._total,
            profile=self._profile_of_nodes,
            plan=self._plan,
            **self._scratch,
            **self._drain_arrays,
        )
        self._packed_nodes = pack_pointers(self.nodes)

    def _reserve_segments(self) -> None:
        """Let the profile be long enough: a segment a running job, two a waiting one, and two a drain."""
        most = int(self._counts[RUNNING] + 2 * self._counts[QUEUED]) + 3 + 2 * len(self._drains)
        if len(self._profile_of_nodes) < most:
            self._profile_of_nodes = np.zeros((2 * most, *self._capacity.shape), np.int64)
            self._make_nodes()


def _micro(watts: float, units: int) -> int:
    """Turn W into microwatts, with a microwatt a unit to spare, by which those of units are rounded."""
    return int(min(watts * _MICRO, _MOST_POWER)) + units


def _check_cap(config: BatchConfig) -> None:
    """Refuse what does not take a power cap into account."""
    several = config.backfill is Backfill.EASY and (config.reservations > 1 or config.easy is EasyRule.CQSIM)
    own = not isinstance(config.allocator, Allocator) or not isinstance(config.dispatcher, Dispatcher)
    if several or own or config.backfill is Backfill.CONSERVATIVE:
        raise InputError(
            "batch.power_cap: nodes that add unequal power, other resources than cores, other allocators "
            "than first-fit, and announced drains go with dispatcher queue and backfill none, greedy, or "
            "easy with one reservation only, and not with easy: cqsim; change that, or take the cap out"
        )


def _expanded(config: BatchConfig) -> BatchConfig:
    """Write out what a dispatcher of the catalogue stands for."""
    if config.dispatcher is not Dispatcher.PRB:
        return config
    return config.model_copy(
        update={
            "dispatcher": Dispatcher.QUEUE,
            "policy": Policy.LEXP,
            "backfill": Backfill.GREEDY,
            "allocator": Allocator.BEST_FIT,
        }
    )


def _scratch(machine: Machine, allocator: str) -> dict[str, Any]:
    """Make the arrays that do not grow, and those that no pass changes."""
    n_nodes, n_resources = machine.capacity.shape
    having = (machine.capacity > 0).sum(axis=0)
    near, links = _distances(machine, n_nodes if allocator == Allocator.TOPOLOGY_AWARE else 0)
    return {
        "capacity": machine.capacity.copy(),
        "placed": np.zeros(n_nodes, np.int64),
        "room": np.zeros(n_nodes, np.int64),
        "heap_nodes": np.zeros(n_nodes, np.int64),
        "heap_keys": np.zeros((2, n_nodes)),
        "future": np.zeros((n_nodes, n_resources), np.int64),
        "future_total": np.zeros(n_resources, np.int64),
        "refused": np.zeros((MOST_REFUSED, n_resources + 2), np.int64),
        "owner": np.zeros(n_nodes, np.int64),
        "window": np.zeros((n_nodes, n_resources), np.int64),
        "near": near,
        "links": links,
        "power": np.zeros(n_nodes, np.int64),
        "used": np.zeros(n_nodes, np.int64),
        "aside": np.zeros(n_nodes, np.int64),
        "full": machine.capacity.copy(),
        "back": np.full(n_nodes, -np.inf),
        "shut": np.zeros(n_nodes, np.int64),
        "masked": np.zeros((n_nodes, n_resources), np.int64),
        "wakes": np.zeros(n_nodes, np.int64),
        "scarcity": n_nodes / np.maximum(having, 1) - 1.0,
    }


def _drain_arrays(drains: Sequence[AnnouncedDrain]) -> dict[str, Any]:
    """Write drains down as the kernels see them."""
    counts = [len(drain.nodes) for drain in drains]
    return {
        "drain_times": np.array([[drain.start for drain in drains], [drain.end for drain in drains]]),
        "drain_first": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "drain_nodes": np.array([node for drain in drains for node in drain.nodes], np.int64),
        "drain_shuts": np.zeros(len(drains), np.int64),
    }


def _distances(machine: Machine, n_nodes: int) -> tuple[Ints, Ints]:
    """Give all nodes by their distance from each, and links between any two."""
    if n_nodes > _MOST_NODES_IN_PAIRS:
        raise InputError(
            f"batch.allocator: topology-aware looks at every pair of nodes, and there are {n_nodes} nodes; "
            f"allowed: at most {_MOST_NODES_IN_PAIRS}; try contiguous"
        )
    links = np.array(
        [machine.network.links_from(node, n_nodes) for node in range(n_nodes)], np.int64
    ).reshape(n_nodes, n_nodes)
    return np.argsort(links, axis=1, kind="stable").astype(np.int64), links
