"""Accounting of PBS (Torque, OpenPBS, PBS Professional) and Cobalt: records of jobs that ended.

A record is ``date;E;job;key=value key=value ...``; :func:`_job` maps keys to columns of the log. Memory
counts in powers of 1024 B, and requests are those of the whole job. Records R, of runs that ended in a return
to the queue, are read where they have times; jobs without a record E are counted (``unfinished_jobs``).

Source: PBS Professional Reference Guide, "Accounting log".
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from mlsim.workload import format_record
from mlsim.workload.format_record import (
    STRICT,
    Format,
    Reading,
    WholeLog,
    job_cells,
    seconds_cell,
    time_of,
    whole_number,
)
from mlsim.workload.workload_jobs import RECORDED_NODES, pbs_size

_LINE = re.compile(rb"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z];[^;]+;")
_HOST = re.compile(r"(?:^|\+)([^/+]+)")
_RAN = re.compile(r"(^|\s)start=")
_KEY = re.compile(r"(?:^|\s+)([A-Za-z_][\w.]*)=")

_SOURCES = """
job_id third field; submit_time ctime, qtime, etime; run_time end - start;
walltime Resource_List.walltime;
processors Resource_List.ncpus, Resource_List.nodes, exec_host, Resource_List.nodect;
node_count Resource_List.nodect; request_memory Resource_List.mem, Resource_List.pmem;
request_gpu Resource_List.ngpus, Resource_List.nodes; status Exit_status; group group, project;
executable jobname; recorded_start start; recorded_nodes exec_host; withdraw_time end
"""


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
            if record[1] == "E" or (record[1] == "R" and _RAN.search(record[3])):
                ended.update([record[2]] if record[1] == "E" else [])
                # A word without a key belongs to the value before it.
                found = _KEY.split(record[3].strip())
                keys = (key.lower() for key in found[1::2])
                values = (value.strip('"') for value in found[2::2])
                yield (
                    number,
                    {"job": record[2], "record_type": record[1], **dict(zip(keys, values, strict=True))},
                )

    return format_record.read_records(
        path, jobs(), _job, options, left_out=lambda: {"unfinished_jobs": len(seen - ended)}, sources=_SOURCES
    )


def _job(record: Mapping[str, str]) -> dict[str, str]:
    start, end = (time_of(record.get(key), key) for key in ("start", "end"))
    submit = next((record[key] for key in ("ctime", "qtime", "etime") if key in record), "")
    processors = _processors(record)
    if start is None and end is None:
        raise KeyError("start")
    return job_cells(
        record["job"].partition(".")[0],
        time_of(submit, "ctime"),
        start,
        end,
        walltime=seconds_cell(record.get("resource_list.walltime", ""), "Resource_List.walltime"),
        processors=processors,
        status=int(record["exit_status"] == "0") if "exit_status" in record else None,
        user=record.get("user", ""),
        group=record.get("group", record.get("project", "")),
        executable=record.get("jobname", ""),
        queue=record.get("queue", ""),
        node_count=record.get("resource_list.nodect", ""),
        request_memory=_memory(record, processors),
        request_gpu=record.get("resource_list.ngpus")
        or _of_nodes(record.get("resource_list.nodes", ""), "gpus", 0)
        or "",
        requeued="R" if record["record_type"] == "R" else "",
        **{RECORDED_NODES: ",".join(dict.fromkeys(_HOST.findall(record.get("exec_host", ""))))},
    )


def _processors(record: Mapping[str, str]) -> int | None:
    if "resource_list.ncpus" in record:
        return whole_number(record["resource_list.ncpus"], "Resource_List.ncpus")
    asked = record.get("resource_list.nodes", "")
    if "ppn=" in asked:
        return _of_nodes(asked, "ppn", 1)
    held = record.get("exec_host", "")
    if held:  # Cobalt's is a location of whole nodes, all of whose processors count
        return sum(_held(part) for part in held.split("+")) if "/" in held else None
    nodes = record.get("resource_list.nodect", "")
    return whole_number(nodes, "Resource_List.nodect") if nodes else None


def _of_nodes(asked: str, name: str, default: int) -> int:
    """Return the total of an amount per node in a request such as 2:ppn=8:gpus=1+1:ppn=4."""
    total = 0
    for part in asked.split("+"):
        nodes, amount = re.match(r"(\d{1,9})(?![^:])", part), re.search(rf":{name}=(\d{{1,9}})\b", part)
        total += (int(nodes[1]) if nodes else 1) * (int(amount[1]) if amount else default)
    return total


def _held(part: str) -> int:
    """Return the processors of a part of exec_host: ``n1/0``, ``n1/0*4`` or ``n1/0-3,5``."""
    places = part.partition("/")[2]
    if "*" in places:
        return whole_number(places.partition("*")[2] or "1", "exec_host")
    spans = [span.partition("-") for span in places.split(",") if span]
    ends = [
        (whole_number(first, "exec_host"), whole_number(last or first, "exec_host"))
        for first, _, last in spans
    ]
    return sum(last - first + 1 for first, last in ends) or 1


def _memory(record: Mapping[str, str], processors: int | None) -> str:
    """Return the memory of the whole job: Torque's ``pmem`` is of each process."""
    for name, times in (("mem", 1), ("pmem", processors or 0)):
        text = record.get(f"resource_list.{name}", "")
        try:
            if text and times:
                return f"{pbs_size(text) * times} B"
        except ValueError:
            raise ValueError(f"Resource_List.{name} is {text!r:.60}; expected a size such as 4gb") from None
    return ""


FORMAT = Format(
    "pbs",
    "accounting of PBS, Torque and OpenPBS: records of jobs that ended",
    lambda head: _LINE.match(head) is not None,
    read_pbs,
    units="memory in powers of 1024 B, words of 8 B",
)
