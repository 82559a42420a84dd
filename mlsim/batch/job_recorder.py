"""Records of jobs, passes and messages."""

import re
import time
from array import array
from collections import deque
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
from mlsim.record import Jobs, JobState, MessageKind, MessageStore, Passes, Rejections, empty
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


class MessageLog:
    """Records every message between applications and the batch system; each takes ``latency`` seconds."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.store = MessageStore()
        self.recent: deque[coordination.Message | coordination.IdleNodes] = deque(maxlen=_SHOWN)

    def send(self, number: int, message: coordination.Message) -> float:
        """Record a message of the job with this number; return the time at which it arrives."""
        received = message.time + self.latency
        self.store.add(number, message.time, received, **_row_of(message))
        self.recent.append(message)
        return received

    def send_idle(self, number: int, idle: coordination.IdleNodes) -> None:
        """Record all messages of a job about its idle nodes."""
        if len(idle):
            kind, left, work = MessageKind.NODE_IDLE, idle.remaining_iterations, idle.remaining_work
            received = idle.time + self.latency
            self.store.add(
                *(number, idle.time, received, kind, idle.node),
                remaining_iterations=left,
                remaining_work=work,
            )
            self.recent.append(idle)

    def last(self) -> list[dict[str, Any]]:
        """Return the last messages, the latest last: what, of which job and nodes, and when (s)."""
        latest: list[coordination.Message] = []
        for sent in self.recent:
            latest += sent[-_SHOWN:] if isinstance(sent, coordination.IdleNodes) else [sent]
        return [_plain(message, message.time + self.latency) for message in latest[-_SHOWN:]]


_SHOWN = 5
_KINDS = {
    coordination.NodeIdle: MessageKind.NODE_IDLE,
    coordination.JobCompleted: MessageKind.JOB_COMPLETED,
    coordination.ReleaseRequest: MessageKind.RELEASE_REQUEST,
    coordination.ReleaseAccepted: MessageKind.RELEASE_ACCEPTED,
    coordination.ReleaseRejected: MessageKind.RELEASE_REJECTED,
    coordination.NodeReturned: MessageKind.NODE_RETURNED,
}


def _row_of(message: coordination.Message) -> dict[str, Any]:
    """Return the columns of a message; an acceptance has a row for each node."""
    row: dict[str, Any] = {"kind": _KINDS[type(message)]}
    if isinstance(message, coordination.NodeIdle):
        left, work = message.remaining_iterations, message.remaining_work
        return row | {"node": message.node, "remaining_iterations": left, "remaining_work": work}
    if isinstance(message, coordination.ReleaseRequest):
        return row | {"nodes": message.nodes, "for_job": message.for_job}
    if isinstance(message, coordination.ReleaseAccepted):
        return row | {"node": np.array(message.nodes, np.int64)}
    if isinstance(message, coordination.NodeReturned):
        return row | {"node": message.node}
    return row | {"nodes": 0}


def _plain(message: coordination.Message, received: float) -> dict[str, Any]:
    words = re.sub("(?<!^)(?=[A-Z])", " ", type(message).__name__).lower()
    nodes = getattr(message, "nodes", getattr(message, "node", None))
    row = {"message": words, "job": message.job, "sent": message.time, "received": received}
    if isinstance(message, coordination.ReleaseRequest):
        return row | {"nodes_wanted": message.nodes, "for_job": message.for_job}
    return row if nodes is None else row | {"nodes": list(nodes) if isinstance(nodes, tuple) else [nodes]}
