"""A study as it was read: what varies, what every combination simulates, and what is shown of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from mlsim.experiment.study.axes import Axis
from mlsim.experiment.study.pictures import PictureSpec
from mlsim.experiment.study.points import Point, matches
from mlsim.experiment.study.subjects import Base, Subject
from mlsim.scenario import Scenario

if TYPE_CHECKING:
    from mlsim.experiment.study.search.model import Search

__all__ = ["Cases", "Keep", "Study"]

Keep = str
"""What the store keeps of a run: one of those in :mod:`mlsim.experiment.study.keeping`."""


@dataclass(frozen=True)
class Cases(Sequence[tuple[Point, Scenario]]):
    """Every combination with its scenario, which is made anew each time: many would not fit into memory."""

    points: Sequence[Point]
    base: Base
    subject: Subject

    def __len__(self) -> int:
        return len(self.points)

    @overload
    def __getitem__(self, place: int) -> tuple[Point, Scenario]: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[tuple[Point, Scenario]]: ...
    def __getitem__(self, place: int | slice) -> tuple[Point, Scenario] | Sequence[tuple[Point, Scenario]]:
        if isinstance(place, slice):
            return Cases(self.points[place], self.base, self.subject)
        point = self.points[place]
        return point, self.subject.scenario(self.base, point.overrides)

    def __iter__(self) -> Iterator[tuple[Point, Scenario]]:
        return (self[place] for place in range(len(self)))


@dataclass(frozen=True)
class Study:
    """What is compared with what."""

    name: str
    """From the file."""
    description: str
    """From the file."""
    source: Path
    """The file."""
    text: str
    """Text of the file."""
    subject: Subject
    """What it is of: loops, or whole runs."""
    axes: Sequence[Axis]
    """What varies."""
    cases: Cases
    """Every combination, with what it simulates; all of them have been checked."""
    columns: str
    """Name of the axis that stands side by side."""
    repetitions: str | None
    """Name of the axis that tables take the mean over, or None."""
    metrics: Mapping[str, str]
    """Title to key of the summary."""
    relative: Mapping[str, str]
    """Labels of the combination that the first metric is divided by; empty: none."""
    reference: Mapping[tuple[str, ...], Mapping[str, float]]
    """What others found: labels of all axes but repetitions, to values by title."""
    pictures: Sequence[PictureSpec]
    """What is drawn."""
    timelines: Sequence[Mapping[str, Any]]
    """Combinations whose PEs are drawn over time."""
    keep: Keep
    """What the store keeps of every run."""
    timeout: float | None
    """Seconds of wall-clock time that one run may take, or None."""
    formats: Sequence[str] = ("png",)
    """What pictures are written as."""
    interval: str = "bootstrap"
    """How intervals of means are found."""
    trim: int = 0
    """How many of the least and of the largest values of repetitions are left out, of each combination."""
    search: Search | None = None
    """What is searched for; then ``cases`` are a few of those that may be tried, and ``axes`` repetitions."""

    def drawn(self, point: Point) -> bool:
        """Return whether the PEs of a combination are drawn over time."""
        return any(matches(point.labels, entry) for entry in self.timelines)

    @property
    def points(self) -> Sequence[Point]:
        """Every combination."""
        return self.cases.points
