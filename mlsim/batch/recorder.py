"""Jobs that have left the system, kept as columns until the records are made."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim.batch.requests import Requests
from mlsim.batch.table import JobTable
from mlsim.record import Jobs, Rejections, empty

__all__ = ["JobRecorder", "RejectionLog"]

_COLUMNS = {
    "job_id": "job_id",
    "submit_time": "submit_time",
    "start_time": "start_time",
    "end_time": "end_time",
    "walltime": "estimate",
    "log_run_time": "run_time",
    "processors": "processors",
    "cores": "cores",
    "state": "state",
    "backfilled": "backfilled",
    "user": "user",
    "group": "group",
    "executable": "executable",
    "queue": "queue",
    "partition": "partition",
}
"""Column of the record -> column of the job table."""


class JobRecorder:
    """Takes over the rows of ended jobs from the table, many at a time."""

    def __init__(self, table: JobTable, requests: Requests) -> None:
        self._table = table
        self._requests = requests
        self._numbers: list[NDArray[np.int64]] = []
        self._blocks: list[dict[str, NDArray[Any]]] = []
        self._types = {name: column.dtype for name, column in _columns_of(empty(Jobs)).items()}

    def take(self, slots: NDArray[np.int64]) -> None:
        """Copy the rows of ended jobs and free their slots."""
        if not len(slots):
            return
        self._numbers.append(self._table.column("number")[slots].astype(np.int64))
        block = {
            name: self._table.column(source)[slots].astype(self._types[name])
            for name, source in _COLUMNS.items()
        }
        block["working"] = self._requests.working(block["processors"], block["cores"])
        self._blocks.append(block)
        self._table.give_back(slots)

    def jobs(self) -> Jobs:
        """Give all rows in order of arrival: row k is the job with number k."""
        if not self._blocks:
            return empty(Jobs)
        order = np.argsort(np.concatenate(self._numbers))
        columns: dict[str, NDArray[Any]] = {}
        for name in (*_COLUMNS, "working"):
            columns[name] = np.concatenate([block.pop(name) for block in self._blocks])[order]
        return Jobs(**columns)


class RejectionLog:
    """Which jobs were turned away, and why."""

    def __init__(self) -> None:
        self._jobs = array("q")
        self._reasons = array("i")
        self._codes: dict[str, int] = {}

    def note(self, numbers: NDArray[np.int64], reason: str) -> None:
        """Note that jobs were turned away for a reason."""
        if len(numbers):
            code = self._codes.setdefault(reason, len(self._codes))
            self._jobs.extend(numbers.tolist())
            self._reasons.extend([code] * len(numbers))

    def record(self) -> Rejections:
        """Give one row a job, in order of arrival."""
        jobs = np.array(self._jobs, np.int64)
        order = np.argsort(jobs)
        return Rejections(jobs[order], np.array(self._reasons, np.int32)[order], tuple(self._codes))


def _columns_of(jobs: Jobs) -> dict[str, NDArray[Any]]:
    return {name: getattr(jobs, name) for name in _COLUMNS}
