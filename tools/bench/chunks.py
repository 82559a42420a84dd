"""Measure what chunk records take: processor time and bytes a chunk, and the peak of memory.

Run it as ``python tools/bench/chunks.py 1000000 10000000`` from the repository: each size is one loop under
SS, simulated by ``mlsim loop`` in processes of their own: without chunks, with the tables of chunks, and with
pictures of them as well, each ``--rounds`` times, of which the least counts. ``--steps K`` divides the chunks
over K time steps, so that their number is not limited by the costs of the iterations, which are in memory;
``--model``, ``--technique`` and ``--otf2`` are those of ``mlsim loop``.
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


def least(arguments: list[str], out: Path, rounds: int) -> Cost:
    """Run mlsim several times; return the least of processor time, and the peak of memory then."""
    out.mkdir()
    costs = []
    for number in range(rounds):
        costs.append(measured([*arguments, "--out", str(out / str(number))]))
    return min(costs)


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
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(
        "     chunks  without (s)  tables (s)  pictures (s)  ns a chunk: tables  pictures  bytes  memory (MB)"
    )
    for chunks in given.chunks:
        loop = ["loop", "--pes", "16x16", "--profile", "exponential", "--mean", "1ms"]
        loop += ["--technique", given.technique, "--model", given.model]
        loop += ["--iterations", str(chunks // given.steps), "--set", f"application.time_steps={given.steps}"]
        extra = ["--otf2"] if given.otf2 else []
        plain = ["--set", "output.pictures=off"]
        with tempfile.TemporaryDirectory() as place:
            out = Path(place)
            without = least([*loop, "--no-chunks"], out / "without", given.rounds)
            tables = least([*loop, *extra, *plain], out / "tables", given.rounds)
            pictures = least([*loop, *extra], out / "pictures", given.rounds)
            size = size_of(out / "tables" / "0")
        recording, drawing = tables.seconds - without.seconds, pictures.seconds - tables.seconds
        print(
            f"{chunks:11,}  {without.seconds:11.2f}  {tables.seconds:10.2f}  {pictures.seconds:12.2f}  "
            f"{recording / chunks * 1e9:18.0f}  {drawing / chunks * 1e9:8.0f}  {size / chunks:5.1f}  "
            f"{pictures.memory:9.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
