"""Valid inputs of every kind, small, all made here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

__all__ = ["ACCOUNTING", "LOOP", "RIGID", "SCENARIOS", "STUDIES", "make_run", "write_supports"]

_JOBS = 12

RIGID = """\
name: rigid
seed: 3
platform:
  nodes:
    - {name: a, count: 4, cores: 2, memory: 8 GB, power: {idle: 90 W, busy: 200 W}}
    - {name: b, count: 2, cores: 4, memory: 16 GB, resources: {gpu: 2}, power: {idle: 80 W, busy: 300 W}}
  network: {topology: star, latency: 1 us, bandwidth: 10 Gbit/s}
  failures:
    - {node: 1, at: 50 s, repair: 1 min}
  random_failures:
    - {nodes: b, mtbf: 2 h, mttr: 5 min, shape: 0.8}
  drains:
    - {nodes: 0-1, start: 100 s, end: 200 s}
workload:
  path: jobs.csv
  mapping: core
  select: {first: 10, scale_load: 1.5}
  cleaning: {zero_run_time: clamp}
batch:
  policy: SAF
  backfill: easy
  on_failure: restart
  power_cap: [[0 s, 1500 W], [200 s, 1400 W]]
output: {trace: none, pictures: off}
"""

_COSIM = """\
name: cosim
description: two levels
platform:
  nodes:
    - {name: n, count: 4, cores: 4, speed: 1 GFLOP/s}
  perturbations:
    - {nodes: 0-1, from: 10 s, to: 100 s, factor: 0.5}
workload: {path: jobs.swf, mapping: packed}
batch: {policy: FCFS, backfill: conservative, on_overrun: extend, predictor: D2}
application:
  model: loop
  iterations: {per_pe: 4}
  costs: {profile: job, variation: 0.25}
  technique: GSS
  execution: {model: dca, chunk_calculation: 1 us}
coordination: {rca: on, latency: 1 ms}
output: {trace: chunks, pictures: off}
"""

_NETWORK = """\
platform:
  nodes: [{name: n, count: 4, cores: 1}]
  network:
    topology: edge-list
    edges:
      - {from: n0, to: s, latency: 1 us}
      - {from: n1, to: s}
      - {from: n2, to: s, bandwidth: 1 Gbit/s}
      - {from: n3, to: s}
workload: {path: jobs.json, mapping: node}
batch: {dispatcher: pcp21, cp: {time_limit: 50 ms}}
"""

SCENARIOS = (RIGID, _COSIM, _NETWORK)

LOOP = """\
name: loop
seed: 5
platform:
  nodes:
    - {name: n, count: 2, cores: 4}
    - {name: m, count: 1, cores: 2, speed: 2 GFLOP/s}
  network: {latency: 2 us}
application:
  technique: FAC2
  iterations: {count: 400}
  costs: {profile: normal, mean: 1 ms, std: 0.2 ms}
  execution: {model: cca, chunk_calculation: 1 us, break_after: 4}
  min_chunk: 2
"""

STUDIES = (
    """\
name: small
base: loop.yaml
vary:
  application.technique: [SS, GSS]
  speed:
    slow: {platform.network.latency: 5 us}
    quick: {platform.network.latency: 1 us}
without:
  - {technique: SS, speed: slow}
columns: technique
timelines: []
""",
    """\
of: runs
base: rigid.yaml
set: {output.pictures: off, platform.random_failures: []}
vary:
  batch.policy: [FCFS, SAF]
  seed: [1, 2]
columns: policy
repetitions: seed
metrics: {makespan: makespan, wait: wait_time.mean}
relative: {policy: FCFS}
""",
)


_SACCT = """\
JobIDRaw|JobID|Submit|End|ElapsedRaw|Elapsed|TimelimitRaw|ReqCPUS|State|User|Group|QOS|NNodes|ReqTRES|AllocTRES
7|7|2026-03-01T08:00:00|2026-03-01T09:00:00|3600|01:00:00|120|4|COMPLETED|ada|g|high|1|cpu=4,mem=1.5G,node=1|cpu=8
8|7_2|2026-03-01T08:00:10|2026-03-01T08:00:20|0|00:00:00|60|4|CANCELLED by 1000|bob|g|low|1||
9|7_[3-9%2]|2026-03-01T08:00:10|Unknown|0|00:00:00|60|4|CANCELLED|bob|g|low|1||
10.batch|10.batch|2026-03-01T08:00:30||7|00:00:07||1|FAILED||||||
10|10|1772352030|2026-03-01T08:00:37|7|1-00:00:07|UNLIMITED|2|TIMEOUT|eve|h|low|2|cpu=2,gres/gpu:a=1,node=2|
"""
_SACCT_JSON = json.dumps(
    {
        "jobs": [
            {
                "job_id": 1001 + k,
                "name": "cfd",
                "association": {"user": "ada", "account": "a"},
                "required": {"CPUs": 4},
                "state": {"current": [state]},
                "time": {"elapsed": 36 * k, "submission": 1772352000, "end": 1772352100, "limit": limit},
                "tres": {"requested": [{"type": "mem", "name": "", "count": 100}], "allocated": []},
            }
            for k, (state, limit) in enumerate((("COMPLETED", 12), ("CANCELLED", {"set": True, "number": 5})))
        ],
        "meta": {"plugin": {"data_parser": "data_parser/v0.0.39"}},
    }
)
_PBS = """\
12/21/2026 15:00:00;Q;6.host;queue=q
12/21/2026 15:27:00;E;6.host;user=u group=g jobname=j ctime=100 start=200 exec_host=n1/0+n1/1 end=2397 \
Resource_List.nodes=1:ppn=2+2:ppn=4 Resource_List.walltime=04:00:00 Exit_status=0
12/21/2026 15:28:00;E;7[3].host;user=v qtime=160 start=170 end=180 Resource_List.ncpus=6 Resource_List.mem=4gb
12/21/2026 15:29:00;E;8.host;user=v etime=161 start=170 end=181 exec_host=n1/0*4+n2/0-2,5
"""
_SGE = """\
# Version: 8.1
q:h:g:u:j:22947:sge:0:1310761621:1311095354:1311095414:0:0:60:60.05:0.08:1.0:0:0:0:0:1:0:0:0.0:2:0:0:0:4:5:NONE:\
d:mype:2:0:60.1:7.3:0.0:-l h_rt=36000,qname=q -pe mype 2:0.0:NONE:1.0:0:0
q:h:g:u:j:22948:sge:0:1310761621:0:0:0:0:60:60.05:0.08:1.0:0:0:0:0:1:0:0:0.0:2:0:0:0:4:5:NONE:\
d:mype:2:7:60.1:7.3:0.0:-l h_rt=1:00:00 -pe mype 2:0.0:NONE:1.0:0:0
"""
_NAMES_AND_DATES = """\
job_id,submit_time,run_time,walltime,processors,withdraw_time,preceding_job,dependencies,status
a_1,2026-03-01 08:00,60,100,2,,,,1
a_2,2026-03-01T08:00:10,0,100,2,2026-03-01 08:01,a_1,,5
9007199254740993,2026-03-01 08:00:20+01:00,30,100,1,,,"afterok:a_1,afterany:a_2+5s",1
"""
ACCOUNTING = (_SACCT, _SACCT.replace("|", "\t"), _SACCT_JSON, _PBS, _SGE, _NAMES_AND_DATES)
"""What other programs wrote."""


def write_supports(directory: Path) -> None:
    """Write the files that inputs name."""
    import polars as pl

    draw = np.random.default_rng(11)
    run_time, submit = draw.integers(1, 90, _JOBS), np.cumsum(draw.integers(0, 30, _JOBS))
    columns = {
        "job_id": np.arange(1, _JOBS + 1),
        "submit_time": submit,
        "run_time": run_time,
        "walltime": run_time + draw.integers(0, 60, _JOBS),
        "processors": draw.integers(1, 5, _JOBS),
        "status": np.ones(_JOBS, np.int64),
        "user": draw.integers(1, 4, _JOBS),
    }
    table = pl.DataFrame(columns)
    table.with_columns(queue=pl.Series(["day", "night"] * (_JOBS // 2))).write_csv(directory / "jobs.csv")
    table.with_columns(executable=pl.Series(["x", "y"] * (_JOBS // 2))).write_parquet(
        directory / "jobs.parquet"
    )
    rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    (directory / "jobs.swf").write_text(
        "; Version: 2.2\n; MaxProcs: 16\n; UnixStartTime: 1000000000\n"
        + "".join(
            f"{job} {at} 0 {run} {n} -1 -1 {n} {limit} -1 {status} {user} 1 1 1 1 -1 -1\n"
            for job, at, run, limit, n, status, user in rows
        )
    )
    jobs = [
        {"id": str(job), "subtime": at, "walltime": limit, "res": n, "profile": f"p{k % 3}", "user": user}
        for k, (job, at, _, limit, n, _, user) in enumerate(rows)
    ]
    profiles = {
        "p0": {"type": "delay", "delay": 20.5},
        "p1": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 1e6},
        "p2": {"type": "parallel_homogeneous_total", "cpu": 5e9, "com": 0},
    }
    (directory / "jobs.json").write_text(
        json.dumps({"nb_res": 16, "jobs": jobs, "profiles": profiles}, indent=1)
    )
    np.save(directory / "costs.npy", draw.uniform(1e-4, 2e-3, 200))
    (directory / "costs.csv").write_text("cost\n" + "\n".join(map(str, draw.uniform(1e-4, 2e-3, 50))))
    (directory / "rigid.yaml").write_text(RIGID)
    (directory / "loop.yaml").write_text(LOOP)


def make_run(directory: Path, name: str, policy: str) -> None:
    """Simulate a run into a directory beside the files that its scenario names."""
    import mlsim

    chosen = {"batch.policy": policy, "output.passes": True}
    mlsim.run(directory / "rigid.yaml", chosen, out=directory / name)
