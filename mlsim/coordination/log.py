"""The messages of a run, as they were sent."""

from __future__ import annotations

from dataclasses import dataclass

from mlsim.coordination.messages import Message

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
