"""One run: couples the batch level and the application level by forecasts.

The batch system starts a job; an application simulator computes the job's whole future on the nodes
it got; the batch system schedules that future as events. This is the only module that knows both
levels.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._memory import give_back
from mlsim.application.alone import loop_alone
from mlsim.application.answers import AnswerPolicy
from mlsim.application.choice import check_technique
from mlsim.application.costs import CostProfiles
from mlsim.application.recorder import LoopRecorder
from mlsim.application.simulator import LoopApplication, LoopJob
from mlsim.batch.clock.compiled import CompiledBatch
from mlsim.batch.columns.occupancy import NODE, NODE_CORES
from mlsim.batch.columns.table import CORES, JOB_ID, LOOP_ITERATIONS, LOOP_LIMIT, PROCESSORS, RUN, START
from mlsim.batch.events.failing import OutagePlan
from mlsim.batch.plugins import check_plugins
from mlsim.batch.recording.message_rows import message_rows
from mlsim.batch.room.power import PowerCap
from mlsim.batch.room.requests import Requests
from mlsim.batch.simulator import Applications, BatchSystem, Progress
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
from mlsim.errors import InputError
from mlsim.platform import Machine, machine_of
from mlsim.platform.power import power_of
from mlsim.record import (
    JOB_COLUMNS,
    Chunks,
    Jobs,
    JobState,
    Loops,
    Messages,
    Names,
    NodePower,
    Nodes,
    PEs,
    Records,
    empty,
)
from mlsim.record import OwnColumns as OwnRecord
from mlsim.scenario import (
    PLUGIN_KEYS,
    ApplicationConfig,
    ApplicationModel,
    BatchConfig,
    Calibration,
    CostProfile,
    Engine,
    Mapping,
    Scenario,
    TraceLevel,
    WorkloadFormat,
    check_code,
    located_format,
    located_plugin,
    located_technique,
    replay_obstacle,
    resolve_path,
)
from mlsim.scenario.whole.demand import check_loop as check_loop_demand
from mlsim.scenario.whole.demand import check_workload
from mlsim.workload import JobBlock, Rates, Workload, count_marks, names_of, open_workload
from mlsim.workload.dependencies import Dependencies, dependencies_of
from mlsim.workload.formats import check_reader
from mlsim.workload.own import OwnColumns, joined_own

__all__ = [
    "Outcome",
    "Survey",
    "check_loop",
    "loop_costs",
    "simulate",
    "simulate_loop",
    "survey",
    "workload_of",
]

_MANY_JOBS = 10_000
"""From so many on it is worth a tenth of a second to begin a simulation with little memory."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run leaves.

    Attributes
    ----------
    records
        Everything that happened.
    notes
        Counts of what was found odd in the log, over the whole log.
    simulated
        The same over the jobs that were simulated.
    largest
        The most processors a job could ask for.
    pass_seconds
        Wall-clock seconds of each pass.
    application_seconds
        Wall-clock seconds spent simulating applications.
    engine
        What simulated the batch level.
    passes, replay_seconds
        Under compiled replay, which does not time single passes: how many there were, and the wall-clock
        seconds of events and passes together.
    """

    records: Records
    notes: dict[str, int]
    simulated: dict[str, int]
    largest: int
    pass_seconds: np.ndarray[Any, np.dtype[np.float64]]
    application_seconds: float
    engine: Engine = Engine.SIMPY
    passes: int = 0
    replay_seconds: float = 0.0


class _RigidApplications:
    """Every job runs as long as in the log: one event, no loop."""

    seconds = 0.0

    def __init__(self, batch: BatchSystem) -> None:
        self._table = batch.state.table
        self._requests = batch.state.requests

    def launch(self, slot: int, at: float) -> Forecast:
        return Forecast(at + float(self._table.floats[RUN, slot]))

    def disturb(self, _slot: int, at: float, _change: Disturbance, /) -> Forecast:
        """End a job: whatever disturbs a rigid job ends it."""
        return Forecast(at)

    def exclude(self, slot: int, at: float, request: ReleaseRequest) -> tuple[Answer, Forecast]:
        """Refuse: a rigid job needs all its nodes for all its run time."""
        end = self._table.floats[START, slot] + self._table.floats[RUN, slot]
        return ReleaseRejected(request.job, at, "a rigid job"), Forecast(float(end))

    def idle_share(self, _slot: int, /) -> float:
        return 0.0

    def finish(self, slot: int, at: float, state: JobState) -> None:
        """Nothing is left to note: the batch level has recorded it all."""

    def abandon(self, slot: int, at: float, /) -> float:
        column = self._table.ints[:, slot : slot + 1]
        working = self._requests.working(column[PROCESSORS], column[CORES])
        return float(working[0] * (at - self._table.floats[START, slot]))


class _LoopApplications:
    """Every job executes a loop, simulated when the job starts."""

    def __init__(
        self, batch: BatchSystem, scenario: Scenario, machine: Machine, log: MessageLog | None
    ) -> None:
        self.seconds = 0.0
        self._state = batch.state
        self._config = _application(scenario)
        coordination = scenario.coordination
        latency = 0.0 if log is None else log.latency
        self._answers = AnswerPolicy(coordination.answer, coordination.tolerance, latency)
        self._seed = scenario.seed
        self._machine = machine
        self._costs = _cost_profiles(scenario, machine)
        level = scenario.output.trace
        self._record = level is TraceLevel.CHUNKS
        self._running: dict[int, LoopApplication] = {}
        self._abandoned: dict[int, LoopApplication] = {}  # by number: jobs that are to start again
        self._log = log
        self.recorder = LoopRecorder(level in (TraceLevel.NODES, TraceLevel.CHUNKS), self._record)

    def launch(self, slot: int, at: float) -> Forecast:
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
            self._record,
            self._seed,
            self._answers,
            tells=self._log is not None,
        )
        held = self._state.rows_of(slot)
        forecast = application.start(at, _node_set(self._state.occupancy.ints[:, held.start : held.stop]))
        self._running[slot] = application
        self._abandoned.pop(self._state.number(slot), None)
        self.seconds += time.perf_counter() - began
        return forecast

    def disturb(self, slot: int, at: float, change: Disturbance) -> Forecast:
        return self._running[slot].disturb(at, change)

    def exclude(self, slot: int, at: float, request: ReleaseRequest) -> tuple[Answer, Forecast]:
        application = self._running[slot]
        return application.exclude(at, request), application.forecast

    def idle_share(self, slot: int) -> float:
        return self._running[slot].idle_share

    def finish(self, slot: int, at: float, state: JobState) -> None:
        application = self._running.pop(slot)
        if state is JobState.KILLED:
            application.disturb(at, Kill())
        number = self._state.number(slot)
        self.recorder.take(number, application.began, application.outcome)
        self._send_idle(number, application)
        if self._log is not None and state is JobState.COMPLETED:
            self._log.send(number, JobCompleted(application.job.job_id, at))

    def _send_idle(self, number: int, application: LoopApplication) -> None:
        if self._log is not None:
            for idle in application.forecast.idle:
                self._log.send(number, idle)

    def abandon(self, slot: int, _at: float, /) -> float:
        """Put a loop aside: unless its job starts again, it is the one that is recorded."""
        application, number = self._running.pop(slot), self._state.number(slot)
        self._send_idle(number, application)
        self._abandoned[number] = application
        return float(application.outcome.busy.sum())

    def take_abandoned(self) -> None:
        """Record the loops of jobs that never started again."""
        for number, application in self._abandoned.items():
            self.recorder.take(number, application.began, application.outcome)


def _node_set(rows: np.ndarray[Any, np.dtype[np.int64]]) -> NodeSet:
    """Expand occupancy rows of one job to its nodes."""
    first, count, cores = rows[NODE], rows[NODE + 1], rows[NODE_CORES]
    if (count == 1).all():
        return NodeSet(first.copy(), cores.copy())
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return NodeSet(np.repeat(first, count) + offset, np.repeat(cores, count))


def simulate(scenario: Scenario, report: Callable[[Progress, int], None] | None = None) -> Outcome:
    """Simulate a scenario from its first submission to its last completion.

    Parameters
    ----------
    scenario
        What to simulate.
    report
        Called now and then with the progress and the number of jobs of the workload.

    Returns
    -------
    Outcome
        Records and measurements; nothing is written.

    Raises
    ------
    InputError
        If the workload or a file of iteration costs cannot be used.
    """
    machine = machine_of(scenario)
    requests = Requests.on(machine, scenario.workload.mapping, scenario.workload.request)
    workload = _open(scenario, machine, requests)
    requests = replace(requests, per_job="request_columns" in workload.header)
    _check_traceable(scenario, workload)
    _check_demand(scenario, workload, requests)
    tell = None if report is None else lambda progress: report(progress, workload.n_jobs)
    if _may_replay(scenario, requests):
        return _replayed(scenario, machine, requests, workload, tell)
    dependencies = _dependencies(scenario, workload)
    log = MessageLog(_latency(scenario, machine)) if scenario.coordination.rca else None
    batch = BatchSystem(
        machine,
        _batch(scenario),
        requests,
        scenario.coordination,
        log,
        OutagePlan.from_config(scenario.platform, scenario.seed),
        tell,
        _executable_names(workload),
        keep_passes=scenario.output.passes,
        seed=scenario.seed,
        cap=_power_cap(scenario, machine, requests),
        dependencies=dependencies,
        feedback=scenario.workload.feedback,
    )
    loops = None
    applications: Applications
    if scenario.application.model is ApplicationModel.LOOP:
        applications = loops = _LoopApplications(batch, scenario, machine, log)
    else:
        applications = _RigidApplications(batch)
    if workload.n_jobs >= _MANY_JOBS:
        give_back()
    marks: Counter[str] = Counter()
    own: list[OwnColumns | None] = []
    batch.run(_counted(workload.blocks(), marks, own), applications)
    if loops is not None:
        loops.take_abandoned()
    return Outcome(
        records=_records(scenario, batch, machine, loops, log, workload, own),
        notes=_all_notes(workload, dependencies),
        simulated=dict(marks),
        largest=requests.largest,
        pass_seconds=batch.pass_times.values(),
        application_seconds=loops.seconds if loops else 0.0,
    )


def _check_traceable(scenario: Scenario, workload: Workload) -> None:
    """Check that no job ends, even if none waits, after the clock of a trace does."""
    if scenario.output.trace is TraceLevel.NONE:
        return
    from mlsim.record.otf2 import LATEST

    for block in workload.blocks():
        late = np.flatnonzero(block.submit_time + block.run_time > LATEST)
        if len(late):
            row = late[0]
            raise InputError(
                f"{scenario.source}: output.trace: job {block.job_id[row]} of {scenario.workload.path}, "
                f"submitted at {block.submit_time[row]:.6g} s and running for {block.run_time[row]:.6g} s, "
                f"ends after {LATEST:.1e} s (292 years), where the nanoseconds of a trace end; try "
                "output.trace: none, or a part of the log (workload.select)"
            )


def _check_demand(scenario: Scenario, workload: Workload, requests: Requests) -> None:
    """Check that what the workload's largest job and its length lead to can be simulated."""
    if scenario.application.model is not ApplicationModel.LOOP and not scenario.platform.random_failures:
        return
    largest, last = 0, 0.0
    for block in workload.blocks():
        fits = block.processors[block.processors <= requests.largest]
        largest, last = max(largest, int(np.max(fits, initial=0))), float(block.submit_time[-1])
    check_workload(scenario, largest, last)


def _may_replay(scenario: Scenario, requests: Requests) -> bool:
    """Tell whether compiled replay simulates a scenario; the workload may say more than its file."""
    engine = scenario.batch.engine
    if engine is Engine.REPLAY and not requests.plain:
        raise InputError(
            f"{scenario.source}: batch.engine: replay knows one resource, and the workload says what each "
            "job asks for (columns request_*); try engine: auto or simpy"
        )
    return engine is not Engine.SIMPY and requests.plain and replay_obstacle(scenario) is None


def _replayed(
    scenario: Scenario,
    machine: Machine,
    requests: Requests,
    workload: Workload,
    tell: Callable[[Progress], None] | None,
) -> Outcome:
    """Simulate in compiled code."""
    batch = CompiledBatch(machine, scenario.batch, requests, tell)
    if workload.n_jobs >= _MANY_JOBS:
        give_back()
    marks: Counter[str] = Counter()
    own: list[OwnColumns | None] = []
    batch.run(_counted(workload.blocks(), marks, own))
    return Outcome(
        records=_records(scenario, batch, machine, None, None, workload, own),
        notes=dict(workload.notes),
        simulated=dict(marks),
        largest=requests.largest,
        pass_seconds=np.empty(0),
        application_seconds=0.0,
        engine=Engine.REPLAY,
        passes=batch.n_passes,
        replay_seconds=batch.seconds,
    )


def _counted(
    blocks: Iterable[JobBlock], marks: Counter[str], own: list[OwnColumns | None]
) -> Iterator[JobBlock]:
    """Hand blocks on, count what their jobs met in cleaning, and keep columns of the user's own."""
    for block in blocks:
        own.append(block.own)
        marks.update({name: count for name, count in count_marks(block.met).items() if count})
        yield block


def simulate_loop(scenario: Scenario, run_time: float | None, chunks: bool) -> Records:
    """Simulate the loop of a scenario alone on its whole machine, from time 0, without a batch system.

    Parameters
    ----------
    scenario
        Platform, application and seed are read.
    run_time
        Seconds that costs made from a job's run time are made from; None for other costs.
    chunks
        Whether to keep a row for every chunk.

    Raises
    ------
    InputError
        If the costs cannot be made.
    """
    machine = machine_of(scenario)
    _check_loop_demand(scenario, machine)
    job = LoopJob(1, _needed_run_time(scenario, run_time))
    costs = _cost_profiles(scenario, machine)
    application = LoopApplication(job, _application(scenario), costs, machine, chunks, scenario.seed)
    return loop_alone(application, machine, chunks)


def check_loop(scenario: Scenario, run_time: float | None = None) -> None:
    """Read everything that a loop alone names, without simulating; see :func:`simulate_loop`.

    Raises
    ------
    InputError
        If a file it names cannot be used, or its costs cannot be made.
    """
    _needed_run_time(scenario, run_time)
    machine = machine_of(scenario)
    _check_loop_demand(scenario, machine)
    _cost_profiles(scenario, machine)
    check_technique(_application(scenario).technique)


def loop_costs(scenario: Scenario, run_time: float | None = None) -> NDArray[np.float64]:
    """Compute what the iterations of a loop alone cost, in prefix sums.

    Parameters
    ----------
    scenario, run_time
        As for :func:`simulate_loop`.

    Returns
    -------
    float64[N+1]
        In s on a PE of the reference speed.
    """
    machine = machine_of(scenario)
    _check_loop_demand(scenario, machine)
    needed = _needed_run_time(scenario, run_time)
    return _cost_profiles(scenario, machine).prefix(1, machine.n_cores, needed)


def _check_loop_demand(scenario: Scenario, machine: Machine) -> None:
    """Check that a loop on the whole machine can be held."""
    most = scenario.application.pes_per_node
    cores = machine.cores if most is None else np.minimum(machine.cores, most)
    check_loop_demand(scenario, int(cores.sum()))


def _needed_run_time(scenario: Scenario, run_time: float | None) -> float:
    costs = scenario.application.costs
    needed = costs.profile is CostProfile.JOB or costs.calibrate is Calibration.RUN_TIME
    if needed and run_time is None:
        raise InputError(
            f"{scenario.source}: application.costs (profile: {costs.profile}, calibrate: {costs.calibrate}) "
            "takes the costs from a job's run time, and a loop alone has none; give --run-time, or another "
            "profile such as {profile: exponential, mean: 1 ms}"
        )
    if run_time is not None and not needed:
        raise InputError(
            f"{scenario.source}: --run-time: costs of profile {costs.profile} are not made from a run time; "
            "leave it out, or write calibrate: run-time"
        )
    return run_time or 0.0


@dataclass(frozen=True, slots=True)
class Survey:
    """What a scenario would simulate: sizes of machine and workload, and the notes on reading it.

    ``jobs`` is None where a reader of the user's own would tell, and is not executed.
    """

    nodes: int
    cores: int
    largest: int
    jobs: int | None
    notes: dict[str, int]


def survey(scenario: Scenario, plugins: bool = False) -> Survey:
    """Read everything that a scenario names, without simulating.

    Parameters
    ----------
    scenario
        Which.
    plugins
        Whether the user's own code is executed: classes made, techniques compiled. Otherwise it is parsed.

    Raises
    ------
    InputError
        If a file it names cannot be used.
    """
    machine = machine_of(scenario)
    requests = Requests.on(machine, scenario.workload.mapping, scenario.workload.request)
    if scenario.application.model is ApplicationModel.LOOP:
        _cost_profiles(scenario, machine)
    check_code(scenario)
    check_plugins(_batch(scenario), execute=plugins)
    if plugins and scenario.application.model is ApplicationModel.LOOP:
        check_technique(_application(scenario).technique)
    if not isinstance(scenario.workload.format, WorkloadFormat):
        resolve_path(scenario, scenario.workload.path)
        check_reader(located_format(scenario), plugins)
        if not plugins:
            return Survey(machine.n_nodes, machine.n_cores, requests.largest, None, {})
    workload = _open(scenario, machine, requests)
    _check_traceable(scenario, workload)
    _check_demand(scenario, workload, requests)
    notes = _all_notes(workload, _dependencies(scenario, workload))
    return Survey(machine.n_nodes, machine.n_cores, requests.largest, workload.n_jobs, notes)


def workload_of(scenario: Scenario) -> Workload:
    """Open the workload of a scenario as a simulation does.

    Raises
    ------
    InputError
        If it cannot be used.
    """
    machine = machine_of(scenario)
    requests = Requests.on(machine, scenario.workload.mapping, scenario.workload.request)
    return _open(scenario, machine, requests)


def _application(scenario: Scenario) -> ApplicationConfig:
    """Give the application with files of techniques as they were found."""
    return scenario.application.model_copy(update={"technique": located_technique(scenario)})


def _batch(scenario: Scenario) -> BatchConfig:
    """Give the batch level with files of the user's own plugins as they were found."""
    return scenario.batch.model_copy(update={key: located_plugin(scenario, key) for key in PLUGIN_KEYS})


def _open(scenario: Scenario, machine: Machine, requests: Requests) -> Workload:
    path = resolve_path(scenario, scenario.workload.path)
    for name in scenario.workload.columns or ():
        if name in JOB_COLUMNS:
            raise InputError(
                f"{scenario.source}: workload.columns: {name!r} is a column that jobs.parquet has of itself; "
                "give that of the log another name"
            )
    config = scenario.workload.model_copy(update={"format": located_format(scenario)})
    return open_workload(config, path, requests.largest, requests.resources[1:], _rates(scenario, machine))


def _dependencies(scenario: Scenario, workload: Workload) -> Dependencies | None:
    """Find which job waits for which; None where the scenario does not want to know."""
    config = scenario.workload
    if not config.dependencies:
        return None
    path = resolve_path(scenario, config.path)
    return dependencies_of(workload, path, lenient=config.lenient)


def _all_notes(workload: Workload, dependencies: Dependencies | None) -> dict[str, int]:
    """Give the counts of what was found in the log, in order of their names."""
    notes = workload.notes | ({} if dependencies is None else dependencies.notes)
    return dict(sorted(notes.items()))


def _executable_names(workload: Workload) -> Sequence[str]:
    """Give the names behind the codes of executables; none where the log has only codes."""
    names = workload.header.get("executable_names", ())
    return [] if isinstance(names, str) else list(names)


def _rates(scenario: Scenario, machine: Machine) -> Rates:
    """Say how fast a processor of the log is: a core, or all cores of a node where it is a whole node."""
    cores = int(machine.cores[0]) if scenario.workload.mapping is Mapping.NODE else 1
    return Rates(cores * machine.reference_speed, machine.network.bandwidth)


def _cost_profiles(scenario: Scenario, machine: Machine) -> CostProfiles:
    application = scenario.application
    path = application.costs.path
    return CostProfiles(
        application.costs,
        application.iterations,
        machine.reference_speed,
        scenario.seed,
        None if path is None else resolve_path(scenario, path, key="application.costs.path"),
    )


def _latency(scenario: Scenario, machine: Machine) -> float:
    """Seconds of a coordination message: as the scenario says, else the network's latency."""
    latency = scenario.coordination.latency
    return machine.network.latency if latency is None else latency


def _power_cap(scenario: Scenario, machine: Machine, requests: Requests) -> PowerCap | None:
    power, levels = power_of(scenario.platform), scenario.batch.power_cap
    if power is None or levels is None:
        return None
    return PowerCap(power, machine.cores, requests.exclusive, levels)


def _node_power(scenario: Scenario) -> NodePower | None:
    power = power_of(scenario.platform)
    return None if power is None else NodePower(*power)


def _records(
    scenario: Scenario,
    batch: BatchSystem | CompiledBatch,
    machine: Machine,
    loops: _LoopApplications | None,
    log: MessageLog | None,
    workload: Workload,
    own: list[OwnColumns | None],
) -> Records:
    jobs, further = batch.jobs(), joined_own(own)
    return Records(
        nodes=Nodes(machine.name, machine.group, machine.cores, machine.speed, _node_power(scenario)),
        jobs=jobs,
        names=_names(workload, jobs),
        own=OwnRecord({} if further is None else further.of),
        occupancy=batch.occupancy_rows(),
        loops=loops.recorder.loops() if loops else empty(Loops),
        chunks=loops.recorder.chunks() if loops else empty(Chunks),
        pes=loops.recorder.pes() if loops else empty(PEs),
        messages=message_rows(log) if log else empty(Messages),
        rejections=batch.rejections(),
        **({} if isinstance(batch, CompiledBatch) else _of_simulator(batch)),
    )


def _names(workload: Workload, jobs: Jobs) -> Names:
    """Give the names that the log has for codes of its jobs."""
    names = names_of(workload.header)
    return Names({column: of for column, of in names.items() if getattr(jobs, column) is not None})


def _of_simulator(batch: BatchSystem) -> dict[str, Any]:
    """Give the tables that only a run under SimPy has."""
    return {
        "passes": batch.passes(),
        "outages": batch.outage_rows(),
        "attempts": batch.attempt_rows(),
        "solves": batch.state.solves(),
    }
