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

from mlsim.batch.clock import Clock, Event, Order
from mlsim.batch.dispatch import FREE, N_COUNTS, QUEUED, USED_ROWS, enter_queue, instant, release_row
from mlsim.batch.occupancy import FINISH, NODE, OccupancyLog
from mlsim.batch.policies import CODES
from mlsim.batch.recorder import JobRecorder
from mlsim.batch.requests import Requests
from mlsim.batch.table import ESTIMATE, FIRST_ROW, ROWS, STATE, SUBMIT, UNITS, JobTable
from mlsim.coordination import Forecast, NodeIdle
from mlsim.platform import Machine
from mlsim.record import Jobs, JobState, Occupancy
from mlsim.scenario import Backfill, BatchConfig, OverrunRule
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

    def finish(self, slot: int, at: float, killed: bool) -> None:
        """Take note that the job has ended, early if it was killed."""
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
    release_latency
        Seconds that an idle node's message takes to arrive; None where nodes stay with their job
        until it ends.
    report
        Called now and then with the progress.
    """

    def __init__(
        self,
        machine: Machine,
        config: BatchConfig,
        requests: Requests,
        release_latency: float | None = None,
        report: Callable[[Progress], None] | None = None,
    ) -> None:
        self.clock = Clock(self._pass)
        self.table = JobTable()
        self.occupancy = OccupancyLog()
        self.pass_times = array("d")
        self._requests = requests
        self._release_latency = release_latency
        self._report = report
        self._kills = config.on_overrun is OverrunRule.KILL
        self._options = (
            CODES[config.policy.value],
            float(config.deadline_factor),
            config.backfill is Backfill.EASY,
            requests.exclusive,
            release_latency is None,
        )
        self._free = machine.cores.copy()
        self._cores = machine.cores
        self._counts = np.zeros(N_COUNTS, np.int64)
        self._counts[FREE] = requests.capacity
        self._recorder = JobRecorder(self.table, requests)
        self._arrivals = np.empty(0, np.int64)
        self._first_arrival = self._last_arrival = 0
        self._pass_is_due = False
        self._arrivals = np.empty(0, np.int64)
        self._first_arrival = self._last_arrival = 0
        self._ending: list[int] = []
        self._ended = np.empty(requests.capacity, np.int64)
        self._finished: list[int] = []
        self._n_finished = 0
        self._applications: Applications
        self._queue = self._running = np.empty(0, np.int64)
        self._make_room()

    def run(self, blocks: Iterable[JobBlock], applications: Applications) -> None:
        """Simulate a workload until its last job has ended.

        Parameters
        ----------
        blocks
            The jobs in order of (submit_time, job_id).
        applications
            Starts the jobs' applications.
        """
        self._applications = applications
        self.clock.process(self._submit_all(blocks))
        self.clock.run()
        self._flush()

    def jobs(self) -> Jobs:
        """Give the rows of all jobs, in order of arrival."""
        return self._recorder.jobs()

    def occupancy_rows(self) -> Occupancy:
        """Give which job held which nodes, in order of start."""
        return self.occupancy.record(int(self._counts[USED_ROWS]))

    # Submissions

    def _submit_all(self, blocks: Iterable[JobBlock]) -> Generator[simpy.Event, Any, None]:
        """SimPy process: let the jobs of each submission time arrive together."""
        for block in blocks:
            slots = self._admit(block)
            submits = self.table.floats[SUBMIT, slots]
            bounds = np.flatnonzero(np.diff(submits, append=np.nan)) + 1
            for at, last in zip(submits[bounds - 1].tolist(), bounds.tolist(), strict=True):
                yield self.clock.until(at, Order.SUBMISSION)
                self._last_arrival = last
                self.clock.ask_to_close()

    def _admit(self, block: JobBlock) -> Ints:
        """Give slots to the jobs of a block and reject those that can never fit."""
        self._queue_arrivals()
        if self.table.n_free < len(block.job_id):
            self._flush()
        slots = self.table.admit(block, self._requests.units(block.processors))
        self._make_room()
        too_wide = self.table.ints[UNITS, slots] > self._requests.capacity
        self.table.ints[STATE, slots[too_wide]] = JobState.REJECTED
        self._leave(slots[too_wide].tolist())
        self._arrivals = slots[~too_wide]
        self._first_arrival = self._last_arrival = 0
        return self._arrivals

    def _queue_arrivals(self) -> None:
        """Queue the last jobs of a block, whose pass is still to come, before the next block."""
        enter_queue(
            self.clock.time,
            *self._options[:2],
            self._first_arrival,
            self._last_arrival,
            self._arrivals,
            self.table.floats,
            self.table.ints,
            self._queue,
            self._counts,
        )

    # Passes

    def _pass(self) -> None:
        """Handle what happened at the current time, then start what can start."""
        now = self.clock.time
        n_ended = len(self._ending)
        for k, slot in enumerate(self._ending):
            self._ended[k] = slot
        began = time.perf_counter()
        n_started = instant(
            now,
            *self._options,
            n_ended,
            self._ended,
            self._first_arrival,
            self._last_arrival,
            self._arrivals,
            *self._state,
        )
        self.pass_times.append(time.perf_counter() - began)
        self._first_arrival = self._last_arrival
        if n_ended:
            self._leave(self._ending)
            self._ending.clear()
        if n_started:
            for slot in self._started[:n_started].tolist():
                self._start(slot, now)
            if self._counts[USED_ROWS] > self._row_limit:
                self._make_room()
        if self._report is not None and len(self.pass_times) % _PROGRESS_EVERY == 0:
            self._report(Progress(now, self._n_finished, int(self._counts[QUEUED])))

    # Starts and ends

    def _start(self, slot: int, now: float) -> None:
        forecast = self._applications.launch(slot, now)
        limit = now + self.table.floats[ESTIMATE, slot] if self._kills else math.inf
        if forecast.end <= limit:
            self.clock.at(forecast.end, Order.END, self._complete, slot)
        else:
            self.clock.at(float(limit), Order.END, self._kill, slot)
        if self._release_latency is not None and forecast.idle:
            self._plan_releases(slot, forecast.idle, forecast.end)

    def _complete(self, event: Event) -> None:
        self._end(event.subject, killed=False)

    def _kill(self, event: Event) -> None:
        self.table.ints[STATE, event.subject] = JobState.KILLED
        self._end(event.subject, killed=True)

    def _end(self, slot: int, killed: bool) -> None:
        self._applications.finish(slot, self.clock.time, killed)
        self._ending.append(slot)
        self.clock.ask_to_close()

    def _plan_releases(self, slot: int, idle: tuple[NodeIdle, ...], end: float) -> None:
        """Let every node but the last come back when its message arrives.

        The last one stays with the job, so that the job is never without a node before its end.
        """
        assert self._release_latency is not None
        first = self.table.ints[FIRST_ROW, slot]
        held = self.occupancy.ints[NODE, first : first + self.table.ints[ROWS, slot]]
        for message in idle[:-1]:
            arrival = message.time + self._release_latency
            if arrival < end:
                row = int(first + np.flatnonzero(held == message.node)[0])
                self.clock.at(arrival, Order.END, self._release, (slot, row))

    def _release(self, event: Event) -> None:
        slot, row = event.subject
        if not math.isnan(self.occupancy.floats[FINISH, row]):
            return  # the job was killed in the meantime
        release_row(
            slot,
            row,
            self.clock.time,
            self._requests.exclusive,
            self.table.ints,
            self._counts,
            self._free,
            self.occupancy.ints,
            self.occupancy.floats,
        )
        self.clock.ask_to_close()

    # Memory

    def _leave(self, slots: list[int]) -> None:
        self._finished.extend(slots)
        self._n_finished += len(slots)

    def _flush(self) -> None:
        """Move the rows of ended jobs to the recorder."""
        self._recorder.take(np.array(self._finished, np.int64))
        self._finished.clear()

    def _make_room(self) -> None:
        """Let every array be large enough for the next pass, and remember where they are."""
        capacity = self.table.capacity
        if len(self._queue) < capacity:
            self._queue = _grown(self._queue, capacity)
            self._running = _grown(self._running, capacity)
            self._spare = np.empty(capacity, np.int64)
            self._started = np.empty(capacity, np.int64)
        # A pass writes no more rows than there are units on the machine.
        self.occupancy.reserve(int(self._counts[USED_ROWS]), self._requests.capacity)
        self._row_limit = self.occupancy.ints.shape[1] - self._requests.capacity
        self._state: tuple[Any, ...] = (
            self.table.floats,
            self.table.ints,
            self._queue,
            self._spare,
            self._running,
            self._counts,
            self._free,
            self._cores,
            self.occupancy.ints,
            self.occupancy.floats,
            self._started,
        )


def _grown(array: Ints, capacity: int) -> Ints:
    grown = np.empty(capacity, np.int64)
    grown[: len(array)] = array
    return grown
