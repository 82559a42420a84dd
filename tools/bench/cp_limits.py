"""Count the passes that take longer than their limit, on logs that queue; CPU milliseconds.

Usage: python tools/bench/cp_limits.py [--dispatcher cp] [--limit 0.05] [--jobs 200] [--seeds 41 42 ...]

Logs are those of ``mlsim workload eurora`` and ``kit``, four and sixteen times as fast as they come, under
walltimes and right estimates: few wide jobs wait for a full machine, where solvers may go through time second
by second. Every pass is taken once, within its run, so that a busy machine shows. A pass is late if it takes
more than the limit and a tenth.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np

import mlsim
from mlsim.batch.cp.planning_dispatcher import CpDispatcher
from mlsim.batch.view import Start, StateView

MACHINES = {"eurora": 4, "kit": 16}
"""How much faster than they come the jobs of each machine are submitted."""
PREDICTORS = ("walltime", "actual")


def scenario_of(machine: str, seed: int, jobs: int, directory: Path) -> Path:
    """Make a log, and a scenario of it."""
    path = directory / f"{machine}-{seed}.csv"
    command = ["workload", machine, "-o", str(path), "--jobs", str(jobs), "--seed", str(seed)]
    subprocess.run(["mlsim", *command], check=True, stdout=subprocess.DEVNULL)
    return path.with_suffix(".yaml")


def passes(scenario: Path, speed: int, predictor: str, name: str, limit: float) -> list[float]:
    """Run a scenario; return what each pass in which jobs waited took (ms)."""
    taken: list[float] = []
    dispatch = CpDispatcher.dispatch

    def timed(dispatcher: CpDispatcher, view: StateView) -> list[Start]:
        began = time.process_time()
        starts = dispatch(dispatcher, view)
        taken.append(1e3 * (time.process_time() - began))
        return starts

    keys = {
        "batch.dispatcher": name,
        "batch.policy": None,
        "batch.backfill": None,
        "batch.predictor": predictor,
        "batch.cp.time_limit": limit,
        "batch.cp.time_limit_max": limit,
        "workload.select.scale_load": speed,
        "output.pictures": False,
    }
    with mock.patch.object(CpDispatcher, "dispatch", timed):
        mlsim.run(scenario, keys)
    return taken


def main() -> None:
    """Print a line a run, and the sum."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dispatcher", default="cp")
    parser.add_argument("--limit", type=float, default=0.05, help="time limit of a pass (deterministic s)")
    parser.add_argument("--jobs", type=int, default=200, help="jobs of a log")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(41, 51)))
    given = parser.parse_args()
    late_after = 1.1e3 * given.limit
    every: list[float] = []
    print(f"{'log':<12} {'predictor':<10} {'passes':>7} {'median':>8} {'99 %':>8} {'largest':>8} {'late':>5}")
    with tempfile.TemporaryDirectory() as directory:
        for machine, speed in MACHINES.items():
            for seed in given.seeds:
                scenario = scenario_of(machine, seed, given.jobs, Path(directory))
                for predictor in PREDICTORS:
                    taken = passes(scenario, speed, predictor, given.dispatcher, given.limit)
                    # The first pass of all loads the solver and compiled code.
                    taken = taken if every else taken[1:]
                    every += taken
                    _print(f"{machine}-{seed}", predictor, taken, late_after)
    _print("all", "", every, late_after)


def _print(log: str, predictor: str, taken: list[float], late_after: float) -> None:
    found = np.quantile(taken, (0.5, 0.99, 1.0), method="inverted_cdf")
    late = int((np.array(taken) > late_after).sum())
    times = " ".join(f"{each:8.1f}" for each in found)
    print(f"{log:<12} {predictor:<10} {len(taken):>7} {times} {late:>5}", flush=True)


if __name__ == "__main__":
    main()
