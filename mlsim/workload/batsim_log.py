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
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from mlsim.errors import InputError
from mlsim.workload import log_fields
from mlsim.workload.batsim_profiles import Profiles, UnknownTimeError
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog
from mlsim.workload.json_jobs import add_optional, content_of, series_of
from mlsim.workload.log_fields import SURE_DIGITS, Field, Header, check_distinct
from mlsim.workload.workload_jobs import LogBlock, NamedColumns, other_directives

_LONG_TIME = re.compile(r'"subtime"\s*:\s*[-+.\deE]{' + str(SURE_DIGITS + 1) + "}")
_FIELDS = {"subtime": "submit_time", "res": "processors", "walltime": "walltime"}
"""Keys of a job, and the columns of CSV that mean the same."""
_LINES = ",\n"  # Between the lines of a list or an object


def read_batsim(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read a Batsim workload, compressed or not; its profiles become run times."""
    import polars as pl

    from mlsim.workload.log_columns import LogTable

    path = Path(path)
    content, text = content_of(path)
    _check_content(path, content)
    jobs = content["jobs"]
    if not jobs:
        raise InputError(
            f"{path}: holds no job; where a scheduler submits the jobs as it runs (dynamic registration), a "
            "log does not have them, and only Batsim with that scheduler makes them"
        )
    names = [_job_name(path, row, job) for row, job in enumerate(jobs)]
    header: Header = dict(content["header"]) if log_fields.is_header(content.get("header")) else {}
    if "nb_res" in content:
        header["nb_res"] = str(content["nb_res"])
    columns = {"job_id": pl.Series(names, dtype=pl.String)}
    for key, name in _FIELDS.items():
        columns[name] = series_of(job.get(key) for job in jobs)
    own = [_with_extra_data(job) for job in jobs]
    further = add_optional(columns, own, ("id", "extra_data", *_FIELDS))

    def locate(name: str, row: int) -> str:
        key = {name: key for key, name in _FIELDS.items()}.get(name, "id" if name == "job_id" else name)
        found = json.dumps(jobs[row][key]) if key in jobs[row] else "missing"
        return f"{path}: job {names[row]}: {key} is {found}"

    table = LogTable(
        str(path), pl.DataFrame(columns), header, options, further=further, locate=locate, rows="jobs"
    )
    if ignored := [key for key in header.pop("ignored_columns", ()) if key != "profile"]:
        header["ignored_columns"] = ignored
    processors = table.columns[Field.REQUESTED_PROCESSORS]
    table.require("processors", processors >= 1, "a whole number from 1 up")
    if _LONG_TIME.search(text):
        written = [str(job.get("subtime", "")) for job in json.loads(text, parse_float=str)["jobs"]]
        check_distinct(str(path), written, table.columns[Field.SUBMIT_TIME], names.__getitem__)
    profiles = Profiles(content["profiles"], options.rates, path.parent)
    for row in np.flatnonzero(table.sound).tolist():
        place, profile = f"{path}: job {names[row]}", jobs[row].get("profile")
        try:
            table.columns[Field.RUN_TIME, row] = profiles.run_time(place, profile, int(processors[row]))
        except UnknownTimeError as error:
            if not options.lenient:
                hint = "\n  to skip and count such jobs, set workload.lenient: true"
                raise UnknownTimeError(f"{error}{hint}") from error
            table.sound[row] = False
    return table.log()


def _with_extra_data(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a job with the keys of its ``extra_data``, an object or its text, that it lacks itself."""
    extra = job.get("extra_data")
    if isinstance(extra, str) and extra.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):  # free text of the user
            extra = json.loads(extra)
    return {**extra, **job} if isinstance(extra, dict) else job


def _check_content(path: Path, content: object) -> None:
    expected = (
        "expected an object with a list 'jobs' and an object 'profiles', as Batsim has it, what sacct "
        "--json prints, or JSON of WfFormat or ElastiSim"
    )
    if not isinstance(content, dict):
        raise InputError(f"{path}: holds no JSON object; {expected}")
    for key, kind in (("jobs", list), ("profiles", dict)):
        if not isinstance(content.get(key), kind):
            raise InputError(f"{path}: {key} is {'wrong' if key in content else 'missing'}; {expected}")


def _job_name(path: Path, row: int, job: object) -> str:
    if not isinstance(job, dict) or not isinstance(job.get("id"), str | int):
        raise InputError(f"{path}: job {row + 1} of the list has no id that is a text or a whole number")
    return str(job["id"])


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
    further=True,
    breadth=1,
)
