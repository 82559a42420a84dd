"""The view that a dispatcher gets at a pass, and its answers.

A dispatcher of the user's own, and each constraint-programming dispatcher, gets a :class:`StateView`
and answers with :class:`Start`, :class:`Reject` and
:class:`Wake`. Every array of a view is read-only. Run times are
estimates; a view has no actual run times.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats, Ints, Mask

__all__ = [
    "Dispatcher",
    "Drains",
    "FurtherColumns",
    "Reject",
    "RunningJobs",
    "Start",
    "StateView",
    "WaitingJobs",
    "Wake",
]


class FurtherColumns(dict[str, NDArray[Any]]):
    """Columns of jobs by name; the error for a missing one names the key that adds it."""

    def __missing__(self, name: str) -> NDArray[Any]:
        there = ", ".join(self) or "none"
        raise KeyError(f"there is no column {name!r}; add it to workload.columns, which names: {there}")


def _none() -> Ints:
    return np.empty(0, np.int64)


def _no_columns() -> FurtherColumns:
    return FurtherColumns()


def _no_shares() -> Ints:
    return np.empty((0, 0), np.int64)


@dataclass(frozen=True, slots=True)
class WaitingJobs:
    """The jobs that wait, one row each, in order of (submit_time, job_id): n rows.

    ``user``, ``group``, ``executable``, ``queue`` and ``partition`` are numbers as in the log, -1 if unknown.
    """

    number: Ints  # int64[n]: order of arrival from 0, unique in a run
    job_id: Ints  # int64[n]: identifier in the log
    submit_time: Floats
    """float64[n]: seconds from the scenario's start; of a job that depends on others, its eligible time."""
    estimate: Floats  # float64[n]: what the dispatcher may know of the run time [s]; above 0
    processors: Ints  # int64[n]: as in the log
    units: Ints  # int64[n]: identical units that the job asks for; each lies on one node
    request: Ints
    """int64[n, R]: what one unit asks of each resource, in the order of :attr:`StateView.resources`."""
    user: Ints
    group: Ints
    executable: Ints
    queue: Ints
    partition: Ints
    columns: FurtherColumns = field(default_factory=_no_columns)
    """The columns of the log that ``workload.columns`` names, by name: int64 where every job of the log has a
    whole number; float64 for other numbers, NaN where there is none; else objects, texts or None.
    """
    shares: Ints = field(default_factory=_no_shares)
    """int64[n, S]: what the job asks of what the machine has as a whole."""
    node_set: Ints = field(default_factory=_none)
    """int64[n]: row of :attr:`StateView.node_sets` with the nodes that the job may use."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """What the plugin of ``batch.data`` returned at this pass; empty without one."""

    def __len__(self) -> int:
        return self.job_id.size


@dataclass(frozen=True, slots=True)
class RunningJobs:
    """The jobs that run, one row each, in order of arrival, and what they hold: m rows.

    Columns of the same name are those of :class:`WaitingJobs`.
    """

    number: Ints
    job_id: Ints
    start_time: Floats  # float64[m]: seconds from the scenario's start
    expected_end: Floats
    """float64[m]: max(start + estimate, now + 1 s): a job that outlived its estimate ends in a second."""
    units: Ints  # int64[m]: that the job still holds
    request: Ints  # int64[m, R]: what one unit holds of each resource
    user: Ints
    group: Ints
    executable: Ints
    queue: Ints
    partition: Ints
    held_job: Ints  # int64[h]: row of this table, for each (job, node) of a job that holds units there
    held_node: Ints  # int64[h]: the node
    held_units: Ints  # int64[h]: units of the job there
    columns: FurtherColumns = field(default_factory=_no_columns)
    shares: Ints = field(default_factory=_no_shares)
    """int64[m, S]: what the job holds, until it ends, of what the machine has as a whole."""

    def __len__(self) -> int:
        return self.job_id.size


def _never() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, slots=True)
class Drains:
    """Announced drains that are known and not over, one row per node, in order of start.

    Before ``start`` the node is in use, but a job that is expected to end after it cannot start there.
    """

    node: Ints = field(default_factory=_none)  # int64[d]: number of the node; it may have several rows
    start: Floats = field(default_factory=_never)  # float64[d]: begin of maintenance [s]
    end: Floats = field(default_factory=_never)  # float64[d]: its end [s]; infinity: for good

    def __len__(self) -> int:
        return self.node.size


@dataclass(frozen=True, slots=True)
class StateView:
    """The batch level as a dispatcher sees it at one pass."""

    now: float
    """Seconds from the scenario's start."""
    resources: tuple[str, ...]
    """Names of the R resources: ``cores`` first, then ``memory`` (in MB) if the platform specifies it, then
    the others in the platform's order.
    """
    capacity: Ints
    """int64[n_nodes, R]: what every node has; rows of 0 for nodes that are out of use."""
    free: Ints
    """int64[n_nodes, R]: unallocated amounts per node."""
    exclusive: bool
    """Whether nodes are given whole: a unit needs a node of which nothing is held."""
    waiting: WaitingJobs
    """The jobs that wait."""
    running: RunningJobs
    """The jobs that run."""
    drains: Drains = field(default_factory=Drains)
    """Known outages: nodes that will be out of service, or are and will return."""
    node_sets: Mask = field(default_factory=lambda: np.empty((0, 0), np.bool_))
    """bool[sets, n_nodes]: the nodes of each set that jobs may use; row 0: all nodes."""
    shared: tuple[str, ...] = ()
    """Names of the S amounts that the machine has as a whole (``platform.shared``)."""
    shared_capacity: Ints = field(default_factory=_none)
    """int64[S]: how much of each there is: things, MB, or Mbit/s."""
    shared_free: Ints = field(default_factory=_none)
    """int64[S]: unallocated amount of each."""
    power_units: int | None = None
    """Further nodes, or cores where these are allocated singly, that the power cap allows besides those held;
    below 0 where jobs hold too many. None: there is no cap, or nodes add unequal power.
    """
    power_left: int | None = None
    """Power that jobs may add under the power cap [microwatts]; below 0 where the cap has fallen below their
    draw. None: there is no cap.
    """
    power_added: Ints = field(default_factory=_none)
    """int64[n_nodes]: what each node, or each core of it where these are given singly, adds when a job holds
    it [microwatts]; empty if there is no cap.
    """
    data: Mapping[str, Any] = field(default_factory=dict)
    """What the plugin of ``batch.data`` returned at this pass, by name; empty without one."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a waiting job in this pass."""

    job: int
    """Row of :attr:`StateView.waiting`."""
    nodes: Sequence[int] | None = None
    """The node of each of its units; None: the scenario's allocator chooses."""
    backfilled: bool = False
    """Whether the job overtook one that came before it in the dispatcher's order."""


@dataclass(frozen=True, slots=True)
class Reject:
    """The rejection of a waiting job."""

    job: int
    """Row of :attr:`StateView.waiting`."""
    reason: str
    """Why, in words for the user."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Ask for a pass at a time at which perhaps nothing else happens."""

    at: float
    """When, after now [s from the scenario's start]. Every time that is asked for gets its pass; the
    dispatcher is asked there if jobs wait.
    """


class Dispatcher(Protocol):
    """Decides at a pass which waiting jobs start."""

    def dispatch(self, view: StateView) -> Iterable[Start | Reject | Wake]:
        """Answer for one pass.

        The answers are carried out in their order, each on what those before it left free. A job without
        an answer goes on waiting. A start that does not fit or would run into an announced drain, a job named
        twice and a row that does not exist end the run with an error that names the job and the time.
        """
        ...
