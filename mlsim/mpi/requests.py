"""The requests to a master: when each was with MPI, and what the master did until it answered.

A request counts from the moment at which the worker has handed it over to MPI (its ``Send`` has returned):
only from then on can the master find it.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Requests", "Talk", "iterations_begun"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_now = time.perf_counter


class Talk:
    """One rank's part, by its own clock: requests that it sent; or, of a master, answers and pieces."""

    def __init__(self) -> None:
        self._sent, self._answered, self._begun = array("d"), array("d"), array("d")
        self._whom, self._sizes = array("q"), array("q")

    def sent(self) -> None:
        """Note that a request has been sent."""
        self._sent.append(_now())

    def answered(self, rank: int) -> None:
        """Note that a reply has been sent."""
        self._whom.append(rank)
        self._answered.append(_now())

    def begins(self, moment: float, size: int) -> None:
        """Note that the master begins a piece of its own chunk."""
        self._begun.append(moment)
        self._sizes.append(size)

    def moments(self) -> tuple[Floats, Floats, Floats]:
        """Give when requests were sent, answers were, and pieces begun."""
        return np.array(self._sent), np.array(self._answered), np.array(self._begun)

    def numbers(self) -> tuple[Ints, Ints]:
        """Give whom answers went to, and the iterations of pieces."""
        return np.array(self._whom, np.int64), np.array(self._sizes, np.int64)


@dataclass(frozen=True)
class Requests:
    """One row a request to the master of a loop under CCA, in order of the answers.

    Attributes
    ----------
    pe
        Who asked; PEs are numbered by node.
    sent, answered
        When the request had been sent, and the reply; s from the loop's first request, on rank 0's clock.
    master_iterations
        Iterations that the master began to execute between the two: at most ``break_after``.
    """

    pe: Ints
    sent: Floats
    answered: Floats
    master_iterations: Ints


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
