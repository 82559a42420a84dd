"""Accounting of PBS (Torque, OpenPBS, PBS Professional): records of jobs that ended.

A record is ``date;E;job;key=value key=value ...``; :func:`_job` maps keys to columns of the log. Memory
counts in powers of 1024 B, and requests are those of the whole job. A job that ran several times has one
record E for each run, and is as many jobs; jobs without one are counted (``unfinished_jobs``).

Source: PBS Professional Reference Guide, "Accounting log".
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from mlsim.workload import format_record
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog, seconds_cell, whole_number
from mlsim.workload.workload_jobs import RECORDED_NODES, RECORDED_START, pbs_size

_LINE = re.compile(rb"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z];[^;]+;")
_HOST = re.compile(r"(?:^|\+)([^/+]+)")
_KEY = re.compile(r"(?:^|\s+)([A-Za-z_][\w.]*)=")


def read_pbs(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read an accounting file of PBS."""
    path = Path(path)
    seen: set[str] = set()
    ended: set[str] = set()

    def jobs() -> Iterator[tuple[int, dict[str, str]]]:
        for number, line in format_record.record_lines(path):
            record = line.split(";", 3)
            if len(record) < 4:
                yield number, {}
                continue
            seen.add(record[2])
            if record[1] == "E":
                ended.add(record[2])
                # A word without a key belongs to the value before it.
                found = _KEY.split(record[3].strip())
                yield number, {"job": record[2], **dict(zip(found[1::2], found[2::2], strict=True))}

    return format_record.read_records(
        path, jobs(), _job, options, counts=lambda: {"unfinished_jobs": len(seen - ended)}
    )


def _job(record: Mapping[str, str]) -> dict[str, str]:
    start, end = (whole_number(record[key], key) for key in ("start", "end"))
    submit = next((record[key] for key in ("ctime", "qtime", "etime") if key in record), "")
    size = record.get("Resource_List.mem", "")
    return {
        "job_id": record["job"].partition(".")[0],
        "submit_time": str(whole_number(submit, "ctime")),
        "run_time": str(end - start),
        "walltime": seconds_cell(record.get("Resource_List.walltime", ""), "Resource_List.walltime"),
        "processors": str(_processors(record)),
        "status": "1" if record.get("Exit_status") == "0" else "0",
        "user": record.get("user", ""),
        "group": record.get("group", ""),
        "executable": record.get("jobname", ""),
        "queue": record.get("queue", ""),
        RECORDED_START: str(start),
        RECORDED_NODES: ",".join(dict.fromkeys(_HOST.findall(record.get("exec_host", "")))),
        "node_count": record.get("Resource_List.nodect", ""),
        "request_memory": _bytes(size) if size else "",
        "request_gpu": record.get("Resource_List.ngpus", ""),
    }


def _processors(record: Mapping[str, str]) -> int:
    if "Resource_List.ncpus" in record:
        return whole_number(record["Resource_List.ncpus"], "Resource_List.ncpus")
    asked = record.get("Resource_List.nodes", "")
    if "ppn=" in asked:
        parts = [(re.match(r"\d+", part), re.search(r"ppn=(\d+)", part)) for part in asked.split("+")]
        return sum((int(nodes[0]) if nodes else 1) * (int(ppn[1]) if ppn else 1) for nodes, ppn in parts)
    if held := record.get("exec_host"):
        return sum(_held(part) for part in held.split("+"))
    return whole_number(record["Resource_List.nodect"], "Resource_List.nodect")


def _held(part: str) -> int:
    """Return the processors of a part of exec_host: ``n1/0``, ``n1/0*4`` or ``n1/0-3,5``."""
    places = part.partition("/")[2]
    if "*" in places:
        return int(places.partition("*")[2] or 1)
    spans = [span.partition("-") for span in places.split(",")]
    return sum(int(last) - int(first) + 1 if last else 1 for first, _, last in spans)


def _bytes(text: str) -> str:
    try:
        return f"{pbs_size(text)} B"
    except ValueError:
        raise ValueError(f"Resource_List.mem is {text!r:.60}; expected a size such as 4gb") from None


FORMAT = Format(
    "pbs",
    "accounting of PBS, Torque and OpenPBS: records of jobs that ended",
    lambda head: _LINE.match(head) is not None,
    read_pbs,
)
