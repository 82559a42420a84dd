"""Accounting of other batch systems: a made example of each format, held against its rows; damaged files."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from typer.testing import CliRunner

import mlsim
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.scenario.words import WorkloadFormat
from mlsim.workload.format_record import Reading
from mlsim.workload.log_formats import FORMATS, LogReader, format_of
from tests.workload.test_recorded import log

BEGIN = 1_700_000_000
# Each job: submit, start, end (s after the begin), processors, limit (s), completed, user, queue, nodes.
JOBS = [
    (0, 5, 65, 4, 120, True, "ada", "day", ["n1"]),
    (10, 70, 3670, 16, 7200, False, "bob", "day", ["n1", "n2"]),
    (20, 20, 25, 1, None, True, "ada", "night", ["n3"]),
]
NEVER = (30, None, 40, 8, 600, False, "eve", "night", [])  # cancelled while it waited


def text_of(rows: list[str]) -> str:
    return "\n".join(rows) + "\n"


def lsf() -> str:
    rows = ['"JOB_NEW" "10.1" 1699999999 1 2']  # of lsb.events, and no job that ended
    for k, (submit, start, end, processors, limit, good, user, queue, nodes) in enumerate([*JOBS, NEVER], 1):
        hosts = "".join(f' "{processors // len(nodes)}*{node}"' for node in nodes)
        begin = 0 if start is None else BEGIN + start
        usage = "".join(f" {node} 10 20 30 40 1 7 8" for node in nodes)
        rows.append(
            f'"JOB_FINISH" "10.1" {BEGIN + end} {k} 9 1 {processors} {BEGIN + submit} 0 0 {begin} "{user}" '
            f'"{queue}" "span[ptile=""4""]" "" "" "login" "/home" "" "" "" "f" 1 "n9" {len(nodes)}{hosts} '
            f'{64 if good else 32} 60.0 "job {k}" "sleep ""1""" {"0.5 " * 19}"" "project" 0 4 "" "" 0 5 6 "" '
            f'"" "" "" 0 "" 0 "" -1 "" "" "" "" -1 "" "" 0 "" 0 "" "" 1 1032 "0" {len(nodes)}{usage} '
            f'{limit or -1} 0 7 "select[x]"'
        )
    return text_of(rows)


def pbs() -> str:
    rows = [
        "01/01/2024 00:00:00;Q;9.host;queue=day",
        f"01/01/2024 00:00:00;S;9.host;ctime={BEGIN} start={BEGIN}",
    ]
    for k, (submit, start, end, processors, limit, good, user, queue, nodes) in enumerate([*JOBS, NEVER], 1):
        held = "+".join(f"{node}/0*{processors // len(nodes)}" for node in nodes)
        times = f"ctime={BEGIN + submit}.0" + ("" if start is None else f" start={BEGIN + start}")
        span = (
            "" if limit is None else f" Resource_List.walltime={limit // 3600:02}:{limit % 3600 // 60:02}:00"
        )
        asked = (
            f" Resource_List.ncpus={processors}"
            if not nodes
            else f" exec_host={held} Resource_List.nodect={len(nodes)}"
        )
        rows.append(
            f"01/01/2024 00:00:00;E;{k}.host;user={user} group=project jobname=job {k} queue={queue} {times}"
            f"{asked}{span} end={BEGIN + end} Exit_status={int(not good)}"
        )
    return text_of(rows)


def sge() -> str:
    rows = ["# Version: GE 6.2"]
    for k, (submit, start, end, processors, limit, good, user, queue, nodes) in enumerate([*JOBS, NEVER], 1):
        begin, stop = (0, BEGIN + end) if start is None else (BEGIN + start, BEGIN + end)
        pe = "mpi" if processors > 1 else "NONE"
        asked = "NONE" if limit is None else f"-l h_rt={limit}"
        node = nodes[0] if nodes else "UNKNOWN"
        rows.append(
            f"{queue}:{node}:project:{user}:job {k}:{k}:sge:0:{BEGIN + submit}:{begin}:{stop}:0:"
            f"{int(not good)}:{'0:' * 18}NONE:dep:{pe}:{processors}:0:0.0:0.0:0.0:{asked}:0.0:NONE:0.0:0:0"
        )
    return text_of(rows)


def cobalt() -> str:
    import datetime

    def date(at: float | None) -> str:
        moment = datetime.datetime.fromtimestamp(BEGIN + (at or 0), datetime.UTC)
        return "" if at is None else moment.strftime("%Y-%m-%d %H:%M:%S")

    rows = [
        '"JOB_NAME","COBALT_JOBID","MACHINE_NAME","QUEUED_TIMESTAMP","START_TIMESTAMP","END_TIMESTAMP","USERNAME_GENID",'
        '"PROJECT_NAME_GENID","QUEUE_NAME","WALLTIME_SECONDS","RUNTIME_SECONDS","NODES_REQUESTED","CORES_REQUESTED",'
        '"LOCATION","EXIT_STATUS"'
    ]
    for k, (submit, start, end, processors, limit, good, user, queue, nodes) in enumerate([*JOBS, NEVER], 1):
        rows.append(
            f'"{k}.theta",{k},"theta","{date(submit)}","{date(start)}","{date(end)}","{user}","project","{queue}",'
            f"{'' if limit is None else f'{limit}.0'},{end},{len(nodes) or 1}.0,{processors},"
            f'"{",".join(nodes)}",{int(not good)}'
        )
    rows.append(
        f'"9.theta",9,"theta","{date(50)}","{date(60)}","","eve","project","day",60,,1,1,"",'
    )  # runs on
    return text_of(rows)


def oar(api: bool = False) -> str:
    jobs = {}
    for k, (submit, start, end, processors, limit, good, user, queue, nodes) in enumerate([*JOBS, NEVER], 1):
        names = (
            ("submission_time", "start_time", "stop_time")
            if api
            else ("submissionTime", "startTime", "stopTime")
        )
        times = (BEGIN + submit, 0 if start is None else BEGIN + start, BEGIN + end)
        jobs[str(k)] = {
            "Job_Id": k,
            "owner": user,
            "queue": queue,
            "project": "project",
            "name": f"job {k}",
            "state": "Terminated" if good else "Error",
            "exit_code": 0 if good else 256,
            "assigned_network_address": nodes,
            "assigned_resources": list(range(processors if nodes else 0)),
            "wanted_resources": "-l \"{type = 'default'}/resource_id=1"
            + ('"' if limit is None else f',walltime={limit // 3600}:{limit % 3600 // 60}:0"'),
            **dict(zip(names, times, strict=True)),
        }
    jobs["9"] = {**jobs["1"], "Job_Id": 9, "state": "Running"}
    return json.dumps({"items": list(jobs.values()), "total": 5} if api else jobs, indent=1)


def htcondor(as_json: bool = False) -> str:
    ads = []
    for k, (submit, start, end, processors, limit, good, user, _, nodes) in enumerate([*JOBS, NEVER], 1):
        ad = {
            "AcctGroup": "project",
            "ClusterId": k,
            "Cmd": f"/home/bin/job {k}",
            "CompletionDate": 0 if start is None else BEGIN + end,
            "EnteredCurrentStatus": BEGIN + end,
            "ExitCode": int(not good),
            "JobStatus": 3 if start is None else 4,
            "Owner": user,
            "ProcId": 0,
            "QDate": BEGIN + submit,
            "RequestCpus": processors,
            "RequestMemory": "ifthenelse(MemoryUsage =!= undefined,MemoryUsage,1)" if k == 1 else 2048,
        }
        ad |= (
            {}
            if start is None
            else {"JobCurrentStartDate": BEGIN + start, "LastRemoteHost": f"slot1@{nodes[0]}"}
        )
        ad |= {} if limit is None else {"MaxWallTimeMins": limit // 60}
        ads.append(ad)
    ads.append({**ads[0], "ClusterId": 9, "JobStatus": 5})  # held
    if as_json:
        return json.dumps(ads)
    quoted = [
        {
            name: json.dumps(value) if name in ("Owner", "Cmd", "AcctGroup", "LastRemoteHost") else value
            for name, value in ad.items()
        }
        for ad in ads
    ]
    return "".join(
        text_of(
            [
                *(f"{name} = {value}" for name, value in ad.items()),
                f"*** Offset = 0 ClusterId = {ad['ClusterId']} ProcId = 0",
            ]
        )
        for ad in quoted
    )


def flux(by_line: bool = False) -> str:
    jobs = []
    for k, (submit, start, end, processors, limit, good, user, queue, nodes) in enumerate([*JOBS, NEVER], 1):
        job = {
            "id": k,
            "t_submit": BEGIN + submit,
            "t_inactive": BEGIN + end,
            "state": "INACTIVE" if k < 3 else 64,
            "result": ("COMPLETED" if k < 3 else 1)
            if good
            else "FAILED"
            if start is not None
            else "CANCELED",
            "duration": limit or 0.0,
            "ncores": processors,
            "nnodes": len(nodes) or 1,
            "username": user,
            "bank": "project",
            "name": f"job {k}",
            "queue": queue,
        }
        job |= (
            {}
            if start is None
            else {"t_run": BEGIN + start, "t_cleanup": BEGIN + end, "nodelist": ",".join(nodes)}
        )
        jobs.append(job)
    jobs.append({"id": 9, "t_submit": BEGIN + 50, "state": "RUN", "t_run": BEGIN + 51, "ncores": 1})
    return text_of([json.dumps(job) for job in jobs]) if by_line else json.dumps({"jobs": jobs})


FILES: dict[str, tuple[WorkloadFormat, Callable[[], str]]] = {
    "lsf": (WorkloadFormat("lsf"), lsf),
    "pbs": (WorkloadFormat.PBS, pbs),
    "sge": (WorkloadFormat.SGE, sge),
    "cobalt": (WorkloadFormat("cobalt"), cobalt),
    "oar": (WorkloadFormat("oar"), oar),
    "oar-api": (WorkloadFormat("oar"), lambda: oar(api=True)),
    "htcondor": (WorkloadFormat("htcondor"), htcondor),
    "htcondor-json": (WorkloadFormat("htcondor"), lambda: htcondor(as_json=True)),
    "flux": (WorkloadFormat("flux"), flux),
    "flux-lines": (WorkloadFormat("flux"), lambda: flux(by_line=True)),
}


@pytest.mark.parametrize("name", FILES)
def test_it_is_recognized_and_read_as_its_rows(tmp_path, name):
    known, text = FILES[name]
    path = log(tmp_path, "log", text())
    assert format_of(path) is known
    reader = LogReader(path, "auto", Reading())
    (jobs,) = reader.blocks()
    rows = [*JOBS, NEVER]
    assert jobs.submit_time.tolist() == [row[0] for row in rows]
    assert jobs.run_time.tolist() == [0 if row[1] is None else row[2] - row[1] for row in rows]
    assert jobs.recorded_start.tolist() == [-1 if row[1] is None else row[1] for row in rows]
    assert jobs.withdraw_time.tolist() == [row[2] if row[1] is None else -1 for row in rows]
    assert jobs.requested_time.tolist() == [row[4] or -1 for row in rows]
    assert jobs.status.tolist() == [5 if row[1] is None else int(row[5]) for row in rows]
    processors = [row[3] for row in rows]
    if known is WorkloadFormat("oar"):
        processors[-1] = -1  # what it had got is all that it says
    assert jobs.requested_processors.tolist() == processors
    assert [reader.header["user_names"][int(code) - 1] for code in jobs.user.tolist()] == [
        row[6] for row in rows
    ]
    if known is not WorkloadFormat("htcondor"):
        assert [reader.header["queue_names"][int(code) - 1] for code in jobs.queue.tolist()] == [
            row[7] for row in rows
        ]
    assert reader.header["UnixStartTime"] == str(BEGIN)
    if known not in (WorkloadFormat.SGE, WorkloadFormat("lsf")):
        assert reader.counts == {"unfinished_jobs": 1}
    nodes = None if jobs.own is None else jobs.own.of["recorded_nodes"].tolist()
    if known is WorkloadFormat.SGE:
        assert nodes == [None, None, "n3", None]
    elif known is WorkloadFormat("htcondor"):
        assert nodes == ["n1", "n1", "n3", None]
    else:
        assert nodes == ["n1", "n1,n2", "n3", None]


@pytest.mark.parametrize("name", FILES)
def test_runs_describe_and_convert_read_it(tmp_path, name):
    path = log(tmp_path, "log", FILES[name][1]())
    for words in (["describe", str(path)], ["convert", str(path), str(tmp_path / "out.csv")]):
        done = CliRunner().invoke(app, ["workload", *words])
        assert done.exit_code == 0, done.output
    assert (
        f"log: {FILES[name][0]}, {FORMATS[FILES[name][0]].meaning}"
        in CliRunner().invoke(app, ["workload", "describe", str(path)]).output
    )
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 4, "cores": 8, "memory": "64 GB"}]},
        "workload": {"path": str(path), "mapping": "core"},
    }
    jobs = mlsim.run(scenario).jobs
    # A job that had got nothing says nothing of its size in OAR, and is left out.
    assert jobs.height == (3 if "oar" in name else 4)
    assert jobs["state"].to_list()[:3] == ["completed"] * 3
    assert jobs["cores"].to_list()[:3] == [row[3] for row in JOBS]


def damaged(text: str, rng: np.random.Generator) -> str:
    """Shuffle, leave out or double lines, fields or letters of a file."""
    separator = [":", " ", ",", "\n", "|", '"', ";", "="][rng.integers(8)]
    parts = text.split(separator)
    for _ in range(int(rng.integers(1, 4))):
        k, other = rng.integers(0, len(parts), 2)
        match rng.integers(5):
            case 0:
                parts[k], parts[other] = parts[other], parts[k]
            case 1:
                parts.insert(k, parts[other])
            case 2:
                del parts[k]
            case 3:
                parts[k] = ["", "-1", "1e400", "x", "\x00", "9" * 40, "None", "\ud800", "[", "1.5"][
                    rng.integers(10)
                ]
            case _:
                parts[k] = parts[k][::-1]
        parts = parts or [""]
    return separator.join(parts)


SACCT = """\
JobID|JobIDRaw|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|State|User|JobName|ReqTRES|NNodes|NodeList
1|1|2026-03-01T08:00:00|2026-03-01T08:00:05|2026-03-01T09:00:05|3600|120|64|COMPLETED|ada|a|b|cpu=64,node=2|2|n[1-2]
2+0|2|2026-03-01T08:00:00|Unknown|2026-03-01T09:00:05|0|UNLIMITED|64|CANCELLED|bob|c|mem=64G|2|None assigned
2+1|3|2026-03-01T08:00:00|Unknown|2026-03-01T09:00:05|0|UNLIMITED|64|CANCELLED by 5|bob|c
|mem=64G|2|None assigned
4_[1-3]|4|2026-03-01T08:00:00|Unknown|Unknown|0|5|1|PENDING|bob|"q|cpu=1|1|
"""
CSV = "job_id,submit_time,run_time,walltime,processors,user,request_gpu\n1,0,60,90,4,ada,2\n2,5,60,,4,,\n"


@pytest.mark.parametrize("cases", [pytest.param(40), pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [*FILES, "sacct", "csv"])
def test_damaged_files_are_read_or_refused_in_words(tmp_path, name, cases):
    text = {"sacct": SACCT, "csv": CSV}.get(name) or FILES[name][1]()
    rng = np.random.default_rng(cases)
    path = tmp_path / "log"
    read = refused = 0
    for _ in range(cases):
        path.write_bytes(damaged(text, rng).encode("utf-8", "replace"))
        try:
            read += sum(map(len, LogReader(path, "auto", Reading(lenient=bool(rng.integers(2)))).blocks()))
        except InputError:
            refused += 1
    assert read > 0
    assert refused > 0


TABLES = {
    "sacct": (SACCT.replace("|a|b|", "|a|").replace("c\n|", "c|").replace('"q', "q"), "|"),
    "csv": (CSV, ","),
    "cobalt": (cobalt().replace('"', ""), ","),
}


@pytest.mark.parametrize("cases", [pytest.param(60), pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TABLES)
def test_shuffled_missing_and_doubled_columns(tmp_path, name, cases):
    """Columns in any order mean the same; without some, or with some twice, a file is read or refused."""
    text, delimiter = TABLES[name]
    rows = [line.split(delimiter) for line in text.splitlines()]
    rows = [row for row in rows if len(row) == len(rows[0])]
    rng = np.random.default_rng(cases)
    path = tmp_path / "log"

    def read(order: list[int]) -> list[object]:
        path.write_text(text_of([delimiter.join(row[k] for k in order) for row in rows]))
        (jobs,) = LogReader(path, "auto", Reading()).blocks()
        return [jobs.submit_time.tolist(), jobs.run_time.tolist(), jobs.recorded_start.tolist(), len(jobs)]

    whole = list(range(len(rows[0])))
    expected = read(whole)
    told = set()
    for _ in range(cases):
        order = rng.permutation(whole).tolist()
        assert read(order) == expected
        keep = [k for k in order if rng.random() < 0.8]
        keep += [order[0]] * int(rng.integers(2))
        try:
            assert read(keep or [0])[-1] <= len(rows)
        except InputError as error:
            told.add(str(error).splitlines()[0].partition("log: ")[2])
    assert told
