"""Jobs of OAR: ``oarstat -J``, or the lists of its API (``jobs/table``, ``jobs/details``) as JSON.

``oarstat`` and the API spell most keys differently (``startTime``, ``start_time``). Older versions of
``oarstat`` print no end of a job, whose run time is then unknown.

Source: the manual page of oarstat, the API of OAR 2.5, and ``OAR::Stat`` of its sources.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlsim.workload import format_record
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog, job_cells, time_of
from mlsim.workload.log_fields import clock_seconds
from mlsim.workload.workload_jobs import NODE_COUNT, RECORDED_NODES

_ENDED = ("terminated", "error")
_LIMIT = re.compile(r"walltime=([\d:]+)")
_SUBMITTED = rb'"(submissionTime|submission_time)"\s*:'
_OF_OAR = (
    rb'"(Job_Id|job_user|jobType|job_type|assigned_resources|launchingDirectory|launching_directory)"\s*:'
)
_SOURCES = """
job_id Job_Id, id, job_id; submit_time submissionTime; run_time stopTime - startTime;
walltime walltime, wanted_resources; processors assigned_resources;
node_count assigned_network_address; status state, exit_code; user owner, job_user; group project;
executable name; recorded_start startTime; recorded_nodes assigned_network_address
"""


def read_oar(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read a list of jobs of OAR."""
    path = Path(path)
    records = format_record.json_records(path)
    return format_record.read_records(path, records, _job, options, sources=_SOURCES, unit="job")


def _first(record: Mapping[str, Any], *keys: str) -> Any:
    return next((record[key] for key in keys if record.get(key) not in (None, "")), None)


def _job(record: Mapping[str, Any]) -> dict[str, str] | None:
    state = str(record.get("state", "")).lower()
    if state not in _ENDED:
        return None
    job = _first(record, "Job_Id", "job_id", "id")
    if job is None:
        raise KeyError("Job_Id")
    nodes = _list(record, "assigned_network_address")
    limit = record.get("walltime")
    if limit is None and (found := _LIMIT.search(str(_first(record, "wanted_resources", "initial_request")))):
        limit = clock_seconds(found[1])
    return job_cells(
        job,
        time_of(_first(record, "submissionTime", "submission_time"), "submissionTime"),
        time_of(_first(record, "startTime", "start_time"), "startTime"),
        time_of(_first(record, "stopTime", "stop_time"), "stopTime"),
        walltime=limit,
        processors=len(_list(record, "assigned_resources")) or None,
        status=state == "terminated" and str(record.get("exit_code") or 0) == "0",
        user=_first(record, "owner", "job_user"),
        group=record.get("project"),
        executable=_first(record, "name", "job_name"),
        queue=_first(record, "queue", "queue_name"),
        **{NODE_COUNT: len(nodes) or None, RECORDED_NODES: ",".join(map(str, nodes))},
    )


def _list(record: Mapping[str, Any], key: str) -> list[Any]:
    found = record.get(key)
    return found if isinstance(found, list) else []


FORMAT = Format(
    "oar",
    "jobs of OAR as JSON: oarstat -J, or lists of its API",
    lambda head: head[:1] in (b"{", b"[") and all(re.search(key, head) for key in (_SUBMITTED, _OF_OAR)),
    read_oar,
    units="times in s since 1970",
)
