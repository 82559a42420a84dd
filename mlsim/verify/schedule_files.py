"""Schedules from files: tables with a start and an end per job, logs that record starts."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from mlsim._files import decode
from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.scenario import Scenario
from mlsim.scenario.words import Mapping as Units
from mlsim.scenario.words import WorkloadFormat
from mlsim.verify.plain_schedules import SLACK, Findings, PlainSchedule
from mlsim.workload.format_record import STRICT, read_whole
from mlsim.workload.log_fields import job_names
from mlsim.workload.log_formats import LogReader, format_of
from mlsim.workload.workload_jobs import RECORDED_NODES, LogBlock

if TYPE_CHECKING:
    import polars as pl

_COLUMNS: Final = {
    "job": ("job_id", "id", "jobid", "job"),
    "submit": ("submit_time", "submission_time", "submit"),
    "eligible": ("eligible_time", "eligible"),
    "start": ("start_time", "starting_time", "start", "recorded_start"),
    "end": ("end_time", "finish_time", "end"),
    "processors": ("processors", "requested_number_of_resources", "units", "cores"),
    "walltime": ("walltime", "requested_time", "estimate"),
    "run_time": ("run_time", "log_run_time"),
    "nodes": ("nodes", "allocated_resources", "recorded_nodes"),
    "state": ("state", "final_state", "status"),
}
"""Names of columns, those of mlsim, Batsim's ``out_jobs.csv`` and ElastiSim's ``job_statistics.csv``."""
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_BRACKET = re.compile(r"([^,\s\[\]]*)\[([\d,\- ]+)\]")
_NEVER_RAN = "reject|not_submitted|cancel|withdrawn|pending"
_ENDED_EARLY = "killed|fail|error|timeout|preempt"


@dataclass(frozen=True, slots=True)
class Machine:
    """The size of the machine, in the units in which jobs are counted."""

    capacity: int | None = None  # Units; None: unknown
    per_node: int = 1  # Units of a node
    per_unit: int = 1  # Processors of a unit

    @classmethod
    def of(cls, scenario: Scenario) -> Machine:
        """Return the machine of a scenario, as its ``workload.mapping`` counts."""
        cores = {group.cores for group in scenario.platform.nodes}
        nodes, mapping = scenario.platform.n_nodes, scenario.workload.mapping
        if mapping is Units.NODE:
            return cls(nodes)
        if len(cores) > 1:
            raise InputError(
                "workload.mapping: nodes have different numbers of cores, and a request for "
                "processors has no certain number of nodes; allowed here: mapping node"
            )
        (each,) = cores
        return cls(nodes * each, each) if mapping is Units.CORE else cls(nodes, per_unit=each)


def read_schedule(path: Path, machine: Machine, workload: LogBlock | None = None) -> PlainSchedule:
    """Read a schedule from a table or a log; ``workload`` has what the file lacks of its jobs."""
    if format_of(path) is WorkloadFormat.CSV:
        return _of_table(path, machine, workload)
    block, names = read_workload(path)
    start = block.starts()
    if not (start >= 0).any():
        raise InputError(
            f"{path}: no job has a recorded start (SWF: wait time; sacct: Start), so that there is no "
            "schedule to verify\n  a CSV needs job_id, submit_time, start_time, end_time and processors"
        )
    columns = {
        "submit": block.submit_time,
        "start": np.where((start >= 0) & (block.run_time >= 0), start, np.nan),
        "walltime": block.requested_time,
        "processors": np.maximum(block.requested_processors, block.allocated_processors),
    }
    columns["end"] = np.where(block.withdraw_time >= 0, block.withdraw_time, np.nan)
    columns["end"] = np.where(np.isnan(columns["start"]), columns["end"], start + block.run_time)
    own = {} if block.own is None else block.own.of
    cells = [text or "" for text in own[RECORDED_NODES].tolist()] if RECORDED_NODES in own else None
    return _assembled(str(path), names, columns, cells, machine, [])


def read_workload(path: Path) -> tuple[LogBlock, list[str]]:
    """Read a log as a whole, with the name of each job."""
    reader = LogReader(path, WorkloadFormat.AUTO, STRICT)
    block = LogBlock.concatenate(list(reader.blocks()))
    called = job_names(reader.header)
    ids = block.job_id.tolist()
    return block, [called[job - 1] for job in ids] if called else [str(job) for job in ids]


def _of_table(path: Path, machine: Machine, workload: LogBlock | None) -> PlainSchedule:
    import polars as pl

    from mlsim._files.parquet import refusing_damage

    text = decode(read_whole(path, lines=True), path, "schedule")
    with refusing_damage(f"{path}: cannot be read as CSV"):
        table = pl.read_csv(io.BytesIO(text.encode()), infer_schema=False).select(pl.all().str.strip_chars())
    found = {name.strip().lower().replace(" ", "_"): name for name in table.columns}
    column = {
        key: table[found[name]].fill_null("")
        for key, names in _COLUMNS.items()
        for name in [next((name for name in names if name in found), None)]
        if name is not None
    }
    if lacking := [key for key in ("job", "submit", "start", "end") if key not in column]:
        words = "; ".join(f"{key}: {', '.join(_COLUMNS[key])}" for key in lacking)
        raise InputError(f"{path}: no column for {', '.join(lacking)}\n  allowed names: {words}")
    names = column["job"].to_list()
    times = ("submit", "eligible", "start", "end", "walltime", "run_time", "processors")
    columns = {key: _numbers(path, column[key]) for key in times if key in column}
    notes: list[str] = []
    if workload is not None:
        _add_from_workload(columns, names, workload)
    if "state" in column:
        state = column["state"].str.to_lowercase()
        never = state.str.contains(_NEVER_RAN).to_numpy() & ~(columns["start"] >= 0)
        columns["start"][never] = np.nan
        if "run_time" in columns:
            columns["run_time"][state.str.contains(_ENDED_EARLY).to_numpy()] = np.nan
    columns["end"][np.isnan(columns["start"]) & ~(columns["end"] > columns["submit"])] = np.nan
    cells = column["nodes"].to_list() if "nodes" in column else None
    return _assembled(str(path), names, columns, cells, machine, notes)


def _numbers(path: Path, cells: pl.Series) -> Floats:
    """Return numbers or dates as seconds; NaN for empty cells and -1 (unknown)."""
    import polars as pl

    empty = cells.str.to_lowercase().is_in(["", "nan", "none", "null", "unknown", "inf", "-1", "-1.0"])
    empty |= cells.str.contains(r"^-1\.0*$")
    values = cells.cast(pl.Float64, strict=False)
    if (values.is_null() & ~empty).any():
        texts = cells.str.replace(" ", "T").str.strip_suffix("Z")
        dates = texts.str.strptime(pl.Datetime("us"), "%Y-%m-%dT%H:%M:%S%.f", strict=False)
        values = values.fill_null(dates.dt.epoch("us").cast(pl.Float64) / 1e6)
    wrong = values.is_null() & ~empty
    if wrong.any():
        row = int(wrong.arg_true()[0])
        raise InputError(
            f"{path}: job in line {row + 2}: {cells.name} is {str(cells[row])[:60]!r}; expected: seconds, or "
            "a date such as 2024-03-01T12:00:00, or nothing where it is unknown"
        )
    result: Floats = np.where(empty.to_numpy(), np.nan, values.fill_null(np.nan).to_numpy()).astype(float)
    return result


def _add_from_workload(columns: dict[str, Floats], names: list[str], workload: LogBlock) -> None:
    """Add what the table lacks of its jobs from their workload."""
    place = {str(job): row for row, job in enumerate(workload.job_id.tolist())}
    rows = np.array([place.get(_number_of(name), -1) for name in names])
    known = {
        "processors": np.maximum(workload.requested_processors, workload.allocated_processors),
        "walltime": np.where(workload.requested_time >= 0, workload.requested_time, np.nan),
        "run_time": np.where(workload.run_time >= 0, workload.run_time, np.nan),
    }
    for name, values in known.items():
        if name not in columns:
            columns[name] = np.where(rows >= 0, values[rows], np.nan)


def _number_of(name: str) -> str:
    """Return the number of a job of Batsim, such as ``w0!17``."""
    return name.rpartition("!")[2]


def _assembled(
    path: str,
    names: list[str],
    columns: Mapping[str, Floats],
    cells: list[str] | None,
    machine: Machine,
    notes: list[str],
) -> PlainSchedule:
    """Return the schedule of columns, in order of submission, then number."""
    n = len(names)
    nodes = None if cells is None else [_nodes_of(cell) for cell in cells]
    processors = columns.get("processors")
    if processors is None and nodes is not None:
        processors = np.array([len(each) for each in nodes], float)
        notes.append("processors are unknown: the number of a job's nodes is taken")
    if processors is None:
        raise InputError(
            f"{path}: no column for processors\n  allowed names: {', '.join(_COLUMNS['processors'])}; or "
            "give the workload (--workload)"
        )
    start, end, submit = columns["start"], columns["end"], columns["submit"]
    if (unknown := ~(processors >= 1) & np.isfinite(start)).any():
        job = names[int(np.flatnonzero(unknown)[0])]
        raise InputError(
            f"{path}: job {job}: the processors of {int(unknown.sum())} jobs that ran are unknown"
        )
    units = -(-np.nan_to_num(processors, nan=1.0).astype(np.int64) // machine.per_unit)
    ran = end - start
    walltime = columns.get("walltime", np.full(n, np.nan))
    if lacking := int((np.isfinite(ran) & ~(walltime >= 0)).sum()):
        notes.append(f"jobs without a walltime: {lacking:,} (their run time is their estimate)")
    estimate = np.where(walltime >= 0, walltime, np.nan_to_num(ran))
    run_time = columns.get("run_time", np.full(n, np.nan))
    at_limit = (run_time > estimate) & (np.abs(ran - estimate) <= SLACK)
    gone = np.isnan(start) & np.isnan(end)
    if gone.any():
        notes.append(f"jobs that never started: {int(gone.sum()):,} (taken as rejected when they came)")
    if overdue := int((ran > estimate + SLACK).sum()):
        notes.append(f"jobs that outlive their walltimes: {overdue:,}")
    order = np.lexsort((np.arange(n), _sortable([_number_of(name) for name in names]), submit))
    stays, node_names, share = _stays_of(nodes, order, units, machine, notes)
    schedule = PlainSchedule(
        job=[names[row] for row in order.tolist()],
        submit=submit[order],
        arrival=np.fmax(submit, columns.get("eligible", submit))[order],
        start=start[order],
        end=end[order],
        units=units[order],
        estimate=estimate[order],
        duration=np.where(at_limit, estimate, run_time)[order],
        capacity=machine.capacity or 0,
        place=order,
        processors=np.nan_to_num(processors, nan=1.0).astype(np.int64)[order],
        stays=stays,
        nodes=node_names,
        node_share=share,
        notes=tuple(notes),
    )
    if machine.capacity:
        return schedule
    peak = peak_of(schedule)
    note = f"the machine's size is unknown: {peak:,} units, the most that are held at once"
    return replace(schedule, capacity=peak, notes=(*notes, f"{note} (--units, --platform)"))


def _sortable(numbers: list[str]) -> Ints:
    if all(text.isdecimal() and len(text) < 18 for text in numbers):
        return np.array(numbers, np.int64) if numbers else np.empty(0, np.int64)
    return np.zeros(len(numbers), np.int64)


def peak_of(schedule: PlainSchedule) -> int:
    """Return the most units that jobs ever hold at once; ends come before starts."""
    ran = schedule.ran & (schedule.end >= schedule.start)
    time = np.concatenate([schedule.end[ran], schedule.start[ran]])
    amount = np.concatenate([-schedule.units[ran], schedule.units[ran]])
    held = np.cumsum(amount[np.argsort(time, kind="stable")])
    return max(int(held.max(initial=1)), int(schedule.units[ran].max(initial=1)))


def _nodes_of(cell: str) -> list[str]:
    """Return nodes by name: ``0-3 5``, ``0-3,5``, ``n[1-3,7]``."""
    found: list[str] = []
    for prefix, inner in _BRACKET.findall(cell):
        for low, high in _RANGE.findall(inner):
            found += [f"{prefix}{number:0{len(low)}d}" for number in range(int(low), int(high or low) + 1)]
    for word in _BRACKET.sub("", cell).replace(",", " ").split():
        match = _RANGE.fullmatch(word)
        if match:
            found += map(str, range(int(match[1]), int(match[2] or match[1]) + 1))
        else:
            found.append(word)
    return found


def _stays_of(
    nodes: list[list[str]] | None, order: Ints, units: Ints, machine: Machine, notes: list[str]
) -> tuple[tuple[Ints, Ints] | None, list[str], Floats | None]:
    """Return which job holds which nodes, their names, and the part of each node that it holds."""
    if nodes is None or not any(nodes):
        return None, [], None
    counts = np.array([len(nodes[row]) for row in order.tolist()])
    of_job = np.repeat(np.arange(len(order)), counts)
    numbers: dict[str, int] = {}
    node = np.array([numbers.setdefault(name, len(numbers)) for row in order.tolist() for name in nodes[row]])
    if machine.per_node == 1 and (counts[counts > 0] == units[order][counts > 0]).all():
        return (of_job, node), list(numbers), None
    if machine.per_node == 1:
        notes.append("nodes are not judged one by one: jobs have other numbers of nodes than of processors")
        return None, [], None
    return (of_job, node), list(numbers), (units[order][of_job] / counts[of_job]) / machine.per_node


def compare_workload(schedule: PlainSchedule, workload: LogBlock, found: Findings) -> None:
    """Judge that a schedule has the jobs of its workload: submissions, run times."""
    place = {_number_of(name): row for row, name in enumerate(schedule.job)}
    for k, job in enumerate(workload.job_id.tolist()):
        row, submitted = place.pop(str(job), None), float(workload.submit_time[k])
        if row is None:
            found.add("workload", [str(job)], submitted, "{} is missing; by the workload it came at {}")
            continue
        name, time, start = schedule.job[row], schedule.submit[row], schedule.start[row]
        if abs(time - submitted) > SLACK:
            found.add("workload", [name], time, "{} was submitted at {}, by the workload at {}", submitted)
        ran, runs, limit = schedule.end[row] - start, workload.run_time[k], workload.requested_time[k]
        allowed = [runs] + ([limit] if 0 <= limit < runs else [])
        if runs >= 0 and np.isfinite(ran) and min(abs(ran - each) for each in allowed) > SLACK:
            words = "{} starts at {} and runs for {}, by the workload for {}"
            found.add("workload", [name], start, words, ran, min(allowed))
    for row in place.values():
        words = "{}, submitted at {}, is not in the workload"
        found.add("workload", [schedule.job[row]], schedule.submit[row], words)
