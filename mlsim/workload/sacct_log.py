"""Reader of the output of Slurm's accounting: ``sacct --parsable2`` or ``sacct --json``.

:mod:`mlsim.workload.sacct_cells` lists sacct's columns for each column of the log: in each row the first of
them with a value counts. Steps (``17.batch``), the rest of an array that never ran (``17_[3-9]``) and
jobs that have not ended are left out and counted; the parts of a heterogeneous job (``17+0``, ``17+1``) are
one job with all their requests. sacct prints times on the clocks of the cluster, without their zone; the log
counts them as if they were UTC, so that an hour that clocks are set back by is there twice. Times of
``--json`` have no such hour.

Sources: the manual page of sacct, Slurm 24.05; output of ``--json`` by its data parsers 0.0.37 to 0.0.41. A
file is held in memory as a whole.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsim._files import decode, json_of, named
from mlsim.errors import InputError
from mlsim.workload import format_record
from mlsim.workload.format_record import REQUEUED, STRICT, Format, Reading, WholeLog
from mlsim.workload.log_fields import Header

if TYPE_CHECKING:
    import polars as pl

    from mlsim.workload.text_table import Columns, TextTable

_ASK = (
    "sacct --parsable2 --allocations --format=JobIDRaw,Submit,ElapsedRaw,TimelimitRaw,ReqCPUS,State,User,"
    "Start,End,Group,Partition,QOS,JobName,NNodes,NodeList,ReqTRES,AllocTRES"
)
_IDS = ("JobIDRaw", "JobID")
_AMOUNT = re.compile(r"[\w/:.-]+=[^=]*")
_RULES = re.compile(r"-+(\s+-+)*")
_OTHERS = set(b"state submit start elapsed elapsedraw reqcpus alloccpus ncpus timelimit user jobname".split())
_PART = r"^(\d+)\+\d+$"  # an identifier of a part of a heterogeneous job
_REST = r"^\d+_\[.*\]$"  # of the rest of an array


def read_sacct(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read what sacct printed, compressed or not."""
    import polars as pl

    from mlsim.workload import sacct_cells
    from mlsim.workload.log_columns import TIMES, LogTable, check_own

    path = Path(path)
    begin = next(format_record.read_chunks(path), b"").removeprefix(b"\xef\xbb\xbf").lstrip()
    json = begin.startswith(b"{")
    text = decode(format_record.read_whole(path, lines=not json), path, "workload")
    table = _of_json(path, text) if json else _of_text(path, text)
    read = {source for sources in sacct_cells.COLUMNS.values() for source in sources}
    further = [name for name in table.cells.columns if name not in read and name not in _IDS]
    check_own(str(path), options.own, further)
    columns, table = _columns(path, table)
    unit = "job" if json else "line"
    frame = _log_columns(columns, table)
    faults = sorted([*table.broken, *((table.lines[row], told) for row, told in columns.faults.items())])
    if faults and not options.lenient:
        line, told = faults[0]
        raise InputError(
            f"{path}: {unit} {line}: {told}\n  to skip and count such {unit}s, set workload.lenient: true"
        )
    frame = frame.filter(~pl.Series(range(frame.height)).is_in(list(columns.faults)))
    if not frame.height:
        raise InputError(f"{path}: holds no job that ended")
    frame = _whole_jobs(frame, table)
    header: Header = {}
    zero = frame["submit_time"].min()
    if isinstance(zero, float):
        header = {"UnixStartTime": str(int(zero))} if zero.is_integer() else {}
        frame = frame.with_columns((pl.col(name) - zero).clip(0.0) for name in TIMES if name in frame.columns)
    lines, requeued = frame["line"], frame[REQUEUED].to_numpy()
    frame = frame.drop("line", REQUEUED).with_columns(pl.col("submit_time").fill_null(-1.0))

    further += ["recorded_nodes"] if "recorded_nodes" in frame.columns else []

    def locate(name: str, row: int) -> str:
        return f"{path}: {unit} {lines[row]}: {name} is {frame[name][row]!r:.60}"

    log = LogTable(str(path), frame, header, options, further=further, locate=locate)
    understood = {
        sacct_cells.MEANS.get(name, name): ", ".join(sources) for name, sources in columns.sources.items()
    }
    return log.log(len(faults), {name: n for name, n in table.counts.items() if n}, understood, requeued)


def _of_text(path: Path, text: str) -> "TextTable":
    """Return the rows of a text."""
    from mlsim.workload import sacct_cells
    from mlsim.workload.text_table import delimiter_of, text_table

    head, _, rest = text.lstrip().partition("\n")
    delimiter = delimiter_of(head)
    if not delimiter.strip(" ") or _RULES.fullmatch(rest.partition("\n")[0].strip()):
        raise InputError(
            f"{path}: is what sacct prints without --parsable2, which cuts cells short; print it anew:\n"
            f"  {_ASK}"
        )

    def fits(row: Mapping[str, str]) -> bool:
        try:
            for name, cell in row.items():
                if cell and name in sacct_cells.CHECKS:
                    sacct_cells.CHECKS[name](cell)
        except ValueError:
            return False
        return any(row.get(name) for name in _IDS)

    join = _joined if delimiter == "," else None
    return text_table(str(path), text, sacct_cells.NAMES, fits, sacct_cells.TEXTS, join)


def _joined(cells: list[str], names: list[str]) -> list[str]:
    """Join the amounts of resources again that commas have divided."""
    from mlsim.workload.sacct_cells import TRES

    found, rest = [], list(reversed(cells))
    for name in names:
        if not rest:
            break
        cell = rest.pop()
        while name in TRES and "=" in cell and rest and _AMOUNT.fullmatch(rest[-1]):
            cell += f",{rest.pop()}"
        found.append(cell)
    return found + rest[::-1]


def _columns(path: Path, table: "TextTable") -> tuple["Columns", "TextTable"]:
    """Read the cells of jobs that have ended, without steps and rests of arrays."""
    import polars as pl

    from mlsim.workload import sacct_cells
    from mlsim.workload.text_table import Columns

    names = table.cells.columns
    ids = [name for name in _IDS if name in names]
    _require(path, names, ids, "JobIDRaw or JobID")
    _require(path, names, {"Submit", "Eligible"} & set(names), "Submit")
    ran = {"ElapsedRaw", "Elapsed"} & set(names) or {"Start", "End"} <= set(names)
    _require(path, names, ran, "ElapsedRaw or Elapsed")
    job = pl.coalesce(pl.when(pl.col(name) != "").then(pl.col(name)) for name in ids).fill_null("")
    step = table.cells.select(job.str.contains(".", literal=True)).to_series()
    rest = table.cells.select(pl.any_horizontal(pl.col(name).str.contains(_REST) for name in ids)).to_series()
    table.counts["steps"] += int(step.sum())
    table.counts["array_rests"] += int((rest & ~step).sum())
    table = table.where(~step & ~rest)
    state = Columns(table.cells, sacct_cells.FAST)
    state.add("state", sacct_cells.COLUMNS["state"], pl.String)
    state.add("end", sacct_cells.COLUMNS["end"], pl.Float64)
    word = state.read.get("state", pl.Series([None] * table.cells.height, dtype=pl.String))
    runs = word.is_in(sacct_cells.RUNS_ON).fill_null(False)
    if "end" in state.read:  # an attempt that was requeued, and a part before a change of size, have ended
        ended = word.is_in(["REQUEUED", "RESIZING"]) & state.read["end"].is_not_null()
        runs &= ~ended.fill_null(False)
    table.counts["unfinished_jobs"] += int(runs.sum())
    table = table.where(~runs)
    columns = Columns(table.cells, sacct_cells.FAST)
    columns.add("job_id", dict.fromkeys(ids, sacct_cells.job), pl.String)
    for column, sources in sacct_cells.COLUMNS.items():
        columns.add(column, sources, sacct_cells.KINDS.get(column, pl.Int64))
    for row in columns.read["job_id"].is_null().arg_true().to_list():
        columns.faults.setdefault(row, f"{ids[0]} is ''; expected an identifier")
    return columns, table


def _require(path: Path, names: list[str], there: object, wanted: str) -> None:
    if not there:
        found = ", ".join(names)[:400]
        raise InputError(
            f"{path}: line 1: column {wanted} is missing; found: {found}\n  {_ASK} prints all that is read"
        )


def _log_columns(columns: "Columns", table: "TextTable") -> "pl.DataFrame":
    """Return the columns of the log, and the line of each job."""
    import polars as pl

    from mlsim.workload.sacct_cells import KINDS, RETURNED, status_of

    read = columns.read
    n = table.cells.height

    def of(name: str) -> pl.Series:
        return read.get(name, pl.Series(name, [None] * n, dtype=KINDS.get(name, pl.Int64)))

    start, end = of("recorded_start"), of("end")
    ran = pl.select(pl.when(end >= start).then(end - start)).to_series()
    run_time = pl.select(pl.coalesce(of("run_time"), ran)).to_series()
    words = of("state").unique().drop_nulls().to_list()
    status = of("state").replace_strict(
        words, list(map(status_of, words)), default=None, return_dtype=pl.Int64
    )
    asked, got = of("nodes_asked"), of("nodes_got")
    known = pl.select(pl.coalesce(asked, got)).to_series()
    # Where a job got other nodes than it asked for, Slurm chose their number.
    nodes = pl.select(pl.when(asked.is_null() | got.is_null() | (asked == got)).then(known)).to_series()
    never = ((status == 5) & (run_time == 0)).fill_null(False)
    named = ("user", "group", "executable", "partition", "qos", "walltime", "processors", "recorded_nodes")
    frame = pl.DataFrame(
        {
            "line": table.lines,
            "job_id": of("job_id").fill_null(""),
            "submit_time": of("submit_time"),
            "run_time": run_time,
            "status": status,
            REQUEUED: of("state").is_in(RETURNED).fill_null(False),
            "withdraw_time": pl.select(pl.when(never).then(end)).to_series(),
            "recorded_start": start,
            "node_count": nodes,
            **{name: of(name) for name in (*named, "request_memory", "request_gpu")},
            "part": table.cells["JobID"] if "JobID" in table.cells.columns else pl.Series([""] * n),
        }
    )
    needed = ("line", "job_id", "submit_time", "run_time", "walltime", "processors")
    empty = [name for name in frame.columns if name not in needed and frame[name].null_count() == n]
    others = [name for name in table.cells.columns if name not in frame.columns]
    return frame.drop(empty).with_columns(table.cells.select(others))


def _summed(name: str) -> "pl.Expr":
    """Return the amount of all parts of a job; unknown if that of each is."""
    import polars as pl

    known = pl.col(name).is_not_null().any()
    if name == "request_memory":
        return pl.when(known).then(
            pl.col(name).str.strip_suffix(" B").cast(pl.Int64).sum().cast(pl.String) + " B"
        )
    return pl.when(known).then(pl.col(name).sum())


def _whole_jobs(frame: "pl.DataFrame", table: "TextTable") -> "pl.DataFrame":
    """Join the parts of heterogeneous jobs (``17+0``, ``17+1``), which were submitted at one time."""
    import polars as pl

    if "part" not in frame.columns:
        return frame
    base = frame["part"].str.extract(_PART, 1)
    frame = frame.drop("part")
    if base.null_count() == frame.height:
        return frame
    row = pl.Series(range(frame.height)).cast(pl.String)
    key = pl.select(pl.coalesce(base, "row " + row)).to_series()
    whole = []
    for name in frame.columns:
        each = pl.col(name)
        if name in ("processors", "node_count", "request_gpu", "request_memory"):
            each = _summed(name)
        elif name == "recorded_nodes":
            each = each.str.join(",")
        else:
            each = each.max() if name in ("run_time", "walltime") else each.first()
        whole += [] if name == "submit_time" else [each.alias(name)]
    joined = frame.with_columns(key=key).group_by("key", "submit_time", maintain_order=True).agg(whole)
    table.counts["joined_parts"] += frame.height - joined.height
    return joined.drop("key").select(frame.columns).with_columns(pl.col("job_id").str.replace(r"\+\d+$", ""))


# What sacct --json prints

_PATHS = """
JobIDRaw job_id
Submit time.submission
Eligible time.eligible
ElapsedRaw time.elapsed
TimelimitRaw time.limit
ReqCPUS required.CPUs
State state.current
Start time.start
End time.end
NodeList nodes
User association.user user
Group group
Account association.account account
JobName name
Partition partition
QOS qos
ReqTRES tres.requested
AllocTRES tres.allocated
NNodes allocation_nodes
"""
_FROM_JSON = {
    name: [path.split(".") for path in paths] for name, *paths in map(str.split, _PATHS.strip().splitlines())
}
"""Columns of sacct's text, and the paths of the same value in the JSON of a job, the first of these."""


def _of_json(path: Path, text: str) -> "TextTable":
    """Return the jobs of a list as cells of sacct's text, with their places in it."""
    import polars as pl

    from mlsim.workload.text_table import TextTable

    content = json_of(text, named(path))
    jobs = content.get("jobs") if isinstance(content, dict) else None
    if not isinstance(jobs, list):
        raise InputError(f"{path}: jobs is {'missing' if jobs is None else 'wrong'}; expected a list of jobs")
    cells = {
        name: [next(filter(None, (_text(_inside(job, *keys)) for keys in paths)), "") for job in jobs]
        for name, paths in _FROM_JSON.items()
    }
    cells["JobID"] = list(map(_job_of_json, jobs))
    return TextTable(
        pl.DataFrame(cells, schema=dict.fromkeys(cells, pl.String)), pl.Series(range(1, len(jobs) + 1))
    )


def _job_of_json(job: object) -> str:
    """Return the identifier of a part of a heterogeneous job, or of the rest of an array."""
    whole, part = _text(_inside(job, "het", "job_id")), _text(_inside(job, "het", "job_offset"))
    if whole not in ("", "0"):
        return f"{whole}+{part or 0}"
    tasks = _text(_inside(job, "array", "task"))
    return f"{_text(_inside(job, 'array', 'job_id'))}_[{tasks}]" if not tasks.isdecimal() and tasks else ""


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
    names = {name.lower() for name in re.findall(rb"[A-Za-z]\w*", head.partition(b"\n")[0])}
    return bool(names & {b"jobid", b"jobidraw"}) and bool(names & _OTHERS)


FORMAT = Format(
    "sacct",
    "what Slurm's accounting prints: sacct --parsable2, or --json",
    _begins,
    read_sacct,
    further=True,
    units="limits in minutes where they are plain numbers; K, M, G, T of memory are powers of 1024 B",
)
