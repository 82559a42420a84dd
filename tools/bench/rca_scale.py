"""Measure whole logs as loops with RCA, tables only: CPU seconds, peak memory, growth in jobs and messages.

Run it as ``python tools/bench/rca_scale.py`` with the logs of the Parallel Workloads Archive in MLSIM_TRACES,
or name some of them (``KTH Curie``). Each run is ``mlsim run`` in a process of its own. ``--shares 0.1 1``
gives the shares of each log that are simulated, from its first job on; between two shares the exponents of
CPU seconds over jobs and over messages are printed. ``--without`` simulates the same without RCA;
``--calibrate`` lets loops take the recorded run times of their jobs, under STATIC or the technique that it
names; ``--technique`` is that of the loops.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
from pathlib import Path

from chunks import Cost, measured

ROOT = Path(__file__).resolve().parents[2]
LOGS = {
    "KTH": ("KTH-SP2-1996-2.1-cln.swf.gz", 28_476, 100, 1),
    "HPC2N": ("HPC2N-2002-2.2-cln.swf.gz", 202_871, 120, 2),
    "Curie": ("CEA-Curie-2011-2.1-cln.swf.gz", 312_826, 5_040, 16),
}
"""File, jobs, nodes, and cores of each."""

SCENARIO = """
name: {name}
seed: 1
platform:
  nodes: [{{name: n, count: {nodes}, cores: {cores}}}]
  network: {{topology: fully-connected, bandwidth: 50 Gbit/s, latency: 500 ns}}
workload: {{path: {path}, mapping: core, cleaning: {{oversize: clamp}}, select: {{first: {first}}}}}
batch: {{policy: FCFS, backfill: easy, on_overrun: extend}}
application:
  model: loop
  iterations: {{per_pe: 1}}
  costs: {{profile: job, variation: 0.25, {calibrate}}}
  technique: {technique}
coordination: {{rca: {rca}}}
output: {{pictures: off}}
"""


def simulated(name: str, share: float, traces: Path, keys: dict[str, str]) -> tuple[int, int, Cost]:
    """Simulate a share of a log; return its jobs and messages, and what that took. ``keys``: of SCENARIO."""
    file, jobs, nodes, cores = LOGS[name]
    with tempfile.TemporaryDirectory() as directory:
        scenario, out = Path(directory, "scale.yaml"), Path(directory, "run")
        first = math.ceil(jobs * share)
        scenario.write_text(
            SCENARIO.format(name=name, nodes=nodes, cores=cores, path=traces / file, first=first, **keys)
        )
        cost = measured(["run", str(scenario), "--out", str(out)])
        summary = json.loads((out / "summary.json").read_text())
    return summary["jobs"]["submitted"], summary.get("coordination", {}).get("messages", 0), cost


def main() -> None:
    """Measure each log and share, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("logs", nargs="*", metavar="LOG", help=f"of {', '.join(LOGS)}; default: all")
    parser.add_argument("--shares", type=float, nargs="+", default=[1.0])
    parser.add_argument("--without", action="store_true")
    parser.add_argument("--calibrate", nargs="?", const="STATIC", metavar="TECHNIQUE")
    parser.add_argument("--technique", default="STATIC")
    given = parser.parse_args()
    if unknown := set(given.logs) - set(LOGS):
        parser.error(f"no such log: {', '.join(sorted(unknown))}; allowed: {', '.join(LOGS)}")
    traces = Path(os.environ.get("MLSIM_TRACES", ROOT.parent / "shared" / "traces")).resolve()
    keys = {"rca": "off" if given.without else "on"}
    to = f"calibrate: recorded, calibrate_to: {{technique: {given.calibrate}}}"
    keys |= {"calibrate": to if given.calibrate else "calibrate: none", "technique": given.technique}
    print("log          jobs    messages    CPU s    ms a job  peak MB  exponent: jobs  messages", flush=True)
    for name in given.logs or LOGS:
        before: tuple[int, int, Cost] | None = None
        for share in given.shares:
            now = jobs, messages, cost = simulated(name, share, traces, keys)
            grown = ""
            if before is not None:
                seconds = math.log(cost.seconds / before[2].seconds)
                over = [math.log(now[k] / before[k]) if before[k] else math.nan for k in (0, 1)]
                grown = f"  {seconds / over[0]:14.2f}  {seconds / over[1]:8.2f}"
            print(
                f"{name:8} {jobs:8,} {messages:11,} {cost.seconds:8.1f} {cost.seconds / jobs * 1e3:11.2f} "
                f"{cost.memory:8.0f}{grown}",
                flush=True,
            )
            before = now


if __name__ == "__main__":
    main()
