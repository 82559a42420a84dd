"""Runs so long that their tables are kept in files, against the same runs in memory."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import mlsim
from mlsim.record import blocks, growing, parquet, streaming
from mlsim.scenario import from_mapping
from mlsim.workload import Field, source, write_swf


@pytest.fixture
def scenario(tmp_path: Path) -> dict:
    rng = np.random.default_rng(5)
    jobs = 700
    write_swf(
        tmp_path / "log.swf",
        {},
        {
            Field.JOB_ID: np.arange(1, jobs + 1),
            Field.SUBMIT_TIME: np.cumsum(rng.integers(0, 40, jobs)),
            Field.RUN_TIME: rng.integers(0, 900, jobs),
            Field.REQUESTED_PROCESSORS: rng.integers(1, 40, jobs),
            Field.REQUESTED_TIME: rng.integers(300, 900, jobs),
            Field.USER: rng.integers(1, 9, jobs),
        },
    )
    return {
        "name": "long",
        "platform": {"nodes": [{"name": "n", "count": 8, "cores": 4}]},
        "workload": {"path": str(tmp_path / "log.swf"), "mapping": "core"},
        "batch": {"policy": "FCFS", "backfill": "easy"},
        "output": {"csv": True},
    }


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run count as a long one, of blocks of odd sizes."""
    monkeypatch.setattr(growing, "HELD_ROWS", 100)
    monkeypatch.setattr(growing, "_COPIED_AT_ONCE", 33)
    monkeypatch.setattr(blocks, "LONG_ROWS", 100)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 91)
    monkeypatch.setattr(parquet, "FRAME_ROWS", 57)
    monkeypatch.setattr(streaming, "_ROW_GROUP", 200)
    monkeypatch.setattr(source, "HELD_JOBS", 0)


def same(found: object, expected: object, key: str = "summary") -> None:
    """Compare summaries; sums may differ in their last digits."""
    if isinstance(expected, dict):
        assert isinstance(found, dict)
        assert list(found) == list(expected), key
        for name, value in expected.items():
            if name != "self":
                same(found[name], value, f"{key}.{name}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-12), key
    else:
        assert found == expected, key


def test_a_long_run_gives_what_a_short_one_gives(tmp_path, scenario, long, request) -> None:
    streamed = mlsim.run(from_mapping(scenario), out=tmp_path / "streamed")
    request.getfixturevalue("monkeypatch").undo()
    held = mlsim.run(from_mapping(scenario), out=tmp_path / "held")
    assert held.summary["jobs"]["rejected"] > 0
    assert held.summary["jobs"]["backfilled"] > 0
    assert held.summary["queue_length"]["max"] > 3
    same(streamed.summary, held.summary)
    for name in ("jobs", "nodes", "occupancy"):
        one, other = (pl.read_parquet(tmp_path / way / f"{name}.parquet") for way in ("streamed", "held"))
        assert one.schema == other.schema
        assert one.equals(other), name
        texts = [(tmp_path / way / f"{name}.csv").read_bytes() for way in ("streamed", "held")]
        assert texts[0] == texts[1]
    assert (tmp_path / "streamed" / "gantt.png").read_bytes() == (
        tmp_path / "held" / "gantt.png"
    ).read_bytes()
    for table in ("jobs", "occupancy"):
        for field in dataclasses.fields(getattr(held.records, table)):
            columns = [getattr(getattr(run.records, table), field.name) for run in (streamed, held)]
            np.testing.assert_array_equal(*columns, err_msg=field.name)


def test_a_long_run_gives_the_same_bytes_every_time(tmp_path, scenario, long) -> None:
    for name in ("a", "b"):
        mlsim.run(from_mapping(scenario), out=tmp_path / name)
    for name in ("jobs.parquet", "occupancy.parquet", "jobs.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_rejecting_dispatcher_rejects_every_job(tmp_path, scenario, request) -> None:
    scenario["batch"] = {"dispatcher": "reject"}
    result = mlsim.run(from_mapping(scenario))
    assert result.summary["jobs"] | {"submitted": 0} == {
        "submitted": 0,
        "completed": 0,
        "killed": 0,
        "failed": 0,
        "rejected": 700,
        "backfilled": 0,
    }
    assert (
        result.summary["self"]["pass_time"]["count"]
        == result.jobs.filter(pl.col("processors") <= 32)["submit_time"].n_unique()
    )
    request.getfixturevalue("long")
    streamed = mlsim.run(from_mapping(scenario), out=tmp_path / "run")
    same(streamed.summary, result.summary)
    assert pl.read_parquet(tmp_path / "run" / "jobs.parquet").equals(result.jobs)
    assert not (tmp_path / "run" / "gantt.png").exists()  # nothing to draw
