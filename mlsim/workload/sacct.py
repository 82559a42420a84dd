"""Reader of what Slurm's accounting prints: ``sacct --parsable2``, one line of names, then one line a job.

=====================================  ===============================================================
column of sacct, the first of these    meaning
=====================================  ===============================================================
``JobIDRaw``, ``JobID``                job_id; lines of steps (``17.batch``) are passed over
``Submit``                             submit_time: a date and time, or seconds since 1970
``ElapsedRaw``, ``Elapsed``            run_time: seconds, or ``[days-]hours:minutes:seconds``
``TimelimitRaw``, ``Timelimit``        walltime: minutes, or as Elapsed; a word, such as UNLIMITED: unknown
``ReqCPUS``, ``AllocCPUS``, ``NCPUS``  processors
``State``                              status: COMPLETED 1, CANCELLED 5, others that end a job 0
``User``, ``JobName``, ``Partition``,  user, executable, partition, qos: names
``QOS``
``Group``, ``Account``                 group
``ReqTRES``, ``AllocTRES``             request_memory (K, M, G, T: powers of 1024 B), request_gpu: what the
                                       whole job asks for
``ReqTRES``, ``AllocTRES``,            node_count: ``node=`` of what the job asked for; unknown where it got
``NNodes``                             more nodes, as Slurm then chose them
=====================================  ===============================================================

The first five must be there. Other columns are passed over, unless they are asked for. Time 0 is the first
submission. sacct prints times on the clocks of the cluster, without their zone; so does the log: its header
counts them as if they were UTC, and an hour that clocks are set back by is there twice.

Source: the manual page of sacct, Slurm 24.05. A file is held in memory as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import polars as pl

from mlsim._files import decode
from mlsim.errors import InputError
from mlsim.workload.columns import check_names
from mlsim.workload.compression import read_whole
from mlsim.workload.header import Header
from mlsim.workload.memory_units import slurm_size
from mlsim.workload.own_columns import check_own
from mlsim.workload.parquet import ParquetLog, log_of_table
from mlsim.workload.request_columns import NODE_COUNT

__all__ = ["read_sacct"]

_ASK = (
    "sacct --parsable2 --allocations --format=JobIDRaw,Submit,ElapsedRaw,TimelimitRaw,ReqCPUS,State,User,"
    "Group,Partition,QOS,JobName,NNodes,ReqTRES"
)
_SPAN = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})(?:\.\d+)?")
_WHOLE = re.compile(r"\d{1,15}")
_RUNS_ON = ("PENDING", "RUNNING", "REQUEUED", "RESIZING", "SUSPENDED", "CONFIGURING", "COMPLETING")
_STATUS = {"COMPLETED": "1", "CANCELLED": "5"}
_NODES = ("ReqTRES", "AllocTRES", "NNodes")
"""Columns that say how many nodes a job asked for or got."""


class _Column(NamedTuple):
    """What a column of the log is made of: the first of these columns, each with what reads its cells."""

    name: str
    sources: dict[str, Callable[[str], str]]
    needed: bool = False


def _whole(cell: str) -> str:
    if not _WHOLE.fullmatch(cell):
        raise ValueError("a whole number")
    return cell


def _job(cell: str) -> str:
    if not _WHOLE.fullmatch(cell):
        raise ValueError("a whole number, which JobIDRaw is for elements of arrays too")
    return cell


def _moment(cell: str) -> str:
    if _WHOLE.fullmatch(cell):
        return cell
    try:
        moment = datetime.fromisoformat(cell)
    except ValueError:
        raise ValueError("a date and time such as 2024-03-01T12:00:00, or seconds since 1970") from None
    return str(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())


def _span(cell: str) -> str:
    found = _SPAN.fullmatch(cell)
    if found is None:
        raise ValueError("a time such as 1-02:30:00")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return str(((24 * days + hours) * 60 + minutes) * 60 + seconds)


def _minutes(cell: str) -> str:
    return str(60 * int(cell)) if _WHOLE.fullmatch(cell) else _limit(cell)


def _limit(cell: str) -> str:
    return "" if cell.isalpha() or "_" in cell else _span(cell) if cell else ""


def _status(cell: str) -> str:
    word = cell.partition(" ")[0].rstrip("+")
    if word in _RUNS_ON:
        raise ValueError("a job that has ended; sacct --state=CD,CA,F,TO,NF,OOM,DL lists such alone")
    return _STATUS.get(word, "0" if word else "")


def _tres(cell: str) -> dict[str, str]:
    amounts = dict(part.partition("=")[::2] for part in cell.split(",") if part)
    if not all(amounts.values()):
        raise ValueError("resources such as billing=4,cpu=4,gres/gpu=2,mem=16G,node=1")
    return amounts


def _memory(cell: str) -> str:
    text = _tres(cell).get("mem", "")
    if not text:
        return ""
    try:
        return f"{slurm_size(text)} B"
    except ValueError:
        raise ValueError("memory such as mem=16G") from None


def _gpus(cell: str) -> str:
    amounts = _tres(cell)
    typed = [amount for name, amount in amounts.items() if name.startswith("gres/gpu:")]
    # Slurm names the total beside the types, if accounting is told of both.
    total = [amounts["gres/gpu"]] if "gres/gpu" in amounts else typed
    return str(sum(int(_whole(amount)) for amount in total)) if total else ""


def _node_count(by_name: dict[str, str]) -> str:
    """Return the nodes that a job is bound to; nothing where that is not known.

    What is requested is the least number. Where the job got more, Slurm chose, and so does the allocator.
    """
    requested = _tres(by_name.get("ReqTRES", "")).get("node", "")
    got = _tres(by_name.get("AllocTRES", "")).get("node", "") or by_name.get("NNodes", "")
    known = {_whole(cell) for cell in (requested, got) if cell} - {"0"}
    return known.pop() if len(known) == 1 else ""


_COLUMNS = (
    _Column("job_id", {"JobIDRaw": _job, "JobID": _job}, needed=True),
    _Column("submit_time", {"Submit": _moment}, needed=True),
    _Column("run_time", {"ElapsedRaw": _whole, "Elapsed": _span}, needed=True),
    _Column("walltime", {"TimelimitRaw": _minutes, "Timelimit": _limit}, needed=True),
    _Column("processors", {"ReqCPUS": _whole, "AllocCPUS": _whole, "NCPUS": _whole}, needed=True),
    _Column("status", {"State": _status}),
    _Column("user", {"User": str}),
    _Column("group", {"Group": str, "Account": str}),
    _Column("executable", {"JobName": str}),
    _Column("partition", {"Partition": str}),
    _Column("qos", {"QOS": str}),
    _Column("request_memory", {"ReqTRES": _memory, "AllocTRES": _memory}),
    _Column("request_gpu", {"ReqTRES": _gpus, "AllocTRES": _gpus}),
)


def read_sacct(path: str | Path, *, lenient: bool = False, own: Sequence[str] = ()) -> ParquetLog:
    """Read what sacct printed, compressed or not.

    Parameters
    ----------
    path
        The file.
    lenient
        Skip and count broken lines, and jobs that have not ended.
    own
        Further columns that are wanted, by sacct's names.

    Raises
    ------
    InputError
        The file cannot be read, a column is missing, or (unless `lenient`) a line is broken.
    """
    path = Path(path)
    head, *lines = decode(read_whole(path), path, "workload").split("\n")
    bar = "|" if head.rstrip().endswith("|") else ""  # that of sacct --parsable
    names = head.strip().removesuffix(bar).split("|")
    used = _used(path, names)
    asking = [name for name in _NODES if name in names]
    further = [name for name in names if name not in {*asking, *(source for source, _ in used.values())}]
    check_own(str(path), own, further)
    columns: dict[str, list[str]] = {name: [] for name in (*used, NODE_COUNT, *own)}
    broken = 0
    for number, line in enumerate(lines, start=2):
        cells = line.rstrip("\r").removesuffix(bar).split("|")
        if not line.strip() or "." in dict(zip(names, cells, strict=False))[used["job_id"][0]]:
            continue
        try:
            row = _row(names, cells, used, own)
        except ValueError as error:
            if not lenient:
                raise InputError(
                    f"{path}: line {number}: {error}\n"
                    "  to skip and count such lines, set workload.lenient: true"
                ) from error
            broken += 1
            continue
        for name, cell in row.items():
            columns[name].append(cell)
    if not columns["job_id"]:
        raise InputError(f"{path}: holds no job")
    for name in ("request_memory", "request_gpu", NODE_COUNT):
        if not any(columns.get(name, ())):  # no job asks for any, so that the machine need not have it
            columns.pop(name, None)
    ignored = [name for name in further if name not in own]
    log = _log(path, columns, {"ignored_columns": ignored} if ignored else {}, lenient, own)
    return ParquetLog(log.jobs, log.header, log.broken_lines + broken)


def _used(path: Path, names: list[str]) -> dict[str, tuple[str, Callable[[str], str]]]:
    """Choose the column of sacct that each column of the log is read from."""
    if len(set(names)) < len(names):
        check_names(f"{path}: line 1", names)
    used = {}
    for column in _COLUMNS:
        found = [source for source in column.sources if source in names]
        if found:
            used[column.name] = found[0], column.sources[found[0]]
        elif column.needed:
            raise InputError(
                f"{path}: line 1: column {' or '.join(column.sources)} is missing; found: "
                f"{', '.join(names)[:400]}\n  {_ASK} prints all that is read"
            )
    return used


def _row(
    names: list[str], cells: list[str], used: dict[str, tuple[str, Callable[[str], str]]], own: Sequence[str]
) -> dict[str, str]:
    """Read one job; a ValueError says what is wrong."""
    if len(cells) != len(names):
        raise ValueError(f"{len(cells)} cells; the first line names {len(names)} columns")
    by_name = dict(zip(names, cells, strict=True))
    row = {name: by_name[name] for name in own}
    for name, (source, read) in used.items():
        try:
            row[name] = read(by_name[source].strip())
        except ValueError as error:
            raise ValueError(f"{source} is {by_name[source]!r:.60}; expected {error}") from error
    try:
        row[NODE_COUNT] = _node_count({name: by_name[name].strip() for name in _NODES if name in by_name})
    except ValueError as error:
        found = ", ".join(f"{name} {by_name[name]!r:.60}" for name in _NODES if name in by_name)
        raise ValueError(f"{found}: the number of nodes is not {error}") from error
    return row


def _log(
    path: Path, columns: dict[str, list[str]], header: Header, lenient: bool, own: Sequence[str]
) -> ParquetLog:
    """Make a log whose time 0 is the first submission."""
    submitted = [float(cell) for cell in columns["submit_time"]]
    zero = min(submitted)
    table = pl.DataFrame(columns).with_columns(submit_time=pl.Series([time - zero for time in submitted]))
    if zero.is_integer():
        header["UnixStartTime"] = str(int(zero))
    return log_of_table(str(path), table.columns, table, header, lenient=lenient, own=own)
