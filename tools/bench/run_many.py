"""Time and peak memory of whole runs on one core: all of HPC2N, and millions of jobs, rejected or not.

Usage: python tools/bench/run_many.py [BIG_LOG]

BIG_LOG, if given, is a log of very many jobs, such as one that
`python tools/bench/big_log.py HPC2N-2002-2.2-cln.swf.gz BIG_LOG` makes. HPC2N itself is looked for in the
directories of MLSIM_TRACES. Seconds are from the start of the command to the results written; the peak is
that of the process (`ru_maxrss`), everything included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCENARIO = Path(__file__).parents[2] / "scenarios" / "hpc2n.yaml"
COMMAND = (sys.executable, "-c", "from mlsim.cli.main import main; main()", "run", str(SCENARIO), "--json")


def run(options: dict[str, str], out: Path) -> tuple[float, float, dict]:
    """Seconds by the clock, seconds of the processor, and the summary of a run."""
    settings = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [*COMMAND, *settings, "--out", str(out)], check=True, capture_output=True, text=True
    )
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, processor, json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("big", type=Path, nargs="?", metavar="BIG_LOG")
    big: Path | None = parser.parse_args().big
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    runs = {
        "FCFS": {"batch.backfill": "none"},
        "FCFS simpy": {"batch.backfill": "none", "batch.engine": "simpy"},
        "EASY": {"batch.backfill": "easy"},
        "EASY simpy": {"batch.backfill": "easy", "batch.engine": "simpy"},
    }
    if big is not None:
        path = str(big.resolve())
        runs["reject"] = {"workload.path": path, "batch.dispatcher": "reject"}
        runs["many EASY"] = {"workload.path": path, "batch.backfill": "easy", "output.pictures": "off"}
    print(f"{'run':10} {'jobs':>9} {'wall s':>7} {'CPU s':>7} {'write s':>8} {'peak MB':>8}")
    with tempfile.TemporaryDirectory() as directory:
        for name in runs:
            if "workload.path" not in runs[name]:
                run(runs[name], Path(directory) / f"warm {name}")
        for name, options in runs.items():
            wall, processor, summary = run(options, Path(directory) / name)
            own = summary["self"]
            print(
                f"{name:10} {summary['jobs']['submitted']:9} {wall:7.2f} {processor:7.2f} "
                f"{own['output_time']:8.2f} {own['peak_memory_mb']:8.0f}"
            )


if __name__ == "__main__":
    main()
