"""Records of jobs, passes and messages."""

import time
from array import array
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim import coordination
from mlsim._jit import compile_seconds
from mlsim._runtime.memory import let_go_of_freed
from mlsim.batch.columns.job_columns import JobTable
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state.batch_state import BatchState
from mlsim.record import Jobs, JobState, MessageKind, Messages, Passes, Rejections, empty
from mlsim.record.column_types import HELD_ROWS, GrowingArray, let_go, stored_columns

_BLOCK_ROWS = 1 << 16

_SAME = (
    *("job_id", "submit_time", "start_time", "end_time", "walltime", "processors", "cores", "state"),
    *("backfilled", "user", "group", "executable", "queue", "partition"),
)
# Column of the record -> column of the job table.
_COLUMNS = {name: name for name in _SAME} | {"prediction": "estimate", "log_run_time": "run_time"}


class JobRecorder:
    """Copies the rows of ended jobs from the table in batches, each to its place in order of arrival."""

    def __init__(self, table: JobTable, requests: Requests) -> None:
        self._table = table
        self._requests = requests
        types = {name: column.dtype for name, column in _columns_of(empty(Jobs)).items()}
        self._columns = {name: GrowingArray(dtype) for name, dtype in types.items()}
        self._rows = 0

    def record_ended(self, slots: NDArray[np.int64]) -> None:
        """Copy the rows of ended jobs and free their slots; raise OutputError without room for columns."""
        if not len(slots):
            return
        numbers = self._table.column("number")[slots]
        rows = max(self._rows, int(numbers.max()) + 1)
        block = {name: self._table.column(source)[slots] for name, source in _COLUMNS.items()}
        block["working"] = self._requests.working(block["processors"], block["cores"])
        qos = self._table.column("qos")[slots]
        self._take_if_known(block, "qos", qos, (qos != -1).any(), -1)
        withdrawn = block["state"] == JobState.WITHDRAWN
        times = np.where(withdrawn, self._table.column("withdraw_time")[slots], np.nan)
        self._take_if_known(block, "withdraw_time", times, withdrawn.any(), np.nan)
        for name, column in self._columns.items():
            column.reserve(rows, self._rows)
            column.array[numbers] = block[name]
            let_go(column.array)
        self._rows = rows
        self._table.free_slots(slots)
        if rows > HELD_ROWS:
            let_go_of_freed()

    def _take_if_known(
        self, block: dict[str, NDArray[Any]], name: str, values: NDArray[Any], known: bool, unknown: float
    ) -> None:
        """Copy an optional column, from the first job with a value on."""
        if name not in self._columns and known:
            column = self._columns[name] = GrowingArray(values.dtype)
            column.reserve(self._rows, 0)
            column.array[: self._rows] = unknown
        if name in self._columns:
            block[name] = values

    def jobs(self) -> Jobs:
        """Return all rows in order of arrival: row k is the job with number k."""
        return Jobs(**{name: column.array[: self._rows] for name, column in self._columns.items()})


class RejectionLog:
    """Rejected jobs with their reasons: two bytes per job up to the last rejected one."""

    def __init__(self) -> None:
        self._codes = GrowingArray(np.int16)  # by number of the job; 0 is none, else 1 + place of the reason
        self._rows = 0
        self._reasons: dict[str, int] = {}
        self._n_rejected = 0

    def add(self, numbers: NDArray[np.int64], reason: str) -> None:
        """Record that jobs, each for the first time, were rejected; raise OutputError without room."""
        if not len(numbers):
            return
        code = self._reasons.setdefault(reason, len(self._reasons)) + 1
        rows = max(self._rows, int(numbers.max()) + 1)
        self._codes.reserve(rows, self._rows)
        self._codes.array[self._rows : rows] = 0
        self._codes.array[numbers] = code
        self._rows = rows
        self._n_rejected += len(numbers)
        let_go(self._codes.array)

    def record(self) -> Rejections:
        """Return the rejections, one row per job, in order of arrival."""
        jobs, reasons = (GrowingArray(dtype, capacity=0) for dtype in (np.int64, np.int32))
        for column in (jobs, reasons):
            column.reserve(self._n_rejected, 0)
        n = 0
        for first in range(0, self._rows, _BLOCK_ROWS):
            codes = self._codes.array[first : min(first + _BLOCK_ROWS, self._rows)]
            found = np.flatnonzero(codes)
            rows = slice(n, n + len(found))
            jobs.array[rows] = found + first
            reasons.array[rows] = codes[found] - 1
            n += len(found)
            let_go(self._codes.array, jobs.array, reasons.array)
        return Rejections(jobs.array[:n], reasons.array[:n], tuple(self._reasons))


def _columns_of(jobs: Jobs) -> dict[str, NDArray[Any]]:
    columns = {field.name: getattr(jobs, field.name) for field in fields(Jobs)}
    return {name: column for name, column in columns.items() if column is not None}


def wall_clock() -> float:
    """Return wall-clock seconds without the time in which kernels are compiled, which is once a machine."""
    return time.perf_counter() - compile_seconds()


class PassLog:
    """A row for every pass, in columns that grow: 48 bytes each."""

    def __init__(self) -> None:
        columns = stored_columns(Passes)
        self._columns: dict[str, Any] = {c.field: array("d" if c.dtype == float else "q") for c in columns}

    def add(self, now: float, waiting: int, started: int, state: BatchState, seconds: float) -> None:
        """Add the pass that has just ended; ``waiting`` jobs waited when it began."""
        self._columns["time"].append(now)
        self._columns["wall_time"].append(seconds)
        self._columns["queue_length"].append(waiting)
        self._columns["started"].append(started)
        self._columns["running"].append(len(state.running()))
        self._columns["free_units"].append(state.n_free)

    def passes(self) -> Passes:
        """Return the rows of all passes."""
        return Passes(**{name: np.array(column) for name, column in self._columns.items()})


_MESSAGE_FIELDS = (
    *("sent", "received", "job", "kind", "node", "nodes", "for_job"),
    *("remaining_iterations", "remaining_work"),
)
_KINDS = {
    coordination.NodeIdle: MessageKind.NODE_IDLE,
    coordination.JobCompleted: MessageKind.JOB_COMPLETED,
    coordination.ReleaseRequest: MessageKind.RELEASE_REQUEST,
    coordination.ReleaseAccepted: MessageKind.RELEASE_ACCEPTED,
    coordination.ReleaseRejected: MessageKind.RELEASE_REJECTED,
    coordination.NodeReturned: MessageKind.NODE_RETURNED,
}


def message_rows(log: coordination.MessageLog) -> Messages:
    """Return messages as rows, in order of (sent, received, job); an acceptance has a row for each node."""
    rows = sorted(row for sent in log.messages for row in _rows_of(sent))
    types = {column.field: column.dtype for column in stored_columns(Messages)}
    columns: dict[str, NDArray[Any]] = {
        name: np.array([row[place] for row in rows], types[name])
        for place, name in enumerate(_MESSAGE_FIELDS)
    }
    return Messages(**columns)


def _rows_of(sent: coordination.Sent) -> list[tuple[Any, ...]]:
    message = sent.message
    head = (message.time, sent.received, sent.number, int(_KINDS[type(message)]))
    if isinstance(message, coordination.NodeIdle):
        return [(*head, message.node, 1, -1, message.remaining_iterations, message.remaining_work)]
    if isinstance(message, coordination.ReleaseRequest):
        return [(*head, -1, message.nodes, message.for_job, 0, 0.0)]
    if isinstance(message, coordination.ReleaseAccepted):
        return [(*head, node, 1, -1, 0, 0.0) for node in message.nodes]
    if isinstance(message, coordination.NodeReturned):
        return [(*head, message.node, 1, -1, 0, 0.0)]
    return [(*head, -1, 0, -1, 0, 0.0)]
