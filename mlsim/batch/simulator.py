"""The batch system: SimPy events outside, compiled passes inside."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from mlsim.batch.asking import Asking
from mlsim.batch.clock import Clock, Event, Order
from mlsim.batch.failing import OutagePlan
from mlsim.batch.occupancy import BEGIN, COUNT, FINISH, NODE_CORES
from mlsim.batch.outages import OutageCalendar
from mlsim.batch.power import PowerCap
from mlsim.batch.recorder import JobRecorder
from mlsim.batch.releases import Releases
from mlsim.batch.requests import Requests
from mlsim.batch.restarts import Restarts
from mlsim.batch.state import BatchState
from mlsim.batch.table import ESTIMATE, START, STATE, SUBMIT, UNITS
from mlsim.coordination import Answer, Disturbance, Forecast, MessageLog, NodeFailed, ReleaseRequest
from mlsim.platform import Machine
from mlsim.record import Attempts, Jobs, JobState, Occupancy, Outages, empty
from mlsim.scenario import BatchConfig, CoordinationConfig, OverrunRule, ReleasedNodes
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

    def abandon(self, slot: int, at: float, /) -> float:
        """Take note that the job will start again; gives the PE-seconds it has computed."""
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
    plan
        Nodes that will be out of use.
    report
        Called now and then with the progress.
    cap
        How much power jobs may add.
    """

    def __init__(
        self,
        machine: Machine,
        config: BatchConfig,
        requests: Requests,
        coordination: CoordinationConfig | None = None,
        log: MessageLog | None = None,
        plan: OutagePlan | None = None,
        report: Callable[[Progress], None] | None = None,
        cap: PowerCap | None = None,
    ) -> None:
        coordination = coordination or CoordinationConfig()
        self.clock = Clock(self._pass)
        self.state = BatchState(machine, config, requests, nodes_one_by_one=log is not None, cap=cap)
        self._cap = cap
        self.pass_times = array("d")
        self.applications: Applications
        self.releases = None if log is None else Releases(self, log, coordination)
        self.asking = None if log is None else Asking.of(self, log, coordination)
        self._short_first = coordination.released_nodes is ReleasedNodes.SHORT_FIRST
        self._kills = config.on_overrun is OverrunRule.KILL
        plan = plan or OutagePlan()
        self._outages = OutageCalendar(self, plan) if plan else None
        self._restarts = Restarts(self, config)
        self._report = report
        self._recorder = JobRecorder(self.state.table, requests)
        self._arrivals = np.empty(0, np.int64)
        self._first_arrival = self._last_arrival = 0
        self._ending: list[int] = []
        self._end_events: dict[int, Event] | None = {} if plan or self.asking else None
        self._all_submitted = False
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
        if self._outages is not None:
            self._outages.begin()
        if self._cap is not None:
            for at, watts in self._cap.levels:
                self.clock.at(at, Order.FAILURE, self._set_power_cap, watts)
        self.clock.process(self._submit_all(blocks))
        self.clock.run()
        # Nodes that are out of use for good may leave jobs that nothing will ever start.
        stranded = self.state.abandon_queue()
        self.state.table.ints[STATE, stranded] = JobState.REJECTED
        self._restarts.strand(stranded)
        self._leave(stranded)
        self._flush()

    def jobs(self) -> Jobs:
        """Give the rows of all jobs, in order of arrival."""
        return self._recorder.jobs()

    def occupancy_rows(self) -> Occupancy:
        """Give which job held which nodes, in order of start."""
        return self.state.occupancy.record(self.state.n_rows)

    def outage_rows(self) -> Outages:
        """Give when which nodes were out of use, in order of start."""
        return empty(Outages) if self._outages is None else self._outages.record()

    def attempt_rows(self) -> Attempts:
        """Give the attempts that failures ended, by job."""
        return self._restarts.record()

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
        self._all_submitted = True

    def _admit(self, block: JobBlock) -> Ints:
        """Give slots to the jobs of a block and reject those that can never fit."""
        # The last jobs of the block before may still wait for their pass.
        self.state.enter_queue(self.clock.time, self._arrivals, self._first_arrival, self._last_arrival)
        table, requests = self.state.table, self.state.requests
        if table.n_free < len(block.job_id):
            self._flush()
        slots = table.admit(block, requests.units(block.processors))
        self.state.make_room()
        too_wide = table.ints[UNITS, slots] > self.state.capacity
        table.ints[STATE, slots[too_wide]] = JobState.REJECTED
        self._leave(slots[too_wide].tolist())
        self._arrivals = slots[~too_wide]
        self._first_arrival = self._last_arrival = 0
        return self._arrivals

    # Passes

    def _pass(self) -> None:
        """Handle what happened at the current time, then start what can start."""
        now = self.clock.time
        if self.state.holds_back:
            self.settle()
        short_first = self.releases.released_now if self._short_first and self.releases else 0
        began = time.perf_counter()
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
        if self._outages is not None:
            self._outages.after_pass(now, n_started)
        if self._report is not None and len(self.pass_times) % _PROGRESS_EVERY == 0:
            self._report(Progress(now, self._n_finished, self.state.n_waiting))

    def _set_power_cap(self, event: Event) -> None:
        self.state.set_power_cap(event.subject)
        self.clock.ask_to_close()

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

    @property
    def is_running_out(self) -> bool:
        """Whether no job runs and no more will be submitted."""
        return self._all_submitted and not self.state.n_running

    def attempt(self, slot: int) -> tuple[int, int]:
        """Give the number of a job, and how often it has started again."""
        return self.state.number(slot), self._restarts.count(slot)

    def fail_job(self, slot: int, node: int) -> None:
        """Let a running job lose a node: it ends, and may go back to the queue."""
        assert self._end_events is not None
        now = self.clock.time
        self._end_events[slot].cancel()
        self.applications.disturb(slot, now, NodeFailed(node))
        if self._restarts.may_go_on(slot):
            self._start_again(slot, now, node)
            return
        self.state.table.ints[STATE, slot] = JobState.FAILED
        self._end(slot, JobState.FAILED)
        self._ending.remove(slot)
        self.state.end(slot, now)
        self._leave([slot])

    def _start_again(self, slot: int, now: float, node: int) -> None:
        """End an attempt and put its job back into the queue."""
        assert self._end_events is not None
        busy = self.applications.abandon(slot, now)
        rows = list(self.state.rows_of(slot))
        if self.releases is not None:
            rows += self.releases.returned_rows(slot)
            self.releases.forget(slot, now)
        del self._end_events[slot]
        self.state.end(slot, now)
        ints, times = self.state.occupancy.ints[:, rows], self.state.occupancy.floats[:, rows]
        core_seconds = ints[COUNT] * ints[NODE_CORES] * (times[FINISH] - times[BEGIN])
        self._restarts.note(slot, now, node, busy, float(core_seconds.sum()))
        self.state.requeue(slot, now)
        self.clock.ask_to_close()

    # Memory

    def _leave(self, slots: list[int]) -> None:
        self._restarts.forget(slots)
        self._finished.extend(slots)
        self._n_finished += len(slots)

    def _flush(self) -> None:
        """Move the rows of ended jobs to the recorder."""
        self._recorder.take(np.array(self._finished, np.int64))
        self._finished.clear()
