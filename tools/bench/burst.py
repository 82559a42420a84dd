"""Time bursts, all jobs submitted at one instant, on one core: CPU seconds of the compiled clock, and growth.

Usage: python tools/bench/burst.py [--jobs 300,1000] [--only WORD]

512 units; jobs of 5 to 299 units and 60 to 79,999 s that run for a uniform share of their estimates. The best
of three runs, of one where a run takes more than 10 s. The growth is the exponent from one size to the next.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from mlsim.batch.clock.compiled_replay import CompiledBatch
from mlsim.batch.room.unit_requests import Requests
from mlsim.platform import build_machine
from mlsim.scenario import BatchConfig, PlatformConfig
from mlsim.scenario.words import Mapping
from mlsim.workload.workload_jobs import JobBlock

UNITS = 512
DISPATCHERS = {
    "FCFS": {"policy": "FCFS"},
    "EASY-FCFS": {"policy": "FCFS", "backfill": "easy"},
    "EASY-WFP": {"policy": "WFP", "backfill": "easy"},
    "100 reservations": {"policy": "FCFS", "backfill": "easy", "reservations": 100},
    "conservative-FCFS": {"policy": "FCFS", "backfill": "conservative"},
}


def burst(n: int) -> JobBlock:
    rng = np.random.default_rng(3)
    estimate = rng.integers(60, 80_000, n) * 1.0
    run = np.maximum(1.0, np.floor(estimate * rng.uniform(0, 1, n)))
    others = [np.full(n, -1, np.int64)] * 9
    return JobBlock(np.arange(1, n + 1), np.zeros(n), run, estimate, rng.integers(5, 300, n), *others)


def seconds(options: dict[str, object], jobs: JobBlock) -> float:
    """Return the CPU seconds of one burst."""
    machine = build_machine(
        PlatformConfig.model_validate({"nodes": [{"name": "n", "count": UNITS, "cores": 1}]})
    )
    batch = CompiledBatch(machine, BatchConfig.model_validate(options), Requests.on(machine, Mapping.NODE))
    began = time.thread_time()
    batch.run([jobs])
    return time.thread_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", default="300,1000", metavar="N,N", help="sizes of bursts")
    parser.add_argument("--only", default="", metavar="WORD", help="of a dispatcher's name")
    chosen = parser.parse_args()
    print(f"{'dispatcher':20} {'jobs':>7} {'CPU s':>9} {'growth':>7}")
    for name, options in DISPATCHERS.items():
        if chosen.only not in name:
            continue
        seconds(options, burst(20))  # kernels are loaded
        before = (0, 0.0)
        for n in map(int, chosen.jobs.split(",")):
            jobs = burst(n)
            best = seconds(options, jobs)
            if best < 10:
                best = min(best, seconds(options, jobs), seconds(options, jobs))
            growth = math.log(best / before[1], n / before[0]) if before[0] else math.nan
            print(f"{name:20} {n:7,} {best:9.3f} {growth:7.2f}", flush=True)
            before = (n, best)


if __name__ == "__main__":
    main()
