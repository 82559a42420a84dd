"""What a run leaves: its records, and what was measured beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mlsim.platform import Machine
from mlsim.platform.machine import power_of
from mlsim.record import (
    Chunks,
    Jobs,
    Loops,
    Messages,
    Names,
    NodePower,
    Nodes,
    PEs,
    PowerSteps,
    Records,
    Selections,
    Shared,
    empty,
)
from mlsim.record import OwnColumns as OwnRecord
from mlsim.scenario import Engine, Scenario
from mlsim.workload import Workload, names_of
from mlsim.workload.measured_power import JobSteps
from mlsim.workload.swf_fields import job_names
from mlsim.workload.workload_jobs import OwnColumns, joined_own

if TYPE_CHECKING:
    from mlsim.batch.batch_system import BatchSystem
    from mlsim.batch.clock.compiled_replay import CompiledBatch
    from mlsim.coordination import MessageLog
    from mlsim.cosim.coupling import LoopApplications


def records_of(
    scenario: Scenario,
    batch: BatchSystem | CompiledBatch,
    machine: Machine,
    loops: LoopApplications | None,
    log: MessageLog | None,
    workload: Workload,
    own: Sequence[OwnColumns | None],
    steps: JobSteps | None = None,
) -> Records:
    """Return everything that happened; ``loops``, ``log`` and ``steps`` are None where there are none."""
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
        selections=loops.recorder.selections() if loops else empty(Selections),
        messages=_messages(log) if log else empty(Messages),
        shared=Shared(list(machine.shared.names), list(machine.shared.units), machine.shared.capacity),
        power_steps=_power_steps(steps, jobs) if steps else empty(PowerSteps),
        **batch.tables(),
    )


def _power_steps(steps: JobSteps, jobs: Jobs) -> PowerSteps:
    """Return the steps of the jobs of the run."""
    rows, of_job = steps.rows_of(np.asarray(jobs.job_id))
    return PowerSteps(of_job, steps.time[rows], steps.power[rows], steps.period[rows])


def _messages(log: MessageLog) -> Messages:
    from mlsim.batch.job_recorder import message_rows

    return message_rows(log)


def _names(workload: Workload, jobs: Jobs) -> Names:
    """Return the names that the log has for codes of its jobs."""
    names = names_of(workload.header)
    called = job_names(workload.header)
    if called is not None:
        names["job_id"] = dict(enumerate(called, start=1))
    return Names({column: of for column, of in names.items() if getattr(jobs, column) is not None})


def _node_power(scenario: Scenario) -> NodePower | None:
    power = power_of(scenario.platform)
    return None if power is None else NodePower(*power)


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
