"""Jobs as columns under the names of CSV, Parquet and Batsim workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats
from mlsim.workload.log_dependencies import DEPENDENCIES
from mlsim.workload.log_names import JOB_NAMES, job_names, listed_names, names_of
from mlsim.workload.swf_fields import LARGEST_WHOLE, Header
from mlsim.workload.workload_jobs import JobBlock, LogBlock

NamedColumns = dict[str, Floats | NDArray[np.int64] | list[str]]
"""Columns by name; a list of texts where the codes of a column have names, empty for unknown."""

IF_KNOWN = (
    *("status", "user", "group", "executable", "queue", "partition"),
    *("qos", "loop_iterations", "loop_limit", "node_count"),
)
_APART = ("asked", "after", "own")
_MADE_BY_READING = ("ignored_columns", "request_columns", "nb_res")


def named_columns(
    jobs: JobBlock | LogBlock, header: Header | None = None, *, all_names: bool = False
) -> NamedColumns:
    """Name the columns of jobs.

    Parameters
    ----------
    jobs
        The jobs; columns of which nothing is known are left out. Processors of a log are the requested ones
        where these are known, else the allocated ones.
    header
        Its ``<column>_names`` take the place of a column's codes.
    all_names
        Whether names that the header has in lines (``Queue: 3 night``) do so too, where every code of the
        column has one of its own.

    Returns
    -------
    dict
        ``job_id``, ``submit_time`` (s), ``run_time`` (s), ``estimate`` (s), ``processors``; then those of
        ``status``, ``user``, ``group``, ``executable``, ``queue``, ``partition``, ``qos``,
        ``loop_iterations``, ``loop_limit``, ``node_count`` that are known; ``units`` and
        ``request_<resource>`` where the jobs say what they ask for.
    """
    if isinstance(jobs, LogBlock):
        requested = jobs.requested_processors
        processors: Floats | NDArray[np.int64] = np.where(requested > 0, requested, jobs.allocated_processors)
        walltime = jobs.requested_time
    else:
        processors, walltime = jobs.processors, jobs.walltime
    called = job_names(header or {})
    columns: NamedColumns = {
        "job_id": jobs.job_id if called is None else [called[k - 1] for k in jobs.job_id.tolist()],
        "submit_time": jobs.submit_time,
        "run_time": jobs.run_time,
        "estimate": walltime,
        "processors": _whole(processors),
    }
    names = (names_of if all_names else listed_names)(header or {})
    for name in IF_KNOWN:
        codes = getattr(jobs, name)
        if np.any(codes != -1):
            words = _words(codes, names.get(name, {}))
            columns[name] = _whole(codes) if words is None else words
    leaves = jobs.withdraw_time if isinstance(jobs, LogBlock) else jobs.withdrawals()
    leaves = np.where(np.isfinite(leaves), leaves, -1.0)
    if np.any(leaves >= 0):
        columns["withdraw_time"] = leaves
    if isinstance(jobs, LogBlock):
        columns.update(_preceding(jobs, called))
    if jobs.after is not None and len(jobs.after.row):
        columns[DEPENDENCIES] = jobs.after.cells(called)
    if jobs.asked is not None:
        columns.update(jobs.asked.columns())
    return columns


def _preceding(log: LogBlock, called: Sequence[str] | None) -> NamedColumns:
    """Return the columns of preceding jobs and think times [s]; none if no job depends on one."""
    if not np.any(log.preceding_job > 0):
        return {}
    jobs: NDArray[np.int64] | list[str] = log.preceding_job
    if called is not None:
        jobs = [called[k - 1] if k > 0 else "" for k in log.preceding_job.tolist()]
    return {"preceding_job": jobs, "think_time": log.think_time}


def _words(codes: Floats | NDArray[np.int64], names: Mapping[int, str]) -> list[str] | None:
    """Return the name of each code, an empty one for -1; None unless names are unique."""
    found = [int(code) for code in np.unique(codes) if code != -1]
    used = [names.get(code, "") for code in found]
    if len(set(used) - {""}) < len(found) or all(name.lstrip("+-").isdecimal() for name in used):
        return None
    return [names[int(code)] if code != -1 else "" for code in codes.tolist()]


def log_of(jobs: JobBlock) -> LogBlock:
    """Return the jobs of a workload as a log; cleaning that log leaves them as they are."""
    unknown = np.full(len(jobs), -1.0)
    columns: dict[str, Any] = {field.name: unknown for field in fields(LogBlock) if field.name not in _APART}
    columns["job_id"], columns["preceding_job"] = jobs.job_id, np.full(len(jobs), -1)
    columns["asked"] = jobs.asked
    as_in_swf = None if jobs.after is None else jobs.after.preceding()
    if as_in_swf is None:
        columns["after"] = jobs.after
    else:
        columns["preceding_job"], columns["think_time"] = as_in_swf
    for name in ("submit_time", "run_time", *IF_KNOWN):
        columns[name] = getattr(jobs, name).astype(np.float64)
    columns["withdraw_time"] = np.where(jobs.patience >= 0, jobs.withdrawals(), -1.0)
    columns["requested_processors"] = jobs.processors.astype(np.float64)
    columns["requested_time"] = jobs.walltime
    return LogBlock(**columns)


def other_directives(header: Header) -> Header:
    """Return the part of a header that columns by name do not hold and that reading does not make."""
    return {
        key: value
        for key, value in header.items()
        if key not in (*_MADE_BY_READING, JOB_NAMES) and key.removesuffix("_names") not in IF_KNOWN
    }


def number_words(column: Floats | NDArray[np.int64]) -> list[str]:
    """Return the shortest decimal texts that read back as the same numbers."""
    values = column.tolist()
    return [str(int(v)) if v == int(v) and abs(v) <= LARGEST_WHOLE else repr(v) for v in values]


def _whole(column: Floats | NDArray[np.int64]) -> NDArray[np.int64]:
    return column.astype(np.int64, copy=False)
