"""Tables and pictures of the sources that ``mlsim study`` does not draw, from results of this study.

Usage: python scenarios/studies/cp/figures.py RESULTS [--out DIR]

RESULTS is the directory that ``all.sh`` fills; what is not in it yet is left out. Needs MLSIM_TRACES as
``all.sh`` sets it, for what jobs ask for.

===================  ======================================================================================
times.md, times.csv  passes, their times, sizes of models, means and deviations: thesis, Tables 5.3, 5.4, 6.1;
                     paper, Tables 1, 2
qos.png              means with one deviation: thesis, Figs 5.2, 5.3, 5.5, 6.6; paper, Figs 5, 10
classes.png          the same for medium and long jobs: thesis, Fig. 5.4
distributions.png    slowdown, by classes of jobs, and waiting jobs: thesis, Figs 4.3 to 4.5
instances.png        ratios on the same instances: paper, Figs 6 to 9; thesis, Figs 6.7, 6.8
instances.md         better, equal and worse objectives, groups: thesis, Tables 6.2, 6.3
ratios-*.md          of seeds.yaml, kit.yaml, stretches.yaml: slowdowns of dispatchers, and paired ratios to
                     others that choose nodes as planners do
===================  ======================================================================================
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl
from numpy.typing import NDArray

from mlsim.experiment import read_study
from mlsim.experiment.study.study_tables import mean_interval
from mlsim.scenario import BatchConfig, Scenario, load
from mlsim.scenario.scenario_paths import resolve_path
from mlsim.scenario.words import Backfill, Dispatcher

HOUR = 3600.0
CLASSES = {"short": (0.0, HOUR), "medium": (HOUR, 5 * HOUR), "long": (5 * HOUR, np.inf)}
"""Run times of the classes of jobs (s): thesis, section 2.1.4."""
SYSTEMS = {"eurora": "Eurora-like", "kit": "KIT-like", "UniLu": "Gaia"}
PREDICTORS = {"walltime": "W", "D": "D", "L2": "L2", "actual": "R"}
"""Short names, by the words of scenarios."""
BASES = {
    "seeds": (
        "SAF, placement alone",
        "SAF, demand-aware",
        "EASY-SAF, demand-aware",
        "lists",
        "lists for all",
    ),
    "kit": ("SAF, placement alone", "SAF, demand-aware", "EASY-SAF, demand-aware", "lists", "lists for all"),
    "stretches": ("SAF, best-fit", "EASY-SAF, best-fit", "EASY-SAF, demand-aware", "lists"),
}
"""By study, who chooses nodes as planners do: heuristics, and the list planner that `cp` adds solving to."""
SAME_MEAN = 1e-4
"""Relative difference up to which mean slowdowns of a log count as the same."""
SAME = 1e-6
"""Relative difference up to which objectives count as the same."""


Column = tuple[str, dict[str, pl.DataFrame]]
"""A title, and jobs by dispatcher and predictor."""


@dataclass(frozen=True)
class Run:
    """One run of a study that kept its tables."""

    system: str
    log: str
    dispatcher: str
    predictor: str
    scenario: Scenario
    directory: Path

    def table(self, name: str) -> pl.DataFrame:
        """Return a table of its records."""
        return pl.read_parquet(self.directory / f"{name}.parquet")

    @property
    def solves(self) -> bool:
        """Whether its dispatcher plans."""
        return (self.directory / "solves.parquet").is_file()


def main() -> None:
    """Write what there are results for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, help="default: RESULTS/figures")
    options = parser.parse_args()
    out: Path = options.out or options.results / "figures"
    out.mkdir(parents=True, exist_ok=True)
    matplotlib.use("agg")
    models = list(runs_of(options.results / "models"))
    if models:
        write(times(models), out / "times")
        draw_means(models, out / "qos.png")
    for study, bases in BASES.items():
        if (options.results / study / "runs.parquet").is_file():
            write(ratios(read_study(options.results / study).runs, bases), out / f"ratios-{study}")
    simple = list(runs_of(options.results / "heuristics"))
    if simple:
        draw_distributions(simple, out / "distributions.png")
    draw_classes({"models": models, "heuristics": simple}, out / "classes.png")
    if (options.results / "solves.csv").is_file():
        solves = pl.read_csv(options.results / "solves.csv", infer_schema_length=None)
        write(instances(solves), out / "instances")
        draw_instances(solves, out / "instances.png")
    print(out)


def runs_of(study: Path) -> Iterator[Run]:
    """Yield the runs in the store of a study, in order of their labels."""
    found = []
    for directory in study.glob("store/*/*.run"):
        scenario = load(directory / "scenario.yaml")
        log = Path(str(scenario.workload.path)).name.partition(".")[0]
        system = next(name for start, name in SYSTEMS.items() if log.startswith(start))
        batch = scenario.batch
        predictor = PREDICTORS[str(batch.predictor)]
        found.append(Run(system, log, _dispatcher(batch), predictor, scenario, directory))
    order = list(SYSTEMS.values())
    yield from sorted(
        found, key=lambda run: (order.index(run.system), run.log, run.predictor, run.dispatcher)
    )


def _dispatcher(batch: BatchConfig) -> str:
    if batch.dispatcher is not Dispatcher.QUEUE:
        return {"prb": "PRB"}.get(str(batch.dispatcher), str(batch.dispatcher))
    easy = batch.backfill is Backfill.EASY
    policy = {"SPF": "SJF", "LPF": "LJF"}.get(str(batch.policy), str(batch.policy))
    if easy:
        return "EBF" if policy == "FCFS" else f"EASY-{policy}"
    return policy


# --------------------------------------------------------------------------------------- paired ratios


def ratios(runs: pl.DataFrame, bases: tuple[str, ...]) -> pl.DataFrame:
    """Return mean slowdowns over the logs that all dispatchers have, and ratios to each base on them.

    Ratios are geometric means with their 95 % intervals (bootstrap over logs), behind them in how many logs
    the dispatcher is worse and in how many it is better.
    """
    rows = []
    axes = [axis for axis in ("load", "predictor") if axis in runs.columns]
    for values_of, cell in runs.group_by(axes, maintain_order=True):
        of_all = pl.col("dispatcher").n_unique().over("log") == cell["dispatcher"].n_unique()
        cell = cell.filter(of_all)
        by = {
            str(name): table.sort("log")["mean slowdown"].to_numpy()
            for (name,), table in cell.group_by("dispatcher", maintain_order=True)
        }
        for name, values in by.items():
            row = dict(zip(axes, values_of, strict=True))
            row |= {"dispatcher": name, "mean slowdown": values.mean()}
            for base in bases:
                row[f"to {base}"] = _ratio(values / by[base]) if base in by and name != base else ""
            rows.append(row)
    return pl.DataFrame(rows)


def _ratio(each: NDArray[np.float64]) -> str:
    low, high = np.exp(mean_interval(np.log(each)))
    worse, better = int((each > 1 + SAME_MEAN).sum()), int((each < 1 - SAME_MEAN).sum())
    return f"{np.exp(np.log(each).mean()):.4f} ({low:.4f}-{high:.4f}), {worse} / {better}"


# ------------------------------------------------------------------------------------- times and sizes


def times(runs: list[Run]) -> pl.DataFrame:
    """Return a row a run: what passes took, what they were about, and what came out."""
    rows = []
    for run in runs:
        jobs = run.table("jobs")
        row: dict[str, Any] = {"system": run.system, "dispatcher": f"{run.dispatcher}-{run.predictor}"}
        if run.solves:
            row |= _sizes(run, jobs)
        for name in ("slowdown", "wait_time"):
            row |= {f"{name} mean": jobs[name].mean(), f"{name} deviation": jobs[name].std(ddof=0)}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _sizes(run: Run, jobs: pl.DataFrame) -> dict[str, Any]:
    """Count what is in passes in which jobs wait."""
    solves = run.table("solves")
    seconds = (solves["build_seconds"] + solves["solve_seconds"]).to_numpy()
    asked = _amounts(run, jobs)
    at = solves["time"].to_numpy()
    came, began, ended = (jobs[f"{name}_time"].to_numpy() for name in ("submit", "start", "end"))
    # A pass is before the starts that it decides.
    waiting = _sum_until(came, asked, at, "right") - _sum_until(began, asked, at, "left")
    running = _sum_until(began, asked, at, "left") - _sum_until(ended, asked, at, "right")
    return {
        "passes": len(at),
        "mean pass (ms)": 1e3 * seconds.mean(),
        "in passes (s)": seconds.sum(),
        "jobs in the model": solves["considered"].mean(),
        "requested": waiting.mean(),
        "available": _capacity(run) - running.mean(),
        "EASY decided": int(solves["fallback"].sum()),
        "proved": int((solves["status"] == "optimal").sum()),
    }


def _amounts(run: Run, jobs: pl.DataFrame) -> NDArray[np.float64]:
    """Return how much each job asks for: cores, GB of memory, GPUs and MICs added up, as the thesis does."""
    if not run.log.startswith(("eurora", "kit")):
        return jobs["processors"].to_numpy().astype(float)
    log = pl.read_csv(resolve_path(run.scenario, str(run.scenario.workload.path)))
    named = [name for name in log.columns if name.startswith("request_")]
    amounts = [pl.col(name) / (1e3 if name == "request_memory" else 1.0) for name in named]
    log = log.select("job_id", amount=pl.sum_horizontal("processors", *amounts))
    return (
        jobs.select("job_id").join(log, on="job_id", how="left", maintain_order="left")["amount"].to_numpy()
    )


def _capacity(run: Run) -> float:
    """Return how much the machine has, counted alike."""
    sizes = 0.0
    for group in run.scenario.platform.nodes:
        others = sum(amount for _, amount in group.resources.pairs)
        sizes += group.count * (group.cores + (group.memory or 0.0) / 1e9 + others)
    return sizes


def _sum_until(
    times: NDArray[np.float64], amounts: NDArray[np.float64], at: NDArray[np.float64], side: Any
) -> NDArray[np.float64]:
    """Add up the amounts of the times before each of others (``left``) or up to it (``right``)."""
    order = np.argsort(times, kind="stable")
    total = np.concatenate(([0.0], np.cumsum(amounts[order])))
    return total[np.searchsorted(times[order], at, side=side)]


def write(table: pl.DataFrame, path: Path) -> None:
    """Write a table as CSV and as Markdown."""
    table.write_csv(path.with_suffix(".csv"))
    lines = [table.columns, ["---"] * table.width, *table.rows()]
    path.with_suffix(".md").write_text("".join(f"| {' | '.join(map(_shown, line))} |\n" for line in lines))


def _shown(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# ---------------------------------------------------------------------------------------- what came out


def draw_means(runs: list[Run], path: Path) -> None:
    """Draw means of slowdown and wait with one deviation, a column of panels a system."""
    systems = dict.fromkeys(run.system for run in runs)
    _bars([_column(system, [run for run in runs if run.system == system]) for system in systems], path)


def draw_classes(studies: dict[str, list[Run]], path: Path) -> None:
    """Draw the same of medium and of long jobs of Eurora-like logs, two columns a study that has some."""
    found = [
        _column(f"{study}, {name} jobs", [run for run in runs if run.system == "Eurora-like"], *CLASSES[name])
        for study, runs in studies.items()
        for name in ("medium", "long")
    ]
    if some := [column for column in found if column[1]]:
        _bars(some, path)


def _column(title: str, runs: list[Run], low: float = 0.0, high: float = np.inf) -> Column:
    """Return the jobs of a range of run times, by dispatcher and predictor; those of all logs together."""
    jobs: dict[str, list[pl.DataFrame]] = {}
    for run in sorted(runs, key=lambda run: (run.dispatcher, run.predictor)):
        there = run.table("jobs").filter((pl.col("run_time") >= low) & (pl.col("run_time") < high))
        chosen = there.select("slowdown", "wait_time")
        if chosen.height:
            jobs.setdefault(f"{run.dispatcher}-{run.predictor}", []).append(chosen)
    return title, {name: pl.concat(tables) for name, tables in jobs.items()}


def _bars(columns: list[Column], path: Path) -> None:
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        2, len(columns), figsize=(5.2 * len(columns), 6.4), squeeze=False, layout="constrained"
    )
    for column, (title, jobs) in enumerate(columns):
        for row, (name, label, least) in enumerate(
            (("slowdown", "slowdown", 1.0), ("wait_time", "wait (s)", 0.0))
        ):
            panel = panels[row][column]
            means = np.array([table[name].mean() for table in jobs.values()])
            spread = np.array([table[name].std(ddof=0) for table in jobs.values()])
            # A deviation below the least value there can be is not drawn.
            bars = (np.minimum(spread, means - least), spread)
            panel.errorbar(range(len(jobs)), means, bars, fmt="o", ms=4, capsize=2, lw=1)
            if spread.max() > 100 * max(means.min(), 1.0):
                panel.set_yscale("symlog", linthresh=1.0)
            panel.set(ylabel=label, ylim=(0, None))
            panel.set_xticks(range(len(jobs)), jobs if row else [""] * len(jobs), rotation=90, fontsize=7)
            panel.grid(axis="y", alpha=0.3)
            if not row:
                panel.set_title(f"{title} ({next(iter(jobs.values())).height:,})")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


# --------------------------------------------------------------------------------------- distributions


def draw_distributions(runs: list[Run], path: Path) -> None:
    """Draw boxes of slowdowns, of all jobs and by class, and of how many jobs wait at every second."""
    from matplotlib import pyplot

    methods = list(dict.fromkeys(run.dispatcher for run in runs))
    predictors = [short for short in ("W", "D", "R") if any(run.predictor == short for run in runs)]
    jobs: dict[tuple[str, str], list[pl.DataFrame]] = {}
    for run in runs:
        jobs.setdefault((run.dispatcher, run.predictor), []).append(run.table("jobs").sort("job_id"))
    combinations = [(m, p) for m in methods for p in predictors if (m, p) in jobs]
    slow = np.array([np.concatenate([t["slowdown"].to_numpy() for t in jobs[each]]) for each in combinations])
    length = np.concatenate([t["run_time"].to_numpy() for t in jobs[combinations[0]]])
    waited = (slow > 1.0).any(axis=0)
    figure, panels = pyplot.subplots(1, 5, figsize=(22, 4.2), layout="constrained")
    parts = {"all jobs": waited} | {
        f"{name} jobs": waited & (length >= low) & (length < high) for name, (low, high) in CLASSES.items()
    }
    for panel, (title, chosen) in zip(panels[:4], parts.items(), strict=True):
        _boxes(panel, [each[chosen] for each in slow], combinations)
        panel.set(title=f"{title} ({int(chosen.sum()):,} of {len(length):,})", ylabel="slowdown")
        panel.set(yscale="log", ylim=(0.9, 1.1 * slow.max()))
    queues = _queues([jobs[each] for each in combinations])
    _boxes(panels[4], queues, combinations)
    panels[4].set(title="waiting jobs at every second", yscale="symlog", ylabel="jobs", ylim=(0, None))
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def _queues(tables: list[list[pl.DataFrame]]) -> list[NDArray[np.int64]]:
    """Return how many jobs wait at each second at which some do, under any of several dispatchers."""
    parts: list[list[NDArray[np.int64]]] = [[] for _ in tables]
    for logs in zip(*tables, strict=True):
        end = int(max(table["start_time"].max() for table in logs)) + 1
        seconds = np.arange(end)
        each = np.array(
            [
                np.searchsorted(np.sort(table["submit_time"].to_numpy()), seconds, side="right")
                - np.searchsorted(np.sort(table["start_time"].to_numpy()), seconds, side="right")
                for table in logs
            ]
        )
        some = each.any(axis=0)
        for part, row in zip(parts, each, strict=True):
            part.append(row[some])
    return [np.concatenate(part) for part in parts]


def _boxes(panel: Any, values: list[Any], combinations: list[tuple[str, str]]) -> None:
    # Whiskers from the 5th to the 95th percentile: beyond are tens of thousands of points.
    boxes = panel.boxplot(
        values, whis=(5, 95), showfliers=False, patch_artist=True, medianprops={"color": "black"}
    )
    colours = {"W": "tab:blue", "D": "tab:orange", "R": "tab:green"}
    for box, (_, predictor) in zip(boxes["boxes"], combinations, strict=True):
        box.set_facecolor(colours[predictor])
    panel.set_xticks(
        range(1, len(combinations) + 1), [f"{m}-{p}" for m, p in combinations], rotation=90, fontsize=8
    )
    panel.grid(axis="y", alpha=0.3)


# -------------------------------------------------------------------------------------------- instances


def _pairs(solves: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield each dispatcher with its solves beside those of the first, instances that are not empty."""
    solves = solves.with_columns(
        seconds=pl.col("build_seconds") + pl.col("solve_seconds"),
        # A plan for fewer jobs than others have costs less for that: it is not compared.
        value=pl.when(pl.col("considered") == pl.col("queued")).then(pl.col("objective")).fill_nan(None),
    ).filter(pl.col("status") != "empty")
    names = solves["dispatcher"].unique(maintain_order=True).to_list()
    base = solves.filter(pl.col("dispatcher") == names[0])
    for name in names[1:]:
        yield name, solves.filter(pl.col("dispatcher") == name).join(base, on="instance", suffix="_0")


def instances(solves: pl.DataFrame) -> pl.DataFrame:
    """Return a row a dispatcher: how often it is better, equal, worse, quicker than the first; the groups."""
    rows = []
    for name, pairs in _pairs(solves):
        both = pairs.drop_nulls(["value", "value_0"])
        ratio = (both["value"] / both["value_0"]).to_numpy()
        times = (both["seconds"] / both["seconds_0"]).to_numpy()
        better, worse = ratio < 1 - SAME, ratio > 1 + SAME
        quicker, slower = times < 0.95, times > 1.05
        second = (better & slower) | (worse & quicker)
        third = ~second & (worse | slower)
        rows.append(
            {
                "dispatcher": name,
                "instances": len(pairs),
                "compared": len(both),
                "unsolved": int(pairs["value"].is_null().sum()),
                "unsolved by the first": int(pairs["value_0"].is_null().sum()),
                "better": int(better.sum()),
                "equal": int((~better & ~worse).sum()),
                "worse": int(worse.sum()),
                "mean ratio of objectives": float(ratio.mean()),
                "quicker": int(quicker.sum()),
                "G1": int((~second & ~third).sum()),
                "G2": int(second.sum()),
                "G3": int(third.sum()),
                "median ratio of times": float(np.median(times)),
                "median ratio of variables": _median(pairs, "variables"),
                "median ratio of branches": _median(pairs, "branches"),
            }
        )
    return pl.DataFrame(rows)


def _median(pairs: pl.DataFrame, name: str) -> float | None:
    some = pairs.filter(pl.col(f"{name}_0") > 0)
    found = (some[name] / some[f"{name}_0"]).median()  # of none there is none
    return found if isinstance(found, float) else None


def draw_instances(solves: pl.DataFrame, path: Path) -> None:
    """Draw ratios to the first dispatcher: of variables, times and branches, and the last two together."""
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 4, figsize=(18, 4), layout="constrained")
    for name, pairs in _pairs(solves):
        ratios = {}
        for panel, of in zip(panels[:3], ("variables", "seconds", "branches"), strict=True):
            some = pairs.filter((pl.col(f"{of}_0") > 0) & (pl.col(of) > 0))
            ratio = (some[of] / some[f"{of}_0"]).to_numpy()
            ratios[of] = ratio
            share = 100 * np.arange(1, len(ratio) + 1) / max(len(ratio), 1)
            panel.plot(share, np.sort(ratio), label=name)
        some = pairs.filter((pl.col("branches_0") > 0) & (pl.col("branches") > 0))
        panels[3].plot(
            (some["seconds"] / some["seconds_0"]).to_numpy(),
            (some["branches"] / some["branches_0"]).to_numpy(),
            ".",
            label=name,
        )
    first = solves["dispatcher"][0]
    for panel, of in zip(panels[:3], ("variables", "time", "branches"), strict=True):
        panel.set(xlabel="instances (%)", ylabel=f"{of} / those of {first}", yscale="log")
    panels[3].set(
        xlabel=f"time / that of {first}", ylabel=f"branches / those of {first}", xscale="log", yscale="log"
    )
    for panel in panels:
        panel.axhline(1.0, color="0.6", lw=0.8)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    panels[3].axvline(1.0, color="0.6", lw=0.8)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
