"""One run of a study, as executors get it, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlsim.experiment.study.subjects import Base, Subject

__all__ = ["Done", "OwnPicture", "Task"]


@dataclass(frozen=True)
class OwnPicture:
    """A picture of one run alone, which is drawn when it has been simulated."""

    kind: str
    """``gantt``: nodes over time; ``timeline``: PEs over time."""
    title: str
    span: tuple[float, float] | None = None
    """Part of the time shown (s), for ``gantt``; None: all."""


@dataclass(frozen=True)
class Task:
    """A run to be done. It can be sent to another process."""

    key: str
    """Digest of what its results depend on."""
    labels: Mapping[str, str]
    """Of the combination, for messages."""
    subject: Subject
    base: Base
    overrides: Mapping[str, object]
    keep: str
    """What the store keeps of it."""
    output: str
    """Digest of what its scenario says about output."""
    curve: bool = False
    """Whether the busy share of the machine over time is kept."""
    balance: bool = False
    """Whether the balance of every loop is kept."""
    pictures: Mapping[str, OwnPicture] = field(default_factory=dict)
    """Pictures of it alone, by the names of their files."""
    store: Path | None = None
    """Where it is kept; None: what is kept comes back."""
    timeout: float | None = None
    """Seconds of wall-clock time after which it has failed."""

    @property
    def shows(self) -> dict[str, str]:
        """What an entry must have for pictures: names, each with what it shows."""
        shows = {name: repr(picture) for name, picture in self.pictures.items()}
        flags = {"curve": self.curve, "balance": self.balance}
        return shows | {name: "" for name, wanted in flags.items() if wanted}


@dataclass(frozen=True)
class Done:
    """A task that has come to its end."""

    key: str
    failed: str = ""
    """Why it failed; empty: it did not."""
    seconds: float = 0.0
    """Wall-clock time that it took."""
    content: dict[str, Any] | None = None
    """What is kept, where there is no store."""
    stops: str = ""
    """Why the study cannot go on, such as a full disk; empty: it can."""
