"""The requests to a master: when each was with MPI, and what the master did until it answered.

A request counts from the moment at which the worker has handed it over to MPI (its ``Send`` has returned):
only from then on can the master find it. It may do so later: in shared memory messages stand in a line, and
one that is whole cannot be had before an earlier one whose sender lost its core while writing it. So it is
noted as well when the master had it.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Floats, Ints

__all__ = ["RequestLog", "Requests", "iterations_begun"]


_now = time.perf_counter


class RequestLog:
    """One rank's part, by its own clock: requests that it sent; or, of a master, answers and pieces.

    Parameters
    ----------
    request_bytes, reply_bytes
        Lengths of the messages.
    """

    def __init__(self, request_bytes: int, reply_bytes: int) -> None:
        self.request_bytes, self.reply_bytes = request_bytes, reply_bytes
        self._sent, self._received = array("d"), array("d")
        self._answered, self._begun = array("d"), array("d")
        self._who, self._whom, self._sizes = array("q"), array("q"), array("q")

    def sent(self) -> None:
        """Record that a request has been sent."""
        self._sent.append(_now())

    def received(self, rank: int) -> None:
        """Record that the master has received a request."""
        self._who.append(rank)
        self._received.append(_now())

    def answered(self, rank: int) -> None:
        """Record that a reply has been sent."""
        self._whom.append(rank)
        self._answered.append(_now())

    def begins(self, moment: float, size: int) -> None:
        """Record that the master begins a piece of its own chunk."""
        self._begun.append(moment)
        self._sizes.append(size)

    def moments(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the times at which requests were sent and received, replies sent, and pieces begun."""
        columns = (self._sent, self._received, self._answered, self._begun)
        sent, received, answered, begun = map(np.array, columns)
        return sent, received, answered, begun

    def numbers(self) -> tuple[Ints, Ints, Ints]:
        """Return the ranks of requests, the ranks of replies, and the iterations of pieces."""
        who, whom, sizes = (np.array(column, np.int64) for column in (self._who, self._whom, self._sizes))
        return who, whom, sizes


@dataclass(frozen=True)
class Requests:
    """One row a request to the master of a loop under CCA, in order of the answers.

    Attributes
    ----------
    pe
        Who asked; PEs are numbered by node.
    sent, received, answered
        When the request had been sent (at the latest when the master had it), when the master had it, and
        when the reply had been sent; s from the loop's first request, on rank 0's clock.
    master_iterations
        Iterations that the master began to execute between the first and the last of these: at most
        ``break_after``, unless MPI gave it the request late. From having it on it begins none.
    request_bytes, reply_bytes
        Lengths of the messages.
    """

    pe: Ints
    sent: Floats
    received: Floats
    answered: Floats
    master_iterations: Ints
    request_bytes: int
    reply_bytes: int


def iterations_begun(sent: Floats, answered: Floats, begun: Floats, sizes: Ints) -> Ints:
    """Sum up the pieces that the master began between each request and its answer.

    Parameters
    ----------
    sent, answered
        float64[n], in s.
    begun, sizes
        float64[m], int64[m]: when the master began pieces, rising, and their iterations.
    """
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    before = total[np.searchsorted(begun, sent, "right")]
    result: Ints = total[np.searchsorted(begun, answered, "left")] - before
    return np.maximum(result, 0)
