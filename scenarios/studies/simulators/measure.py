"""What mlsim takes beside other simulators: time and memory of whole runs, each a process of its own.

Usage: python scenarios/studies/simulators/measure.py [--repeats 10] [--only reject|growth] [--out DIR]

``reject``: three logs under a dispatcher that rejects every job, beside what Galleguillos et al. 2020,
Table 1, found for AccaSim, Batsim and Alea. ``growth``: 1,000 to 16,000 jobs at both levels (Eleliemy 2021,
Fig. 3.14). The logs are looked for in the directories of MLSIM_TRACES. With --out, tables and a picture are
written there.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

HERE = Path(__file__).resolve().parent
SAMPLE_EVERY = 0.010
"""Seconds between two looks at the memory, as in the source."""
LOGS = {
    "Seth": ("HPC2N-2002-2.2-cln.swf.gz", 120, 4),
    "RICC": ("RICC-2010-2.swf.gz", 1024, 8),
    "MC": ("METACENTRUM-2013-3.swf.gz", 495, 17),
}
"""Name in the source: file, nodes, and cores of each; MetaCentrum's 8,412 cores on 495 nodes of 17."""
JOBS = (1_000, 2_000, 4_000, 8_000, 16_000)


@dataclass(frozen=True)
class Cost:
    """What one run took."""

    cpu: float
    """User and system time [s]."""
    wall: float
    """Wall-clock time [s]."""
    memory: float
    """Mean resident set over the samples [MB]."""
    peak: float
    """Largest resident set [MB]."""


def run(scenario: Path, keys: Mapping[str, object]) -> Cost:
    """Run a scenario in a process of its own."""
    settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    program = "from mlsim.cli.main import main; main()"
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-c", program, "run", str(scenario), *settings, "--quiet"]
        began = time.perf_counter()
        child = subprocess.Popen([*command, "--out", f"{directory}/run"])
        samples: list[float] = []
        ended = threading.Event()
        watch = threading.Thread(target=_watch, args=(child.pid, ended, samples))
        watch.start()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
        ended.set()
        watch.join()
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)}: ended with {child.returncode}")
    peak = usage.ru_maxrss / 1024
    return Cost(usage.ru_utime + usage.ru_stime, wall, mean(samples) if samples else peak, peak)


def _watch(pid: int, ended: threading.Event, samples: list[float]) -> None:
    """Note the resident set of a process now and then, on Linux [MB]."""
    page = resource.getpagesize() / 1024**2
    statm = Path(f"/proc/{pid}/statm")
    while not ended.wait(SAMPLE_EVERY):
        try:
            samples.append(int(statm.read_text().split()[1]) * page)
        except (OSError, IndexError):
            return


def reject(repeats: int, logs: Mapping[str, tuple[str, int, int]]) -> dict[str, list[Cost]]:
    """Reject every job of each log that is there; the first run, which may compile, does not count."""
    found: dict[str, list[Cost]] = {}
    for name, (file, nodes, cores) in logs.items():
        keys = {
            "workload.path": _path_of(file),
            "platform.nodes.0.count": nodes,
            "platform.nodes.0.cores": cores,
        }
        if not keys["workload.path"]:
            print(f"{name}: {file} is in no directory of MLSIM_TRACES; left out", file=sys.stderr)
            continue
        run(HERE / "reject.yaml", keys)
        found[name] = [run(HERE / "reject.yaml", keys) for _ in range(repeats)]
    return found


def _path_of(file: str) -> str:
    """Find a log; "" if it is nowhere."""
    places = [
        Path(file),
        *(Path(place, file) for place in os.environ.get("MLSIM_TRACES", "").split(os.pathsep)),
    ]
    return next((str(path.resolve()) for path in places if path.is_file()), "")


def growth(repeats: int, jobs: Sequence[int], keys: Mapping[str, object]) -> dict[int, list[Cost]]:
    """Simulate more and more jobs at both levels."""
    run(HERE / "growth.yaml", {**keys, "workload.select.first": jobs[0]})
    return {
        n: [run(HERE / "growth.yaml", {**keys, "workload.select.first": n}) for _ in range(repeats)]
        for n in jobs
    }


def theirs() -> list[dict[str, str]]:
    """Read what the source found."""
    return list(csv.DictReader((HERE / "source.csv").read_text().splitlines()))


def reject_table(found: Mapping[str, Sequence[Cost]]) -> str:
    """Lay out the source's Table 1 with a column for mlsim; of ours also how much the runs differ."""
    lines = ["| log | | AccaSim | Batsim | Alea | mlsim |", "| --- | --- | --- | --- | --- | --- |"]
    for row in theirs():
        costs = found.get(row["log"], ())
        ours = ""
        if costs:
            values = [getattr(cost, row["ours"]) for cost in costs]
            spread = f" ± {stdev(values):.2g}" if len(values) > 1 else ""
            ours = f"{mean(values):.3g}{spread}"
        cells = (row["log"], row["measure"], row["AccaSim"], row["Batsim"], row["Alea"], ours)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def growth_table(found: Mapping[int, Sequence[Cost]]) -> str:
    """Lay out the wall-clock time by number of jobs."""
    lines = [
        "| jobs | mean wall s | least | most | CPU s | peak MB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for n, costs in found.items():
        walls = [cost.wall for cost in costs]
        cpu, peak = min(cost.cpu for cost in costs), max(cost.peak for cost in costs)
        cells = f"{mean(walls):.2f} | {min(walls):.2f} | {max(walls):.2f} | {cpu:.2f} | {peak:.0f}"
        lines.append(f"| {n:,} | {cells} |")
    return "\n".join(lines) + "\n"


def draw(path: Path, found: Mapping[int, Sequence[Cost]]) -> None:
    """Draw the wall-clock time over the jobs: mean, least and most."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    jobs = list(found)
    walls = [[cost.wall for cost in costs] for costs in found.values()]
    means = [mean(each) for each in walls]
    below = [middle - min(each) for middle, each in zip(means, walls, strict=True)]
    above = [max(each) - middle for middle, each in zip(means, walls, strict=True)]
    axes.errorbar(jobs, means, yerr=[below, above], marker="o", capsize=3)
    axes.set(
        xlabel="jobs", ylabel="wall-clock time (s)", ylim=(0, None), title="FCFS and STATIC, both levels"
    )
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure, print the tables, and write them where it is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--only", choices=("reject", "growth"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.repeats < 1:
        parser.error("--repeats: allowed: a number from 1 on")
    if given.out is not None:
        given.out.mkdir(parents=True)
    parts = []
    if given.only != "growth":
        parts.append(reject_table(reject(given.repeats, LOGS)))
        print(parts[-1], flush=True)
    if given.only != "reject":
        found = growth(given.repeats, JOBS, {})
        parts.append(growth_table(found))
        print(parts[-1], flush=True)
        if given.out is not None:
            draw(given.out / "growth.png", found)
    if given.out is not None:
        (given.out / "table.md").write_text("\n".join(parts))


if __name__ == "__main__":
    main()
