"""Time the ESP batch under SS, a chunk an iteration: 41 million chunks of PSIA, 60 million of Mandelbrot.

Run it as ``python tools/bench/run_esp.py`` from the repository. The first run also compiles kernels and
computes the costs of the iterations, which are kept; the second run is the one that counts.
"""

from __future__ import annotations

import time
from pathlib import Path

from mlsim.experiment import run

SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "studies" / "esp-rca" / "esp.yaml"
COSTS = {
    "psia": {"profile": "psia", "calibrate": "run-time"},
    "mandelbrot": {
        "profile": "mandelbrot",
        "calibrate": "run-time",
        "parameters": {"window": {"x_min": -0.68, "x_max": 0.68, "y_min": -0.68, "y_max": 0.68}},
    },
}


def main() -> None:
    """Run both applications with and without RCA, twice each, and print a table."""
    print("application  rca  run  chunks (10^6)  wall (s)  processor (s)  memory (MB)")
    for application, costs in COSTS.items():
        for rca in ("off", "on"):
            for number in (1, 2):
                wall, processor = time.perf_counter(), time.process_time()
                keys = {
                    "workload.path": f"workloads/{application}-0.csv",
                    "application.technique": "SS",
                    "application.costs": costs,
                    "coordination.rca": rca,
                    "output.trace": "none",
                }
                summary = run(SCENARIO, keys).summary
                wall, processor = time.perf_counter() - wall, time.process_time() - processor
                chunks, memory = summary["loops"]["steps"] / 1e6, summary["self"]["peak_memory_mb"]
                print(
                    f"{application:12} {rca:4} {number:3}  {chunks:13.1f}  {wall:8.1f}  "
                    f"{processor:13.1f}  {memory:11.0f}"
                )


if __name__ == "__main__":
    main()
