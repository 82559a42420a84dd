"""What happened in a run, as columns: one table per kind of fact.

Times are seconds from the scenario's start. Rows name jobs by their row in :class:`Jobs`, nodes by
their row in :class:`Nodes`. Metrics, pictures and traces read these tables and never a simulator, so
a simulated run and a real one are analysed by the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "JOB_COLUMNS",
    "Attempts",
    "Chunks",
    "JobState",
    "Jobs",
    "Loops",
    "MessageKind",
    "Messages",
    "Names",
    "NodePower",
    "Nodes",
    "Occupancy",
    "OutageKind",
    "Outages",
    "OwnColumns",
    "PEs",
    "Passes",
    "Records",
    "Rejections",
    "SolveStatus",
    "Solves",
    "empty",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Table = TypeVar("Table")


class JobState(IntEnum):
    """How a job ended."""

    COMPLETED = 0
    KILLED = 1
    REJECTED = 2
    FAILED = 3


class MessageKind(IntEnum):
    """Which coordination message was sent."""

    NODE_IDLE = 0
    JOB_COMPLETED = 1
    RELEASE_REQUEST = 2
    RELEASE_ACCEPTED = 3
    RELEASE_REJECTED = 4
    NODE_RETURNED = 5

    @property
    def from_batch(self) -> bool:
        """Whether the batch system sends it, and not the application."""
        return self in (MessageKind.RELEASE_REQUEST, MessageKind.NODE_RETURNED)


class OutageKind(IntEnum):
    """Why a node was out of use."""

    FAILED = 0
    DRAINED = 1
    ANNOUNCED_DRAIN = 2


@dataclass(frozen=True, slots=True)
class NodePower:
    """Power of each node in W, which grows linearly with the cores that jobs hold.

    Attributes
    ----------
    idle, busy, off
        When no core is held, when all are, and when the node is out of use and nobody holds it.
    """

    idle: Floats
    busy: Floats
    off: Floats


@dataclass(frozen=True, slots=True)
class Nodes:
    """The machine: one row a node, in allocation order.

    Attributes
    ----------
    name, group
        The node's name and its group's.
    cores
        Cores of the node.
    speed
        Speed of one core relative to the platform's reference speed.
    power
        Power of the nodes; None if that is not known.
    """

    name: list[str]
    group: list[str]
    cores: Ints
    speed: Floats
    power: NodePower | None = None


@dataclass(frozen=True, slots=True)
class Jobs:
    """One row a job, in order of (submit_time, job_id).

    Attributes
    ----------
    job_id
        Identifier in the workload.
    submit_time, start_time, end_time
        Times; start and end are NaN for a job that was rejected. Of a job that failures made start again,
        the start is that of its last attempt.
    walltime
        What the user asked: the limit of the run time.
    prediction
        The estimate: the run time that the dispatcher saw; NaN for a job rejected at its submission.
    log_run_time
        Run time in the workload; differs from ``end_time - start_time`` where a loop was simulated.
    processors
        Processors asked for, after cleaning.
    cores
        Cores held at the start (whole nodes count all their cores); 0 if rejected.
    working
        Those of them that its processors fill; all of them where a processor is a whole node.
    state
        Code of :class:`JobState`.
    backfilled
        Whether it started ahead of the queue's order.
    user, group, executable, queue, partition
        Numbers from the workload; -1 unknown.
    dispatch_time
        Wall-clock seconds of the pass that started it, where waits count them (NaN if rejected); None where
        they do not.
    qos
        Number of the class of service, -1 unknown; None where no job has one.
    eligible_time
        When it came to the queue, where jobs wait for other jobs (NaN if these never let it); None where
        they do not, and it is the submit time.
    """

    job_id: Ints
    submit_time: Floats
    start_time: Floats
    end_time: Floats
    walltime: Floats
    prediction: Floats
    log_run_time: Floats
    processors: Ints
    cores: Ints
    working: Ints
    state: NDArray[np.int8]
    backfilled: NDArray[np.bool_]
    user: Ints
    group: Ints
    executable: Ints
    queue: Ints
    partition: Ints
    dispatch_time: Floats | None = None
    qos: Ints | None = None
    eligible_time: Floats | None = None


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Which job held how many cores of which nodes, from when to when; in order of start.

    A row stands for ``cores`` cores on each of the nodes ``node`` to ``node + count - 1``. Cores are
    not numbered: a consumer that needs numbers gives each row the lowest free cores of its nodes,
    walking the rows in order and freeing first every core whose row ended by this row's start.
    A job that gave a node up and got it back has another row for that node later. PE ``j`` of a job is
    the j-th of its cores in the order of its first rows for each node, their nodes, their cores; a later
    row of a node continues that node's PEs, whose cores may have other numbers then.

    ``released`` marks rows that ended before their job: the node had run out of work, or was given up.
    """

    job: Ints
    node: Ints
    count: Ints
    cores: Ints
    start: Floats
    end: Floats
    released: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Loops:
    """One row a job that executed a loop; times from the job's start, shares in PE-seconds.

    Attributes
    ----------
    job
        Row of the job.
    pes, iterations, steps
        PEs of the job, iterations of its loop, chunks handed out.
    t_loop
        Parallel loop time: when the last PE finished its last chunk.
    mean_finish, std_finish, max_finish
        Over the PEs' finish times (population standard deviation).
    busy, overhead, idle
        Time executing chunks; time between asking for a chunk and starting it, or being told that there is
        none; the rest until the job's end, which under CCA holds the time the master serves others.
    """

    job: Ints
    pes: Ints
    iterations: Ints
    steps: Ints
    t_loop: Floats
    mean_finish: Floats
    std_finish: Floats
    max_finish: Floats
    busy: Floats
    overhead: Floats
    idle: Floats


@dataclass(frozen=True, slots=True)
class Chunks:
    """One row a chunk, grouped by job in order of job start, by ``start`` inside a job.

    PE ``pe`` asked at ``requested`` and executed iterations ``first`` to ``first + size - 1`` in
    [``start``, ``end``). ``step`` is the scheduling step that sized the chunk.
    """

    job: Ints
    pe: NDArray[np.int32]
    step: Ints
    first: Ints
    size: Ints
    requested: Floats
    start: Floats
    end: Floats


@dataclass(frozen=True, slots=True)
class PEs:
    """One row a PE of a job that executed a loop.

    ``finish`` is when it ended its last chunk (the job's start if it had none), ``told`` when it
    learned that there is no more work, ``busy`` the seconds it executed chunks.
    """

    job: Ints
    pe: NDArray[np.int32]
    finish: Floats
    told: Floats
    busy: Floats


@dataclass(frozen=True, slots=True)
class Messages:
    """Coordination messages between applications and the batch system, in order of sending.

    Attributes
    ----------
    kind
        Code of :class:`MessageKind`.
    job
        Row of the job whose application sends or receives it.
    node
        What it is about; -1 for no single node. An acceptance has a row for each node.
    sent, received
        Times.
    nodes
        How many nodes it is about; how many are asked for, in a request.
    for_job
        Identifier of the job that nodes are asked for; -1 in other messages.
    remaining_iterations, remaining_work
        What other PEs have in hand when a node is idle; PE-seconds at the reference speed.
    """

    kind: NDArray[np.int8]
    job: Ints
    node: Ints
    sent: Floats
    received: Floats
    nodes: Ints
    for_job: Ints
    remaining_iterations: Ints
    remaining_work: Floats


@dataclass(frozen=True, slots=True)
class Passes:
    """One row a pass of the dispatcher, in order.

    Attributes
    ----------
    time
        When it was, in simulated time.
    queue_length
        Jobs that waited when it began, those submitted at its time included.
    started
        Jobs it started.
    running, free_units
        Jobs that run, and units (nodes or cores) that no job holds, when it is over.
    wall_time
        Wall-clock seconds it took: the one column that differs between equal runs.
    """

    time: Floats
    queue_length: Ints
    started: Ints
    running: Ints
    free_units: Ints
    wall_time: Floats


@dataclass(frozen=True, slots=True)
class Outages:
    """One row a stretch of time in which a node was out of use, in order of start.

    Stretches of one node may overlap.

    Attributes
    ----------
    node
        Row of the node.
    kind
        Code of :class:`OutageKind`.
    start, end
        Times; NaN where it did not come back. A job that holds a drained node keeps it until its end.
    """

    node: Ints
    kind: NDArray[np.int8]
    start: Floats
    end: Floats


@dataclass(frozen=True, slots=True)
class Attempts:
    """One row an attempt to run a job that a failure ended and another one followed; by job, then start.

    Attributes
    ----------
    job
        Row of the job.
    node
        Row of the node that failed.
    start, end
        Times of the attempt. What the job held in it are its occupancy rows that start between them.
    kept
        Seconds of its run time that later attempts need not do again.
    lost
        Core-seconds it held for nothing: cores · (end - start - kept), less what it gave back early.
    busy
        PE-seconds it computed.
    """

    job: Ints
    node: Ints
    start: Floats
    end: Floats
    kept: Floats
    lost: Floats
    busy: Floats


@dataclass(frozen=True, slots=True)
class Rejections:
    """One row a job that was turned away, in order of arrival.

    ``job`` is the row of the job, ``reason`` the place of the reason in ``reasons``.
    """

    job: Ints
    reason: NDArray[np.int32]
    reasons: tuple[str, ...] = ()

    @staticmethod
    def none() -> Rejections:
        """Give a table of no rows."""
        return Rejections(np.empty(0, np.int64), np.empty(0, np.int32))


def _no_outages() -> Outages:
    return empty(Outages)


def _no_attempts() -> Attempts:
    return empty(Attempts)


class SolveStatus(IntEnum):
    """What is known of the plan of a pass."""

    OPTIMAL = 0
    FEASIBLE = 1
    INFEASIBLE = 2
    UNKNOWN = 3
    EMPTY = 4


@dataclass(frozen=True, slots=True)
class Solves:
    """One row a pass of a dispatcher that plans by constraint programming, in order.

    Attributes
    ----------
    time
        When the pass was.
    queued, considered, started
        Jobs: waiting, in the model, that started.
    variables, constraints
        Of the model; 0 where none was made.
    branches, conflicts, extensions
        Of the search; how often its time limit was doubled.
    status
        Code of :class:`SolveStatus`.
    objective, bound
        Sum of expected slowdowns over the plan, and the proved bound on it; NaN if there is none.
    build_seconds, solve_seconds
        Wall-clock time of making the model, and of the rest of the pass.
    fallback
        Whether EASY decided.
    unplaced
        Jobs that were to start and found no nodes.
    """

    time: Floats
    queued: Ints
    considered: Ints
    started: Ints
    variables: Ints
    constraints: Ints
    branches: Ints
    conflicts: Ints
    extensions: Ints
    status: NDArray[np.int8]
    objective: Floats
    bound: Floats
    build_seconds: Floats
    solve_seconds: Floats
    fallback: NDArray[np.bool_]
    unplaced: Ints

    @staticmethod
    def none() -> Solves:
        """Give a table of no rows."""
        return empty(Solves)


@dataclass(frozen=True, slots=True)
class Names:
    """Names of codes.

    Attributes
    ----------
    of
        Column of :class:`Jobs` -> code -> name; no column without names.
    """

    of: Mapping[str, Mapping[int, str]]


@dataclass(frozen=True, slots=True)
class OwnColumns:
    """Further columns of the jobs, with names of the user's own.

    Attributes
    ----------
    of
        Name -> a value a job: int64; or float64, NaN where there is none; or objects, texts or None.
    """

    of: Mapping[str, NDArray[Any]]

    def rows(self, first: int, last: int) -> OwnColumns:
        """Return the columns of some jobs alone."""
        return OwnColumns({name: values[first:last] for name, values in self.of.items()})


JOB_COLUMNS = (
    *("job_id", "submit_time", "start_time", "end_time", "run_time", "walltime", "prediction"),
    *("log_run_time", "processors", "cores", "working", "nodes", "state", "reason", "backfilled"),
    *("user", "group", "executable", "queue", "partition", "qos", "technique"),
    *("wait_time", "response_time", "slowdown", "bounded_slowdown", "dispatch_time", "eligible_time"),
    *("restarts", "lost_core_seconds", "energy"),
    *("user_name", "group_name", "executable_name", "queue_name", "partition_name", "qos_name"),
)
"""Columns that the table of jobs may have; those of the user's own have other names."""


@dataclass(frozen=True, slots=True)
class Records:
    """All tables of one run; ``passes`` has rows only where the scenario asks for them."""

    nodes: Nodes
    jobs: Jobs
    occupancy: Occupancy
    loops: Loops
    chunks: Chunks
    pes: PEs
    messages: Messages
    passes: Passes = field(default_factory=lambda: empty(Passes))
    rejections: Rejections = field(default_factory=Rejections.none)
    outages: Outages = field(default_factory=_no_outages)
    attempts: Attempts = field(default_factory=_no_attempts)
    solves: Solves = field(default_factory=Solves.none)
    names: Names = field(default_factory=lambda: Names({}))
    own: OwnColumns = field(default_factory=lambda: OwnColumns({}))


_DTYPES = {
    "Floats": np.float64,
    "Ints": np.int64,
    "NDArray[np.int8]": np.int8,
    "NDArray[np.int32]": np.int32,
    "NDArray[np.bool_]": np.bool_,
}


def empty(table: type[Table]) -> Table:
    """Make a table of columns with no rows, without the columns that a table may lack."""
    columns: dict[str, Any] = {
        column.name: np.empty(0, _DTYPES[str(column.type)])
        for column in fields(table)  # type: ignore[arg-type]  # every table is a dataclass
        if str(column.type) in _DTYPES
    }
    return table(**columns)
