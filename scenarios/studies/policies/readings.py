"""How near readings of the weekly protocol come to Tables 5.1 to 5.5 of Zrigui 2021, over phases of the cut.

Usage: python scenarios/studies/policies/readings.py [--phases 14] [--out FILE.csv]

A reading is what becomes of jobs that ran longer than their walltime (`overruns`), by what a job belongs to
a week, and what becomes of jobs that cross a week's edge. Each is simulated on each log at each phase.

The first table has mlsim's sums divided by the source's (geometric mean over policies and phases) and how far
they are off (mean of absolute deviations, %): over all phases, and at the best. The second one selects a
reading on one log, by the first of these deviations, and tests it on the others. The third one has KTH-SP2 on
larger machines. --out keeps every simulated sum; the same command continues it. The logs are looked for in
the directories of MLSIM_TRACES.
"""

from __future__ import annotations

import argparse
import csv
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from mlsim.batch.clock.replay_many import replay_many
from mlsim.experiment.weekly_runs import weeks_of
from mlsim.scenario import Policy, load

HERE = Path(__file__).parent
LOGS = {
    "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, 100),
    "SDSC-BLUE": ("SDSC-BLUE-2000-4.2-cln.swf.gz", 1152, 100),
    "CTC-SP2": ("CTC-SP2-1996-3.1-cln.swf.gz", 338, 45),
    "KTH-SP2": ("KTH-SP2-1996-2.1-cln.swf.gz", 100, 45),
}
"""File, processors and weeks of each log."""
READINGS = tuple(product(("drop", "keep", "clamp"), ("start", "submit"), ("keep", "remove")))
READING = ["overruns", "by", "crossing"]
PARTS = {"train": range(28, 65), "test": range(65, 101)}
NO_THRESHOLD, THRESHOLD = 1e9, 200_000.0
WEEK = 168
"""Hours, which phases divide."""


def sources() -> dict[str, dict[tuple[str, str], float]]:
    """Return the source's sums of each log, by policy and part; of Table 5.1 as log ``Table 5.1``."""
    found: dict[str, dict[tuple[str, str], float]] = {"Table 5.1": {}}
    with (HERE / "source.csv").open() as file:
        for row in csv.DictReader(file):
            found["Table 5.1"][row["policy"], row["part"]] = float(row["bounded slowdown"])
    with (HERE.parent / "mixed" / "thresholds.csv").open() as file:
        for row in csv.DictReader(file):
            found.setdefault(row["log"], {})[row["policy"], "all"] = float(row["bounded slowdown"])
    return found


def simulated(log: str, reading: tuple[str, ...], hours: float, processors: int) -> list[dict[str, Any]]:
    """Simulate one log under one reading at one phase; return a row for each number of the source."""
    path, _, last = LOGS[log]
    keys = {
        "workload.path": path,
        "platform.nodes.0.count": processors,
        "workload.select.weeks": f"1-{last}",
        "workload.cleaning.underestimate": reading[0],
        "workload.weeks.by": reading[1],
        "workload.weeks.crossing": reading[2],
        "workload.weeks.phase": f"{hours:g} h",
    }
    weeks = weeks_of(load(HERE / "sdsc-sp2.yaml", keys))
    config, known = weeks.scenario.batch, sources()
    tables = [(log, NO_THRESHOLD)] + [("Table 5.1", THRESHOLD)] * (log == "SDSC-SP2")
    rows = []
    for (table, threshold), (policy, part) in ((t, key) for t in tables for key in known[t[0]]):
        blocks = [weeks.blocks[number] for number in PARTS.get(part, weeks.blocks)]
        config = config.model_copy(update={"policy": Policy(policy), "threshold": threshold})
        found = replay_many(blocks, config, weeks.units)
        labels = dict(zip(READING, reading, strict=True))
        labels |= {"log": table, "processors": processors, "phase": hours, "policy": policy, "part": part}
        total = float((found.bounded_slowdown[:, 0] / found.n_jobs).sum())
        rows.append({**labels, "sum": total, "source": known[table][policy, part]})
    return rows


def measure(phases: int, out: Path | None) -> pl.DataFrame:
    """Simulate what is missing in ``out``; return all sums."""
    found = pl.read_csv(out) if out is not None and out.exists() else pl.DataFrame()
    done = set(found.select("log", "processors", *READING, "phase").iter_rows()) if len(found) else set()
    wanted = [(log, one, LOGS[log][1]) for log in LOGS for one in READINGS]
    wanted += [("KTH-SP2", one, size) for size in range(104, 133, 4) for one in READINGS if one[0] == "drop"]
    for (log, reading, size), number in product(wanted, range(phases)):
        hours = number * WEEK / phases
        if (log, size, *reading, hours) not in done:
            rows = pl.DataFrame(simulated(log, reading, hours, size))
            found = pl.concat([found, rows]) if len(found) else rows
            if out is not None:
                found.write_csv(out.with_suffix(".new"))
                out.with_suffix(".new").replace(out)
    return found


def report(found: pl.DataFrame) -> None:
    """Print the three tables."""
    ratio = pl.col("sum") / pl.col("source")
    phases = found.group_by("log", "processors", *READING, "phase", maintain_order=True).agg(
        ratio.log().mean().alias("log ratio"), (ratio - 1).abs().mean().mul(100).alias("off")
    )
    readings = phases.group_by("log", "processors", *READING, maintain_order=True).agg(
        pl.col("log ratio").mean().exp().alias("ratio"),
        pl.col("off").mean().alias("off (%)"),
        pl.col("off").min().alias("at the best"),
        pl.col("phase").sort_by("off").first().alias("which is (h)"),
    )
    stated = readings.filter((pl.col("log") != "KTH-SP2") | (pl.col("processors") == LOGS["KTH-SP2"][1]))
    print(stated.drop("processors"))
    for name in stated["log"].unique(maintain_order=True):
        best = stated.filter(pl.col("log") == name).sort("off (%)").head(1)
        held_out = stated.filter(pl.col("log") != name).join(best.select(READING), on=READING, how="semi")
        chosen = ", ".join(best.select(READING).row(0))
        print(f"\nselected on {name}: {chosen}")
        print(pl.concat([best, held_out]).select("log", "ratio", "off (%)"))
    print("\nKTH-SP2, overruns left out, larger machines")
    print(readings.filter(pl.col("log") == "KTH-SP2", pl.col("overruns") == "drop").drop("log", "overruns"))


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phases", type=int, default=14)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = measure(given.phases, given.out)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=140, float_precision=2):
        report(found)


if __name__ == "__main__":
    main()
