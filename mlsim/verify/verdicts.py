"""Verdicts on a run: which law was judged on how much, and each breach of it in words."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["MOST_NAMED", "Breach", "Verdict", "not_judged"]

MOST_NAMED = 5
"""Breaches of a law that are described; all are counted."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One place in which a run breaks a law."""

    job_id: int
    """The job; -1 where none is concerned."""
    time: float
    """When, in seconds from the scenario's start."""
    text: str
    """What is wrong, with its numbers."""

    def __str__(self) -> str:
        job = f"job {self.job_id} " if self.job_id >= 0 else ""
        return f"{job}at {self.time:.17g} s: {self.text}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one law."""

    law: str
    """Its name."""
    judged: str = ""
    """The number of facts that were judged, in words; empty where the law was not judged."""
    reason: str = ""
    """Why the law was not judged; empty where it was."""
    count: int = 0
    """How many breaches there are."""
    breaches: tuple[Breach, ...] = field(default=())
    """The first of them, in order of time."""

    @property
    def is_kept(self) -> bool:
        """Whether the run does not break it."""
        return self.count == 0

    @classmethod
    def of(cls, law: str, judged: str, found: list[Breach], count: int | None = None) -> Verdict:
        """Return the verdict of a law that was judged; ``count`` where there are more than ``found``."""
        found = sorted(found, key=lambda breach: breach.time)
        return cls(law, judged, "", len(found) if count is None else count, tuple(found[:MOST_NAMED]))


def not_judged(law: str, reason: str) -> Verdict:
    """Return the verdict of a law that says nothing of a run, or cannot be judged."""
    return Verdict(law, reason=reason)
