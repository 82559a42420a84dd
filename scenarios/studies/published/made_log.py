"""Starts of other simulators on a log that is drawn here, job by job beside those of mlsim.

``made_log.py made.swf --draw`` draws a log by a seed, for the simulator that you run yourself. ``made_log.py
made.swf starts.csv --as pyss-easy`` compares its starts (columns job and start, s) with mlsim's.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

import mlsim

PROCESSORS = 128
KEYS: dict[str, dict[str, object]] = {
    "fcfs": {"backfill": "none"},
    "easy": {"backfill": "easy"},
    "pyss-easy": {"backfill": "easy", "ties": "per-event"},
    "pyss-conservative": {"backfill": "conservative", "compression": "every-end", "ties": "per-event"},
    "accasim-easy": {"backfill": "easy", "easy": "accasim"},
    "cqsim-easy": {"backfill": "easy", "easy": "cqsim", "ties": "ends-first"},
}
"""What mlsim is told, by the name of the rule."""


def draw(jobs: int, seed: int) -> list[str]:
    """Return the lines of a log in SWF: bursts, few estimates that are right, a load of about 0.9."""
    draws = np.random.default_rng(seed)
    processors = np.minimum(2 ** draws.integers(0, 8, jobs), draws.integers(1, PROCESSORS + 1, jobs))
    run_time = np.maximum(1, draws.lognormal(6.5, 1.5, jobs)).astype(np.int64)
    estimate = run_time * draws.choice([1, 2, 5, 20], jobs) + draws.choice([0, 60], jobs)
    apart = draws.exponential(processors @ run_time / jobs / PROCESSORS / 0.9, jobs)
    submit = np.cumsum(np.where(draws.random(jobs) < 0.2, 0, apart * 1.25)).astype(np.int64) + 1
    head = [f"; MaxJobs: {jobs}", f"; MaxNodes: {PROCESSORS}", f"; MaxProcs: {PROCESSORS}"]
    rows = zip(submit.tolist(), run_time.tolist(), processors.tolist(), estimate.tolist(), strict=True)
    return [
        *head,
        *(
            f"{k} {at} -1 {ran} {size} -1 -1 {size} {limit} -1 1 1 1 1 1 -1 -1 -1"
            for k, (at, ran, size, limit) in enumerate(rows, 1)
        ),
    ]


def compare(log: Path, starts: Path, rule: str) -> pl.DataFrame:
    """Return both starts of each job (s since the first submission)."""
    ours = mlsim.run(
        {
            "workload": {"path": str(log.absolute())},
            "platform": {"nodes": [{"name": "node", "count": PROCESSORS, "cores": 1}]},
            "batch": {"policy": "FCFS", **KEYS[rule]},
            "output": {"pictures": False},
        }
    ).jobs.select(job="job_id", submit="submit_time", ours="start_time")
    theirs = pl.read_csv(starts).select(
        job=pl.col("job").cast(pl.Int64), theirs=pl.col("start").cast(pl.Float64)
    )
    first = min(int(line.split()[1]) for line in log.read_text().splitlines() if not line.startswith(";"))
    return ours.join(theirs.with_columns(pl.col("theirs") - first), on="job", how="left")


def main(words: list[str] | None = None) -> int:
    """Run the command line; return 1 if a start differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("log", type=Path, help="the log in SWF")
    parser.add_argument("starts", type=Path, nargs="?", help="CSV of the other simulator: job, start (s)")
    parser.add_argument("--draw", action="store_true", help="write the log rather than read it")
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--as", dest="rule", choices=KEYS, default="fcfs", help="the rule of both")
    options = parser.parse_args(words)
    if options.draw:
        options.log.write_text("\n".join(draw(options.jobs, options.seed)) + "\n")
        return 0
    if options.starts is None:
        parser.error("give the starts of the other simulator, or --draw")
    pairs = compare(options.log, options.starts, options.rule)
    equal = (pairs["theirs"] - pairs["ours"]).abs().fill_null(np.inf) == 0
    waits = int((pairs["ours"] > pairs["submit"]).sum())
    different = ", ".join(str(job) for job in pairs.filter(~equal)["job"].head(5))
    counted = f"{int(equal.sum()):,} of {pairs.height:,} starts equal"
    print(f"{options.rule}: {counted}, {waits:,} jobs wait; {different}")
    return int(not equal.all())


if __name__ == "__main__":
    raise SystemExit(main())
