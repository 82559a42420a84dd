"""What the slow co-simulation works on and gives: plain data, one object a job."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from tests.reference.cosim_loops import LiveLoop

FOREVER = float("inf")
Number = float | Fraction


@dataclass(frozen=True)
class Job:
    id: int
    submit: Number
    estimate: Number
    units: int
    costs: tuple[Number, ...]
    executable: int = -1
    after: tuple[tuple[int, bool, Number], ...] = ()  # job, whether it must complete, think time
    may_use: frozenset[int] | None = None  # nodes; None: all


@dataclass(frozen=True)
class Platform:
    """Nodes by their cores and speeds; one-way times of messages between PEs of two nodes and of one."""

    cores: tuple[int, ...]
    speed: tuple[Number, ...]
    between: Number = 0.0
    within: Number = 0.0


@dataclass(frozen=True)
class Failure:
    node: int
    at: Number
    repair: Number | None = None


@dataclass(frozen=True)
class Drain:
    node: int
    start: Number
    end: Number | None = None


@dataclass(frozen=True)
class Rules:
    """How loops are scheduled, and what the two levels do for each other.

    ``loop`` holds fields of ``Case``: technique, min_chunk and the costs of the execution model.
    """

    loop: dict[str, Any]
    model: str = "dca"
    easy: bool = False
    kill: bool = False
    rca: bool = False
    latency: Number = 0.0
    requests: bool = False
    answer: str = "idle-only"
    tolerance: Number = Fraction(1, 20)
    reclaim: bool = False
    short_first: bool = False
    pass_interval: float = 0.0
    backfill_interval: float = 0.0
    failures: tuple[Failure, ...] = ()
    drains: tuple[Drain, ...] = ()
    restart: bool = False  # whether a job whose node fails goes back to the queue
    max_restarts: int = 5


class Message(NamedTuple):
    """``facts``: nodes asked for, for which job, and the deadline; nodes accepted; or why it was rejected."""

    sent: Fraction
    job: int
    kind: str
    node: int
    received: Fraction
    facts: tuple[Any, ...] = ()


@dataclass
class Stay:
    node: int
    begin: Fraction
    end: Fraction | None = None
    released: bool = False


@dataclass
class Run:
    """One attempt to run a job, and what has become of it."""

    job: Job
    state: str = "waiting"  # then running; then completed, killed, failed; or rejected
    earlier: tuple[Run, ...] = ()  # attempts that failures ended
    eligible: Number = 0  # when it was in the queue first
    start: Fraction | None = None
    end: Fraction | None = None
    backfilled: bool = False
    stays: list[Stay] = field(default_factory=list)
    nodes: tuple[int, ...] = ()  # in allocation order
    held: set[int] = field(default_factory=set)
    loop: LiveLoop | None = None
    yielded: set[int] = field(default_factory=set)  # nodes the application has promised, until returned
    chunks: list[tuple[Any, ...]] = field(default_factory=list)

    def stay(self, node: int) -> Stay:
        return next(stay for stay in self.stays if stay.node == node and stay.end is None)


@dataclass
class Asking:
    """The batch level looks for nodes for one waiting job."""

    head: Run
    candidates: list[Run]
