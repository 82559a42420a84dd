"""What RCA does to waits, from the stored runs of this study: by week and size, with intervals and a picture.

Usage: python scenarios/studies/rca-waits/waits.py RESULTS [RESULTS ...] [--block 1] [--out DIR]

RESULTS are directories of ``mlsim study scenarios/studies/rca-waits``; of a study that is not done, the pairs
of runs that are there count. A job is compared with itself: the same job, seed, technique and load with RCA
off and on. Changes are of sums over all jobs of all seeds. Intervals (95 %) are percentiles of 10,000
resamples of the log's weeks, or of blocks of ``--block`` consecutive ones, with the jobs submitted in them;
the range over seeds is beside them. A job gains or loses if its wait differs by more than a minute;
``gain (s)`` and ``loss (s)`` are the medians of those that do.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mlsim.errors import InputError
from mlsim.scenario.scenario_text import parse_value_text

WEEK = 604_800.0
MINUTE = 60.0
RESAMPLES = 10_000
KEYS = ["log", "variation", "load", "technique"]
SIZES = ("one node", "to 1/16 of the machine", "to 1/4", "more")
Pairs = dict[tuple[str, ...], list[pl.DataFrame]]


def runs_of(results: Path) -> dict[tuple[str, ...], Path]:
    """Return the directories of the stored runs by log, variation, load, technique, seed and RCA."""
    store = results / "store"
    if not (store / "store.json").is_file():
        raise InputError(f"{results}: no store of a study is in it; `mlsim study --out {results}` makes one")
    log = json.loads((store / "store.json").read_text())["name"].removeprefix("rca-waits-")
    found: dict[tuple[str, ...], Path] = {}
    for entry in sorted(store.glob("??/*.json")):
        content = json.loads(entry.read_text().split("\n", 1)[1])
        if content["status"] != "done":
            continue
        labels = content["labels"]
        key = (log, *(labels[name] for name in (*KEYS[1:], "seed", "rca")))
        if key in found:
            raise InputError(f"{results}: two runs of {', '.join(key)}, of two versions; give a new --out")
        found[key] = entry.with_suffix(".run")
    return found


def jobs_of(run: Path) -> pl.DataFrame:
    """Return the jobs of a run, with the week of the log (not of the scaled clock) and the class of size."""
    scenario: dict[str, Any] = parse_value_text((run / "scenario.yaml").read_text(), "scenario.yaml")
    factor = float(scenario["workload"].get("select", {}).get("scale_load", 1.0))
    nodes = scenario["platform"]["nodes"][0]
    node, machine = nodes["cores"], nodes["cores"] * nodes["count"]
    cores = pl.col("processors")
    return pl.read_parquet(run / "jobs.parquet").select(
        "job_id",
        "wait_time",
        "bounded_slowdown",
        week=(pl.col("submit_time") * factor / WEEK).floor().cast(pl.Int64),
        size=pl.when(cores <= node)
        .then(0)
        .when(cores <= machine / 16)
        .then(1)
        .when(cores <= machine / 4)
        .then(2)
        .otherwise(3),
        held=(pl.col("end_time") - pl.col("start_time")) * (pl.col("cores") / node),
    )


def pairs_of(results: Path) -> tuple[Pairs, dict[tuple[str, ...], list[float]]]:
    """Return the jobs of every pair of runs, a frame per seed, and the node-seconds that each gave back."""
    runs, pairs, given = runs_of(results), Pairs(), {}
    for (*cell, seed, rca), off in runs.items():
        on = runs.get((*cell, seed, "on"))
        if rca != "off" or on is None:
            continue
        joined = jobs_of(off).join(
            jobs_of(on).drop("week", "size"), on="job_id", suffix="_on", validate="1:1"
        )
        if joined.null_count().sum_horizontal().item():
            raise InputError(f"{off}: jobs that never started; their waits cannot be compared")
        pairs.setdefault(tuple(cell), []).append(joined.with_columns(seed=pl.lit(int(seed))))
        summary = json.loads((on / "summary.json").read_text())
        given.setdefault(tuple(cell), []).append(summary["coordination"]["released_node_seconds"])
    if not pairs:
        raise InputError(f"{results}: no two runs that differ in RCA alone are there yet")
    return pairs, given


def change(jobs: pl.DataFrame, column: str) -> float:
    """Return the change of a column's sum with RCA, in percent."""
    off = float(jobs[column].sum())
    return (float(jobs[f"{column}_on"].sum()) / off - 1.0) * 100.0 if off else float("nan")


def interval(jobs: pl.DataFrame, column: str, block: int = 1) -> tuple[float, float]:
    """Return the 95 % interval of :func:`change` over resampled weeks, or blocks of them."""
    sums = jobs.group_by(pl.col("week") // block).agg(pl.col(column, f"{column}_on").sum()).sort("week")
    off, on = (sums[name].to_numpy() for name in (column, f"{column}_on"))
    if len(off) < 2 or not off.any():
        return float("nan"), float("nan")
    drawn: NDArray[np.int64] = np.random.default_rng(0).integers(0, len(off), (RESAMPLES, len(off)))
    below = off[drawn].sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = np.nanquantile((on[drawn].sum(axis=1) / below - 1.0) * 100.0, [0.025, 0.975])
    return float(low), float(high)


def _gains(jobs: pl.DataFrame) -> dict[str, float]:
    saved = (jobs["wait_time"] - jobs["wait_time_on"]).to_numpy()
    gains, loses = saved > MINUTE, saved < -MINUTE
    return {
        "gain %": float(gains.mean()) * 100.0,
        "lose %": float(loses.mean()) * 100.0,
        "gain (s)": float(np.median(saved[gains])) if gains.any() else 0.0,
        "loss (s)": float(np.median(-saved[loses])) if loses.any() else 0.0,
    }


def table(pairs: Pairs, given: dict[tuple[str, ...], list[float]], block: int = 1) -> pl.DataFrame:
    """Return a row per log, variation, load and technique: waits, slowdowns, node-hours, gains."""
    rows = []
    for cell, frames in sorted(pairs.items(), key=lambda item: _order(item[0])):
        jobs = pl.concat(frames)
        by_seed = [change(frame, "wait_time") for frame in frames]
        weeks = jobs.group_by("week").agg(pl.col("wait_time", "wait_time_on").sum())
        low, high = interval(jobs, "wait_time", block)
        low_slow, high_slow = interval(jobs, "bounded_slowdown", block)
        held = sum(float(frame["held"].sum()) for frame in frames)
        rows.append(
            dict(zip(KEYS, cell, strict=True))
            | {
                "seeds": len(frames),
                "wait off (s)": jobs["wait_time"].mean(),
                "wait on (s)": jobs["wait_time_on"].mean(),
                "wait %": change(jobs, "wait_time"),
                "from": low,
                "to": high,
                "least seed": min(by_seed),
                "largest seed": max(by_seed),
                "median off (s)": jobs["wait_time"].median(),
                "median on (s)": jobs["wait_time_on"].median(),
                "slowdown off": jobs["bounded_slowdown"].mean(),
                "slowdown on": jobs["bounded_slowdown_on"].mean(),
                "slowdown %": change(jobs, "bounded_slowdown"),
                "slowdown from": low_slow,
                "slowdown to": high_slow,
                "weeks": weeks.height,
                "weeks worse": weeks.filter(pl.col("wait_time_on") > pl.col("wait_time")).height,
                "given back (node-h)": float(np.mean(given[cell])) / 3600.0,
                "given back %": sum(given[cell]) / held * 100.0,
            }
            | _gains(jobs)
        )
    return pl.DataFrame(rows)


def by_size(pairs: Pairs, block: int = 1) -> pl.DataFrame:
    """Return a row per cell and class of size: jobs, waits, their change, who gains and who loses."""
    rows = []
    for cell, frames in sorted(pairs.items(), key=lambda item: _order(item[0])):
        jobs = pl.concat(frames)
        for size, name in enumerate(SIZES):
            of = jobs.filter(pl.col("size") == size)
            if not of.height:
                continue
            low, high = interval(of, "wait_time", block)
            rows.append(
                dict(zip(KEYS, cell, strict=True))
                | {"size": name, "jobs": of.height // len(frames)}
                | {"wait off (s)": of["wait_time"].mean(), "wait on (s)": of["wait_time_on"].mean()}
                | {"wait %": change(of, "wait_time"), "from": low, "to": high}
                | _gains(of)
            )
    return pl.DataFrame(rows)


def _order(cell: tuple[str, ...]) -> tuple[object, ...]:
    log, variation, load, technique = cell
    techniques = ["STATIC", "GSS", "FAC2", "AF"]
    return log, -float(variation), float(load), techniques.index(technique) if technique in techniques else 9


def draw(lines: pl.DataFrame, sizes: pl.DataFrame, path: Path) -> None:
    """Draw the changes of mean waits, a row per log; then by size, at load 0.9, a panel per variation.

    Variations that some of the logs lack are left out.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    logs = lines["log"].unique(maintain_order=True).to_list()
    having = lines.group_by("variation", maintain_order=True).agg(pl.col("log").n_unique())
    variations = having.filter(pl.col("log") == len(logs))["variation"].to_list()
    figure, grid = pyplot.subplots(
        *(len(logs), 1 + len(variations)),
        figsize=(7 + 4 * len(variations), 3.8 if len(logs) == 1 else 2.3 * len(logs)),
        layout="constrained",
        squeeze=False,
        sharey="row",
        width_ratios=[3] + [2] * len(variations),
    )
    for log, (left, *others) in zip(logs, grid, strict=True):
        of = lines.filter(pl.col("log") == log)
        cells = of.select("load", "technique").unique(maintain_order=True).rows()
        for number, variation in enumerate(variations):
            part = of.filter(pl.col("variation") == variation)
            at = [cells.index(cell) + 0.25 * number for cell in part.select("load", "technique").rows()]
            _points(left, at, part, f"variation {variation}", number)
        labels = [f"{technique}\n{load}" for load, technique in cells]
        left.set_xticks(range(len(cells)), labels, fontsize=8)
        left.set_title(f"{log}: wait with RCA against without, by technique and load", fontsize=10)
        left.set_ylabel("change of the mean wait (%)")
        for axes, variation in zip(others, variations, strict=True):
            chosen = sizes.filter((pl.col("log") == log) & (pl.col("variation") == variation))
            load = "0.9" if "0.9" in chosen["load"] or not chosen.height else chosen["load"][0]
            _by_size(axes, chosen.filter(pl.col("load") == load))
            axes.set_title(f"by size of job, load {load}, variation {variation}", fontsize=10)
        for axes in (left, *others):
            axes.axhline(0.0, color="black", linewidth=0.8)
        if len(variations) > 1:
            left.legend(fontsize=8)
    shown: dict[str, Any] = {}
    for axes in grid[:, 1:].flat:
        handles, labels = axes.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    figure.legend(shown.values(), shown.keys(), loc="outside upper right", ncols=len(shown), fontsize=8)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _by_size(axes: Any, of: pl.DataFrame) -> None:
    names = [name for name in SIZES if name in of["size"]]
    for number, technique in enumerate(of["technique"].unique(maintain_order=True)):
        part = of.filter(pl.col("technique") == technique)
        at = [names.index(name) + 0.18 * number - 0.27 for name in part["size"]]
        _points(axes, at, part, technique, number)
    axes.set_xticks(range(len(names)), [name.replace(" of the", "\nof the") for name in names], fontsize=8)


def _points(axes: Any, at: list[float], of: pl.DataFrame, label: str, number: int) -> None:
    middle, low, high = (of[name].to_numpy() for name in ("wait %", "from", "to"))
    axes.errorbar(
        at,
        middle,
        [middle - low, high - middle],
        fmt="osD^"[number % 4],
        markersize=5,
        capsize=2,
        label=label,
    )


def main() -> None:
    """Read the options, compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--block", type=int, default=1, help="Weeks that are resampled together. Default: 1.")
    parser.add_argument("--out", type=Path, help="Default: the first of RESULTS.")
    options = parser.parse_args()
    if options.block < 1:
        parser.error(f"--block {options.block}: at least 1")
    pairs, given = Pairs(), {}
    try:
        for results in options.results:
            more, back = pairs_of(results)
            pairs, given = pairs | more, given | back
    except InputError as error:
        parser.exit(2, f"waits.py: {error}\n")
    out = options.out or options.results[0]
    out.mkdir(parents=True, exist_ok=True)
    lines, sizes = table(pairs, given, options.block), by_size(pairs, options.block)
    for name, rows in (("waits", lines), ("sizes", sizes)):
        rows.write_csv(out / f"{name}.csv", float_precision=3)
        with pl.Config(
            tbl_rows=-1, tbl_cols=-1, float_precision=1, tbl_width_chars=250, tbl_hide_dataframe_shape=True
        ):
            print(rows)
    draw(lines, sizes, out / "waits.png")


if __name__ == "__main__":
    main()
