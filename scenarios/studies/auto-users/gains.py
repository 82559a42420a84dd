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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

import mlsim
from mlsim.errors import InputError
from mlsim.scenario.scenario_text import parse_value_text

WEEK = 604_800.0
RESAMPLES = 10_000
STATIC, FIXED = "STATIC", ("STATIC", "GSS", "FAC2", "AF", "SS")
BEST, FIRST_HALF = "best of each code", "best of the first half"
WITH_RCA = ", RCA"
MEASURES = ("run", "wait", "slowdown", "response")
EXECUTIONS = ((1, "1"), (7, "2 to 7"), (63, "8 to 63"), (10**9, "64 or more"))
ORDER = ((1, "1st"), (2, "2nd"), (4, "3rd, 4th"), (16, "5th to 16th"), (64, "17th to 64th"), (10**9, "later"))
Interval = tuple[float, float]


class Run(NamedTuple):
    """A stored run: its rival, the share of users who switch to it, and its directory."""

    seed: int
    rival: str
    share: str
    path: Path


def runs_of(results: Path) -> list[Run]:
    """Return the stored runs of a study."""
    store = results / "store"
    if not (store / "store.json").is_file():
        raise InputError(f"{results}: no store of a study is in it; `mlsim study --out {results}` makes one")
    found: dict[tuple[int, str, str], Run] = {}
    for entry in sorted(store.glob("??/*.json")):
        content = json.loads(entry.read_text().split("\n", 1)[1])
        if content["status"] != "done":
            continue
        labels = content["labels"]
        name = labels["technique"]
        rival = f"auto, {labels['method']}" if name == "auto" else STATIC if name == "recorded" else name
        rival += f", {labels['portfolio']}" if "portfolio" in labels else ""
        rival += WITH_RCA if labels.get("rca") == "on" else ""
        run = Run(int(labels["seed"]), rival, labels["share"], entry.with_suffix(".run"))
        if run[:3] in found:
            raise InputError(
                f"{results}: two runs of seed {run.seed}, {rival}, share {run.share}, of two versions; "
                "give a new --out"
            )
        found[run[:3]] = run
    return list(found.values())


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


def facts_of(recorded: pl.DataFrame, kinds: pl.DataFrame | None) -> pl.DataFrame:
    """Return what is known of jobs beside their times: week, code, user, number of executions, kind."""
    jobs = recorded.select(
        "job_id",
        "submit_time",
        "user",
        code="executable",
        week=(pl.col("submit_time") / WEEK).floor().cast(pl.Int64),
    )
    if kinds is not None:
        kind = kinds.select("job_id", kind=pl.col("application").str.split("-").list.first())
        jobs = jobs.join(kind, on="job_id", validate="1:1")
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


def change(jobs: pl.DataFrame, of: str) -> float:
    """Return the change of a measure's sum against the base, in percent."""
    base = float(jobs[f"{of}_base"].sum())
    return (float(jobs[of].sum()) / base - 1.0) * 100.0 if base else float("nan")


def interval(jobs: pl.DataFrame, of: str) -> Interval:
    """Return the 95 % interval of :func:`change` over resampled weeks; seeds of a week stay together."""
    sums = jobs.group_by("week").agg(pl.col(of, f"{of}_base").sum()).sort("week")
    new, base = (sums[name].to_numpy() for name in (of, f"{of}_base"))
    if len(base) < 2 or not base.any():
        return float("nan"), float("nan")
    drawn: NDArray[np.int64] = np.random.default_rng(0).integers(0, len(base), (RESAMPLES, len(base)))
    with np.errstate(invalid="ignore", divide="ignore"):
        of_draws = (new[drawn].sum(axis=1) / base[drawn].sum(axis=1) - 1.0) * 100.0
    of_draws = of_draws[np.isfinite(of_draws)]  # draws of weeks without any wait in the base
    if not len(of_draws):
        return float("nan"), float("nan")
    low, high = np.quantile(of_draws, [0.025, 0.975])
    return float(low), float(high)


def measures(jobs: pl.DataFrame, names: Sequence[str] = MEASURES) -> dict[str, float]:
    """Return the change of each measure with its interval, in percent."""
    row = {}
    for name in names:
        low, high = interval(jobs, name)
        row |= {f"{name} %": change(jobs, name), f"{name} from": low, f"{name} to": high}
    return row


class Cells:
    """The jobs of all rivals beside those of the recorded log, seed by seed."""

    def __init__(self, *results: Path) -> None:
        runs = {run[:3]: run for one in results for run in runs_of(one)}
        self.of: dict[tuple[str, str], dict[int, pl.DataFrame]] = {}  # (rival, share) -> seed -> jobs
        self.facts: dict[int, pl.DataFrame] = {}
        for seed in sorted({seed for seed, *_ in runs}):
            if (seed, STATIC, "1") in runs:
                self._add(seed, {run[1:3]: run for run in runs.values() if run.seed == seed})
        if not self.of:
            raise InputError(
                f"{results}: no run of technique recorded is there yet, which all are compared with"
            )

    def _add(self, seed: int, runs: dict[tuple[str, str], Run]) -> None:
        tables = {key: pl.read_parquet(run.path / "jobs.parquet") for key, run in runs.items()}
        recorded, path = tables[STATIC, "1"], runs[STATIC, "1"].path
        loops = [one for (rival, share), one in tables.items() if share == "1" and rival != STATIC]
        facts = self.facts[seed] = facts_of(recorded, loops[0] if loops else None)
        found = {key: columns_of(one) for key, one in tables.items()}
        times = {name: found[name, "1"]["run"].to_numpy() for name in FIXED if (name, "1") in found}
        if len(times) == len(FIXED):
            codes, early = facts["code"].to_numpy(), self.first_half(seed).to_numpy()
            fixed = min(FIXED, key=lambda name: times[name][early].sum())
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

    def first_half(self, seed: int) -> pl.Series:
        """Return the jobs submitted in the first half of the weeks."""
        weeks = self.facts[seed]["week"]
        return weeks < (int(weeks.to_numpy().max()) + 1) // 2

    @property
    def rivals(self) -> list[str]:
        """The rivals to which all users switch, fixed ones first."""
        names = [rival for rival, share in self.of if share == "1"]
        known = [*FIXED, *sorted(name for name in names if name not in (*FIXED, BEST, FIRST_HALF)), BEST]
        return sorted((name for name in known if name in names), key=lambda name: name.endswith(WITH_RCA))

    def jobs(self, rival: str, share: str = "1") -> pl.DataFrame:
        """Return the jobs of all seeds of a rival."""
        return pl.concat(list(self.of[rival, share].values()), how="diagonal")

    def beside(self, rival: str, other: str) -> pl.DataFrame:
        """Return the jobs of a rival with those of another one as the base, for the seeds of both."""
        seeds = [seed for seed in self.of[rival, "1"] if seed in self.of[other, "1"]]
        names = [*MEASURES, "held", "start"]
        frames = []
        for seed in seeds:
            base = self.of[other, "1"][seed].select("job_id", **{f"{name}_base": name for name in names})
            own = self.of[rival, "1"][seed].drop([f"{name}_base" for name in names])
            frames.append(own.join(base, on="job_id", validate="1:1"))
        return pl.concat(frames)

    def best_fixed(self) -> str:
        """Return the fixed technique with the least sum of run times, known afterwards."""
        sums = {name: float(self.jobs(name)["run"].sum()) for name in FIXED if name in self.rivals}
        seeds = {name: len(self.of[name, "1"]) for name in sums}
        complete = [name for name in sums if seeds[name] == max(seeds.values())]
        return min(complete, key=lambda name: sums[name])


def percent_true(which: pl.Series) -> float:
    """Return how many are true, in %."""
    return 100.0 * float(which.to_numpy().mean())


def rivals_table(cells: Cells) -> pl.DataFrame:
    """Return a row per rival: users' and the queue's gain against the log, and against the best fixed one."""
    fixed, rows = cells.best_fixed(), []
    for rival in cells.rivals:
        jobs = cells.jobs(rival)
        by_seed = {
            name: [change(one, name) for one in cells.of[rival, "1"].values()] for name in ("run", "wait")
        }
        codes = jobs.group_by("seed", "code").agg(pl.col("run", "run_base").sum())
        later = (jobs["response"] - jobs["response_base"]).to_numpy()
        row: dict[str, Any] = {"rival": rival, "seeds": len(by_seed["run"])}
        row |= measures(jobs, (*MEASURES, "held"))
        for name, values in by_seed.items():
            row |= {f"{name} least seed": min(values), f"{name} largest seed": max(values)}
        row |= {
            "mean wait (s)": jobs["wait"].mean(),
            "mean slowdown": jobs["slowdown"].mean(),
            "jobs faster %": percent_true(jobs["run"] < jobs["run_base"] * 0.99),
            "jobs slower %": percent_true(jobs["run"] > jobs["run_base"] * 1.01),
            "codes slower %": percent_true(codes["run"] > codes["run_base"] * 1.01),
            "back later %": float((later > 60.0).mean()) * 100.0,
            "back earlier %": float((later < -60.0).mean()) * 100.0,
        }
        of_fixed = measures(cells.beside(rival, fixed), ("run", "wait", "slowdown"))
        rows.append(row | {f"{name} against {fixed}": value for name, value in of_fixed.items()})
    return pl.DataFrame(rows)


def grouped(cells: Cells, groups: str) -> pl.DataFrame:
    """Return a row per rival and group of jobs: ``executions`` of their code, or ``kind`` of loop."""
    rows = []
    for rival in (name for name in cells.rivals if not name.endswith(WITH_RCA)):
        jobs, seeds = cells.jobs(rival), len(cells.of[rival, "1"])
        if groups not in jobs.columns:
            continue
        if groups == "executions":
            jobs = jobs.with_columns(executions=_class(jobs["executions"], EXECUTIONS))
            names = [name for _, name in EXECUTIONS]
        else:
            names = sorted(jobs[groups].unique())
        for name in names:
            of = jobs.filter(pl.col(groups) == name)
            if of.height:
                row = {groups: name, "rival": rival, "jobs": of.height / seeds}
                row |= {"codes": of.select("seed", "code").n_unique() / seeds}
                rows.append(row | measures(of, ("run", "wait", "response")))
    return pl.DataFrame(rows).sort(groups, maintain_order=True) if groups == "kind" else pl.DataFrame(rows)


def _class(values: pl.Series, classes: Sequence[tuple[int, str]]) -> pl.Series:
    names = np.array([name for _, name in classes])
    return pl.Series(names[np.searchsorted([end for end, _ in classes], values.to_numpy())])


def learning(cells: Cells) -> pl.DataFrame:
    """Return the excess run time over the best technique of each code, by the number of the execution.

    Executions of a code count in order of their starts.
    """
    rows = []
    shown = [name for name in cells.rivals if name not in (STATIC, BEST) and not name.endswith(WITH_RCA)]
    for rival in shown if BEST in cells.rivals else ():
        jobs = cells.beside(rival, BEST)
        number = pl.struct("start", "job_id").rank("ordinal").over("seed", "code")
        jobs = jobs.with_columns(number=number).with_columns(
            pl.col("number").map_batches(lambda one: _class(one, ORDER), return_dtype=pl.String)
        )
        for _, name in ORDER:
            of = jobs.filter(pl.col("number") == name)
            if of.height:
                row = {"rival": rival, "execution": name, "jobs": of.height // of["seed"].n_unique()}
                rows.append(row | measures(of, ("run",)))
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
    names = [name for name in (*cells.rivals, FIRST_HALF) if not name.endswith(WITH_RCA)]
    for rival in names if BEST in cells.rivals else ():
        frames, chosen = [], set()
        for seed, jobs in cells.of[rival, "1"].items():
            early = cells.first_half(seed)
            times = {
                name: float(cells.of[name, "1"][seed].filter(early)["run"].sum())
                for name in FIXED
                if seed in cells.of.get((name, "1"), {})
            }
            if len(times) < len(FIXED):
                continue
            fixed = min(times, key=times.__getitem__)
            chosen.add(fixed)
            base = cells.of[fixed, "1"][seed].select("job_id", **{f"{name}_base": name for name in MEASURES})
            own = jobs.filter(~early).drop([f"{name}_base" for name in MEASURES])
            frames.append(own.join(base, on="job_id", validate="1:1"))
        if frames:
            row = {"rival": rival, "against": ", ".join(sorted(chosen)), "seeds": len(frames)}
            rows.append(row | measures(pl.concat(frames, how="diagonal"), ("run", "wait", "slowdown")))
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
    of_codes = tables["executions"].filter(pl.col("rival").is_in(chosen))
    _lines(codes, of_codes, "executions", "run", styles)
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
        "executions": grouped(cells, "executions"),
        "kinds": grouped(cells, "kind"),
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
