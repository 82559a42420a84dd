"""The study of constraint programming: its own dispatcher and script, and what it claims, on small logs."""

from __future__ import annotations

import runpy
from pathlib import Path

import polars as pl
import pytest
import yaml

import mlsim
from mlsim.experiment import load_study, run_study
from mlsim.workload.campaigns import machine_jobs
from mlsim.workload.csv_log import write_csv
from mlsim.workload.job_mix import read_mix

STUDY = Path(__file__).parents[2] / "scenarios" / "studies" / "cp"
GREEDY = f"{STUDY / 'same_placement.py'}:GreedySaf"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A Eurora-like log of which jobs wait."""
    path = tmp_path_factory.mktemp("cp") / "eurora.csv"
    made = machine_jobs("eurora", 600, seed=42, load=8.0)
    write_csv(path, made.jobs, made.header)
    return path


def starts(log, **batch):
    scenario = yaml.safe_load(read_mix("eurora").scenario) | {
        "workload": {"path": str(log), "mapping": "core"},
        "batch": {"on_overrun": "extend"} | batch,
    }
    jobs = mlsim.run(scenario).jobs.sort("job_id")
    assert (jobs["start_time"] > jobs["submit_time"]).any()
    return jobs["start_time"].to_list()


def test_with_walltimes_planning_adds_nothing_to_placement(log):
    greedy = starts(log, dispatcher=GREEDY)
    assert greedy == starts(log, dispatcher="lists")
    best_fit = {"policy": "SAF", "backfill": "greedy", "allocator": "best-fit"}
    assert greedy != starts(log, **best_fit)


@pytest.mark.parametrize("name", ["seeds", "heuristics", "kit", "models", "gaia"])
def test_every_part_is_a_study(name, tmp_path, monkeypatch: pytest.MonkeyPatch):
    for machine in ("eurora", "kit"):
        (tmp_path / f"{machine}-42.csv").write_text(
            "job_id,submit_time,run_time,estimate,processors\n1,0,5,9,1\n"
        )
    monkeypatch.setenv("MLSIM_TRACES", str(tmp_path))
    assert load_study(STUDY / f"{name}.yaml").name.startswith("cp-")


def test_estimates_are_made_from_what_has_ended(log, tmp_path):
    script = runpy.run_path(str(STUDY / "estimates.py"), run_name="estimates")
    logs = script["logs_of"]("Eurora-like", 2, 400, 3, tmp_path)
    rows = pl.DataFrame(script["rows_of"]("Eurora-like", logs))
    assert rows["predictor"].to_list() == ["W", "D", "D2", "L2"]
    assert (rows["least"] <= rows["MAE (min)"]).all()
    assert (rows["MAE (min)"] <= rows["largest"]).all()
    by = dict(zip(rows["predictor"], rows["MAE (min)"], strict=True))
    assert by["D"] < by["W"]
    script["draw"]({"Eurora-like": logs}, tmp_path / "ecdf.png")
    assert (tmp_path / "ecdf.png").stat().st_size > 10_000
    assert not list(tmp_path.glob("*.csv"))


@pytest.mark.slow
def test_what_the_sources_draw_is_drawn_of_results(log, tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Tables and pictures of few runs; what jobs ask for is added up pass by pass."""
    (tmp_path / "eurora-41.csv").write_bytes(log.read_bytes())
    monkeypatch.setenv("MLSIM_TRACES", str(tmp_path))
    models = yaml.safe_load((STUDY / "models.yaml").read_text())
    models["vary"]["system"] = {
        "Eurora-like": {"workload.path": "eurora-41.csv", "workload.select.scale_load": 4}
    }
    names = ("EASY-SAF, best-fit", "hcp19", "lists")
    models["vary"]["dispatcher"] = {name: models["vary"]["dispatcher"][name] for name in names}
    models["vary"]["predictor"] = {"R": {"batch.predictor": "actual"}}
    models["base"] = str(STUDY / "cp.yaml")
    models["without"] = []
    models["set"]["workload.select.first"] = 20
    (tmp_path / "models.yaml").write_text(yaml.safe_dump(models))
    run_study(load_study(tmp_path / "models.yaml"), out=tmp_path / "out" / "models")
    script = runpy.run_path(str(STUDY / "figures.py"), run_name="figures")
    runs = list(script["runs_of"](tmp_path / "out" / "models"))
    assert [run.dispatcher for run in runs] == ["EASY-SAF", "hcp19", "lists"]
    table = script["times"](runs)
    assert table["dispatcher"].to_list() == ["EASY-SAF-R", "hcp19-R", "lists-R"]
    # On an empty machine all but what runs is there: 64 nodes of 16 cores, 16 GB and two cards.
    assert (table["available"].drop_nulls() < 64 * 34).all()
    solves = runs[1].table("solves")
    jobs = runs[1].table("jobs")
    asked = pl.read_csv(log).with_columns(
        amount=pl.col("processors")
        + pl.col("request_memory") / 1e3
        + pl.col("request_gpu")
        + pl.col("request_mic")
    )
    amounts = jobs.join(asked.select("job_id", "amount"), on="job_id")
    waiting = [
        amounts.filter((pl.col("submit_time") <= now) & (pl.col("start_time") >= now))["amount"].sum()
        for now in solves["time"]
    ]
    assert table["requested"][1] == pytest.approx(sum(waiting) / len(waiting))
    script["draw_means"](runs, tmp_path / "qos.png")
    assert (tmp_path / "qos.png").stat().st_size > 5_000
    # Few jobs, none of which is long, make a picture of those that there are.
    longest = jobs["run_time"].max()
    script["draw_classes"]({"models": runs}, tmp_path / "classes.png")
    assert (tmp_path / "classes.png").exists() == (longest >= 3600)


def test_instances_are_compared_with_the_first_dispatcher(tmp_path):
    """Better and quicker, equal and slower, worse and quicker, unsolved, planned for fewer jobs."""
    columns = ("instance", "dispatcher", "status", "queued", "considered", "objective", "solve_seconds")
    first = [(number, "pcp19", "feasible", 5, 5, 10.0, 1.0) for number in range(5)]
    other = [
        (0, "pcp21", "optimal", 5, 5, 9.0, 0.5),
        (1, "pcp21", "feasible", 5, 5, 10.0, 2.0),
        (2, "pcp21", "feasible", 5, 5, 11.0, 0.5),
        (3, "pcp21", "unknown", 5, 5, float("nan"), 0.5),
        (4, "pcp21", "feasible", 5, 3, 6.0, 0.5),
    ]
    solves = pl.DataFrame(first + other, schema=columns, orient="row").with_columns(
        build_seconds=pl.lit(0.0), variables=pl.lit(8), branches=pl.lit(3)
    )
    script = runpy.run_path(str(STUDY / "figures.py"), run_name="figures")
    row = script["instances"](solves).row(0, named=True)
    assert (row["instances"], row["compared"], row["unsolved"]) == (5, 3, 2)
    assert (row["better"], row["equal"], row["worse"], row["quicker"]) == (1, 1, 1, 2)
    assert (row["G1"], row["G2"], row["G3"]) == (1, 1, 1)
    script["draw_instances"](solves, tmp_path / "instances.png")
    assert (tmp_path / "instances.png").stat().st_size > 5_000


def test_ratios_are_paired_by_log():
    """Twice as good on every log: the interval has no width, though logs differ a hundredfold."""
    base, mine = "SAF, placement alone", "lists"
    slowdowns = [
        (log, name, value * factor)
        for log, value in (("a", 2.0), ("b", 300.0), ("c", 4.0))
        for name, factor in ((base, 1.0), (mine, 0.5))
    ]
    slowdowns.append(("left out", base, 1e6))  # a log that one of them was not run on
    runs = pl.DataFrame(slowdowns, schema=("log", "dispatcher", "mean slowdown"), orient="row").with_columns(
        load=pl.lit("4"), predictor=pl.lit("W")
    )
    script = runpy.run_path(str(STUDY / "figures.py"), run_name="figures")
    for axes in (["load", "predictor"], ["predictor"]):  # stretches come at one load
        there = runs.drop([axis for axis in ("load", "predictor") if axis not in axes])
        table = script["ratios"](there, script["BASES"]["seeds"])
        assert table.columns[: len(axes)] == axes
        assert table["mean slowdown"].to_list() == [102.0, 51.0]
        assert table[f"to {base}"].to_list() == ["", "0.5000 (0.5000-0.5000), 0 / 3"]
