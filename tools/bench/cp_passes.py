"""Time passes of the dispatchers that plan by constraint programming, by waiting jobs; CPU milliseconds.

Usage: python tools/bench/cp_passes.py [--limit 0.02] [--passes 20] [--only cp] [--capped]

A machine of 64 nodes like Eurora's, on each of which half of the cores are held; jobs of one to
eight units, three in four of which ask for a GPU. With --capped, cores of nodes with a GPU add 28.125 W,
others 15.625, and a cap leaves 65 % of what all would add. Each pass is a new instance, and planners
remember none.
The same pass takes the same steps, so the least of three turns is what it takes; what is printed is how these
differ from pass to pass.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from mlsim.batch.cp.instance import Instance, PowerPart, Queued, Running
from mlsim.batch.cp.planning_dispatcher import make_planner
from mlsim.scenario import CpConfig
from mlsim.scenario.words import Dispatcher

PLANNING = [word for word in Dispatcher if word.solves]

WAITING = (10, 50, 100, 300)
TURNS = 3
SOURCES_OLD = ("hcp1", "hcp2", "pcp1", "pcp2")


def instance(waiting: int, seed: int) -> Instance:
    """Draw an instance."""
    rng = np.random.default_rng(seed)
    capacity = np.array([[16, 16000, 2, 0]] * 32 + [[16, 16000, 0, 2]] * 32, np.int64)
    n = len(capacity)
    held = np.column_stack((np.full(n, 8), np.full(n, 8000), np.arange(n) < 32, np.zeros(n))).astype(np.int64)
    ones = np.ones(n, np.int64)
    running = Running(np.arange(n), np.arange(n), ones, held, rng.integers(100, 20000, n), ones, ones * 0)
    request = np.column_stack(
        (
            rng.integers(1, 9, waiting),
            rng.integers(100, 8000, waiting),
            rng.random(waiting) < 0.75,
            np.zeros(waiting),
        )
    ).astype(np.int64)
    arrival = -np.sort(rng.integers(0, 5000, waiting))[::-1].astype(np.float64)
    units = rng.choice([1, 1, 2, 4, 8], waiting).astype(np.int64)
    duration = rng.integers(30, 8000, waiting)
    queued = Queued(np.arange(waiting), arrival, units, request, duration, np.ones(waiting))
    return Instance(0.0, ("cores", "memory", "gpu", "mic"), capacity, capacity - held, running, queued)


def with_cap(problem: Instance) -> Instance:
    """Return the instance under a cap on power."""
    queued, running, capacity = problem.queued, problem.running, problem.capacity
    of_node = np.where(capacity[:, 2] > 0, 28_125_000, 15_625_000)
    held = running.units * running.request[:, 0] * of_node[running.node]
    free = int(0.65 * (of_node @ capacity[:, 0])) - int(held.sum())
    counts = queued.request[:, 0].copy()
    power = PowerPart.of(
        of_node, free, counts, held, running.remaining, queued.units, queued.request, capacity
    )
    return replace(problem, power=power)


def milliseconds(name: Dispatcher, waiting: int, limit: float, passes: int, capped: bool) -> list[float]:
    """Return what passes take, in ascending order."""
    config = CpConfig(time_limit=limit, time_limit_max=limit)
    # Kernels and the solver are loaded; a plan for few jobs may need no solver.
    make_planner(name, config).plan(instance(max(waiting, 50), 0))
    taken = []
    for seed in range(1, passes + 1):
        problem, turns = instance(waiting, seed), []
        problem = with_cap(problem) if capped else problem
        for _ in range(TURNS):
            planner = make_planner(name, config)
            began = time.process_time()
            planner.plan(problem)
            turns.append(1e3 * (time.process_time() - began))
        taken.append(min(turns))
    return sorted(taken)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=float, default=0.02, help="time limit of a pass (deterministic s)")
    parser.add_argument("--passes", type=int, default=20, help="passes of each kind")
    parser.add_argument("--only", default="", help="this dispatcher alone")
    parser.add_argument("--capped", action="store_true", help="under a cap on unequal power")
    options = parser.parse_args()
    print(
        f"{'dispatcher':<10} {'waiting':>7} {'least':>8} {'median':>8} {'9 of 10':>8} {'largest':>8}  CPU ms"
    )
    for name in PLANNING:
        if name in SOURCES_OLD or options.only not in ("", name):
            continue
        for waiting in WAITING:
            taken = milliseconds(name, waiting, options.limit, options.passes, options.capped)
            found = np.quantile(taken, (0.0, 0.5, 0.9, 1.0), method="inverted_cdf")
            print(f"{name:<10} {waiting:>7} " + " ".join(f"{each:8.1f}" for each in found), flush=True)


if __name__ == "__main__":
    main()
