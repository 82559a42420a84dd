"""The recorded schedule of a log: starts and names of nodes, from every format to jobs.parquet and back."""

from pathlib import Path

import polars as pl
import pytest

import mlsim
from mlsim.scenario import WorkloadConfig
from mlsim.scenario.words import WorkloadFormat
from mlsim.workload import open_workload
from mlsim.workload.derived_logs import convert, resample
from mlsim.workload.workload_jobs import JobBlock

SWF = """\
; UnixStartTime: 1000
1 100 5 60 2 -1 -1 2 90 -1 1 1 1 1 1 1 -1 -1
2 110 -1 60 2 -1 -1 2 90 -1 1 2 1 1 1 1 -1 -1
3 120 30 0 2 -1 -1 2 90 -1 5 1 1 1 1 1 -1 -1
4 130 0.5 60 2 -1 -1 2 90 -1 5 1 1 1 1 1 -1 -1
"""
CSV = """\
job_id,submit_time,run_time,walltime,processors,recorded_start,recorded_nodes
1,2026-03-01T08:00:00,60,90,2,2026-03-01T08:00:05,"7,9"
2,2026-03-01T08:00:10,60,90,2,,
3,2026-03-01T08:00:20,60,90,2,2026-03-01T08:00:20,7
"""
SACCT = """\
JobIDRaw|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|State|NodeList
1|2026-03-01T08:00:00|2026-03-01T08:00:05|2026-03-01T08:01:05|60|60|2|COMPLETED|n[1-2]
2|2026-03-01T08:00:10|None|2026-03-01T08:00:20|0|60|4|CANCELLED by 1000|None assigned
3|2026-03-01T08:00:20|2026-03-01T08:00:20|2026-03-01T08:01:20|60|60|1|COMPLETED|n3
4|2026-03-01T08:00:30|2026-03-01T08:00:40|2026-03-01T08:00:40|0|60|1|CANCELLED by 1000|None assigned
"""
PBS = """\
12/21/2026 15:27:00;E;6.host;user=u ctime=100 start=103 end=163 exec_host=n1/0*2+n2/0-1+n1/2 \
Resource_List.walltime=04:00:00 Resource_List.ncpus=5 Exit_status=0
"""


def log(place: Path, name: str, text: str) -> Path:
    path = place / name
    path.write_text(text)
    return path


def jobs_of(path: Path, **options: object) -> JobBlock:
    config = WorkloadConfig.model_validate({"path": str(path), **options})
    return JobBlock.concatenate(list(open_workload(config, path, 100).blocks()))


@pytest.mark.parametrize(
    ("name", "text", "starts", "nodes"),
    [
        ("log.swf", SWF, [5, -1, -1, 30.5], None),
        ("log.csv", CSV, [5, -1, 20], ["7,9", None, "7"]),
        ("log.txt", SACCT, [5, -1, 20, -1], ["n[1-2]", None, "n3", None]),
        ("log.acct", PBS, [3], ["n1,n2"]),
    ],
)
def test_every_format_has_its_recorded_schedule(tmp_path, name, text, starts, nodes):
    jobs = jobs_of(log(tmp_path, name, text))
    assert jobs.recorded_start.tolist() == starts
    assert (None if jobs.own is None else jobs.own.of["recorded_nodes"].tolist()) == nodes


def test_runs_keep_it_and_are_logs_with_it_again(tmp_path):
    path = log(tmp_path, "log.txt", SACCT)
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 4, "cores": 4}]},
        "workload": {"path": str(path), "mapping": "core"},
        "output": {"pictures": "off"},
    }
    mlsim.run(scenario, out=tmp_path / "first")
    scenario["workload"]["path"] = str(tmp_path / "first")
    mlsim.run(scenario, out=tmp_path / "second")
    for run in ("first", "second"):
        jobs = pl.read_parquet(tmp_path / run / "jobs.parquet")
        assert jobs["recorded_start"].to_list() == [5.0, None, 20.0, None]
        assert jobs["recorded_nodes"].to_list() == ["n[1-2]", None, "n3", None]


def test_a_log_without_it_adds_no_column(tmp_path):
    path = log(tmp_path, "log.swf", SWF.replace(" 5 60", " -1 60").replace(" 0.5 ", " -1 "))
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 4, "cores": 4}]},
        "workload": {"path": str(path)},
    }
    assert not {"recorded_start", "recorded_nodes"} & set(mlsim.run(scenario).jobs.columns)


@pytest.mark.parametrize("to", ["csv", "parquet", "swf"])
def test_conversions_keep_the_starts(tmp_path, to):
    path = log(tmp_path, "log.txt", SACCT)
    other = tmp_path / f"other.{to}"
    done = convert(WorkloadConfig(path=str(path)), path, other, WorkloadFormat(to), as_simulated=False)
    assert "wait_time" not in done.left_out
    assert ("recorded_nodes" in done.left_out) is (to == "swf")
    before, after = jobs_of(path), jobs_of(other)
    assert after.recorded_start.tolist() == before.recorded_start.tolist() == [5, -1, 20, -1]
    assert after.log_wait.tolist()[0] == before.log_wait.tolist()[0] == 5


def test_other_arrivals_have_no_recorded_schedule(tmp_path):
    path = log(tmp_path, "log.swf", SWF)
    assert jobs_of(path, select={"scale_load": 2}).recorded_start.tolist() == [-1] * 4
    week = 7 * 86_400
    long = "".join(
        f"{k} {k * 3600} 5 60 2 -1 -1 2 90 -1 1 1 1 1 1 1 -1 -1\n" for k in range(2 * week // 3600)
    )
    blocks = list(resample(log(tmp_path, "long.swf", long), weeks=1).blocks())
    assert all((block.recorded_start == -1).all() and len(block) for block in blocks)
