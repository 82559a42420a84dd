import dataclasses
import os

import numpy as np
import polars as pl
import pytest

from mlsim.errors import OutputError
from mlsim.record import Chunks, JobState, Messages, PEs, Records
from mlsim.record.parquet_tables import frame, write_tables
from tests.reference.runs import Job, Stay, loops_of, records_of, rejected

JOBS = [
    Job(0, 0, 100, processors=3, cores=4, job_id=7),
    Job(0, 5, 5, state=JobState.KILLED, backfilled=True, job_id=9),
    rejected(3)._replace(job_id=8),
    Job(10, 100, 105, state=JobState.FAILED, job_id=2),
]
STAYS = [Stay(0, 4, 2, 1, 0, 50, True), Stay(0, 0, 2, 1, 0, 100), Stay(3, 1, 1, 1, 100, 105)]

JOB_COLUMNS = {
    "job_id": pl.Int64,
    "submit_time": pl.Float64,
    "start_time": pl.Float64,
    "end_time": pl.Float64,
    "run_time": pl.Float64,
    "walltime": pl.Float64,
    "prediction": pl.Float64,
    "log_run_time": pl.Float64,
    "processors": pl.Int64,
    "cores": pl.Int64,
    "working": pl.Int64,
    "nodes": pl.String,
    "state": pl.Enum(["completed", "killed", "rejected", "failed"]),
    "reason": pl.String,
    "backfilled": pl.Boolean,
    "user": pl.Int64,
    "group": pl.Int64,
    "executable": pl.Int64,
    "queue": pl.Int64,
    "partition": pl.Int64,
    "technique": pl.Enum(["GSS"]),
    "wait_time": pl.Float64,
    "response_time": pl.Float64,
    "slowdown": pl.Float64,
    "bounded_slowdown": pl.Float64,
    "restarts": pl.Int64,
    "lost_core_seconds": pl.Float64,
}


def column(*values, dtype=np.float64):
    return np.array(values, dtype)


def whole_run() -> Records:
    """Every table has a row."""
    integer = {"dtype": np.int64}
    tables = {
        "loops": loops_of([{"job": 3, "pes": 1, "iterations": 10, "steps": 2, "t_loop": 5.0, "busy": 4.0}]),
        "chunks": Chunks(
            column(3, 3, **integer),
            column(0, 0, dtype=np.int32),
            column(0, 1, **integer),
            column(0, 6, **integer),
            column(6, 4, **integer),
            column(100, 102),
            column(100, 103),
            column(102, 105),
        ),
        "pes": PEs(column(3, **integer), column(0, dtype=np.int32), column(105), column(105), column(4)),
        "messages": Messages(
            column(0, 1, 2, dtype=np.int8),
            column(3, 3, 0, **integer),
            column(1, -1, -1, **integer),
            column(104, 105, 106),
            column(104.5, 105.5, 106.5),
            column(1, 0, 2, **integer),
            column(-1, -1, 9, **integer),
            column(4, 0, 0, **integer),
            column(2, 0, 0),
        ),
    }
    return records_of(JOBS, STAYS, [1] * 6, **tables)


def test_jobs_have_the_promised_columns_and_values():
    records = whole_run()
    made = frame("jobs", records, "GSS")
    assert dict(made.schema) == JOB_COLUMNS
    rows = {row["job_id"]: row for row in made.to_dicts()}
    assert list(rows) == [7, 9, 8, 2]
    assert rows[7]["nodes"] == "0-1 4-5"
    assert rows[2] | {"walltime": 0.0, "prediction": 0.0} == {
        "job_id": 2, "submit_time": 10.0, "start_time": 100.0, "end_time": 105.0, "run_time": 5.0,
        "walltime": 0.0, "prediction": 0.0, "log_run_time": 5.0, "processors": 1, "cores": 1, "working": 1,
        "nodes": "1",
        "state": "failed", "reason": None, "backfilled": False,
        "user": -1, "group": -1, "executable": -1, "queue": -1, "partition": -1, "technique": "GSS",
        "wait_time": 90.0, "response_time": 95.0, "slowdown": 19.0, "bounded_slowdown": 9.5,
        "restarts": 0, "lost_core_seconds": 5.0,
    }  # fmt: skip


def test_what_does_not_exist_is_null():
    records = whole_run()
    killed, refused = frame("jobs", records, None).to_dicts()[1:3]
    assert killed["state"] == "killed"
    assert killed["run_time"] == 0.0
    assert killed["slowdown"] is None
    assert killed["bounded_slowdown"] == 1.0
    assert refused["state"] == "rejected"
    assert refused["nodes"] == ""
    for name in ("start_time", "end_time", "run_time", "wait_time", "response_time", "slowdown", "technique"):
        assert refused[name] is None
    assert refused["submit_time"] == 3.0


def test_messages_speak_in_words():
    records = whole_run()
    first, second, third = frame("messages", records, None).to_dicts()
    assert (first["kind"], first["job_id"], first["node"]) == ("node-idle", 2, 1)
    assert (second["kind"], second["node"], second["received_time"]) == ("job-completed", None, 105.5)
    assert (third["kind"], third["job_id"], third["node"]) == ("release-request", 7, None)
    assert [row["nodes"] for row in (first, second, third)] == [1, 0, 2]
    assert [row["for_job"] for row in (first, second, third)] == [None, None, 9]


def test_tables_are_written_and_read_back(tmp_path):
    written = write_tables(tmp_path / "new" / "run", whole_run(), "GSS")
    names = ["jobs", "nodes", "occupancy", "loops", "chunks", "pes", "messages"]
    assert [path.name for path in written] == [f"{name}.parquet" for name in names]
    tables = {path.stem: pl.read_parquet(path) for path in written}
    assert dict(tables["jobs"].schema) == JOB_COLUMNS
    assert tables["nodes"]["name"].to_list() == [f"n{number}" for number in range(6)]
    assert tables["occupancy"].row(0) == (7, 4, 2, 1, 0.0, 50.0, True)
    assert tables["loops"]["technique"].to_list() == ["GSS"]
    assert tables["chunks"].row(1) == (2, 0, 1, 6, 4, 102.0, 103.0, 105.0)
    assert tables["pes"].row(0) == (2, 0, 105.0, 105.0, 4.0)


def test_a_frame_is_what_its_file_holds(tmp_path):
    for path in write_tables(tmp_path, whole_run(), "GSS"):
        assert pl.read_parquet(path).equals(frame(path.stem, whole_run(), "GSS"))


def test_empty_optional_tables_are_not_written(tmp_path):
    written = write_tables(tmp_path, records_of(), None)
    assert [path.name for path in written] == ["jobs.parquet", "nodes.parquet", "occupancy.parquet"]
    read = pl.read_parquet(tmp_path / "jobs.parquet")
    assert list(read.columns) == list(JOB_COLUMNS)
    assert read.height == 0


def test_csv_holds_the_same(tmp_path):
    written = write_tables(tmp_path, whole_run(), "GSS", csv=True)
    assert len(written) == 14
    for path in written:
        if path.suffix == ".csv":
            parquet = pl.read_parquet(path.with_suffix(".parquet"))
            assert path.read_text() == parquet.write_csv()


def many_jobs() -> Records:
    """More rows than are encoded at a time."""
    few = whole_run()
    times = 25_000
    columns = {field.name: getattr(few.jobs, field.name) for field in dataclasses.fields(few.jobs)}
    jobs = {name: np.tile(column, times) for name, column in columns.items() if column is not None}
    return dataclasses.replace(few, jobs=type(few.jobs)(**jobs))


def test_the_same_records_give_the_same_bytes(tmp_path):
    first, second = (write_tables(tmp_path / name, many_jobs(), "GSS") for name in "ab")
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert pl.read_parquet(first[0]).height == 100_000


@pytest.mark.parametrize("blocked", ["jobs.parquet", "nodes.csv"])
def test_a_file_that_cannot_be_written_is_named(tmp_path, blocked):
    (tmp_path / blocked).mkdir()
    with pytest.raises(OutputError) as caught:
        write_tables(tmp_path, whole_run(), None, csv=True)
    assert str(tmp_path / blocked) in str(caught.value)


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="file"):
        write_tables(tmp_path / "file", whole_run(), None)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_an_output_error(tmp_path):
    (tmp_path / "jobs.parquet").symlink_to("/dev/full")
    with pytest.raises(OutputError, match=r"jobs\.parquet"):
        write_tables(tmp_path, many_jobs(), None)


def test_many_chunks_on_a_full_disk_name_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("mlsim.record.table_blocks.LONG_ROWS", 1)
    (tmp_path / "chunks.parquet").symlink_to("/dev/full")
    with pytest.raises(OutputError, match=r"cannot write .*chunks\.parquet: No space left on device"):
        write_tables(tmp_path, whole_run(), "GSS")


def test_many_chunks_are_read_as_few_are(tmp_path, monkeypatch):
    write_tables(tmp_path / "few", whole_run(), "GSS", csv=True)
    monkeypatch.setattr("mlsim.record.table_blocks.LONG_ROWS", 1)
    monkeypatch.setattr("mlsim.record.table_blocks.CHUNK_ROWS", 1)
    written = write_tables(tmp_path / "many", whole_run(), "GSS", csv=True)
    assert [path.name for path in written if path.stem == "chunks"] == ["chunks.parquet", "chunks.csv"]
    few, many = (pl.read_parquet(tmp_path / which / "chunks.parquet") for which in ("few", "many"))
    assert few.schema == many.schema
    assert few.equals(many)
    assert (tmp_path / "few" / "chunks.csv").read_bytes() == (tmp_path / "many" / "chunks.csv").read_bytes()
