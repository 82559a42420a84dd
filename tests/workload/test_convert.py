"""Formats in and out: what is written reads back equal."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlsim.errors import InputError
from mlsim.scenario import WorkloadConfig
from mlsim.scenario.words import WorkloadFormat
from mlsim.workload import Field, JobBlock, open_workload, read_swf, write_swf
from mlsim.workload.derived_logs import convert
from mlsim.workload.format_record import Reading
from mlsim.workload.log_formats import LogReader, format_of, format_of_name
from mlsim.workload.parquet_log import read_parquet
from mlsim.workload.workload_jobs import LogBlock

FORMATS = {"swf": ".swf", "csv": ".csv", "parquet": ".parquet", "batsim": ".json"}
NAMES = [field.name for field in dataclasses.fields(LogBlock) if field.name not in ("asked", "after", "own")]
CODES = ("status", "user", "group", "executable", "queue", "partition")

seconds = st.one_of(st.integers(0, 10**9).map(float), st.floats(0, 1e12))
maybe = st.one_of(st.just(-1.0), seconds)
codes = st.one_of(st.just(-1), st.integers(0, 10**15 - 1)).map(float)  # longer ones are names to a CSV reader
rows = st.fixed_dictionaries(
    {
        "job_id": st.integers(0, 10**15 - 1).map(float),  # as with codes
        "submit_time": seconds,
        "run_time": seconds,
        "requested_processors": st.integers(1, 2**40).map(float),
        "requested_time": maybe,
    }
    | dict.fromkeys(CODES, codes)
)
headers = st.dictionaries(
    st.sampled_from(["MaxProcs", "UnixStartTime", "Computer"]),
    st.one_of(st.sampled_from(["240", "Thunder ünd Blitz"]), st.just(["1", "2"])),
)


def config_of(**values: object) -> WorkloadConfig:
    return WorkloadConfig.model_validate({"path": "log", **values})


def read(path: Path) -> tuple[LogBlock, dict]:
    reader = LogReader(path, WorkloadFormat.AUTO, Reading())
    log = LogBlock.concatenate(list(reader.blocks()))
    return log, reader.header


def columns(log: LogBlock) -> dict[str, list[float] | list[str]]:
    after = {} if log.after is None else {"dependencies": log.after.cells()}
    asked = {} if log.asked is None else log.asked.columns()
    return (
        {name: getattr(log, name).tolist() for name in NAMES}
        | {name: column.tolist() for name, column in asked.items()}
        | after
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    jobs=st.lists(rows, min_size=1, max_size=6),
    header=headers,
    way=st.lists(st.sampled_from(sorted(FORMATS)), min_size=1, max_size=4),
    packed=st.sampled_from(["", ".gz", ".bz2", ".xz", ".zst"]),
)
def test_jobs_survive_every_way_through_the_formats(
    tmp_path_factory: pytest.TempPathFactory,
    jobs: list[dict[str, float]],
    header: dict[str, str],
    way: list[str],
    packed: str,
) -> None:
    directory = tmp_path_factory.mktemp("way")
    source = directory / "log.swf"
    write_swf(source, header, {Field[name.upper()]: [job[name] for job in jobs] for name in jobs[0]})
    first, _ = read(source)
    for step, name in enumerate(way):
        target = directory / f"{step}{FORMATS[name]}{packed}"
        done = convert(config_of(), source, target, WorkloadFormat(name), as_simulated=False)
        assert (done.written, done.jobs, done.left_out) == (name, len(jobs), done.left_out)
        assert format_of(target) == name == format_of_name(target)
        source = target
    last, kept = read(source)
    assert columns(last) == columns(first)
    if "csv" not in way:
        assert {key: value for key, value in kept.items() if key != "nb_res"} == header


@pytest.mark.parametrize("name", ["csv", "parquet", "batsim"])
@pytest.mark.parametrize("clean", [False, True])
def test_what_jobs_ask_for_comes_back(tmp_path: Path, name: str, clean: bool) -> None:
    source = tmp_path / "a.csv"
    source.write_text(
        "job_id,submit_time,run_time,walltime,processors,units,request_memory,request_gpu\n"
        "4,0,60,60,4,2,8,\n5,8,1,2,3,,,1\n6,9,1,2,6,3,0,3\n"
    )
    target = tmp_path / f"b{FORMATS[name]}"
    done = convert(config_of(), source, target, WorkloadFormat(name), as_simulated=clean)
    assert done.left_out == []
    (log, header), (expected, _) = read(target), read(source)
    assert columns(log) == columns(expected)
    assert columns(log)["request_gpu"] == [-1, 1, 3]
    assert header["request_columns"] == ["units", "request_memory", "request_gpu"]
    assert "ignored_columns" not in header
    to_swf = convert(config_of(), target, tmp_path / "c.swf", WorkloadFormat.SWF, as_simulated=False)
    assert to_swf.left_out == ["units", "request_memory", "request_gpu"]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("b.json", '"units": 3', "job 1: res is 4; expected a multiple of the job's units"),
        ("b.json", '"request_gpu": 1.5', "job 1: request_gpu is 1.5; expected a whole number"),
        ("b.json", '"request_cores": 1', "request_cores: write the cores of a job as its processors"),
    ],
)
def test_requests_that_make_no_sense_are_told(tmp_path: Path, name: str, text: str, told: str) -> None:
    source = tmp_path / name
    source.write_text(
        f'{{"jobs": [{{"id": 1, "subtime": 0, "res": 4, "profile": "p", {text}}}],'
        ' "profiles": {"p": {"type": "delay", "delay": 1}}}'
    )
    with pytest.raises(InputError, match=told):
        read(source)


def test_requests_of_a_table_that_make_no_sense_are_told(tmp_path: Path) -> None:
    source = tmp_path / "a.parquet"
    table = {"job_id": [1], "submit_time": [0], "run_time": [1], "walltime": [1], "processors": [4]}
    pl.DataFrame(table | {"units": [3]}).write_parquet(source)
    with pytest.raises(InputError, match="row 1: processors is 4; expected a multiple of the job's units"):
        read(source)


@pytest.mark.parametrize("name", ["csv", "parquet", "batsim"])
def test_names_of_users_come_back(tmp_path: Path, name: str) -> None:
    source = tmp_path / "a.csv"
    source.write_text(
        "job_id,submit_time,run_time,walltime,processors,user,queue\n"
        '4,10,60,,4,zoe,7\n3,7.5,1,2,3,"ad, am",\n5,8,1,2,3,,9\n6,8,0.1,2,3,zoe,9\n'
    )
    target = tmp_path / f"b{FORMATS[name]}"
    convert(config_of(), source, target, WorkloadFormat(name), as_simulated=False)
    assert columns(read(target)[0]) == columns(read(source)[0])
    assert read(target)[1]["user_names"] == ["zoe", "ad, am"]


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_loops_and_unknown_times_come_back(tmp_path: Path, name: str) -> None:
    source = tmp_path / "a.csv"
    source.write_text(
        "job_id,submit_time,run_time,walltime,processors,loop_iterations,loop_limit\n"
        "4,-1,,,4,100,\n3,7.5,1,2,-1,,9\n"
    )
    target = tmp_path / f"b{FORMATS[name]}"
    done = convert(config_of(), source, target, WorkloadFormat(name), as_simulated=False)
    assert columns(read(target)[0]) == columns(read(source)[0])
    assert done.left_out == []
    with pytest.raises(InputError, match=r"jobs without submit time: 1; the first is job 4(.|\n)*--clean"):
        convert(config_of(), source, tmp_path / "c.json", WorkloadFormat.BATSIM, as_simulated=False)
    assert not (tmp_path / "c.json").exists()
    lost = convert(config_of(), source, tmp_path / "c.swf", WorkloadFormat.SWF, as_simulated=False).left_out
    assert lost == ["loop_iterations", "loop_limit"]


def test_swf_keeps_every_column_and_the_extra_ones(tmp_path: Path) -> None:
    source, target = tmp_path / "a.swf", tmp_path / "b.swf.gz"
    values = {field: [float(7 * field + 1), -1.0] for field in Field}
    values[Field.JOB_ID] = [1, 2]
    write_swf(source, {"Note": ["a", "b"]}, values, [("x", "1.50"), ("y", "?")])
    convert(config_of(), source, target, WorkloadFormat.SWF, as_simulated=False)
    for one, other in zip(read_swf(source, extras=True), read_swf(target, extras=True), strict=True):
        if isinstance(one, dict):
            assert one == other == {"Note": ["a", "b"]}
        else:
            assert one.columns.tolist() == other.columns.tolist()
            assert one.extras == other.extras == [("x", "1.50"), ("y", "?")]
    done = convert(config_of(), source, tmp_path / "c.parquet", WorkloadFormat.PARQUET, as_simulated=False)
    assert {"used_memory", "average_cpu_time"} <= set(done.left_out)
    assert pl.read_parquet(tmp_path / "c.parquet")["recorded_start"].to_list() == [8.0 + 15.0, -1.0]
    assert not {"preceding_job", "think_time"} & set(done.left_out)  # as columns of their own


def test_what_a_simulation_gets(tmp_path: Path) -> None:
    source = tmp_path / "a.swf"
    write_swf(
        source,
        {"UnixStartTime": "1000", "MaxJobs": "4", "MaxProcs": "16"},
        {
            Field.JOB_ID: [4, 3, 2, 1],
            Field.SUBMIT_TIME: [70, 50, 60, 80],
            Field.RUN_TIME: [9, 0, -1, 5],
            Field.ALLOCATED_PROCESSORS: [2, 3, 4, 5],
            Field.REQUESTED_PROCESSORS: [-1, 8, 8, 8],
        },
    )
    config = config_of(select={"first": 2})
    for name, suffix in FORMATS.items():
        target = tmp_path / f"b{suffix}"
        done = convert(config, source, target, WorkloadFormat(name), as_simulated=True)
        assert done.notes["unknown_run_time"] == 1
        jobs = JobBlock.concatenate(list(open_workload(config_of(), target, 99).blocks()))
        assert jobs.job_id.tolist() == [3, 4]
        assert jobs.submit_time.tolist() == [0, 20]
        assert (jobs.run_time.tolist(), jobs.walltime.tolist()) == ([0, 9], [1, 9])
        assert jobs.processors.tolist() == [8, 2]
        if name != "csv":
            _, header = read(target)
            assert header["UnixStartTime"] == "1050"
            assert "MaxJobs" not in header


def test_parquet_of_any_types(tmp_path: Path) -> None:
    path = tmp_path / "log"
    table = pl.DataFrame(
        {
            "job_id": pl.Series([1, 2], dtype=pl.UInt8),
            "submit_time": pl.Series([0.5, 1.5], dtype=pl.Float32),
            "run_time": [None, float("nan")],
            "walltime": ["60", " 90 "],
            "processors": pl.Series([1, None], dtype=pl.Int16),
            "user": pl.Series(["b", "a"], dtype=pl.Categorical),
            "nodes": ["0-3", "7"],
        }
    )
    table.write_parquet(path)
    log = read_parquet(path)
    assert log.jobs.submit_time.tolist() == [0.5, 1.5]
    assert log.jobs.run_time.tolist() == [-1, -1]
    assert log.jobs.requested_time.tolist() == [60, 90]
    assert log.jobs.requested_processors.tolist() == [1, -1]
    assert log.jobs.user.tolist() == [1, 2]
    assert log.header == {"user_names": ["b", "a"], "ignored_columns": ["nodes"]}
    assert format_of(path) is WorkloadFormat.PARQUET


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run_time": [1.0, -7.0]}, "row 2: run_time is -7.0; expected seconds from 0 up"),
        ({"job_id": [1.5, 2.0]}, "row 1: job_id is 1.5; expected a whole number from 0 up"),
        ({"submit_time": [0.0, None]}, "row 2: submit_time is None"),
        ({"processors": [True, False]}, "row 1: processors is True"),
        ({"processors": [[1], [2]]}, r"column processors is of type List\(Int64\)"),
        ({"run_time": None}, "column run_time is missing"),
    ],
)
def test_wrong_parquet(tmp_path: Path, change: dict[str, list | None], message: str) -> None:
    path = tmp_path / "log.parquet"
    columns = {"job_id": [1, 2], "submit_time": [0, 1], "run_time": [5, 6], "walltime": [7, 8]}
    columns |= {"processors": [1, 1]} | change
    pl.DataFrame({name: values for name, values in columns.items() if values is not None}).write_parquet(path)
    with pytest.raises(InputError, match=message):
        read_parquet(path)
    if "row" in message:
        log = read_parquet(path, Reading(lenient=True))
        assert log.broken_lines + len(log.jobs) == 2
        assert log.broken_lines > 0


def test_a_broken_parquet_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        open_workload(config_of(), path, 4)


def test_the_jobs_of_a_run_are_a_workload(tmp_path: Path) -> None:
    import mlsim
    from mlsim.scenario import from_mapping

    write_swf(
        tmp_path / "a.swf",
        {},
        {
            Field.JOB_ID: [1, 2, 3],
            Field.SUBMIT_TIME: [5, 6, 7],
            Field.RUN_TIME: [10, 10, 10],
            Field.REQUESTED_PROCESSORS: [2, 99, 2],
            Field.REQUESTED_TIME: [20, 20, 20],
        },
    )
    scenario = {
        "name": "a",
        "platform": {"nodes": [{"name": "n", "count": 1, "cores": 2}]},
        "workload": {"path": str(tmp_path / "a.swf"), "mapping": "core"},
        "output": {"pictures": False},
    }
    mlsim.run(from_mapping(scenario), out=tmp_path / "run")
    again = open_workload(config_of(), tmp_path / "run" / "jobs.parquet", 2)
    jobs = JobBlock.concatenate(list(again.blocks()))
    assert jobs.job_id.tolist() == [1, 3]  # the rejected one has no run time
    assert np.array_equal(jobs.walltime, [20, 20])
    assert again.notes == {"unknown_run_time": 1}
