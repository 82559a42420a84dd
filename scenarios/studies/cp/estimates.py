"""How right estimates are: mean absolute errors, under- and overestimates, ECDFs of A = run time / estimate.

Usage: python scenarios/studies/cp/estimates.py [--logs 10] [--jobs 3000] [--seed 41] [--out DIR]

Galleguillos 2020, Tables 4.1 and 5.2, Figs 4.1, 4.2, 4.7, 5.1. Eurora- and KIT-like logs are made here, and
each is scheduled by a priority rule with walltimes; estimates are made when a job comes, from what has
ended by then. The log of Gaia, with the waits it has, is looked for in the directories of MLSIM_TRACES and
left out where it is not there.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

import mlsim
from mlsim.analysis.job_metrics import accuracy
from mlsim.batch.predictors.offline import History, predictions, read_history
from mlsim.scenario.scenario_text import parse_value_text
from mlsim.workload.campaigns import machine_jobs
from mlsim.workload.csv_log import write_csv
from mlsim.workload.job_mix import read_mix

Floats = NDArray[np.float64]
GAIA = "UniLu-Gaia-2014-1.swf.gz"
PREDICTORS = {"W": "walltime", "D": "D", "D2": "D2", "L2": "L2"}


@dataclass(frozen=True)
class Estimated:
    """Jobs of one log: their run times, and an estimate of each by every predictor [s]."""

    run_time: Floats
    by: dict[str, Floats]


def of_history(history: History) -> Estimated:
    """Predict every job of a log as it happened."""
    return Estimated(
        np.maximum(history.jobs.run_time, 1.0),
        {short: np.maximum(predictions(history, name), 1.0) for short, name in PREDICTORS.items()},
    )


def synthetic(machine: str, path: Path) -> Estimated:
    """Schedule a synthetic log, and predict it in the order in which its jobs came and ended."""
    scenario = parse_value_text(machine, "machine") | {
        "workload": {"path": str(path), "mapping": "core"},
        "batch": {"dispatcher": "prb", "on_overrun": "extend"},
    }
    done = mlsim.run(scenario).jobs.sort("job_id")
    history = read_history(path)
    assert (history.jobs.job_id == done["job_id"].to_numpy()).all()
    return of_history(replace(history, end_time=done["end_time"].to_numpy()))


def logs_of(name: str, count: int, jobs: int, seed: int, out: Path) -> list[Estimated]:
    """Make logs of a machine and predict them."""
    machine = {"Eurora-like": "eurora", "KIT-like": "forhlr2"}[name]
    found = []
    for number in range(seed, seed + count):
        made = machine_jobs(machine, jobs, seed=number)
        path = out / f"{name}-{number}.csv"
        write_csv(path, made.jobs, made.header)
        found.append(synthetic(read_mix(machine).scenario, path))
        path.unlink()
    return found


def rows_of(name: str, logs: list[Estimated]) -> list[dict[str, object]]:
    """Return a row a predictor: means over logs, the least and the largest error."""
    rows: list[dict[str, object]] = []
    for short in PREDICTORS:
        each = [accuracy(log.by[short], log.run_time) for log in logs]
        errors = [one["mae"] / 60 for one in each]
        rows.append(
            {
                "log": name,
                "predictor": short,
                "MAE (min)": float(np.mean(errors)),
                "least": min(errors),
                "largest": max(errors),
                "under": float(np.mean([one["under"]["share"] for one in each])),
                "over": float(np.mean([one["over"]["share"] for one in each])),
                "within 25 %": float(np.mean([one["within_25"] for one in each])),
            }
        )
    return rows


def draw(found: dict[str, list[Estimated]], path: Path) -> None:
    """Draw the ECDFs of A: a panel a log, a line a predictor."""
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        1, len(found), figsize=(4.2 * len(found), 3.4), sharey=True, squeeze=False, layout="constrained"
    )
    for panel, (name, logs) in zip(panels[0], found.items(), strict=True):
        for short in PREDICTORS:
            ratio = np.sort(np.concatenate([log.run_time / log.by[short] for log in logs]))
            panel.step(ratio, np.arange(1, ratio.size + 1) / ratio.size, label=short, where="post")
        panel.axvline(1.0, color="0.6", linewidth=0.8)
        panel.set(title=name, xlabel="A = run time / estimate", xscale="log", xlim=(1e-3, 1e2), ylim=(0, 1))
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("share of jobs")
    panels[0][-1].legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print the table and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--out", type=Path, default=Path("runs/cp-estimates"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = {
        name: logs_of(name, options.logs, options.jobs, options.seed, options.out)
        for name in ("Eurora-like", "KIT-like")
    }
    for directory in os.environ.get("MLSIM_TRACES", "").split(os.pathsep):
        if directory and (Path(directory) / GAIA).is_file():
            found["Gaia"] = [of_history(read_history(Path(directory) / GAIA))]
    table = pl.DataFrame([row for name, logs in found.items() for row in rows_of(name, logs)])
    table.write_csv(options.out / "estimates.csv")
    draw(found, options.out / "ecdf.png")
    with pl.Config(tbl_rows=-1, tbl_formatting="ASCII_MARKDOWN", float_precision=3):
        print(table)
    print(options.out)


if __name__ == "__main__":
    main()
