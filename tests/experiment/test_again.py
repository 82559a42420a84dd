"""The scenario that a run leaves runs again from there, whatever directory its files are in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mlsim
from mlsim.errors import InputError
from mlsim.experiment.loops import load_loop
from mlsim.scenario import load
from mlsim.scenario.scenario_paths import resolve_code, resolve_path

JOBS = "job_id,submit_time,run_time,walltime,processors\n1,0,5,5,1\n2,1,5,5,2\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "jobs.csv").write_text(JOBS)
    (tmp_path / "here" / "mine.py").write_text(
        "class Mine:\n    def key(self, jobs, now):\n        return jobs.submit_time\n"
    )
    (tmp_path / "here" / "s.yaml").write_text(
        "platform: {nodes: [{name: n, count: 2, cores: 1}]}\n"
        "workload: {path: jobs.csv, mapping: core}\n"
        "output: {pictures: off}\n"
    )
    mlsim.run(tmp_path / "here" / "s.yaml", out=tmp_path / "runs" / "one")
    return tmp_path / "runs" / "one"


def test_it_finds_its_log_and_so_does_a_run_of_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = mlsim.run(run / "scenario.yaml", out=run.parent / "two")
    again = mlsim.run(run.parent / "two" / "scenario.yaml", out=run.parent / "three")
    assert again.jobs.equals(first.jobs)
    for name in ("scenario.yaml", "jobs.parquet"):
        assert (run.parent / "three" / name).read_bytes() == (run / name).read_bytes()
    monkeypatch.chdir(run.parent)  # relative paths count from where they were then
    assert mlsim.run("three/scenario.yaml").jobs.equals(first.jobs)


def test_a_file_beside_it_comes_first(run: Path) -> None:
    (run / "jobs.csv").write_text(JOBS.replace("5,5,2", "7,7,2"))
    assert mlsim.run(run / "scenario.yaml").jobs["run_time"].to_list() == [5, 7]


def test_code_is_found_where_the_run_found_it(run: Path) -> None:
    scenario = load(run / "scenario.yaml")
    assert resolve_code(scenario, "./mine.py", "batch.policy") == run.parent.parent / "here" / "mine.py"


def test_what_is_nowhere_is_told_with_all_places(run: Path) -> None:
    (run.parent.parent / "here" / "jobs.csv").unlink()
    with pytest.raises(InputError) as caught:
        mlsim.run(run / "scenario.yaml")
    assert "(beside the scenario file)" in str(caught.value)
    assert "jobs.csv (where the run read its scenario)" in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"read_in": 3}', '{"read_in": [3]}', '{"read_in": [""]}'])
def test_notes_that_are_damaged_or_of_no_run_are_not_used(run: Path, text: str) -> None:
    (run / "versions.json").write_text(text)
    assert load(run / "scenario.yaml").earlier == ()


def test_notes_beside_another_scenario_are_not_of_it(run: Path) -> None:
    (run / "other.yaml").write_text((run / "scenario.yaml").read_text())
    assert load(run / "other.yaml").earlier == ()


def test_a_loop_finds_its_costs(run: Path) -> None:
    here = run.parent.parent / "here"
    assert json.loads((run / "versions.json").read_text())["read_in"] == ["../../here"]
    (run / "loop.yaml").write_text(
        "platform: {nodes: [{name: n, count: 1, cores: 2}]}\n"
        "application:\n  {model: loop, technique: SS,\n"
        "   costs: {profile: file, path: c.txt}}\n"
    )
    (here / "c.txt").write_text("1\n2\n")
    loop = load_loop(run / "loop.yaml")
    assert resolve_path(loop, "c.txt", "application.costs.path") == here / "c.txt"
