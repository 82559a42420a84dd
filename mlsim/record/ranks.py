"""The ranks of a real run with MPI, and what they asked their master."""

from __future__ import annotations

from dataclasses import dataclass

from mlsim._arrays import Floats, Ints

__all__ = ["RankRequests", "Ranks"]


@dataclass(frozen=True)
class RankRequests:
    """Requests to the master, one row each, in order of the answers; times in s.

    Attributes
    ----------
    pe
        Who asked; the master is PE 0.
    sent, received, answered
        When the request had been sent, when the master had it, and when the reply had been sent.
    request_bytes, reply_bytes
        Lengths of the messages.
    """

    pe: Ints
    sent: Floats
    received: Floats
    answered: Floats
    request_bytes: int
    reply_bytes: int


@dataclass(frozen=True)
class Ranks:
    """The ranks of a real run, each with a row of the trace.

    Attributes
    ----------
    numbers
        The rank of each PE in the communicator of all.
    requests
        Requests for chunks; None where there is no master, or they were not recorded.
    """

    numbers: Ints
    requests: RankRequests | None = None
