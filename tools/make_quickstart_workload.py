"""Write `traces/quickstart.swf`: a small synthetic workload, the same bytes for the same seed.

About 200 jobs over 6 hours for a machine of 16 nodes with 16 cores. Jobs come in two bursts, as
between a morning and an afternoon, and offer about as much work as the machine can do meanwhile,
so that a queue builds up.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mlsim.workload import Field, write_swf

NODES, CORES = 16, 16
HOUR = 3600.0
SPAN = 6 * HOUR
JOBS = 200
SIZES = np.array([1, 2, 4, 8, 16, 24, 32, 48, 64, 128, 256])
SHARES = np.array([0.15, 0.08, 0.10, 0.12, 0.20, 0.03, 0.12, 0.04, 0.09, 0.05, 0.02])
MEDIAN_RUN_TIME = 8 * 60.0
RUN_TIME_SPREAD = 1.2  # sigma of the logarithm
LONGEST_RUN_TIME = 2 * HOUR
ESTIMATE_STEP = 300.0  # users ask for full 5 minutes
USERS = 12

Floats = NDArray[np.float64]


def arrivals(random: np.random.Generator) -> Floats:
    """Submit times with two bursts: thinning of uniform arrivals by a wave of two periods."""
    candidates = random.uniform(0, SPAN, 4 * JOBS)
    rate = 0.5 * (1 - 0.9 * np.cos(4 * np.pi * candidates / SPAN))
    kept = candidates[random.uniform(size=candidates.size) < rate]
    return np.floor(np.sort(kept[:JOBS]))


def run_times(random: np.random.Generator, jobs: int) -> Floats:
    """Lognormal run times in whole seconds, from 10 s to 2 h."""
    times = np.exp(np.log(MEDIAN_RUN_TIME) + RUN_TIME_SPREAD * random.standard_normal(jobs))
    whole: Floats = np.floor(np.clip(times, 10.0, LONGEST_RUN_TIME))
    return whole


def estimates(random: np.random.Generator, times: Floats) -> Floats:
    """Run times, overestimated by up to a factor of 4 and rounded up to what users write."""
    steps: Floats = np.ceil(times * random.uniform(1.05, 4.0, times.size) / ESTIMATE_STEP)
    return steps * ESTIMATE_STEP


def make(seed: int) -> tuple[dict[str, str | list[str]], dict[Field, Floats]]:
    """Make the header and the columns of the workload."""
    random = np.random.default_rng(seed)
    submit = arrivals(random)
    run_time = run_times(random, submit.size)
    size = random.choice(SIZES, submit.size, p=SHARES).astype(np.float64)
    requested = estimates(random, run_time)
    user = np.minimum(random.geometric(0.2, submit.size), USERS).astype(np.float64)
    columns = {
        Field.JOB_ID: np.arange(1.0, submit.size + 1),
        Field.SUBMIT_TIME: submit,
        Field.RUN_TIME: run_time,
        Field.ALLOCATED_PROCESSORS: size,
        Field.REQUESTED_PROCESSORS: size,
        Field.REQUESTED_TIME: requested,
        Field.STATUS: np.ones(submit.size),
        Field.USER: user,
        Field.GROUP: user % 3 + 1,
        Field.EXECUTABLE: user * 2 - random.integers(0, 2, submit.size),
        Field.QUEUE: np.where(requested <= HOUR, 1.0, 2.0),
        Field.PARTITION: np.ones(submit.size),
    }
    return header(seed, submit.size), columns


def header(seed: int, jobs: int) -> dict[str, str | list[str]]:
    return {
        "Version": "2.2",
        "Computer": f"none: a synthetic machine of {NODES} nodes with {CORES} cores",
        "Acknowledge": "none needed",
        "Conversion": f"python tools/make_quickstart_workload.py --seed {seed}",
        "MaxJobs": str(jobs),
        "MaxRecords": str(jobs),
        "UnixStartTime": "0",
        "TimeZoneString": "UTC",
        "MaxNodes": str(NODES),
        "MaxProcs": str(NODES * CORES),
        "MaxQueues": "2",
        "Queue": ["1 short, up to 1 h", "2 long"],
        "Note": [
            "SYNTHETIC: made by a random generator, not recorded on any machine",
            f"made by the command above with seed {seed}; the same seed makes the same file",
        ],
    }


def main() -> None:
    """Write the workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    default = Path(__file__).resolve().parent.parent / "traces" / "quickstart.swf"
    parser.add_argument("--out", type=Path, default=default, help="where to (default: traces/quickstart.swf)")
    options = parser.parse_args()
    write_swf(options.out, *make(options.seed))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
