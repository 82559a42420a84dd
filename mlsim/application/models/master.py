"""What the masters of CCA and of hierarchical master-worker have in common."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.application.perturbation import elapsed_time

__all__ = ["FIFO", "LOWEST_RANK", "Service", "execute_until"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIFO = 0
LOWEST_RANK = 1


class Service(NamedTuple):
    """How a master serves.

    Attributes
    ----------
    break_after
        Iterations of its own that a master executes between two looks for requests.
    order
        Which of the requests that wait it serves first: ``FIFO`` or ``LOWEST_RANK``.
    dedicated
        Whether a master executes no iterations itself.
    """

    break_after: int
    order: int
    dedicated: bool


@kernel
def execute_until(
    prefix: Floats,
    speed: float,
    now: float,
    position: int,
    end: int,
    break_after: int,
    request: float,
    pe: int,
    slow_of_pe: Ints,
    slow_index: Ints,
    slow_time: Floats,
    slow_factor: Floats,
) -> tuple[float, int]:
    """Execute a chunk from ``position`` up to the first break at which a request waits, or to its end.

    ``request`` is when the next request arrives. Gives the time and the iteration reached.
    """
    disturbed = len(slow_time) > 0
    reached = position
    while True:
        reached = min(reached + break_after, end)
        seconds = (prefix[reached] - prefix[position]) / speed
        if disturbed:
            seconds = elapsed_time(seconds, now, pe, slow_of_pe, slow_index, slow_time, slow_factor)
        if reached == end or now + seconds >= request:
            return now + seconds, reached
