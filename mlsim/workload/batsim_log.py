"""Workloads of Batsim: a JSON object with ``nb_res``, ``jobs`` and ``profiles``.

A job has an ``id`` (a whole number, or a text; if one is no number, all ids become 1, 2, ... in the order of
the file, and the header keeps the texts as ``job_names``), a ``subtime`` [s], ``res`` (processors), a
``profile`` and a ``walltime`` [s]. Keys with the names of CSV columns mean the same; all others are skipped.

Profiles become run times; Batsim has renamed their types over the years, and all names are understood
(docs/reference/workloads.md has a table). The formula is Batsim's (SimGrid's parallel tasks: computation and
communication go on together, the slower one decides) where every resource has a full-duplex link of its own
and no other job is in the way; latencies are left out. A job with a profile of any other type is an error.

Source: the documentation of Batsim, "Workload". A file is held in memory as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from mlsim._files import decode, json_of, named
from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError
from mlsim.workload import format_record, log_fields
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog
from mlsim.workload.log_fields import LARGEST_WHOLE, SURE_DIGITS, Field, Header, Rates, check_distinct
from mlsim.workload.workload_dependencies import DEPENDENCIES
from mlsim.workload.workload_jobs import LogBlock, NamedColumns, is_request, other_directives

if TYPE_CHECKING:
    import polars as pl

_DELAY = ("delay", "DelayProfile")
_HOMOGENEOUS = ("parallel_homogeneous", "msg_par_hg", "ptask_homogeneous", "ParallelTaskHomogeneousProfile")
_TOTAL = ("parallel_homogeneous_total", "msg_par_hg_tot")
_SEQUENCE = ("composed", "SequentialCompositionProfile", "sequential_composition")
_PARALLEL = ("parallel", "msg_par", "ptask", "ParallelTaskProfile")
_EACH_STRATEGIES = ("defined_amount_used_for_each_value", "DefinedAmountsUsedForEachValue")
_SPREAD_STRATEGIES = ("defined_amount_spread_uniformly", "DefinedAmountsSpreadUniformly")
_DEEPEST = 100  # Sequences in sequences; Batsim's own have two
_LONG_TIME = re.compile(r'"subtime"\s*:\s*[-+.\deE]{' + str(SURE_DIGITS + 1) + "}")
_FIELDS = {"subtime": "submit_time", "res": "processors", "walltime": "walltime"}
"""Keys of a job, and the columns of CSV that mean the same."""
_LINES = ",\n"  # Between the lines of a list or an object


def read_batsim(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read a Batsim workload, compressed or not; its profiles become run times."""
    import polars as pl

    from mlsim.workload.log_columns import KNOWN, LogTable

    path = Path(path)
    text = decode(format_record.read_whole(path), path, "workload")
    content = _content(path, text)
    jobs = content["jobs"]
    if not jobs:
        raise InputError(f"{path}: holds no job")
    names = [_job_name(path, row, job) for row, job in enumerate(jobs)]
    header: Header = dict(content["header"]) if log_fields.is_header(content.get("header")) else {}
    if "nb_res" in content:
        header["nb_res"] = str(content["nb_res"])
    columns = {"job_id": pl.Series(names, dtype=pl.String)}
    for key, name in _FIELDS.items():
        columns[name] = _series(job.get(key) for job in jobs)
    apart = ("job_id", "estimate", "run_time", *_FIELDS.values())
    for key in dict.fromkeys(key for job in jobs for key in job):
        if key not in apart and (key in KNOWN or key == DEPENDENCIES or is_request(key)):
            values = [job.get(key) for job in jobs]
            if key in ("preceding_job", DEPENDENCIES):
                texts = [json.dumps(v) if isinstance(v, int | float | list | dict) else v for v in values]
                columns[key] = pl.Series(texts, dtype=pl.String)
            else:
                columns[key] = _series(values)

    def locate(name: str, row: int) -> str:
        key = {name: key for key, name in _FIELDS.items()}.get(name, "id" if name == "job_id" else name)
        found = json.dumps(jobs[row][key]) if key in jobs[row] else "missing"
        return f"{path}: job {names[row]}: {key} is {found}"

    table = LogTable(str(path), pl.DataFrame(columns), header, options, locate=locate, rows="jobs")
    processors = table.columns[Field.REQUESTED_PROCESSORS]
    table.require("processors", processors >= 1, "a whole number from 1 up")
    if _LONG_TIME.search(text):
        written = [str(job.get("subtime", "")) for job in json.loads(text, parse_float=str)["jobs"]]
        check_distinct(str(path), written, table.columns[Field.SUBMIT_TIME], names.__getitem__)
    profiles = _Profiles(content["profiles"], options.rates)
    for row in np.flatnonzero(table.sound).tolist():
        place, profile = f"{path}: job {names[row]}", jobs[row].get("profile")
        seconds = profiles.run_time(place, profile, int(processors[row]))
        if not 0 <= seconds < LARGEST_WHOLE:
            raise InputError(
                f"{place}: profile {str(profile)[:60]} runs for {seconds:g} s; "
                f"expected {Field.RUN_TIME.expected}"
            )
        table.columns[Field.RUN_TIME, row] = seconds
    return table.log()


def _content(path: Path, text: str) -> dict[str, Any]:
    content = json_of(text, named(path))
    expected = (
        "expected an object with a list 'jobs' and an object 'profiles', as Batsim has it, or what sacct "
        "--json prints"
    )
    if not isinstance(content, dict):
        raise InputError(f"{path}: holds no JSON object; {expected}")
    for key, kind in (("jobs", list), ("profiles", dict)):
        if not isinstance(content.get(key), kind):
            raise InputError(f"{path}: {key} is {'wrong' if key in content else 'missing'}; {expected}")
    return content


def _job_name(path: Path, row: int, job: object) -> str:
    if not isinstance(job, dict) or not isinstance(job.get("id"), str | int):
        raise InputError(f"{path}: job {row + 1} of the list has no id that is a text or a whole number")
    return str(job["id"])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _series(values: Iterable[Any]) -> pl.Series:
    """Return numbers as they are, or all values as texts if one is not a number."""
    import polars as pl

    found = list(values)
    if all(value is None or _is_number(value) for value in found):
        return pl.Series(found, dtype=pl.Float64, strict=False)
    return pl.Series([None if value is None else str(value) for value in found], dtype=pl.String)


class _Profiles:
    """Profiles of a file, and the run times that follow from them; messages begin with a ``place``."""

    def __init__(self, profiles: Mapping[str, Any], rates: Rates | None) -> None:
        self._profiles, self._rates = profiles, rates
        self._known: dict[tuple[str, int], float] = {}

    def run_time(self, job: str, name: object, processors: int, inside: tuple[str, ...] = ()) -> float:
        """Return the run time [s] of a profile that the sequences ``inside`` lead to."""
        if not isinstance(name, str) or name not in self._profiles:
            raise InputError(f"{job}: there is no profile {name!r} among the profiles of the file")
        if name in inside:
            raise InputError(f"{job}: profile {name} is a sequence that leads back to itself")
        if (name, processors) in self._known:
            return self._known[name, processors]
        place, profile = f"{job}: profile {name}", self._profiles[name]
        kind = profile.get("type") if isinstance(profile, dict) else None
        if kind in _SEQUENCE:
            repeat = _amount(place, profile, "repeat") if "repeat" in profile else 1.0
            inside = (*inside, name)
            parts = _parts(place, profile, len(inside))
            seconds = repeat * sum(self.run_time(job, part, processors, inside) for part in parts)
        else:
            seconds = self._task_time(place, kind, profile, processors)
        self._known[name, processors] = seconds
        return seconds

    def _task_time(self, place: str, kind: object, profile: Mapping[str, Any], processors: int) -> float:
        if kind in _DELAY:
            return _amount(place, profile, "delay", needed=True)
        if kind in _PARALLEL:  # operations of each processor, and bytes from each to each other one
            cpu = _amounts(place, profile, "cpu", processors)
            com = _amounts(place, profile, "com", processors**2).reshape(processors, processors)
            np.fill_diagonal(com, 0.0)
            sent = max(com.sum(axis=1).max(initial=0.0), com.sum(axis=0).max(initial=0.0))
            return self._seconds(place, float(cpu.max(initial=0.0)), float(sent))
        if kind not in (*_HOMOGENEOUS, *_TOTAL):
            allowed = (_DELAY[0], _HOMOGENEOUS[0], _TOTAL[0], _SEQUENCE[0], _PARALLEL[0])
            raise InputError(
                f"{place} is of type {str(kind)!r:.60}, whose run time is unknown; allowed: "
                f"{', '.join(allowed)}"
            )
        strategy = profile.get("generation_strategy", _EACH_STRATEGIES[0])
        if strategy not in (*_EACH_STRATEGIES, *_SPREAD_STRATEGIES):
            raise InputError(
                f"{place}: generation_strategy is {strategy!r}; "
                f"allowed: {', '.join((*_EACH_STRATEGIES, *_SPREAD_STRATEGIES))}"
            )
        operations, size = _amount(place, profile, "cpu"), _amount(place, profile, "com")
        if kind in _TOTAL or strategy in _SPREAD_STRATEGIES:
            operations, size = operations / processors, size / max(processors * (processors - 1), 1)
        return self._seconds(place, operations, size * (processors - 1))

    def _seconds(self, place: str, operations: float, sent: float) -> float:
        if self._rates is not None:
            return max(operations / self._rates.speed, 8.0 * sent / self._rates.bandwidth)
        if operations or sent:
            raise InputError(
                f"{place} counts operations and bytes, which take a speed and a bandwidth to be seconds\n"
                "  give --speed and --bandwidth, or simulate: the scenario's platform says them"
            )
        return 0.0


def _parts(place: str, profile: Mapping[str, Any], depth: int) -> list[Any]:
    """Return the profiles of a sequence."""
    parts = profile.get("seq", profile.get("profiles"))
    if not isinstance(parts, list) or not parts:
        raise InputError(f"{place}: seq is {json.dumps(parts)[:60]}; expected a list of names of profiles")
    if depth > _DEEPEST:
        raise InputError(f"{place}: sequences in sequences, more than {_DEEPEST} deep")
    return parts


def _amount(place: str, profile: Mapping[str, Any], key: str, *, needed: bool = False) -> float:
    """Return a non-negative number of a profile; 0 where it may be missing."""
    value = profile.get(key, None if needed else 0)
    if not _is_number(value) or not 0 <= value < float("inf"):
        raise InputError(f"{place}: {key} is {json.dumps(value)}; expected a number from 0 up")
    return float(value)


def _amounts(place: str, profile: Mapping[str, Any], key: str, length: int) -> Floats:
    """Return a list of non-negative numbers of a profile; zeros where it may be missing."""
    values = profile.get(key) or [0] * length
    numbers = isinstance(values, list) and all(_is_number(v) and 0 <= v < float("inf") for v in values)
    if not numbers or len(values) != length:
        raise InputError(
            f"{place}: {key} is {json.dumps(profile.get(key))[:60]}; expected {length:,} numbers from 0 up"
        )
    return np.array(values, np.float64)


def write_batsim_blocks(file: IO[bytes], header: Header, blocks: Iterable[NamedColumns]) -> None:
    """Write one block of jobs; every run time is a ``delay`` profile."""
    (columns,) = blocks
    texts = {
        name: [json.dumps(word or None) for word in cells]
        if isinstance(cells, list)
        else log_fields.number_words(cells)
        for name, cells in columns.items()
    }
    jobs = columns["job_id"]
    words = {
        "id": [json.dumps(str(job)) for job in (jobs if isinstance(jobs, list) else jobs.tolist())],
        "subtime": texts.pop("submit_time"),
        "walltime": texts.pop("estimate"),
        "res": texts.pop("processors"),
    }
    run_times = texts.pop("run_time")
    words |= {"profile": [f'"delay_{run_time}"' for run_time in run_times]}
    words |= {name: column for name, column in texts.items() if name != "job_id"}
    nb_res = log_fields.machine_processors(header, ("nb_res", "MaxProcs", "MaxNodes"))
    nb_res = nb_res or max(map(int, words["res"]), default=1)
    file.write(f'{{\n"nb_res": {nb_res},\n'.encode())
    if others := other_directives(header):
        file.write(f'"header": {json.dumps(others, ensure_ascii=False)},\n'.encode())
    keys = [f'"{key}": ' for key in words]
    lines = (
        "{" + ", ".join(key + word for key, word in zip(keys, row, strict=True)) + "}"
        for row in zip(*words.values(), strict=True)
    )
    file.write(f'"jobs": [\n{_LINES.join(lines)}\n],\n'.encode())
    profiles = (f'"delay_{time}": {{"type": "delay", "delay": {time}}}' for time in dict.fromkeys(run_times))
    file.write(f'"profiles": {{\n{_LINES.join(profiles)}\n}}\n}}\n'.encode())


def check_jobs(log: LogBlock, source: Path) -> None:
    """Refuse jobs that Batsim cannot express."""
    processors = np.maximum(log.requested_processors, log.allocated_processors)
    for what, missing in (
        ("submit time", log.submit_time < 0),
        ("run time", log.run_time < 0),
        ("number of processors", processors < 1),
    ):
        if missing.any():
            job = int(log.job_id[np.argmax(missing)])
            raise InputError(
                f"{source}: jobs without {what}: {int(missing.sum())}; the first is job {job}\n"
                f"  Batsim needs it; give --clean to write what a simulation would get of the log"
            )


FORMAT = Format(
    "batsim",
    "JSON of the simulator Batsim",
    lambda head: head.startswith(b"{"),
    read_batsim,
    suffix=".json",
    writer=write_batsim_blocks,
    check=check_jobs,
    breadth=1,
)
