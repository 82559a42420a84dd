"""Outages of nodes, random failures, and restarts of jobs."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mlsim.batch.clock.event_clock import Event, Order
from mlsim.batch.events.attempts import Restarts
from mlsim.batch.events.handler import Handler, Transitions
from mlsim.batch.room.pool import AnnouncedDrain
from mlsim.batch.room.unit_requests import PowerCap
from mlsim.record import OutageKind, Outages
from mlsim.scenario import PlatformConfig
from mlsim.scenario.amount_types import node_ranges
from mlsim.scenario.platform_section import DrainConfig, FailureConfig, RandomFailureConfig

# Keeps these random numbers apart from others that are keyed by the seed.
_STREAM = 0xFA11


class FailureProcess:
    """Failures and repairs of one node: time in use by Weibull, time to repair exponential.

    The random numbers are keyed by the seed, the entry of the scenario and the node, and drawn in order of
    time, so what happens to other nodes and to jobs changes nothing.
    """

    def __init__(self, node: int, config: RandomFailureConfig, key: np.random.SeedSequence) -> None:
        self.node = node
        self._shape = config.shape
        # The mean of the Weibull distribution is scale · Γ(1 + 1 / shape).
        self._scale = config.mtbf / math.gamma(1.0 + 1.0 / config.shape)
        self._mean_repair = config.mttr
        self._random = np.random.default_rng(key)

    def time_in_use(self) -> float:
        """Draw how long the node is in use until it fails, in s."""
        return self._scale * float(self._random.weibull(self._shape))

    def time_to_repair(self) -> float:
        """Draw how long its repair takes, in s."""
        return self._mean_repair * float(self._random.standard_exponential())


@dataclass(frozen=True, slots=True)
class OutagePlan:
    """The entries of a scenario about nodes out of use, with name and size of every node group."""

    failures: tuple[FailureConfig, ...] = ()
    random_failures: tuple[RandomFailureConfig, ...] = ()
    drains: tuple[DrainConfig, ...] = ()
    groups: tuple[tuple[str, int], ...] = ()
    seed: int = 0

    @classmethod
    def from_config(cls, config: PlatformConfig, seed: int) -> OutagePlan:
        """Return the plan of a scenario's entries."""
        groups = tuple((group.name, group.count) for group in config.nodes)
        return cls(config.failures, config.random_failures, config.drains, groups, seed)

    def __bool__(self) -> bool:
        return bool(self.failures or self.random_failures or self.drains)

    @property
    def announces(self) -> bool:
        """Whether any drain is announced to dispatchers."""
        return any(drain.announced for drain in self.drains)

    def announced(self, drain: DrainConfig) -> AnnouncedDrain:
        """Return a drain as it is announced to dispatchers."""
        end = math.inf if drain.end is None else drain.end
        return AnnouncedDrain(drain.start, end, tuple(self.nodes_of(drain.nodes)))

    def processes(self) -> Iterator[FailureProcess]:
        """Yield the failure process of every node, in order of entry and node."""
        for entry, config in enumerate(self.random_failures):
            for node in self.nodes_of(config.nodes):
                key = np.random.SeedSequence(self.seed, spawn_key=(_STREAM, entry, node))
                yield FailureProcess(node, config, key)

    def nodes_of(self, choice: str | None) -> list[int]:
        """Return the numbers of the nodes that an entry names, each once, ascending."""
        return sorted({node for part in node_ranges(choice, list(self.groups)) for node in part})


class OutageCalendar(Handler):
    """Removes nodes from service according to a plan, and records the outages."""

    def __init__(self, transitions: Transitions, plan: OutagePlan, restarts: Restarts) -> None:
        super().__init__(transitions)
        self._plan, self._restarts = plan, restarts
        self._nodes, self._kinds = array("q"), array("b")
        self._starts, self._ends = array("d"), array("d")
        self._suspended: list[FailureProcess] = []
        self._known: dict[int, AnnouncedDrain] = {}  # by entry: those announced and not over

    def on_begin(self) -> None:
        """Schedule the failures and drains of the plan."""
        for failure in self._plan.failures:
            self._clock.at(failure.at, Order.FAILURE, self._fail_as_listed, failure)
        for entry, drain in enumerate(self._plan.drains):
            if not drain.announced:
                self._clock.at(drain.start, Order.FAILURE, self._drain, drain)
            elif drain.announced_at > 0.0:
                self._clock.at(drain.announced_at, Order.FAILURE, self._announce, entry)
            else:
                self._announce_drain(entry)
        for process in self._plan.processes():
            self._clock.at(process.time_in_use(), Order.FAILURE, self._fail_at_random, process)

    def on_pass(self, now: float, n_started: int) -> None:
        """Resume suspended random failures once a job has started."""
        if n_started and self._suspended:
            for process in self._suspended:
                self._schedule_failure(process, now)
            self._suspended.clear()

    def record(self) -> Outages:
        """Return the outages so far, in order of start."""
        return Outages(
            np.array(self._nodes, np.int64),
            np.array(self._kinds, np.int8),
            np.array(self._starts, np.float64),
            np.array(self._ends, np.float64),
        )

    # Failures

    def _fail_as_listed(self, event: Event) -> None:
        failure: FailureConfig = event.subject
        row = self._fail(failure.node)
        if failure.repair is not None:
            self._clock.at(self._clock.time + failure.repair, Order.FAILURE, self._return, row)

    def _fail_at_random(self, event: Event) -> None:
        process: FailureProcess = event.subject
        state, now = self._state, self._clock.time
        if not (state.n_running or state.jobs_to_come):
            # No job could suffer. A job that still waits for repairs will get its nodes in the end.
            self._suspended.append(process)
            return
        row = self._fail(process.node)
        self._clock.at(now + process.time_to_repair(), Order.FAILURE, self._repair_at_random, (row, process))

    def _repair_at_random(self, event: Event) -> None:
        row, process = event.subject
        self._bring_up(row)
        self._schedule_failure(process, self._clock.time)

    def _schedule_failure(self, process: FailureProcess, now: float) -> None:
        self._clock.at(now + process.time_in_use(), Order.FAILURE, self._fail_at_random, process)

    def _fail(self, node: int) -> int:
        """Fail a node and every job that holds it; return the row of the outage."""
        self._transitions.free_ended()  # what ends at this very time has ended before
        for slot in sorted(self._state.holders(node), key=self._state.number):
            self._restarts.fail(slot, node)
        return self._take_down(node, OutageKind.FAILED)

    # Drains

    def _drain(self, event: Event) -> None:
        """Remove nodes from service for new jobs; running jobs continue."""
        drain: DrainConfig = event.subject
        self._transitions.free_ended()
        for node in self._plan.nodes_of(drain.nodes):
            row = self._take_down(node, OutageKind.DRAINED)
            if drain.end is not None:
                self._clock.at(drain.end, Order.FAILURE, self._return, row)

    def _announce(self, event: Event) -> None:
        self._announce_drain(event.subject)

    def _announce_drain(self, entry: int) -> None:
        """Announce a drain to the dispatcher, and schedule its beginning."""
        drain = self._known[entry] = self._plan.announced(self._plan.drains[entry])
        self._state.plan_around(list(self._known.values()))
        self._clock.at(drain.start, Order.FAILURE, self._begin_announced, entry)

    def _begin_announced(self, event: Event) -> None:
        """Remove the nodes of an announced drain from service; jobs that still run there continue."""
        entry: int = event.subject
        self._transitions.free_ended()
        drain = self._known[entry] = replace(self._known[entry], has_begun=True)
        rows = [self._take_down(node, OutageKind.ANNOUNCED_DRAIN) for node in drain.nodes]
        self._state.plan_around(list(self._known.values()))
        if drain.end < np.inf:
            self._clock.at(drain.end, Order.FAILURE, self._end_announced, (entry, rows))

    def _end_announced(self, event: Event) -> None:
        entry, rows = event.subject
        del self._known[entry]
        self._state.plan_around(list(self._known.values()))
        for row in rows:
            self._bring_up(row)

    # Nodes

    def _take_down(self, node: int, kind: OutageKind) -> int:
        """Remove a node from service; return the row of its outage."""
        self._state.take_down(node)
        self._clock.request_pass()
        self._nodes.append(node)
        self._kinds.append(kind)
        self._starts.append(self._clock.time)
        self._ends.append(np.nan)
        return len(self._nodes) - 1

    def _return(self, event: Event) -> None:
        self._bring_up(event.subject)

    def _bring_up(self, row: int) -> None:
        """End the outage of a row."""
        self._transitions.free_ended()
        self._ends[row] = self._clock.time
        self._state.bring_up(self._nodes[row])
        self._clock.request_pass()


class PowerLevels(Handler):
    """Changes the power cap at the times of its levels."""

    def __init__(self, transitions: Transitions, cap: PowerCap) -> None:
        super().__init__(transitions)
        self._cap = cap

    def on_begin(self) -> None:
        """Schedule the levels."""
        for at, watts in self._cap.levels:
            self._clock.at(at, Order.FAILURE, self._change, watts)

    def _change(self, event: Event) -> None:
        self._state.set_power_cap(event.subject)
        self._clock.request_pass()
