"""The coupling of the two levels: the batch system, and the applications of its jobs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mlsim import coordination
from mlsim._runtime.arrays import Ints, ranges
from mlsim.application.application_simulator import AnswerPolicy, LoopApplication, LoopJob
from mlsim.application.iteration_costs import CostProfiles
from mlsim.application.known_loops import KnownLoops
from mlsim.application.loop_outcome import LoopRecorder
from mlsim.application.selection.experience import Experiences
from mlsim.batch.batch_system import BatchSetup, BatchSystem
from mlsim.batch.clock.coupled_replay import CoupledBatch
from mlsim.batch.columns.job_columns import (
    CORES,
    EXECUTABLE,
    JOB_ID,
    LOOP_ITERATIONS,
    LOOP_LIMIT,
    PROCESSORS,
    RUN,
    START,
)
from mlsim.batch.columns.occupancy import NODE, NODE_CORES
from mlsim.batch.events.outages import OutagePlan
from mlsim.batch.job_recorder import MessageLog
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state.batch_state import Applications, Progress
from mlsim.coordination import Answer, Disturbance, Forecast, NodeSet, ReleaseRequest
from mlsim.cosim import scenario_inputs
from mlsim.cosim.assignment import Assignment, Kind
from mlsim.platform import Machine
from mlsim.record import ChunkStore, JobState
from mlsim.scenario import ApplicationConfig, Scenario
from mlsim.scenario.words import LearnsOver, TraceLevel
from mlsim.workload import Workload
from mlsim.workload.workload_dependencies import Dependencies


class RigidApplications:
    """Every job runs as long as in the log: one event, no loop."""

    def __init__(self, batch: BatchSystem | CoupledBatch) -> None:
        self._table = batch.state.table
        self._requests = batch.state.requests

    def launch(self, slot: int, at: float) -> Forecast:
        """Forecast the end of a job that starts: after its run time."""
        return Forecast(at + float(self._table.floats[RUN, slot]))

    def apply_change(self, _slot: int, at: float, _change: Disturbance, /) -> Forecast:
        """End a job: every disturbance ends a rigid job."""
        return Forecast(at)

    def request_release(self, slot: int, at: float, request: ReleaseRequest) -> tuple[Answer, Forecast]:
        """Refuse: a rigid job needs all its nodes for all its run time."""
        end = self._table.floats[START, slot] + self._table.floats[RUN, slot]
        return coordination.ReleaseRejected(request.job, at, "a rigid job"), Forecast(float(end))

    def idle_share(self, _slot: int, /) -> float:
        """Return 0: a rigid job has work for all its nodes to its end."""
        return 0.0

    def finish(self, slot: int, at: float, state: JobState) -> None:
        """No-op: the batch level records rigid jobs."""

    def requeue(self, slot: int, at: float, /) -> float:
        """Return the core-seconds of an attempt that a failure ends."""
        column = self._table.ints[:, slot : slot + 1]
        working = self._requests.working(column[PROCESSORS], column[CORES])
        return float(working[0] * (at - self._table.floats[START, slot]))


class LoopApplications:
    """Every job executes a loop, simulated when the job starts."""

    def __init__(
        self,
        batch: BatchSystem | CoupledBatch,
        scenario: Scenario,
        machine: Machine,
        log: MessageLog | None,
        assigned: Assignment | None = None,
    ) -> None:
        self.seconds = 0.0
        self._state = batch.state
        kinds = (Kind("", scenario, None),) if assigned is None else assigned.kinds
        self._assigned = assigned
        level = scenario.output.trace
        keeps_pes = level is TraceLevel.NODES or level.shows_chunks
        self._kinds = [_LoopKind.of(kind, machine, shares=not keeps_pes) for kind in kinds]
        latency = 0.0 if log is None else log.latency
        self._answers = AnswerPolicy(scenario.coordination.answer, scenario.coordination.tolerance, latency)
        self._seed = scenario.seed
        self._machine = machine
        self._store = ChunkStore() if level.shows_chunks else None
        self._experiences = Experiences()
        self._learning: dict[int, Hashable] = {}  # by number: executions that a job learns with
        self._running: dict[int, LoopApplication] = {}
        self._abandoned: dict[int, LoopApplication] = {}  # by number: jobs that are to start again
        self._attempts: dict[int, int] = {}  # by number: how often jobs that started again have before
        self._log = log
        self._keeps_requests = level is TraceLevel.MESSAGES
        self.recorder = LoopRecorder(keeps_pes, self._store)

    @property
    def notes(self) -> dict[str, int]:
        """The number of jobs whose loop cannot take its recorded run time, by reason."""
        counts: Counter[str] = Counter()
        for kind in self._kinds:
            if kind.costs is not None and kind.costs.recorded is not None:
                counts.update(kind.costs.recorded.notes)
        return dict(sorted(counts.items()))

    def launch(self, slot: int, at: float) -> Forecast:
        """Simulate the loop of a job that starts, on the nodes it holds."""
        began = time.perf_counter()
        table, number = self._state.table, self._state.number(slot)
        iterations, kind = int(table.ints[LOOP_ITERATIONS, slot]), self._kinds[0]
        if self._assigned is not None:
            kind = self._kinds[self._assigned.of_job[number]]
            own = self._assigned.iterations
            iterations = int(own[number]) if own is not None and own[number] > 0 else iterations
        job = LoopJob(
            int(table.ints[JOB_ID, slot]),
            float(table.floats[RUN, slot]),
            iterations,
            int(table.ints[LOOP_LIMIT, slot]),
        )
        assert kind.costs is not None, "the job has a loop"
        learns_with = kind.learns_with(int(table.ints[EXECUTABLE, slot]))
        known = None
        if learns_with is not None:
            self._learning[number] = learns_with
            assert kind.config.selects is not None
            known = self._experiences.at_start(at, learns_with, kind.config.selects)
        application = LoopApplication(
            job,
            kind.config,
            kind.costs,
            self._machine,
            self._store,
            self._seed,
            self._answers,
            reports_idle=self._log is not None,
            experience=known,
            known=kind.known,
        )
        held = self._state.rows_of(slot)
        with kind.scenario.own_keys():
            forecast = application.start(at, _node_set(self._state.occupancy.ints[:, held.start : held.stop]))
        self._running[slot] = application
        self._record_earlier(number)
        self.seconds += time.perf_counter() - began
        return forecast

    def apply_change(self, slot: int, at: float, change: Disturbance) -> Forecast:
        """Forecast the rest of a job from a disturbance on."""
        return self._running[slot].apply_change(at, change)

    def request_release(self, slot: int, at: float, request: ReleaseRequest) -> tuple[Answer, Forecast]:
        """Request nodes of a job; return its answer and its forecast."""
        application = self._running[slot]
        return application.request_release(at, request), application.forecast

    def idle_share(self, slot: int) -> float:
        """Return the share of a job's PE time that is idle, by its forecast."""
        return self._running[slot].idle_share

    def finish(self, slot: int, at: float, state: JobState) -> None:
        """Record the loop of a job that has ended, and send its last messages."""
        application, number = self._running.pop(slot), self._state.number(slot)
        if state is JobState.KILLED:
            application.apply_change(at, coordination.Kill())
        if (learns_with := self._learning.pop(number, None)) is not None:
            self._experiences.end(at, number, learns_with, application.show)
        self._record(number, application)
        self._send_idle(number, application)
        if self._log is not None and state is JobState.COMPLETED:
            self._log.send(number, coordination.JobCompleted(application.job.job_id, at))

    def _send_idle(self, number: int, application: LoopApplication) -> None:
        if self._log is not None:
            self._log.send_idle(number, coordination.IdleNodes.of(application.forecast.idle))

    def requeue(self, slot: int, at: float, /) -> float:
        """Keep an aborted loop; it is recorded as the last attempt unless the job starts again."""
        application, number = self._running.pop(slot), self._state.number(slot)
        if application.forecast.end > at:  # no failure has ended it
            application.apply_change(at, coordination.Kill())
        self._send_idle(number, application)
        if (learns_with := self._learning.pop(number, None)) is not None:
            self._experiences.end(at, number, learns_with, application.show)
        self._abandoned[number] = application
        return application.outcome.totals.busy

    def _record_earlier(self, number: int) -> None:
        """Record the previous attempt of a job that starts again."""
        earlier = self._abandoned.pop(number, None)
        if earlier is not None:
            attempt = self._attempts[number] = self._attempts.get(number, 0) + 1
            self._record(number, earlier, attempt, last=False)

    def _record(self, number: int, application: LoopApplication, attempt: int = 0, last: bool = True) -> None:
        """Record an attempt; by default the one after those that are recorded."""
        requests = application.requests() if self._keeps_requests else None
        self.recorder.take(
            *(number, application.began, application.outcome, application.chunks(), requests),
            attempt=attempt or self._attempts.pop(number, 0) + 1,
            last=last,
        )

    def record_abandoned(self) -> None:
        """Record the loops of jobs that never started again."""
        for number, application in self._abandoned.items():
            self._record(number, application)


class _LoopKind(NamedTuple):
    """An application whose jobs execute loops, opened; rigid ones have none of the parts."""

    name: str
    scenario: Scenario
    config: ApplicationConfig
    costs: CostProfiles | None  # None: rigid
    known: KnownLoops | None

    def learns_with(self, executable: int) -> Hashable | None:
        """Return the key of the executions that selections of a job learn with; None: of the job alone."""
        selects = self.config.selects
        if selects is None or selects.learns_over is LearnsOver.JOB:
            return None
        if selects.learns_over is LearnsOver.APPLICATION:
            return self.name, selects
        return (self.name, selects, executable) if executable >= 0 else None

    @staticmethod
    def of(kind: Kind, machine: Machine, shares: bool) -> _LoopKind:
        """Locate the code of an application, and open its costs; ``shares`` its loops with other runs."""
        one = kind.scenario
        if not one.runs_loops:
            return _LoopKind(kind.name, one, one.application, None, None)
        with one.own_keys():
            config = scenario_inputs.application_of(one)
            scenario_inputs.check_model(one, config)
            costs = kind.costs or scenario_inputs.cost_profiles(one, machine)
            known = KnownLoops.of(config, machine, one.seed) if shares else None
            return _LoopKind(kind.name, one, config, costs, known)


class MixedApplications:
    """Jobs with applications of their own, some rigid, some with loops."""

    def __init__(
        self, batch: BatchSystem | CoupledBatch, loops: LoopApplications, assigned: Assignment
    ) -> None:
        self._state, self._of_job = batch.state, assigned.of_job
        rigid = RigidApplications(batch)
        self._of_kind: list[Applications] = [
            rigid if kind.costs is None else loops for kind in assigned.kinds
        ]

    def _of(self, slot: int) -> Applications:
        return self._of_kind[int(self._of_job[self._state.number(slot)])]

    def launch(self, slot: int, at: float) -> Forecast:
        """Start the application of a job."""
        return self._of(slot).launch(slot, at)

    def apply_change(self, slot: int, at: float, change: Disturbance, /) -> Forecast:
        """Apply a disturbance to the application of a job."""
        return self._of(slot).apply_change(slot, at, change)

    def request_release(self, slot: int, at: float, request: ReleaseRequest) -> tuple[Answer, Forecast]:
        """Request nodes of a job; rigid ones refuse."""
        return self._of(slot).request_release(slot, at, request)

    def idle_share(self, slot: int, /) -> float:
        """Return the share of a job's PE time that is idle, by its forecast."""
        return self._of(slot).idle_share(slot)

    def finish(self, slot: int, at: float, state: JobState) -> None:
        """End the application of a job."""
        self._of(slot).finish(slot, at, state)

    def requeue(self, slot: int, at: float, /) -> float:
        """End an attempt of a job; return the PE-seconds it has computed."""
        return self._of(slot).requeue(slot, at)


def _node_set(rows: Ints) -> NodeSet:
    """Expand occupancy rows of one job to its nodes."""
    first, count, cores = rows[NODE], rows[NODE + 1], rows[NODE_CORES]
    if (count == 1).all():
        return NodeSet(first.copy(), cores.copy())
    return NodeSet(ranges(first, count), np.repeat(cores, count))


@dataclass(frozen=True, slots=True)
class Coupled:
    """A batch system and the applications of its jobs, ready to run."""

    batch: BatchSystem | CoupledBatch
    applications: Applications
    loops: LoopApplications | None
    log: MessageLog | None
    dependencies: Dependencies | None


def couple(
    scenario: Scenario,
    machine: Machine,
    requests: Requests,
    workload: Workload,
    report: Callable[[Progress], None] | None,
    replays: bool = False,
    assigned: Assignment | None = None,
) -> Coupled:
    """Make the batch system and the applications of a scenario.

    ``replays``: in the compiled clock; ``assigned``: the applications of jobs, if there are several.
    """
    dependencies = scenario_inputs.dependencies_between(scenario, workload)
    log = None
    if scenario.coordination.rca:
        log = MessageLog(scenario_inputs.message_latency(scenario, machine))
    if report is not None and log is not None:
        report = _with_messages(report, log)
    batch: BatchSystem | CoupledBatch
    if replays:
        batch = CoupledBatch(machine, scenario.batch, requests, report, log)
    else:
        batch = BatchSystem(
            machine,
            scenario_inputs.batch_of(scenario),
            requests,
            BatchSetup(
                scenario.coordination,
                log,
                OutagePlan.from_config(scenario.platform, scenario.seed),
                report,
                scenario_inputs.executable_names(workload),
                keep_passes=scenario.output.passes,
                seed=scenario.seed,
                cap=scenario_inputs.power_cap(scenario, machine, requests),
                dependencies=dependencies,
                feedback=scenario.workload.feedback,
                local=scenario_inputs.local_clock(scenario, workload),
            ),
        )
    if scenario.runs_loops if assigned is None else assigned.runs_loops:
        loops = LoopApplications(batch, scenario, machine, log, assigned)
        mixed = assigned is not None and any(kind.costs is None for kind in assigned.kinds)
        of_jobs = MixedApplications(batch, loops, assigned) if assigned is not None and mixed else loops
        return Coupled(batch, of_jobs, loops, log, dependencies)
    return Coupled(batch, RigidApplications(batch), None, log, dependencies)


def _with_messages(report: Callable[[Progress], None], log: MessageLog) -> Callable[[Progress], None]:
    """Report the last messages with the progress."""
    return lambda progress: report(replace(progress, messages=log.last))
