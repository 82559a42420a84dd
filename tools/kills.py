#!/usr/bin/env python3
"""Send SIGINT, SIGTERM and SIGKILL to all long commands at random instants, and check what each leaves.

    tools/kills.py 200 --seed 1

Checks that the exit code is that of the signal, that nobody sees a traceback, that nothing half-written is
left, and that the same command, given once more, ends well and leaves the bytes of an undisturbed one: after
SIGKILL it also removes what is half-written. Prints a row per command, with the longest time from a signal
that can be handled to the end; ends with 1 if a check fails. `tools/signals.py` looks at runs more closely.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from signals import LONGEST, prepare

MLSIM = [sys.executable, "-c", "from mlsim.cli.main import main; main()"]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
TIMED = ("summary.json", "manifest.json", "versions.json", "state.json", "study.sqlite")
"""Files that hold times or checksums of such files."""
LOOP = "--pes 16 --iterations 300000 --profile exponential --mean 1ms --technique SS,GSS --model cca,dca"
COMMANDS = {
    "run": "run signals.yaml --set output.trace=chunks --out OUT",
    "loop": f"loop {LOOP} --out OUT",
    "advise": "advise loop.yaml",
    "study": "study run study.yaml --jobs 1 --out OUT",
    "report": "report RUN -o OUT.html",
    "plot": "plot gantt RUN -o OUT.pdf",
    "trace convert": "trace convert RUN -o OUT.json",
    "trace cut": "trace cut RUN --to '20 min' -o OUT",
    "generate": "workload generate lublin --jobs 20000 --seed 1 -o OUT.csv.gz",
    "convert": "workload convert log.swf OUT.csv.xz",
    "resample": "workload resample log.swf --weeks 9 --by week -o OUT.swf.gz",
    "scale": "workload scale log.swf --factor 1.2 -o OUT.swf.gz",
    "predict": "workload predict log.swf --json",
    "learn classes": "learn classes weeks.yaml --policies FCFS --trees 3 --jobs 1 --out OUT",
    "slurm esp": "slurm esp --nodes 2 --jobs 3 --technique STATIC --scale 0.005 --out OUT",
}
"""The long commands; OUT is what they write, RUN a directory of results."""
MEASURED = ("slurm esp",)
"""Those whose results are times of real runs, never the same twice."""
STUDY = """\
of: runs
name: kills
base: signals.yaml
vary: {batch.policy: [FCFS, SAF, SPF]}
"""
WEEKS = """\
name: weeks
platform: {nodes: [{name: n, count: 128, cores: 1}]}
workload: {path: weeks.swf, mapping: node}
batch: {policy: FCFS, backfill: easy}
output: {pictures: off}
"""


@dataclass
class Row:
    """What came of one command."""

    seconds: float = 0.0
    """Of an undisturbed one."""
    digest: str = ""
    ended: Counter[str] = field(default_factory=Counter)
    """How many were inside, by signal, and how many signals came after the end."""
    slowest: float = 0.0
    wrong: list[str] = field(default_factory=list)


def start(directory: Path, name: str) -> subprocess.Popen[str]:
    import shlex

    words = [word.replace("RUN", "runs/there") for word in shlex.split(COMMANDS[name])]
    return subprocess.Popen(
        [*MLSIM, *words],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def results(directory: Path) -> list[Path]:
    return sorted(directory.glob("OUT*"))


def left_over(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob(".*") if "partial" in path.name)


def digest(directory: Path, out: str) -> str:
    """Return a digest of what a command has written and printed, but for times."""
    found = hashlib.sha256(out.encode() if not results(directory) else b"")
    for top in results(directory):
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and not path.name.startswith(TIMED) and "store" not in path.parts:
                found.update(str(path.relative_to(directory)).encode() + path.read_bytes())
    return found.hexdigest()


def processes(directory: Path) -> list[str]:
    """Return the command lines of processes that still run on files below a directory."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it has ended meanwhile
            continue
        if any(str(directory) in word for word in words):
            found.append(" ".join(words)[:200])
    return found


def clear(directory: Path) -> None:
    for path in results(directory):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def whole(directory: Path, name: str) -> tuple[float, str, str]:
    """Complete a command; return its seconds, the digest of its results, and what is wrong."""
    began = time.monotonic()
    process = start(directory, name)
    out, told = process.communicate(timeout=LONGEST)
    wrong = "" if process.returncode == 0 else f"ends with {process.returncode}: {told[-300:]}"
    if left := left_over(directory):
        wrong += f"left over: {left}"
    if running := processes(directory):
        wrong += f"still running: {running}"
    return time.monotonic() - began, "" if name in MEASURED else digest(directory, out), wrong


def try_one(directory: Path, name: str, number: signal.Signals, delay: float, row: Row) -> None:
    """Send a signal so long after the start, then give the command once more."""
    process = start(directory, name)
    time.sleep(delay)
    began = time.monotonic()
    process.send_signal(number)
    _, told = process.communicate(timeout=LONGEST)
    what = f"{number.name} after {delay:.2f} s"
    is_whole = process.returncode == 0 or bool(
        results(directory) and name not in MEASURED and digest(directory, "") == row.digest
    )
    if is_whole:  # the signal came when all was written
        row.ended["after the end"] += 1
    elif process.returncode in (128 + number, -number):
        row.ended[number.name] += 1
        if process.returncode > 0:
            row.slowest = max(row.slowest, time.monotonic() - began)
    else:
        row.wrong.append(f"{what}: exit code {process.returncode}: {told[-300:]}")
    if "Traceback" in told and process.returncode != -number:
        row.wrong.append(f"{what}: {told[-600:]}")
    if number is not signal.SIGKILL and (left := left_over(directory)):
        row.wrong.append(f"{what}: left over: {left}")
    if number is not signal.SIGKILL and (running := processes(directory)):
        row.wrong.append(f"{what}: still running: {running}")
    if not is_whole:
        _, found, wrong = whole(directory, name)
        if wrong:
            row.wrong.append(f"once more after {what}: {wrong}")
        elif found != row.digest:
            row.wrong.append(f"once more after {what}: other results")
    clear(directory)


def make(directory: Path) -> None:
    """Write all that the commands read."""
    prepare(directory)
    (directory / "study.yaml").write_text(STUDY, encoding="utf-8")
    (directory / "weeks.yaml").write_text(WEEKS, encoding="utf-8")
    (directory / "loop.yaml").write_text(
        "platform: {nodes: [{name: n, count: 4, cores: 8}]}\n"
        "application: {iterations: {count: 20000}, costs: {profile: exponential, mean: 1 ms}}\n",
        encoding="utf-8",
    )
    for words in (
        "workload generate lublin --jobs 8000 --seed 2 -o log.swf",
        "workload generate lublin --days 28 --load 0.3 --seed 3 -o weeks.swf",
        "run signals.yaml --set output.trace=chunks --set workload.select.first=15 --quiet --out runs/there",
    ):
        subprocess.run([*MLSIM, *words.split()], cwd=directory, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("n", type=int, nargs="?", default=200, help="signals")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=list(COMMANDS), help="commands")
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    names = arguments.only or list(COMMANDS)
    if "slurm esp" in names and shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        print("slurm esp: left out, there is no Slurm here", file=sys.stderr)
        names.remove("slurm esp")
    rows = {name: Row() for name in names}
    with tempfile.TemporaryDirectory(prefix="mlsim-kills-") as place:
        directory = Path(place)
        make(directory)
        for name, row in rows.items():
            for _ in range(2):  # the second with all kernels on disk
                row.seconds, row.digest, wrong = whole(directory, name)
                clear(directory)
                if wrong:
                    raise SystemExit(f"{name}: {wrong}")
        for place_ in range(arguments.n):
            name = names[place_ % len(names)]
            number = SIGNALS[generator.randrange(len(SIGNALS))]
            try_one(directory, name, number, generator.uniform(0.2, rows[name].seconds), rows[name])
            if rows[name].wrong:
                print(f"{place_}: {name}: {rows[name].wrong[-1]}", file=sys.stderr, flush=True)
            if (place_ + 1) % 20 == 0:
                print(f"{place_ + 1} of {arguments.n} signals", file=sys.stderr, flush=True)
    print(f"{'':16}{'whole s':>8}{'INT':>6}{'TERM':>6}{'KILL':>6}{'after':>7}{'slowest s':>11}{'wrong':>7}")
    for name, row in rows.items():
        counts = [row.ended[number.name] for number in SIGNALS]
        numbers = "".join(f"{count:6}" for count in counts)
        print(
            f"{name:16}{row.seconds:8.1f}{numbers}{row.ended['after the end']:7}{row.slowest:11.2f}"
            f"{len(row.wrong):7}"
        )
    return int(any(row.wrong for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
