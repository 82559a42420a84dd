"""What is checked of a workload before anything is simulated."""

from __future__ import annotations

import numpy as np

from mlsim.batch.room.misfits import Misfits
from mlsim.batch.room.power import PowerCap
from mlsim.batch.room.requests import Requests
from mlsim.errors import InputError
from mlsim.platform import Machine
from mlsim.platform.power import power_of
from mlsim.scenario import (
    ApplicationConfig,
    ApplicationModel,
    Contiguity,
    RequestRule,
    Scenario,
    TraceLevel,
)
from mlsim.scenario.whole.demand import check_workload
from mlsim.workload import Workload

__all__ = ["check_demand", "check_model", "check_traceable", "jobs_that_never_fit", "power_cap"]


def check_model(scenario: Scenario, application: ApplicationConfig) -> None:
    """Check that an execution model of the user's own can do what the scenario asks of it.

    Parameters
    ----------
    scenario
        Which.
    application
        Its section, with files as they were found; the model is loaded.

    Raises
    ------
    InputError
        If it cannot be loaded or used, or lets no nodes leave where they are asked for.
    """
    from mlsim.application import user_model

    user_model.check_model(application)
    asks = scenario.coordination.requests is not RequestRule.NEVER
    model = application.execution.model
    if asks and not user_model.properties_of_model(model).releases:
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


def check_demand(scenario: Scenario, workload: Workload, requests: Requests) -> None:
    """Check that what the workload's largest job and its length lead to can be simulated."""
    if scenario.application.model is not ApplicationModel.LOOP and not scenario.platform.random_failures:
        return
    largest, last = 0, 0.0
    for block in workload.blocks():
        fits = block.processors[block.processors <= requests.largest]
        largest, last = max(largest, int(np.max(fits, initial=0))), float(block.submit_time[-1])
    check_workload(scenario, largest, last)


def power_cap(scenario: Scenario, machine: Machine, requests: Requests) -> PowerCap | None:
    """Return the cap on power of a scenario; None where there is none."""
    power, levels = power_of(scenario.platform), scenario.batch.power_cap
    if power is None or levels is None:
        return None
    return PowerCap(power, machine.cores, requests.exclusive, levels)


def jobs_that_never_fit(
    scenario: Scenario, machine: Machine, requests: Requests, workload: Workload, shown: int = 5
) -> dict[str, tuple[int, list[int]]]:
    """Return by reason how many jobs the empty machine cannot hold, with the identifiers of the first.

    Under a cap on power of unequal nodes the allocator decides what a job adds, so that it is left out.
    """
    cap = power_cap(scenario, machine, requests)
    strict = scenario.batch.contiguity is Contiguity.STRICT
    misfits = Misfits(machine, requests, strict, cap if cap is not None and cap.is_even else None)
    found: dict[str, tuple[int, list[int]]] = {}
    for block in workload.blocks():
        for reason, rows in misfits.find_in(block).items():
            count, ids = found.get(reason, (0, []))
            more = block.job_id[rows][: shown - len(ids)].tolist()
            found[reason] = count + int(np.count_nonzero(rows)), ids + more
    return found
