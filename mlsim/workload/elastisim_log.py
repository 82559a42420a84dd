"""Jobs of the simulator ElastiSim: a JSON object with ``jobs``, and files with their application models.

Only rigid jobs have a run time that follows from the files: the sum over the phases and tasks of the model
that wait (``busy_wait``, ``idle``) or compute (``cpu`` without bytes). Amounts are numbers, or formulas of
the job's arguments and its nodes. The identifier of a job is its place in the file, from 0; attributes are
columns. A model is looked for at its path, relative to the jobs, and beside them.

Source: the documentation of ElastiSim, "Workload".
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlsim._files import is_file
from mlsim.errors import InputError
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog
from mlsim.workload.json_jobs import (
    add_optional,
    content_of,
    is_amount,
    is_number,
    objects_of,
    series_of,
    shown,
)
from mlsim.workload.log_fields import LARGEST_WHOLE, Field, Rates

_KEYS = {"submit_time": "submit_time", "num_nodes": "processors", "walltime": "walltime"}
_EVERY, _FIRST, _EVEN, _ODD = slice(None), slice(1), slice(0, None, 2), slice(1, None, 2)
_NAMES = "uniform", "root_only", "all_ranks", "even_ranks", "odd_ranks"
_PATTERNS = dict(zip(_NAMES, (_FIRST, _FIRST, _EVERY, _EVEN, _ODD), strict=True))
"""Ranks that share the amount of a task; under ``uniform`` each has all of it."""
_SIGNS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod, ast.Pow, ast.USub)
_OF_SIGNS = "add", "sub", "mul", "truediv", "mod", "pow", "neg"
_OPERATORS: Final[Mapping[type, Callable[..., float]]] = {
    sign: getattr(operator, name) for sign, name in zip(_SIGNS, _OF_SIGNS, strict=True)
}
_OF_MATH = ("floor", "ceil", "sqrt", "log", "exp")
_FUNCTIONS = {"min": min, "max": max, **{name: getattr(math, name) for name in _OF_MATH}}
_MARK = re.compile(rb'"(application_model|num_nodes(_min)?)"\s*:')
_LONGEST = 500  # Letters of a formula


def read_elastisim(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read rigid jobs, and their run times from their application models."""
    import polars as pl

    from mlsim.workload.log_columns import LogTable

    path = Path(path)
    jobs = objects_of(path, content_of(path)[0], "jobs")
    if not jobs:
        raise InputError(f"{path}: holds no job")
    columns = {"job_id": pl.Series(range(len(jobs)), dtype=pl.Int64)}
    for key, name in _KEYS.items():
        columns[name] = series_of(job.get(key) or None if key == "walltime" else job.get(key) for job in jobs)
    if any("num_gpus_per_node" in job for job in jobs):
        columns["request_gpu"] = series_of(map(_gpus, jobs))
    further = add_optional(columns, [job.get("attributes") for job in jobs], ())

    def locate(name: str, row: int) -> str:
        key = {name: key for key, name in _KEYS.items()}.get(name, name)
        return f"{path}: job {row}: {key} is {shown(jobs[row].get(key))}"

    frame = pl.DataFrame(columns)
    table = LogTable(str(path), frame, {}, options, further=further, locate=locate, rows="jobs")
    rigid = np.array([job.get("type") == "rigid" for job in jobs])
    table.require("type", rigid, "rigid: the nodes of other jobs are decisions of a scheduler")
    fits = table.columns[Field.REQUESTED_PROCESSORS] >= 1
    table.require("processors", fits, "a whole number from 1 up")
    models: dict[str, list[Any]] = {}
    for row in np.flatnonzero(table.sound).tolist():
        table.columns[Field.RUN_TIME, row] = _run_time(path, row, jobs[row], models, options.rates)
    return table.log()


def _gpus(job: Mapping[str, Any]) -> object:
    """Return the GPUs of all nodes of a job."""
    gpus, nodes = job.get("num_gpus_per_node", 0), job.get("num_nodes")
    return gpus * nodes if is_number(gpus) and is_number(nodes) else gpus


def _run_time(
    path: Path, row: int, job: Mapping[str, Any], models: dict[str, list[Any]], rates: Rates | None
) -> float:
    """Return the run time of a job [s]; ``models``: phases that are known."""
    model = str(job.get("application_model"))
    place = f"{path}: job {row}: {model}"
    if model not in models:
        models[model] = _phases(path, place, model)
    nodes, arguments = int(job["num_nodes"]), job.get("arguments")
    known = {"num_nodes": nodes, "num_gpus_per_node": job.get("num_gpus_per_node", 0), "num_gpus": _gpus(job)}
    known |= arguments if isinstance(arguments, dict) else {}
    tasks = _Tasks(place, known, nodes, None if rates is None else rates.speed)
    seconds = tasks.seconds({"type": "sequence", "tasks": models[model]})
    if not 0 <= seconds < LARGEST_WHOLE:
        raise InputError(f"{place}: runs for {seconds:g} s; expected {Field.RUN_TIME.expected}")
    return seconds


def _phases(path: Path, place: str, model: str) -> list[Any]:
    """Return the phases of an application model as sequences of tasks."""
    found = [file for file in (path.parent / model, path.parent / Path(model).name) if is_file(file)]
    if not found:
        raise InputError(f"{place}: there is no such application model; put it beside the jobs")
    content, _ = content_of(found[0], "application model")
    phases = objects_of(found[0], content, "phases")
    first = [content["on_init"]] if isinstance(content.get("on_init"), dict) else []
    return [{**phase, "type": "sequence"} for phase in (*first, *phases)]


class _Tasks:
    """Times of the tasks of a job; messages begin with a ``place``, ``known`` are variables of formulas."""

    def __init__(self, place: str, known: Mapping[str, Any], nodes: int, speed: float | None) -> None:
        self._place, self._known, self._nodes, self._speed = place, known, nodes, speed

    def seconds(self, task: Mapping[str, Any]) -> float:
        """Return the time of all iterations of a task, or of a sequence [s]."""
        times = int(self._amount(task, "iterations")) if "iterations" in task else 1
        kind = str(task.get("type")).casefold()
        if kind == "sequence":
            return times * sum(map(self.seconds, objects_of(Path(self._place), task, "tasks")))
        if kind in ("busy_wait", "idle"):
            return times * self._amount(task, "delay") * self._share(task.get("pattern"))
        if kind != "cpu" or task.get("bytes") is not None:
            raise InputError(
                f"{self._place}: task {kind[:30]!r} moves data or uses GPUs, in a time that ElastiSim's "
                "platform decides; allowed: busy_wait, idle, cpu without bytes, sequence"
            )
        if self._speed is None:
            raise InputError(
                f"{self._place}: counts operations, which take a speed to be seconds\n"
                "  give --speed and --bandwidth, or simulate: the platform of the scenario has both"
            )
        work = self._amount(task, "flops") * self._share(task.get("computation_pattern"))
        return times * work / self._speed

    def _share(self, pattern: object) -> float:
        if not isinstance(pattern, str) or pattern not in _PATTERNS:
            allowed = ", ".join(_PATTERNS)
            raise InputError(f"{self._place}: pattern is {shown(pattern)}; allowed: {allowed}")
        return 1.0 / max(len(range(self._nodes)[_PATTERNS[pattern]]), 1)

    def _amount(self, task: Mapping[str, Any], key: str) -> float:
        """Return a number of a task, or the value of its formula."""
        value = found = task.get(key)
        try:
            if isinstance(value, str) and len(value) <= _LONGEST:
                found = self._value(ast.parse(value.replace("^", "**").strip(), mode="eval").body)
        except (ValueError, ArithmeticError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
            raise InputError(f"{self._place}: {key} is {shown(value)}: {error}") from error
        if not is_amount(found):
            raise InputError(f"{self._place}: {key} is {shown(value)}; expected a number or a formula")
        return float(found)

    def _value(self, node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return float(number)
            case ast.Name(id=name) if is_number(self._known.get(name)):
                return float(self._known[name])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self._value(left), self._value(right))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self._value(operand))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                return float(_FUNCTIONS[name](*map(self._value, args)))
        raise ValueError(f"{ast.unparse(node)[:40]!r} is no argument, operator or function")


FORMAT = Format(
    "elastisim",
    "JSON of the simulator ElastiSim: rigid jobs",
    lambda head: head.startswith(b"{") and _MARK.search(head) is not None,
    read_elastisim,
    further=True,
)
