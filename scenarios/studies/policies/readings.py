"""How near readings of the weekly protocol come to Table 5.1 of Zrigui 2021, over phases of the cut.

Usage: python scenarios/studies/policies/readings.py [--phases 14] [--out FILE.csv]

A reading is what becomes of jobs that ran longer than their walltime, by what a job belongs to a week, and
what becomes of jobs that cross a week's edge. Told is how far the 22 sums of source.csv are off in the mean
of their absolute ratios: at the phase of the study, at the best of all phases, and in the mean over them.
A reading that was chosen by these numbers is fitted to them. The log is looked for in the directories of
MLSIM_TRACES.
"""

from __future__ import annotations

import argparse
import csv
from itertools import product
from pathlib import Path

import polars as pl

from mlsim.experiment.weekly_runs import LogWeeks, weeks_of
from mlsim.learning.mixed_policies import pure_means
from mlsim.scenario import load

HERE = Path(__file__).parent
PARTS = {"train": range(28, 65), "test": range(65, 101)}
WEEK = 168
"""Hours, which phases divide."""


def source() -> dict[tuple[str, str], float]:
    """Return the source's sums, by policy and part."""
    with (HERE / "source.csv").open() as file:
        return {(row["policy"], row["part"]): float(row["bounded slowdown"]) for row in csv.DictReader(file)}


def off(weeks: LogWeeks, wanted: dict[tuple[str, str], float]) -> float:
    """Return how far sums over the weeks of a cut are off, in the mean (%)."""
    ratios = []
    for part, numbers in PARTS.items():
        blocks = [weeks.blocks[number] for number in numbers]
        means = pure_means(blocks, weeks.scenario.batch, weeks.units)
        ratios += [
            abs(means[policy].sum() / value - 1.0)
            for (policy, where), value in wanted.items()
            if where == part
        ]
    return 100.0 * sum(ratios) / len(ratios)


def measure(phases: int) -> pl.DataFrame:
    """Cut and simulate under each reading, at each phase."""
    wanted, rows = source(), []
    for overruns, by, crossing in product(("clamp", "drop", "keep"), ("start", "submit"), ("remove", "keep")):
        found = {}
        for number in range(phases):
            hours = number * WEEK / phases
            keys = {
                "workload.cleaning.underestimate": overruns,
                "workload.weeks.by": by,
                "workload.weeks.crossing": crossing,
                "workload.weeks.phase": f"{hours:g} h",
            }
            found[hours] = off(weeks_of(load(HERE / "sdsc-sp2.yaml", keys)), wanted)
        best = min(found, key=lambda hours: found[hours])
        rows.append(
            {
                "overruns": overruns,
                "by": by,
                "crossing": crossing,
                "off at phase 0 (%)": found[0.0],
                "at the best": found[best],
                "which is (h)": best,
                "mean": sum(found.values()) / len(found),
            }
        )
    return pl.DataFrame(rows)


def main() -> None:
    """Read the options, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phases", type=int, default=14)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = measure(given.phases)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=140, float_precision=1):
        print(found)
    if given.out is not None:
        found.write_csv(given.out)


if __name__ == "__main__":
    main()
