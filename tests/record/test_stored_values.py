"""Tables whose checksums are right and whose values no run has written are refused, in every command."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import polars as pl
import pytest

import mlsim
from mlsim.errors import InputError
from mlsim.experiment.manifest import write_manifest
from mlsim.experiment.stored import read_run

SCENARIO = {
    "platform": {
        "nodes": [{"name": "n", "count": 3, "cores": 2}],
        "failures": [{"node": 1, "at": "5 s", "repair": "1 min"}],
    },
    "workload": {"path": "jobs.csv", "mapping": "node"},
    "batch": {"on_failure": "restart"},
    "output": {"passes": True, "pictures": False},
}
JOBS = "job_id,submit_time,run_time,walltime,processors\n1,0,10,20,2\n2,1,8,8,1\n3,1,5,9,3\n4,2,1,2,9\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("run")
    (place / "jobs.csv").write_text(JOBS)
    scenario = {**SCENARIO, "workload": {"path": str(place / "jobs.csv"), "mapping": "node"}}
    mlsim.run(scenario, out=place / "run")
    read_run(place / "run")
    return place / "run"


def damaged(whole: Path, place: Path, table: str, column: str, value: object) -> Path:
    """Copy a run, with one value changed, and sealed again."""
    shutil.copytree(whole, place / "run")
    file = place / "run" / f"{table}.parquet"
    frame = pl.read_parquet(file)
    values = frame[column].to_list()
    values[0] = value
    frame.with_columns(pl.Series(column, values, frame.schema[column], strict=False)).write_parquet(file)
    write_manifest(place / "run")
    return place / "run"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1e300, 1e300])
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("jobs", "submit_time"),
        ("jobs", "walltime"),
        ("occupancy", "end_time"),
        ("nodes", "speed"),
        ("passes", "time"),
    ],
)
def test_numbers(whole: Path, tmp_path: Path, table: str, column: str, value: float) -> None:
    run = damaged(whole, tmp_path, table, column, value)
    with pytest.raises(
        InputError, match=rf"{table}.parquet: column '{column}' holds what no run writes: .* in row 1"
    ):
        read_run(run)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        *(("jobs", name, None) for name in ("job_id", "submit_time", "cores", "state", "backfilled", "user")),
        ("jobs", "cores", -1),
        ("jobs", "processors", 2**62),
        ("nodes", "name", None),
        ("nodes", "cores", -7),
        ("occupancy", "count", -1),
        ("passes", "queue_length", None),
        ("attempts", "node", -2),
    ],
)
def test_what_is_missing_or_no_count(
    whole: Path, tmp_path: Path, table: str, column: str, value: object
) -> None:
    run = damaged(whole, tmp_path, table, column, value)
    with pytest.raises(InputError, match=rf"{table}.parquet: column '{column}' holds what no run writes"):
        read_run(run)


@pytest.mark.parametrize(
    ("table", "column", "value", "words"),
    [
        ("jobs", "end_time", -5.0, "a start at 9 and an end at -5 s"),
        ("jobs", "start_time", None, "a start at nan and an end at"),
        ("occupancy", "node", 3, "of a machine of 3"),
        ("occupancy", "count", 9, "of a machine of 3"),
        ("outages", "node", 3, "node 3 of a machine of 3"),
        ("occupancy", "job_id", 99, "job 99 is not in jobs.parquet"),
    ],
)
def test_values_that_do_not_go_together(
    whole: Path, tmp_path: Path, table: str, column: str, value: object, words: str
) -> None:
    run = damaged(whole, tmp_path, table, column, value)
    with pytest.raises(InputError, match=rf"{table}.parquet: .*{words}"):
        read_run(run)
