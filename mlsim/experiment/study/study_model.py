"""A study as read: its subject, its axes, its tasks and its pictures."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from mlsim._files import expanded
from mlsim.analysis import run_summary
from mlsim.cosim import simulation
from mlsim.errors import InputError
from mlsim.experiment import loops, run_directory, runner, stored_runs, weekly_runs
from mlsim.experiment.result_directories import Place
from mlsim.experiment.study.axes import Axis, Point, matches, one_of
from mlsim.experiment.study.search_methods import Search
from mlsim.experiment.study.study_file import PICTURE_KEYS, entries
from mlsim.record import Records
from mlsim.scenario import Scenario, loads, scenario_loading, words


@dataclass(frozen=True)
class Base:
    """The scenario file that a study varies, as read: later changes of it do not matter."""

    text: str
    source: str
    directory: Path

    @classmethod
    def of(cls, file: Path, text: str) -> Self:
        """Return the base of a file with this text."""
        return cls(text, str(file), expanded(file).parent)


@dataclass(frozen=True)
class Simulated:
    """One simulated run or loop of a study."""

    scenario: Scenario
    summary: dict[str, Any]
    records: Records
    write_files: Callable[[Place, Scenario], None] | None = None  # as the command of its kind does

    def write(self, place: Place, whole: bool) -> None:
        """Write its directory: all files of its command, or only tables and metrics."""
        assert self.write_files is not None, "a subject without directories has no key keep"
        shown = self.scenario
        if not whole:
            no_pictures = {"pictures": False, "trace": words.TraceLevel.NONE, "writers": None, "csv": False}
            shown = shown.model_copy(update={"output": shown.output.model_copy(update=no_pictures)})
        self.write_files(place, shown)


class Subject(ABC):
    """A kind of study: single loops, whole runs, weeks of a log. All else of a study is common."""

    kind: ClassVar[str]  # the word of the key `of`, and the name of the table of all metrics
    metrics: ClassVar[Mapping[str, str]] = {}  # title to key of the summary: the default of a study
    reads: ClassVar[tuple[str, ...]] = ()  # keys of a scenario that `check` examines

    def scenario(self, base: Base, overrides: Mapping[str, object]) -> Scenario:
        """Make the scenario of a combination; raise InputError if it cannot be simulated."""
        return loads(base.text, base.source, overrides, base.directory)

    def given(self, base: Base, overrides: Mapping[str, object]) -> dict[str, Any]:
        """Return the given keys of a combination's scenario, without defaults."""
        return scenario_loading.overridden(base.text, base.source, overrides)

    @abstractmethod
    def check(self, scenario: Scenario) -> None:
        """Read the files of a scenario, without simulating; raise InputError if one cannot be used."""

    @abstractmethod
    def empty(self) -> Mapping[str, Any]:
        """Return an empty summary, for its keys and types of values."""

    @abstractmethod
    def simulate(self, scenario: Scenario, chunks: bool, /) -> Simulated:
        """Simulate a scenario; ``chunks``: whether to keep the chunks of a single loop."""

    def __reduce__(self) -> str | tuple[Any, ...]:
        return _subject, (self.kind,)


def _subject(kind: str) -> Subject:
    return SUBJECTS[kind]


class _Runs(Subject):
    """Whole runs; loops made from a log are calibrated to its run times unless the study sets `calibrate`."""

    kind = "runs"
    metrics: ClassVar = {"makespan (s)": "makespan", "utilization": "utilization.busy"}
    reads = (
        *("platform", "workload", "application"),
        *("batch.dispatcher", "batch.policy", "batch.allocator", "batch.predictor"),  # may name users' code
    )

    def scenario(self, base: Base, overrides: Mapping[str, object]) -> Scenario:
        return super().scenario(base, {**overrides, **self._calibrated(base, overrides)})

    def given(self, base: Base, overrides: Mapping[str, object]) -> dict[str, Any]:
        return super().given(base, {**overrides, **self._calibrated(base, overrides)})

    def _calibrated(self, base: Base, overrides: Mapping[str, object]) -> dict[str, object]:
        """Return the keys that calibrate loops whose costs are made from run times of a log alone."""
        read = partial(stored_runs.value_at, super().given(base, overrides))
        if read("workload.path") is None or read("workload.generate") is not None:
            return {}
        keys: dict[str, object] = {}
        several = read("applications")
        names = [f"applications.{name}" for name in several] if isinstance(several, Mapping) else []
        for key in names or ["application"]:
            is_loop = str(read(f"{key}.model")).casefold() == words.ApplicationModel.LOOP
            of_job = str(read(f"{key}.costs.profile") or words.CostProfile.JOB).casefold() == "job"
            if is_loop and of_job and read(f"{key}.costs.calibrate") is None:
                keys[f"{key}.costs.calibrate"] = words.Calibration.RECORDED.value
        return keys

    def check(self, scenario: Scenario) -> None:
        simulation.survey(scenario)

    def empty(self) -> Mapping[str, Any]:
        return run_summary.summary_without_jobs()

    def simulate(self, scenario: Scenario, _chunks: bool, /) -> Simulated:
        result = runner.run(scenario)

        def write(place: Place, shown: Scenario) -> None:
            run_directory.write_files(place, place.partial, replace(result, scenario=shown))

        return Simulated(scenario, result.summary, result.records, write)


class _Loops(Subject):
    kind = "loops"
    metrics: ClassVar = {"T_loop (s)": "t_loop"}
    reads = ("platform", "application")

    def scenario(self, base: Base, overrides: Mapping[str, object]) -> Scenario:
        return loops.loop_from_text(base.text, base.source, overrides, base.directory)

    def given(self, base: Base, overrides: Mapping[str, object]) -> dict[str, Any]:
        given = super().given(base, overrides)
        return {key: value for key, value in given.items() if key not in loops.LEFT_ASIDE}

    def check(self, scenario: Scenario) -> None:
        simulation.check_loop(scenario)

    def empty(self) -> Mapping[str, Any]:
        return {"technique": "", "model": ""} | dict.fromkeys(_LOOP_METRICS)

    def simulate(self, scenario: Scenario, chunks: bool, /) -> Simulated:
        result = loops.run_loop(scenario, chunks=chunks or scenario.output.trace.shows_chunks)

        def write(place: Place, shown: Scenario) -> None:
            loops.write_loop(place, place.partial, replace(result, scenario=shown), chunks=True)

        return Simulated(scenario, result.facts, result.records, write)


_LOOP_METRICS = (
    *("nodes", "pes", "iterations", "steps", "t_loop", "mean_finish", "cov", "imbalance", "max_over_mean"),
    *("busy", "overhead", "idle", "efficiency"),
)


class _Weeks(_Runs):
    kind = "weeks"
    metrics: ClassVar = {"sum of weekly mean bounded slowdowns": "bounded_slowdown.sum"}

    def check(self, scenario: Scenario) -> None:
        weekly_runs.weeks_of(scenario)

    def empty(self) -> Mapping[str, Any]:
        return weekly_runs.empty_weekly()

    def simulate(self, scenario: Scenario, _chunks: bool, /) -> Simulated:
        return Simulated(scenario, weekly_runs.run_weekly(scenario), weekly_runs.NO_RECORDS)


SUBJECTS: dict[str, Subject] = {subject.kind: subject for subject in (_Loops(), _Runs(), _Weeks())}


@dataclass(frozen=True)
class OwnPicture:
    """A picture of a single run, drawn when it has been simulated."""

    kind: str  # `gantt`: nodes over time; `timeline`: PEs over time
    title: str
    span: tuple[float, float] | None = None  # part of the time shown (s), for `gantt`; None: all


@dataclass(frozen=True)
class Task:
    """A run to be executed; can be sent to another process."""

    key: str
    labels: Mapping[str, str]  # of the combination, for messages
    subject: Subject
    base: Base
    overrides: Mapping[str, object]
    keep: str
    output: str  # digest of its scenario's output section
    curve: bool = False
    balance: bool = False
    pictures: Mapping[str, OwnPicture] = field(default_factory=dict)  # of it alone, by file name
    store: Path | None = None  # directory of the store; None: the content is returned
    timeout: float | None = None  # seconds of wall-clock time after which it has failed

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
    failed: str = ""  # reason; empty: it did not fail
    seconds: float = 0.0  # wall-clock time that it took
    content: dict[str, Any] | None = None  # of the entry, if there is no store
    stops: str = ""  # reason why the study cannot continue, such as a full disk; empty: it can


class Balance(NamedTuple):
    """Each loop of a run: its job, the name of its executable, and max/mean of finishing times."""

    job_id: list[int]
    executable: list[str]
    max_over_mean: list[float]


@dataclass(frozen=True)
class PictureSpec:
    """One entry of a study's pictures."""

    kind: str
    lines: str = ""  # axis of one curve per label
    panels: str = ""  # axis of one panel per label
    along: str = ""  # the x axis
    where: Mapping[str, Any] = field(default_factory=dict)  # labels of the runs that it shows
    relative: bool = False  # the first metric relative to the study's combination
    metric: str = ""  # title; empty: the first
    span: tuple[float, float] | None = None  # time range (s) of `gantt`; None: all

    def shows(self, labels: Mapping[str, str]) -> bool:
        """Whether a run is in the picture."""
        return matches(labels, self.where)


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
    span, ends = None, value.get("span", ())
    if "span" in value:
        of_two = isinstance(ends, list) and len(ends) == 2
        if not (of_two and all(isinstance(end, int | float) for end in ends) and ends[0] < ends[1]):
            raise InputError(f"{place}: span: {ends!r}; allowed: [BEGIN, END] in s, e.g. [415, 550]")
        span = float(ends[0]), float(ends[1])
    return PictureSpec(
        kind,
        **chosen,
        where=where,
        relative=bool(value.get("relative", False)),
        metric=str(value.get("metric", "")),
        span=span,
    )


@dataclass(frozen=True)
class Cases:
    """Every combination with its scenario, which is built on each access: many would not fit into memory."""

    points: Sequence[Point]
    base: Base
    subject: Subject

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, place: int) -> tuple[Point, Scenario]:
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
    axes: Sequence[Axis]  # of a search: its repetitions
    cases: Cases  # all have been checked; of a search, a few of the possible candidates
    metrics: Mapping[str, str]  # title to key of the summary
    keep: str
    timeout: float | None  # seconds of wall-clock time that one run may take
    formats: Sequence[str]  # of pictures
    columns: str = ""  # axis of the columns
    repetitions: str | None = None  # axis that tables take the mean over
    relative: Mapping[str, str] = field(default_factory=dict)  # labels that the first metric is divided by
    # Published values: labels of all axes but repetitions, to values by title.
    reference: Mapping[tuple[str, ...], Mapping[str, float]] = field(default_factory=dict)
    pictures: Sequence[PictureSpec] = ()
    timelines: Sequence[Mapping[str, Any]] = ()  # combinations whose PEs are drawn over time
    interval: str = "bootstrap"
    trim: int = 0  # number of least and of largest values of repetitions left out, per combination
    search: Search | None = None

    @property
    def points(self) -> Sequence[Point]:
        """Every combination."""
        return self.cases.points

    @property
    def compared(self) -> list[str]:
        """Names of the axes that tables compare: all but repetitions."""
        return [axis.name for axis in self.axes if axis.name != self.repetitions]

    def drawn(self, point: Point) -> bool:
        """Whether the PEs of a combination are drawn over time."""
        return any(matches(point.labels, entry) for entry in self.timelines)

    def part(self, points: Sequence[Point]) -> Self:
        """Return the study of some runs."""
        return replace(self, cases=replace(self.cases, points=points))


MEANS = " (means with their 95 % intervals)"  # suffix of titles of pictures of repetitions


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
    return f"pes-{file_name(', '.join(point.labels.values()))}.png"


def picture_title(study: str, labels: Mapping[str, str]) -> str:
    """Return the title of a picture of runs with some labels in common."""
    words = ", ".join(f"{name} {label}" for name, label in labels.items())
    return f"{study}: {words}" if words else study


def file_name(*words: str) -> str:
    """Return words as a file name without suffix."""
    return re.sub(r"[^\w+.-]+", "-", " ".join(words)).strip("-.")
