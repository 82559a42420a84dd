"""A study as read: its axes, its tasks and its pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError
from mlsim.experiment.study.axes import Axis, Point, matches
from mlsim.experiment.study.study_file import entries, one_of
from mlsim.experiment.study.subjects import Base, Subject
from mlsim.scenario import Scenario

if TYPE_CHECKING:
    from mlsim.experiment.study.search_methods import Search


@dataclass(frozen=True)
class OwnPicture:
    """A picture of a single run, drawn when it has been simulated."""

    kind: str
    """``gantt``: nodes over time; ``timeline``: PEs over time."""
    title: str
    span: tuple[float, float] | None = None
    """Part of the time shown (s), for ``gantt``; None: all."""


@dataclass(frozen=True)
class Task:
    """A run to be executed; can be sent to another process."""

    key: str
    labels: Mapping[str, str]
    """Labels of the combination, for messages."""
    subject: Subject
    base: Base
    overrides: Mapping[str, object]
    keep: str
    output: str
    """Digest of its scenario's output section."""
    curve: bool = False
    balance: bool = False
    pictures: Mapping[str, OwnPicture] = field(default_factory=dict)
    """Pictures of it alone, by the names of their files."""
    store: Path | None = None
    """Directory of the store; None: the content is returned."""
    timeout: float | None = None
    """Seconds of wall-clock time after which it has failed."""

    @property
    def shows(self) -> dict[str, str]:
        """The pictures, curves and balances that an entry must have: names, each with its content."""
        shows = {name: repr(picture) for name, picture in self.pictures.items()}
        flags = {"curve": self.curve, "balance": self.balance}
        return shows | {name: "" for name, wanted in flags.items() if wanted}


@dataclass(frozen=True)
class Done:
    """The end of a task."""

    key: str
    failed: str = ""
    """Why it failed; empty: it did not."""
    seconds: float = 0.0
    """Wall-clock time that it took."""
    content: dict[str, Any] | None = None
    """The content of the entry, if there is no store."""
    stops: str = ""
    """Why the study cannot continue, such as a full disk; empty: it can."""


PICTURE_KEYS = {
    "utilization": ("lines", "panels", "where"),
    "balance": ("lines", "panels", "where"),
    "metric": ("along", "lines", "panels", "where", "relative", "metric"),
    "gantt": ("where", "span"),
}
FORMATS = ("png", "svg", "pdf")
"""File formats of pictures."""


@dataclass(frozen=True)
class PictureSpec:
    """One entry of a study's pictures.

    Attributes
    ----------
    kind
        ``utilization``: busy share of the machine over time. ``balance``: max/mean of finishing times of
        each job's loop. ``metric``: a metric along an axis. ``gantt``: nodes over time.
    lines, panels, along
        Axes: one curve per label, one panel per label, and the x axis.
    where
        Labels of the runs that the picture shows.
    relative
        Whether it shows the first metric relative to the study's combination.
    metric
        Title of the metric; empty: the first.
    span
        Time range (s) of ``gantt``; None: all.
    """

    kind: str
    lines: str = ""
    panels: str = ""
    along: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    relative: bool = False
    metric: str = ""
    span: tuple[float, float] | None = None

    def shows(self, labels: Mapping[str, str]) -> bool:
        """Whether a run is in the picture."""
        return matches(labels, self.where)


class Balance(NamedTuple):
    """Each loop of a run: its job, the name of its executable, and max/mean of finishing times."""

    job_id: NDArray[np.int64]
    executable: list[str]
    max_over_mean: Floats


def picture_of(value: object, axes: Sequence[Axis], place: str) -> PictureSpec:
    """Read one entry of a study's pictures."""
    if not isinstance(value, dict) or "kind" not in value:
        raise InputError(f"{place}: {value!r}; allowed: mappings with kind, one of {', '.join(PICTURE_KEYS)}")
    kind = one_of(value["kind"], list(PICTURE_KEYS), f"{place}: kind")
    for key in value:
        one_of(key, ["kind", *PICTURE_KEYS[kind]], f"{place}: {kind}")
    names = [axis.name for axis in axes]
    chosen = {
        key: one_of(value[key], names, f"{place}: {key}")
        for key in ("lines", "panels", "along")
        if key in value
    }
    for key in ("lines", "along"):
        if key in PICTURE_KEYS[kind] and key not in chosen:
            raise InputError(f"{place}: {kind}: {key}: missing; allowed: {', '.join(names)}")
    (where,) = entries([value.get("where", {})], axes, f"{place}: where")
    return PictureSpec(
        kind,
        **chosen,
        where=where,
        relative=bool(value.get("relative", False)),
        metric=str(value.get("metric", "")),
        span=_span(value["span"], place) if "span" in value else None,
    )


def _span(value: object, place: str) -> tuple[float, float]:
    if isinstance(value, list) and len(value) == 2 and all(isinstance(end, int | float) for end in value):
        begin, end = map(float, value)
        if begin < end:
            return begin, end
    raise InputError(f"{place}: span: {value!r}; allowed: [BEGIN, END] in s, e.g. [415, 550]")


@dataclass(frozen=True)
class Cases(Sequence[tuple[Point, Scenario]]):
    """Every combination with its scenario, which is built on each access: many would not fit into memory."""

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
    """A study as its file declares it, with all combinations."""

    name: str
    description: str
    source: Path
    text: str
    subject: Subject
    """Loops, whole runs, or weeks."""
    axes: Sequence[Axis]
    cases: Cases
    """Every combination with its scenario; all of them have been checked."""
    columns: str
    """Name of the axis of the columns."""
    repetitions: str | None
    """Name of the axis that tables take the mean over, or None."""
    metrics: Mapping[str, str]
    """Title to key of the summary."""
    relative: Mapping[str, str]
    """Labels of the combination that the first metric is divided by; empty: none."""
    reference: Mapping[tuple[str, ...], Mapping[str, float]]
    """Published values: labels of all axes but repetitions, to values by title."""
    pictures: Sequence[PictureSpec]
    timelines: Sequence[Mapping[str, Any]]
    """Combinations whose PEs are drawn over time."""
    keep: str
    timeout: float | None
    """Seconds of wall-clock time that one run may take, or None."""
    formats: Sequence[str] = ("png",)
    interval: str = "bootstrap"
    trim: int = 0
    """Number of smallest and of largest values of repetitions left out, per combination."""
    search: Search | None = None
    """The search; then ``cases`` are a few of the possible candidates, and ``axes`` repetitions."""

    def drawn(self, point: Point) -> bool:
        """Whether the PEs of a combination are drawn over time."""
        return any(matches(point.labels, entry) for entry in self.timelines)

    @property
    def points(self) -> Sequence[Point]:
        """Every combination."""
        return self.cases.points


MEANS = " (means with their 95 % intervals)"
"""Suffix of titles of pictures of repetitions."""


def own_pictures(study: Study, point: Point) -> dict[str, OwnPicture]:
    """Return the pictures of a single combination, by file name."""
    found = {
        gantt_file(picture, point.labels): OwnPicture(
            "gantt", picture_title(study.name, point.labels), picture.span
        )
        for picture in study.pictures
        if picture.kind == "gantt" and picture.shows(point.labels)
    }
    if study.drawn(point):
        title = f"{study.name}: {', '.join(point.labels.values())}"
        found[timeline_file(point)] = OwnPicture("timeline", title)
    return {
        f"{name.removesuffix('.png')}.{suffix}": picture
        for name, picture in found.items()
        for suffix in study.formats
    }


def gantt_file(picture: PictureSpec, labels: Mapping[str, str]) -> str:
    """Return the file name of the Gantt chart of a run."""
    part = [] if picture.span is None else [f"{second:g}" for second in picture.span]
    return f"{file_name('gantt', *labels.values(), *part)}.png"


def timeline_file(point: Point) -> str:
    """Return the file name of the PE timeline of a combination."""
    words = re.sub(r"[^\w+.-]+", "-", ", ".join(point.labels.values()))
    return f"pes-{words.strip('-.')}.png"


def picture_title(study: str, labels: Mapping[str, str]) -> str:
    """Return the title of a picture of runs with some labels in common."""
    words = ", ".join(f"{name} {label}" for name, label in labels.items())
    return f"{study}: {words}" if words else study


def file_name(*words: str) -> str:
    """Return words as a file name without suffix."""
    return re.sub(r"[^\w+.-]+", "-", " ".join(words)).strip("-.")
