"""``mlsim run`` as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

WRITTEN = {
    "chunks.parquet",
    "gantt.png",
    "jobs.parquet",
    "loops.parquet",
    "manifest.json",
    "messages.parquet",
    "nodes.parquet",
    "occupancy.parquet",
    "pes.parquet",
    "scenario.yaml",
    "summary.json",
    "trace",
    "utilization.png",
    "versions.json",
}


def test_writes_a_directory_and_says_where(mlsim, small: Path):
    done = mlsim("run", "small.yaml")
    assert done.code == 0, done.err
    directory = small / "runs" / "small-001"
    assert {path.name for path in directory.iterdir()} == WRITTEN
    assert "runs/small-001" in done.out
    assert "4 submitted, 4 completed" in done.out
    assert len(pl.read_parquet(directory / "jobs.parquet")) == 4


@pytest.mark.slow
def test_the_next_run_gets_the_next_directory(mlsim, small: Path):
    for _ in range(2):
        assert mlsim("run", "small.yaml", "--quiet").code == 0
    assert sorted(path.name for path in (small / "runs").iterdir()) == ["small-001", "small-002"]


def test_json_is_the_summary_and_nothing_else(mlsim, small: Path):
    done = mlsim("run", "small.yaml", "--json", "--out", "here")
    printed = json.loads(done.out)
    assert printed == json.loads((small / "here" / "summary.json").read_text())
    assert printed["jobs"]["completed"] == 4
    assert done.err == ""


def test_quiet_prints_nothing(mlsim):
    done = mlsim("run", "small.yaml", "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_set_overrides(mlsim, small: Path):
    options = ["--set", "batch.policy=SAF", "--set", "application.technique=ss", "--set", "output.csv=true"]
    done = mlsim("run", "small.yaml", "--json", "--out", "here", *options)
    assert done.code == 0, done.err
    assert json.loads(done.out)["technique"] == "SS"
    resolved = (small / "here" / "scenario.yaml").read_text()
    assert "SAF" in resolved
    assert (small / "here" / "jobs.csv").exists()


@pytest.mark.slow
def test_the_resolved_scenario_runs_again_with_the_same_results(mlsim, small: Path):
    assert mlsim("run", "small.yaml", "--quiet", "--out", "first").code == 0
    # Relative paths of a scenario are looked up beside it.
    (small / "first" / "small.csv").write_bytes((small / "small.csv").read_bytes())
    assert mlsim("run", "first/scenario.yaml", "--quiet", "--out", "second").code == 0
    # The manifest has the checksums of the scenarios, traces and versions, which name other files.
    other_places = {"versions.json", "manifest.json"}  # they tell where the scenario was read
    for name in sorted(WRITTEN - {"summary.json", "trace", "scenario.yaml"} - other_places):
        assert (small / "first" / name).read_bytes() == (small / "second" / name).read_bytes(), name


@pytest.mark.slow
def test_two_runs_give_the_same_bytes(mlsim, small: Path):
    for name in ("first", "second"):
        assert mlsim("run", "small.yaml", "--quiet", "--out", name).code == 0
    first = sorted(path for path in (small / "first").rglob("*") if path.is_file())
    assert any(path.suffix == ".evt" for path in first)
    for path in first:
        other = small / "second" / path.relative_to(small / "first")
        if path.name == "summary.json":
            one, two = (json.loads(file.read_text()) for file in (path, other))
            assert one.pop("self").keys() == two.pop("self").keys()
            assert one == two
        else:
            assert path.read_bytes() == other.read_bytes(), path.name


def test_rejected_jobs_are_reported(mlsim, small: Path):
    with (small / "small.csv").open("a") as file:
        file.write("5,9,10,10,17\n")
    done = mlsim("run", "small.yaml")
    assert done.code == 0, done.err
    assert "Rejected: job 5: asks for 5 nodes; the machine has 4" in done.out.replace("\n", " ")


@pytest.mark.parametrize(
    "what",
    ["policies", "backfilling", "allocators", "predictors", "techniques", "models", "profiles", "options"],
)
def test_lists(mlsim, what):
    done = mlsim("list", what)
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) > 2


def test_list_alone_says_what_can_be_listed(mlsim):
    assert "techniques" in mlsim("list").out.split()


def test_check_and_schema(mlsim):
    done = mlsim("check", "small.yaml")
    assert (done.code, done.err) == (0, "")
    assert "4 nodes, 16 cores" in done.out
    assert "4 jobs" in done.out
    assert "per_pe" in mlsim("check", "small.yaml", "--resolved").out
    assert json.loads(mlsim("schema").out)["properties"].keys() >= {"platform", "workload", "batch"}


def test_version_and_help(mlsim):
    assert mlsim("--version").out.startswith("mlsim ")
    assert "run" in mlsim("--help").out


def test_a_study_and_a_scenario_are_not_taken_for_each_other(mlsim, small: Path):
    (small / "study.yaml").write_text("base: small.yaml\nvary:\n  batch.policy: [FCFS, SPF]\n")
    done = mlsim("run", "study.yaml")
    assert (done.code, done.out) == (2, "")
    assert "study.yaml: is a study by its keys; mlsim study" in done.err
    done = mlsim("study", "small.yaml", "--dry-run")
    assert (done.code, done.out) == (2, "")
    assert "small.yaml: is a scenario by its keys; mlsim run simulates it" in done.err


def test_check_prints_the_keys_without_effect_that_a_run_prints(mlsim):
    words = "--set", "batch.deadline_factor=3"
    note = "note: batch.deadline_factor has no effect: only policy EDF reads it"
    checked, run = mlsim("check", "small.yaml", *words), mlsim("run", "small.yaml", *words)
    assert (checked.code, run.code) == (0, 0)
    assert note in checked.err
    assert note in run.err
