"""Accounting files of batch systems: records of text become columns of jobs. Here: PBS and Grid Engine.

PBS (Torque, OpenPBS, PBS Professional), records ``date;E;job;key=value key=value ...`` of jobs that ended:

==========================================  ==================================================================
key, the first of these                     meaning
==========================================  ==================================================================
(of the record)                             job_id, without the name of the server
``ctime``, ``qtime``, ``etime``             submit_time [s since 1970]
``end`` - ``start``                         run_time
``Resource_List.walltime``                  walltime
``Resource_List.ncpus``, ``.nodes`` (sum    processors
of nodes x ``ppn``), ``exec_host``,
``Resource_List.nodect``
``Resource_List.mem``, ``.ngpus``,          request_memory (kb, mb, gb: powers of 1024 B), request_gpu,
``.nodect``                                 node_count: what the whole job asks for
``Exit_status``                             status: 0 completed, others failed
``user``, ``group``, ``jobname``,           names
``queue``
==========================================  ==================================================================

Other records are passed over; jobs without a record E are counted (``unfinished_jobs``). A job that ran
several times has one record E for each run, and is as many jobs.

Grid Engine (SGE, UGE, ``accounting``), one line a job, by the places of its fields: job number (``_`` task),
submission, start and end, slots, exit status, owner, group, name, queue, and of the request (``-l``)
``h_rt`` as the walltime. A job that never started has start 0 and counts as cancelled.

Sources: PBS Professional Reference Guide, "Accounting log"; the manual page accounting(5) of Grid Engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from mlsim._files import decode
from mlsim.errors import InputError
from mlsim.workload.compression import read_whole
from mlsim.workload.parquet_logs import ParquetLog, log_of_table
from mlsim.workload.resource_requests import pbs_size
from mlsim.workload.swf_fields import Header

_TIMES = ("submit_time", "withdraw_time")
_CLOCK = re.compile(r"(?:(?:(\d{1,9}):)?(\d{1,9}):)?(\d{1,9})(?:\.\d+)?")
_SGE_FIELDS: Final = 40
_CATEGORY = 39
_LIMIT = re.compile(r"\bh_rt=(\d+(?::\d\d){0,2})(?![\d.])")
"""In the request of a job; if it has colons, these divide the field."""


def log_of_accounting(
    path: Path,
    columns: Mapping[str, list[str]],
    header: Header,
    *,
    lenient: bool,
    own: Sequence[str] = (),
    broken: int = 0,
    counts: Mapping[str, int] | None = None,
) -> ParquetLog:
    """Make a log of columns of texts, whose time 0 is the first submission.

    Parameters
    ----------
    path
        Where they come from.
    columns
        As those of CSV workloads, with times in seconds since 1970.
    header
        What the log says about itself; its start is put in.
    lenient, own
        As for :func:`mlsim.workload.parquet_logs.read_parquet`.
    broken, counts
        Lines that were skipped, and what else was passed over.
    """
    zero = min(float(cell) for cell in columns["submit_time"])
    shifted = {
        name: [str(float(cell) - zero) if cell else "" for cell in columns[name]]
        for name in _TIMES
        if name in columns
    }
    table = pl.DataFrame({**columns, **shifted})
    if zero.is_integer():
        header["UnixStartTime"] = str(int(zero))
    log = log_of_table(str(path), table.columns, table, header, lenient=lenient, own=own)
    return ParquetLog(log.jobs, log.header, log.broken_lines + broken, dict(counts or {}))


def read_pbs(path: str | Path, *, lenient: bool = False) -> ParquetLog:
    """Read an accounting file of PBS.

    Raises
    ------
    InputError
        The file cannot be read, holds no job that ended, or (unless `lenient`) a record makes no sense.
    """
    path = Path(path)
    seen: set[str] = set()
    ended: set[str] = set()

    def jobs() -> Iterator[tuple[int, dict[str, str]]]:
        for number, line in _lines(path):
            record = line.split(";", 3)
            if len(record) < 4:
                yield number, {}
                continue
            seen.add(record[2])
            if record[1] == "E":
                ended.add(record[2])
                yield number, {"job": record[2], **_pairs(record[3])}

    log = _read(path, jobs(), _pbs_job, lenient)
    return ParquetLog(log.jobs, log.header, log.broken_lines, {"unfinished_jobs": len(seen - ended)})


def _pairs(text: str) -> dict[str, str]:
    """Return keys and values; a word without a key belongs to the value before it."""
    found = re.split(r"(?:^|\s+)([A-Za-z_][\w.]*)=", text.strip())
    return dict(zip(found[1::2], found[2::2], strict=True))


def _pbs_job(record: Mapping[str, str]) -> dict[str, str]:
    start, end = (_whole(record, key) for key in ("start", "end"))
    submit = next((record[key] for key in ("ctime", "qtime", "etime") if key in record), "")
    size = record.get("Resource_List.mem", "")
    return {
        "job_id": record["job"].partition(".")[0],
        "submit_time": str(_number(submit, "ctime")),
        "run_time": str(end - start),
        "walltime": _seconds(record.get("Resource_List.walltime", ""), "Resource_List.walltime"),
        "processors": str(_pbs_processors(record)),
        "status": "1" if record.get("Exit_status") == "0" else "0",
        "user": record.get("user", ""),
        "group": record.get("group", ""),
        "executable": record.get("jobname", ""),
        "queue": record.get("queue", ""),
        "node_count": record.get("Resource_List.nodect", ""),
        "request_memory": _bytes(size) if size else "",
        "request_gpu": record.get("Resource_List.ngpus", ""),
    }


def _pbs_processors(record: Mapping[str, str]) -> int:
    if "Resource_List.ncpus" in record:
        return _whole(record, "Resource_List.ncpus")
    asked = record.get("Resource_List.nodes", "")
    if "ppn=" in asked:
        found = [re.search(r"ppn=(\d+)", part) for part in asked.split("+")]
        nodes = [re.match(r"\d+", part) for part in asked.split("+")]
        return sum(
            (int(n[0]) if n else 1) * (int(p[1]) if p else 1) for n, p in zip(nodes, found, strict=True)
        )
    if held := record.get("exec_host"):
        return sum(_held(part) for part in held.split("+"))
    return _whole(record, "Resource_List.nodect")


def _held(part: str) -> int:
    """Return the processors of a part of exec_host: ``n1/0``, ``n1/0*4`` or ``n1/0-3,5``."""
    places = part.partition("/")[2]
    if "*" in places:
        return int(places.partition("*")[2] or 1)
    spans = [span.partition("-") for span in places.split(",")]
    return sum(int(last) - int(first) + 1 if last else 1 for first, _, last in spans)


def read_sge(path: str | Path, *, lenient: bool = False) -> ParquetLog:
    """Read an accounting file of Grid Engine.

    Raises
    ------
    InputError
        The file cannot be read, holds no job, or (unless `lenient`) a line makes no sense.
    """
    path = Path(path)
    lines = (
        (number, {str(k): field for k, field in enumerate(line.split(":"))})
        for number, line in _lines(path)
        if not line.startswith("#")
    )
    return _read(path, lines, _sge_job, lenient)


def _sge_job(fields: Mapping[str, str]) -> dict[str, str]:
    if len(fields) < _SGE_FIELDS:
        raise ValueError(f"{len(fields)} fields; expected at least {_SGE_FIELDS}")
    submit, start, end = (
        _sge_time(fields[k], what) for k, what in (("8", "submission"), ("9", "start"), ("10", "end"))
    )
    limit = _LIMIT.search(":".join(list(fields.values())[_CATEGORY:]))
    task = fields["35"]
    ran = start > 0
    return {
        "job_id": fields["5"] + (f"_{task}" if task not in ("", "0") else ""),
        "submit_time": str(submit),
        "run_time": str(end - start) if ran else "0",
        "walltime": _seconds(limit[1], "h_rt") if limit else "",
        "processors": str(_number(fields["34"], "slots")),
        "status": "5" if not ran else "1" if fields["11"] == fields["12"] == "0" else "0",
        "user": fields["3"],
        "group": fields["2"],
        "executable": fields["4"],
        "queue": fields["0"],
    }


def _sge_time(text: str, what: str) -> float:
    time = _number(text, what)
    return time / 1000 if time > 1e11 else float(time)  # newer versions count milliseconds


# Records


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    text = decode(read_whole(path, lines=True), path, "workload")
    return ((number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip())


def _read(
    path: Path,
    records: Iterator[tuple[int, dict[str, str]]],
    job: Callable[[Mapping[str, str]], dict[str, str]],
    lenient: bool,
) -> ParquetLog:
    """Make a log of records; an error of ``job`` says what is wrong with one, or what it lacks."""
    rows: list[dict[str, str]] = []
    broken = 0
    for number, record in records:
        try:
            rows.append(job(record))
        except (ValueError, KeyError) as error:
            found = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
            if not lenient:
                raise InputError(
                    f"{path}: line {number}: {found}\n"
                    "  to skip and count such lines, set workload.lenient: true"
                ) from error
            broken += 1
    if not rows:
        raise InputError(f"{path}: holds no job that ended")
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    known = {
        name: cells
        for name, cells in columns.items()
        if any(cells) or not (name.startswith("request_") or name == "node_count")
    }
    return log_of_accounting(path, known, {}, lenient=lenient, broken=broken)


def _number(text: str, what: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise ValueError(f"{what} is {text!r:.60}; expected a whole number")
    return int(text)


def _whole(record: Mapping[str, str], key: str) -> int:
    return _number(record[key], key)


def _seconds(text: str, what: str) -> str:
    """Return the seconds of ``hours:minutes:seconds`` or of a number; nothing for nothing."""
    if not text:
        return ""
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError(f"{what} is {text!r:.60}; expected a time such as 04:00:00")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return str(3600 * hours + 60 * minutes + seconds)


def _bytes(text: str) -> str:
    try:
        return f"{pbs_size(text)} B"
    except ValueError:
        raise ValueError(f"Resource_List.mem is {text!r:.60}; expected a size such as 4gb") from None
