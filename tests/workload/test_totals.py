"""Totals asked for are totals held, whatever the reader and the mapping; units of memory of every format."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from collections.abc import Mapping as Mapping_
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import mlsim
from mlsim.batch.room.unit_requests import Requests
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.platform import build_machine
from mlsim.scenario import PlatformConfig, WorkloadConfig, from_mapping
from mlsim.scenario.words import Mapping
from mlsim.workload import JobBlock, open_workload
from mlsim.workload.workload_jobs import pbs_size, sized, slurm_size


class Job(NamedTuple):
    processors: int
    memory: int | None
    """MiB."""
    gpus: int | None
    nodes: int | None


JOBS = (
    Job(8, 32 * 1024, 1, 1),
    Job(16, 3174, 4, 1),
    Job(16, 4000 * 16, 2, 2),
    Job(7, 1001, 3, 2),  # divides by nothing
    Job(12, None, 8, None),
    Job(5, 999, None, None),
    Job(100, 1000, None, 1),  # more cores than any node has
    Job(1, None, None, None),
)
NODES = {"name": "n", "count": 4, "cores": 64, "memory": "256 GiB", "resources": {"gpu": 4}}
MACHINE = build_machine(PlatformConfig.model_validate({"nodes": [NODES]}))
MB, MIB = 10**6, 2**20


def _table(unit: bool, jobs: Sequence[Job] = JOBS) -> pl.DataFrame:
    def memory(job: Job) -> str | None:
        if job.memory is None:
            return None
        return f"{job.memory} MiB" if unit else str(-(-job.memory * MIB // MB))

    return pl.DataFrame(
        {
            "job_id": list(range(1, len(jobs) + 1)),
            "submit_time": [float(k) for k in range(len(jobs))],
            "run_time": [60.0] * len(jobs),
            "walltime": [60.0] * len(jobs),
            "processors": [job.processors for job in jobs],
            "node_count": [job.nodes for job in jobs],
            "request_memory": [memory(job) for job in jobs],
            "request_gpu": [job.gpus for job in jobs],
        }
    )


def _sacct(path: Path) -> None:
    lines = ["JobIDRaw|Submit|ElapsedRaw|TimelimitRaw|ReqCPUS|State|NNodes|ReqTRES"]
    for row, job in enumerate(JOBS):
        tres = [f"billing={job.processors},cpu={job.processors}"]
        tres += [] if job.memory is None else [f"mem={job.memory}M"]
        tres += [] if job.nodes is None else [f"node={job.nodes}"]
        tres += [] if job.gpus is None else [f"gres/gpu={job.gpus}"]
        nodes = job.nodes or ""
        lines.append(
            f"{row + 1}|2026-03-01T08:00:0{row}|60|1|{job.processors}|COMPLETED|{nodes}|{','.join(tres)}"
        )
    path.write_text("\n".join(lines) + "\n")


def _batsim(path: Path) -> None:
    rows = _table(unit=True).to_dicts()
    jobs = [
        {"id": row["job_id"], "subtime": row["submit_time"], "res": row["processors"], "profile": "p"}
        | {"walltime": row["walltime"]}
        | {key: row[key] for key in ("node_count", "request_memory", "request_gpu") if row[key] is not None}
        for row in rows
    ]
    profiles = {"p": {"type": "delay", "delay": 60}}
    path.write_text(json.dumps({"nb_res": 256, "jobs": jobs, "profiles": profiles}))


def _sacct_json(path: Path) -> None:
    jobs = []
    for row, job in enumerate(JOBS):
        amounts = {"cpu": job.processors, "mem": job.memory, "node": job.nodes, "gpu": job.gpus}
        types = {"gpu": ("gres", "gpu")}
        asked = [
            dict(zip(("type", "name", "count"), (*types.get(name, (name, "")), amount), strict=True))
            for name, amount in amounts.items()
            if amount is not None
        ]
        times = {"submission": 10**9 + row, "elapsed": 60, "limit": {"set": True, "number": 1}}
        jobs.append(
            {
                "job_id": row + 1,
                "time": times,
                "tres": {"requested": asked},
                "state": {"current": ["COMPLETED"]},
            }
        )
    path.write_text(json.dumps({"jobs": jobs, "meta": {"plugin": {}}}))


def _pbs(path: Path) -> None:
    lines = []
    for row, job in enumerate(JOBS):
        asked = {"ncpus": job.processors, "nodect": job.nodes, "ngpus": job.gpus}
        asked |= {"mem": None if job.memory is None else f"{job.memory}mb", "walltime": "00:01:00"}
        words = [f"Resource_List.{name}={value}" for name, value in asked.items() if value is not None]
        times = f"ctime={10**9 + row} start={10**9 + row} end={10**9 + row + 60} Exit_status=0"
        lines.append(f"09/09/2001 01:46:40;E;{row + 1}.host;user=u {' '.join(words)} {times}")
    path.write_text("\n".join(lines) + "\n")


READERS: dict[str, Callable[[Path], None]] = {
    "sacct": _sacct,
    "sacct-json": _sacct_json,
    "pbs": _pbs,
    "csv": lambda path: _table(unit=True).write_csv(path),
    "csv-in-mb": lambda path: _table(unit=False).write_csv(path),
    "parquet": lambda path: _table(unit=True).write_parquet(path),
    "parquet-in-mb": lambda path: _table(unit=False).cast({"request_memory": pl.Float64}).write_parquet(path),
    "batsim": _batsim,
}


def _of_accounting(text: Callable[[int, Job], str]) -> Callable[[Path, Sequence[Job]], None]:
    def write(path: Path, jobs: Sequence[Job]) -> None:
        path.write_text("\n".join(text(row, job) for row, job in enumerate(jobs, 1)) + "\n")

    return write


def _lsf(row: int, job: Job) -> str:
    """The usage is that of the job, its hosts or its tasks, as it divides."""
    usage = []
    for name, amount in (("mem", job.memory), ("ngpus_physical", job.gpus)):
        if amount is not None:
            divides = {"/job": 1, "": job.nodes or 3, "/host": job.nodes or 3, "/task": job.processors}
            scope = [word for word, parts in divides.items() if amount % parts == 0][row % 2 - 1]
            usage.append(f"{name}={amount / divides[scope]:.2f}{scope}:duration=1h")
    hosts = [f"n{k % (job.nodes or 3)}" for k in range(job.processors if row % 2 else job.nodes or 3)]
    span = "" if job.nodes is None else "span[hosts=1]"
    span = span if job.nodes in (None, 1) else f"span[ptile={-(-job.processors // (job.nodes or 1))}]"
    asked = f"select[type=any] rusage[{','.join(usage)}]" if usage else "select[type=any]"
    effective = f'"{asked}"' if row % 2 else '""'
    names, begin = " ".join(f'"{host}"' for host in hosts), 10**9 + row
    return (
        f'"JOB_FINISH" "10.1" {begin + 60} {row} 9 1 {job.processors} {begin} 0 0 {begin} "u" "q" '
        f'"{span} {"rusage[mem=7]" if row % 2 and usage else asked}" "" "" "login" "/home" "" "" "" "f" 0 '
        f'{len(hosts)} {names} 64 60.0 "run" "sleep" {"0.5 " * 19}"" "project" 0 4 "" "" 0 5 6 "" "" "" "" '
        f'0 "" 0 "" -1 "" "" "" "" -1 "" "" 0 "" 0 "" "" 0 0 1032 60 7 {effective} "" 0'
    )


def _sge(row: int, job: Job) -> str:
    begin = 10**9 + row
    return (
        f"q:n1:g:u:run:{row}:sge:0:{begin}:{begin}:{begin + 60}:0:0:{'0:' * 18}NONE:dep:mpi:"
        f"{job.processors}:0:0.0:0.0:0.0:-l h_rt=60:0.0:NONE:0.0:0:0"
    )


def _cobalt(path: Path, jobs: Sequence[Job]) -> None:
    head = "COBALT_JOBID,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP,WALLTIME_SECONDS,NODES_REQUESTED,"
    day = "2026-03-01 08:0"
    rows = [
        f"{row},{day}0:0{row},{day}0:0{row},{day}1:0{row},60.0,{job.nodes or ''},{job.processors}"
        for row, job in enumerate(jobs, 1)
    ]
    path.write_text("\n".join([f"{head}CORES_REQUESTED", *rows]) + "\n")


def _objects(path: Path, jobs: Sequence[Mapping_[str, object]]) -> None:
    path.write_text(json.dumps([{key: v for key, v in job.items() if v is not None} for job in jobs]))


def _oar(path: Path, jobs: Sequence[Job]) -> None:
    def of(row: int, job: Job) -> dict[str, object]:
        times = {"submissionTime": 10**9 + row, "startTime": 10**9 + row, "stopTime": 10**9 + row + 60}
        nodes = [f"n{k}" for k in range(job.nodes or 0)]
        held = {"assigned_resources": list(range(job.processors)), "assigned_network_address": nodes}
        return {"Job_Id": row, "state": "Terminated", "walltime": 60, **times, **held}

    _objects(path, [of(row, job) for row, job in enumerate(jobs, 1)])


def _htcondor(path: Path, jobs: Sequence[Job]) -> None:
    def of(row: int, job: Job) -> dict[str, object]:
        hosts = job.nodes or 1
        requests = {
            "RequestCpus": job.processors // hosts,
            "RequestMemory": None if job.memory is None else job.memory // hosts,
            "RequestGPUs": None if job.gpus is None else job.gpus // hosts,
        }
        times = {"QDate": 10**9 + row, "JobCurrentStartDate": 10**9 + row, "CompletionDate": 10**9 + row + 60}
        return {
            "ClusterId": row,
            "JobStatus": 4,
            "MaxHosts": hosts,
            "MaxWallTimeMins": 1,
            **times,
            **requests,
        }

    _objects(path, [of(row, job) for row, job in enumerate(jobs, 1)])


def _flux(path: Path, jobs: Sequence[Job]) -> None:
    def of(row: int, job: Job) -> dict[str, object]:
        times = {"t_submit": 10**9 + row, "t_run": 10**9 + row, "t_cleanup": 10**9 + row + 60}
        return {"id": row, "ncores": job.processors, "nnodes": job.nodes, "ngpus": job.gpus, **times}

    _objects(path, [of(row, job) for row, job in enumerate(jobs, 1)])


def _pbs_of_tasks(row: int, job: Job) -> str:
    nodes = job.nodes or 1
    asked = [f"nodes={nodes}:ppn={job.processors // nodes}", "walltime=00:01:00"]
    asked[0] += "" if job.gpus is None else f":gpus={job.gpus // nodes}"
    asked += [] if job.memory is None else [f"pmem={job.memory // job.processors}mb"]
    words = " ".join(f"Resource_List.{each}" for each in (*asked, f"nodect={nodes}"))
    times = f"ctime={10**9 + row} start={10**9 + row} end={10**9 + row + 60}"
    return f"09/09/2001 01:46:40;E;{row}.host;user=u {words} {times} Exit_status=0"


def _even(job: Job) -> Job | None:
    """A job whose nodes, known where there is more than one, have the same share of everything."""
    nodes = job.nodes or 1
    even = all(amount % nodes == 0 for amount in (job.processors, job.memory or 0, job.gpus or 0))
    return job if even else None


def _of_tasks(job: Job) -> Job | None:
    even = _even(job)
    if even is None or (job.memory or 0) % job.processors or (job.gpus or 0) > 4 * (job.nodes or 1):
        return None
    return even._replace(nodes=job.nodes or 1)


# Writers of accounting, and what each can say of a job, None if nothing.
ACCOUNTING: dict[str, tuple[Callable[[Path, Sequence[Job]], None], Callable[[Job], Job | None]]] = {
    "lsf": (_of_accounting(_lsf), lambda job: job),
    "sge": (_of_accounting(_sge), lambda job: job._replace(memory=None, gpus=None, nodes=None)),
    "cobalt": (_cobalt, lambda job: job._replace(memory=None, gpus=None)),
    "oar": (_oar, lambda job: job._replace(memory=None, gpus=None)),
    "htcondor": (_htcondor, lambda job: job if job.nodes == 1 else _even(job)),
    "flux": (_flux, lambda job: job._replace(memory=None)),
    "torque": (_of_accounting(_pbs_of_tasks), _of_tasks),
}


@pytest.mark.parametrize("reader", ACCOUNTING)
@pytest.mark.parametrize("mapping", list(Mapping))
def test_totals_of_accounting_are_totals_held(tmp_path: Path, reader: str, mapping: Mapping) -> None:
    """The same totals from every batch system: those of the columns of CSV, unit by unit and in a run."""
    write, said = ACCOUNTING[reader]
    jobs = [known for job in JOBS if (known := said(job)) is not None]
    assert len(jobs) >= 4
    write(tmp_path / "log", jobs)
    # HTCondor does not bind a job to one node.
    alike = [
        job._replace(nodes=None) if reader == "htcondor" and (job.nodes or 1) == 1 else job for job in jobs
    ]
    _table(unit=True, jobs=alike).write_csv(tmp_path / "log.csv")
    found = units_and_requests(tmp_path / "log", mapping)
    assert found == units_and_requests(tmp_path / "log.csv", mapping)
    if mapping is not Mapping.CORE:
        return
    scenario = {
        "platform": {"nodes": [NODES]},
        "workload": {"path": str(tmp_path / "log"), "mapping": "core"},
        "output": {"pictures": "off"},
    }
    held = mlsim.run(scenario).jobs
    assert held["cores"].to_list() == [job.processors for job in jobs]
    if any(job.gpus for job in jobs):
        assert held["request_gpu"].to_list() == [job.gpus or 0 for job in jobs]


def units_and_requests(path: Path, mapping: Mapping) -> tuple[list[int], list[list[int]]]:
    config = WorkloadConfig.model_validate({"path": path.name, "mapping": mapping.value})
    jobs = JobBlock.concatenate(list(open_workload(config, path, 256, MACHINE.resources[1:]).blocks()))
    requests = Requests.on(MACHINE, mapping, config.request)
    units = requests.units_of(jobs)
    return units.tolist(), requests.per_unit(jobs, units).tolist()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("mapping", list(Mapping))
def test_totals_asked_for_are_totals_held(tmp_path: Path, reader: str, mapping: Mapping) -> None:
    path = tmp_path / "log"
    READERS[reader](path)
    units, requests = units_and_requests(path, mapping)
    for job, n, (cores, memory, gpus) in zip(JOBS, units, requests, strict=True):
        asked_gpus, asked_memory = job.gpus or 0, (job.memory or 0) * MIB / MB
        if mapping is Mapping.CORE:
            assert (n * cores, n * gpus) == (job.processors, asked_gpus)
        else:  # whole nodes are held; each must have its part
            assert n * gpus >= asked_gpus > (n * (gpus - 1) if gpus else -1)
        assert n * memory - 1 <= asked_memory < n * (memory + 1)
    whole = {
        Mapping.CORE: [1, 1, 2, 1, 4, 5, 100, 1],
        Mapping.PACKED: [1, 1, 2, 2, 1, 1, 2, 1],
        Mapping.NODE: [1, 1, 2, 2, 12, 5, 1, 1],
    }
    assert units == whole[mapping]


def test_a_data_frame_is_read_as_a_file(tmp_path: Path) -> None:
    scenario = {
        "platform": {"nodes": [NODES]},
        "workload": {"mapping": "core"},
        "output": {"pictures": False},
    }
    path = tmp_path / "log.csv"
    _table(unit=True).write_csv(path)
    expected = mlsim.run(from_mapping(scenario | {"workload": {"mapping": "core", "path": str(path)}})).jobs
    found = mlsim.run(scenario, workload=_table(unit=True)).jobs
    assert found.equals(expected)
    assert found["state"].unique().to_list() == ["completed"]
    assert all(" " not in nodes and "-" not in nodes for nodes in found["nodes"].to_list()[:2])


GPUS = """\
JobIDRaw|Submit|ElapsedRaw|TimelimitRaw|ReqCPUS|State|ReqTRES
1|2026-03-01T08:00:00|3600|120|8|COMPLETED|billing=8,cpu=8,mem=32G,node=1,gres/gpu=1
2|2026-03-01T08:00:01|3600|120|8|COMPLETED|billing=8,cpu=8,mem=32G,node=1,gres/gpu=1
3|2026-03-01T08:00:02|3600|120|16|COMPLETED|billing=16,cpu=16,mem=32G,node=1,gres/gpu=4
"""


@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
@pytest.mark.parametrize("allocator", ["first-fit", "best-fit"])
def test_jobs_of_a_few_gpus_share_a_node(tmp_path: Path, backfill: str, allocator: str) -> None:
    (tmp_path / "log.txt").write_text(GPUS)
    scenario = {
        "platform": {"nodes": [NODES | {"count": 2}]},
        "workload": {"path": "log.txt", "mapping": "core"},
        "batch": {"backfill": backfill, "allocator": allocator},
    }
    jobs = mlsim.run(from_mapping(scenario, directory=tmp_path)).jobs
    assert jobs["start_time"].to_list() == [0, 1, 2]
    assert jobs["nodes"].to_list() == ["0", "0", "1"]
    assert jobs["cores"].to_list() == [8, 8, 16]


def test_a_planner_counts_totals_once(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(GPUS)
    scenario = {
        "platform": {"nodes": [NODES | {"count": 2}]},
        "workload": {"path": "log.txt", "mapping": "core"},
        "batch": {"dispatcher": "lists"},
    }
    jobs = mlsim.run(from_mapping(scenario, directory=tmp_path)).jobs
    assert jobs["start_time"].to_list() == [0, 1, 2]


def test_a_job_of_one_node_waits_for_one(tmp_path: Path) -> None:
    rows = [(1, 0, 100, 4, None), (2, 1, 10, 8, 1), (3, 2, 10, 8, None)]
    lines = [f"{j},{t},{run},{run},{p},{nodes or ''}" for j, t, run, p, nodes in rows]
    (tmp_path / "log.csv").write_text(
        "job_id,submit_time,run_time,walltime,processors,node_count\n" + "\n".join(lines) + "\n"
    )
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 2, "cores": 8}]},
        "workload": {"path": "log.csv", "mapping": "core"},
        "batch": {"backfill": "easy"},
    }
    jobs = mlsim.run(from_mapping(scenario, directory=tmp_path)).jobs
    assert jobs["nodes"].to_list() == ["0", "1", "0-1"]
    assert jobs["start_time"].to_list() == [0, 1, 11]


@pytest.mark.parametrize(
    ("requested", "got", "count", "known"),
    [("node=1", "", "1", 1), ("node=1", "node=3", "3", -1), ("", "node=2", "2", 2), ("", "", "2", 2)]
    + [("node=1", "", "3", -1), ("node=4", "", "", 4), ("cpu=1", "", "0", -1)],
)
def test_nodes_are_those_that_a_job_is_bound_to(
    tmp_path: Path, requested: str, got: str, count: str, known: int
) -> None:
    path = tmp_path / "log.txt"
    path.write_text(
        "JobIDRaw|Submit|ElapsedRaw|TimelimitRaw|ReqCPUS|State|ReqTRES|AllocTRES|NNodes\n"
        f"1|2026-03-01T08:00:00|60|1|8|COMPLETED|{requested}|{got}|{count}\n"
    )
    config = WorkloadConfig.model_validate({"path": path.name})
    (block,) = open_workload(config, path, 256, ()).blocks()
    assert block.node_count.tolist() == [known]


@pytest.mark.parametrize(
    ("job", "told"),
    [
        ("mem=1G,node=1,gres/gpu=5", "asks for 5 gpu on one node; the largest has 4"),
        ("mem=300G,node=1", "asks for 322,122 MB of memory on one node; the largest has 274,877"),
        ("cpu=8,gres/gpu=16,node=2", "asks for 8 gpu on one node; the largest has 4"),
        ("cpu=8,gres/gpu=24", "asks for 24 gpu; the machine has 16"),
    ],
)
def test_what_never_fits_is_told_with_amounts(tmp_path: Path, job: str, told: str) -> None:
    (tmp_path / "log.txt").write_text(GPUS + f"17|2026-03-01T09:00:00|60|1|8|COMPLETED|{job}\n")
    (tmp_path / "s.yaml").write_text(
        json.dumps({"platform": {"nodes": [NODES]}, "workload": {"path": "log.txt", "mapping": "core"}})
    )
    result = mlsim.run(tmp_path / "s.yaml")
    assert result.summary["rejected_because"] == {told: 1}
    assert result.jobs["reason"].to_list() == [None, None, None, told]
    done = CliRunner().invoke(app, ["check", str(tmp_path / "s.yaml")])
    assert "  1 jobs can never start, and a run rejects them:" in done.output
    assert f"    job 17: {told}" in done.output
    done = CliRunner().invoke(app, ["check", str(tmp_path / "s.yaml"), "--json"])
    assert json.loads(done.stdout)["misfits"] == {told: {"jobs": 1, "first": [17]}}


@pytest.mark.parametrize(
    ("size", "fit"),
    [("3174M", 20), ("1G", 64), ("0.5G", 64), ("64G", 1), ("8192M", 8), ("3250176K", 20), ("32T", 0)],
)
def test_memory_of_slurm_is_in_powers_of_1024(tmp_path: Path, size: str, fit: int) -> None:
    rows = [f"{k}|2026-03-01T08:00:00|60|1|1|COMPLETED|cpu=1,mem={size},node=1" for k in range(1, 66)]
    (tmp_path / "log.txt").write_text(
        "\n".join(["JobIDRaw|Submit|ElapsedRaw|TimelimitRaw|ReqCPUS|State|ReqTRES", *rows]) + "\n"
    )
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 1, "cores": 64, "memory": "64 GiB"}]},
        "workload": {"path": "log.txt", "mapping": "core"},
        "batch": {"backfill": "easy"},
    }
    jobs = mlsim.run(from_mapping(scenario, directory=tmp_path)).jobs
    assert (jobs["start_time"] == 0).sum() == fit


def test_all_of_a_node_is_a_node_in_every_unit(tmp_path: Path) -> None:
    """Jobs of the whole, halves and sevenths of a node's memory fit as often as they should."""
    for parts in (1, 2, 7):
        rows = [f"{k}|2026-03-01T08:00:00|60|1|{parts}|COMPLETED|mem=7168M,node=1" for k in range(parts)]
        (tmp_path / "log.txt").write_text(
            "\n".join(["JobIDRaw|Submit|ElapsedRaw|TimelimitRaw|ReqCPUS|State|ReqTRES", *rows]) + "\n"
        )
        nodes = [{"name": "n", "count": 1, "cores": 64, "memory": f"{7168 * parts} MiB"}]
        scenario = {"platform": {"nodes": nodes}, "workload": {"path": "log.txt", "mapping": "core"}}
        assert (mlsim.run(from_mapping(scenario, directory=tmp_path)).jobs["start_time"] == 0).all()


@pytest.mark.parametrize(
    ("text", "size"),
    [("1K", 1024), ("7", 7 * MIB), ("3174M", 3174 * MIB), ("1.5G", 3 * 2**29), ("2T", 2**41), ("1P", 2**50)],
)
def test_sizes_of_slurm(text: str, size: int) -> None:
    assert slurm_size(text) == size


@pytest.mark.parametrize(
    ("text", "size"),
    [("100", 100), ("1kb", 1024), ("3174mb", 3174 * MIB), ("64GB", 2**36), ("2tb", 2**41), ("1kw", 8192)],
)
def test_sizes_of_pbs(text: str, size: int) -> None:
    assert pbs_size(text) == size


@pytest.mark.parametrize(
    ("text", "size"),
    [("1 KiB", 1024), ("3174 MiB", 3174 * MIB), ("64GiB", 2**36), ("2 TiB", 2**41), ("5 GB", 5 * 10**9)],
)
def test_sizes_with_units(text: str, size: int) -> None:
    assert sized(text) == size


def test_memory_with_a_unit_of_something_else_is_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    head = "job_id,submit_time,run_time,walltime,processors,request_memory\n"
    path.write_text(head + "1,0,5,9,8,3 GHz\n")
    config = WorkloadConfig.model_validate({"path": path.name})
    with pytest.raises(InputError, match=r"'3 GHz'; expected a whole number, or nothing if unknown \(MB of"):
        open_workload(config, path, 32, ("memory",))
    path.write_text(head + "1,0,5,9,8,3 GiB\n2,0,5,9,8,2000\n3,0,5,9,8,\n")
    (jobs,) = open_workload(config, path, 32, ("memory",)).blocks()
    assert jobs.asked is not None
    assert jobs.asked.totals[:, 0].tolist() == [3222, 2000, -1]


def test_conversion_writes_whole_megabytes_and_nodes(tmp_path: Path) -> None:
    _sacct(tmp_path / "log.txt")
    for suffix in ("csv", "parquet", "json"):
        target = tmp_path / f"o.{suffix}"
        done = CliRunner().invoke(app, ["workload", "convert", str(tmp_path / "log.txt"), str(target)])
        assert done.exit_code == 0, done.output
        units, requests = units_and_requests(target, Mapping.CORE)
        assert np.array(requests)[:, 1].tolist()[1] == 3329
        assert units == units_and_requests(tmp_path / "log.txt", Mapping.CORE)[0]
