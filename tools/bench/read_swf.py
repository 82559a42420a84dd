"""How fast workload logs are read.

Usage: python tools/bench/read_swf.py [LOG ...]; without logs, all of MLSIM_TRACES

For every log: seconds to decompress it, to parse it (after decompression), and to open it as a
workload and walk over all jobs, each the best of several runs, with the kernels compiled before.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

from mlsim.scenario import WorkloadConfig
from mlsim.workload import SwfReader, open_workload
from mlsim.workload.format_record import read_chunks

RUNS = 5


def best_of(run: Callable[[Path], int], path: Path) -> float:
    """Seconds of the fastest of `RUNS` runs."""
    seconds = []
    for _ in range(RUNS):
        began = time.perf_counter()
        run(path)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def decompress(path: Path) -> int:
    return sum(map(len, read_chunks(path)))


def parse(path: Path) -> int:
    return sum(map(len, SwfReader(path, lenient=True).blocks()))


def walk(path: Path) -> int:
    config = WorkloadConfig.model_validate({"path": path.name, "lenient": True})
    return sum(map(len, open_workload(config, path, machine_processors=1 << 40).blocks()))


def known_logs() -> list[Path]:
    """Return the compressed SWF logs in the directories of MLSIM_TRACES."""
    places = [Path(place) for place in os.environ.get("MLSIM_TRACES", "").split(os.pathsep) if place]
    return [log for place in places for log in sorted(place.glob("*.swf.gz"))]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG", help="default: those of MLSIM_TRACES")
    logs = parser.parse_args().logs or known_logs()
    print(
        f"{'log':34} {'jobs':>8} {'MB':>6} {'unpack s':>9} {'parse s':>8} {'Mjobs/s':>8} {'open+walk s':>12}"
    )
    for path in logs:
        jobs = parse(path)
        unpacking = best_of(decompress, path)
        parsing = best_of(parse, path) - unpacking
        opening = best_of(walk, path)
        size, rate = decompress(path) / 1e6, jobs / parsing / 1e6
        print(
            f"{path.name:34} {jobs:8} {size:6.1f} {unpacking:9.3f} {parsing:8.3f} {rate:8.2f} {opening:12.3f}"
        )


if __name__ == "__main__":
    main()
