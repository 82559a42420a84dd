"""Measure what chunk records take: processor time and bytes a chunk, and the peak of memory.

Run it as ``python tools/bench/chunks.py 1000000 10000000`` from the repository: each size is one loop under
SS, simulated by ``mlsim loop`` in a process of its own, with and without chunks. ``--steps K`` divides the
chunks over K time steps, so that their number is not limited by the costs of the iterations, which are in
memory; ``--model``, ``--technique`` and ``--otf2`` are those of ``mlsim loop``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    """Processor time in s, and the peak of memory in MB."""

    seconds: float
    memory: float


def measured(arguments: list[str]) -> Cost:
    """Run mlsim in a process of its own."""
    command = [sys.executable, "-c", "from mlsim.cli.main import main; main()", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(command)}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def size_of(directory: Path) -> int:
    """Sum up the bytes of the chunks' file, and of the trace if there is one."""
    files = [directory / "chunks.parquet", *(directory / "trace").rglob("*")]
    return sum(path.stat().st_size for path in files if path.is_file())


def main() -> None:
    """Measure each size, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chunks", nargs="*", type=int, default=[1_000_000, 10_000_000])
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--model", default="dca")
    parser.add_argument("--technique", default="SS")
    parser.add_argument("--otf2", action="store_true")
    given = parser.parse_args()
    print("     chunks  with (s)  without (s)  ns a chunk  bytes a chunk  memory (MB)")
    for chunks in given.chunks:
        loop = ["loop", "--pes", "16x16", "--profile", "exponential", "--mean", "1ms"]
        loop += ["--technique", given.technique, "--model", given.model]
        loop += ["--iterations", str(chunks // given.steps), "--set", f"application.time_steps={given.steps}"]
        with tempfile.TemporaryDirectory() as place:
            out = Path(place)
            without = measured([*loop, "--no-chunks", "--out", str(out / "without")])
            extra = ["--otf2"] if given.otf2 else []
            cost = measured([*loop, *extra, "--out", str(out / "with")])
            size = size_of(out / "with")
        each = (cost.seconds - without.seconds) / chunks * 1e9
        print(
            f"{chunks:11,}  {cost.seconds:8.1f}  {without.seconds:11.1f}  {each:10.0f}  "
            f"{size / chunks:13.1f}  {cost.memory:11.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
