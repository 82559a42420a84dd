"""What a request for a chunk was seen to take, as a cost of simulated loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.scenario import ExecutionModel

__all__ = ["Waits", "charges_of_waits", "has_masters", "waits_of"]


def has_masters(model: str) -> bool:
    """Whether PEs ask a master for chunks, under one of our models."""
    return any(model == known and known.properties.masters for known in ExecutionModel)


class Waits(NamedTuple):
    """What requests of a loop took."""

    typical: float
    """Median [s]."""
    beyond: float
    """By how much the mean is longer [s], 0 or more: a rank that asks may have to wait for a core."""


def charges_of_waits(model: str, waits: Waits) -> dict[str, float]:
    """Return the keys of ``application.execution`` that are charged, and with what [s].

    Where there is a master, that is the master's work for a request; what is beyond it comes of itself, as
    requests queue. Else it is the two atomics of a chunk, one after the other for all PEs, and what is
    beyond is a delay of the one PE alone.

    Parameters
    ----------
    model
        Execution model of the loop.
    waits
        From requests to the start of their chunks.
    """
    if has_masters(model):
        return {"chunk_assignment": waits.typical}
    return {"atomic_service": waits.typical / 2.0, "chunk_calculation": waits.beyond}


def waits_of(pe: Ints, requested: Floats, start: Floats, end: Floats) -> Waits:
    """Return what PEs waited for their chunks: from asking, or the end of the chunk before.

    Parameters
    ----------
    pe, requested, start, end
        Columns of chunks, one or more: who executed each, and when it was asked for, began and ended [s].
    """
    order = np.lexsort((start, pe))
    pe, free = pe[order], requested[order]
    same = pe[1:] == pe[:-1]
    free[1:][same] = np.maximum(free[1:], end[order][:-1])[same]
    waited = start[order] - free
    typical = float(np.median(waited))
    return Waits(typical, max(float(waited.mean()) - typical, 0.0))
