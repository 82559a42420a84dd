"""The study of forecasts: its files check, and a small log in place of KTH-SP2 gives its table."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import polars as pl
import pytest

from mlsim.errors import InputError
from mlsim.experiment import load_study, run_study
from mlsim.scenario.scenario_text import parse_value_text
from tests.experiment.test_rca_waits import LOG, write_log

STUDY = Path(__file__).parents[2] / "scenarios" / "studies" / "forecasts"
DISPATCHERS = ["FCFS", "SAF", "SAF, ends", "SAF, nodes 50 %"]


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(STUDY / "forecasts.py"), run_name="forecasts")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Run the study with one load and four dispatchers on the small log."""
    place = tmp_path_factory.mktemp("forecasts")
    write_log(place / LOG)
    content = parse_value_text((STUDY / "study.yaml").read_text(), "study.yaml")
    vary = content["vary"]
    vary |= {"seeds": 2, "load": {"0.9": {"workload.select.scale_load": 2.5}}}
    vary["dispatcher"] = {name: vary["dispatcher"][name] for name in DISPATCHERS}
    (place / "study.yaml").write_text(json.dumps(content))
    (place / "loops.yaml").write_text((STUDY / "loops.yaml").read_text())
    run_study(load_study(place), out=place / "results", jobs=1)
    return place / "results"


@pytest.mark.parametrize(("file", "loads"), [("study", 3), ("sdsc-sp2", 3), ("hpc2n", 3)])
def test_each_load_or_seed_has_all_dispatchers_of_the_picture(script, file, loads):
    labels = [point.labels for point, _ in load_study(STUDY / f"{file}.yaml").cases]
    assert len(labels) == loads * len(script["ORDER"])
    assert {of["dispatcher"] for of in labels} == set(script["ORDER"])


def test_a_small_log_gives_the_table(script, results):
    rows = script["table"](script["runs_of"](results))
    everyone = rows.filter(pl.col("size") == "all")
    assert everyone["dispatcher"].to_list() == DISPATCHERS
    assert everyone["jobs"].to_list() == [60] * 4
    assert everyone["weeks"].to_list() == [3] * 4  # of the log, although the load is 2.5 times as high
    assert everyone["seeds"].to_list() == [2] * 4
    means = pl.read_parquet(results / "runs.parquet").select("seed", "dispatcher", "wait_time.mean")
    base = everyone.row(1, named=True)
    assert base["wait %"] == base["wait from"] == base["wait to"] == base["weeks worse"] == 0
    for row in everyone.iter_rows(named=True):
        by_seed = means.filter(pl.col("dispatcher") == row["dispatcher"])["wait_time.mean"].to_numpy()
        assert row["wait"] == pytest.approx(by_seed.mean())
        changes = (by_seed / means.filter(dispatcher="SAF")["wait_time.mean"].to_numpy() - 1) * 100
        assert row["wait least seed"] == pytest.approx(changes.min())
        assert row["wait largest seed"] == pytest.approx(changes.max())
        assert row["wait %"] == pytest.approx((row["wait"] / base["wait"] - 1) * 100)
        assert row["wait from"] <= row["wait %"] <= row["wait to"]
    sizes = rows.filter((pl.col("size") != "all") & (pl.col("dispatcher") == "SAF, ends"))
    assert sizes["jobs"].to_list() == [15] * 4
    assert sizes["wait"].mean() == pytest.approx(everyone.row(2, named=True)["wait"])


def test_the_command_writes_table_and_picture(script, results, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["forecasts.py", str(results), "--out", str(tmp_path / "out")])
    script["main"]()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"forecasts.csv", "forecasts.png"}
    assert "SAF, ends" in capsys.readouterr().out


def test_missing_runs_are_told(script, tmp_path):
    with pytest.raises(InputError, match="no store of a study"):
        script["runs_of"](tmp_path)
    with pytest.raises(InputError, match="no run of SAF is there yet"):
        script["table"]({})
