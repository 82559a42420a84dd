"""Workflows in WfFormat 1.5, the JSON format of WfCommons: one workflow per file, whose tasks become jobs.

A task waits for its parents, which must have completed; all are submitted at time 0. The core count is the
size of a job, one where it is missing; the measured run time, which contains reading and writing of files, is
the run time. The memory of a task is what it used; the program (or the task's name, where the command is a
script) is its executable. The column ``workflow`` has the name of the workflow.

Source: the schema of WfFormat, version 1.5. A file is held in memory as a whole.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import IO, Any

import numpy as np

from mlsim.errors import InputError
from mlsim.workload import log_fields
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog
from mlsim.workload.json_jobs import content_of, is_amount, objects_of, series_of, shown
from mlsim.workload.log_fields import JOB_NAMES, Field, Header
from mlsim.workload.workload_dependencies import DEPENDENCIES, LogDependencies
from mlsim.workload.workload_jobs import SWF_KB, WORKFLOW, WORKFLOW_KEY, LogBlock, NamedColumns

_VERSION = "1.5"
_AFTER = re.compile(r"afterok:(.+?)(?=,afterok:|$)")  # One of the jobs of a cell of dependencies
_SPECIFICATION = "workflow.specification."
_KEYS = {"run_time": "runtimeInSeconds", "processors": "coreCount", "memory": "memoryInBytes"}


def read_wfformat(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read a workflow; with ``options.rates.files`` the files of a task add their time to its run time."""
    import polars as pl

    from mlsim.workload.log_columns import LogTable

    path = Path(path)
    content, _ = content_of(path)
    tasks, runs, files = _parts(path, content)
    names = _identifiers(path, tasks)
    header: Header = {JOB_NAMES: names, WORKFLOW_KEY: str(content.get("name") or "unnamed")}
    with suppress(ValueError, OverflowError):
        start = log_fields.unix_time(str(content["workflow"]["execution"].get("executedAt")))
        header["UnixStartTime"] = str(int(start))
    found = [runs.get(name, {}) for name in names]
    cells = {key: [run.get(word) for run in found] for key, word in _KEYS.items()}
    unknown = sum(cores is None for cores in cells["processors"])
    parents = _parents(tasks, names)
    n = len(tasks)
    columns = {
        "job_id": pl.Series(range(1, n + 1), dtype=pl.Int64),
        "submit_time": pl.Series([0.0] * n, dtype=pl.Float64),
        "run_time": series_of(cells["run_time"]),
        "walltime": pl.Series([None] * n, dtype=pl.Float64),
        "processors": series_of([_whole_cores(cores) for cores in cells["processors"]]),
        "executable": pl.Series(map(_program, tasks, found), dtype=pl.String),
        DEPENDENCIES: pl.Series(
            [f"afterok:{':'.join(map(str, row))}" if row else None for row in parents], dtype=pl.String
        ),
        WORKFLOW: pl.Series([str(content.get("name") or path.stem)] * n, dtype=pl.String),
    }

    def locate(name: str, row: int) -> str:
        return f"{path}: task {names[row]}: {_KEYS.get(name, name)} is {shown(cells[name][row])}"

    frame = pl.DataFrame(columns)
    table = LogTable(str(path), frame, header, options, further=[WORKFLOW], locate=locate, rows="tasks")
    processors = table.columns[Field.REQUESTED_PROCESSORS]
    table.require("processors", processors >= 1, "a number above 0, or nothing")
    for row, used in enumerate(cells["memory"]):
        if is_amount(used):
            table.columns[Field.USED_MEMORY, row] = used / SWF_KB / max(processors[row], 1.0)
    if options.rates is not None and options.rates.files is not None:
        known = table.columns[Field.RUN_TIME] >= 0
        seconds = np.array([_bytes(task, files) for task in tasks]) * 8.0 / options.rates.files
        table.columns[Field.RUN_TIME, known] += seconds[known]
    return table.log(counts={"tasks_without_cores": unknown} if unknown else {})


def _parts(path: Path, content: Any) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, float]]:
    """Return the tasks, what is known of their execution by identifier, and the sizes of files."""
    workflow = content.get("workflow") if isinstance(content, dict) else None
    if not isinstance(workflow, dict) or not {"specification", "execution"} <= set(workflow):
        raise InputError(
            f"{path}: expected an object 'workflow' with specification and execution, as WfFormat {_VERSION} "
            "has it\n  tools/wfcommons-migrate-instance.py of WfFormat converts older instances"
        )
    tasks = objects_of(path, workflow["specification"], "tasks", _SPECIFICATION)
    runs = objects_of(path, workflow["execution"], "tasks", "workflow.execution.")
    files = objects_of(path, {"files": [], **workflow["specification"]}, "files", _SPECIFICATION)
    sizes = {str(file.get("id")): file.get("sizeInBytes") for file in files}
    known = {name: float(size) for name, size in sizes.items() if is_amount(size)}
    return tasks, {str(run.get("id")): run for run in runs}, known


def _identifiers(path: Path, tasks: list[dict[str, Any]]) -> list[str]:
    """Return the identifiers of tasks, each of which is another text."""
    names = dict.fromkeys(str(task["id"]) for task in tasks if isinstance(task.get("id"), str))
    if len(names) < len(tasks) or not tasks:
        found = f"has {len(tasks)} tasks and {len(names)} different ids; expected one for each"
        raise InputError(f"{path}: {_SPECIFICATION}tasks {found}")
    return list(names)


def _parents(tasks: list[dict[str, Any]], names: list[str]) -> list[dict[int, None]]:
    """Return the numbers of each task's parents; of unknown ones new numbers, whose names are added."""
    numbers = {name: number for number, name in enumerate(names, 1)}
    found: list[dict[int, None]] = [{} for _ in tasks]

    def number(name: object) -> int:
        if str(name) not in numbers:
            names.append(str(name))
            numbers[str(name)] = len(names)
        return numbers[str(name)]

    for row, task in enumerate(tasks):
        found[row] |= dict.fromkeys(map(number, _names(task.get("parents"))))
        for child in map(number, _names(task.get("children"))):
            if child <= len(tasks):
                found[child - 1][row + 1] = None
    return found


def _names(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _program(task: Mapping[str, Any], run: Mapping[str, Any]) -> str | None:
    """Return the program of a task; its name, without its number, where the command is a script."""
    command = run.get("command")
    program = command.get("program") if isinstance(command, dict) else None
    if isinstance(program, str) and program and not re.search(r"\s", program):
        return program
    return re.sub(r"_?(ID)?\d+$", "", str(task.get("name") or "")) or None


def _whole_cores(cores: object) -> object:
    """Return a core count as a whole number, one where it is missing."""
    return 1 if cores is None else math.ceil(cores) if is_amount(cores) else cores


def _bytes(task: Mapping[str, Any], files: Mapping[str, float]) -> float:
    """Return the bytes that a task reads and writes; files without a size have none."""
    moved = [*_names(task.get("inputFiles")), *_names(task.get("outputFiles"))]
    return sum(files.get(str(file), 0.0) for file in moved)


_HOLDS = ("job_id", "run_time", "processors", "executable", DEPENDENCIES, WORKFLOW)


def write_wfformat_blocks(file: IO[bytes], header: Header, blocks: Iterable[NamedColumns]) -> None:
    """Write one block of jobs as a workflow that was executed at the header's start."""
    (columns,) = blocks
    n = len(columns["job_id"])
    cells = {name: _list(columns.get(name, [""] * n)) for name in _HOLDS}
    names = [str(name) for name in cells["job_id"]]
    parents = {name: _AFTER.findall(cell) for name, cell in zip(names, cells[DEPENDENCIES], strict=True)}
    children: dict[str, list[str]] = {name: [] for name in names}
    for name, before in parents.items():
        for parent in before:
            children[parent].append(name)
    tasks = [{"name": n, "id": n, "parents": parents[n], "children": children[n]} for n in names]
    run_times = dict(zip(names, cells["run_time"], strict=True))
    runs = [
        {"id": name, "runtimeInSeconds": run_times[name], "coreCount": cores}
        | ({"command": {"program": str(program)}} if program else {})
        for name, cores, program in zip(names, cells["processors"], cells["executable"], strict=True)
    ]
    ends: dict[str, float] = {}
    for name in TopologicalSorter(parents).static_order():
        ends[name] = max((ends[before] for before in parents[name]), default=0.0) + run_times[name]
    start = str(header.get("UnixStartTime", "0"))
    content = {
        "name": cells[WORKFLOW][0] or "workflow",
        "schemaVersion": _VERSION,
        "workflow": {
            "specification": {"tasks": tasks, "files": []},
            "execution": {
                "makespanInSeconds": max(ends.values()),  # on a machine without limits
                "executedAt": datetime.fromtimestamp(int(start) if start.isdecimal() else 0, UTC).isoformat(),
                "tasks": runs,
            },
        },
    }
    file.write((json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def _list(column: Any) -> list[Any]:
    found = column if isinstance(column, list) else column.tolist()
    return [int(value) if isinstance(value, float) and value.is_integer() else value for value in found]


def check_workflow(log: LogBlock, source: Path) -> None:
    """Check that a log is one workflow whose tasks wait until others have completed."""
    names = log.own.of.get(WORKFLOW, ()) if log.own is not None else ()
    size = np.maximum(log.requested_processors, log.allocated_processors)
    after = log.after or LogDependencies.none(len(log))
    before: dict[int, list[int]] = {}
    for job, parent in zip(log.job_id[after.row].tolist(), after.job.tolist(), strict=True):
        before.setdefault(job, []).append(parent)
    wrong = {
        "several workflows": len({name for name in names if name}) > 1,
        "several jobs of one identifier": len(np.unique(log.job_id)) < len(log),
        "jobs without run time or processors": bool(((log.run_time < 0) | (size < 1)).any()),
        "preceding jobs, think times, or afterany": (
            not after.completed.all() or bool(after.think.any() or (log.preceding_job > 0).any())
        ),
        "jobs that wait for unknown ones": not np.isin(after.job, log.job_id).all(),
    }
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        wrong["jobs that wait for each other in a circle"] = True
    if any(wrong.values()):
        found = next(what for what, is_there in wrong.items() if is_there)
        raise InputError(
            f"{source}: has {found}; a WfFormat file is one workflow of tasks that wait for completed ones"
        )


FORMAT = Format(
    "wfformat",
    "JSON of WfCommons: a workflow of tasks (WfFormat 1.5)",
    lambda head: head.startswith(b"{") and re.search(rb'"workflow"\s*:\s*\{', head) is not None,
    read_wfformat,
    writer=write_wfformat_blocks,
    check=check_workflow,
    further=True,
    holds=_HOLDS,
)
