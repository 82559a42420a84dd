"""Messages and forecasts between the batch level and the application level (RCA; Eleliemy 2021, ch. 6)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

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


@dataclass(frozen=True, slots=True, eq=False)
class IdleNodes(Sequence[NodeIdle]):
    """Messages of a job about its idle nodes, in order of time, as columns; as objects on demand.

    Equal to every sequence of the same messages.
    """

    job: int  # identifier of the job
    node: NDArray[np.int64]
    time: NDArray[np.float64]  # when each was sent, in seconds from the scenario's start
    remaining_iterations: NDArray[np.int64]
    remaining_work: NDArray[np.float64]

    @staticmethod
    def of(messages: Sequence[NodeIdle]) -> "IdleNodes":
        """Return the messages of one job as columns."""
        if isinstance(messages, IdleNodes):
            return messages
        job = messages[0].job if messages else -1
        rows = [(one.node, one.time, one.remaining_iterations, one.remaining_work) for one in messages]
        node, time, iterations, work = zip(*rows, strict=True) if rows else ((), (), (), ())
        ints, reals = np.array([node, iterations], np.int64), np.array([time, work], np.float64)
        return IdleNodes(job, ints[0], reals[0], ints[1], reals[1])

    def __len__(self) -> int:
        return len(self.node)

    @overload
    def __getitem__(self, index: int) -> NodeIdle: ...
    @overload
    def __getitem__(self, index: slice) -> "IdleNodes": ...
    def __getitem__(self, index: int | slice) -> "NodeIdle | IdleNodes":
        node, time = self.node[index], self.time[index]
        iterations, work = self.remaining_iterations[index], self.remaining_work[index]
        if isinstance(index, slice):
            return IdleNodes(self.job, node, time, iterations, work)
        return NodeIdle(self.job, int(node), float(time), int(iterations), float(work))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __iter__(self) -> Iterator[NodeIdle]:
        columns = self.node, self.time, self.remaining_iterations, self.remaining_work
        for row in zip(*(column.tolist() for column in columns), strict=True):
            yield NodeIdle(self.job, *row)


NO_IDLE = IdleNodes.of(())


@dataclass(frozen=True, slots=True)
class Forecast:
    """The future events of an application that the batch level must handle."""

    end: float  # when the job will end, in seconds from the scenario's start
    idle: Sequence[NodeIdle] = NO_IDLE
    """Messages that the application will send about its nodes, in order of time; mlsim's own are columns."""
    pes_per_node: int | None = None  # the most PEs of a node; None: one per core


@dataclass(frozen=True, slots=True)
class Kill:
    """The batch system ends the job, for instance at its walltime."""


@dataclass(frozen=True, slots=True)
class NodeFailed:
    """A node of the job has failed, and the job with it."""

    node: int


Disturbance = Kill | NodeFailed | NodeReturned
