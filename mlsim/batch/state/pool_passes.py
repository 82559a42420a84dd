"""Passes on a pool of units: all that happens at a time in one compiled call."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mlsim.batch.dispatch.on_pool import process_timestamp
from mlsim.batch.dispatch.passes import reserving
from mlsim.batch.state.batch_columns import BatchColumns
from mlsim.batch.state.pool_room import PoolRoom
from mlsim.record import Solves
from mlsim.workload import JobBlock

__all__ = ["PoolPasses"]

Ints = NDArray[np.int64]


class PoolPasses:
    """Makes passes on a pool of units.

    Parameters
    ----------
    jobs, room
        The state.

    Attributes
    ----------
    rejected
        Slots, with reasons, of jobs that a dispatcher turned away: always empty.
    """

    def __init__(self, jobs: BatchColumns, room: PoolRoom) -> None:
        self._jobs, self._room = jobs, room
        self._reserving = reserving(jobs.rules)
        self.rejected: list[tuple[int, str]] = []

    def advance(
        self, now: float, ended: list[int], arrivals: Ints, first: int, last: int, released: Ints
    ) -> int:
        """End jobs, let others arrive, then make a pass; return how many start."""
        n_ended = len(ended)
        for k in range(n_ended):
            self._jobs.ended[k] = ended[k]
        columns, pool = self._jobs.address, self._room.address
        return process_timestamp(
            now, n_ended, first, last, arrivals, released, columns, pool, self._reserving
        )

    def admit(self, block: JobBlock) -> None:
        """Keep what plugins may see of jobs that have come: nothing, as there are none."""

    def next_wake(self, _now: float) -> float:
        """Return when a dispatcher wants to be asked: never, in s."""
        return math.inf

    def solves(self) -> Solves:
        """Return how the passes of a dispatcher that plans went: here there is none."""
        return Solves.none()
