"""The messages of a run, as they were sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mlsim.coordination.messages import Message, ReleaseRequest

__all__ = ["MessageLog", "Sent"]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message on its way."""

    number: int
    """Order of arrival of the job whose application sends or receives it."""
    message: Message
    """The message itself."""
    received: float
    """When it arrives, in seconds from the scenario's start."""


class MessageLog:
    """Records every message between applications and the batch system.

    Parameters
    ----------
    latency
        Seconds that every message takes.
    """

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
    told = {"message": words, "job": message.job, "sent": message.time, "received": sent.received}
    if isinstance(message, ReleaseRequest):
        return told | {"nodes_wanted": message.nodes, "for_job": message.for_job}
    return told if nodes is None else told | {"nodes": list(nodes) if isinstance(nodes, tuple) else [nodes]}
