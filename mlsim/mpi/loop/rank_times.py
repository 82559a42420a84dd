"""Times and counts of one rank while it executes a loop, by its own clock."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats

__all__ = ["COLUMNS", "RankTimes"]


COLUMNS = ("chunks", "executed", "busy", "overhead", "begin", "finish", "told")


class RankTimes:
    """Times of one rank; in s.

    Parameters
    ----------
    begin
        When the loop began for this rank.
    record
        Whether to keep a row for every chunk.

    Attributes
    ----------
    chunks, executed
        Chunks begun, iterations executed.
    busy, overhead
        Executing chunks; from requests to starts of chunks, or to the notice that none is left, and serving
        others.
    keeps_rows
        Whether a row is kept for every chunk.
    begin, finish, told
        Readings of the clock: first request, end of the last chunk, notice that no chunk is left.
    """

    def __init__(self, begin: float, record: bool) -> None:
        self.chunks = self.executed = 0
        self.busy = self.overhead = 0.0
        self.begin = self.finish = self.told = begin
        self.keeps_rows = record
        self._numbers, self._times = array("q"), array("d")

    def add(
        self, chunk: tuple[int, int, int], requested: float, start: float, end: float, busy: float
    ) -> None:
        """Record an executed chunk, of which ``busy`` seconds were not spent at breaks."""
        self.add_up(1, chunk[1], busy, end)
        if self.keeps_rows:
            self.keep(chunk, requested, start, end)

    def add_up(self, chunks: int, executed: int, busy: float, finish: float) -> None:
        """Record a number of executed chunks, the last of which ended at ``finish``."""
        self.chunks += chunks
        self.executed += executed
        self.busy += busy
        self.finish = max(self.finish, finish)

    def close(self, rest: float) -> None:
        """Sum up the overhead: what was not work until the last chunk ended, and ``rest`` after it."""
        self.overhead = self.finish - self.begin - self.busy + rest

    def keep(self, chunk: tuple[int, int, int], requested: float, start: float, end: float) -> None:
        """Keep the row of a chunk."""
        self._numbers.extend(chunk)
        self._times.extend((requested, start, end))

    def totals(self) -> Floats:
        """Return the rank's totals, one for each of ``COLUMNS``."""
        return np.array([getattr(self, name) for name in COLUMNS], np.float64)

    def rows(self) -> tuple[NDArray[np.int64], Floats]:
        """Return first, size, step and requested, start, end of all chunks: int64[n, 3] and float64[n, 3]."""
        numbers = np.frombuffer(self._numbers or b"", np.int64).reshape(-1, 3)
        return numbers, np.frombuffer(self._times or b"", np.float64).reshape(-1, 3)
