"""What a selector is told of a time step, and what is kept of its choices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats, Ints

__all__ = ["ExecutedChunks", "Progress", "Rest", "Selected", "StepFacts", "percent_imbalance"]


class ExecutedChunks(NamedTuple):
    """The chunks of a time step; iterations count from its first one."""

    pe: Ints
    """Who executed each."""
    first: Ints
    size: Ints
    seconds: Floats
    """How long its execution took, in s."""


class Progress(NamedTuple):
    """A loop amid which a technique is to be chosen for the rest, as whoever assigns its chunks knows it.

    Times are in s from the begin of the time step.
    """

    now: float
    position: int
    """Iterations that have been assigned: the rest begins there."""
    executed: ExecutedChunks
    """Chunks that are known to have ended."""
    running: ExecutedChunks
    """The last chunk of each PE that is not known to have ended; ``seconds`` are those since its begin."""

    def with_pes(self, pe_of: Ints) -> Progress:
        """Return the same with other numbers of the PEs: each one's place in ``pe_of`` has its new one."""
        executed = self.executed._replace(pe=pe_of[self.executed.pe])
        return self._replace(executed=executed, running=self.running._replace(pe=pe_of[self.running.pe]))


class Rest(NamedTuple):
    """What is left of a loop, as a loop of its own; times in s from now."""

    free: Floats
    """float64[P]: when each PE comes free, 0 or more."""
    elapsed: float
    """How long the loop has run."""


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
    """The technique of a time step, or of the rest of one."""

    technique: str
    begin: float
    """When it began to be used, in s from the loop's start."""
    t_loop: float
    """Until the next choice amid the time step, or its end, in s."""
    imbalance: float
    """Percent imbalance of the whole time step."""
    spent: float
    """Time that choosing took before it began, in s."""
    iterations: int = 0
    """Iterations of the time step assigned before; 0: it was chosen for all of it."""


def percent_imbalance(finish: Floats) -> float:
    """Return (1 - mean / max) · 100 of finish times, 0 where all are 0 (Eleliemy 2021, Eq. 2.16)."""
    last = float(finish.max(initial=0.0))
    return (1.0 - float(np.mean(finish)) / last) * 100.0 if last > 0.0 else 0.0
