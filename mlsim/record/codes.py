"""Closed sets that columns hold codes of; files hold their words."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["JobState", "MessageKind", "OutageKind", "SolveStatus"]


class JobState(IntEnum):
    """How a job ended."""

    COMPLETED = 0
    KILLED = 1
    REJECTED = 2
    FAILED = 3
    WITHDRAWN = 4
    """Left the queue before it started, as its user had it do in the log."""


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


class SolveStatus(IntEnum):
    """What is known of the plan of a pass."""

    OPTIMAL = 0
    FEASIBLE = 1
    INFEASIBLE = 2
    UNKNOWN = 3
    EMPTY = 4
