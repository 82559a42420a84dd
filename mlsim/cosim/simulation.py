"""One run: the two levels event by event, rigid jobs in compiled code, the inputs only, or a loop alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mlsim import record
from mlsim._runtime.arrays import Floats
from mlsim._runtime.late import importing
from mlsim.batch.clock.compiled_replay import CompiledBatch
from mlsim.batch.recorded_schedule import RecordedSchedule
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state.batch_state import Progress
from mlsim.batch.user_dispatch import check_plugins
from mlsim.coordination import NodeSet
from mlsim.cosim import scenario_inputs
from mlsim.cosim.assignment import Assignment, assign
from mlsim.errors import InputError
from mlsim.platform import Machine, machine_of, power_of
from mlsim.plugins import check_plugin
from mlsim.scenario import Scenario, words
from mlsim.scenario.batch_section import replay_obstacle
from mlsim.scenario.scenario_paths import check_code, located_code
from mlsim.scenario.simulation_demand import check_list, check_loop_alone
from mlsim.workload import Workload, names_of
from mlsim.workload.log_fields import job_names
from mlsim.workload.measured_power import JobSteps
from mlsim.workload.workload_jobs import joined_own

if TYPE_CHECKING:
    from mlsim.application.application_simulator import LoopApplication
    from mlsim.application.iteration_costs import CostProfiles, CostSums
    from mlsim.batch.batch_system import BatchSystem
    from mlsim.batch.job_recorder import MessageLog
    from mlsim.cosim.coupling import LoopApplications


@dataclass(frozen=True, slots=True)
class Outcome:
    """Records and measurements of a run."""

    records: record.Records
    notes: dict[str, int]  # counts of irregularities over the whole log
    simulated: dict[str, int]  # the same over the simulated jobs
    largest: int  # the most processors a job could ask for
    pass_seconds: Floats = field(default_factory=lambda: np.empty(0))  # of wall-clock time, of each pass
    application_seconds: float = 0.0  # of wall-clock time, simulating applications
    engine: words.Engine = words.Engine.SIMPY
    passes: int = 0  # under compiled replay, which does not time single passes
    replay_seconds: float = 0.0  # of wall-clock time under compiled replay, events and passes together
    replaced: tuple[str, ...] | None = None  # columns that replaced keys of applications, if several
    recorded: dict[str, Any] | None = None  # how far the recorded schedule was kept; None: not asked for


def simulate(scenario: Scenario, report: Callable[[Progress, int], None] | None = None) -> Outcome:
    """Simulate a scenario from its first submission to its last completion; nothing is written.

    ``report`` is called at intervals with the progress and the number of jobs of the workload.
    """
    machine = machine_of(scenario)
    requests = Requests.on(machine, scenario.workload.mapping, scenario.workload.request)
    workload = scenario_inputs.open_jobs(scenario, machine, requests)
    requests = requests.for_columns(workload.header.get("request_columns", ()))
    scenario_inputs.check_traceable(scenario, workload)
    assigned = _assigned(scenario, workload, machine)
    scenario_inputs.check_demand(scenario, workload, requests, assigned)
    steps = scenario_inputs.measured_power(scenario)
    submitted = scenario_inputs.Submissions(workload, requests, assigned)
    recorded = None
    if scenario.batch.dispatcher is words.Dispatcher.RECORDED:
        recorded = RecordedSchedule()
        requests = scenario_inputs.with_recorded_nodes(scenario, requests, machine, workload)
    on_progress = None if report is None else lambda progress: report(progress, workload.n_jobs)
    blocks = submitted.blocks() if recorded is None else recorded.blocks(submitted.blocks())
    replays = _may_replay(scenario, requests)
    alone = not (scenario.runs_loops if assigned is None else assigned.runs_loops)
    loops = log = dependencies = None
    batch: BatchSystem | CompiledBatch
    if replays and alone and not scenario.coordination.rca:
        batch = CompiledBatch(machine, scenario.batch, requests, on_progress)
        batch.run(blocks)
    else:
        with importing():
            from mlsim.cosim.coupling import couple
        coupled = couple(scenario, machine, requests, workload, on_progress, replays, assigned)
        batch, loops, log, dependencies = coupled.batch, coupled.loops, coupled.log, coupled.dependencies
        coupled.batch.run(blocks, coupled.applications)
        if loops is not None:
            loops.record_abandoned()
    records = records_of(scenario, batch, machine, loops, log, submitted, steps, recorded)
    return Outcome(
        records=with_applications(records, assigned),
        notes=scenario_inputs.reading_counts(workload, dependencies),
        simulated=dict(submitted.marks) | ({} if loops is None else loops.notes),
        largest=requests.largest,
        application_seconds=loops.seconds if loops else 0.0,
        **(
            {"engine": words.Engine.REPLAY, "passes": batch.n_passes, "replay_seconds": batch.seconds}
            if isinstance(batch, CompiledBatch)
            else {"pass_seconds": batch.pass_times.values()}
        ),
        replaced=None if assigned is None or scenario.applications is None else assigned.replaced,
        recorded=None if recorded is None else recorded.facts(records, requests),
    )


def _assigned(scenario: Scenario, workload: Workload, machine: Machine) -> Assignment | None:
    return assign(scenario, workload, lambda one: scenario_inputs.cost_profiles(one, machine))


def with_applications(records: record.Records, assigned: Assignment | None) -> record.Records:
    """Add application and technique of each job, where there are several applications."""
    if assigned is None:
        return records
    codes = assigned.columns()
    if not codes["application"][1]:  # one without a name, of which only the files of costs differ
        return records
    jobs = replace(records.jobs, application=codes["application"][0], technique=codes["technique"][0])
    names = {**records.names.of, **{column: names for column, (_, names) in codes.items()}}
    return replace(records, jobs=jobs, names=record.Names(names))


def _may_replay(scenario: Scenario, requests: Requests) -> bool:
    """Return whether compiled replay simulates a scenario; the workload may forbid it as well."""
    engine = scenario.batch.engine
    if engine is words.Engine.REPLAY and not requests.plain:
        raise InputError(
            f"{scenario.source}: batch.engine: replay knows one resource, and the workload says what each "
            "job asks for (columns request_*, units, node_count); try engine: auto or simpy"
        )
    plain = requests.plain and not requests.shared and not requests.node_sets
    return engine is not words.Engine.SIMPY and plain and replay_obstacle(scenario) is None


def modules_for(scenario: Scenario) -> tuple[str, ...]:
    """Return the modules that simulate a scenario, if its workload has nothing special."""
    rigid = not scenario.runs_loops
    plain = rigid and scenario.batch.engine is not words.Engine.SIMPY and replay_obstacle(scenario) is None
    return ("mlsim.cosim.simulation" if plain else "mlsim.cosim.coupling",)


def records_of(
    scenario: Scenario,
    batch: BatchSystem | CompiledBatch,
    machine: Machine,
    loops: LoopApplications | None,
    log: MessageLog | None,
    submitted: scenario_inputs.Submissions,
    steps: JobSteps | None,
    recorded: RecordedSchedule | None = None,
) -> record.Records:
    """Return everything that happened; ``loops``, ``log`` and ``steps`` are None where there are none."""
    jobs, power = batch.jobs(), power_of(scenario.platform)
    if recorded is not None:
        jobs = recorded.restore(jobs, None if isinstance(batch, CompiledBatch) else batch.dependants)
    further = joined_own(submitted.own, submitted.sizes)
    watts = None if power is None else record.NodePower(*power)
    messages, power_steps = record.empty(record.Messages), record.empty(record.PowerSteps)
    if log:
        messages = log.store.table()
    if steps:
        rows, of_job = steps.rows_of(np.asarray(jobs.job_id))
        power_steps = record.PowerSteps(of_job, steps.time[rows], steps.power[rows], steps.period[rows])
    return record.Records(
        nodes=record.Nodes(machine.name, machine.group, machine.cores, machine.speed, watts),
        jobs=jobs,
        names=_names(submitted.workload, jobs),
        own=record.OwnColumns({} if further is None else further.of),
        occupancy=batch.occupancy_rows(),
        loops=loops.recorder.loops() if loops else record.empty(record.Loops),
        chunks=loops.recorder.chunks() if loops else record.empty(record.Chunks),
        pes=loops.recorder.pes() if loops else record.empty(record.PEs),
        selections=loops.recorder.selections() if loops else record.empty(record.Selections),
        messages=messages,
        shared=record.Shared(list(machine.shared.names), list(machine.shared.units), machine.shared.capacity),
        power_steps=power_steps,
        calendar=scenario_inputs.calendar_of(scenario, submitted.workload),
        **batch.tables(),
    )


def _names(workload: Workload, jobs: record.Jobs) -> record.Names:
    """Return the names that the log has for codes of its jobs."""
    names = names_of(workload.header)
    called = job_names(workload.header)
    if called is not None:
        names["job_id"] = dict(enumerate(called, start=1))
    return record.Names({column: of for column, of in names.items() if getattr(jobs, column) is not None})


@dataclass(frozen=True, slots=True)
class Survey:
    """Sizes of machine and workload, and notes on reading; ``jobs``: None where user code is not executed."""

    nodes: int
    cores: int
    largest: int
    jobs: int | None
    notes: dict[str, int]
    misfits: dict[str, tuple[int, list[int]]] = field(default_factory=dict)
    """By reason: the number of jobs that no set of nodes could hold, and the identifiers of the first."""
    applications: dict[str, int] = field(default_factory=dict)  # jobs that have each of several
    unused: tuple[str, ...] = ()  # rules of ``assign`` that match no job


def survey(scenario: Scenario, plugins: bool = False) -> Survey:
    """Read all inputs of a scenario, without simulating; ``plugins``: user-defined code is executed too."""
    from mlsim.application.techniques import check_techniques  # which replay never needs

    machine = machine_of(scenario)
    requests = Requests.on(machine, scenario.workload.mapping, scenario.workload.request)
    for one in scenario.by_application.values():
        if one.runs_loops and not one.application.costs.by_column:
            with one.own_keys():
                scenario_inputs.cost_profiles(one, machine)
    scenario_inputs.measured_power(scenario)
    check_code(scenario)
    check_plugins(scenario_inputs.batch_of(scenario), execute=plugins)
    for one in scenario.by_application.values() if plugins else ():
        if one.runs_loops:
            with one.own_keys():
                application = scenario_inputs.application_of(one)
                check_techniques(application.techniques)
                scenario_inputs.check_model(one, application)
    if _jobs_by_user(scenario, plugins) and not plugins:
        return Survey(machine.n_nodes, machine.n_cores, requests.largest, None, {})
    workload = scenario_inputs.open_jobs(scenario, machine, requests)
    scenario_inputs.check_traceable(scenario, workload)
    assigned = _assigned(scenario, workload, machine)
    scenario_inputs.check_demand(scenario, workload, requests, assigned)
    notes = scenario_inputs.reading_counts(workload, scenario_inputs.dependencies_between(scenario, workload))
    if scenario.batch.dispatcher is words.Dispatcher.RECORDED:
        scenario_inputs.with_recorded_nodes(scenario, requests, machine, workload)
    misfits = scenario_inputs.jobs_that_never_fit(scenario, machine, requests, workload)
    found = Survey(machine.n_nodes, machine.n_cores, requests.largest, workload.n_jobs, notes, misfits)
    if assigned is None or scenario.applications is None:
        return found
    return replace(found, applications=assigned.counts(scenario.applications), unused=assigned.unused)


def _jobs_by_user(scenario: Scenario, plugins: bool) -> bool:
    """Check user-defined code that reads or draws the jobs; return whether there is any."""
    workload = scenario.workload
    if workload.generate is not None and not isinstance(workload.generate.model, words.WorkloadModel):
        from mlsim.workload.user_workloads import GENERATORS

        check_plugin(GENERATORS, located_code(scenario, "workload.generate.model"), plugins)
        return True
    if not isinstance(workload.format, words.WorkloadFormat):
        from mlsim.workload.user_workloads import READERS

        scenario_inputs.log_of(scenario)
        check_plugin(READERS, located_code(scenario, "workload.format"), plugins)
        return True
    return False


def simulate_loop(scenario: Scenario, run_time: float | None, chunks: bool) -> record.Records:
    """Simulate the loop of a scenario alone on its whole machine, from time 0, without a batch system.

    ``run_time``: seconds from which costs that depend on a job's run time are made, else None. ``chunks``:
    whether to keep a row for every chunk. PE 0, the master or coordinator, is a core of the first node.
    """
    from mlsim.application.application_simulator import single_loop_records
    from mlsim.application.loop_outcome import LoopRecorder

    machine, costs, needed = _loop_alone(scenario, run_time)
    store = record.ChunkStore() if chunks else None
    application = _application_alone(scenario, machine, costs, needed, store)
    end = application.start(0.0, _all_nodes(machine)).end
    recorder = LoopRecorder(True, store)
    requests = application.requests() if scenario.output.trace is words.TraceLevel.MESSAGES else None
    recorder.take(0, 0.0, application.outcome, application.chunks(), requests)
    return single_loop_records(1, machine, len(application.node_of_pe), end, recorder)


def _application_alone(
    scenario: Scenario,
    machine: Machine,
    costs: CostProfiles,
    run_time: float,
    store: record.ChunkStore | None,
) -> LoopApplication:
    from mlsim.application.application_simulator import LoopApplication, LoopJob

    config = scenario_inputs.application_of(scenario)
    job = LoopJob(1, run_time)
    return LoopApplication(job, config, costs, machine, store, scenario.seed, reports_idle=False)


def _all_nodes(machine: Machine) -> NodeSet:
    return NodeSet(np.arange(machine.n_nodes), machine.cores)


def check_loop(scenario: Scenario, run_time: float | None = None, held: int = 0) -> None:
    """Read all inputs of a loop alone, without simulating; ``held`` other results are in memory."""
    from mlsim.application.techniques import check_techniques
    from mlsim.application.user_code import check_model

    _needed_run_time(scenario, run_time)
    check_loop_alone(scenario, held)
    scenario_inputs.cost_profiles(scenario, machine_of(scenario))
    application = scenario_inputs.application_of(scenario)
    check_techniques(application.techniques)
    check_model(application)


def loop_costs(scenario: Scenario, run_time: float | None = None) -> Floats:
    """Compute the prefix sums of a loop alone, float64[N+1] in s, if memory holds them."""
    machine, profiles, needed = _loop_alone(scenario, run_time)
    check_list(scenario, profiles.iterations(machine.n_cores))
    if scenario.application.costs.calibrate is words.Calibration.RECORDED:
        return _recorded_costs(scenario, machine, profiles, needed, each=True).sums
    return profiles.prefix(1, machine.n_cores, needed)


def loop_cost_sums(scenario: Scenario, run_time: float | None = None) -> CostSums:
    """Compute the same, of long loops in a few numbers where their costs are linear."""
    from mlsim.application.iteration_costs import cost_sums

    machine, profiles, needed = _loop_alone(scenario, run_time)
    if scenario.application.costs.calibrate is words.Calibration.RECORDED:
        return _recorded_costs(scenario, machine, profiles, needed)
    return cost_sums(profiles.costs(1, machine.n_cores, needed))


def _recorded_costs(
    scenario: Scenario, machine: Machine, profiles: CostProfiles, run_time: float, each: bool = False
) -> CostSums:
    """Return the costs of a loop alone, calibrated on all nodes of its machine; ``each``: as a list."""
    from mlsim.application.iteration_costs import cost_sums

    application = _application_alone(scenario, machine, profiles, run_time, None)
    application.place(0.0, _all_nodes(machine), each)
    return cost_sums(application.costs)


def _loop_alone(scenario: Scenario, run_time: float | None) -> tuple[Machine, CostProfiles, float]:
    """Return the machine of a loop alone, its costs, and the run time from which they are made, in s."""
    check_loop_alone(scenario)
    machine, needed = machine_of(scenario), _needed_run_time(scenario, run_time)
    return machine, scenario_inputs.cost_profiles(scenario, machine), needed


def _needed_run_time(scenario: Scenario, run_time: float | None) -> float:
    costs = scenario.application.costs
    needed = costs.profile is words.CostProfile.JOB or costs.calibrate is not words.Calibration.NONE
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
