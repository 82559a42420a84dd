"""How near generated logs come to the logs that they are learned from: distances and pictures.

Usage: python scenarios/studies/generator/measure.py [--seeds 5] [--held-out] [--out DIR]

As Figs. 14 to 17 of Galleguillos et al. 2020: when jobs are submitted, by hour, weekday and month, and the
work of jobs, of two logs and of logs generated from them with as many jobs; and their sizes. The distance is
Kolmogorov's, the largest between the two cumulative distributions. Beside it stands that of a simple rival:
Poisson arrivals at the log's rate, of jobs that are drawn of the log by size and run time at once. The logs
are looked for in the directories of MLSIM_TRACES. With --out, the table and a picture of each are written.

With --held-out the model is learned from the first half of a log's time, and compared with the second half;
so is the first half itself, which no model that is learned from it can be expected to beat.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from mlsim.workload import JobBlock, fit, generate
from mlsim.workload.derived_logs import SourceLog
from mlsim.workload.log_fields import local_times
from mlsim.workload.models.model_fit import calendar_counts

LOGS = {"Seth": ("HPC2N-2002-2.2-cln.swf.gz", 3.33), "RICC": ("RICC-2010-2.swf.gz", 11.72)}
"""Name in the source: file, and speed of a processor [GFLOP/s]: 1.667 GHz x 2 and 2.93 GHz x 4 operations.
The source does not say what it used; distances do not depend on it."""
OTHERS = {
    "SDSC-BLUE": ("SDSC-BLUE-2000-4.2-cln.swf.gz", 1.5),
    "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln.swf.gz", 0.64),
}
"""Logs of two years and more that the source does not use, for --held-out."""
PARTS = {"hour": slice(0, 24), "weekday": slice(24, 31), "month": slice(31, 43)}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """What is compared of a log."""

    calendar: Floats
    """Shares of the jobs by hour, weekday and month."""
    work: Floats
    """Of each job [GFLOP], sorted."""
    size: Floats
    """Of each job, sorted."""

    def distance(self, other: Seen) -> dict[str, float]:
        """Return Kolmogorov's distance of each distribution."""
        found = {
            name: float(np.abs(np.cumsum(self.calendar[part]) - np.cumsum(other.calendar[part])).max())
            for name, part in PARTS.items()
        }
        return found | {"work": _between(self.work, other.work), "size": _between(self.size, other.size)}


def seen(times: Floats, jobs: JobBlock, gflops: float) -> Seen:
    """Look at jobs; times are local, in seconds since 1970."""
    work = jobs.run_time * jobs.processors * gflops
    return Seen(
        calendar_counts(times) / len(jobs), np.sort(work), np.sort(jobs.processors.astype(np.float64))
    )


def _between(a: Floats, b: Floats) -> float:
    places = np.unique(np.concatenate([a, b]))
    of_a, of_b = (np.searchsorted(each, places, "right") / len(each) for each in (a, b))
    return float(np.abs(of_a - of_b).max())


def halves(log: Path, directory: Path) -> tuple[Path, Path]:
    """Write the jobs of the first and of the second half of a log's time."""
    opener = gzip.open if log.suffix == ".gz" else open
    with opener(log, "rt", encoding="latin-1") as file:
        lines = [line for line in file if line.strip()]
    header = [line for line in lines if line.startswith(";")]
    jobs = sorted((line for line in lines if line[0] != ";"), key=lambda line: float(line.split()[1]))
    times = [float(line.split()[1]) for line in jobs]
    middle = int(np.searchsorted(times, (times[0] + times[-1]) / 2))
    paths = directory / "first.swf", directory / "second.swf"
    for path, part in zip(paths, (jobs[:middle], jobs[middle:]), strict=True):
        path.write_text("".join([*header, *part]), encoding="latin-1")
    return paths


def logged(path: Path) -> tuple[Floats, JobBlock]:
    """Return submit times as local seconds since 1970, and the jobs, of a log."""
    source = SourceLog(path)
    jobs = source.jobs()
    return local_times(jobs.submit_time, source.start_header(), source.path), jobs


def measure(
    log: Path, gflops: float, seeds: int, held_out: bool = False
) -> tuple[Seen, dict[str, list[Seen]]]:
    """Return what is seen of a log or its second half, and of what is learned from it or its first half."""
    found: dict[str, list[Seen]] = {"generated": [], "Poisson": []}
    with tempfile.TemporaryDirectory() as directory:
        learned, compared = halves(log, Path(directory)) if held_out else (log, log)
        times, jobs = logged(compared)
        old_times, old_jobs = logged(learned) if held_out else (times, jobs)
        if held_out:
            found["first half"] = [seen(old_times, old_jobs, gflops)]
        model = Path(directory, "model.json")
        model.write_text(fit(learned, gflops=gflops).text())
        for seed in range(1, seeds + 1):
            made = generate(str(model), jobs=len(jobs), seed=seed)
            start = float(str(made.header["UnixStartTime"]))
            new = made.jobs()
            found["generated"].append(seen(new.submit_time + start, new, gflops))
            found["Poisson"].append(_rival(times, old_jobs, gflops, seed))
    return seen(times, jobs, gflops), found


def _rival(times: Floats, jobs: JobBlock, gflops: float, seed: int) -> Seen:
    rng = np.random.default_rng(seed)
    drawn = jobs.select(rng.integers(0, len(jobs), len(times)))
    intervals = rng.exponential((times[-1] - times[0]) / len(times), len(times))
    return seen(times[0] + np.cumsum(intervals), drawn, gflops)


def table(found: Mapping[str, tuple[Seen, Mapping[str, Sequence[Seen]]]]) -> str:
    """Lay out mean distances over the seeds."""
    names = [*PARTS, "work", "size"]
    lines = [f"| log | | {' | '.join(names)} |", "| --- | --- |" + " --- |" * len(names)]
    for log, (real, compared) in found.items():
        for title, others in compared.items():
            distances = [real.distance(other) for other in others]
            cells = " | ".join(f"{mean(each[name] for each in distances):.3f}" for name in names)
            lines.append(f"| {log} | {title} | {cells} |")
    return "\n".join(lines) + "\n"


def draw(path: Path, log: str, real: Seen, generated: Seen) -> None:
    """Draw shares by hour, weekday and month, and the work of jobs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.0), layout="constrained")
    labels = {"weekday": ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"], "month": list("JFMAMJJASOND")}
    for place, (name, part) in enumerate(PARTS.items()):
        axes = figure.add_subplot(2, 2, place + 1)
        at = np.arange(part.stop - part.start)
        for shift, title, which in ((-0.2, log, real), (0.2, "generated", generated)):
            axes.bar(at + shift, which.calendar[part], 0.4, label=title)
        axes.set_title(f"jobs by {name}", loc="left")
        axes.set_ylabel("share of jobs")
        if name in labels:
            axes.set_xticks(at, labels[name])
    axes = figure.add_subplot(2, 2, 4)
    for title, which in ((log, real), ("generated", generated)):
        axes.plot(
            np.maximum(which.work, 1.0), np.arange(1, len(which.work) + 1) / len(which.work), label=title
        )
    axes.set_xscale("log")
    axes.set_title("work of jobs", loc="left")
    axes.set_xlabel("GFLOP")
    axes.set_ylabel("share of jobs up to it")
    axes.legend()
    figure.savefig(path, dpi=110, metadata={"Software": None})


def find(name: str) -> Path | None:
    """Look for a log in the directories of MLSIM_TRACES."""
    places = [Path(part) for part in os.environ.get("MLSIM_TRACES", "").split(os.pathsep) if part]
    return next((place / name for place in places if (place / name).is_file()), None)


def main() -> None:
    """Measure, print, and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = {}
    for log, (name, gflops) in (LOGS | OTHERS if given.held_out else LOGS).items():
        path = find(name)
        if path is None:
            print(f"{log}: {name} is in no directory of MLSIM_TRACES; left out", file=sys.stderr)
            continue
        found[log] = measure(path, gflops, given.seeds, given.held_out)
    text = table(found)
    print(text, end="")
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "table.md").write_text(text)
        for log, (real, compared) in found.items():
            draw(given.out / f"{log.lower()}.png", log, real, compared["generated"][0])


if __name__ == "__main__":
    main()
