"""What a scenario would simulate: everything it names is read, nothing is simulated."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlsim.application.choice import check_technique
from mlsim.batch.plugins import check_plugins
from mlsim.batch.room.requests import Requests
from mlsim.cosim.checks import check_demand, check_model, check_traceable, jobs_that_never_fit
from mlsim.cosim.inputs import (
    application_of,
    batch_of,
    cost_profiles,
    dependencies_between,
    log_of,
    measured_power,
    open_jobs,
    reading_counts,
)
from mlsim.platform import machine_of
from mlsim.scenario import (
    ApplicationModel,
    Scenario,
    WorkloadFormat,
    WorkloadModel,
    check_code,
    located_format,
    located_generator,
)
from mlsim.workload.formats import check_reader

__all__ = ["Survey", "survey"]


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
        from mlsim.workload.models.own import check_model as check_generator

        check_generator(located_generator(scenario), plugins)
        return True
    if not isinstance(workload.format, WorkloadFormat):
        log_of(scenario)
        check_reader(located_format(scenario), plugins)
        return True
    return False
