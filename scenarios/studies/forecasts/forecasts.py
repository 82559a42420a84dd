"""What forecasts of running jobs change under EASY, from the stored runs of this study, beside EASY-SAF.

Usage: python scenarios/studies/forecasts/forecasts.py RESULTS [RESULTS ...] [--block 1] [--out DIR]

RESULTS are directories of ``mlsim study scenarios/studies/forecasts``; of a study that is not done, the runs
that are there count. A job is compared with itself: same job, seed and load under EASY-SAF with walltimes.
Changes are of sums over all jobs of all seeds; intervals (95 %) are percentiles of 10,000 resamples of the
log's weeks, or of blocks of ``--block`` consecutive ones; the range over seeds is beside them.
"""

from __future__ import annotations

import argparse
import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mlsim.errors import InputError

_WAITS = runpy.run_path(str(Path(__file__).parents[1] / "rca-waits" / "waits.py"), run_name="waits")
SIZES = _WAITS["SIZES"]
BASE = "SAF"
Runs = dict[tuple[str, str], dict[str, dict[str, pl.DataFrame]]]


def runs_of(results: Path) -> Runs:
    """Return the jobs of each stored run, by (log, load), dispatcher and seed."""
    store = results / "store"
    if not (store / "store.json").is_file():
        raise InputError(f"{results}: no store of a study is in it; `mlsim study --out {results}` makes one")
    log = json.loads((store / "store.json").read_text())["name"].removeprefix("forecasts-")
    found: Runs = {}
    for entry in sorted(store.glob("??/*.json")):
        content = json.loads(entry.read_text().split("\n", 1)[1])
        load, dispatcher, seed = (content["labels"].get(name, "0") for name in ("load", "dispatcher", "seed"))
        if content["status"] == "done":
            of = found.setdefault((log, load), {}).setdefault(dispatcher, {})
            if seed in of:
                raise InputError(
                    f"{results}: two runs of {load}, {dispatcher}, seed {seed}, of two versions; "
                    "give a new --out"
                )
            of[seed] = _WAITS["jobs_of"](entry.with_suffix(".run"))
    return {key: of for key, of in sorted(found.items()) if BASE in of}


def table(runs: Runs, block: int = 1) -> pl.DataFrame:
    """Return a row per log, load, dispatcher and class of size (``all`` first), each beside EASY-SAF."""
    rows = []
    for (log, load), of in runs.items():
        for dispatcher in sorted(of, key=_order):
            joined = pl.concat(
                of[BASE][seed]
                .join(jobs.drop("week", "size"), on="job_id", suffix="_on", validate="1:1")
                .with_columns(seed=pl.lit(seed))
                for seed, jobs in of[dispatcher].items()
                if seed in of[BASE]
            )
            if joined.null_count().sum_horizontal().item():
                raise InputError(f"{log}, {load}, {dispatcher}: jobs that never started cannot be compared")
            for size, name in ((None, "all"), *enumerate(SIZES)):
                jobs = joined if size is None else joined.filter(pl.col("size") == size)
                if jobs.height:
                    row = {"log": log, "load": load, "dispatcher": dispatcher, "size": name}
                    rows.append(row | _changes(jobs, block))
    if not rows:
        raise InputError(f"no run of {BASE} is there yet, with which others are compared")
    return pl.DataFrame(rows)


def _changes(jobs: pl.DataFrame, block: int) -> dict[str, float | None]:
    seeds = jobs.partition_by("seed")
    found: dict[str, Any] = {"jobs": jobs.height // len(seeds), "seeds": len(seeds)}
    for title, column in (("wait", "wait_time"), ("slowdown", "bounded_slowdown")):
        low, high = _WAITS["interval"](jobs, column, block)
        found |= {title: jobs[f"{column}_on"].mean(), f"{title} %": _WAITS["change"](jobs, column)}
        by_seed = [_WAITS["change"](one, column) for one in seeds]
        found |= {f"{title} from": low, f"{title} to": high}
        found |= {f"{title} least seed": min(by_seed), f"{title} largest seed": max(by_seed)}
    weeks = jobs.group_by("week").agg(pl.col("wait_time", "wait_time_on").sum())
    worse = weeks.filter(pl.col("wait_time_on") > pl.col("wait_time")).height
    return found | {"median wait": jobs["wait_time_on"].median(), "weeks": weeks.height, "weeks worse": worse}


ORDER = (
    *("FCFS", "FCFS, nodes", BASE, "SAF, EASY++", "SAF, remaining work", "SAF, ends", "SAF, nodes"),
    *("SAF, nodes 10 %", "SAF, nodes 50 %", "SAF, EASY++, nodes", "SAF, actual", "SAF, actual, nodes"),
)


def _order(dispatcher: str) -> int:
    return ORDER.index(dispatcher) if dispatcher in ORDER else len(ORDER)


def draw(rows: pl.DataFrame, path: Path) -> None:
    """Draw the changes against EASY-SAF: mean wait and bounded slowdown by load; mean wait by size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = rows.filter(pl.col("dispatcher") != BASE)
    logs = rows["log"].unique(maintain_order=True).to_list()
    figure, grid = pyplot.subplots(
        len(logs), 3, figsize=(15, 4.6 * len(logs)), layout="constrained", squeeze=False, sharey="row"
    )
    for log, line in zip(logs, grid, strict=True):
        of = rows.filter(pl.col("log") == log)
        loads = of["load"].unique(maintain_order=True).to_list()
        load = "0.9" if "0.9" in loads else loads[0]
        everyone = of.filter(pl.col("size") == "all")
        _panel(line[0], everyone, "load", loads, "wait", f"{log}: mean wait, by offered load")
        _panel(line[1], everyone, "load", loads, "slowdown", f"{log}: mean bounded slowdown, by offered load")
        sizes = [name for name in SIZES if name in of["size"]]
        _panel(
            line[2],
            of.filter(pl.col("load") == load),
            "size",
            sizes,
            "wait",
            f"mean wait at load {load}, by size",
        )
        line[0].set_yticks(range(len(ORDER)), ORDER)
        line[0].set_ylim(len(ORDER) - 0.5, -0.5)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _panel(axes: Any, of: pl.DataFrame, column: str, values: list[str], title: str, heading: str) -> None:
    for number, value in enumerate(values):
        part = of.filter(pl.col(column) == value)
        middle, low, high = (1 + part[f"{title} {end}"].to_numpy() / 100 for end in ("%", "from", "to"))
        at = np.array([_order(name) for name in part["dispatcher"]]) + 0.2 * (number - (len(values) - 1) / 2)
        error = [middle - low, high - middle]
        axes.errorbar(middle, at, xerr=error, fmt="osD^"[number % 4], markersize=5, capsize=2, label=value)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xscale("log")
    ticks = [
        tick
        for tick in (0.1, 0.2, 0.5, 1, 2, 4, 8, 16, 32, 64)
        if axes.get_xlim()[0] <= tick <= axes.get_xlim()[1]
    ]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("divided by that of EASY-SAF")
    axes.set_title(heading, fontsize=10)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=len(values))


def main() -> None:
    """Read the options, compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--block", type=int, default=1, help="Weeks that are resampled together. Default: 1.")
    parser.add_argument("--out", type=Path, help="Default: the first of RESULTS.")
    options = parser.parse_args()
    if options.block < 1:
        parser.error(f"--block {options.block}: at least 1")
    runs: Runs = {}
    try:
        for results in options.results:
            runs |= runs_of(results)
        rows = table(runs, options.block)
    except InputError as error:
        parser.exit(2, f"forecasts.py: {error}\n")
    out = options.out or options.results[0]
    out.mkdir(parents=True, exist_ok=True)
    rows.write_csv(out / "forecasts.csv", float_precision=3)
    with pl.Config(
        tbl_rows=-1, tbl_cols=-1, float_precision=1, tbl_width_chars=250, tbl_hide_dataframe_shape=True
    ):
        print(rows)
    draw(rows, out / "forecasts.png")


if __name__ == "__main__":
    main()
