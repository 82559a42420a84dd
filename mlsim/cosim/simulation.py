"""One run: simulate both levels, replay rigid jobs in compiled code, or read the inputs only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mlsim._memory import importing
from mlsim.batch.clock.clock_progress import Progress
from mlsim.batch.clock.compiled_replay import CompiledBatch
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.user_dispatch import check_plugins
from mlsim.cosim.run_records import Outcome, records_of
from mlsim.cosim.scenario_inputs import (
    Submissions,
    application_of,
    batch_of,
    check_demand,
    check_model,
    check_traceable,
    cost_profiles,
    dependencies_between,
    jobs_that_never_fit,
    log_of,
    measured_power,
    open_jobs,
    reading_counts,
)
from mlsim.errors import InputError
from mlsim.platform import Machine, machine_of
from mlsim.scenario import (
    ApplicationModel,
    Engine,
    Scenario,
    WorkloadFormat,
    WorkloadModel,
    check_code,
    located_format,
    located_generator,
    replay_obstacle,
)
from mlsim.workload import Workload
from mlsim.workload.log_formats import check_reader
from mlsim.workload.measured_power import JobSteps


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
    workload = open_jobs(scenario, machine, requests)
    requests = requests.for_columns(workload.header.get("request_columns", ()))
    check_traceable(scenario, workload)
    check_demand(scenario, workload, requests)
    steps = measured_power(scenario)
    tell = None if report is None else lambda progress: report(progress, workload.n_jobs)
    if _may_replay(scenario, requests):
        return replay(scenario, machine, requests, workload, tell, steps)
    with importing():
        from mlsim.cosim.coupling import couple
    return couple(scenario, machine, requests, workload, tell, steps)


def _may_replay(scenario: Scenario, requests: Requests) -> bool:
    """Return whether compiled replay simulates a scenario; the workload may forbid it as well."""
    engine = scenario.batch.engine
    if engine is Engine.REPLAY and not requests.plain:
        raise InputError(
            f"{scenario.source}: batch.engine: replay knows one resource, and the workload says what each "
            "job asks for (columns request_*, units, node_count); try engine: auto or simpy"
        )
    plain = requests.plain and not requests.shared
    return engine is not Engine.SIMPY and plain and replay_obstacle(scenario) is None


def modules_for(scenario: Scenario) -> tuple[str, ...]:
    """Name the modules that simulating a scenario takes, if its workload has nothing special."""
    plain = scenario.batch.engine is not Engine.SIMPY and replay_obstacle(scenario) is None
    return ("mlsim.cosim.simulation" if plain else "mlsim.cosim.coupling",)


def replay(
    scenario: Scenario,
    machine: Machine,
    requests: Requests,
    workload: Workload,
    tell: Callable[[Progress], None] | None,
    steps: JobSteps | None = None,
) -> Outcome:
    """Simulate in compiled code."""
    batch = CompiledBatch(machine, scenario.batch, requests, tell)
    submitted = Submissions(workload, requests)
    batch.run(submitted.blocks())
    return Outcome(
        records=records_of(scenario, batch, machine, None, None, workload, submitted.own, steps),
        notes=dict(workload.notes),
        simulated=dict(submitted.marks),
        largest=requests.largest,
        pass_seconds=np.empty(0),
        application_seconds=0.0,
        engine=Engine.REPLAY,
        passes=batch.n_passes,
        replay_seconds=batch.seconds,
    )


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
    misfits: dict[str, tuple[int, list[int]]] = field(default_factory=dict)
    """How many jobs no set of nodes could hold, by reason, and the identifiers of the first."""


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
    from mlsim.application.techniques import check_technique  # which replay never needs

    machine = machine_of(scenario)
    requests = Requests.on(machine, scenario.workload.mapping, scenario.workload.request)
    if scenario.application.model is ApplicationModel.LOOP:
        cost_profiles(scenario, machine)
    measured_power(scenario)
    check_code(scenario)
    check_plugins(batch_of(scenario), execute=plugins)
    if plugins and scenario.application.model is ApplicationModel.LOOP:
        for technique in application_of(scenario).techniques:
            check_technique(technique)
        check_model(scenario, application_of(scenario))
    if _jobs_by_user(scenario, plugins) and not plugins:
        return Survey(machine.n_nodes, machine.n_cores, requests.largest, None, {})
    workload = open_jobs(scenario, machine, requests)
    check_traceable(scenario, workload)
    check_demand(scenario, workload, requests)
    notes = reading_counts(workload, dependencies_between(scenario, workload))
    misfits = jobs_that_never_fit(scenario, machine, requests, workload)
    return Survey(machine.n_nodes, machine.n_cores, requests.largest, workload.n_jobs, notes, misfits)


def _jobs_by_user(scenario: Scenario, plugins: bool) -> bool:
    """Check code of the user's own that reads or draws the jobs; return whether there is any."""
    workload = scenario.workload
    if workload.generate is not None and not isinstance(workload.generate.model, WorkloadModel):
        from mlsim.workload.models.user_models import check_model as check_generator

        check_generator(located_generator(scenario), plugins)
        return True
    if not isinstance(workload.format, WorkloadFormat):
        log_of(scenario)
        check_reader(located_format(scenario), plugins)
        return True
    return False
