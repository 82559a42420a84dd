"""History of HTCondor: ``condor_history -long``, its files ``history``, or ``condor_history -json``.

A job has a record of attributes. Its run is the last one: from ``JobCurrentStartDate`` to its end. A job that
was removed before it started counts as cancelled. Where requests are expressions, the provisions count. They
are of each host of a job (parallel universe, ``MaxHosts``).

Source: HTCondor manual, "Job ClassAd Attributes".
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mlsim.workload import format_record
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog, job_cells, time_of
from mlsim.workload.workload_jobs import RECORDED_NODES

_ATTRIBUTE = re.compile(r"([A-Za-z_]\w*) = (.*)")
_LINE = re.compile(rb"(\*\*\* )?[A-Za-z_]\w* = ")
_REMOVED, _COMPLETED = 3, 4
_MINUTE: Final = 60
_SOURCES = """
job_id ClusterId, ProcId; submit_time QDate; run_time CompletionDate - JobCurrentStartDate;
walltime MaxWallTimeMins; processors RequestCpus, MaxHosts; node_count MaxHosts;
status JobStatus, ExitCode; user Owner; group AcctGroup; executable Cmd;
request_memory RequestMemory; request_gpu RequestGPUs;
recorded_start JobCurrentStartDate; recorded_nodes LastRemoteHost;
withdraw_time EnteredCurrentStatus
"""


def read_htcondor(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read a history of HTCondor."""
    path = Path(path)
    begin = next(format_record.read_chunks(path), b"").removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    json = begin in (b"{", b"[")
    records = format_record.json_records(path) if json else _records(path)
    unit = "job" if json else "line"
    return format_record.read_records(path, records, _job, options, sources=_SOURCES, unit=unit)


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the attributes of each job, with the number of the first line."""
    first, record = 0, dict[str, Any]()
    for number, line in format_record.record_lines(path, blank=True):
        found = None if line.startswith("***") else _ATTRIBUTE.fullmatch(line.strip())
        if found:
            first = first if record else number
            value = found[2].strip()
            record[found[1]] = value[1:-1] if value[:1] == value[-1:] == '"' else value
        elif record and (line.startswith("***") or not line.strip()):
            yield first, record
            record = {}
    if record:
        yield first, record


def _whole(record: Mapping[str, Any], *names: str) -> int | None:
    """Return the first of these attributes that is a whole number, and not an expression."""
    texts = (str(record.get(name, "")).removesuffix(".0") for name in names)
    return next(
        (int(text) for text in texts if text.isascii() and text.isdecimal() and len(text) <= 15), None
    )


def _job(record: Mapping[str, Any]) -> dict[str, str] | None:
    status = _whole(record, "JobStatus")
    if status not in (_REMOVED, _COMPLETED):
        return None
    cluster = _whole(record, "ClusterId")
    if cluster is None:
        raise KeyError("ClusterId")
    times = {
        name: time_of(record.get(name), name) for name in ("QDate", "JobCurrentStartDate", "JobStartDate")
    }
    ends = [time_of(record.get(name), name) for name in ("CompletionDate", "EnteredCurrentStatus")]
    memory, limit = _whole(record, "RequestMemory", "MemoryProvisioned"), _whole(record, "MaxWallTimeMins")
    code = _whole(record, "ExitCode", "ExitStatus")
    hosts, gpus = _whole(record, "MaxHosts") or 1, _whole(record, "RequestGPUs", "RequestGpus")
    return job_cells(
        f"{cluster}_{_whole(record, 'ProcId') or 0}",
        times["QDate"],
        times["JobCurrentStartDate"] or times["JobStartDate"],
        next(filter(None, ends), None),
        walltime=None if limit is None else _MINUTE * limit,
        processors=(_whole(record, "RequestCpus", "CpusProvisioned") or 1) * hosts,
        status=5 if status == _REMOVED else code == 0,
        user=record.get("Owner"),
        group=record.get("AcctGroup") or record.get("AccountingGroup"),
        executable=str(record.get("Cmd") or "").rpartition("/")[2],
        node_count=hosts if hosts > 1 else None,
        request_memory=f"{memory * hosts} MiB" if memory else "",
        request_gpu=None if gpus is None else gpus * hosts,
        **{RECORDED_NODES: str(record.get("LastRemoteHost") or "").rpartition("@")[2]},
    )


FORMAT = Format(
    "htcondor",
    "history of HTCondor: condor_history -long or -json",
    lambda head: b"ClusterId" in head and (_LINE.match(head) is not None or head[:1] in (b"[", b"{")),
    read_htcondor,
    units="times in s since 1970, RequestMemory in MiB",
)
