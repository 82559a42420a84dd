"""Logs as other programs write them: what they are taken for, and what is read of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import mlsim
from mlsim.errors import InputError
from mlsim.scenario import WorkloadConfig
from mlsim.scenario.words import NeverRan, WorkloadFormat, WorkloadModel
from mlsim.verify import judge
from mlsim.workload import JobBlock, open_workload
from mlsim.workload.derived_logs import convert
from mlsim.workload.format_record import Reading
from mlsim.workload.log_formats import FORMATS, LogReader, format_of
from mlsim.workload.models.model_base import model_record
from mlsim.workload.workload_jobs import LogBlock

HEAD = "JobIDRaw|Submit|ElapsedRaw|TimelimitRaw|ReqCPUS|State|User"
ROW = "7|2026-03-01T08:00:00|3600|120|64|COMPLETED|ada"
START = 1772352000  # 2026-03-01T08:00:00, as if UTC


def written(directory: Path, text: str, name: str = "log.txt") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def read(path: Path, **options: Any) -> tuple[LogReader, LogBlock]:
    reader = LogReader(path, "auto", Reading(**options))
    return reader, LogBlock.concatenate(list(reader.blocks()))


def jobs_of(path: Path, **options: Any) -> JobBlock:
    config = WorkloadConfig(path=str(path), **options)
    return JobBlock.concatenate(list(open_workload(config, path, 1000).blocks()))


# sacct


@pytest.mark.parametrize("delimiter", ["|", ",", "\t", ";"])
def test_any_delimiter_stands_between_cells_of_sacct(tmp_path: Path, delimiter: str) -> None:
    path = written(tmp_path, f"{HEAD}\n{ROW}\n".replace("|", delimiter))
    assert format_of(path) is WorkloadFormat.SACCT
    _, log = read(path)
    assert (log.job_id.tolist(), log.requested_processors.tolist()) == ([7], [64])
    assert (log.run_time.tolist(), log.requested_time.tolist()) == ([3600], [7200])


def test_amounts_that_commas_divide_are_joined(tmp_path: Path) -> None:
    head = "JobID,ReqTRES,Submit,ElapsedRaw,TimelimitRaw,ReqCPUS,JobName"
    rows = (
        "8,billing=4,cpu=4,gres/gpu=2,node=1,2026-03-01T08:00:00,5,6,4,x=1\n9,,2026-03-01T08:00:00,5,6,4,y\n"
    )
    _, log = read(written(tmp_path, f"{head}\n{rows}"))
    assert log.asked is not None
    assert log.asked.totals.tolist() == [[2], [-1]]
    quoted = '10,"cpu=4,gres/gpu=3",2026-03-01T08:00:00,5,6,4,"a,b"\n'
    reader, log = read(written(tmp_path, f"{head}\n{quoted}"))
    assert log.asked is not None
    assert log.asked.totals.tolist() == [[3]]
    assert reader.header["executable_names"] == ["a,b"]


def test_files_end_to_end_and_the_rest_of_an_array_are_no_jobs(tmp_path: Path) -> None:
    head = HEAD.replace("JobIDRaw", "JobID")
    rest = (
        ROW.replace("7|", "7_[3-10%2]|").replace("3600|120", "0|120").replace("COMPLETED", "CANCELLED by 5")
    )
    rows = [ROW.replace("7|", f"{job}|") for job in ("7_1", "7_2", "7_2.batch", "8+0")]
    path = written(tmp_path, "\n".join([head, rest, *rows[:2], head, *rows[2:], ""]))
    reader, log = read(path)
    assert log.job_id.tolist() == [1, 2, 3]
    assert reader.header["job_names"] == ["7_1", "7_2", "8"]
    assert reader.counts == {"array_rests": 1, "steps": 1}


def test_cells_that_are_cut_short_are_refused_by_name(tmp_path: Path) -> None:
    text = "JobID           State\n------------ ----------\n1001         COMPLETED\n"
    with pytest.raises(InputError, match="sacct prints without --parsable2"):
        read(written(tmp_path, text))


def test_what_one_column_leaves_empty_another_says(tmp_path: Path) -> None:
    head = "JobIDRaw|Submit|ElapsedRaw|Elapsed|TimelimitRaw|Timelimit|ReqCPUS|AllocCPUS|"
    head += "ReqTRES|AllocTRES|Group|Account"
    rows = [
        "1|2026-03-01T08:00:00||00:01:00||00:05:00||4||cpu=4,mem=1M,gres/gpu=2||phys",
        "2|2026-03-01T08:00:00|60|00:02:00|5|00:06:00|4|8|cpu=4,mem=1M,gres/gpu=2|cpu=8,gres/gpu=4|g|phys",
    ]
    reader, log = read(written(tmp_path, "\n".join([head, *rows, ""])))
    assert log.run_time.tolist() == [60, 60]
    assert log.requested_time.tolist() == [300, 300]
    assert log.requested_processors.tolist() == [4, 4]
    assert log.asked is not None
    np.testing.assert_array_equal(log.asked.totals[0], log.asked.totals[1])
    assert reader.header["group_names"] == ["phys", "g"]


def in_json(**changes: object) -> dict[str, object]:
    job = {
        "job_id": 1001,
        "name": "cfd",
        "partition": "batch",
        "qos": "normal",
        "group": "g",
        "association": {"user": "ada", "account": "acc"},
        "required": {"CPUs": 64},
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "time": {
            "elapsed": 3600,
            "submission": START,
            "start": START + 5,
            "end": START + 3605,
            "limit": {"set": True, "infinite": False, "number": 120},
        },
        "tres": {
            "requested": [
                {"type": "cpu", "name": "", "count": 64},
                {"type": "mem", "name": "", "count": 1000},
                {"type": "gres", "name": "gpu", "count": 2},
            ],
            "allocated": [],
        },
    }
    return job | changes


@pytest.mark.parametrize("indent", [None, 1])
def test_json_of_sacct(tmp_path: Path, indent: int | None) -> None:
    older = in_json(job_id=1002, state={"current": "FAILED"})
    older["time"] = {**older["time"], "limit": 60}  # type: ignore[dict-item]
    path = written(tmp_path, json.dumps({"jobs": [in_json(), older], "meta": {}}, indent=indent))
    assert format_of(path) is WorkloadFormat.SACCT
    reader, log = read(path)
    assert log.job_id.tolist() == [1001, 1002]
    assert log.run_time.tolist() == [3600, 3600]
    assert log.requested_time.tolist() == [7200, 3600]
    assert log.status.tolist() == [1, 0]
    assert reader.header["user_names"] == ["ada"]
    assert reader.header["UnixStartTime"] == str(START)
    assert log.asked is not None
    assert log.asked.names == ("memory", "gpu")
    assert log.asked.totals[0].tolist() == [1049, 2]
    no_limit = in_json(time={**in_json()["time"], "limit": {"set": False, "infinite": True, "number": 0}})  # type: ignore[dict-item]
    _, log = read(written(tmp_path, json.dumps({"jobs": [no_limit], "meta": {}})))
    assert log.requested_time.tolist() == [-1]


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (in_json(state={"current": ["RUNNING"]}), "holds no job that ended"),
        (in_json(time={"elapsed": "x", "submission": 5}), "job 1: ElapsedRaw is 'x'; expected a time"),
        (3, "job 1: JobIDRaw is ''"),
    ],
)
def test_jobs_in_json_that_make_no_sense(tmp_path: Path, job: object, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read(written(tmp_path, json.dumps({"jobs": [job], "meta": {"plugin": {}}})))


# Jobs that never ran

NEVER = """\
JobIDRaw|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|State
1|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T09:00:00|3600|60|3|COMPLETED
2|2026-03-01T08:00:10|None|2026-03-01T08:00:20|0|60|4|CANCELLED by 1000
3|2026-03-01T08:00:30|2026-03-01T08:00:30|2026-03-01T10:00:30|7200|120|1|COMPLETED
4|2026-03-01T08:00:40|2026-03-01T08:00:40|2026-03-01T08:00:41|1|120|1|CANCELLED by 1000
"""


@pytest.mark.parametrize(
    ("rule", "ids", "patience"), [(None, 4, 10), ("withdraw", 4, 10), ("leave-out", 3, None), ("keep", 4, -1)]
)
def test_what_becomes_of_jobs_that_never_ran(
    tmp_path: Path, rule: str | None, ids: int, patience: float | None
) -> None:
    rule_ = None if rule is None else NeverRan(rule)
    jobs = jobs_of(written(tmp_path, NEVER), never_ran=rule_)
    assert len(jobs) == ids
    found = jobs.patience[jobs.job_id == 2].tolist()
    assert found == ([] if patience is None else [patience])
    assert (jobs.patience[jobs.job_id != 2] == -1).all()


@pytest.mark.parametrize("engine", ["simpy", "replay"])
def test_a_withdrawn_job_holds_nobody_up(tmp_path: Path, engine: str) -> None:
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 4, "cores": 1}]},
        "workload": {"path": str(written(tmp_path, NEVER)), "mapping": "node"},
        "batch": {"backfill": "easy", "engine": engine},
    }
    result = mlsim.run(scenario)
    assert result.jobs["state"].to_list() == ["completed", "withdrawn", "completed", "completed"]
    assert result.jobs["start_time"].to_list() == [0.0, None, 30.0, 3600.0]
    assert result.jobs["withdraw_time"].to_list() == [None, 20.0, None, None]
    assert result.summary["jobs"]["withdrawn"] == 1
    assert result.summary["wait_time"]["mean"] == pytest.approx((3600 - 40) / 3)
    assert result.summary["workload"]["log"]["never_ran"] == 1
    assert all(verdict.is_kept for verdict in judge(result.records, result.scenario, "easy"))
    again = {**scenario, "workload": {"mapping": "node"}}
    once_more = mlsim.run(again, workload=result.jobs)
    assert once_more.jobs["state"].to_list() == result.jobs["state"].to_list()
    assert once_more.jobs["start_time"].to_list() == result.jobs["start_time"].to_list()


SWF = """\
; MaxProcs: 8
1 0 5 100 2 -1 -1 2 200 -1 1 1 1 1 1 1 -1 -1
2 5 10 -1 -1 -1 -1 4 400 -1 5 2 1 1 1 1 -1 -1
3 6 20 0 -1 -1 -1 4 400 -1 5 2 1 1 1 1 -1 -1
4 7 -1 0 -1 -1 -1 4 400 -1 5 2 1 1 1 1 -1 -1
"""


def test_the_wait_of_swf_is_read_as_that_of_a_withdrawn_job_where_the_scenario_says_so(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, SWF, "log.swf")
    jobs = jobs_of(path)  # by the rules of cleaning
    assert (jobs.job_id.tolist(), jobs.patience.tolist()) == ([1, 3, 4], [-1, -1, -1])
    jobs = jobs_of(path, never_ran="withdraw")
    assert (jobs.job_id.tolist(), jobs.patience.tolist()) == ([1, 2, 3, 4], [-1, 10, 20, -1])
    assert jobs.run_time.tolist() == [100, 0, 0, 0]
    assert jobs_of(path, never_ran="leave-out").job_id.tolist() == [1]
    assert jobs_of(path, never_ran="keep").job_id.tolist() == [1, 3, 4]
    dropped = jobs_of(path, never_ran="withdraw", cleaning={"zero_run_time": "drop"})
    assert dropped.job_id.tolist() == [1]


def test_withdrawals_survive_conversion_and_load(tmp_path: Path) -> None:
    source = written(tmp_path, NEVER)
    for suffix in ("csv", "parquet", "json"):
        target = tmp_path / f"again.{suffix}"
        convert(
            WorkloadConfig(path=str(source)),
            source,
            target,
            {"csv": WorkloadFormat.CSV, "parquet": WorkloadFormat.PARQUET}.get(suffix, WorkloadFormat.BATSIM),
            as_simulated=False,
        )
        assert jobs_of(target).patience.tolist() == [-1, 10, -1, -1]
    faster = jobs_of(source, select={"scale_load": 2.0})
    assert faster.submit_time.tolist() == [0, 5, 15, 20]
    assert faster.withdrawals().tolist() == [np.inf, 15, np.inf, np.inf]


# Bursts of SWF

BURSTS = """\
1 0 0 100 2 -1 -1 2 200 -1 1 1 1 1 1 1 -1 -1
2 5 0 300 4 -1 -1 4 400 -1 1 2 1 1 1 1 -1 -1
2 5 0 100 4 -1 -1 4 400 -1 2 2 1 1 1 1 -1 -1
2 -1 20 200 4 -1 -1 4 400 -1 3 2 1 1 1 1 -1 -1
3 8 0 20 1 -1 -1 1 30 -1 2 3 1 1 1 1 -1 -1
"""


def test_parts_of_an_interrupted_job_are_no_jobs(tmp_path: Path) -> None:
    path = written(tmp_path, BURSTS, "log.swf")
    reader, log = read(path)
    assert log.job_id.tolist() == [1, 2, 3]  # one without a line of the whole stays
    assert log.run_time.tolist() == [100, 300, 20]
    assert reader.counts == {"bursts": 2}
    workload = open_workload(WorkloadConfig(path=str(path)), path, 8)
    assert workload.notes == {"bursts": 2}
    target = tmp_path / "same.swf"
    convert(WorkloadConfig(path=str(path)), path, target, WorkloadFormat.SWF, as_simulated=False)
    assert target.read_text() == BURSTS  # a log is converted as it is


def test_parts_in_the_next_block_are_no_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlsim.workload.log_formats._BLOCK_JOBS", 2)
    reader, log = read(written(tmp_path, BURSTS, "log.swf"))
    assert log.job_id.tolist() == [1, 2, 3]
    assert reader.counts == {"bursts": 2}


# Identifiers

LARGE = [2**53 + 1, 2**53 + 2, 2**63 - 1]


def with_ids(ids: list[object]) -> pl.DataFrame:
    n = len(ids)
    return pl.DataFrame(
        {
            "job_id": ids,
            "submit_time": list(range(n)),
            "run_time": [10] * n,
            "walltime": [10] * n,
            "processors": [1] * n,
        }
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet", "swf", "json"])
def test_identifiers_are_exact_in_every_format(tmp_path: Path, suffix: str) -> None:
    source = tmp_path / "first.csv"
    with_ids(LARGE).with_columns(
        preceding_job=pl.Series([None, LARGE[0], LARGE[1]]),
        dependencies=pl.Series([None, None, f"afterok:{LARGE[0]}"]) if suffix != "swf" else pl.lit(None),
    ).write_csv(source)
    to = {known.value: known for known in WorkloadFormat} | {"json": WorkloadFormat.BATSIM}
    target = tmp_path / f"log.{suffix}"
    convert(WorkloadConfig(path=str(source)), source, target, to[suffix], as_simulated=False)
    _, log = read(target)
    assert log.job_id.tolist() == LARGE
    assert log.preceding_job.tolist() == [-1, LARGE[0], LARGE[1]]
    if suffix != "swf":
        assert log.after is not None
        assert log.after.job.tolist() == [LARGE[0]]
    jobs = jobs_of(target, dependencies=True)
    assert jobs.job_id.tolist() == LARGE


@pytest.mark.parametrize("suffix", ["csv", "parquet", "json"])
def test_names_of_jobs_are_kept_and_can_be_waited_for(tmp_path: Path, suffix: str) -> None:
    source = tmp_path / "first.csv"
    with_ids(["12_1", "12_2", "9"]).with_columns(
        dependencies=pl.Series([None, "afterok:12_1", "afterany:12_2:12_1+5s"])
    ).write_csv(source)
    to = {known.value: known for known in WorkloadFormat} | {"json": WorkloadFormat.BATSIM}
    target = tmp_path / f"log.{suffix}"
    convert(WorkloadConfig(path=str(source)), source, target, to[suffix], as_simulated=False)
    reader, log = read(target)
    assert log.job_id.tolist() == [1, 2, 3]
    assert reader.header["job_names"] == ["12_1", "12_2", "9"]
    assert log.after is not None
    assert log.after.job.tolist() == [1, 2, 1]
    result = mlsim.run(
        {
            "platform": {"nodes": [{"name": "n", "count": 4, "cores": 1}]},
            "workload": {"path": str(target), "dependencies": True, "mapping": "node"},
        }
    )
    assert result.jobs["start_time"].to_list() == [0.0, 10.0, 20.0]
    assert result.jobs["job_id_name"].to_list() == ["12_1", "12_2", "9"]


def test_unknown_names_are_told_by_name(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    with_ids(["a", "b"]).with_columns(dependencies=pl.Series([None, "afterok:c"])).write_csv(path)
    with pytest.raises(InputError, match="job b waits for job c, which the log does not have"):
        mlsim.run(
            {
                "platform": {"nodes": [{"name": "n", "count": 4, "cores": 1}]},
                "workload": {"path": str(path), "dependencies": True, "mapping": "node"},
            }
        )


@pytest.mark.parametrize("job", ["-3", "1.5", str(2**63), "1e300"])
def test_identifiers_that_are_too_large_are_refused_by_the_true_rule(tmp_path: Path, job: str) -> None:
    row = "0,10,10,1"
    head = "job_id,submit_time,run_time,walltime,processors"
    path = written(tmp_path, f"{head}\n1,{row}\n{job},{row}\n", "log.csv")
    with pytest.raises(InputError, match=r"expected a whole number from 0 up, below 2\^63"):
        read(path)
    swf = written(tmp_path, f"{job} 0 -1 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n", "log.swf")
    with pytest.raises(InputError, match=r"expected a whole number from 0 up, below 2\^63"):
        read(swf)


def test_a_broken_line_does_not_make_names_of_numbers(tmp_path: Path) -> None:
    head = "job_id,submit_time,run_time,walltime,processors"
    path = written(tmp_path, f"{head}\n7,0,1,1,1\n{head}\n8,1,1,1,1\n", "log.csv")
    reader = LogReader(path, "auto", Reading(lenient=True))
    log = LogBlock.concatenate(list(reader.blocks()))
    assert (log.job_id.tolist(), reader.broken_lines) == ([7, 8], 1)


# Dates in tables

WHEN = [datetime(2026, 3, 29, 1, 30), datetime(2026, 3, 29, 3, 0)]


@pytest.mark.parametrize(
    "times",
    [
        WHEN,
        [time.replace(tzinfo=UTC) for time in WHEN],
        [time.isoformat() for time in WHEN],
        ["2026-03-29 01:30", "2026-03-29T05:00:00+02:00"],
    ],
    ids=["naive", "in UTC", "texts", "other texts"],
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_dates_are_times_from_the_first_submission_on(
    tmp_path: Path, times: list[object], suffix: str
) -> None:
    table = with_ids([1, 2]).with_columns(submit_time=pl.Series(times))
    path = tmp_path / f"log.{suffix}"
    table.write_csv(path) if suffix == "csv" else table.write_parquet(path)
    reader, log = read(path)
    assert log.submit_time.tolist() == [0.0, 5400.0]
    assert reader.header["UnixStartTime"] == str(int(WHEN[0].replace(tzinfo=UTC).timestamp()))


def test_frames_with_dates_and_durations() -> None:
    table = with_ids([1, 2]).with_columns(
        submit_time=pl.Series(WHEN), run_time=pl.Series([timedelta(seconds=30), timedelta(minutes=1)])
    )
    result = mlsim.run({"platform": {"nodes": [{"name": "n", "count": 1, "cores": 1}]}}, workload=table)
    assert result.jobs["submit_time"].to_list() == [0.0, 5400.0]
    assert result.jobs["log_run_time"].to_list() == [30.0, 60.0]


def test_what_is_no_date_among_dates_is_named_and_the_frame_too(tmp_path: Path) -> None:
    texts = with_ids([1, 2]).with_columns(submit_time=pl.Series(["2026-03-29 01:30", "soon"]))
    texts.write_csv(tmp_path / "log.csv")
    with pytest.raises(InputError, match="submit_time is 'soon'; expected seconds from 0 up"):
        read(tmp_path / "log.csv")
    scenario = {"platform": {"nodes": [{"name": "n", "count": 1, "cores": 1}]}}
    with pytest.raises(InputError, match=r"^the table of jobs: row 2: submit_time is 'soon'"):
        mlsim.run(scenario, workload=texts)


# Other batch systems

PBS = """\
12/21/2026 15:00:00;Q;6.host;queue=q
12/21/2026 15:27:00;E;6.host;user=u group=g jobname=my job queue=q ctime=100 qtime=101 etime=101 start=200 \
exec_host=n1/0+n1/1 Resource_List.nodect=1 Resource_List.nodes=1:ppn=2 Resource_List.walltime=04:00:00 \
session=1 end=2397 Exit_status=0 resources_used.walltime=00:36:37
12/21/2026 15:28:00;E;7[3].host;user=v group=g jobname=k queue=q ctime=160 start=170 end=180 Exit_status=271 \
Resource_List.ncpus=6 Resource_List.mem=4gb Resource_List.ngpus=1 Resource_List.nodect=2
12/21/2026 15:29:00;E;8.host;user=v ctime=161 start=170 end=181 exec_host=n1/0*4+n2/0-2,5
12/21/2026 15:30:00;S;9.host;user=v ctime=161 start=170
"""


def test_accounting_of_pbs(tmp_path: Path) -> None:
    path = written(tmp_path, PBS)
    assert format_of(path) is WorkloadFormat.PBS
    reader, log = read(path)
    assert reader.header["job_names"] == ["6", "7[3]", "8"]
    assert log.submit_time.tolist() == [0, 60, 61]
    assert log.run_time.tolist() == [2197, 10, 11]
    assert log.requested_time.tolist() == [14400, -1, -1]
    assert log.requested_processors.tolist() == [2, 6, 8]
    assert log.status.tolist() == [1, 0, -1]
    assert log.node_count.tolist() == [1, 2, -1]
    assert reader.header["executable_names"] == ["my job", "k"]
    assert log.asked is not None
    assert dict(zip(log.asked.names, log.asked.totals[1].tolist(), strict=True)) == {"memory": 4295, "gpu": 1}
    assert reader.counts == {"unfinished_jobs": 1}


SGE = (
    "# Version: 8.1\nq:h:g:u:j:22947:sge:0:1310761621:1311095354:1311095414:0:0:60:60.05:"
    "0.08:1.0:0:0:0:0:1:0:0:0.0:2:0:0:0:4:5:"
    "NONE:d:mype:2:0:60.1:7.3:0.0:-l h_rt=36000,qname=q -pe mype 2:0.0:NONE:1.0:0:0\n"
)


def test_accounting_of_grid_engine(tmp_path: Path) -> None:
    task = SGE.splitlines()[1].replace(":mype:2:0:", ":mype:4:7:").replace("h_rt=36000", "h_rt=1:00:00")
    never = SGE.splitlines()[1].replace("1311095354:1311095414", "0:0").replace(":22947:", ":22948:")
    path = written(tmp_path, f"{SGE}{task}\n{never}\n")
    assert format_of(path) is WorkloadFormat.SGE
    reader, log = read(path)
    assert reader.header["job_names"] == ["22947", "22947_7", "22948"]
    assert log.run_time.tolist() == [60, 60, 0]
    assert log.requested_time.tolist() == [36000, 3600, 36000]
    assert log.requested_processors.tolist() == [2, 4, 2]
    assert log.status.tolist() == [1, 1, 5]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PBS.replace("start=200", "start=x"), "line 2: start is 'x'; expected seconds since 1970"),
        (PBS.replace("04:00:00", "4 h"), "line 2: Resource_List.walltime is '4 h'; expected a time"),
        (PBS.replace("=4gb", "=4 apples"), "line 3: Resource_List.mem is '4 apples'; expected a size"),
        (PBS.replace(";E;", ";S;"), "holds no job that ended"),
        (SGE + "a:b\n", "line 3: 2 fields; expected at least 40"),
        ('"JOB_FINISH" "10.1" 1 2\n', "line 1: fields are missing; expected those of a record JOB_FINISH"),
        ("<html>\n", "looks like a page or a table in HTML or XML"),
        ('{"jobs": []}', "neither|sacct --json prints"),
    ],
)
def test_errors_speak_of_the_format_that_was_seen(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read(written(tmp_path, text))


def test_formats_and_models_are_modules_of_their_names() -> None:
    assert {known.word for known in FORMATS.values()} | {WorkloadFormat.AUTO} == set(WorkloadFormat)
    assert all(model_record(word).meaning for word in WorkloadModel)
