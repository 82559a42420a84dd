"""Names behind codes: in headers, from one format to another, and in the tables of a run."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlsim
from mlsim.batch.columns.job_columns import JobTable
from mlsim.batch.job_recorder import JobRecorder
from mlsim.batch.room.unit_requests import Requests
from mlsim.errors import InputError
from mlsim.record.parquet_tables import read_tables
from mlsim.scenario import WorkloadConfig
from mlsim.scenario.words import Mapping, WorkloadFormat
from mlsim.workload import names_of
from mlsim.workload.derived_logs import convert
from mlsim.workload.format_record import Reading
from mlsim.workload.log_fields import directives_of
from mlsim.workload.log_formats import LogReader, format_of_name
from tests.batch.builders import block, machine

CSV = """job_id,submit_time,run_time,walltime,processors,user,group,executable,queue,partition,qos
1,0,10,20,1,ada,staff,solver,day,gpu,high
2,1,10,20,1,,staff,mesher,night,cpu,
3,2,10,20,1,bob,,solver,day,gpu,low
4,3,10,20,4,ada,guests,,day,,high
"""
COLUMNS = ("user", "group", "executable", "queue", "partition", "qos")
QUEUES = "; Queue: 0 interactive\n; Queue:  1  - [fast: 1]\n; Queue: 2\n; Partition: 5 cpu\n"


def swf(tmp_path, header=QUEUES, queues=(0, 1, 0, -1)):
    path = tmp_path / "log.swf"
    rest = "5 -1 -1"
    lines = [f"{k} {k} 0 10 1 -1 -1 1 20 -1 1 7 -1 -1 {queue} {rest}" for k, queue in enumerate(queues, 1)]
    path.write_text(header + "\n".join(lines) + "\n")
    return path


def worded(path):
    """Read a log: its columns of codes as names where they have some."""
    reader = LogReader(path, WorkloadFormat.AUTO, Reading())
    (block,) = reader.blocks()
    names = names_of(reader.header)
    columns = {}
    for column in COLUMNS:
        codes = getattr(block, column).astype(int).tolist()
        columns[column] = [names.get(column, {}).get(code, None if code < 0 else code) for code in codes]
    return columns


def test_headers_say_names_in_two_ways(tmp_path):
    path = swf(tmp_path)
    columns = worded(path)
    assert columns["queue"] == ["interactive", "[fast: 1]", "interactive", None]
    assert columns["partition"] == ["cpu"] * 4
    assert columns["user"] == [7] * 4
    header = {"Queue": "3 night", "Queues": "two of them", "Partition": ["none", "1 a", "02 b"]}
    assert names_of(header) == {"queue": {3: "night"}, "partition": {1: "a", 2: "b"}}
    assert names_of({"user_names": ["x", "", "y"], "User": "1 z"}) == {"user": {1: "x", 3: "y"}}


NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=0x17F), min_size=1, max_size=8)


@given(st.dictionaries(st.integers(0, 10**9), NAMES, max_size=4), st.sampled_from(COLUMNS))
def test_lines_of_names_read_back_equal_or_are_left_out(names, column):
    back = names_of(directives_of({column: names})).get(column, {})
    assert back.items() <= names.items()
    plain = {code: name for code, name in names.items() if name.isalnum() and name.isascii()}
    assert plain.items() <= back.items()


@pytest.mark.parametrize(
    "steps", [("swf",), ("parquet",), ("json",), ("csv",), ("swf", "json", "csv", "parquet")]
)
@pytest.mark.parametrize("cleaned", [False, True])
def test_conversion_keeps_names(tmp_path, steps, cleaned):
    source = tmp_path / "a.csv"
    source.write_text(CSV)
    wanted = worded(source)
    config = WorkloadConfig(path="a")
    for place, suffix in enumerate(steps):
        target = tmp_path / f"{place}.{suffix}"
        done = convert(config, source, target, format_of_name(target), as_simulated=cleaned)
        assert not [name for name in done.left_out if "names" in name]
        source = target
    if "swf" in steps:
        done = convert(config, tmp_path / "a.csv", tmp_path / "b.swf", WorkloadFormat.SWF, as_simulated=False)
        assert "qos" in done.left_out
        wanted.pop("qos")
    found = worded(source)
    assert {column: found[column] for column in wanted} == wanted


def test_names_of_a_log_go_into_the_cells_of_a_csv_only_where_they_tell_the_codes_apart(tmp_path):
    config, target = WorkloadConfig(path="a"), tmp_path / "a.csv"
    convert(config, swf(tmp_path), target, WorkloadFormat.CSV, as_simulated=False)
    assert pl.read_csv(target)["queue"].to_list() == ["interactive", "[fast: 1]", "interactive", None]
    assert pl.read_csv(target)["user"].to_list() == [7] * 4
    for header, queues in ((QUEUES, (0, 2, 0, 0)), ("; Queue: 0 a\n; Queue: 1 a\n", (0, 1, 0, 0))):
        convert(config, swf(tmp_path, header, queues), target, WorkloadFormat.CSV, as_simulated=False)
        assert pl.read_csv(target)["queue"].to_list() == list(queues)
    # Formats with a header keep the codes, and the names beside them.
    convert(config, swf(tmp_path), tmp_path / "a.parquet", WorkloadFormat.PARQUET, as_simulated=False)
    assert pl.read_parquet(tmp_path / "a.parquet")["queue"].to_list() == [0, 1, 0, -1]
    assert worded(tmp_path / "a.parquet") == worded(swf(tmp_path))


def scenario(tmp_path, log, **select):
    path = tmp_path / "s.yaml"
    path.write_text(
        json.dumps(
            {
                "platform": {"nodes": [{"name": "n", "count": 2, "cores": 1}]},
                "workload": {"path": str(log), "mapping": "node", "select": select},
                "application": {"model": "rigid"},
            }
        )
    )
    return path


@pytest.mark.parametrize("engine", ["replay", "simpy"])
def test_a_run_keeps_codes_and_names(tmp_path, engine):
    log = tmp_path / "log.csv"
    log.write_text(CSV)
    run = mlsim.run(scenario(tmp_path, log), overrides={"batch.engine": engine}, out=tmp_path / "run")
    for jobs in (run.jobs, pl.read_parquet(tmp_path / "run" / "jobs.parquet")):
        assert jobs["user"].to_list() == [1, -1, 2, 1]
        assert jobs["user_name"].to_list() == ["ada", None, "bob", "ada"]
        assert jobs["qos"].to_list() == [1, -1, 2, 1]
        assert jobs["qos_name"].to_list() == ["high", None, "low", "high"]
        assert jobs["partition_name"].to_list() == ["gpu", "cpu", "gpu", None]
        assert isinstance(jobs["queue_name"].dtype, pl.Enum)
    # The job that is larger than the machine never starts.
    assert run.by("queue").select("queue", "jobs").rows() == [("day", 2), ("night", 1)]
    assert run.by("qos")["qos"].to_list() == ["unknown", "high", "low"]
    back = read_tables(tmp_path / "run")
    assert back.names.of == run.records.names.of
    assert np.array_equal(back.jobs.qos, run.records.jobs.qos)
    # The table of a run is a workload, with names.
    assert worded(tmp_path / "run" / "jobs.parquet") == worded(log)


def test_a_run_without_names_has_no_columns_of_names(tmp_path):
    run = mlsim.run(scenario(tmp_path, swf(tmp_path, header="")))
    assert not [name for name in run.jobs.columns if name.endswith("_name") or name == "qos"]
    assert run.records.names.of == {}
    assert run.records.jobs.qos is None


def test_codes_that_share_a_name_stay_apart(tmp_path):
    header = "; Queue: 0 same\n; Queue: 1 same\n"
    run = mlsim.run(scenario(tmp_path, swf(tmp_path, header)), out=tmp_path / "run")
    assert run.jobs["queue_name"].to_list() == ["same", "same", "same", None]
    assert run.by("queue")["queue"].to_list() == ["unknown", "same (0)", "same (1)"]
    assert read_tables(tmp_path / "run").names.of["queue"] == {0: "same", 1: "same"}


def test_users_are_selected_by_the_names_of_any_header(tmp_path):
    log = swf(tmp_path, "; User: 7 grace\n")
    assert mlsim.run(scenario(tmp_path, log, user="grace")).jobs.height == 4
    with pytest.raises(InputError, match="there is no user 'hopper'"):
        mlsim.run(scenario(tmp_path, log, user="hopper"))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(-1, 2), min_size=1, max_size=12))
def test_classes_of_service_are_kept_from_the_first_job_on_that_has_one(codes):
    n = len(codes)
    ones = np.ones(n)
    jobs = replace(block(ones, ones, ones, ones), qos=np.array(codes, np.int64))
    table = JobTable(capacity=n)
    slots = table.admit(jobs, np.ones(n, np.int64))
    recorder = JobRecorder(table, Requests.on(machine(2), Mapping.NODE))
    for slot in slots[::-1]:  # jobs leave in another order than they came
        recorder.record_ended(np.array([slot]))
    found = recorder.jobs().qos
    assert (found is None and set(codes) == {-1}) or found.tolist() == codes
