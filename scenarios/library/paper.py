"""From a log to a figure and a table for a paper: four policies with three backfillings, week by week.

Usage: python scenarios/library/paper.py [--log LOG --processors P] [--weeks 2-7] [--jobs N] [--out DIR]

Without a log one is drawn from the model of Lublin and Feitelson. Every week of it is simulated by itself, so
that weeks are repetitions: the figure has the mean over the weeks with its 95 % interval, the table also the
mean difference to the reference, of pairs of the same week. The parts between ``# %%`` are cells where an
editor or Jupyter shows them as such. What was simulated is kept in --out: a second start only draws.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import polars as pl

from mlsim.experiment import load_study, read_study, run_study

# %% What varies. The last one of `vary` is repeated, the rest is compared.

STUDY = """
of: runs
name: paper
base: scenario.yaml
vary:
  policy:
    FCFS: {{batch.policy: FCFS}}
    SPF: {{batch.policy: SPF}}
    SAF: {{batch.policy: SAF}}
    WFP: {{batch.policy: WFP}}
  backfilling:
    none: {{batch.backfill: none}}
    EASY: {{batch.backfill: easy}}
    conservative: {{batch.backfill: conservative}}
  weeks: {weeks}
repetitions: week
columns: backfilling
metrics: {{mean bounded slowdown: bounded_slowdown.mean, mean wait (s): wait_time.mean}}
relative: {{policy: FCFS, backfilling: EASY}}
"""
SCENARIO = """
platform: {{nodes: [{{name: node, count: {processors}, cores: 1}}]}}
workload: {{path: '{log}', mapping: core}}
output: {{pictures: off}}
"""
METRIC = "mean bounded slowdown"


# %% The log


def draw_log(path: Path, weeks: int, processors: int) -> None:
    """Draw a log from a model, whose users ask for one to five times the run time."""
    from mlsim.workload import generate

    made = generate("lublin", days=7 * weeks, processors=processors, seed=1, estimates=(1.0, 5.0))
    made.write(path)


# %% The runs


def simulate(
    directory: Path, log: Path | None, processors: int, weeks: str, jobs: int | None
) -> pl.DataFrame:
    """Simulate what is not there yet; return a row a run."""
    directory.mkdir(parents=True, exist_ok=True)
    if log is None:
        log = directory / "log.swf"
        if not log.exists():
            draw_log(log, int(weeks.rpartition("-")[2]), processors)
    (directory / "scenario.yaml").write_text(SCENARIO.format(processors=processors, log=log.resolve()))
    (directory / "study.yaml").write_text(STUDY.format(weeks=weeks))
    run_study(load_study(directory), out=directory / "results", jobs=jobs)
    return read_study(directory / "results").runs


# %% The figure


def draw(runs: pl.DataFrame, path: Path) -> None:
    """Draw the mean over the weeks of every policy and backfilling, with its interval."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from mlsim.experiment.study.study_tables import mean_interval

    figure = Figure(figsize=(3.5, 2.4), layout="constrained")  # inches: a column of a paper
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    policies = runs["policy"].unique(maintain_order=True).to_list()
    kinds = runs["backfilling"].unique(maintain_order=True).to_list()
    for place, kind in enumerate(kinds):
        means, below, above = [], [], []
        for policy in policies:
            weeks = runs.filter(policy=policy, backfilling=kind)[METRIC].drop_nulls().to_numpy()
            low, high = mean_interval(weeks)
            means.append(weeks.mean())
            below.append(means[-1] - low)
            above.append(high - means[-1])
        x = [column + (place - 1) * 0.25 for column in range(len(policies))]
        axes.errorbar(x, means, yerr=[below, above], fmt="osD"[place], markersize=3, capsize=2, label=kind)
    axes.set_xticks(range(len(policies)), policies)
    axes.set_yscale("log")
    axes.set_ylabel(METRIC)
    axes.legend(fontsize="small", frameon=False)
    figure.savefig(path, metadata={"CreationDate": None})


# %% The table


def table(directory: Path) -> str:
    """Return the table for LaTeX (package booktabs): of each combination the mean, and what it gains."""
    found = pl.read_csv(directory / "results" / "statistics.csv").filter(metric=METRIC)
    lines = [r"\begin{tabular}{llrrrr}", r"\toprule"]
    lines += [r"policy & backfilling & mean & 95\,\% interval & difference & $p$ \\", r"\midrule"]
    for row in found.iter_rows(named=True):
        interval = f"{row['low']:.1f} to {row['high']:.1f}"
        gain = "" if row["difference"] is None else f"{row['difference']:+.1f}"
        p = "" if row["p"] is None else f"{row['p']:.3f}"
        cells = [row["policy"], row["backfilling"], f"{row['mean']:.1f}", interval, gain, p]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


# %% All of it


def main(words: list[str] | None = None) -> None:
    """Simulate, draw, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--log", type=Path, help="in any format that mlsim reads; default: drawn from a model"
    )
    parser.add_argument("--processors", type=int, default=128, help="of the machine")
    parser.add_argument("--weeks", default="2-7", help="of the log, the first and the last")
    parser.add_argument("--jobs", type=int, default=None, help="processes; default: as many as cores")
    parser.add_argument("--out", type=Path, default=Path("runs/paper"))
    given = parser.parse_args(words)
    runs = simulate(given.out, given.log, given.processors, given.weeks, given.jobs)
    draw(runs, given.out / "figure.pdf")
    (given.out / "table.tex").write_text(table(given.out))
    print(table(given.out), end="")
    print(f"Results: {given.out}/figure.pdf, {given.out}/table.tex, {given.out}/results")


if __name__ == "__main__":
    main()
