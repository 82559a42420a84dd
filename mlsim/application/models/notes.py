"""What goes into an event loop and what comes out of it, whatever the execution model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel

__all__ = ["Costs", "Loop", "Nodes", "PENotes", "Rows", "write_row"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Loop(NamedTuple):
    """Iterations and PEs; arrays are read-only.

    Attributes
    ----------
    prefix
        float64[N+1], prefix sums of the iteration costs in s at speed 1.
    speed
        float64[P], P >= 1: relative speeds.
    latency
        float64[P], in s: one-way time of a message to PE 0, 0 for PE 0.
    """

    prefix: Floats
    speed: Floats
    latency: Floats


class Nodes(NamedTuple):
    """On which node each PE is, for models of two levels; arrays are read-only.

    Attributes
    ----------
    first
        int64[V+1]: node v has the PEs ``first[v]`` to ``first[v + 1] - 1``, one or more.
    near
        float64[P], in s: one-way time of a message to the first PE of its node, 0 for that PE.
    """

    first: Ints
    near: Floats


class Costs(NamedTuple):
    """Costs of an execution model, in seconds.

    ``calculation`` holds at speed 1; ``delay`` is added to each calculation whatever the speed;
    ``assignment`` and ``atomic`` are times at the shared queue.
    """

    calculation: float
    assignment: float
    atomic: float
    delay: float


class PENotes(NamedTuple):
    """What an event loop notes about the PEs; zeros before it runs.

    Attributes
    ----------
    finish, told, busy, overhead, idle
        float64[P], in s: end of its last chunk, when it learned that there is no more work, time
        executing, time between asking and starting (or being told) or serving others, time in which the
        model let it wait for others.
    last_start
        float64[P], in s: start of its last chunk.
    chunks
        int64[P]: chunks begun.
    last_first, last_size
        int64[P]: first iteration and size of its last chunk; 0 if it had none.
    """

    finish: Floats
    told: Floats
    busy: Floats
    overhead: Floats
    idle: Floats
    last_start: Floats
    chunks: Ints
    last_first: Ints
    last_size: Ints


class Rows(NamedTuple):
    """Chunk rows an event loop fills: as many as there are chunks, or 0 where none are kept.

    Attributes
    ----------
    pe
        int32[n]
    numbers
        int64[3, n]: step, first, size.
    times
        float64[3, n]: requested, start, end.
    since
        Chunks that end at this time or before have no row, in s.
    """

    pe: NDArray[np.int32]
    numbers: Ints
    times: Floats
    since: float


@kernel
def write_row(
    pes: NDArray[np.int32],
    numbers: Ints,
    times: Floats,
    row: int,
    pe: int,
    step: int,
    first: int,
    size: int,
    requested: float,
    start: float,
    end: float,
) -> None:
    """Write one chunk row, if rows are kept."""
    if len(pes) > 0:
        pes[row] = pe
        numbers[0, row] = step
        numbers[1, row] = first
        numbers[2, row] = size
        times[0, row] = requested
        times[1, row] = start
        times[2, row] = end
