"""Passes on nodes by resources: compiled ones, and those that ask the user's code or a solver."""

import heapq
import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from mlsim._jit import borrowed, kernel
from mlsim._runtime.arrays import Ints
from mlsim.batch.allocators import node_fit
from mlsim.batch.allocators.node_arrays import nodes_at
from mlsim.batch.allocators.node_choice import called_in_kernels
from mlsim.batch.backfill.easy import start_short_jobs
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import IntColumn, IntColumns, columns_at
from mlsim.batch.dispatch import dispatcher_answers, passes
from mlsim.batch.dispatch.passes import ManyReservations, Reserving, reserving
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state.batch_columns import BatchColumns
from mlsim.batch.state.batch_state import Passes
from mlsim.batch.state.node_state import NodesRoom
from mlsim.batch.user_dispatch import OwnData, make_plugin
from mlsim.batch.view import StateView
from mlsim.errors import InputError
from mlsim.platform import Machine
from mlsim.plugins import shielded
from mlsim.record import Solves, empty
from mlsim.scenario import BatchConfig, Policy
from mlsim.scenario.words import Allocator, Dispatcher
from mlsim.workload import JobBlock

_MOST_IDLE_WAKES = 1_000_000


@kernel
def arrive_at_nodes(
    now: float, n_ended: int, first: int, last: int, arrivals: IntColumn, columns: int, nodes: int
) -> None:
    """End the jobs in the column of ended jobs, and enqueue arriving ones; see :func:`.arrive`."""
    s, room = columns_at(columns), nodes_at(nodes)
    node_fit.learn_arrivals(first, last, borrowed(arrivals), s, room)
    passes.arrive(now, n_ended, first, last, borrowed(arrivals), s, room)


@kernel
def start_short(now: float, part: IntColumns, ordered: bool, columns: int, nodes: int) -> int:
    """Start short jobs on the free ones of recently released units, ``part`` (nodes, R); return how many."""
    s, room = columns_at(columns), nodes_at(nodes)
    if s.counts[at.QUEUED] == 0:
        return 0
    passes.begin(now, ordered, s, room)
    return start_short_jobs(borrowed(part), now, s, room)


@kernel
def make_pass(
    now: float, n_started: int, ordered: bool, columns: int, nodes: int, reserving: Reserving
) -> int:
    """Start the jobs that can start, after ``n_started`` earlier ones in this pass; return the new count.

    ``ordered``: the queue is in order already. ``reserving`` is that of :func:`.reserving`.
    """
    s, room = columns_at(columns), nodes_at(nodes)
    if not passes.has_work(s):
        return n_started
    passes.begin(now, ordered, s, room)
    return passes.make_pass(n_started, now, s, room, reserving)


class NodePasses(Passes):
    """Passes on nodes by resources; files of plugins are relative to the current directory."""

    def __init__(
        self,
        jobs: BatchColumns,
        room: NodesRoom,
        machine: Machine,
        config: BatchConfig,
        requests: Requests,
        seed: int,
    ) -> None:
        self._jobs, self._room = jobs, room
        self._machine, self._config, self._requests = machine, config, requests
        self.rejected: list[tuple[int, str]] = []
        self._wakes: list[float] = []  # a heap of the times at which the dispatcher wants to be asked
        self._idle_wakes = 0
        self._own = dispatcher_answers.OwnOfJobs()
        # By slot: keys of the user-defined policy, and the numbers of the jobs that they are of.
        self._keys, self._numbers = np.zeros(0), np.zeros(0, np.int64)
        self._reserving = reserving(jobs.rules)
        self._load(config, requests.exclusive, seed)

    def _load(self, config: BatchConfig, exclusive: bool, seed: int) -> None:
        """Make the plugins."""
        self._dispatcher = self._policy = self._allocator = self._planning = None
        self._data: OwnData | None = None if config.data is None else make_plugin("data", config.data)
        if not isinstance(config.dispatcher, Dispatcher):
            self._dispatcher = make_plugin("dispatcher", config.dispatcher)
        elif config.dispatcher.solves:
            from mlsim.batch.cp.planning_dispatcher import CpDispatcher  # here, as it loads the solver

            self._dispatcher = self._planning = CpDispatcher.of(config.dispatcher, config.cp, seed)
        if not isinstance(config.policy, Policy):
            self._policy = make_plugin("policy", config.policy)
        if not isinstance(config.allocator, Allocator):
            title = f"allocator {config.allocator}"
            plugin = make_plugin("allocator", config.allocator)
            self._allocator = dispatcher_answers.AllocatorCalls(title, plugin, exclusive)

    def advance(
        self, now: float, ended: list[int], arrivals: Ints, first: int, last: int, released: Ints
    ) -> int:
        """End jobs and submit jobs, then make a pass; the slots of those that start are in ``started``."""
        for k, slot in enumerate(ended):  # mostly few: faster than an array's slice
            self._jobs.ended[k] = slot
        arrive_at_nodes(now, len(ended), first, last, arrivals, *self._places)
        self._room.measure()
        if self._allocator is None:
            return self._make_pass(now, released)
        self._allocator.now = now
        numbers, ids = self._jobs.table.ints[[at.NUMBER, at.JOB_ID]][:, self._jobs.waiting()].tolist()
        self._allocator.job_ids = dict(zip(numbers, ids, strict=True))
        with called_in_kernels(self._allocator):
            n_started = self._make_pass(now, released)
        self._allocator.check()
        return n_started

    @property
    def _places(self) -> tuple[int, int]:
        """Addresses of the jobs and the room, for kernels."""
        return self._jobs.address, self._room.address

    def _make_pass(self, now: float, released: Ints) -> int:
        if not self._jobs.counts[at.QUEUED]:
            return 0
        if self._dispatcher is not None:
            return self._dispatch(now)
        if self._policy is not None:
            self._order(now)
        if isinstance(self._reserving, ManyReservations) and not self._room.counts_units:
            self._room.reserve_segments()
        n, ordered = 0, self._policy is not None
        if len(released):
            part = self._room.part_of_free(released)
            n, ordered = start_short(now, part, ordered, *self._places), True
        return make_pass(now, n, ordered, *self._places, self._reserving)

    def _order(self, now: float) -> None:
        """Order the queue by the user's policy; jobs past the threshold go to its head."""
        assert self._policy is not None
        floats = self._jobs.table.floats
        slots = dispatcher_answers.by_arrival(self._jobs.waiting(), self._jobs.table)
        numbers = self._jobs.table.ints[at.NUMBER, slots]
        unasked, title = slots, f"policy {self._config.policy}"
        self._remember_slots()
        if not shielded(title, now, getattr, self._policy, "live", True):
            unasked = slots[self._numbers[slots] != numbers]
        data: Mapping[str, Any] = {}
        if self._data is not None:
            data = self._updated(self._view(now, slots))
            self._check_progress(f"data {self._config.data}", not self._wakes, now)
        if len(unasked):
            jobs = dispatcher_answers.waiting_jobs(unasked, self._jobs.table, self._room.arrays, self._own)
            jobs = replace(jobs, data=data)
            self._keys[unasked] = dispatcher_answers.keys_of(title, self._policy, now, jobs)
        self._numbers[slots] = numbers
        keys = self._keys[slots]
        if self._config.threshold is not None:
            keys[now - floats[at.SUBMIT, slots] > self._config.threshold] = -np.inf
        floats[at.KEY, slots] = keys
        self._jobs.set_waiting(slots[np.argsort(keys, kind="stable")])

    def _dispatch(self, now: float) -> int:
        """Ask the dispatcher, and carry out what it answers."""
        assert self._dispatcher is not None
        title = f"dispatcher {self._config.dispatcher}"
        waiting = dispatcher_answers.by_arrival(self._jobs.waiting(), self._jobs.table)
        view = self._view(now, waiting)
        if self._data is not None:
            view = replace(view, data=self._updated(view))
        answers = dispatcher_answers.Answers(
            title, now, waiting, self._jobs.columns, self._room.arrays, self._places
        )
        answers.carry_out(shielded(title, now, self._dispatcher.dispatch, view))
        gone = {slot for slot, _ in answers.rejected}
        start_times = self._jobs.table.floats[at.START]
        left = [slot for slot in waiting.tolist() if np.isnan(start_times[slot]) and slot not in gone]
        self._jobs.set_waiting(left)
        self._jobs.started[: len(answers.started)] = answers.started
        self.rejected.extend(answers.rejected)
        for later in answers.wakes:
            heapq.heappush(self._wakes, later)
        self._check_progress(title, bool(answers.started or answers.rejected or not self._wakes), now)
        return len(answers.started)

    def _view(self, now: float, waiting: Ints) -> StateView:
        return dispatcher_answers.view_of(
            now,
            waiting,
            self._machine,
            self._requests.exclusive,
            self._jobs.table,
            self._jobs.columns,
            self._room.arrays,
            self._places,
            self._own,
        )

    def _updated(self, view: StateView) -> Mapping[str, Any]:
        """Return the user's data at this pass, and schedule a pass at their next change."""
        assert self._data is not None
        now, title = view.now, f"data {self._config.data}"
        data = shielded(title, now, self._data.update, view)
        if not isinstance(data, Mapping):
            raise InputError(f"{title}: update gives {data!r:.60} at {now:g} s; allowed: a mapping by name")
        if (ask := getattr(self._data, "next_update", None)) is not None:
            later = shielded(title, now, ask, now)
            if later is not None:
                later = dispatcher_answers.later_time(title, later, now)
                heapq.heappush(self._wakes, later)
        return MappingProxyType(dict(data))

    def _check_progress(self, title: str, moves: bool, now: float) -> None:
        """Refuse a plugin that only ever asks for further passes."""
        self._idle_wakes = 0 if moves or self._jobs.counts[at.RUNNING] else self._idle_wakes + 1
        if self._idle_wakes > _MOST_IDLE_WAKES:
            raise InputError(
                f"{title}: at {now:g} s it has asked to be woken "
                f"{_MOST_IDLE_WAKES:,} times in a row while nothing ran or started; ask for later times"
            )

    def admit(self, block: JobBlock) -> None:
        """Keep what plugins may see of jobs that have come."""
        self._own.add(block.own)

    def next_wake(self, now: float) -> float:
        """Return when the dispatcher wants to be asked, at the earliest after now, in s; infinity: never."""
        while self._wakes and self._wakes[0] <= now:
            heapq.heappop(self._wakes)
        return self._wakes[0] if self._wakes else math.inf

    def solves(self) -> Solves:
        """Return how the passes of a dispatcher that plans went."""
        return empty(Solves) if self._planning is None else self._planning.solves()

    def _remember_slots(self) -> None:
        """Grow the keys to one per slot."""
        more = self._jobs.table.capacity - len(self._keys)
        if more > 0:
            self._keys = np.concatenate([self._keys, np.zeros(more)])
            self._numbers = np.concatenate([self._numbers, np.full(more, -1)])
