"""A run event by event: the batch system, and the applications that its jobs execute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mlsim.batch.clock.progress import Progress
from mlsim.batch.events.failing import OutagePlan
from mlsim.batch.room.requests import Requests
from mlsim.batch.simulator import Applications, BatchSystem
from mlsim.coordination import MessageLog
from mlsim.cosim.applications import LoopApplications, RigidApplications
from mlsim.cosim.checks import power_cap
from mlsim.cosim.inputs import (
    batch_of,
    dependencies_between,
    executable_names,
    local_clock,
    message_latency,
    reading_counts,
)
from mlsim.cosim.outcome import Outcome
from mlsim.cosim.recording import records_of
from mlsim.cosim.submissions import Submissions
from mlsim.platform import Machine
from mlsim.scenario import ApplicationModel, Scenario
from mlsim.workload import Workload
from mlsim.workload.measured_power import JobSteps

__all__ = ["couple"]


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
