"""Reader of the output of Slurm's accounting: ``sacct --parsable2`` or ``sacct --json``.

:data:`_COLUMNS` lists sacct's columns for each column of the log: the first of them that is not empty in
the job counts. Steps (``17.batch``) are skipped, and so is the rest of an array that was cancelled
(``17_[3-9]``). sacct prints times on the clocks of the cluster, without their zone; the log counts them as if
they were UTC, so that an hour that clocks are set back by is there twice. Times of ``--json`` have no such
hour.

Sources: the manual page of sacct, Slurm 24.05; output of ``--json`` by its data parsers 0.0.37 to 0.0.41. A
file is held in memory as a whole.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mlsim._files import decode, json_of, named
from mlsim.errors import InputError
from mlsim.workload import format_record, log_fields, workload_jobs
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog, read_records

_ASK = (
    "sacct --parsable2 --allocations --format=JobIDRaw,Submit,ElapsedRaw,TimelimitRaw,ReqCPUS,State,User,"
    "Start,End,Group,Partition,QOS,JobName,NNodes,NodeList,ReqTRES,AllocTRES"
)
_WHOLE = re.compile(r"\d{1,15}")
_NO_TIME = ("", "None", "Unknown", "0")
_IDS = ("JobIDRaw", "JobID")
_REST = re.compile(r"\d+_\[.*\]")
_TRES = ("ReqTRES", "AllocTRES")
_AMOUNT = re.compile(r"[\w/:.-]+=[^=]*")
_DELIMITERS = "|\t,;"
_RULES = re.compile(r"-+(\s+-+)*")
_RUNS_ON = ("PENDING", "RUNNING", "REQUEUED", "RESIZING", "SUSPENDED", "CONFIGURING", "COMPLETING")
_STATUS = {"COMPLETED": "1", "CANCELLED": "5"}
_NODES = ("ReqTRES", "AllocTRES", "NNodes")  # with the number of nodes that a job requested or got


def _whole(cell: str) -> str:
    if not _WHOLE.fullmatch(cell):
        raise ValueError("a whole number")
    return cell


def _job(cell: str) -> str:
    if not cell:
        raise ValueError("an identifier")
    return cell


def _moment(cell: str) -> str:
    if _WHOLE.fullmatch(cell):
        return cell
    try:
        return str(log_fields.unix_time(cell))
    except ValueError:
        raise ValueError("a date and time such as 2024-03-01T12:00:00, or seconds since 1970") from None


def _end(cell: str) -> str:
    return "" if cell in _NO_TIME else _moment(cell)


def _node_list(cell: str) -> str:
    return "" if cell in ("None assigned", "None", "(null)") else cell


def _span(cell: str) -> str:
    seconds = log_fields.clock_seconds(cell) if ":" in cell else None
    if seconds is None:
        raise ValueError("a time such as 1-02:30:00")
    return str(seconds)


def _minutes(cell: str) -> str:
    return str(60 * int(cell)) if _WHOLE.fullmatch(cell) else _limit(cell)


def _limit(cell: str) -> str:
    """Read a limit; a word such as UNLIMITED is unknown."""
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
    try:
        return f"{workload_jobs.slurm_size(text)} B" if text else ""
    except ValueError:
        raise ValueError("memory such as mem=16G") from None


def _gpus(cell: str) -> str:
    amounts = _tres(cell)
    typed = [amount for name, amount in amounts.items() if name.startswith("gres/gpu:")]
    # Slurm names the total beside the types, if accounting tracks both.
    total = [amounts["gres/gpu"]] if "gres/gpu" in amounts else typed
    return str(sum(int(_whole(amount)) for amount in total)) if total else ""


def _node_count(by_name: dict[str, str]) -> str:
    """Return the nodes that a job is bound to; empty if unknown, or if Slurm chose among several numbers."""
    requested = _tres(by_name.get("ReqTRES", "")).get("node", "")
    got = _tres(by_name.get("AllocTRES", "")).get("node", "") or by_name.get("NNodes", "")
    known = {_whole(cell) for cell in (requested, got) if cell} - {"0"}
    return known.pop() if len(known) == 1 else ""


_Sources = dict[str, Callable[[str], str]]
_COLUMNS: dict[str, _Sources] = {
    "job_id": dict.fromkeys(_IDS, _job),
    "submit_time": {"Submit": _moment},
    "run_time": {"ElapsedRaw": _whole, "Elapsed": _span},
    "walltime": {"TimelimitRaw": _minutes, "Timelimit": _limit},
    "processors": {"ReqCPUS": _whole, "AllocCPUS": _whole, "NCPUS": _whole},
    "status": {"State": _status},
    "withdraw_time": {"End": _end},
    "recorded_start": {"Start": _end},
    "recorded_nodes": {"NodeList": _node_list},
    "user": {"User": str},
    "group": {"Group": str, "Account": str},
    "executable": {"JobName": str},
    "partition": {"Partition": str},
    "qos": {"QOS": str},
    "request_memory": {"ReqTRES": _memory, "AllocTRES": _memory},
    "request_gpu": {"ReqTRES": _gpus, "AllocTRES": _gpus},
}
"""Columns of the log: their sources in order of preference, each with the reader of its cells."""
_NEEDED = ("job_id", "submit_time", "run_time", "walltime", "processors")


def read_sacct(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read what sacct printed, compressed or not; jobs that have not ended are broken lines."""
    from mlsim.workload.log_columns import check_own

    path = Path(path)
    json = next(format_record.read_chunks(path), b"").removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    text = decode(format_record.read_whole(path, lines=not json), path, "workload")
    rows = _of_json(path, text) if json else _of_text(path, text)
    names = next(rows)[1]
    used = _used(path, names)
    read = {source for sources in used.values() for source in sources}
    further = [name for name in names if name not in read and name not in _NODES]
    check_own(str(path), options.own, further)
    ids = [names.index(name) for name in _IDS if name in names]
    skipped = Counter[str]()

    def jobs() -> Iterator[tuple[int, list[str]]]:
        for number, cells in rows:
            cells = [cell.strip() for cell in cells]
            whole = len(cells) == len(names)
            job = next((cells[place] for place in ids if whole and cells[place]), "")
            if _REST.fullmatch(job) and "." not in job:
                skipped["array_rests"] += 1
            elif "." not in job:
                yield number, cells

    unit = "job" if json else "line"
    job = partial(_row, names, used, options.wanted(further))
    return read_records(path, jobs(), job, options, counts=lambda: skipped, further=further, unit=unit)


def _of_text(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each line with its number: first the names, then jobs."""
    head, *lines = text.split("\n")
    delimiter = max(_DELIMITERS, key=head.count)
    if not head.count(delimiter) or (lines and _RULES.fullmatch(lines[0].strip())):
        raise InputError(
            f"{path}: is what sacct prints without --parsable2, which cuts cells short; print it anew:\n"
            f"  {_ASK}"
        )
    names = _cells(head, delimiter)
    if not names[-1]:  # sacct --parsable ends lines with a delimiter
        names.pop()
    yield 1, names
    for number, line in enumerate(lines, start=2):
        if line.strip() and line.strip() != head.strip():  # a file may be several, end to end
            cells = _cells(line, delimiter)
            if len(cells) > len(names) and delimiter == ",":
                cells = _joined(cells, names)
            if len(cells) == len(names) + 1 and not cells[-1]:
                cells.pop()
            yield number, cells


def _cells(line: str, delimiter: str) -> list[str]:
    line = line.strip("\r\n")
    if delimiter != "|" and '"' in line:
        return next(csv.reader([line], delimiter=delimiter))
    return line.split(delimiter)


def _joined(cells: list[str], names: list[str]) -> list[str]:
    """Join the amounts of resources again that commas have divided."""
    found, rest = [], list(reversed(cells))
    for name in names:
        if not rest:
            break
        cell = rest.pop()
        while name in _TRES and "=" in cell and rest and _AMOUNT.fullmatch(rest[-1]):
            cell += f",{rest.pop()}"
        found.append(cell)
    return found + rest[::-1]


def _used(path: Path, names: list[str]) -> dict[str, _Sources]:
    """Return the columns of the log of which the file has a source, with these sources."""
    if len(set(names)) < len(names):
        from mlsim.workload.log_columns import check_names

        check_names(f"{path}: line 1", names)
    used = {}
    for column, known in _COLUMNS.items():
        sources = {source: read for source, read in known.items() if source in names}
        if sources:
            used[column] = sources
        elif column in _NEEDED:
            raise InputError(
                f"{path}: line 1: column {' or '.join(known)} is missing; found: "
                f"{', '.join(names)[:400]}\n  {_ASK} prints all that is read"
            )
    return used


def _row(names: list[str], used: dict[str, _Sources], own: Sequence[str], cells: list[str]) -> dict[str, str]:
    """Read one job; raise ValueError with the reason if it is invalid."""
    if len(cells) != len(names):
        raise ValueError(f"{len(cells)} cells; the first line names {len(names)} columns")
    by_name = dict(zip(names, cells, strict=True))
    row = {}
    for column, sources in used.items():
        # Where one column is empty, in jobs of older versions of Slurm, the next one may have the value.
        source = next((source for source in sources if by_name[source]), next(iter(sources)))
        try:
            row[column] = sources[source](by_name[source])
        except ValueError as error:
            raise ValueError(f"{source} is {by_name[source]!r:.60}; expected {error}") from error
    nodes = {name: by_name[name] for name in _NODES if name in by_name}
    try:
        row[workload_jobs.NODE_COUNT] = _node_count(nodes)
    except ValueError as error:
        found = ", ".join(f"{name} {cell!r:.60}" for name, cell in nodes.items())
        raise ValueError(f"{found}: the number of nodes is not {error}") from error
    if "withdraw_time" in row and (row.get("status") != "5" or row["run_time"] != "0"):
        row["withdraw_time"] = ""
    return row | {name: by_name[name] for name in own}


# What sacct --json prints

_FROM_JSON: dict[str, tuple[str, ...]] = {
    "JobIDRaw": ("job_id",),
    "Submit": ("time", "submission"),
    "ElapsedRaw": ("time", "elapsed"),
    "TimelimitRaw": ("time", "limit"),
    "ReqCPUS": ("required", "CPUs"),
    "State": ("state", "current"),
    "Start": ("time", "start"),
    "End": ("time", "end"),
    "NodeList": ("nodes",),
    "User": ("association", "user"),
    "Group": ("group",),
    "Account": ("association", "account"),
    "JobName": ("name",),
    "Partition": ("partition",),
    "QOS": ("qos",),
    "ReqTRES": ("tres", "requested"),
    "AllocTRES": ("tres", "allocated"),
    "NNodes": ("allocation_nodes",),
}
"""Columns of sacct's text, and the path of the same value in the JSON of a job."""


def _of_json(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the jobs, with their places in the list, as cells of sacct's text; first the names."""
    content = json_of(text, named(path))
    jobs = content.get("jobs") if isinstance(content, dict) else None
    if not isinstance(jobs, list):
        raise InputError(f"{path}: jobs is {'missing' if jobs is None else 'wrong'}; expected a list of jobs")
    yield 0, list(_FROM_JSON)
    for number, job in enumerate(jobs, start=1):
        yield number, [_text(_inside(job, *keys)) for keys in _FROM_JSON.values()]


def _inside(job: object, *keys: str) -> object:
    for key in keys:
        job = job.get(key) if isinstance(job, dict) else None
    return job


def _text(value: object) -> str:
    """Return a value as a cell of sacct's text; empty if it is not set."""
    if isinstance(value, dict):  # a number that may be none
        known = value.get("set", True) and not value.get("infinite", False)
        return _text(value.get("number")) if known else ""
    if isinstance(value, list):
        if all(isinstance(entry, dict) for entry in value):
            return ",".join(_amount(entry) for entry in value if entry.get("count"))
        return _text(value[0]) if value else ""
    return "" if value is None else str(value)


def _amount(entry: dict[str, Any]) -> str:
    """Return an amount of a resource as TRES are written."""
    name, unit = str(entry.get("name") or ""), "M" if entry.get("type") == "mem" else ""
    return f"{entry.get('type')}{'/' if name else ''}{name}={entry.get('count')}{unit}"


def _begins(head: bytes) -> bool:
    """Whether a file begins as what sacct prints: JSON, or names of columns with any delimiter."""
    if head.startswith(b"{"):
        batsim = re.search(rb'"(nb_res|profiles|subtime)"\s*:', head)
        slurm = re.search(rb'"(association|meta|data_parser|openapi)"\s*:', head)
        return batsim is None and slurm is not None
    line = head.partition(b"\n")[0].decode("utf-8", "replace")
    cells = re.split(r"[|\t,; ]+", line.strip().strip('"'))
    return not set(_IDS).isdisjoint(cell.strip('"') for cell in cells)


FORMAT = Format(
    "sacct", "what Slurm's accounting prints: sacct --parsable2, or --json", _begins, read_sacct, further=True
)
