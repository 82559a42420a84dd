"""Time whole runs of all of HPC2N on one core: from start of the command to results written.

Needs the log HPC2N-2002-2.2-cln.swf.gz in a directory of MLSIM_TRACES.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCENARIO = Path(__file__).parents[2] / "scenarios" / "hpc2n.yaml"


def run(backfill: str, out: Path) -> tuple[float, dict]:
    command = [
        sys.executable,
        "-c",
        "from mlsim.cli.main import main; main()",
        "run",
        str(SCENARIO),
        "--json",
    ]
    command += ["--set", f"batch.backfill={backfill}", "--out", str(out / backfill)]
    began = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - began, json.loads(done.stdout)


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as directory:
        run("easy", Path(directory) / "warm")
        print(
            f"{'backfill':10} {'wall s':>7} {'passes s':>9} {'write s':>8} {'peak MB':>8} {'mean wait s':>12}"
        )
        for backfill in ("none", "easy"):
            seconds, summary = run(backfill, Path(directory))
            own = summary["self"]
            print(
                f"{backfill:10} {seconds:7.2f} {own['pass_time']['total']:9.2f} {own['output_time']:8.2f} "
                f"{own['peak_memory_mb']:8.0f} {summary['wait_time']['mean']:12.1f}"
            )


if __name__ == "__main__":
    main()
