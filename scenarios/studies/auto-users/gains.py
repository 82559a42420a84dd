"""Users' gain against the queue's, from the stored runs of this study, with intervals and a picture.

Usage: python scenarios/studies/auto-users/gains.py RESULTS [RESULTS ...] [--out DIR]

RESULTS are the directories of ``mlsim study scenarios/studies/auto-users`` and, beside it, of its
``rca.yaml``; of a study that is not done, the runs that are there count. Changes are of sums over all jobs of
all seeds, against the recorded log (STATIC), in percent. Intervals (95 %) are percentiles of 10,000 resamples
of the log's weeks, with the jobs submitted in them. Beside them is the range over seeds.

Without RCA the run time of a loop with a fixed technique does not depend on the queue. So this script replays
rigid jobs with run times of stored runs: those of the best technique of each code, known afterwards or from
the first half of the weeks; and those of users who switch to a fixed technique.
"""

from __future__ import annotations

import argparse
import json
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import mlsim
from mlsim.errors import InputError
from mlsim.scenario.scenario_text import parse_value_text

_WAITS = runpy.run_path(str(Path(__file__).parents[1] / "rca-waits" / "waits.py"), run_name="waits")
WEEK = _WAITS["WEEK"]
STATIC, FIXED = "STATIC", ("STATIC", "GSS", "FAC2", "AF", "SS")
BEST, FIRST_HALF = "best of each code", "best of the first half"
WITH_RCA = ", RCA"
MEASURES = ("run", "wait", "slowdown", "response")
EXECUTIONS = ((1, "1"), (7, "2 to 7"), (63, "8 to 63"), (10**9, "64 or more"))
Key = tuple[int, str, str]
ORDER = ((1, "1st"), (2, "2nd"), (4, "3rd, 4th"), (16, "5th to 16th"), (64, "17th to 64th"), (10**9, "later"))


def runs_of(results: Path) -> dict[Key, Path]:
    """Return the directories of the stored runs of a study, by seed, rival and share of users who switch."""
    store = results / "store"
    if not (store / "store.json").is_file():
        raise InputError(f"{results}: no store of a study is in it; `mlsim study --out {results}` makes one")
    found: dict[Key, Path] = {}
    for entry in sorted(store.glob("??/*.json")):
        content = json.loads(entry.read_text().split("\n", 1)[1])
        if content["status"] != "done":
            continue
        labels = content["labels"]
        name = labels["technique"]
        rival = f"auto, {labels['method']}" if name == "auto" else STATIC if name == "recorded" else name
        rival += f", {labels['portfolio']}" if "portfolio" in labels else ""
        rival += WITH_RCA if labels.get("rca") == "on" else ""
        key = int(labels["seed"]), rival, labels["share"]
        if key in found:
            named = f"seed {key[0]}, {rival}, share {key[2]}"
            raise InputError(f"{results}: two runs of {named}, of two versions; give a new --out")
        found[key] = entry.with_suffix(".run")
    return found


def columns_of(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the measures of jobs, by identifier: times in s, and node-seconds (``held``)."""
    if jobs["start_time"].null_count():
        raise InputError("jobs that never started; their waits cannot be compared")
    return jobs.select(
        "job_id",
        run="run_time",
        wait="wait_time",
        slowdown="bounded_slowdown",
        response="response_time",
        held=pl.col("run_time") * pl.col("cores"),
        start="start_time",
    ).sort("job_id")


def facts_of(recorded: pl.DataFrame) -> pl.DataFrame:
    """Return what is known of jobs beside their times: week, code, number of executions."""
    jobs = recorded.select(
        "job_id", code="executable", week=(pl.col("submit_time") / WEEK).floor().cast(pl.Int64)
    )
    return jobs.with_columns(executions=pl.len().over("code")).sort("job_id")


def replay(run: Path, recorded: pl.DataFrame, run_times: NDArray[np.float64]) -> pl.DataFrame:
    """Simulate the jobs of a stored run as rigid ones with these run times [s], in order of identifiers."""
    scenario: dict[str, Any] = parse_value_text((run / "scenario.yaml").read_text(), "scenario.yaml")
    jobs = recorded.sort("job_id").select("job_id", "submit_time", "walltime", "processors", "user")
    mapping = {
        "seed": scenario["seed"],
        "platform": scenario["platform"],
        "batch": scenario["batch"],
        "workload": {"mapping": scenario["workload"]["mapping"]},
        "output": {"trace": "none", "pictures": "off"},
    }
    table = jobs.with_columns(run_time=pl.Series(run_times)).sort("submit_time", "job_id")
    return columns_of(mlsim.run(mapping, workload=table).jobs)


def best_by_code(
    codes: NDArray[np.int64],
    times: Mapping[str, NDArray[np.float64]],
    known: NDArray[np.bool_] | None = None,
    otherwise: str = STATIC,
) -> list[str]:
    """Return the technique of each job that is best for its code: the least sum of run times.

    ``known``: the jobs that it is chosen by; codes without any have ``otherwise``. The first of equal ones.
    """
    names = list(times)
    distinct, place = np.unique(codes, return_inverse=True)
    counted = np.ones(len(codes), np.bool_) if known is None else known
    sums = np.array([np.bincount(place, times[name] * counted, len(distinct)) for name in names])
    best = np.argmin(np.round(sums, 6), axis=0)
    best[np.bincount(place, counted, len(distinct)) == 0] = names.index(otherwise)
    return [names[row] for row in best[place]]


def chosen_times(choice: Sequence[str], times: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the run time of each job under its technique."""
    names = list(times)
    rows = np.array([names.index(name) for name in choice])
    picked: NDArray[np.float64] = np.stack([times[name] for name in names])[rows, np.arange(len(rows))]
    return picked


def change(jobs: pl.DataFrame, of: str) -> tuple[float, float, float]:
    """Return the change of a measure's sum against the base, in percent, with its interval over weeks."""
    pairs = jobs.select("week", pl.col(f"{of}_base").alias(of), pl.col(of).alias(f"{of}_on"))
    return (_WAITS["change"](pairs, of), *_WAITS["interval"](pairs, of))


def measures(jobs: pl.DataFrame, names: Sequence[str] = MEASURES) -> dict[str, float]:
    """Return the change of each measure with its interval, in percent."""
    row = {}
    for name in names:
        row |= dict(zip((f"{name} %", f"{name} from", f"{name} to"), change(jobs, name), strict=True))
    return row


class Cells:
    """The jobs of all rivals beside those of the recorded log, seed by seed."""

    def __init__(self, *results: Path) -> None:
        runs = {key: path for one in results for key, path in runs_of(one).items()}
        self.of: dict[tuple[str, str], dict[int, pl.DataFrame]] = {}  # (rival, share) -> seed -> jobs
        self.first: dict[int, str] = {}  # seed -> the fixed technique best in the first half of the weeks
        for seed in sorted({seed for seed, *_ in runs}):
            if (seed, STATIC, "1") in runs:
                self._add(seed, {key[1:]: path for key, path in runs.items() if key[0] == seed})
        if not self.of:
            raise InputError(
                f"{results}: no run of technique recorded is there yet, which all are compared with"
            )

    def _add(self, seed: int, runs: dict[tuple[str, str], Path]) -> None:
        tables = {key: pl.read_parquet(path / "jobs.parquet") for key, path in runs.items()}
        recorded, path = tables[STATIC, "1"], runs[STATIC, "1"]
        facts = facts_of(recorded)
        found = {key: columns_of(one) for key, one in tables.items()}
        times = {name: found[name, "1"]["run"].to_numpy() for name in FIXED if (name, "1") in found}
        if len(times) == len(FIXED):
            codes, weeks = facts["code"].to_numpy(), facts["week"].to_numpy()
            early = weeks < (weeks.max() + 1) // 2
            fixed = self.first[seed] = min(FIXED, key=lambda name: times[name][early].sum())
            choices = {
                BEST: best_by_code(codes, times),
                FIRST_HALF: np.where(early, fixed, best_by_code(codes, times, early, fixed)).tolist(),
            }
            for name, choice in choices.items():
                found[name, "1"] = replay(path, recorded, chosen_times(choice, times))
        base = found[STATIC, "1"]
        for (_, share), one in list(tables.items()):
            if share == "1":
                continue
            switches = one.sort("job_id")["application"].to_numpy() != "rigid"
            for name in ("FAC2",) if "FAC2" in times else ():
                some = np.where(switches, times[name], times[STATIC])
                found[name, share] = replay(path, recorded, some)
            for key in [key for key in found if key[1] == share]:
                found[key] = found[key].with_columns(switches=pl.Series(switches))
        for key, one in found.items():
            joined = one.join(base, on="job_id", suffix="_base", validate="1:1").join(facts, on="job_id")
            self.of.setdefault(key, {})[seed] = joined.with_columns(seed=pl.lit(seed))

    @property
    def rivals(self) -> list[str]:
        """The rivals to which all users switch, fixed ones first."""
        names = [rival for rival, share in self.of if share == "1"]
        known = [*FIXED, *sorted(name for name in names if name not in (*FIXED, BEST, FIRST_HALF)), BEST]
        return sorted((name for name in known if name in names), key=lambda name: name.endswith(WITH_RCA))

    def jobs(self, rival: str, share: str = "1") -> pl.DataFrame:
        """Return the jobs of all seeds of a rival."""
        return pl.concat(list(self.of[rival, share].values()), how="diagonal")

    def beside(self, rival: str, other: str | Mapping[int, str]) -> pl.DataFrame:
        """Return the jobs of a rival with those of another one (of each seed) as the base."""
        others = dict.fromkeys(self.of[rival, "1"], other) if isinstance(other, str) else other
        names, frames = [*MEASURES, "held", "start"], []
        for seed, own in self.of[rival, "1"].items():
            base = self.of.get((others.get(seed, ""), "1"), {}).get(seed)
            if base is not None:
                base = base.select("job_id", **{f"{name}_base": name for name in names})
                own = own.drop([f"{name}_base" for name in names])
                frames.append(own.join(base, on="job_id", validate="1:1"))
        return pl.concat(frames)

    def best_fixed(self) -> str:
        """Return the fixed technique that shortens run times most, known afterwards."""
        names = [name for name in FIXED if name in self.rivals]
        return min(names, key=lambda name: change(self.jobs(name), "run")[0])


def rivals_table(cells: Cells) -> pl.DataFrame:
    """Return a row per rival: users' and the queue's gain against the log, and against the best fixed one."""
    fixed, rows = cells.best_fixed(), []
    for rival in cells.rivals:
        jobs = cells.jobs(rival)
        later = (jobs["response"] - jobs["response_base"]).to_numpy()
        row: dict[str, Any] = {"rival": rival, "seeds": len(cells.of[rival, "1"])}
        row |= measures(jobs, (*MEASURES, "held"))
        for name in ("run", "wait"):
            by_seed = [change(one, name)[0] for one in cells.of[rival, "1"].values()]
            row |= {f"{name} least seed": min(by_seed), f"{name} largest seed": max(by_seed)}
        row |= {
            "mean wait (s)": jobs["wait"].mean(),
            "jobs slower %": float((jobs["run"] > jobs["run_base"] * 1.01).to_numpy().mean()) * 100.0,
            "back later %": float((later > 60.0).mean()) * 100.0,
            "back earlier %": float((later < -60.0).mean()) * 100.0,
        }
        of_fixed = measures(cells.beside(rival, fixed), ("run", "wait", "slowdown"))
        rows.append(row | {f"{name} against {fixed}": value for name, value in of_fixed.items()})
    return pl.DataFrame(rows)


def by_executions(cells: Cells) -> pl.DataFrame:
    """Return a row per rival and class of codes, by the number of their executions."""
    rows = []
    for rival in (name for name in cells.rivals if not name.endswith(WITH_RCA)):
        jobs = cells.jobs(rival)
        rows += _by_class(rival, jobs, "executions", jobs["executions"], EXECUTIONS, ("run", "wait"))
    return pl.DataFrame(rows)


def _by_class(
    rival: str,
    jobs: pl.DataFrame,
    title: str,
    values: pl.Series,
    classes: Sequence[tuple[int, str]],
    names: Sequence[str],
) -> list[dict[str, Any]]:
    """Return a row per class that has jobs; a class holds values up to its number."""
    rows, seeds = [], jobs["seed"].n_unique()
    number = np.searchsorted([end for end, _ in classes], values.to_numpy())
    for place, (_, name) in enumerate(classes):
        of = jobs.filter(number == place)
        if of.height:
            row = {title: name, "rival": rival, "jobs": of.height / seeds}
            row |= {"codes": of.select("seed", "code").n_unique() / seeds}
            rows.append(row | measures(of, names))
    return rows


def learning(cells: Cells) -> pl.DataFrame:
    """Return the excess run time over the best technique of each code, by the number of the execution.

    Executions of a code count in order of their starts.
    """
    rows = []
    shown = [name for name in cells.rivals if name not in (STATIC, BEST) and not name.endswith(WITH_RCA)]
    for rival in shown if BEST in cells.rivals else ():
        jobs = cells.beside(rival, BEST)
        number = jobs.select(pl.struct("start", "job_id").rank("ordinal").over("seed", "code")).to_series()
        rows += _by_class(rival, jobs, "execution", number, ORDER, ("run",))
    return pl.DataFrame(rows)


def switched(cells: Cells) -> pl.DataFrame:
    """Return a row per technique, share of users who switch to it, and group: who switches and who stays."""
    rows = []
    partly = {rival for rival, share in cells.of if share != "1"}
    for rival, share in sorted(cells.of, key=lambda key: (key[0], float(key[1]))):
        jobs = cells.jobs(rival, share)
        if rival in partly and share == "1":
            jobs = jobs.with_columns(switches=pl.lit(True))
        if "switches" not in jobs.columns:
            continue
        for group, of in (("switch", jobs.filter("switches")), ("stay", jobs.filter(~pl.col("switches")))):
            if of.height:
                row: dict[str, Any] = {"rival": rival, "share": share, "users": group}
                row |= {"jobs": of.height // of["seed"].n_unique(), "seeds": of["seed"].n_unique()}
                row |= {"node-h of all %": float(of["held_base"].sum() / jobs["held_base"].sum()) * 100.0}
                rows.append(row | measures(of))
    return pl.DataFrame(rows)


def with_rca(cells: Cells) -> pl.DataFrame:
    """Return a row per rival that was simulated with RCA too: its change by RCA, for the same seeds."""
    rows = []
    for rival in (name for name in cells.rivals if name.endswith(WITH_RCA)):
        without = rival.removesuffix(WITH_RCA)
        if without in cells.rivals:
            jobs = cells.beside(rival, without)
            row: dict[str, Any] = {"rival": without, "seeds": jobs["seed"].n_unique()}
            row |= {"off (s)": jobs["wait_base"].mean(), "on (s)": jobs["wait"].mean()}
            rows.append(row | measures(jobs))
    return pl.DataFrame(rows)


def held_out(cells: Cells) -> pl.DataFrame:
    """Return all rivals on the second half of the weeks, against the technique best in the first half.

    It is chosen by users' run times, seed by seed.
    """
    rows = []
    for rival in [name for name in (*cells.rivals, FIRST_HALF) if not name.endswith(WITH_RCA)]:
        if set(cells.first) & set(cells.of.get((rival, "1"), ())):
            jobs = cells.beside(rival, cells.first)
            jobs = jobs.filter(pl.col("week") >= (pl.col("week").max() + 1) // 2)
            seeds = jobs["seed"].unique().to_list()
            row: dict[str, Any] = {"rival": rival, "seeds": len(seeds)}
            row["against"] = ", ".join(sorted({cells.first[seed] for seed in seeds}))
            rows.append(row | measures(jobs, ("run", "wait", "slowdown")))
    return pl.DataFrame(rows)


def draw(tables: Mapping[str, pl.DataFrame], path: Path) -> None:
    """Draw users' gain against the queue's; by executions of a code; learning; who switches, who stays."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, grid = pyplot.subplots(2, 2, figsize=(13, 9.5), layout="constrained")
    (plane, codes), (order, switch) = grid
    rows = tables["rivals"].filter(pl.col("rival") != STATIC, ~pl.col("rival").str.ends_with(WITH_RCA))
    styles = {
        name: (f"C{number % 10}", "osD^vP*Xp<>"[number % 11]) for number, name in enumerate(rows["rival"])
    } | {BEST: ("black", "*")}
    _plane(plane, rows, styles)
    plane.set_xlabel("users: change of the sum of run times (%)")
    plane.set_ylabel("queue: change of the mean wait (%)")
    plane.set_title("Users' gain against the queue's", fontsize=10)
    chosen = [
        name
        for name in rows["rival"]
        if name in ("FAC2", "SS", BEST) or (name.startswith("auto") and name.count(",") == 1)
    ]
    _lines(codes, tables["executions"].filter(pl.col("rival").is_in(chosen)), "executions", "run", styles)
    codes.set_xlabel("executions of the code in the log")
    codes.set_ylabel("change of the sum of run times (%)")
    codes.set_title("Rare and frequent codes", fontsize=10)
    if tables["learning"].height:
        of_order = tables["learning"].filter(pl.col("rival").is_in(chosen))
        _lines(order, of_order, "execution", "run", styles)
    order.set_xlabel("number of the execution of its code")
    order.set_ylabel("run time beyond the code's best technique (%)")
    order.set_title("Cost of learning", fontsize=10)
    if tables["switch"].height:
        shown = tables["switch"].with_columns(
            rival=pl.format("{}: {}", pl.col("rival"), pl.col("users")),
            at=pl.format("{} %", (pl.col("share").cast(pl.Float64) * 100).cast(pl.Int64)),
        )
        groups = {
            f"{name}: {users}": (styles[name][0], marker)
            for name in tables["switch"]["rival"].unique(maintain_order=True)
            for users, marker in (("switch", "o"), ("stay", "^"))
        }
        _lines(switch, shown, "at", "response", groups)
    switch.set_xlabel("share of users who switch")
    switch.set_ylabel("change of the mean response time (%)")
    switch.set_title("Some users switch: their gain, and that of those who stay", fontsize=10)
    for axes in (plane, codes, order, switch):
        axes.axhline(0.0, color="black", linewidth=0.8)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _plane(axes: Any, rows: pl.DataFrame, styles: Mapping[str, tuple[str, str]]) -> None:
    """Draw the change of waits over that of run times; rivals above +20 % are named at the edge."""
    inside = rows.filter(pl.col("wait to") <= 20.0)
    for row in inside.iter_rows(named=True):
        spans = [
            [[row[f"{name} %"] - row[f"{name} from"]], [row[f"{name} to"] - row[f"{name} %"]]]
            for name in ("wait", "run")
        ]
        colour, marker = styles[row["rival"]]
        axes.errorbar(
            *(row["run %"], row["wait %"], *spans), fmt=marker, color=colour, capsize=2, label=row["rival"]
        )
    axes.plot([0.0], [0.0], "k+", markersize=12, label="STATIC (recorded)")
    for number, row in enumerate(rows.filter(pl.col("wait to") > 20.0).iter_rows(named=True)):
        text = f"{row['rival']}: run times {row['run %']:+.1f} %, wait {row['wait %']:+,.0f} %"
        axes.text(0.02, 0.96 - 0.05 * number, text, transform=axes.transAxes, va="top", fontsize=9)
        axes.set_ylim(top=20.0)


def _lines(axes: Any, rows: pl.DataFrame, along: str, of: str, styles: Mapping[str, tuple[str, str]]) -> None:
    """Draw points with intervals, a colour and a marker per rival, side by side."""
    places = rows[along].unique(maintain_order=True).to_list()
    names = [name for name in styles if name in rows["rival"]]
    for number, name in enumerate(names):
        part = rows.filter(pl.col("rival") == name)
        at = [places.index(one) + 0.09 * (number - (len(names) - 1) / 2) for one in part[along]]
        middle, low, high = (part[f"{of} {word}"].to_numpy() for word in ("%", "from", "to"))
        span = [np.nan_to_num(middle - low), np.nan_to_num(high - middle)]
        colour, marker = styles[name]
        axes.errorbar(at, middle, span, fmt=marker, color=colour, markersize=5, capsize=2, label=name)
    axes.set_xticks(range(len(places)), places, fontsize=8)


def main() -> None:
    """Read the options, compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, help="Default: the first of RESULTS.")
    options = parser.parse_args()
    try:
        cells = Cells(*options.results)
    except InputError as error:
        parser.exit(2, f"gains.py: {error}\n")
    out = options.out or options.results[0]
    out.mkdir(parents=True, exist_ok=True)
    tables = {
        "rivals": rivals_table(cells),
        "executions": by_executions(cells),
        "learning": learning(cells),
        "switch": switched(cells),
        "held-out": held_out(cells),
        "rca": with_rca(cells),
    }
    for name, rows in tables.items():
        rows.write_csv(out / f"{name}.csv", float_precision=3)
        with pl.Config(
            tbl_rows=-1, tbl_cols=-1, float_precision=2, tbl_width_chars=300, tbl_hide_dataframe_shape=True
        ):
            print(rows)
    draw(tables, out / "gains.png")


if __name__ == "__main__":
    main()
