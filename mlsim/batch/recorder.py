"""Jobs that have left the system, kept as columns until the records are made."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._memory import let_go_of_freed
from mlsim.batch.requests import Requests
from mlsim.batch.table import JobTable
from mlsim.record import Jobs, empty
from mlsim.record.growing import HELD_ROWS, GrowingArray, let_go

__all__ = ["JobRecorder"]

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
    """Takes over the rows of ended jobs from the table, many at a time, each to the place of its arrival."""

    def __init__(self, table: JobTable, requests: Requests) -> None:
        self._table = table
        self._requests = requests
        types = {name: column.dtype for name, column in _columns_of(empty(Jobs)).items()}
        self._columns = {name: GrowingArray(dtype) for name, dtype in types.items()}
        self._rows = 0

    def take(self, slots: NDArray[np.int64]) -> None:
        """Copy the rows of ended jobs and free their slots.

        Raises
        ------
        OutputError
            If there is no room for the columns of very many jobs.
        """
        if not len(slots):
            return
        numbers = self._table.column("number")[slots]
        rows = max(self._rows, int(numbers.max()) + 1)
        block = {name: self._table.column(source)[slots] for name, source in _COLUMNS.items()}
        block["working"] = self._requests.working(block["processors"], block["cores"])
        for name, column in self._columns.items():
            column.reserve(rows, self._rows)
            column.array[numbers] = block[name]
            let_go(column.array)
        self._rows = rows
        self._table.give_back(slots)
        if rows > HELD_ROWS:
            let_go_of_freed()

    def jobs(self) -> Jobs:
        """Give all rows in order of arrival: row k is the job with number k."""
        return Jobs(**{name: column.array[: self._rows] for name, column in self._columns.items()})


def _columns_of(jobs: Jobs) -> dict[str, NDArray[Any]]:
    return {field.name: getattr(jobs, field.name) for field in fields(Jobs)}
