"""CPU time per job of calibrating loops to recorded run times, beside that of simulating them.

Usage: python tools/bench/calibrating.py [--jobs 300] [--pes 64] [--per-pe 8]
       [--techniques STATIC,GSS,FAC2,AF]

Each technique is the job's own and the assumed one; times of execution are not charged (`free`), then charged
(`charged`: 1 us per chunk and 100 ns per access). The best of three rounds counts.
"""

from __future__ import annotations

import argparse
import time
from unittest import mock

import numpy as np

from mlsim.application import recorded_times
from mlsim.application.application_simulator import LoopApplication, LoopJob
from mlsim.coordination import NodeSet
from mlsim.cosim import scenario_inputs
from mlsim.platform import machine_of
from mlsim.scenario import from_mapping

CHARGED = {"chunk_calculation": "1 us", "chunk_assignment": "100 ns", "atomic_service": "100 ns"}


def microseconds_per_job(technique: str, execution: dict[str, str], calibrate: str, options) -> float:
    """Return the CPU time of the start of a job, in us."""
    costs = {"profile": "job", "variation": 0.5, "calibrate": calibrate}
    if calibrate == "recorded":
        costs["calibrate_to"] = {"technique": technique}
    scenario = from_mapping(
        {
            "platform": {"nodes": [{"name": "n", "count": options.pes, "cores": 1}]},
            "workload": {"path": "none.swf"},
            "application": {
                "model": "loop",
                "technique": technique,
                "iterations": {"per_pe": options.per_pe},
                "execution": execution,
                "costs": costs,
            },
        }
    )
    machine, config = machine_of(scenario), scenario_inputs.application_of(scenario)
    profiles, nodes = scenario_inputs.cost_profiles(scenario, machine), np.arange(machine.n_nodes)

    def start(job: int) -> None:
        application = LoopApplication(
            LoopJob(job, 60.0 * job), config, profiles, machine, None, reports_idle=False
        )
        application.start(0.0, NodeSet(nodes, machine.cores))

    start(1)
    best = np.inf
    for _ in range(3):
        began = time.process_time()
        for job in range(1, options.jobs + 1):
            start(job)
        best = min(best, time.process_time() - began)
    return 1e6 * best / options.jobs


def trials_per_job(technique: str, execution: dict[str, str], options) -> float:
    """Return how many simulations a job's calibration takes, on average."""
    trials, counted = [0], recorded_times._Search.tries

    def tries(self: recorded_times._Search, factor: float) -> None:
        trials[0] += 1
        counted(self, factor)

    with mock.patch.object(recorded_times._Search, "tries", tries):
        microseconds_per_job(technique, execution, "recorded", options)
    return trials[0] / (3 * options.jobs + 1)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--pes", type=int, default=64)
    parser.add_argument("--per-pe", type=int, default=8)
    parser.add_argument("--techniques", default="STATIC,GSS,FAC2,AF")
    options = parser.parse_args()
    print(f"{options.pes} PEs, {options.per_pe} iterations per PE, us per job")
    print("technique  costs     simulations  uncalibrated  calibrated  ratio")
    for technique in options.techniques.split(","):
        for name, execution in (("free", {}), ("charged", CHARGED)):
            plain, scaled = (
                microseconds_per_job(technique, execution, calibrate, options)
                for calibrate in ("none", "recorded")
            )
            trials = trials_per_job(technique, execution, options)
            print(
                f"{technique:10} {name:9} {trials:11.1f} {plain:13.0f} {scaled:11.0f} {scaled / plain:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
