"""The progress that a run reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlsim.batch.state.batch_state import BatchState


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come: simulated seconds; jobs that ended, wait, run; units that no job holds.

    ``nodes`` gives a letter a node when it is called, which must be before the run goes on.
    """

    time: float
    done: int
    waiting: int
    running: int
    free_units: int
    nodes: Callable[[], str]
    messages: Callable[[], list[dict[str, Any]]] = list
    """Gives the last coordination messages, if there are any, likewise."""

    @classmethod
    def of(cls, state: BatchState, now: float, done: int) -> Progress:
        """Return how far the batch system has come when so many jobs have ended."""
        return cls(now, done, state.n_waiting, state.n_running, state.n_free, state.node_letters)
