"""The progress that a run reports."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Progress"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come: simulated seconds, jobs that ended, jobs that wait."""

    time: float
    done: int
    waiting: int
