"""What a scenario names: workload, costs, files of the user's own; opened as a simulation takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlsim._arrays import Floats
from mlsim.batch.room.requests import Requests
from mlsim.errors import InputError
from mlsim.platform import Machine, machine_of
from mlsim.record.files import JOB_COLUMNS
from mlsim.scenario import (
    PLUGIN_KEYS,
    ApplicationConfig,
    BatchConfig,
    CleaningRule,
    Mapping,
    Scenario,
    WorkloadConfig,
    located_format,
    located_generator,
    located_model,
    located_plugin,
    located_technique,
    resolve_path,
)
from mlsim.workload import Rates, Workload, open_workload
from mlsim.workload.dates import local_times
from mlsim.workload.generation import planned
from mlsim.workload.made import Made
from mlsim.workload.measured_power import JobSteps, read_steps
from mlsim.workload.resampling import resampled

if TYPE_CHECKING:
    from mlsim.application.costs import CostProfiles
    from mlsim.workload.dependencies import Dependencies

__all__ = [
    "application_of",
    "batch_of",
    "cost_profiles",
    "dependencies_between",
    "executable_names",
    "local_clock",
    "log_of",
    "measured_power",
    "message_latency",
    "open_jobs",
    "reading_counts",
    "workload_of",
]


def application_of(scenario: Scenario) -> ApplicationConfig:
    """Return the application section with files of techniques and models of the user as they were found."""
    application = scenario.application
    execution = application.execution.model_copy(update={"model": located_model(scenario)})
    found: dict[str, object] = {"execution": execution}
    if (selection := application.selects) is None:
        found["technique"] = located_technique(scenario)
    else:
        portfolio = tuple(located_technique(scenario, name) for name in selection.portfolio)
        found["selection"] = selection.model_copy(update={"portfolio": portfolio})
    return application.model_copy(update=found)


def batch_of(scenario: Scenario) -> BatchConfig:
    """Return the batch section with files of the user's own plugins as they were found."""
    return scenario.batch.model_copy(update={key: located_plugin(scenario, key) for key in PLUGIN_KEYS})


def measured_power(scenario: Scenario) -> JobSteps | None:
    """Return the power of jobs over time, as it was measured; None where the scenario names none.

    Raises
    ------
    InputError
        If the file cannot be used, or a job takes more than a power cap counts with.
    """
    config = scenario.workload.power
    if config is None:
        return None
    path = resolve_path(scenario, config.path, "workload.power.path")
    steps = read_steps(path)
    busy = min(group.power.busy for group in scenario.platform.nodes if group.power is not None)
    if scenario.batch.power_cap is not None and steps.power.max(initial=0.0) > busy:
        raise InputError(
            f"{scenario.source}: batch.power_cap: is kept by the busy power of nodes, {busy:g} W, and "
            f"{path} has a job that takes {steps.power.max():g} W; write platform.nodes.N.power.busy: so much"
        )
    return steps


def open_jobs(scenario: Scenario, machine: Machine, requests: Requests) -> Workload:
    """Open the workload, for the units that its jobs ask for."""
    for name in scenario.workload.columns or ():
        if name in JOB_COLUMNS:
            raise InputError(
                f"{scenario.source}: workload.columns: {name!r} is a column that jobs.parquet has of itself; "
                "give that of the log another name"
            )
    config = scenario.workload.model_copy(update={"format": located_format(scenario)})
    source = _source(scenario, config, requests)
    rates = _rates(scenario, machine)
    return open_workload(config, source, requests.largest, requests.resources[1:], rates, requests.shared)


def _source(scenario: Scenario, config: WorkloadConfig, requests: Requests) -> Path | Made:
    """Return where the jobs come from: the log as it was found, or what makes them."""
    if config.resample is not None:
        return resampled(config, log_of(scenario), scenario.seed)
    generate = config.generate
    if generate is None:
        return log_of(scenario)
    if (generate.processors or 0) > requests.largest and config.cleaning.oversize is CleaningRule.KEEP:
        raise InputError(
            f"{scenario.source}: workload.generate.processors: {generate.processors}; the platform has "
            f"{requests.largest}, and larger jobs could never start; allowed: at most these, or "
            "workload.cleaning.oversize: clamp or drop"
        )
    return planned(generate, located_generator(scenario), requests.largest, scenario.seed)


def log_of(scenario: Scenario) -> Path:
    """Return the log of a scenario as it was found."""
    assert scenario.workload.path is not None
    return resolve_path(scenario, scenario.workload.path)


def workload_of(scenario: Scenario) -> Workload:
    """Open the workload of a scenario as a simulation does.

    Raises
    ------
    InputError
        If it cannot be used.
    """
    machine = machine_of(scenario)
    requests = Requests.on(machine, scenario.workload.mapping, scenario.workload.request)
    return open_jobs(scenario, machine, requests)


def dependencies_between(scenario: Scenario, workload: Workload) -> Dependencies | None:
    """Find the dependencies between jobs; None where the scenario ignores them."""
    config = scenario.workload
    if not config.dependencies:
        return None
    from mlsim.workload.dependencies import dependencies_of

    return dependencies_of(workload, log_of(scenario), lenient=config.lenient)


def local_clock(scenario: Scenario, workload: Workload) -> Callable[[Floats], Floats]:
    """Return what converts submit times [s] to seconds since 1970 on the clocks of the log's time zone."""
    place, factor = Path(scenario.source), scenario.workload.select.scale_load

    def local(times: Floats) -> Floats:
        return local_times(times * factor + workload.origin, workload.header, place)

    return local


def reading_counts(workload: Workload, dependencies: Dependencies | None) -> dict[str, int]:
    """Return the counts of what was found in the log, in order of their names."""
    notes = workload.notes | ({} if dependencies is None else dependencies.notes)
    return dict(sorted(notes.items()))


def executable_names(workload: Workload) -> Sequence[str]:
    """Return the names behind the codes of executables; none where the log has only codes."""
    names = workload.header.get("executable_names", ())
    return [] if isinstance(names, str) else list(names)


def _rates(scenario: Scenario, machine: Machine) -> Rates:
    """Return how fast a processor of the log is: a core, or all cores of a node where it is a whole node."""
    cores = int(machine.cores[0]) if scenario.workload.mapping is Mapping.NODE else 1
    return Rates(cores * machine.reference_speed, machine.network.bandwidth)


def cost_profiles(scenario: Scenario, machine: Machine) -> CostProfiles:
    """Open the costs of iterations that the scenario describes."""
    from mlsim.application.costs import CostProfiles

    application = scenario.application
    path = application.costs.path
    return CostProfiles(
        application.costs,
        application.iterations,
        machine.reference_speed,
        scenario.seed,
        None if path is None else resolve_path(scenario, path, key="application.costs.path"),
    )


def message_latency(scenario: Scenario, machine: Machine) -> float:
    """Return the latency of a coordination message in s: that of the scenario, else the network's latency."""
    latency = scenario.coordination.latency
    return machine.network.latency if latency is None else latency
