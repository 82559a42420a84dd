"""The ESP batch for real: a small one, on a trial cluster, and beside it the simulated one."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import mlsim
from mlsim.errors import InputError, MlsimError
from mlsim.scenario.words import ExecutionModel, Technique
from mlsim.slurm import esp_trial
from mlsim.slurm.esp_plan import Plan, Work
from mlsim.slurm.esp_trial import run_trial
from mlsim.traces import anchor_of, opened, problems_of

pytestmark = pytest.mark.slurm

PLAN = Plan(nodes=3, scale=0.004, jobs=5, techniques=(Technique.STATIC,), size=16)


@pytest.mark.slow
def test_a_batch_leaves_what_a_simulated_one_does(plugin: Path, ranks: None, tmp_path: Path) -> None:
    out = tmp_path / "esp"
    said: list[str] = []
    trial = run_trial(PLAN, out, said.append)
    assert [(row.technique, row.rca, len(row.real)) for row in trial.rows] == [
        ("STATIC", False, 1),
        ("STATIC", True, 1),
    ]
    assert not (out / "jobs").exists()
    ideal = pl.read_parquet(out / "simulated" / "STATIC-off" / "jobs.parquet")
    for row, name in zip(trial.rows, ("STATIC-off-1", "STATIC-on-1"), strict=True):
        jobs = pl.read_parquet(out / name / "jobs.parquet")
        assert jobs["job_id"].to_list() == ideal["job_id"].to_list()
        assert jobs["processors"].to_list() == ideal["processors"].to_list()
        loops = pl.read_parquet(out / name / "loops.parquet")
        # A sleeping iteration never takes less than it costs; the machine may be busy.
        assert (jobs["run_time"] > loops["t_loop"]).all()
        assert (loops["max_finish"] >= 0.99 * jobs["log_run_time"]).all()
        chunks = pl.read_parquet(out / name / "chunks.parquet")
        assert chunks.group_by("job_id").agg(pl.col("size").sum())["size"].to_list() == [256] * 5
        summary = json.loads((out / name / "summary.json").read_text())
        assert summary["slurm"]["real"] is True
        assert summary["makespan"] == pytest.approx(row.real[0])
        with opened(anchor_of(out / name)) as trace:
            assert list(problems_of(trace)) == []
    assert not pl.read_parquet(out / "STATIC-off-1" / "occupancy.parquet")["released"].any()
    assert trial.launch.before > 0.0
    launched = pl.read_parquet(out / "simulated-with-launches" / "STATIC-off" / "jobs.parquet")
    more = (launched["log_run_time"] - ideal["log_run_time"]).to_list()
    assert more == pytest.approx([trial.launch.seconds] * 5)
    assert "run 2 of 2: STATIC-on-1" in said

    # What is there is kept; another plan is refused.
    before = (out / "STATIC-on-1" / "summary.json").stat().st_mtime_ns
    said.clear()
    assert run_trial(PLAN, out, said.append).rows == trial.rows
    assert not any("run " in line for line in said)
    assert (out / "STATIC-on-1" / "summary.json").stat().st_mtime_ns == before
    with pytest.raises(InputError, match="holds a trial of another plan"):
        run_trial(Plan(3, 0.004, 6, (Technique.STATIC,), size=16), out)
    assert mlsim.compare(out / "STATIC-off-1", out / "STATIC-on-1").runs


def test_a_job_that_fails_ends_the_trial(
    plugin: Path, ranks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(esp_trial, "_application", lambda *_: ["mlsim.mpi.apps.no_such"])
    with pytest.raises(MlsimError, match=r"(?s)job 0 \(category warm-up\): exit code 1.*no_such"):
        run_trial(PLAN, tmp_path / "esp")
    assert not list(tmp_path.glob("esp/STATIC*"))


def test_other_directories_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="is there, and holds no trial"):
        run_trial(PLAN, tmp_path)
    with pytest.raises(InputError, match="model"):
        run_trial(Plan(3, 0.004, 5, (Technique.STATIC,), model=ExecutionModel.STEAL), tmp_path / "new")
    assert Work("sleep") is Work.SLEEP
