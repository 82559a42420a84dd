"""What one simulated loop gave: per PE, and per chunk if asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ChunkRows", "LoopOutcome"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """One row a chunk, in order of (start, PE); times in s from the loop's start.

    Attributes
    ----------
    pe
        PE that executed it.
    step
        Scheduling step that sized it; with STATIC the number of the chunk, which is the PE's.
    first, size
        It executed iterations ``first`` to ``first + size - 1``.
    requested, start, end
        When the PE asked for it, when it began and when it ended executing it.
    """

    pe: NDArray[np.int32]
    step: Ints
    first: Ints
    size: Ints
    requested: Floats
    start: Floats
    end: Floats


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """One loop, simulated from time 0 until every PE knows that there is no more work; times in s.

    Attributes
    ----------
    iterations
        N.
    steps
        Chunks executed.
    t_loop
        Parallel loop time: the latest ``finish``; 0 if N = 0.
    finish
        float64[P]: when the PE ended its last chunk; 0 if it had none.
    told
        float64[P]: when the PE learned that there is no more work.
    busy
        float64[P]: time the PE executed iterations. Under CCA the time in which the master, amid a
        chunk of its own, serves others is in neither ``busy`` nor ``overhead``.
    overhead
        float64[P]: time between asking for a chunk and starting it, summed, with the last request,
        from asking to being told.
    chunks
        int64[P]: chunks the PE began.
    last_first, last_size
        int64[P]: first iteration and size of the PE's last chunk; 0 if it had none.
    rows
        The chunks, if they were to be recorded.
    """

    iterations: int
    steps: int
    t_loop: float
    finish: Floats
    told: Floats
    busy: Floats
    overhead: Floats
    chunks: Ints
    last_first: Ints
    last_size: Ints
    rows: ChunkRows | None

    def remaining(self, prefix: Floats, pe_speed: Floats, times: Floats) -> tuple[Ints, Floats]:
        """Tell how much is left at times when all iterations have been handed out.

        That is so from the first ``told`` on, when every PE has its last chunk or none.

        Parameters
        ----------
        prefix, pe_speed
            What the loop was simulated with.
        times
            Rising, in s from the loop's start, none before the first ``told``.

        Returns
        -------
        iterations
            int64[len(times)]: iterations not yet finished.
        work
            float64[len(times)]: their cost not yet executed, in s at speed 1.
        """
        had = np.flatnonzero(self.last_size)
        first, size = self.last_first[had], self.last_size[had]
        # As if executed without a break up to the finish: so it is, but for the master of CCA.
        begun = self.finish[had] - (prefix[first + size] - prefix[first]) / pe_speed[had]
        chunk = np.repeat(np.arange(len(had)), size)
        k = np.arange(len(chunk)) - np.repeat(np.cumsum(size) - size, size) + first[chunk]
        ends = begun[chunk] + (prefix[k + 1] - prefix[first[chunk]]) / pe_speed[had][chunk]
        ends = np.minimum(ends, self.finish[had][chunk])
        finished = np.searchsorted(np.sort(ends), times, side="right")
        speed = pe_speed[had]
        work = _still_to_come(self.finish[had], speed, times) - _still_to_come(begun, speed, times)
        return len(ends) - finished, np.maximum(work, 0.0)


def _still_to_come(moments: Floats, weight: Floats, times: Floats) -> Floats:
    """Sum weight · (moment − time) over the moments that lie after each time."""
    order = np.argsort(moments, kind="stable")
    later = np.searchsorted(moments[order], times, side="right")
    weights = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)
    products = np.append(np.cumsum((weight * moments)[order][::-1])[::-1], 0.0)
    left: Floats = products[later] - times * weights[later]
    return left
