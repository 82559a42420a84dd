"""What a master knows of its loop while it runs: which chunks have ended, and which PE executes which."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from mlsim._arrays import Floats
from mlsim.application.selection.facts import ExecutedChunks, Progress
from mlsim.mpi.loop.chunk_rules import Chunk, Done

__all__ = ["Watch"]

_now = time.perf_counter


class Watch:
    """Watches a loop from its master.

    Parameters
    ----------
    every
        Iterations executed between two choices of a technique.
    """

    def __init__(self, every: int) -> None:
        self._every = self._due = every
        self._begin = _now()
        self._executed: list[tuple[int, int, int, float]] = []
        self._waits: list[float] = []
        self._running: dict[int, tuple[int, int, float]] = {}  # first, size, when it was assigned
        self._count = 0

    def ended(self, pe: int, done: Done | Floats) -> bool:
        """Note a request, which tells of the PE's last chunk; return whether a choice is due."""
        last = self._running.pop(pe, None)
        if last is None:
            return False
        first, size, _ = last
        self._executed.append((pe, first, size, float(done[1])))
        self._waits.append(float(done[2]))
        self._count += size
        return self._count >= self._due

    def assigned(self, pe: int, chunk: Chunk | None) -> None:
        """Note what a PE was assigned."""
        if chunk is not None:
            self._running[pe] = chunk[0], chunk[1], _now()

    def progress(self, position: int) -> Progress:
        """Return what is known; the next choice is due when as many iterations more are executed.

        Parameters
        ----------
        position
            Iterations assigned.
        """
        self._due = self._count + self._every
        now = _now()
        return Progress(now - self._begin, position, _chunks(self._executed), self._running_chunks(now))

    def _running_chunks(self, now: float) -> ExecutedChunks:
        rows = sorted(self._running.items())
        return _chunks([(pe, first, size, now - begin) for pe, (first, size, begin) in rows])

    @property
    def wait(self) -> float:
        """Return what a request took: the median time from asking for a chunk to its start, in s."""
        return float(np.median(self._waits)) if self._waits else 0.0


def _chunks(rows: Sequence[tuple[int, int, int, float]]) -> ExecutedChunks:
    """Return PE, first iteration, size and seconds of chunks as columns."""
    numbers = np.array([row[:3] for row in rows], np.int64).reshape(len(rows), 3)
    pe, first, size = numbers.T
    return ExecutedChunks(pe, first, size, np.array([row[3] for row in rows], np.float64))
