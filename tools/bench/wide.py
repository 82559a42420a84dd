"""Time jobs of a tenth, a hundredth and one of 10^2 to 10^5 nodes, in CPU microseconds a job.

Usage: python tools/bench/wide.py [--room pool|nodes|all] [--only WORD] [--width 1/10] [--jobs 20000]

For each width a workload at an offered load of 0.9 is simulated, from jobs in memory to the last end: under
compiled replay where the room is a pool of units, else under SimPy. A line has the least of three times a job
on each machine, and the exponent of the nodes by which it grows, fitted by least squares over the logarithms.
The rows that are written for a job's nodes are part of it.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np

from mlsim.batch.batch_system import BatchSystem
from mlsim.batch.clock.compiled_replay import CompiledBatch
from mlsim.batch.room.unit_requests import Requests
from mlsim.cosim.coupling import RigidApplications
from mlsim.platform import Machine, build_machine
from mlsim.scenario import BatchConfig, PlatformConfig
from mlsim.scenario.words import Mapping
from mlsim.workload.workload_jobs import JobBlock

NODES = (100, 1_000, 10_000, 100_000)
WIDTHS = {"1/10": 0.1, "1/100": 0.01, "1 node": 0.0, "mixed": -1.0}
LOAD, MEAN_RUN, BLOCK = 0.9, 3600.0, 4096
_FCFS, _EASY = {"backfill": "none"}, {"backfill": "easy"}
_CONSERVATIVE = {"backfill": "conservative"}
_GROUPS = [{"count": 0.25, "cores": 4}] * 4
_MEMORY = [{"count": 1.0, "cores": 8, "memory": "64 GB", "resources": {"gpu": 2}}]
ONE = [{"count": 1.0, "cores": 4}]
# Name, room, node groups (count: share of the machine), mapping, dispatcher.
CASES: tuple[tuple[str, str, list[dict[str, Any]], str, dict[str, Any]], ...] = (
    ("FCFS", "pool", ONE, "node", _FCFS),
    ("EASY", "pool", ONE, "node", _EASY),
    ("conservative", "pool", ONE, "node", _CONSERVATIVE),
    ("FCFS, 4 groups", "pool", _GROUPS, "node", _FCFS),
    ("FCFS, cores", "pool", ONE, "core", _FCFS),
    ("EASY, cores", "pool", ONE, "core", _EASY),
    ("FCFS best-fit", "nodes", ONE, "node", {**_FCFS, "allocator": "best-fit"}),
    ("EASY first-fit", "nodes", _MEMORY, "node", _EASY),
    ("EASY best-fit", "nodes", ONE, "node", {**_EASY, "allocator": "best-fit"}),
    ("FCFS worst-fit", "nodes", ONE, "node", {**_FCFS, "allocator": "worst-fit"}),
    ("EASY worst-fit", "nodes", ONE, "node", {**_EASY, "allocator": "worst-fit"}),
    ("EASY contiguous", "nodes", ONE, "node", {**_EASY, "allocator": "contiguous"}),
    ("EASY random", "nodes", ONE, "node", {**_EASY, "allocator": "random"}),
    ("EASY best-fit, groups", "nodes", _GROUPS, "node", {**_EASY, "allocator": "best-fit"}),
    ("EASY first-fit, memory", "nodes", _MEMORY, "core", _EASY),
    ("EASY best-fit, memory", "nodes", _MEMORY, "core", {**_EASY, "allocator": "best-fit"}),
    ("conservative best-fit", "nodes", ONE, "node", {**_CONSERVATIVE, "allocator": "best-fit"}),
)


def machine_of(groups: list[dict[str, Any]], n_nodes: int) -> Machine:
    named = [
        {**group, "name": f"g{k}x", "count": round(group["count"] * n_nodes)}
        for k, group in enumerate(groups)
    ]
    return build_machine(PlatformConfig.model_validate({"nodes": named}))


def workload(capacity: int, width: float, n_jobs: int) -> list[JobBlock]:
    """Draw jobs of a width, exponential run times and arrivals, at a load of the machine."""
    rng = np.random.default_rng(5)
    units = np.full(n_jobs, max(round(width * capacity), 1))
    if width < 0:  # between one unit and a tenth of the machine, evenly over the logarithms
        units = np.exp(rng.uniform(0, np.log(capacity / 10), n_jobs)).astype(np.int64)
    run = np.ceil(rng.exponential(MEAN_RUN, n_jobs))
    gap = units.mean() * run.mean() / (LOAD * capacity)
    submit = np.cumsum(rng.exponential(gap, n_jobs))
    estimate = np.ceil(run * rng.uniform(1, 4, n_jobs))
    unknown = np.full(n_jobs, -1, np.int64)
    columns = [np.arange(1, n_jobs + 1), submit, run, estimate, units, *([unknown] * 9)]
    return [
        JobBlock(*(column[first : first + BLOCK] for column in columns)) for first in range(0, n_jobs, BLOCK)
    ]


def simulate(
    machine: Machine, mapping: str, options: dict[str, Any], blocks: list[JobBlock], room: str
) -> Any:
    config = BatchConfig.model_validate({"policy": "FCFS", **options})
    requests = Requests.on(machine, Mapping(mapping))
    if room == "pool":
        batch: Any = CompiledBatch(machine, config, requests)
        batch.run(blocks)
    else:
        batch = BatchSystem(machine, config, requests)
        batch.run(blocks, RigidApplications(batch))
    return batch


def seconds_a_job(case: tuple[Any, ...], n_nodes: int, width: float, n_jobs: int, repeat: int) -> float:
    _, room, groups, mapping, options = case
    machine = machine_of(groups, n_nodes)
    capacity = Requests.on(machine, Mapping(mapping)).capacity
    blocks = workload(capacity, width, n_jobs)
    found = []
    for _ in range(repeat):
        began = time.thread_time()
        simulate(machine, mapping, options, blocks, room)
        found.append(time.thread_time() - began)
    return min(found) / n_jobs


def exponent(nodes: list[int], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(nodes), np.log(seconds), 1)[0])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--room", choices=("pool", "nodes", "all"), default="all")
    parser.add_argument("--only", default="", metavar="WORD", help="of a line's name")
    parser.add_argument("--width", choices=tuple(WIDTHS))
    parser.add_argument("--jobs", type=int, default=20_000, metavar="N")
    parser.add_argument("--widest", type=int, default=NODES[-1], metavar="NODES")
    parser.add_argument("--repeat", type=int, default=3, metavar="N")
    return parser.parse_args()


def main() -> None:
    chosen = _arguments()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    nodes = [n for n in NODES if n <= chosen.widest]
    print(
        f"{'us a job':26} {'width':8}" + "".join(f"{n:>10,}" for n in nodes) + f"{'exponent':>10}", flush=True
    )
    for case in CASES:
        if chosen.only not in case[0] or chosen.room not in ("all", case[1]):
            continue
        seconds_a_job(case, NODES[0], 0.1, 100, 1)  # compiles
        for name, width in WIDTHS.items():
            if chosen.width not in (None, name):
                continue
            took = [seconds_a_job(case, n, width, chosen.jobs, chosen.repeat) for n in nodes]
            figures = "".join(f"{1e6 * each:10.2f}" for each in took)
            print(f"{case[0]:26} {name:8}{figures}{exponent(nodes, took):10.2f}", flush=True)


if __name__ == "__main__":
    main()
