"""How near generated logs come to the logs that they are learned from: distances and pictures.

Usage: python scenarios/studies/generator/measure.py [--seeds 5] [--out DIR]

As Figs. 14 to 17 of Galleguillos et al. 2020: when jobs are submitted, by hour, weekday and month, and the
work of jobs, of two logs and of logs generated from them with as many jobs; and their sizes. The distance is
Kolmogorov's, the largest between the two cumulative distributions. Beside it stands that of a simple rival:
Poisson arrivals at the log's rate, of jobs that are drawn of the log by size and run time at once. The logs
are looked for in the directories of MLSIM_TRACES. With --out, the table and a picture of each are written.
"""

from __future__ import annotations

import argparse
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


def measure(log: Path, gflops: float, seeds: int) -> tuple[Seen, list[Seen], list[Seen]]:
    """Return what is seen of a log, of logs generated from it, and of the rival's."""
    source = SourceLog(log)
    jobs = source.jobs()
    times = local_times(jobs.submit_time, source.start_header(), source.path)
    real = seen(times, jobs, gflops)
    generated, rivals = [], []
    with tempfile.TemporaryDirectory() as directory:
        model = Path(directory, "model.json")
        model.write_text(fit(log, gflops=gflops).text())
        for seed in range(1, seeds + 1):
            made = generate(str(model), jobs=len(jobs), seed=seed)
            start = float(str(made.header["UnixStartTime"]))
            new = made.jobs()
            generated.append(seen(new.submit_time + start, new, gflops))
            rivals.append(_rival(times, jobs, gflops, seed))
    return real, generated, rivals


def _rival(times: Floats, jobs: JobBlock, gflops: float, seed: int) -> Seen:
    rng = np.random.default_rng(seed)
    mean_interval = (times[-1] - times[0]) / len(jobs)
    drawn = jobs.select(rng.integers(0, len(jobs), len(jobs)))
    return seen(times[0] + np.cumsum(rng.exponential(mean_interval, len(jobs))), drawn, gflops)


def table(found: Mapping[str, tuple[Seen, Sequence[Seen], Sequence[Seen]]]) -> str:
    """Lay out mean distances over the seeds."""
    names = [*PARTS, "work", "size"]
    lines = [f"| log | | {' | '.join(names)} |", "| --- | --- |" + " --- |" * len(names)]
    for log, (real, generated, rivals) in found.items():
        for title, others in (("generated", generated), ("Poisson", rivals)):
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
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = {}
    for log, (name, gflops) in LOGS.items():
        path = find(name)
        if path is None:
            print(f"{log}: {name} is in no directory of MLSIM_TRACES; left out", file=sys.stderr)
            continue
        found[log] = measure(path, gflops, given.seeds)
    text = table(found)
    print(text, end="")
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "table.md").write_text(text)
        for log, (real, generated, _) in found.items():
            draw(given.out / f"{log.lower()}.png", log, real, generated[0])


if __name__ == "__main__":
    main()
