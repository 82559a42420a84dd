"""Runs so long that their tables are kept in files, against the same runs in memory."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import mlsim
from mlsim.batch.events.submissions import REJECTS_ALL
from mlsim.record import column_types, parquet_tables, table_blocks
from mlsim.scenario import from_mapping
from mlsim.workload import Field, log_source, write_swf


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
    monkeypatch.setattr(column_types, "HELD_ROWS", 100)
    monkeypatch.setattr(column_types, "_COPIED_AT_ONCE", 33)
    monkeypatch.setattr(table_blocks, "LONG_ROWS", 100)
    monkeypatch.setattr(table_blocks, "BLOCK_ROWS", 91)
    monkeypatch.setattr(parquet_tables, "_ROW_GROUP", 57)
    monkeypatch.setattr(log_source, "HELD_JOBS", 0)


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


POWER = {"idle": "100 W", "busy": "250 W", "off": "7 W"}
POWERED = {"nodes": [{"name": "n", "count": 8, "cores": 4, "power": POWER}]}
FAILURES = {
    "random_failures": [{"mtbf": "20 min", "mttr": "5 min"}],
    "drains": [{"nodes": 3, "start": "1 h", "end": "2 h"}],
}
CASES = {
    "replay": {},
    "simpy": {"batch": {"policy": "SAF", "backfill": "easy", "engine": "simpy"}},
    "power and passes": {
        "platform": POWERED,
        "batch": {"backfill": "easy", "predictor": "D2"},
        "output": {"passes": True},
    },
    "failures": {
        "platform": POWERED | FAILURES,
        "batch": {"backfill": "easy", "on_failure": "restart", "max_restarts": 2},
    },
    "resume": {
        "platform": FAILURES,
        "batch": {"backfill": "greedy", "on_failure": "resume", "checkpoint": "1 min"},
        "workload": {"mapping": "node"},
    },
    "loops": {
        "application": {
            "model": "loop",
            "iterations": {"per_pe": 1},
            "costs": {"profile": "job", "variation": 0.3},
        },
        "coordination": {"rca": True},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_long_run_gives_what_a_short_one_gives(tmp_path, scenario, long, request, case) -> None:
    scenario = {
        key: {**value, **CASES[case].get(key, {})} if isinstance(value, dict) else value
        for key, value in (CASES[case] | scenario).items()
    }
    streamed = mlsim.run(from_mapping(scenario), out=tmp_path / "streamed")
    request.getfixturevalue("monkeypatch").undo()
    held = mlsim.run(from_mapping(scenario), out=tmp_path / "held")
    assert held.summary["self"]["engine"] == ("replay" if case in ("replay", "loops") else "simpy")
    assert held.summary["jobs"]["rejected"] > 0
    assert held.summary["jobs"]["backfilled"] > 0
    assert held.summary["queue_length"]["max"] > 3
    if "failures" in case or case == "resume":
        assert held.summary["failures"]["restarts"] > 20
        assert held.summary["failures"]["lost_core_seconds"] > 0
    same(streamed.summary, held.summary)
    tables = ["jobs", "nodes", "occupancy"]
    further = "passes", "attempts", "loops", "messages"
    tables += [name for name in further if (tmp_path / "held" / f"{name}.parquet").exists()]
    assert ("loops" in tables) == ("messages" in tables) == (case == "loops")
    for name in tables:
        one, other = (pl.read_parquet(tmp_path / way / f"{name}.parquet") for way in ("streamed", "held"))
        assert one.schema == other.schema
        assert one.drop("wall_time", strict=False).equals(other.drop("wall_time", strict=False)), name
        if name != "passes":
            texts = [(tmp_path / way / f"{name}.csv").read_bytes() for way in ("streamed", "held")]
            assert texts[0] == texts[1]
    assert (tmp_path / "streamed" / "gantt.png").read_bytes() == (
        tmp_path / "held" / "gantt.png"
    ).read_bytes()
    for table in ("jobs", "occupancy", "rejections"):
        for field in dataclasses.fields(getattr(held.records, table)):
            columns = [getattr(getattr(run.records, table), field.name) for run in (streamed, held)]
            if isinstance(columns[0], np.ndarray):
                np.testing.assert_array_equal(*columns, err_msg=field.name)
            else:
                assert columns[0] == columns[1]


def test_all_rows_of_the_engines_are_the_same(scenario, long) -> None:
    """Replay puts jobs into files as SimPy's engine does: in order of arrival."""
    one, other = (
        mlsim.run(from_mapping(scenario | {"batch": {"backfill": "easy", "engine": engine}}))
        for engine in ("replay", "simpy")
    )
    for field in dataclasses.fields(one.records.jobs):
        columns = [getattr(run.records.jobs, field.name) for run in (one, other)]
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
    wide = [reason for reason in result.summary["rejected_because"] if reason != REJECTS_ALL]
    assert wide
    assert all(reason.endswith("cores; the machine has 32") for reason in wide)
    assert sum(result.summary["rejected_because"].values()) == 700
    assert result.jobs["prediction"].null_count() == 700
    assert result.jobs.filter(pl.col("processors") <= 32)["reason"].unique().to_list() == [REJECTS_ALL]
    assert result.jobs.filter(pl.col("processors") > 32)["reason"].unique().sort().to_list() == sorted(wide)
    assert (
        result.summary["self"]["pass_time"]["count"]
        == result.jobs.filter(pl.col("processors") <= 32)["submit_time"].n_unique()
    )
    request.getfixturevalue("long")
    streamed = mlsim.run(from_mapping(scenario), out=tmp_path / "run")
    same(streamed.summary, result.summary)
    assert pl.read_parquet(tmp_path / "run" / "jobs.parquet").equals(result.jobs)
    assert not (tmp_path / "run" / "gantt.png").exists()  # nothing to draw


@pytest.mark.parametrize("more", [{"pass_interval": "7 min"}, {"ties": "per-event"}])
def test_whenever_there_is_a_pass_a_rejecting_dispatcher_leaves_nothing(scenario, long, more) -> None:
    result = mlsim.run(
        from_mapping(scenario | {"batch": {"dispatcher": "reject", **more}, "output": {"passes": True}})
    )
    assert result.summary["jobs"]["rejected"] == 700
    passes = result.records.passes
    assert passes.queue_length.sum() == result.summary["rejected_because"][REJECTS_ALL]
    assert passes.started.sum() == passes.running.sum() == 0
