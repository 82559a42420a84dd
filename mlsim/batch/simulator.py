"""The batch system: SimPy events outside, compiled passes inside."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from mlsim.batch.asking import Asking
from mlsim.batch.clock import Clock, Event, Order
from mlsim.batch.recorder import JobRecorder
from mlsim.batch.releases import Releases
from mlsim.batch.requests import Requests
from mlsim.batch.state import BatchState
from mlsim.batch.table import ESTIMATE, START, STATE, SUBMIT, UNITS
from mlsim.coordination import Answer, Disturbance, Forecast, MessageLog, NodeFailed, ReleaseRequest
from mlsim.platform import Machine
from mlsim.record import Jobs, JobState, Occupancy
from mlsim.record.growing import GrowingTimes
from mlsim.scenario import (
    BatchConfig,
    CoordinationConfig,
    Dispatcher,
    FailureConfig,
    OverrunRule,
    ReleasedNodes,
)
from mlsim.workload.jobs import JobBlock

__all__ = ["Applications", "BatchSystem", "Progress"]

Ints = NDArray[np.int64]

_PROGRESS_EVERY = 1024
"""Passes between two reports of progress."""


class Applications(Protocol):
    """What starts the applications of jobs and knows their futures."""

    def launch(self, slot: int, at: float) -> Forecast:
        """Start the application of the job in this slot on the nodes it got."""
        ...

    def disturb(self, slot: int, at: float, change: Disturbance, /) -> Forecast:
        """Change its future."""
        ...

    def exclude(self, slot: int, at: float, request: ReleaseRequest) -> tuple[Answer, Forecast]:
        """Ask it for nodes."""
        ...

    def finish(self, slot: int, at: float, state: JobState) -> None:
        """Take note that the job has ended."""
        ...

    def idle_share(self, slot: int, /) -> float:
        """Share of the job's node-seconds in which its nodes had run out of work."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come: simulated seconds, jobs that ended, jobs that wait."""

    time: float
    done: int
    waiting: int


class BatchSystem:
    """Queue, dispatcher and nodes of one machine.

    Parameters
    ----------
    machine
        The nodes.
    config
        Policy, backfilling and what happens at the estimate's end.
    requests
        How jobs ask for room.
    coordination
        What the two levels tell each other.
    log
        Where messages are noted, and how long they take; None where nodes stay with their job until
        it ends.
    failures
        Nodes that fail.
    report
        Called now and then with the progress.
    """

    def __init__(
        self,
        machine: Machine,
        config: BatchConfig,
        requests: Requests,
        coordination: CoordinationConfig | None = None,
        log: MessageLog | None = None,
        failures: Sequence[FailureConfig] = (),
        report: Callable[[Progress], None] | None = None,
    ) -> None:
        coordination = coordination or CoordinationConfig()
        self.clock = Clock(self._pass)
        self.state = BatchState(machine, config, requests, nodes_one_by_one=log is not None)
        self.pass_times = GrowingTimes()
        self.applications: Applications
        self.releases = None if log is None else Releases(self, log, coordination)
        self.asking = None if log is None else Asking.of(self, log, coordination)
        self._short_first = coordination.released_nodes is ReleasedNodes.SHORT_FIRST
        self._kills = config.on_overrun is OverrunRule.KILL
        self._rejects = config.dispatcher is Dispatcher.REJECT
        self._failures = failures
        self._report = report
        self._recorder = JobRecorder(self.state.table, requests)
        self._arrivals = np.empty(0, np.int64)
        self._first_arrival = self._last_arrival = 0
        self._ending: list[int] = []
        self._end_events: dict[int, Event] | None = {} if failures or self.asking else None
        self._finished: list[int] = []
        self._n_finished = 0

    def run(self, blocks: Iterable[JobBlock], applications: Applications) -> None:
        """Simulate a workload until its last job has ended.

        Parameters
        ----------
        blocks
            The jobs in order of (submit_time, job_id).
        applications
            Starts the jobs' applications.
        """
        self.applications = applications
        for failure in self._failures:
            self.clock.at(failure.at, Order.FAILURE, self._fail, failure)
        self.clock.process(self._submit_all(blocks))
        self.clock.run()
        # Nodes that are out of use for good may leave jobs that nothing will ever start.
        stranded = self.state.abandon_queue()
        self.state.table.ints[STATE, stranded] = JobState.REJECTED
        self._leave(stranded)
        self._flush()

    def jobs(self) -> Jobs:
        """Give the rows of all jobs, in order of arrival."""
        return self._recorder.jobs()

    def occupancy_rows(self) -> Occupancy:
        """Give which job held which nodes, in order of start."""
        return self.state.occupancy.record(self.state.n_rows)

    # Submissions

    def _submit_all(self, blocks: Iterable[JobBlock]) -> Generator[simpy.Event, Any, None]:
        """SimPy process: let the jobs of each submission time arrive together."""
        for block in blocks:
            slots = self._admit(block)
            submits = self.state.table.floats[SUBMIT, slots]
            bounds = np.flatnonzero(np.diff(submits, append=np.nan)) + 1
            for at, last in zip(submits[bounds - 1].tolist(), bounds.tolist(), strict=True):
                yield self.clock.until(at, Order.SUBMISSION)
                self._last_arrival = last
                self.clock.ask_to_close()

    def _admit(self, block: JobBlock) -> Ints:
        """Give slots to the jobs of a block and reject those that can never fit."""
        # The last jobs of the block before may still wait for their pass.
        self.state.enter_queue(self.clock.time, self._arrivals, self._first_arrival, self._last_arrival)
        table, requests = self.state.table, self.state.requests
        if table.n_free < len(block.job_id):
            self._flush()
        self.pass_times.settle()
        self.state.occupancy.settle()
        slots = table.admit(block, requests.units(block.processors))
        self.state.make_room()
        too_wide = table.ints[UNITS, slots] > requests.capacity
        table.ints[STATE, slots[too_wide]] = JobState.REJECTED
        self._leave(slots[too_wide].tolist())
        self._arrivals = slots[~too_wide]
        self._first_arrival = self._last_arrival = 0
        return self._arrivals

    # Passes

    def _pass(self) -> None:
        """Handle what happened at the current time, then start what can start."""
        now = self.clock.time
        short_first = self.releases.released_now if self._short_first and self.releases else 0
        began = time.perf_counter()
        if self._rejects:
            n_started = self._reject_arrivals()
        else:
            n_started = self.state.happen(
                now, self._ending, self._arrivals, self._first_arrival, self._last_arrival, short_first
            )
        self.pass_times.append(time.perf_counter() - began)
        self._first_arrival = self._last_arrival
        if self._ending:
            self._leave(self._ending)
            self._ending.clear()
        if n_started:
            for slot in self.state.started[:n_started].tolist():
                self.plan(slot, now, self.applications.launch(slot, now))
            if self.state.n_rows > self.state.row_limit:
                self.state.make_room()
        if self.releases is not None:
            self.releases.after_pass(now)
        if self.asking is not None:
            self.asking.after_pass(now)
        if self._report is not None and len(self.pass_times) % _PROGRESS_EVERY == 0:
            self._report(Progress(now, self._n_finished, self.state.n_waiting))

    def _reject_arrivals(self) -> int:
        """Reject every job that has arrived; none starts."""
        slots = self._arrivals[self._first_arrival : self._last_arrival]
        self.state.table.ints[STATE, slots] = JobState.REJECTED
        self._leave(slots.tolist())
        return 0

    # Starts and ends

    def plan(self, slot: int, now: float, forecast: Forecast) -> None:
        """Schedule what a forecast says will happen after ``now``, in place of what was planned."""
        limit = math.inf
        if self._kills:
            floats = self.state.table.floats
            limit = float(floats[START, slot] + floats[ESTIMATE, slot])
        if forecast.end <= limit:
            event = self.clock.at(forecast.end, Order.END, self._complete, slot)
        else:
            event = self.clock.at(limit, Order.END, self._kill, slot)
        if self._end_events is not None:
            if slot in self._end_events:
                self._end_events[slot].cancel()
            self._end_events[slot] = event
        if self.releases is not None:
            self.releases.plan(slot, now, forecast)

    def _complete(self, event: Event) -> None:
        if self.asking is not None:
            self.asking.learn(event.subject)
        self._end(event.subject, JobState.COMPLETED)

    def _kill(self, event: Event) -> None:
        self.state.table.ints[STATE, event.subject] = JobState.KILLED
        self._end(event.subject, JobState.KILLED)

    def _end(self, slot: int, state: JobState) -> None:
        now = self.clock.time
        self.applications.finish(slot, now, state)
        if self.releases is not None:
            self.releases.forget(slot, now)
        if self._end_events is not None:
            del self._end_events[slot]
        self._ending.append(slot)
        self.clock.ask_to_close()

    def settle(self) -> None:
        """Let jobs that end now be gone at once rather than in the pass."""
        for slot in self._ending:
            self.state.end(slot, self.clock.time)
        self._leave(self._ending)
        self._ending.clear()

    # Failures

    def _fail(self, event: Event) -> None:
        """Let a node fail, and every job that holds it."""
        failure: FailureConfig = event.subject
        now = self.clock.time
        self.settle()  # what ends at this very time has ended before
        for slot in sorted(self.state.running(), key=self.state.number):
            if self.state.holds(slot, failure.node) or self._was_returned(slot, failure.node):
                self._fail_job(slot, now, failure.node)
        self.state.take_down(failure.node)
        if failure.repair is not None:
            self.clock.at(now + failure.repair, Order.FAILURE, self._repair, failure.node)
        self.clock.ask_to_close()

    def _was_returned(self, slot: int, node: int) -> bool:
        return self.releases is not None and self.releases.was_returned(slot, node)

    def _fail_job(self, slot: int, now: float, node: int) -> None:
        assert self._end_events is not None
        self._end_events[slot].cancel()
        self.applications.disturb(slot, now, NodeFailed(node))
        self.state.table.ints[STATE, slot] = JobState.FAILED
        self._end(slot, JobState.FAILED)
        self._ending.remove(slot)
        self.state.end(slot, now)
        self._leave([slot])

    def _repair(self, event: Event) -> None:
        self.state.bring_up(event.subject)
        self.clock.ask_to_close()

    # Memory

    def _leave(self, slots: list[int]) -> None:
        self._finished.extend(slots)
        self._n_finished += len(slots)

    def _flush(self) -> None:
        """Move the rows of ended jobs to the recorder."""
        self._recorder.take(np.array(self._finished, np.int64))
        self._finished.clear()
