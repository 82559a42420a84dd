"""One run: jobs are submitted, applications are forecast, and what happened is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from mlsim._memory import give_back
from mlsim.batch.clock.compiled import CompiledBatch
from mlsim.batch.events.failing import OutagePlan
from mlsim.batch.room.power import PowerCap
from mlsim.batch.room.requests import Requests
from mlsim.batch.simulator import Applications, BatchSystem, Progress
from mlsim.coordination import MessageLog
from mlsim.cosim.applications import LoopApplications, RigidApplications
from mlsim.cosim.checks import check_demand, check_traceable
from mlsim.cosim.inputs import (
    batch_of,
    dependencies_between,
    executable_names,
    message_latency,
    open_jobs,
    reading_counts,
)
from mlsim.cosim.outcome import Outcome
from mlsim.cosim.recording import records_of
from mlsim.errors import InputError
from mlsim.platform import Machine, machine_of
from mlsim.platform.power import power_of
from mlsim.scenario import ApplicationModel, Engine, Scenario, replay_obstacle
from mlsim.workload import JobBlock, Workload, count_marks
from mlsim.workload.own import OwnColumns

__all__ = ["simulate"]


_MANY_JOBS = 10_000
"""From so many on it is worth a tenth of a second to begin a simulation with little memory."""


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
    requests = replace(requests, per_job="request_columns" in workload.header)
    check_traceable(scenario, workload)
    check_demand(scenario, workload, requests)
    tell = None if report is None else lambda progress: report(progress, workload.n_jobs)
    if _may_replay(scenario, requests):
        return _replayed(scenario, machine, requests, workload, tell)
    dependencies = dependencies_between(scenario, workload)
    log = MessageLog(message_latency(scenario, machine)) if scenario.coordination.rca else None
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
        cap=_power_cap(scenario, machine, requests),
        dependencies=dependencies,
        feedback=scenario.workload.feedback,
    )
    loops = None
    applications: Applications
    if scenario.application.model is ApplicationModel.LOOP:
        applications = loops = LoopApplications(batch, scenario, machine, log)
    else:
        applications = RigidApplications(batch)
    if workload.n_jobs >= _MANY_JOBS:
        give_back()
    marks: Counter[str] = Counter()
    own: list[OwnColumns | None] = []
    batch.run(_counted(workload.blocks(), requests, marks, own), applications)
    if loops is not None:
        loops.record_abandoned()
    return Outcome(
        records=records_of(scenario, batch, machine, loops, log, workload, own),
        notes=reading_counts(workload, dependencies),
        simulated=dict(marks),
        largest=requests.largest,
        pass_seconds=batch.pass_times.values(),
        application_seconds=loops.seconds if loops else 0.0,
    )


def _power_cap(scenario: Scenario, machine: Machine, requests: Requests) -> PowerCap | None:
    power, levels = power_of(scenario.platform), scenario.batch.power_cap
    if power is None or levels is None:
        return None
    return PowerCap(power, machine.cores, requests.exclusive, levels)


def _may_replay(scenario: Scenario, requests: Requests) -> bool:
    """Return whether compiled replay simulates a scenario; the workload may forbid it as well."""
    engine = scenario.batch.engine
    if engine is Engine.REPLAY and not requests.plain:
        raise InputError(
            f"{scenario.source}: batch.engine: replay knows one resource, and the workload says what each "
            "job asks for (columns request_*); try engine: auto or simpy"
        )
    plain = requests.plain and not requests.shared
    return engine is not Engine.SIMPY and plain and replay_obstacle(scenario) is None


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
    batch.run(_counted(workload.blocks(), requests, marks, own))
    return Outcome(
        records=records_of(scenario, batch, machine, None, None, workload, own),
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
    blocks: Iterable[JobBlock],
    requests: Requests,
    marks: Counter[str],
    own: list[OwnColumns | None],
) -> Iterator[JobBlock]:
    """Hand blocks on, count what their jobs met in cleaning, and keep further columns of the jobs."""
    for block in blocks:
        own.append(_further(block, requests))
        marks.update({name: count for name, count in count_marks(block.met).items() if count})
        yield block


def _further(block: JobBlock, requests: Requests) -> OwnColumns | None:
    """Return the columns of the user's own, and what jobs ask of what the machine has as a whole."""
    if not requests.shared:
        return block.own
    shares = requests.shares_of(block)
    asked = {f"request_{name}": shares[:, k].copy() for k, name in enumerate(requests.shared)}
    return OwnColumns(({} if block.own is None else block.own.of) | asked)
