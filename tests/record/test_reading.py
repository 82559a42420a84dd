"""Tables read back are the tables that were written."""

from dataclasses import fields, replace

import numpy as np
import polars as pl
import pytest

from mlsim.errors import InputError
from mlsim.record import Attempts, Chunks, Passes
from mlsim.record.parquet_tables import read_tables, write_tables
from tests.record.builders import random_records
from tests.record.test_writing import whole_run
from tests.reference.runs import Job, Stay, records_of


def tables_of(records):
    """The fields that are tables; the calendar is kept in the summary."""
    return [field for field in fields(records) if field.name != "calendar"]


def assert_same(one, other):
    for table in tables_of(one):
        for column in fields(getattr(one, table.name)):
            first, second = (getattr(getattr(run, table.name), column.name) for run in (one, other))
            if first is None or isinstance(first, list):
                assert first == second, (table.name, column.name)
            else:
                np.testing.assert_array_equal(first, second, f"{table.name}.{column.name}")


def test_every_table_comes_back(tmp_path):
    passes = Passes(*(np.arange(3).astype(kind) for kind in (float, int, int, int, int, float)))
    run = replace(whole_run(), passes=passes)
    counted = replace(run.jobs, dispatch_time=np.array([0.5, 0.25, np.nan, 0.0]))
    for name, written in (("plain", run), ("counted", replace(run, jobs=counted))):
        write_tables(tmp_path / name, written, "GSS")
        read = read_tables(tmp_path / name)
        assert_same(written, read)
        for table in tables_of(read):
            for column in fields(getattr(read, table.name)):
                values = getattr(getattr(read, table.name), column.name)
                if isinstance(values, np.ndarray):
                    expected = getattr(getattr(written, table.name), column.name).dtype
                    assert values.dtype == expected, (table.name, column.name)
                    assert values.flags.writeable


@pytest.mark.parametrize("seed", range(20))
def test_random_runs_come_back(tmp_path, seed):
    run = random_records(seed)
    write_tables(tmp_path, run, None)
    assert_same(run, read_tables(tmp_path))


def test_tables_can_be_left_out(tmp_path):
    write_tables(tmp_path, whole_run(), "GSS")
    read = read_tables(tmp_path, without=["chunks", "passes"])
    assert len(read.chunks.job) == 0
    assert len(read.loops.job) == 1


def test_jobs_of_one_identifier_are_told_apart_by_time(tmp_path):
    jobs = [Job(0, 0, 10, job_id=7), Job(1, 20, 30, job_id=7), Job(2, 5, 6, job_id=3)]
    stays = [Stay(0, 0, 1, 1, 0, 10), Stay(2, 1, 1, 1, 5, 6), Stay(1, 0, 1, 1, 20, 30)]
    write_tables(tmp_path, records_of(jobs, stays, [1, 1]), None)
    assert read_tables(tmp_path).occupancy.job.tolist() == [0, 2, 1]


def test_attempts_of_jobs_of_one_identifier_are_told_apart_by_time(tmp_path):
    """The first of them has failed at 4 s, and had started again when the second had ended."""
    jobs = [Job(0, 20, 30, job_id=7), Job(1, 5, 10, job_id=7), Job(2, 40, 41, job_id=3)]
    stays = [
        Stay(0, 0, 1, 1, 0, 4),
        Stay(1, 0, 1, 1, 5, 10),
        Stay(0, 0, 1, 1, 20, 30),
        Stay(2, 0, 1, 1, 40, 41),
    ]
    failed = Attempts(*(np.array([value]) for value in (0, 0, 0.0, 4.0, 0.0, 4.0, 4.0)))
    chunks = Chunks(
        *(np.zeros(3, kind) for kind in (np.int64, np.int32, np.int64, np.int64, np.int64)),
        *(np.array(times) for times in ([0.0, 20, 5], [0.0, 20, 5], [4.0, 30, 10])),
        attempt=np.array([1, 2, 1], np.int32),
    )
    run = replace(records_of(jobs, stays, [1]), attempts=failed)
    run = replace(run, chunks=replace(chunks, job=np.array([0, 0, 1])))
    write_tables(tmp_path, run, None)
    assert_same(run, read_tables(tmp_path))
    rename(tmp_path / "jobs.parquet", "restarts", [2, 0, 0])
    with pytest.raises(InputError, match="has 1 rows, and"):
        read_tables(tmp_path)


def test_columns_of_later_versions_do_no_harm(tmp_path):
    write_tables(tmp_path, whole_run(), "GSS")
    path = tmp_path / "jobs.parquet"
    pl.read_parquet(path).with_columns(pl.lit(1.0).alias("energy")).write_parquet(path)
    assert_same(whole_run(), read_tables(tmp_path))


def drop(path, column):
    pl.read_parquet(path).drop(column).write_parquet(path)


def rename(path, column, values):
    frame = pl.read_parquet(path)
    frame.with_columns(pl.Series(column, values)).write_parquet(path)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda d: (d / "jobs.parquet").unlink(), "jobs.parquet: there is no such file"),
        (lambda d: (d / "nodes.parquet").write_text("no"), "nodes.parquet: cannot be read as Parquet"),
        (lambda d: drop(d / "jobs.parquet", "working"), "jobs.parquet: there is no column 'working'"),
        (
            lambda d: rename(d / "occupancy.parquet", "job_id", [7, 7, 99]),
            "occupancy.parquet: job 99 is not in jobs.parquet",
        ),
        (lambda d: rename(d / "jobs.parquet", "state", ["lost"] * 4), "jobs.parquet: column 'state'"),
        (lambda d: rename(d / "jobs.parquet", "job_id", [7] * 4), "same job_id, which cannot be told apart"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, harm, words):
    write_tables(tmp_path, whole_run(), "GSS")
    harm(tmp_path)
    if "told apart" in words:
        rename(tmp_path / "loops.parquet", "job_id", [7])
        rename(tmp_path / "occupancy.parquet", "job_id", [7] * 3)
    with pytest.raises(InputError, match=words):
        read_tables(tmp_path)
