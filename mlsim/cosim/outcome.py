"""What a run leaves: its records, and what was measured beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlsim.record import Records
from mlsim.scenario import Engine

__all__ = ["Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run leaves.

    Attributes
    ----------
    records
        Everything that happened.
    notes
        Counts of what was found odd in the log, over the whole log.
    simulated
        The same over the jobs that were simulated.
    largest
        The most processors a job could ask for.
    pass_seconds
        Wall-clock seconds of each pass.
    application_seconds
        Wall-clock seconds spent simulating applications.
    engine
        What simulated the batch level.
    passes, replay_seconds
        Under compiled replay, which does not time single passes: how many there were, and the wall-clock
        seconds of events and passes together.
    """

    records: Records
    notes: dict[str, int]
    simulated: dict[str, int]
    largest: int
    pass_seconds: np.ndarray[Any, np.dtype[np.float64]]
    application_seconds: float
    engine: Engine = Engine.SIMPY
    passes: int = 0
    replay_seconds: float = 0.0
