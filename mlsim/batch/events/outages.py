"""Outages of nodes, random failures, and restarts of jobs."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mlsim.batch.clock.event_clock import Event, Order
from mlsim.batch.columns.job_table import BACKFILLED, CORES, END, ESTIMATE, RUN, START, STATE, WALLTIME
from mlsim.batch.events.event_context import System
from mlsim.batch.events.releases import Releases
from mlsim.batch.room.pool import AnnouncedDrain
from mlsim.record import Attempts, JobState, OutageKind, Outages, empty
from mlsim.scenario import (
    BatchConfig,
    DrainConfig,
    FailureConfig,
    FailureRule,
    PlatformConfig,
    RandomFailureConfig,
    node_ranges,
)

# Keeps these random numbers apart from others that are keyed by the seed.
_STREAM = 0xFA11


class FailureProcess:
    """Failures and repairs of one node: time in use by Weibull, time to repair exponential.

    The random numbers are keyed by the seed, the entry of the scenario and the node, and drawn in order of
    time, so what happens to other nodes and to jobs changes nothing.

    Parameters
    ----------
    node
        Number of the node.
    config
        Means and shape.
    key
        Key of its random numbers.
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
    """What is known beforehand of nodes that will be out of use.

    Attributes
    ----------
    failures, random_failures, drains
        The entries of the scenario.
    groups
        Name and number of nodes of every node group.
    seed
        Seed of the scenario.
    """

    failures: tuple[FailureConfig, ...] = ()
    random_failures: tuple[RandomFailureConfig, ...] = ()
    drains: tuple[DrainConfig, ...] = ()
    groups: tuple[tuple[str, int], ...] = ()
    seed: int = 0

    @classmethod
    def from_config(cls, config: PlatformConfig, seed: int) -> OutagePlan:
        """Take over the entries of a scenario."""
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


class OutageCalendar:
    """Carries out a plan of outages, and notes them.

    Parameters
    ----------
    system
        The batch system.
    plan
        What is known beforehand.
    releases
        Who knows of nodes that went back to jobs; None where nodes stay with their job.
    """

    def __init__(self, system: System, plan: OutagePlan, releases: Releases | None) -> None:
        self._releases = releases
        self._system = system
        self._plan = plan
        self._nodes, self._kinds = array("q"), array("b")
        self._starts, self._ends = array("d"), array("d")
        self._suspended: list[FailureProcess] = []
        self._known: dict[int, AnnouncedDrain] = {}  # by entry: those announced and not over

    def begin(self) -> None:
        """Schedule what is known at time 0."""
        clock = self._system.clock
        for failure in self._plan.failures:
            clock.at(failure.at, Order.FAILURE, self._fail_as_listed, failure)
        for entry, drain in enumerate(self._plan.drains):
            if not drain.announced:
                clock.at(drain.start, Order.FAILURE, self._drain, drain)
            elif drain.announced_at > 0.0:
                clock.at(drain.announced_at, Order.FAILURE, self._announce, entry)
            else:
                self._announce_drain(entry)
        for process in self._plan.processes():
            clock.at(process.time_in_use(), Order.FAILURE, self._fail_at_random, process)

    def after_pass(self, now: float, n_started: int) -> None:
        """Resume suspended random failures once a job has started."""
        if n_started and self._suspended:
            for process in self._suspended:
                self._next_failure(process, now)
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
            now = self._system.clock.time
            self._system.clock.at(now + failure.repair, Order.FAILURE, self._return, row)

    def _fail_at_random(self, event: Event) -> None:
        process: FailureProcess = event.subject
        now = self._system.clock.time
        if self._system.is_running_out:
            # No job could suffer. If one still waits for nodes to be repaired, it shall get them.
            self._suspended.append(process)
            return
        row = self._fail(process.node)
        self._system.clock.at(
            now + process.time_to_repair(), Order.FAILURE, self._repair_at_random, (row, process)
        )

    def _repair_at_random(self, event: Event) -> None:
        row, process = event.subject
        self._bring_up(row)
        self._next_failure(process, self._system.clock.time)

    def _next_failure(self, process: FailureProcess, now: float) -> None:
        self._system.clock.at(now + process.time_in_use(), Order.FAILURE, self._fail_at_random, process)

    def _fail(self, node: int) -> int:
        """Fail a node and every job that holds it; return the row of the outage."""
        self._system.free_ended()  # what ends at this very time has ended before
        state = self._system.state
        for slot in sorted(self._holders(node), key=state.number):
            self._system.fail_job(slot, node)
        return self._take_down(node, OutageKind.FAILED)

    # Drains

    def _drain(self, event: Event) -> None:
        """Take nodes out of use for new jobs; running jobs go on."""
        drain: DrainConfig = event.subject
        self._system.free_ended()
        for node in self._plan.nodes_of(drain.nodes):
            row = self._take_down(node, OutageKind.DRAINED)
            if drain.end is not None:
                self._system.clock.at(drain.end, Order.FAILURE, self._return, row)

    # Announced drains

    def _announce(self, event: Event) -> None:
        self._announce_drain(event.subject)

    def _announce_drain(self, entry: int) -> None:
        """Announce a drain to the dispatcher, and schedule its beginning."""
        drain = self._known[entry] = self._plan.announced(self._plan.drains[entry])
        self._system.state.know_of(list(self._known.values()))
        self._system.clock.at(drain.start, Order.FAILURE, self._begin_announced, entry)

    def _begin_announced(self, event: Event) -> None:
        """Take the nodes of an announced drain out of use; what runs there all the same goes on."""
        entry: int = event.subject
        self._system.free_ended()
        drain = self._known[entry] = replace(self._known[entry], has_begun=True)
        rows = [self._take_down(node, OutageKind.ANNOUNCED_DRAIN) for node in drain.nodes]
        self._system.state.know_of(list(self._known.values()))
        if drain.end < np.inf:
            self._system.clock.at(drain.end, Order.FAILURE, self._end_announced, (entry, rows))

    def _end_announced(self, event: Event) -> None:
        entry, rows = event.subject
        del self._known[entry]
        self._system.state.know_of(list(self._known.values()))
        for row in rows:
            self._bring_up(row)

    # All

    def _take_down(self, node: int, kind: OutageKind) -> int:
        self._system.state.take_down(node, self._holders(node))
        self._system.clock.ask_to_close()
        self._nodes.append(node)
        self._kinds.append(kind)
        self._starts.append(self._system.clock.time)
        self._ends.append(np.nan)
        return len(self._nodes) - 1

    def _return(self, event: Event) -> None:
        self._bring_up(event.subject)

    def _bring_up(self, row: int) -> None:
        """End the outage of a row."""
        self._system.free_ended()
        self._ends[row] = self._system.clock.time
        node = self._nodes[row]
        self._system.state.bring_up(node, self._holders(node))
        self._system.clock.ask_to_close()

    def _holders(self, node: int) -> dict[int, int]:
        """Slots of the running jobs that hold part of a node, and the units each holds there."""
        holders: dict[int, int] = self._system.state.holders(node)
        if self._releases is not None:
            holders |= self._releases.holders_of_returned(node)
        return holders


NO_NODE = -1
"""In place of the node that failed, where none did: the safeguard ended the attempt."""

_SHRINKING = (RUN, ESTIMATE, WALLTIME)
"""Columns from which an attempt takes what it got done."""

_NODE = 1
"""Place of the node in an attempt."""

_SHORTEST_ESTIMATE = 1.0
"""Seconds that a job which has outlived its estimate is expected to need when it goes on."""


@dataclass(slots=True)
class _Past:
    """What a job that started again was like: its row of the table, and its attempts."""

    number: int
    run_time: float
    estimate: float
    walltime: float
    attempts: list[tuple[float, ...]]
    cores: int = 0
    backfilled: int = 0


class Restarts:
    """Sends jobs back to the queue, and notes their attempts.

    Parameters
    ----------
    system
        The batch system.
    config
        What becomes of a job whose node fails, how often, and what its checkpoints save.
    """

    def __init__(self, system: System, config: BatchConfig) -> None:
        self._system = system
        self._rule = config.on_failure
        self._most = config.most_restarts
        self._checkpoint = config.checkpoint
        self._pasts: dict[int, _Past] = {}  # by slot, of jobs in the system
        self._ended: list[tuple[float, ...]] = []

    def count(self, slot: int) -> int:
        """How often a job has started again."""
        past = self._pasts.get(slot)
        return 0 if past is None else len(past.attempts)

    def may_go_on(self, slot: int) -> bool:
        """Whether a job that loses a node goes back to the queue."""
        past = self._pasts.get(slot)
        failures = 0 if past is None else sum(attempt[_NODE] != NO_NODE for attempt in past.attempts)
        return self._rule is not FailureRule.DIE and failures < self._most

    def record_attempt(self, slot: int, now: float, node: int, busy: float, core_seconds: float) -> None:
        """Record the end of an attempt, before the job goes back to the queue.

        Parameters
        ----------
        slot
            The job; it still has the times of its attempt.
        now
            When its node failed, in s, or the safeguard killed it.
        node
            The node; :data:`NO_NODE` for the safeguard.
        busy
            PE-seconds it computed.
        core_seconds
            What it held in this attempt.
        """
        floats, ints = self._system.state.table.floats, self._system.state.table.ints
        past = self._pasts.get(slot)
        if past is None:
            number = self._system.state.number(slot)
            run_time, estimate, walltime = (float(floats[column, slot]) for column in _SHRINKING)
            past = _Past(number, run_time, estimate, walltime, [])
            self._pasts[slot] = past
        past.cores, past.backfilled = int(ints[CORES, slot]), int(ints[BACKFILLED, slot])
        start = float(floats[START, slot])
        kept = 0.0 if node == NO_NODE else self._kept(now - start)
        floats[RUN, slot] -= kept
        for column in (ESTIMATE, WALLTIME):
            time = float(floats[column, slot])
            floats[column, slot] = time - kept if time > kept else min(time, _SHORTEST_ESTIMATE)
        # A job that can keep work holds all its nodes to its end.
        lost = core_seconds - kept * past.cores
        past.attempts.append((past.number, node, start, now, kept, lost, busy))

    def _kept(self, ran: float) -> float:
        """Seconds of an attempt that need not be done again."""
        if self._rule is not FailureRule.RESUME:
            return 0.0
        if self._checkpoint is None:
            return ran
        return min(math.floor(ran / self._checkpoint + 1e-9) * self._checkpoint, ran)

    def forget(self, slots: list[int]) -> None:
        """Keep the attempts of jobs that leave, and restore the run times and walltimes of the workload."""
        for slot in slots if self._pasts else ():
            past = self._pasts.pop(slot, None)
            if past is not None:
                table = self._system.state.table
                table.floats[_SHRINKING, slot] = past.run_time, past.estimate, past.walltime
                self._ended += past.attempts

    def strand(self, slot: int) -> bool:
        """Mark a job that can never start again as failed, if it ran before; return whether it did.

        It gets the times of its last attempt.
        """
        past = self._pasts.get(slot)
        if past is None:
            return False
        table = self._system.state.table
        _, _, start, end, *_ = past.attempts.pop()
        table.floats[START, slot], table.floats[END, slot] = start, end
        table.ints[CORES, slot], table.ints[BACKFILLED, slot] = past.cores, past.backfilled
        table.ints[STATE, slot] = JobState.FAILED
        return True

    def record(self) -> Attempts:
        """Return the ended attempts of jobs that have left, by job, then start."""
        if not self._ended:
            return empty(Attempts)
        job, node, *others = (np.array(column) for column in zip(*self._in_order(), strict=True))
        return Attempts(job.astype(np.int64), node.astype(np.int64), *others)

    def _in_order(self) -> list[tuple[float, ...]]:
        return sorted(self._ended, key=lambda row: (row[0], row[2]))
