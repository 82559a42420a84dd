"""One loop alone on its machine, without a batch system."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim.application.application_simulator import LoopApplication, LoopJob, simulate_single_loop
from mlsim.application.execution_models import check_model
from mlsim.application.iteration_costs import CostSums, cost_sums
from mlsim.application.techniques import check_technique
from mlsim.cosim.scenario_inputs import application_of, cost_profiles
from mlsim.errors import InputError
from mlsim.platform import machine_of
from mlsim.record import ChunkStore, Records
from mlsim.scenario import Calibration, CostProfile, Scenario, TraceLevel
from mlsim.scenario.simulation_demand import check_list, check_loop_alone


def simulate_loop(scenario: Scenario, run_time: float | None, chunks: bool) -> Records:
    """Simulate the loop of a scenario alone on its whole machine, from time 0, without a batch system.

    Parameters
    ----------
    scenario
        Platform, application and seed are read.
    run_time
        Seconds that costs made from a job's run time are made from; None for other costs.
    chunks
        Whether to keep a row for every chunk.

    Raises
    ------
    InputError
        If the costs cannot be made.
    """
    check_loop_alone(scenario)
    machine = machine_of(scenario)
    job = LoopJob(1, _needed_run_time(scenario, run_time))
    costs = cost_profiles(scenario, machine)
    store = ChunkStore() if chunks else None
    application = LoopApplication(
        job, application_of(scenario), costs, machine, store, scenario.seed, reports_idle=False
    )
    return simulate_single_loop(application, machine, store, scenario.output.trace is TraceLevel.MESSAGES)


def check_loop(scenario: Scenario, run_time: float | None = None, held: int = 0) -> None:
    """Read all inputs of a loop alone, without simulating; ``held`` other results are in memory.

    Raises
    ------
    InputError
        If a file it names cannot be used, or its costs cannot be made.
    """
    _needed_run_time(scenario, run_time)
    check_loop_alone(scenario, held)
    machine = machine_of(scenario)
    cost_profiles(scenario, machine)
    for technique in application_of(scenario).techniques:
        check_technique(technique)
    check_model(application_of(scenario))


def loop_costs(scenario: Scenario, run_time: float | None = None) -> NDArray[np.float64]:
    """Compute what the iterations of a loop alone cost, in prefix sums; refuse more than memory holds.

    Parameters
    ----------
    scenario, run_time
        As for :func:`simulate_loop`.

    Returns
    -------
    float64[N+1]
        In s on a PE of the reference speed.
    """
    check_loop_alone(scenario)
    machine = machine_of(scenario)
    needed = _needed_run_time(scenario, run_time)
    profiles = cost_profiles(scenario, machine)
    check_list(scenario, profiles.iterations(machine.n_cores))
    return profiles.prefix(1, machine.n_cores, needed)


def loop_cost_sums(scenario: Scenario, run_time: float | None = None) -> CostSums:
    """Compute the same, of long loops in a few numbers where their costs are linear."""
    check_loop_alone(scenario)
    machine = machine_of(scenario)
    needed = _needed_run_time(scenario, run_time)
    return cost_sums(cost_profiles(scenario, machine).costs(1, machine.n_cores, needed))


def _needed_run_time(scenario: Scenario, run_time: float | None) -> float:
    costs = scenario.application.costs
    needed = costs.profile is CostProfile.JOB or costs.calibrate is Calibration.RUN_TIME
    if needed and run_time is None:
        raise InputError(
            f"{scenario.source}: application.costs (profile: {costs.profile}, calibrate: {costs.calibrate}) "
            "takes the costs from a job's run time, and a loop alone has none; give --run-time, or another "
            "profile such as {profile: exponential, mean: 1 ms}"
        )
    if run_time is not None and not needed:
        raise InputError(
            f"{scenario.source}: --run-time: costs of profile {costs.profile} are not made from a run time; "
            "leave it out, or write calibrate: run-time"
        )
    return run_time or 0.0
