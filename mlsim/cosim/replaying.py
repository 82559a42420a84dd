"""A run in which nothing but the queue decides, simulated in compiled code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mlsim.batch.clock.compiled import CompiledBatch
from mlsim.batch.clock.progress import Progress
from mlsim.batch.room.requests import Requests
from mlsim.cosim.outcome import Outcome
from mlsim.cosim.recording import records_of
from mlsim.cosim.submissions import Submissions
from mlsim.platform import Machine
from mlsim.scenario import Engine, Scenario
from mlsim.workload import Workload
from mlsim.workload.measured_power import JobSteps

__all__ = ["replay"]


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
