"""Dispatchers on weeks that none of them has seen: a learned policy, predictions, classes, planning.

Usage: python scenarios/studies/mixed/unseen.py [--train 28-64] [--test 65-100] [--points 50]
       [--only NAME ...] [--reference NAME] [--out DIR]

The weights of the mixed policy are learned from the training weeks, each simulated alone (as by
``mlsim learn mixed``). Then training and test weeks are simulated as one log, so that predictors and classes
come to the test weeks with what they have learned, and dispatchers with the queues that they have left. The
value of a week is the mean bounded slowdown of the jobs submitted in it; weeks count from the first job. What
is compared with the reference are the test weeks, pair by pair. Planners have no threshold, so that they are
to be compared with EASY-SAF without one. The log is looked for in the directories of MLSIM_TRACES.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import polars as pl

import mlsim
from mlsim.experiment.study.study_tables import spread_of
from mlsim.experiment.weekly_runs import weeks_of
from mlsim.learning.mixed_policies import FEATURES, Searching, learn_mixed
from mlsim.scenario import load

BASE = Path(__file__).with_name("sdsc-sp2.yaml")
SAF = "EASY-SAF"
WEEK = 604_800.0
PLAIN = {"output.pictures": False}
PLANS: dict[str, object] = {"batch.policy": None, "batch.backfill": None, "batch.threshold": None}

Keys = dict[str, object]


def dispatchers(weights: dict[str, float]) -> dict[str, Keys]:
    """Return what is compared: a name, and the keys that it sets."""
    return {
        "EASY-FCFS": {},
        SAF: {"batch.policy": "SAF"},
        "EASY-SAF, no threshold": {"batch.policy": "SAF", "batch.threshold": None},
        "EASY-SPF": {"batch.policy": "SPF"},
        "w*_train": {"batch.policy": "linear", "batch.weights": weights},
        "EASY++": {"batch.predictor": "EASY++", "batch.backfill_order": "SPF"},
        "SAF, predictions of L2": {"batch.policy": "SAF", "batch.predictor": "L2"},
        "SAF, forest-mean": {"batch.policy": "SAF", "batch.predictor": "forest-mean"},
        "FCFS, classes": {"batch.classifier": {"trees": 50}},
        "SAF, classes": {"batch.policy": "SAF", "batch.classifier": {"trees": 50}},
        "lists": PLANS | {"batch.dispatcher": "lists"},
        "cp": PLANS | {"batch.dispatcher": "cp", "batch.cp.time_limit": "20 ms"},
        "SAF, right run times": {"batch.policy": "SAF", "batch.predictor": "actual"},
    }


def learned(train: tuple[int, int], test: tuple[int, int], points: int) -> dict[str, float]:
    """Return the weights that were best over the training weeks."""
    found = learn_mixed(weeks_of(load(BASE)), train, test, Searching(points=points))
    return {name: weight for name, weight in zip(FEATURES, found.learned.tolist(), strict=True) if weight}


def weekly(keys: Keys, train: tuple[int, int], test: tuple[int, int]) -> dict[str, float]:
    """Return the mean bounded slowdown of the jobs of each test week; training weeks come before them."""
    select: Keys = {"workload.weeks.crossing": "keep", "workload.select.weeks": f"{train[0]}-{test[1]}"}
    jobs = mlsim.run(BASE, PLAIN | select | keys).jobs
    jobs = jobs.with_columns(week=(pl.col("submit_time") // WEEK).cast(pl.Int64) + train[0])
    means = jobs.group_by("week").agg(pl.col("bounded_slowdown").mean()).sort("week")
    inside = means.filter(pl.col("week").is_between(*test))
    return {str(week): value for week, value in inside.iter_rows()}


def span(text: str) -> tuple[int, int]:
    """Read a range of weeks."""
    first, _, last = text.partition("-")
    return int(first), int(last)


def simulate(
    train: tuple[int, int], test: tuple[int, int], points: int, names: list[str]
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Return the value of each test week, and the CPU seconds, of each dispatcher by name."""
    weights = learned(train, test, points)
    print("w*_train:", weights, file=sys.stderr)
    values, seconds = {}, {}
    for name, keys in dispatchers(weights).items():
        if name not in names:
            continue
        began = time.process_time()
        values[name] = weekly(keys, train, test)
        seconds[name] = time.process_time() - began
        print(f"{name}: {sum(values[name].values()):.1f}, {seconds[name]:.0f} CPU s", file=sys.stderr)
    return values, seconds


def compared(values: dict[str, dict[str, float]], seconds: dict[str, float], reference: str) -> pl.DataFrame:
    """Compare with the reference, week by week."""
    rows = []
    for name, of in values.items():
        spread = spread_of(of, values[reference])
        rows.append(
            {
                "dispatcher": name,
                "sum over weeks": sum(of.values()),
                "a week": spread.mean,
                "difference": spread.difference,
                "from": spread.difference_low,
                "to": spread.difference_high,
                "p": spread.p,
                "CPU s": seconds[name],
            }
        )
    return pl.DataFrame(rows)


def asked_for(only: list[str], reference: str) -> list[str]:
    """Return the names of what is to be simulated, the reference among them."""
    allowed = list(dispatchers({}))
    unknown = {*only, reference} - set(allowed)
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; allowed: {'; '.join(allowed)}")
    return [*only, reference] if only else allowed


def main() -> None:
    """Read the options, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=span, default=(28, 64))
    parser.add_argument("--test", type=span, default=(65, 100))
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--only", nargs="*", default=[], help="names of the first column")
    parser.add_argument("--reference", default=SAF, help="whom the others are compared with")
    parser.add_argument(
        "--out", type=Path, help="directory for unseen.csv and the values of weeks, weeks.csv"
    )
    given = parser.parse_args()
    values, seconds = simulate(given.train, given.test, given.points, asked_for(given.only, given.reference))
    found = compared(values, seconds, given.reference)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=140, float_precision=2):
        print(found)
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        found.write_csv(given.out / "unseen.csv")
        weeks = [
            {"dispatcher": name, "week": int(week), "mean bounded slowdown": value}
            for name, of in values.items()
            for week, value in of.items()
        ]
        pl.DataFrame(weeks).write_csv(given.out / "weeks.csv")


if __name__ == "__main__":
    main()
