"""The coupling of both levels: the batch system, and the applications of its jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mlsim.application.application_simulator import AnswerPolicy, LoopApplication, LoopJob
from mlsim.application.loop_outcome import LoopOutcome
from mlsim.application.loop_recorder import LoopRecorder, PERequests
from mlsim.batch.batch_system import BatchSystem
from mlsim.batch.clock.clock_progress import Progress
from mlsim.batch.columns.job_table import CORES, JOB_ID, LOOP_ITERATIONS, LOOP_LIMIT, PROCESSORS, RUN, START
from mlsim.batch.columns.occupancy import NODE, NODE_CORES
from mlsim.batch.events.event_context import Applications
from mlsim.batch.events.outages import OutagePlan
from mlsim.batch.room.unit_requests import Requests
from mlsim.coordination import (
    Answer,
    Disturbance,
    Forecast,
    JobCompleted,
    Kill,
    MessageLog,
    NodeSet,
    ReleaseRejected,
    ReleaseRequest,
)
from mlsim.cosim.run_records import Outcome, records_of
from mlsim.cosim.scenario_inputs import (
    Submissions,
    application_of,
    batch_of,
    check_model,
    cost_profiles,
    dependencies_between,
    executable_names,
    local_clock,
    message_latency,
    power_cap,
    reading_counts,
)
from mlsim.platform import Machine
from mlsim.record import ChunkStore, JobState, LoopChunks
from mlsim.scenario import ApplicationModel, Scenario, TraceLevel
from mlsim.workload import Workload
from mlsim.workload.measured_power import JobSteps


class RigidApplications:
    """Every job runs as long as in the log: one event, no loop."""

    seconds = 0.0

    def __init__(self, batch: BatchSystem) -> None:
        self._table = batch.state.table
        self._requests = batch.state.requests

    def launch(self, slot: int, at: float) -> Forecast:
        """Forecast the end of a job that starts: after its run time."""
        return Forecast(at + float(self._table.floats[RUN, slot]))

    def apply_change(self, _slot: int, at: float, _change: Disturbance, /) -> Forecast:
        """End a job: whatever disturbs a rigid job ends it."""
        return Forecast(at)

    def request_release(self, slot: int, at: float, request: ReleaseRequest) -> tuple[Answer, Forecast]:
        """Refuse: a rigid job needs all its nodes for all its run time."""
        end = self._table.floats[START, slot] + self._table.floats[RUN, slot]
        return ReleaseRejected(request.job, at, "a rigid job"), Forecast(float(end))

    def idle_share(self, _slot: int, /) -> float:
        """Return 0: a rigid job has work for all its nodes to its end."""
        return 0.0

    def finish(self, slot: int, at: float, state: JobState) -> None:
        """Nothing is left to note: the batch level has recorded it all."""

    def requeue(self, slot: int, at: float, /) -> float:
        """Return the core seconds that a job has taken which is to start again."""
        column = self._table.ints[:, slot : slot + 1]
        working = self._requests.working(column[PROCESSORS], column[CORES])
        return float(working[0] * (at - self._table.floats[START, slot]))


class LoopApplications:
    """Every job executes a loop, simulated when the job starts."""

    def __init__(
        self, batch: BatchSystem, scenario: Scenario, machine: Machine, log: MessageLog | None
    ) -> None:
        self.seconds = 0.0
        self._state = batch.state
        self._config = application_of(scenario)
        check_model(scenario, self._config)
        coordination = scenario.coordination
        latency = 0.0 if log is None else log.latency
        self._answers = AnswerPolicy(coordination.answer, coordination.tolerance, latency)
        self._seed = scenario.seed
        self._machine = machine
        self._costs = cost_profiles(scenario, machine)
        level = scenario.output.trace
        self._store = ChunkStore() if level.shows_chunks else None
        self._running: dict[int, LoopApplication] = {}
        self._abandoned: dict[int, LoopApplication] = {}  # by number: jobs that are to start again
        self._attempts: dict[int, int] = {}  # by number: how often jobs that started again have before
        self._log = log
        self._keeps_requests = level is TraceLevel.MESSAGES
        self.recorder = LoopRecorder(level is TraceLevel.NODES or level.shows_chunks, self._store)

    def launch(self, slot: int, at: float) -> Forecast:
        """Simulate the loop of a job that starts, on the nodes it holds."""
        began = time.perf_counter()
        table = self._state.table
        job = LoopJob(
            int(table.ints[JOB_ID, slot]),
            float(table.floats[RUN, slot]),
            int(table.ints[LOOP_ITERATIONS, slot]),
            int(table.ints[LOOP_LIMIT, slot]),
        )
        application = LoopApplication(
            job,
            self._config,
            self._costs,
            self._machine,
            self._store,
            self._seed,
            self._answers,
            tells=self._log is not None,
        )
        held = self._state.rows_of(slot)
        forecast = application.start(at, _node_set(self._state.occupancy.ints[:, held.start : held.stop]))
        self._running[slot] = application
        self._record_earlier(self._state.number(slot))
        self.seconds += time.perf_counter() - began
        return forecast

    def apply_change(self, slot: int, at: float, change: Disturbance) -> Forecast:
        """Forecast what is left of a job anew, from a disturbance on."""
        return self._running[slot].apply_change(at, change)

    def request_release(self, slot: int, at: float, request: ReleaseRequest) -> tuple[Answer, Forecast]:
        """Ask a job for nodes; its answer, and the forecast that follows from it."""
        application = self._running[slot]
        return application.request_release(at, request), application.forecast

    def idle_share(self, slot: int) -> float:
        """Return the share of a job's PE time that is idle, by its forecast."""
        return self._running[slot].idle_share

    def finish(self, slot: int, at: float, state: JobState) -> None:
        """Record the loop of a job that has ended, and send its last messages."""
        application = self._running.pop(slot)
        if state is JobState.KILLED:
            application.apply_change(at, Kill())
        number = self._state.number(slot)
        self._record(number, application)
        self._send_idle(number, application)
        if self._log is not None and state is JobState.COMPLETED:
            self._log.send(number, JobCompleted(application.job.job_id, at))

    def _send_idle(self, number: int, application: LoopApplication) -> None:
        if self._log is not None:
            for idle in application.forecast.idle:
                self._log.send(number, idle)

    def requeue(self, slot: int, at: float, /) -> float:
        """Put a loop aside: unless its job starts again, it is recorded as that of its last attempt."""
        application, number = self._running.pop(slot), self._state.number(slot)
        if application.forecast.end > at:  # no failure has ended it
            application.apply_change(at, Kill())
        self._send_idle(number, application)
        self._abandoned[number] = application
        return float(application.outcome.busy.sum())

    def _record_earlier(self, number: int) -> None:
        """Record what the attempt before executed, if a job starts again."""
        earlier = self._abandoned.pop(number, None)
        if earlier is not None:
            attempt = self._attempts[number] = self._attempts.get(number, 0) + 1
            self.recorder.take_attempt(number, *self._rows_of(earlier), attempt)

    def _record(self, number: int, application: LoopApplication) -> None:
        attempt = self._attempts.pop(number, 0) + 1
        self.recorder.take(number, *self._rows_of(application), attempt)

    def _rows_of(
        self, application: LoopApplication
    ) -> tuple[float, LoopOutcome, LoopChunks | None, PERequests | None]:
        requests = application.requests() if self._keeps_requests else None
        return application.began, application.outcome, application.chunks(), requests

    def record_abandoned(self) -> None:
        """Record the loops of jobs that never started again."""
        for number, application in self._abandoned.items():
            self._record(number, application)


def _node_set(rows: np.ndarray[Any, np.dtype[np.int64]]) -> NodeSet:
    """Expand occupancy rows of one job to its nodes."""
    first, count, cores = rows[NODE], rows[NODE + 1], rows[NODE_CORES]
    if (count == 1).all():
        return NodeSet(first.copy(), cores.copy())
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return NodeSet(np.repeat(first, count) + offset, np.repeat(cores, count))


def couple(
    scenario: Scenario,
    machine: Machine,
    requests: Requests,
    workload: Workload,
    tell: Callable[[Progress], None] | None,
    steps: JobSteps | None = None,
) -> Outcome:
    """Simulate event by event."""
    dependencies = dependencies_between(scenario, workload)
    log = MessageLog(message_latency(scenario, machine)) if scenario.coordination.rca else None
    if tell is not None and log is not None:
        tell = _with_messages(tell, log)
    batch = BatchSystem(
        machine,
        batch_of(scenario),
        requests,
        scenario.coordination,
        log,
        OutagePlan.from_config(scenario.platform, scenario.seed),
        tell,
        executable_names(workload),
        keep_passes=scenario.output.passes,
        seed=scenario.seed,
        cap=power_cap(scenario, machine, requests),
        dependencies=dependencies,
        feedback=scenario.workload.feedback,
        local=local_clock(scenario, workload),
    )
    loops = None
    applications: Applications
    if scenario.application.model is ApplicationModel.LOOP:
        applications = loops = LoopApplications(batch, scenario, machine, log)
    else:
        applications = RigidApplications(batch)
    submitted = Submissions(workload, requests)
    batch.run(submitted.blocks(), applications)
    if loops is not None:
        loops.record_abandoned()
    return Outcome(
        records=records_of(scenario, batch, machine, loops, log, workload, submitted.own, steps),
        notes=reading_counts(workload, dependencies),
        simulated=dict(submitted.marks),
        largest=requests.largest,
        pass_seconds=batch.pass_times.values(),
        application_seconds=loops.seconds if loops else 0.0,
    )


def _with_messages(tell: Callable[[Progress], None], log: MessageLog) -> Callable[[Progress], None]:
    """Have what is told of a run tell its last messages too."""
    return lambda progress: tell(replace(progress, messages=log.last))
