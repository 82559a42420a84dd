"""Find the stretch of each log that stretches.yaml takes: where most jobs wait without any planner.

Usage: python scenarios/studies/cp/stretches.py [--jobs 40] LOG ...

A stretch is so many jobs in a row, the machine empty before them; stretches begin with every 40th job, and
come four times as fast as they are. Who waits is counted under EASY-SAF with walltimes, best-fit; of equal
ones that with the longest wait is taken. Prints a line a log: its path, the first submit time, how many jobs
wait, their mean slowdown.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import polars as pl

import mlsim

BASE = Path(__file__).with_name("cp.yaml")
KEYS = {
    "batch.policy": "SAF",
    "batch.backfill": "easy",
    "batch.backfill_order": "SAF",
    "batch.allocator": "best-fit",
    "batch.predictor": "walltime",
    "workload.select.scale_load": 4,
    "output.pictures": False,
}


def waits(log: Path, start: int, jobs: int) -> tuple[int, float, float]:
    """Return how many jobs of a stretch wait, how long all do (s), and the mean slowdown."""
    stretch = {
        "workload.path": str(log.resolve()),
        "workload.select.window": {"start": start, "end": 10**7},
        "workload.select.first": jobs,
    }
    table = mlsim.run(BASE, KEYS | stretch).jobs
    waited = table["wait_time"]
    return int((waited > 0).sum()), float(waited.sum()), float(table["slowdown"].to_numpy().mean())


def main() -> None:
    """Print a line a log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", type=Path, nargs="+", metavar="LOG")
    parser.add_argument("--jobs", type=int, default=40)
    given = parser.parse_args()
    for log in given.logs:
        came = pl.read_csv(log)["submit_time"].sort().to_list()
        starts = came[: len(came) - given.jobs : given.jobs]
        # Of equal ones the first, as before.
        start = max(starts, key=lambda start: waits(log, start, given.jobs)[:2])
        count, _, slowdown = waits(log, start, given.jobs)
        print(f"{log} {start} {count} {slowdown:.4f}")


if __name__ == "__main__":
    main()
