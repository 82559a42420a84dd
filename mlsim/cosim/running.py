"""One run: jobs are submitted, applications are forecast, and what happened is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mlsim._memory import importing
from mlsim.batch.room.requests import Requests
from mlsim.cosim.checks import check_demand, check_traceable
from mlsim.cosim.inputs import measured_power, open_jobs
from mlsim.errors import InputError
from mlsim.platform import machine_of
from mlsim.scenario import Engine, Scenario, replay_obstacle

if TYPE_CHECKING:
    from mlsim.batch.clock.progress import Progress
    from mlsim.cosim.outcome import Outcome

__all__ = ["modules_for", "simulate"]


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
        with importing():
            from mlsim.cosim.replaying import replay
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
    return ("mlsim.cosim.replaying" if plain else "mlsim.cosim.coupling",)
