"""Tables whose checksums are right and whose values no run has written are refused, in every command."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import polars as pl
import pytest

import mlsim
from mlsim.errors import InputError
from mlsim.experiment.comparison import compare, make_page
from mlsim.experiment.manifest import write_manifest
from mlsim.experiment.recorded_loop import recorded_loop
from mlsim.experiment.stored_runs import read_run, read_summary

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


def damaged(whole: Path, place: Path, table: str, column: str, value: object, row: int = 0) -> Path:
    """Copy a run, with one value changed, and sealed again."""
    shutil.copytree(whole, place / "run")
    file = place / "run" / f"{table}.parquet"
    frame = pl.read_parquet(file)
    values = frame[column].to_list()
    values[row] = value
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
        ("nodes", "cores", 0, "row 1 holds what no run writes: a node of 0 cores of speed 1"),
        ("nodes", "speed", 0.0, "row 1 holds what no run writes: a node of 2 cores of speed 0"),
        ("occupancy", "job_id", 99, "job 99 is not in jobs.parquet"),
        ("occupancy", "end_time", 1e18, r"an end at 1e\+18 s, and its job ends at"),
    ],
)
def test_values_that_do_not_go_together(
    whole: Path, tmp_path: Path, table: str, column: str, value: object, words: str
) -> None:
    run = damaged(whole, tmp_path, table, column, value)
    with pytest.raises(InputError, match=rf"{table}.parquet: .*{words}"):
        read_run(run)


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("levels")
    (place / "jobs.csv").write_text(JOBS)
    application = {
        "model": "loop",
        "iterations": {"count": 20},
        "costs": {"profile": "constant", "mean": "1 s"},
        "technique": "SS",
    }
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 3, "cores": 2}]},
        "workload": {"path": str(place / "jobs.csv"), "mapping": "packed"},
        "application": application,
        "output": {"trace": "chunks", "pictures": False},
    }
    mlsim.run(scenario, out=place / "run")
    return place / "run"


@pytest.mark.parametrize(
    ("table", "column", "value", "words"),
    [
        *(
            ("chunks", column, value, rf"column '{column}' holds what no run writes: .* in row 21;")
            for column in ("request_time", "start_time", "end_time")
            for value in (None, math.nan, math.inf, -1e300)
        ),
        ("chunks", "end_time", 0.5, r"row 21 holds what no run writes: a start at \d+ and an end at 0\.5 s"),
        ("chunks", "pe", None, "column 'pe' holds what no run writes: null in row 21"),
        ("chunks", "pe", 2, "row 21 holds what no run writes: PE 2 of a loop on 2 PEs"),
        ("chunks", "size", 0, "row 21 holds what no run writes: 0 iterations from 0 on, of a loop of 20"),
        ("chunks", "size", 2**50, "column 'size' holds what no run writes: 1125899906842624 in row 21"),
        ("chunks", "first", 20, "row 21 holds what no run writes: 1 iterations from 20 on, of a loop of 20"),
        ("chunks", "first", -1, "column 'first' holds what no run writes: -1 in row 21"),
        ("pes", "finish_time", None, "column 'finish_time' holds what no run writes: null in row 3"),
        ("pes", "busy", math.nan, "column 'busy' holds what no run writes: nan in row 3"),
        ("pes", "pe", 7, "row 3 holds what no run writes: PE 7 of a loop on 2 PEs"),
    ],
)
def test_chunks_and_pes(
    levels: Path, tmp_path: Path, table: str, column: str, value: object, words: str
) -> None:
    frame = pl.read_parquet(levels / f"{table}.parquet")
    row = frame["job_id"].to_list().index(2)
    run = damaged(levels, tmp_path, table, column, value, row)
    with pytest.raises(InputError, match=rf"{table}\.parquet: {words}"):
        make_page([run])
    if table == "chunks":
        with pytest.raises(InputError, match=rf"chunks\.parquet: {words}"):
            recorded_loop(run, 2)
    recorded_loop(run, 1)  # rows of other loops are as they were


@pytest.mark.parametrize(
    ("line", "other", "words"),
    [
        ("application:", "applications:", "application: missing"),
        ("  technique: SS", "  technique: [SS]", r"application\.technique: \['SS'\]"),
        ("  technique: SS", "  technique: SS\n  pes_per_node: many", r"application\.pes_per_node: 'many'"),
        ("  time_steps: 1", "  time_steps: 1e99", r"application\.time_steps: "),
        ("seed: 0", "seed: [0]", r"seed: \[0\]"),
        ("platform:", "platform: 7\nother:", "platform: 7"),
    ],
)
def test_scenarios_of_records(levels: Path, tmp_path: Path, line: str, other: str, words: str) -> None:
    shutil.copytree(levels, tmp_path / "run")
    file = tmp_path / "run" / "scenario.yaml"
    text = file.read_text()
    assert f"{line}\n" in text
    file.write_text(text.replace(f"{line}\n", f"{other}\n"))
    write_manifest(tmp_path / "run")
    with pytest.raises(InputError, match=rf"scenario\.yaml: {words}"):
        recorded_loop(tmp_path / "run", 1)


def test_chunks_of_pes_that_the_nodes_do_not_have(levels: Path, tmp_path: Path) -> None:
    row = pl.read_parquet(levels / "occupancy.parquet")["job_id"].to_list().index(1)
    run = damaged(levels, tmp_path, "occupancy", "cores", 1, row)
    with pytest.raises(InputError, match=r"chunks\.parquet: a chunk of PE 1; the nodes of job 1 have 1 PEs"):
        recorded_loop(run, 1)


def test_loops_of_more_iterations_than_memory_holds(levels: Path, tmp_path: Path) -> None:
    run = damaged(levels, tmp_path, "loops", "iterations", 10**14)
    frame = pl.read_parquet(run / "chunks.parquet")
    size = pl.when(pl.col("job_id") == 1).then(10**13).otherwise("size").alias("size")
    frame.with_columns(size).write_parquet(run / "chunks.parquet")
    write_manifest(run)
    with pytest.raises(InputError, match=r"chunks\.parquet: .* would take .* of memory or more"):
        recorded_loop(run, 1)


SUMMARY_FAULTS = [
    ("scenario", None, "null"),
    ("scenario", 3, "3"),
    ("seed", "7", '"7"'),
    ("seed", 10**30, "1000000000000000000000000000000"),
    ("technique", [], r"\[\]"),
    ("makespan", math.nan, "NaN"),
    ("makespan", "long", '"long"'),
    ("wait_time.mean", -1e300, "-1e[+]300"),
    ("wait_time.mean", True, "true"),
    ("wait_time", 3, "3"),
    ("estimates", None, "null"),
    ("estimates.predictor", 5, "5"),
    ("self", [], r"\[\]"),
    ("self.pass_time", "x", '"x"'),
    ("self.pass_time.mean", "x", '"x"'),
    ("self.pass_time.total", None, "null"),
    ("self.peak_memory_mb", math.inf, "Infinity"),
    ("workload", 3, "3"),
    ("new.part", math.nan, "NaN"),
]


@pytest.mark.parametrize(("key", "value", "shown"), SUMMARY_FAULTS)
def test_values_of_summaries(whole: Path, tmp_path: Path, key: str, value: object, shown: str) -> None:
    shutil.copytree(whole, tmp_path / "run")
    file = tmp_path / "run" / "summary.json"
    summary = json.loads(file.read_text())
    *parents, last = key.split(".")
    there = summary
    for name in parents:
        there = there.setdefault(name, {})
    there[last] = value
    file.write_text(json.dumps(summary))
    (tmp_path / "run" / "manifest.json").unlink()  # JSON of a run has no NaN, so that none can be sealed
    for read in (lambda run: compare(whole, run), lambda run: make_page([run]), read_run):
        with pytest.raises(InputError, match=rf"run/summary\.json: {key} holds what no run writes: {shown}"):
            read(tmp_path / "run")


def test_summaries_that_lack_something(whole: Path, tmp_path: Path) -> None:
    summary = json.loads((whole / "summary.json").read_text())
    file = tmp_path / "summary.json"
    for key in ("scenario", "seed"):
        file.write_text(json.dumps({name: value for name, value in summary.items() if name != key}))
        with pytest.raises(
            InputError, match=f"{key} holds what no run writes: null; allowed: what the scenario"
        ):
            read_summary(file)
    file.write_text(json.dumps(summary))
    with pytest.raises(
        InputError, match=r"slurm\.launch\.before holds what no run writes: null; allowed: a number"
    ):
        read_summary(file, ("makespan", "slurm.launch.before"))
    file.write_text(json.dumps({"schema_version": 1, "jobs": {}, "scenario": "", "seed": 0, "loops": [[[]]]}))
    with pytest.raises(InputError, match=r"loops holds what no run writes: \[\[\[\]\]\]"):
        read_summary(file)
