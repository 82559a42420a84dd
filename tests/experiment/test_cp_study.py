"""The study of constraint programming: its own dispatcher and script, and what it claims, on small logs."""

from __future__ import annotations

import runpy
from pathlib import Path

import polars as pl
import pytest
import yaml

import mlsim
from mlsim.experiment import load_study
from mlsim.workload.csv_writer import write_csv
from mlsim.workload.eurora import MACHINE, eurora

STUDY = Path(__file__).parents[2] / "scenarios" / "studies" / "cp"
GREEDY = f"{STUDY / 'same_placement.py'}:GreedySaf"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A Eurora-like log of which jobs wait."""
    path = tmp_path_factory.mktemp("cp") / "eurora.csv"
    made = eurora(600, seed=42, load=8.0)
    write_csv(path, made.jobs, made.header)
    return path


def starts(log, **batch):
    scenario = yaml.safe_load(MACHINE) | {
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
