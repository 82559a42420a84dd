"""``mlsim.run`` and the directory of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mlsim
from tests.cli.conftest import JOBS, SMALL


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    (tmp_path / "small.csv").write_text(JOBS)
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def test_gives_frames_and_writes_nothing(scenario: Path):
    before = sorted(scenario.parent.iterdir())
    result = mlsim.run(scenario, overrides={"application.technique": "SS"})
    assert sorted(scenario.parent.iterdir()) == before
    assert result.directory is None
    assert result.summary["technique"] == "SS"
    assert result.jobs["job_id"].to_list() == [1, 2, 3, 4]
    assert result.loops["iterations"].sum() == 4 * (16 + 4 + 12 + 8)
    assert result.chunks["size"].to_list() == [1] * len(result.chunks)
    assert len(result.pes) == result.loops["pes"].sum()
    assert set(result.messages["kind"].unique()) == {"node-idle", "job-completed"}
    assert len(result.occupancy) >= 4


def test_every_table_is_there_by_the_name_of_its_file(scenario: Path):
    from mlsim.record.table_files import FILES

    result = mlsim.run(scenario)
    assert result.table("jobs").equals(result.jobs)
    assert all(result.table(name).columns for name in FILES)
    assert not result.table("attempts").height
    with pytest.raises(mlsim.InputError, match=r"table\('job'\): no such table; allowed: jobs, nodes"):
        result.table("job")


def test_a_loaded_scenario_runs_too_and_overrides_go_with_files(scenario: Path):
    loaded = mlsim.load(scenario)
    assert mlsim.run(loaded).summary["jobs"]["completed"] == 4
    with pytest.raises(mlsim.InputError, match="already loaded"):
        mlsim.run(loaded, overrides={"batch.policy": "SAF"})


def test_progress_is_told(scenario: Path, monkeypatch):
    from mlsim.batch.clock import coupled_replay

    monkeypatch.setattr(coupled_replay, "_REPORT_EVERY", 1)
    told = []
    mlsim.run(scenario, progress=told.append)
    assert [state.time for state in told] == sorted(state.time for state in told)
    assert told[-1].total == 4


def test_the_summary_holds_the_contract(scenario: Path, tmp_path: Path):
    result = mlsim.run(scenario, out=tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary == result.summary
    aggregate = {"mean", "std", "median", "p90", "p99", "max"}
    for name in ("wait_time", "response_time", "slowdown", "bounded_slowdown"):
        assert aggregate <= summary[name].keys()
    jobs = {"submitted", "completed", "killed", "failed", "rejected", "backfilled"}
    assert summary["jobs"].keys() == jobs
    assert {"mean", "max"} <= summary["queue_length"].keys()
    assert {"busy", "allocated"} <= summary["utilization"].keys()
    assert {"wall_time", "peak_memory_mb", "pass_time", "application_time"} <= summary["self"].keys()
    for key in ("schema_version", "scenario", "seed", "makespan", "throughput", "loops", "coordination"):
        assert key in summary
