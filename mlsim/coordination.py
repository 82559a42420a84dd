"""Messages and forecasts between the batch level and the application level (RCA; Eleliemy 2021, ch. 6)."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class NodeIdle:
    """Application to batch system: all PEs of a node are notified that no chunk is left."""

    job: int  # identifier of the job
    node: int  # number of the node on the machine
    time: float  # when it was sent, in seconds from the scenario's start
    remaining_iterations: int  # iterations in chunks that other PEs have not finished
    remaining_work: float  # the remaining work of those chunks, in PE-seconds at the reference speed


@dataclass(frozen=True, slots=True)
class JobCompleted:
    """Application to batch system: the loop is done and every PE is notified."""

    job: int
    time: float


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """Batch system to application: release some nodes."""

    job: int  # identifier of the job that is asked
    time: float  # when it was sent, in seconds from the scenario's start
    nodes: int  # number of nodes wanted; the application chooses which
    for_job: int  # identifier of the waiting job that lacks them
    deadline: float  # when that job could start without them, by estimates; infinity if that is not known


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


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Nodes that a job holds."""

    node: NDArray[np.int64]  # node numbers, in allocation order
    cores: NDArray[np.int64]  # cores held on each


@dataclass(frozen=True, slots=True)
class Forecast:
    """The future events of an application that the batch level must handle."""

    end: float  # when the job will end, in seconds from the scenario's start
    idle: tuple[NodeIdle, ...] = ()
    """Messages that the application will send about its nodes, in order of time."""


@dataclass(frozen=True, slots=True)
class Kill:
    """The batch system ends the job, for instance at its walltime."""


@dataclass(frozen=True, slots=True)
class NodeFailed:
    """A node of the job has failed, and the job with it."""

    node: int


Disturbance = Kill | NodeFailed | NodeReturned


@dataclass(frozen=True, slots=True)
class Sent:
    """A message on its way."""

    number: int  # order of arrival of the job whose application sends or receives it
    message: Message  # the message itself
    received: float  # when it arrives, in seconds from the scenario's start


class MessageLog:
    """Records every message between applications and the batch system; each takes ``latency`` seconds."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.messages: list[Sent] = []

    def send(self, number: int, message: Message) -> float:
        """Record a message of the job with this number; return the time at which it arrives."""
        received = message.time + self.latency
        self.messages.append(Sent(number, message, received))
        return received

    def last(self, count: int = 5) -> list[dict[str, Any]]:
        """Return the last messages, the latest last: what, of which job and nodes, and when (s)."""
        return [_plain(sent) for sent in self.messages[-count:]]


def _plain(sent: Sent) -> dict[str, Any]:
    message = sent.message
    words = re.sub("(?<!^)(?=[A-Z])", " ", type(message).__name__).lower()
    nodes = getattr(message, "nodes", getattr(message, "node", None))
    row = {"message": words, "job": message.job, "sent": message.time, "received": sent.received}
    if isinstance(message, ReleaseRequest):
        return row | {"nodes_wanted": message.nodes, "for_job": message.for_job}
    return row if nodes is None else row | {"nodes": list(nodes) if isinstance(nodes, tuple) else [nodes]}
