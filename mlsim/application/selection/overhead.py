"""What a request for a chunk was seen to take, as a cost of simulated loops."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.scenario import ExecutionModel

__all__ = ["charge_of", "has_masters", "typical_wait"]


def has_masters(model: str) -> bool:
    """Whether PEs ask a master for chunks, under one of our models."""
    return any(model == known and known.properties.masters for known in ExecutionModel)


def charge_of(model: str, seconds: float) -> tuple[str, float]:
    """Return the key of ``application.execution`` that is charged, and with what [s].

    Parameters
    ----------
    model
        Execution model of the loop.
    seconds
        From a request to the start of its chunk [s]: the master's work for it, or the two atomics of a chunk.
    """
    if has_masters(model):
        return "chunk_assignment", seconds
    return "atomic_service", seconds / 2.0


def typical_wait(pe: Ints, requested: Floats, start: Floats, end: Floats) -> float:
    """Return the median of what PEs waited for their chunks [s]: from asking, or the end of the chunk before.

    Parameters
    ----------
    pe, requested, start, end
        Columns of chunks, one or more: who executed each, and when it was asked for, began and ended [s].
    """
    order = np.lexsort((start, pe))
    pe, free = pe[order], requested[order]
    same = pe[1:] == pe[:-1]
    free[1:][same] = np.maximum(free[1:], end[order][:-1])[same]
    return float(np.median(start[order] - free))
