"""The messages of the resourceful coordination approach (RCA; Eleliemy 2021, ch. 6)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["JobCompleted", "Message", "NodeIdle"]


@dataclass(frozen=True, slots=True)
class NodeIdle:
    """Application to batch system: all PEs of a node were told that there is no more work.

    Attributes
    ----------
    job
        Identifier of the job.
    node
        Number of the node on the machine.
    time
        When it was sent, in seconds from the scenario's start.
    remaining_iterations
        Iterations in chunks that other PEs have not finished.
    remaining_work
        What is left of those chunks, in PE-seconds at the reference speed.
    """

    job: int
    node: int
    time: float
    remaining_iterations: int
    remaining_work: float


@dataclass(frozen=True, slots=True)
class JobCompleted:
    """Application to batch system: the loop is done and every PE has been told so."""

    job: int
    time: float


Message = NodeIdle | JobCompleted
