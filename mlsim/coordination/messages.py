"""The messages of the resourceful coordination approach (RCA; Eleliemy 2021, ch. 6)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Answer",
    "JobCompleted",
    "Message",
    "NodeIdle",
    "NodeReturned",
    "ReleaseAccepted",
    "ReleaseRejected",
    "ReleaseRequest",
]


@dataclass(frozen=True, slots=True)
class NodeIdle:
    """Application to batch system: all PEs of a node are notified that no chunk is left."""

    job: int
    """Identifier of the job."""
    node: int
    """Number of the node on the machine."""
    time: float
    """When it was sent, in seconds from the scenario's start."""
    remaining_iterations: int
    """Iterations in chunks that other PEs have not finished."""
    remaining_work: float
    """What is left of those chunks, in PE-seconds at the reference speed."""


@dataclass(frozen=True, slots=True)
class JobCompleted:
    """Application to batch system: the loop is done and every PE is notified."""

    job: int
    time: float


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """Batch system to application: release some nodes."""

    job: int
    """Identifier of the job that is asked."""
    time: float
    """When it was sent, in seconds from the scenario's start."""
    nodes: int
    """How many nodes are wanted; which ones is the application's choice."""
    for_job: int
    """Identifier of the waiting job that lacks them."""
    deadline: float
    """When that job could start without them, by estimates; infinity if that is not known."""


@dataclass(frozen=True, slots=True)
class ReleaseAccepted:
    """Application to batch system: these nodes will be free, each after the chunks in hand.

    ``nodes`` are node numbers, ``free`` the time at which each has nothing more to do.
    """

    job: int
    time: float
    nodes: tuple[int, ...]
    free: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ReleaseRejected:
    """Application to batch system: no, for this reason."""

    job: int
    time: float
    reason: str


@dataclass(frozen=True, slots=True)
class NodeReturned:
    """Batch system to application: a node it gave up is its own again."""

    job: int
    node: int
    time: float


Answer = ReleaseAccepted | ReleaseRejected
Message = NodeIdle | JobCompleted | ReleaseRequest | ReleaseAccepted | ReleaseRejected | NodeReturned
