"""Jobs of Flux: ``flux jobs -a --json``, or answers of its job-list service, together or one per line.

A job occupies its resources from ``t_run`` to ``t_cleanup``. States and results are words or the numbers of
the service.

Source: Flux RFC 43 (job list service); flux-jobs(1).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlsim.workload import format_record
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog, job_cells, time_of
from mlsim.workload.workload_jobs import NODE_COUNT, RECORDED_NODES

_INACTIVE = ("INACTIVE", "64")
_STATUS = {"COMPLETED": 1, "1": 1, "CANCELED": 5, "4": 5}
_SOURCES = """
job_id id; submit_time t_submit; run_time t_cleanup - t_run; walltime duration;
processors ncores, ntasks; node_count nnodes; status result; user username, userid;
group bank, project; executable name; request_gpu ngpus; recorded_start t_run;
recorded_nodes nodelist; withdraw_time t_inactive
"""


def read_flux(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read a list of jobs of Flux."""
    path = Path(path)
    records = format_record.json_records(path)
    return format_record.read_records(path, records, _job, options, sources=_SOURCES, unit="job")


def _job(record: Mapping[str, Any]) -> dict[str, str] | None:
    times = {
        name: time_of(record.get(name), name) for name in ("t_submit", "t_run", "t_cleanup", "t_inactive")
    }
    if str(record.get("state", "INACTIVE")).upper() not in _INACTIVE or not (
        times["t_cleanup"] or times["t_inactive"]
    ):
        return None
    limit = record.get("duration")
    return job_cells(
        record["id"],
        times["t_submit"],
        times["t_run"],
        times["t_cleanup"] or times["t_inactive"],
        walltime=limit if limit else None,
        processors=record.get("ncores") or record.get("ntasks"),
        status=_STATUS.get(str(record.get("result", "")).upper(), 0),
        user=record.get("username") or record.get("userid"),
        group=record.get("bank") or record.get("project"),
        executable=record.get("name"),
        queue=record.get("queue"),
        request_gpu=record.get("ngpus") or None,
        **{NODE_COUNT: record.get("nnodes") or None, RECORDED_NODES: record.get("nodelist")},
    )


FORMAT = Format(
    "flux",
    "jobs of Flux as JSON: flux jobs -a --json, or its job-list service",
    lambda head: head[:1] in (b"{", b"[") and re.search(rb'"t_submit"\s*:', head) is not None,
    read_flux,
    units="times in s since 1970",
)
