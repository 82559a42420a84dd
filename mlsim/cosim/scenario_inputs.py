"""Inputs of a simulation: workload, costs and user-defined files, opened and checked; the jobs to submit."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlsim._runtime.arrays import Floats, NDArray
from mlsim._runtime.memory import give_back
from mlsim.batch.room.unit_requests import Misfits, PowerCap, Requests, without_start
from mlsim.cosim.assignment import Assignment, columns_to_read
from mlsim.errors import InputError
from mlsim.platform import Machine, machine_of, power_of
from mlsim.platform.node_lists import RecordedNodes
from mlsim.record import Calendar
from mlsim.record.table_blocks import LARGE_ROWS
from mlsim.record.table_files import JOB_COLUMNS
from mlsim.scenario import ApplicationConfig, BatchConfig, Scenario, WorkloadConfig
from mlsim.scenario.resources_section import DEVICE_PARTS
from mlsim.scenario.scenario_paths import PLUGIN_KEYS, located_code, located_technique, resolve_path
from mlsim.scenario.simulation_demand import check_failures, check_loop
from mlsim.scenario.words import CleaningRule, Contiguity, Dispatcher, Mapping, RequestRule, TraceLevel
from mlsim.workload import JobBlock, Rates, Workload, count_marks, open_workload
from mlsim.workload.derived_logs import resampled
from mlsim.workload.generated_jobs import Made, planned
from mlsim.workload.log_fields import local_times, start_and_zone
from mlsim.workload.measured_power import JobSteps, read_steps
from mlsim.workload.workload_jobs import (
    LOG_WITHDRAWAL,
    RECORDED_NODES,
    WORKFLOW_KEY,
    OwnColumns,
    columns_of_input,
)

if TYPE_CHECKING:
    from mlsim.application.iteration_costs import CostProfiles
    from mlsim.workload.workload_dependencies import Dependencies


def application_of(scenario: Scenario) -> ApplicationConfig:
    """Return the application section with the resolved files of user-defined techniques and models."""
    application = scenario.application
    model = located_code(scenario, "application.execution.model")
    execution = application.execution.model_copy(update={"model": model})
    found: dict[str, object] = {"execution": execution}
    if (selection := application.selects) is None:
        found["technique"] = located_technique(scenario)
    else:
        portfolio = tuple(located_technique(scenario, name) for name in selection.portfolio)
        found["selection"] = selection.model_copy(update={"portfolio": portfolio})
    return application.model_copy(update=found)


def batch_of(scenario: Scenario) -> BatchConfig:
    """Return the batch section with the resolved files of user-defined plugins."""
    named = [key for key in PLUGIN_KEYS if getattr(scenario.batch, key) is not None]
    located = {key: located_code(scenario, f"batch.{key}") for key in named}
    return scenario.batch.model_copy(update=located)


def measured_power(scenario: Scenario) -> JobSteps | None:
    """Return the measured power of jobs over time, if there is any; it may not break a power cap."""
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
        if name in (*JOB_COLUMNS, LOG_WITHDRAWAL) and (
            name != "application" or scenario.applications is not None
        ):
            raise InputError(
                f"{scenario.source}: workload.columns: {name!r} is a column that jobs.parquet has of itself; "
                "give that of the log another name"
            )
    config = scenario.workload.model_copy(update={"format": located_code(scenario, "workload.format")})
    # A processor of the log is a core, or all cores of a node where it is a whole node.
    cores = int(machine.cores[0]) if scenario.workload.mapping is Mapping.NODE else 1
    rates = Rates(cores * machine.reference_speed, machine.network.bandwidth)
    source = _source(scenario, config, requests)
    workload = open_workload(
        *(config, source, requests.largest, requests.resources[1:], rates, requests.shared),
        if_there=(*columns_to_read(scenario), *(("profile",) if scenario.output.batsim else ())),
        cores_per_node=int(machine.cores[0]),
        devices=machine.devices,
    )
    if WORKFLOW_KEY in workload.header and not config.dependencies:
        logging.getLogger("mlsim").warning(
            "the workload is the workflow %s, whose tasks are simulated as independent jobs; to have them "
            "wait for their parents, set workload.dependencies: on",
            workload.header[WORKFLOW_KEY],
        )
    return workload


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
    model = located_code(scenario, "workload.generate.model")
    return planned(generate, model, requests.largest, scenario.seed)


def log_of(scenario: Scenario) -> Path:
    """Return the log of a scenario as it was found."""
    assert scenario.workload.path is not None
    return resolve_path(scenario, scenario.workload.path)


def workload_of(scenario: Scenario) -> Workload:
    """Open the workload of a scenario as a simulation does; raise InputError if it cannot be used."""
    machine = machine_of(scenario)
    requests = Requests.on(machine, scenario.workload.mapping, scenario.workload.request)
    return open_jobs(scenario, machine, requests)


def dependencies_between(scenario: Scenario, workload: Workload) -> Dependencies | None:
    """Find the dependencies between jobs; None where the scenario ignores them."""
    config = scenario.workload
    if not config.dependencies:
        return None
    from mlsim.workload.workload_dependencies import dependencies_of

    return dependencies_of(workload, log_of(scenario), lenient=config.lenient)


def local_clock(scenario: Scenario, workload: Workload) -> Callable[[Floats], Floats]:
    """Return what converts submit times [s] to seconds since 1970 on the clocks of the log's time zone."""
    place, factor = Path(scenario.source), scenario.workload.select.scale_load

    def local(times: Floats) -> Floats:
        return local_times(times * factor + workload.origin, workload.header, place)

    return local


_LATEST_DATE = 1e11  # s since 1970; the year 5138


def calendar_of(scenario: Scenario, workload: Workload) -> Calendar | None:
    """Return the dates of a run; None if its log has none, or its times are not those of the log."""
    config = scenario.workload
    if config.generate is not None or config.resample is not None or config.select.scale_load != 1:
        return None
    with suppress(InputError):  # dates label axes only; a zone that this system lacks ends no run
        zero, zone = start_and_zone(workload.header, Path(scenario.source))
        # Logs that were made up have 0; a number beyond is none of seconds.
        if zero is not None and 0 < zero + workload.origin < _LATEST_DATE and zero != 0:
            known = any(workload.header.get(key) for key in ("TimeZoneString", "TimeZone"))
            return Calendar(zero + workload.origin, zone if known else None)
    return None


def reading_counts(workload: Workload, dependencies: Dependencies | None) -> dict[str, int]:
    """Return the counts of what was found in the log, in order of their names."""
    notes = workload.notes | ({} if dependencies is None else dependencies.notes)
    return dict(sorted(notes.items()))


def executable_names(workload: Workload) -> Sequence[str]:
    """Return the names behind the codes of executables; none where the log has only codes."""
    names = workload.header.get("executable_names", ())
    return [] if isinstance(names, str) else list(names)


def cost_profiles(scenario: Scenario, machine: Machine) -> CostProfiles:
    """Open the costs of iterations that the scenario describes."""
    from mlsim.application.iteration_costs import CostProfiles

    application = scenario.application
    path = application.costs.path
    if application.costs.by_column:
        raise InputError(
            f"{scenario.source}: application.costs.path: {path} depends on columns of a workload; allowed in "
            "runs of jobs; for a loop alone write one file"
        )
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


def check_model(scenario: Scenario, application: ApplicationConfig) -> None:
    """Check that a user-defined execution model can be used, and releases nodes where asked to."""
    from mlsim.application import user_code

    user_code.check_model(application)
    asks = scenario.coordination.requests is not RequestRule.NEVER
    model = application.execution.model
    if asks and not user_code.model_entry(model).properties.releases:
        raise InputError(
            f"{scenario.source}: coordination.requests: nodes cannot leave a loop under execution model "
            f"{model}, which is not declared with releases=True"
        )


def check_traceable(scenario: Scenario, workload: Workload) -> None:
    """Check that no job ends, even if none waits, after a trace's clock does, and that jobs shown exist."""
    if scenario.output.trace is TraceLevel.NONE:
        return
    from mlsim.record.otf2 import LATEST

    missing = set(scenario.output.trace_jobs or ())
    for block in workload.blocks():
        if missing:
            missing.difference_update(block.job_id.tolist())
        late = np.flatnonzero(block.submit_time + block.run_time > LATEST)
        if len(late):
            row = late[0]
            log = scenario.workload.path or scenario.workload.log_name
            raise InputError(
                f"{scenario.source}: output.trace: job {block.job_id[row]} of {log}, "
                f"submitted at {block.submit_time[row]:.6g} s and running for {block.run_time[row]:.6g} s, "
                f"ends after {LATEST:.1e} s (292 years), where the nanoseconds of a trace end; try "
                "output.trace: none, or a part of the log (workload.select)"
            )
    if missing:
        raise InputError(
            f"{scenario.source}: output.trace_jobs: the workload has no job {min(missing)}; name jobs by "
            "their numbers in it, after its selection"
        )


def check_demand(
    scenario: Scenario, workload: Workload, requests: Requests, assigned: Assignment | None = None
) -> None:
    """Check that the largest job of each application, and the length of the workload, can be simulated."""
    if not scenario.runs_loops and not scenario.platform.random_failures and assigned is None:
        return
    ones = [scenario] if assigned is None else [kind.scenario for kind in assigned.kinds]
    largest, last, first = np.zeros(len(ones), np.int64), 0.0, 0
    for block in workload.blocks():
        sizes = np.where(block.processors <= requests.largest, block.processors, 0)
        if assigned is None:
            largest[0] = max(largest[0], np.max(sizes, initial=0))
        else:
            np.maximum.at(largest, assigned.of_job[first : first + len(block)], sizes)
        last, first = float(block.submit_time[-1]), first + len(block)
    for one, most in zip(ones, largest.tolist(), strict=True):
        if one.runs_loops:
            with one.own_keys():
                check_loop(one, most)
    check_failures(scenario, last)


def power_cap(scenario: Scenario, machine: Machine, requests: Requests) -> PowerCap | None:
    """Return the cap on power of a scenario; None where there is none."""
    power, levels = power_of(scenario.platform), scenario.batch.power_cap
    if power is None or levels is None:
        return None
    return PowerCap(power, machine.cores, requests.exclusive, levels)


def with_recorded_nodes(
    scenario: Scenario, requests: Requests, machine: Machine, workload: Workload
) -> Requests:
    """Return the requests with the nodes that the log names for its jobs; refuse a log without any start."""
    starts, lists = 0, set[str]()
    for block in workload.blocks():
        starts += int(np.count_nonzero(block.recorded_start >= 0))
        if block.own is not None:
            lists.update(text for text in block.own.of.get(RECORDED_NODES, ()) if text)
    if not starts:
        raise InputError(
            f"{scenario.source}: batch.dispatcher: recorded needs recorded starts, and no job of "
            f"{scenario.workload.path} has one; it is recorded_start in CSV and Parquet, Start in sacct, "
            "and the wait (field 3) in SWF"
        )
    return replace(requests, named=RecordedNodes(machine.group, lists)) if lists else requests


def jobs_that_never_fit(
    scenario: Scenario, machine: Machine, requests: Requests, workload: Workload, shown: int = 5
) -> dict[str, tuple[int, list[int]]]:
    """Return by reason how many jobs the empty machine cannot hold, with the identifiers of the first."""
    cap = power_cap(scenario, machine, requests)
    strict = scenario.batch.contiguity is Contiguity.STRICT
    misfits = Misfits(machine, requests, strict, cap if cap is not None and cap.is_even else None)
    found: dict[str, tuple[int, list[int]]] = {}
    recorded = scenario.batch.dispatcher is Dispatcher.RECORDED
    for block in workload.blocks():
        reasons = misfits.find_in(block)
        for reason, rows in (reasons | (without_start(block, reasons) if recorded else {})).items():
            count, ids = found.get(reason, (0, []))
            more = block.job_id[rows][: shown - len(ids)].tolist()
            found[reason] = count + int(np.count_nonzero(rows)), ids + more
    return found


class Submissions:
    """The jobs of a workload by blocks; ``marks`` counts irregularities, ``own`` has further columns."""

    def __init__(self, workload: Workload, requests: Requests, assigned: Assignment | None = None) -> None:
        self.workload, self._requests = workload, requests
        # The table has application and technique of all jobs; other columns that applications use stay.
        self._read = frozenset[str]() if assigned is None else assigned.read & set(JOB_COLUMNS)
        self.marks: Counter[str] = Counter()
        self.own: list[OwnColumns | None] = []
        self.sizes: list[int] = []

    def blocks(self) -> Iterator[JobBlock]:
        """Yield blocks of jobs; count the marks that cleaning left on them, and keep further columns."""
        give_back(self.workload.n_jobs > LARGE_ROWS)
        for block in self.workload.blocks():
            further = columns_of_input(block) | self._further(block)
            self.own.append(OwnColumns(further) if further else None)
            self.sizes.append(len(block))
            self.marks.update({name: count for name, count in count_marks(block.met).items() if count})
            yield block

    def _further(self, block: JobBlock) -> dict[str, NDArray[Any]]:
        """Return user-defined columns, and the requests of jobs for nodes and for the whole machine."""
        requests, own = self._requests, {} if block.own is None else block.own.of
        if self._read:
            own = {name: values for name, values in own.items() if name not in self._read}
        if requests.plain and not requests.shared:
            return own
        asked: dict[str, NDArray[Any]] = {}
        if not requests.plain:
            units = requests.units_of(block)
            totals = requests.per_unit(block, units) * units[:, None]
            asked = {
                f"request_{name}": totals[:, k] / DEVICE_PARTS
                if name in requests.devices
                else totals[:, k].copy()
                for k, name in enumerate(requests.resources)
                if k
            }
            if requests.per_job:
                asked["units"] = units
        shares = requests.shares_of(block)
        asked |= {f"request_{name}": shares[:, k].copy() for k, name in enumerate(requests.shared)}
        return own | asked
