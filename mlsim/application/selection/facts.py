"""What a selector is told of a time step, and what is kept of its choices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats, Ints

__all__ = ["ExecutedChunks", "Selected", "StepFacts", "percent_imbalance"]


class ExecutedChunks(NamedTuple):
    """The chunks of a time step; iterations count from its first one."""

    pe: Ints
    """Who executed each."""
    first: Ints
    size: Ints
    seconds: Floats
    """How long its execution took, in s."""


class StepFacts(NamedTuple):
    """A time step that has ended."""

    technique: str
    t_loop: float
    """Its parallel loop time, in s."""
    imbalance: float
    """Percent imbalance of its PEs' finish times."""
    chunks: ExecutedChunks | None = None
    """None where the selector does not need them."""


class Selected(NamedTuple):
    """The technique of a time step."""

    technique: str
    begin: float
    """When the time step began, in s from the loop's start."""
    t_loop: float
    imbalance: float
    spent: float
    """Time that choosing took before it began, in s."""


def percent_imbalance(finish: Floats) -> float:
    """Return (1 - mean / max) · 100 of finish times, 0 where all are 0 (Eleliemy 2021, Eq. 2.16)."""
    last = float(finish.max(initial=0.0))
    return (1.0 - float(np.mean(finish)) / last) * 100.0 if last > 0.0 else 0.0
