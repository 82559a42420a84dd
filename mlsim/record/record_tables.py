"""Records of a run as columns: one table per kind of fact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, NDArray
from mlsim.record.calendar import Calendar
from mlsim.record.column_types import Column, JobState, MessageKind, OutageKind, SolveStatus, empty

Int32s = NDArray[np.int32]
Codes = NDArray[np.int8]
Flags = NDArray[np.bool_]

_OF_JOB = Column("job", file="job_id", job=True)
_ATTEMPT = Column(
    "attempt of the job, from 1; the last one is `restarts` + 1; only if a job started again", after="job_id"
)
_START = "start_time"
_END = "end_time"


@dataclass(frozen=True, slots=True)
class NodePower:
    """Power of each node, which grows linearly with the cores that jobs hold."""

    idle: Annotated[Floats, Column("power when no core is held; if known", "W", "power_idle")]
    busy: Annotated[Floats, Column("power when all cores are held; if known", "W", "power_busy")]
    off: Annotated[
        Floats, Column("power when it is out of service and no job holds it; if known", "W", "power_off")
    ]


@dataclass(frozen=True, slots=True)
class Nodes:
    """The machine: one row a node, in allocation order; ``power`` is None if that is not known."""

    name: Annotated[list[str], Column("the node's name")]
    group: Annotated[list[str], Column("its group's name")]
    cores: Annotated[Ints, Column("cores of the node")]
    speed: Annotated[Floats, Column("speed of one core relative to the platform's reference speed", "1")]
    power: NodePower | None = None


@dataclass(frozen=True, slots=True)
class Jobs:
    """One row a job, in order of (submit_time, job_id).

    Of a job that failures, or the safeguard of the classifier, made start again, the start is that of its
    last attempt.
    """

    job_id: Annotated[Ints, Column("identifier in the workload")]
    submit_time: Annotated[Floats, Column("when it was submitted", "s", always=True)]
    start_time: Annotated[
        Floats, Column("when it started, at its last attempt; null for a job that never did", "s")
    ]
    end_time: Annotated[Floats, Column("when it ended; null for a job that never started", "s")]
    walltime: Annotated[Floats, Column("limit of the run time, requested by the user", "s")]
    prediction: Annotated[
        Floats,
        Column(
            "the estimate: the run time that the dispatcher saw; null for a job rejected at submission", "s"
        ),
    ]
    log_run_time: Annotated[
        Floats, Column("run time in the workload; differs from `run_time` where a loop was simulated", "s")
    ]
    processors: Annotated[Ints, Column("requested processors, after cleaning")]
    cores: Annotated[
        Ints, Column("cores held at the start; whole nodes count all their cores; 0 if rejected")
    ]
    working: Annotated[
        Ints, Column("those of them that its processors fill; all where a processor is a whole node")
    ]
    state: Annotated[Codes, Column("final state", words=JobState)]
    backfilled: Annotated[Flags, Column("whether it started ahead of the queue's order")]
    user: Annotated[Ints, Column("number from the workload; -1: unknown")]
    group: Annotated[Ints, Column("number from the workload; -1: unknown")]
    executable: Annotated[Ints, Column("number from the workload; -1: unknown")]
    queue: Annotated[Ints, Column("number from the workload; -1: unknown")]
    partition: Annotated[Ints, Column("number from the workload; -1: unknown")]
    dispatch_time: Annotated[
        Floats | None,
        Column(
            "wall-clock time of the pass that started it, part of `wait_time` and derived times; "
            "only with `batch.count_dispatch_time`",
            "s",
        ),
    ] = None
    eligible_time: Annotated[
        Floats | None,
        Column(
            "when it entered the queue, from which its waits count; null if it never did because of a job it "
            "depends on; only with `workload.dependencies`",
            "s",
        ),
    ] = None
    withdraw_time: Annotated[
        Floats | None, Column("when a withdrawn job left the queue; only if there is one", "s")
    ] = None
    qos: Annotated[
        Ints | None, Column("number of its class of service; -1: unknown; only if a job has one")
    ] = None
    taken_for_small: Annotated[
        Flags | None,
        Column("whether it was classified as small at its submission; only with `batch.classifier`"),
    ] = None
    divider: Annotated[
        Floats | None,
        Column(
            "run time below which it is small, as of its submission; null in the first week; only with "
            "`batch.classifier`",
            "s",
        ),
    ] = None
    # Codes with names in `Names`, -1 for none, which files hold as texts; None where all jobs have one
    # application.
    application: Ints | None = None
    technique: Ints | None = None


@dataclass(frozen=True, slots=True)
class Occupancy:
    """One row a stay of a job on neighbouring nodes, in order of start.

    A row stands for ``cores`` cores on each of the nodes ``node`` to ``node + count - 1``. Cores are
    not numbered: a consumer that needs numbers gives each row the lowest free cores of its nodes,
    walking the rows in order and freeing first every core whose row ended by this row's start.
    A job that gave a node up and got it back has another row for that node later. PE ``j`` of a job is
    the j-th of its cores in the order of its first rows for each node, their nodes, their cores; a later
    row of a node continues that node's PEs, whose cores may have other numbers then.
    """

    job: Annotated[Ints, _OF_JOB]
    node: Annotated[Ints, Column("the first node")]
    count: Annotated[Ints, Column("number of nodes, from the first on")]
    cores: Annotated[Ints, Column("cores held on each of them")]
    start: Annotated[Floats, Column("when the stay began", "s", _START, always=True)]
    end: Annotated[Floats, Column("when it ended", "s", _END, always=True)]
    released: Annotated[Flags, Column("released before the job's end: out of work, or on request")]
    devices: Annotated[
        Ints | None,
        Column("devices held on each: the sum of 2^k for the k-th of a node; only if nodes have devices"),
    ] = None


@dataclass(frozen=True, slots=True)
class Loops:
    """One row a job that executed a loop; times from the job's start, shares in PE-seconds.

    Of a job that started again it is of its last attempt; :class:`Attempts` has what PEs computed before.
    """

    job: Annotated[Ints, _OF_JOB]
    pes: Annotated[Ints, Column("PEs of the job")]
    iterations: Annotated[Ints, Column("iterations of its loop")]
    steps: Annotated[Ints, Column("assigned chunks")]
    t_loop: Annotated[
        Floats, Column("parallel loop time: when the last PE finished its last chunk", "s", always=True)
    ]
    mean_finish: Annotated[Floats, Column("mean of the PEs' finish times", "s", always=True)]
    std_finish: Annotated[Floats, Column("their population standard deviation", "s", always=True)]
    max_finish: Annotated[Floats, Column("the last of them", "s", always=True)]
    busy: Annotated[Floats, Column("time executing chunks", "PE s", always=True)]
    overhead: Annotated[
        Floats,
        Column(
            "time from the request for a chunk to its start, or to the answer that there is none",
            "PE s",
            always=True,
        ),
    ]
    idle: Annotated[
        Floats,
        Column(
            "the rest until the job's end; under CCA also the time the master serves others",
            "PE s",
            always=True,
        ),
    ]


@dataclass(frozen=True, slots=True)
class Chunks:
    """One row a chunk, grouped by job in order of job start, by ``start`` inside a job.

    Every attempt of a job that started again has its chunks. A chunk in which an attempt, or its job, was
    ended by a failure or a limit ends then; its size stays what was handed out.
    """

    job: Annotated[Ints, _OF_JOB]
    pe: Annotated[Int32s, Column("PE that executed it")]
    step: Annotated[Ints, Column("scheduling step that sized it")]
    first: Annotated[Ints, Column("its first iteration")]
    size: Annotated[Ints, Column("its assigned iterations, also if its end interrupted it")]
    requested: Annotated[Floats, Column("when the PE requested it", "s", "request_time", always=True)]
    start: Annotated[Floats, Column("when its execution began", "s", _START, always=True)]
    end: Annotated[
        Floats,
        Column(
            "when its execution ended, or was cut short by the end of its attempt", "s", _END, always=True
        ),
    ]
    attempt: Annotated[Int32s | None, _ATTEMPT] = None


@dataclass(frozen=True, slots=True)
class PEs:
    """One row a PE of a job that executed a loop; of one that started again, a row a PE of each attempt."""

    job: Annotated[Ints, _OF_JOB]
    pe: Annotated[Int32s, Column("the PE, from 0 in each job")]
    finish: Annotated[
        Floats,
        Column("end of its last chunk; the attempt's start if it had none", "s", "finish_time", always=True),
    ]
    told: Annotated[
        Floats, Column("when it learned that there is no more work", "s", "told_time", always=True)
    ]
    busy: Annotated[Floats, Column("time executing chunks", "s", always=True)]
    latency: Annotated[
        Floats | None,
        Column(
            "one-way time of a message between it and the PE that assigns its chunks, PE 0 or its node's "
            "first PE; only with `output.trace: messages`",
            "s",
        ),
    ] = None
    last_request: Annotated[
        Floats | None,
        Column(
            "when it sent the request with this answer; null for masters, and where the loop was "
            "ended before or its node had left; only with `output.trace: messages`",
            "s",
            "last_request_time",
        ),
    ] = None
    attempt: Annotated[Int32s | None, _ATTEMPT] = None


@dataclass(frozen=True, slots=True)
class Messages:
    """One row a coordination message between an application and the batch system, in order of sending.

    An acceptance has a row for each node.
    """

    kind: Annotated[Codes, Column("kind of message", words=MessageKind)]
    job: Annotated[Ints, Column("job whose application sends or receives it", file="job_id", job=True)]
    node: Annotated[Ints, Column("node it is about; null: about no single one", unknown=True)]
    sent: Annotated[Floats, Column("when it was sent", "s", "sent_time")]
    received: Annotated[Floats, Column("when it was received", "s", "received_time")]
    nodes: Annotated[
        Ints, Column("number of nodes concerned; in a request, the requested number", after="node")
    ]
    for_job: Annotated[
        Ints, Column("job that needs the nodes; null in other messages", unknown=True, after="nodes")
    ]
    remaining_iterations: Annotated[
        Ints, Column("unfinished iterations of other PEs when a node is idle; 0 in other messages")
    ]
    remaining_work: Annotated[
        Floats, Column("their work, at the reference speed; 0 in other messages", "PE s")
    ]


@dataclass(frozen=True, slots=True)
class Passes:
    """One row a pass of the dispatcher, in order; only with ``output.passes: on``."""

    time: Annotated[Floats, Column("simulated time of the pass", "s")]
    queue_length: Annotated[
        Ints, Column("jobs that waited when it began, those submitted at its time included")
    ]
    started: Annotated[Ints, Column("jobs that it started")]
    running: Annotated[Ints, Column("jobs that run when it is over")]
    free_units: Annotated[Ints, Column("nodes or cores that no job holds when it is over")]
    wall_time: Annotated[
        Floats,
        Column(
            "wall clock of the pass, with the ends and arrivals that led to it, without compiling and "
            "loading kernels; the one column that differs between equal runs",
            "s",
        ),
    ]


@dataclass(frozen=True, slots=True)
class Outages:
    """One row a stretch of time in which a node was out of use, in order of start.

    Stretches of one node may overlap. A job that holds a drained node keeps it until its end.
    """

    node: Annotated[Ints, Column("the node")]
    kind: Annotated[Codes, Column("reason of the outage", words=OutageKind)]
    start: Annotated[Floats, Column("from when on", "s", _START)]
    end: Annotated[Floats, Column("until when; null: it did not come back", "s", _END)]


@dataclass(frozen=True, slots=True)
class Attempts:
    """One row an attempt to run a job that another one followed; by job, then start.

    A failure ended it, or the safeguard of ``batch.classifier``.
    What the job held in an attempt are its occupancy rows that start between its times.
    """

    job: Annotated[Ints, _OF_JOB]
    node: Annotated[Ints, Column("the node that failed; -1: none did, the safeguard ended it")]
    start: Annotated[Floats, Column("start of the attempt", "s", _START)]
    end: Annotated[Floats, Column("end of the attempt", "s", _END)]
    kept: Annotated[Floats, Column("run time that later attempts need not repeat", "s")]
    lost: Annotated[Floats, Column("lost: cores · (end - start - kept), less early releases", "core s")]
    busy: Annotated[Floats, Column("time that PEs computed", "PE s")]


@dataclass(frozen=True, slots=True)
class Rejections:
    """One row a job that was turned away, in order of arrival; files have it in ``jobs``."""

    job: Ints
    reason: Int32s  # place in reasons
    reasons: tuple[str, ...] = ()

    @staticmethod
    def none() -> Rejections:
        """Return a table without rows."""
        return Rejections(np.empty(0, np.int64), np.empty(0, np.int32))


@dataclass(frozen=True, slots=True)
class Solves:
    """One row a pass of a dispatcher that plans by constraint programming, in order."""

    time: Annotated[Floats, Column("simulated time of the pass", "s")]
    queued: Annotated[Ints, Column("jobs that waited")]
    considered: Annotated[Ints, Column("jobs in the model")]
    started: Annotated[Ints, Column("jobs that started")]
    variables: Annotated[Ints, Column("variables of the model; 0 without a model")]
    constraints: Annotated[Ints, Column("constraints of the model; 0 without a model")]
    branches: Annotated[Ints, Column("branches of the search")]
    conflicts: Annotated[Ints, Column("conflicts of the search")]
    extensions: Annotated[Ints, Column("how often its time limit was doubled")]
    status: Annotated[Codes, Column("status of the plan", words=SolveStatus)]
    objective: Annotated[
        Floats, Column("objective summed over the plan (slowdown, or its goal); null if there is none", "1")
    ]
    bound: Annotated[Floats, Column("proved bound on it; null if there is none", "1")]
    build_seconds: Annotated[Floats, Column("wall-clock time of building the model", "s")]
    solve_seconds: Annotated[Floats, Column("wall-clock time of the rest of the pass", "s")]
    fallback: Annotated[Flags, Column("whether EASY decided")]
    unplaced: Annotated[Ints, Column("jobs that were to start and found no nodes")]


@dataclass(frozen=True, slots=True)
class Shared:
    """One row an amount that the machine has as a whole; only with ``platform.shared``.

    What each job asked of it, and held from start to end, is the column ``request_<name>`` of the jobs.
    """

    name: Annotated[list[str], Column("its name in the scenario")]
    unit: Annotated[list[str], Column("its unit: `MB`, `Mbit/s`, or empty for a number")]
    capacity: Annotated[Ints, Column("its total amount")]


@dataclass(frozen=True, slots=True)
class Selections:
    """One row a technique chosen for a time step, or for the rest of one (``technique: auto``); by job."""

    job: Annotated[Ints, _OF_JOB]
    time_step: Annotated[Ints, Column("the time step, from 1")]
    technique: Annotated[list[str], Column("technique that was chosen")]
    start: Annotated[Floats, Column("when the time step, or its rest, began with it", "s", _START)]
    t_loop: Annotated[
        Floats, Column("parallel loop time until the next choice in the time step, or its end", "s")
    ]
    imbalance: Annotated[
        Floats, Column("percent imbalance of the PEs' finish times, of the whole time step", "%")
    ]
    spent: Annotated[Floats, Column("time that the choice took, before it began", "s")]
    iterations: Annotated[
        Ints, Column("iterations of the time step assigned before; 0: chosen for all of it")
    ]


@dataclass(frozen=True, slots=True)
class Names:
    """Names of codes: ``of`` maps a column of :class:`Jobs` to code -> name; no column without names."""

    of: Mapping[str, Mapping[int, str]]


@dataclass(frozen=True, slots=True)
class OwnColumns:
    """User-defined columns of jobs, by name: one int64, float64 (NaN: none) or text (None) per job."""

    of: Mapping[str, NDArray[Any]]

    def rows(self, first: int, last: int) -> OwnColumns:
        """Return the columns of some jobs alone."""
        return OwnColumns({name: values[first:last] for name, values in self.of.items()})


@dataclass(frozen=True, slots=True)
class PowerSteps:
    """One row a step of the measured power of a job, until its next, by (job, time); `workload.power`."""

    job: Annotated[Ints, _OF_JOB]
    time: Annotated[Floats, Column("from when on, since the job got its nodes; the first of a job at 0", "s")]
    level: Annotated[Floats, Column("power of a node all of whose cores it holds", "W", "power")]
    period: Annotated[
        Floats, Column("after which the job's steps begin again; null: the last one holds", "s")
    ]


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
    outages: Outages = field(default_factory=lambda: empty(Outages))
    attempts: Attempts = field(default_factory=lambda: empty(Attempts))
    solves: Solves = field(default_factory=lambda: empty(Solves))
    shared: Shared = field(default_factory=lambda: empty(Shared))
    selections: Selections = field(default_factory=lambda: empty(Selections))
    power_steps: PowerSteps = field(default_factory=lambda: empty(PowerSteps))
    names: Names = field(default_factory=lambda: Names({}))
    own: OwnColumns = field(default_factory=lambda: OwnColumns({}))
    calendar: Calendar | None = None  # of the log, if it has dates


@dataclass(frozen=True)
class RankRequests:
    """Requests to the master, one row each, in order of the answers; times in s."""

    pe: Ints  # sender; the master is PE 0
    sent: Floats
    received: Floats  # by the master
    answered: Floats  # when the reply had been sent
    request_bytes: int
    reply_bytes: int


@dataclass(frozen=True)
class Ranks:
    """The ranks of a real run, each with a row of the trace."""

    numbers: Ints  # rank of each PE in the communicator of all
    requests: RankRequests | None = None  # None without a master, or if they were not recorded
