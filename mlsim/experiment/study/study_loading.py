"""Read a study, and make every scenario that it names."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mlsim._files import is_directory, is_there
from mlsim._files.input_files import read_lines
from mlsim._runtime.shared_cache import forget, sharing
from mlsim.errors import InputError, NothingLeftError
from mlsim.experiment.study import study_file
from mlsim.experiment.study.axes import (
    MOST_SEEDS,
    Axis,
    Point,
    axes_of,
    check_combinations,
    filled,
    points,
    week_axis,
    with_joined,
    words_of,
)
from mlsim.experiment.study.study_model import (
    FORMATS,
    Cases,
    PictureSpec,
    Study,
    file_name,
    picture_of,
    timeline_file,
)
from mlsim.experiment.study.study_store import KEEP
from mlsim.experiment.study.study_tables import INTERVALS, t_quantile
from mlsim.experiment.study.subjects import SUBJECTS, Base, Subject
from mlsim.scenario import ApplicationModel, Scenario, SelectConfig, load
from mlsim.scenario.amount_types import Amount
from mlsim.scenario.unit_types import TIME


def load_study(path: str | Path) -> Study:
    """Read a study and every scenario it makes, without simulating.

    Parameters
    ----------
    path
        A study file, or a directory with ``study.yaml`` in it.

    Raises
    ------
    InputError
        If a file cannot be read, or a combination cannot be simulated.
    """
    file = study_file.file_of(path)
    text = study_file.file_text(file)
    content = study_file.mapping(text, file)
    if "search" in content:
        return _search_study(file, content, text)
    read = _Content(file, content)
    study = _study(read, text)
    _check_titles(study)
    without_loops = _check_runs(study)
    study = _with_shown(read, study)
    _check_shown(study, without_loops)
    return study


class _Content:
    """A study file as read, with its axes."""

    def __init__(self, file: Path, content: Mapping[str, Any]) -> None:
        self.file, self.content = file, content
        self.folder = file.parent
        self.base = _base(self)
        self.axes, self.has = self._axes()

    def _axes(self) -> tuple[list[Axis], Weeks]:
        """Return the axes, and a predicate for the combinations that exist."""
        place = self.place("vary")
        if "vary" not in self.content:  # a search without repetitions
            return [], lambda _: True
        axes = axes_of(self.content["vary"], place, self.base.directory)
        plain = [axis for axis in axes if not axis.template]
        subject = SUBJECTS[self.content["of"]]
        found, has = all_weeks(plain, self.base, subject, partial(_with_common_keys, self), place)
        templates = {axis.name: axis.template for axis in axes if axis.template}
        several = self.content.get("repetitions")
        if isinstance(several, list) and several and "search" not in self.content:
            names = [axis.name for axis in with_joined(found, templates, place)]
            for name in several:
                study_file.one_of(name, names, self.place("repetitions"))
            if len(set(several)) > 1:
                templates[_several(several)] = ", ".join(f"{{{name}}}" for name in several)
        return with_joined(found, templates, place), has

    def place(self, key: str) -> str:
        """Return the name of a key in messages."""
        return f"{self.file}: {key}"

    def listed(self, key: str) -> list[Any]:
        """Return a list; empty if the key is missing."""
        value = self.content.get(key, [])
        if not isinstance(value, list):
            raise InputError(f"{self.place(key)}: {value!r}; allowed: a list")
        return value

    def entries(self, key: str) -> list[dict[str, Any]]:
        """Return a list of combinations."""
        return study_file.entries(
            self.content.get(key, []), self.axes, self.place(key), parts=key == "without"
        )


def _study(read: _Content, text: str) -> Study:
    content, axes, place = read.content, read.axes, read.place
    subject = SUBJECTS[content["of"]]
    repetitions = content.get("repetitions")
    if isinstance(repetitions, list):
        repetitions = _several(repetitions)
    if repetitions is not None:
        repetitions = study_file.one_of(repetitions, [axis.name for axis in axes], place("repetitions"))
    metrics = _titles(content.get("metrics", subject.metrics), place("metrics"))
    check_combinations(axes, place("vary"))
    every = points(axes, read.entries("without"))
    found = study_file.some_points((point for point in every if read.has(point.words)), place("without"))
    named = content.get("name", read.folder.resolve().name or "study")
    return Study(
        name=study_file.check_name(named, place("name")),
        description=str(content.get("description", "")),
        source=read.file,
        text=text,
        subject=subject,
        axes=axes,
        cases=Cases([_with_common_keys(read, point) for point in found], read.base, subject),
        columns=study_file.side_by_side(content.get("columns"), repetitions, axes, place("columns")),
        repetitions=repetitions,
        metrics=metrics,
        relative=_relative(content.get("relative", {}), axes, place("relative")),
        reference={},
        pictures=[],
        timelines=[],
        keep=study_file.one_of(content.get("keep", KEEP[0]), KEEP, place("keep")),
        timeout=_seconds(content.get("timeout"), place("timeout")),
        formats=_formats(content.get("formats", FORMATS[:1]), place("formats")),
        interval=_interval(content, place("interval")),
        trim=_trim(content, repetitions, axes, place("trim")),
    )


def _search_study(file: Path, content: Mapping[str, Any], text: str) -> Study:
    """Read a study with a search, and check scenarios all over its ranges."""
    from mlsim.experiment.study.search_file import NOT_WITH_SEARCH, check_columns, read_search
    from mlsim.experiment.study.search_run import part_of, probe_points

    for key in NOT_WITH_SEARCH:
        if key in content:
            raise InputError(f"{file}: {key}: does not go with search, which compares no combinations")
    read = _Content(file, content)
    axes, subject, place = read.axes, SUBJECTS[content["of"]], read.place
    read.entries("without")
    metrics = _titles(content.get("metrics", subject.metrics), place("metrics"))
    search = read_search(content, axes, metrics, subject.empty(), str(file))
    study = Study(
        name=study_file.check_name(content.get("name", read.folder.resolve().name or "study"), place("name")),
        description=str(content.get("description", "")),
        source=file,
        text=text,
        subject=subject,
        axes=axes,
        cases=Cases([], read.base, subject),
        columns="",
        repetitions=None,
        metrics={search.title: search.metric, **metrics},
        relative={},
        reference={},
        pictures=[],
        timelines=[],
        keep=study_file.one_of(content.get("keep", KEEP[0]), KEEP, place("keep")),
        timeout=_seconds(content.get("timeout"), place("timeout")),
        formats=_formats(content.get("formats", FORMATS[:1]), place("formats")),
        search=search,
    )
    check_columns(study)
    study = part_of(study, probe_points(search))
    _check_runs(study)
    return study


def _with_shown(read: _Content, study: Study) -> Study:
    """Add reference values and pictures."""
    reference = read.content.get("reference")
    compared = [axis for axis in study.axes if axis.name != study.repetitions]
    place = read.place("pictures")
    return replace(
        study,
        reference={}
        if reference is None
        else _reference(read.folder / str(reference), compared, study.metrics),
        pictures=[picture_of(value, study.axes, place) for value in read.listed("pictures")],
        timelines=read.entries("timelines"),
    )


def _base(read: _Content) -> Base:
    file = read.folder / str(read.content["base"])
    if not is_there(file) or is_directory(file):
        load(file)  # which reports what is wrong, and what else is there
    return Base.of(file, study_file.file_text(file))


def _with_common_keys(read: _Content, point: Point) -> Point:
    """Add the keys of all runs to those of one, with placeholders substituted."""
    common = read.content.get("set", {})
    if not isinstance(common, dict):
        raise InputError(f"{read.place('set')}: {common!r}; allowed: a mapping of keys to values")
    try:
        keys = filled(common, point.words)
    except (KeyError, ValueError, IndexError) as error:
        allowed = ", ".join(f"{{{name}}}" for name in point.words)
        raise InputError(f"{read.place('set')}: {error} is no axis; allowed in braces: {allowed}") from error
    return Point(point.labels, {**keys, **point.overrides}, point.parts)


def _several(names: Sequence[object]) -> str:
    """Return the name of the axis that joins several axes of repetitions."""
    return ", ".join(dict.fromkeys(map(str, names)))


def _titles(value: object, place: str) -> dict[str, str]:
    if not isinstance(value, Mapping) or not value or not all(isinstance(key, str) for key in value.values()):
        raise InputError(
            f"{place}: {value!r}; allowed: titles with keys of summary.json, e.g. {{makespan (s): makespan}}"
        )
    return {str(title): key for title, key in value.items()}


def _relative(value: object, axes: Sequence[Axis], place: str) -> dict[str, str]:
    (entry,) = study_file.entries([value], axes, place)
    for name, label in entry.items():
        if isinstance(label, list):
            raise InputError(f"{place}: {name}: {label!r}; allowed: one label")
    return {name: str(label) for name, label in entry.items()}


def _seconds(value: object, place: str) -> float | None:
    if value is None:
        return None
    try:
        return Amount(TIME, positive=True).parse(value)
    except ValueError as error:
        raise InputError(f"{place}: {error}") from error


def _formats(value: object, place: str) -> tuple[str, ...]:
    words = value if isinstance(value, list | tuple) else [value]
    if not words:
        raise InputError(f"{place}: names none; allowed: {', '.join(FORMATS)}")
    return tuple(dict.fromkeys(study_file.one_of(word, FORMATS, place) for word in words))


def _trim(content: Mapping[str, Any], repetitions: str | None, axes: Sequence[Axis], place: str) -> int:
    """Read how many repetitions are trimmed at either end; at least two must remain."""
    value = content.get("trim", 0)
    n = next((len(axis.points) for axis in axes if axis.name == repetitions), 1)
    most = max((n - 2) // 2, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise InputError(
            f"{place}: {value!r}; allowed: how many of the {n} repetitions are left out at either end, "
            f"0 to {most}"
        )
    return value


def _interval(content: Mapping[str, Any], place: str) -> str:
    words = list(INTERVALS)
    chosen = study_file.one_of(content.get("interval", words[0]), words, place)
    if "interval" in content and content.get("repetitions") is None:
        raise InputError(f"{place}: is of means over repetitions; give repetitions too, or take it out")
    if chosen == "t":
        t_quantile(1)  # which reports what it lacks
    return chosen


def _reference(
    file: Path, axes: Sequence[Axis], metrics: Mapping[str, str]
) -> dict[tuple[str, ...], dict[str, float]]:
    """Read reference values: one column per axis, and columns by title or key of a metric.

    Further columns are ignored, and cells may be empty.
    """
    found: dict[tuple[str, ...], dict[str, float]] = {}
    names = [axis.name for axis in axes]
    for number, row in enumerate(csv.DictReader(read_lines(file, "table of results")), start=2):
        place = f"{file}:{number}"
        for name in names:
            if not row.get(name):
                raise InputError(f"{place}: {name}: missing; columns: {', '.join((*names, *metrics))}")
        key = tuple(
            study_file.one_of(row[axis.name], list(axis.points), f"{place}: {axis.name}") for axis in axes
        )
        found[key] = {}
        for title, metric in metrics.items():
            column = title if title in row else metric
            if row.get(column):
                found[key][title] = _number(row[column], f"{place}: {column}")
    return found


def _number(text: str, place: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"{place}: {text!r} is no number; allowed: numbers") from error


def _check_titles(study: Study) -> None:
    from mlsim.experiment.study.study_tables import relative_title

    titles = [*(axis.name for axis in study.axes), *study.metrics]
    if study.subject.kind == "loops":
        titles.append("reference")
    place = f"{study.source}: {'vary' if study.subject.kind == 'loops' else 'metrics'}"
    study_file.check_titles([*titles, relative_title(study)] if study.relative else titles, place)
    shown = [*study.metrics, *([relative_title(study)] if study.relative else [])]
    study_file.check_files([f"table-{file_name(title)}.csv" for title in shown], f"{study.source}: metrics")


def _check_runs(study: Study) -> list[Point]:
    """Make every scenario; refuse metrics that some lack; return the combinations without loops."""
    empty = study.subject.empty()
    for key in study.metrics.values():
        study_file.check_metric(key, empty, f"{study.source}: metrics")
    solved = [key for key in study.metrics.values() if key.startswith("cp.") and not key.endswith("?")]
    without_loops = []
    alike: dict[str, bool] = {}
    for place, point in enumerate(study.points):
        key = _but_for_seed(point)
        if key not in alike:
            scenario = _scenario(study, place)
            dispatcher = scenario.batch.dispatcher
            if solved and not getattr(dispatcher, "solves", False):
                raise InputError(
                    f"{study.source}: metrics: {solved[0]}: not in the summary where batch.dispatcher is "
                    f"{dispatcher} ({words_of(point.labels)}); {solved[0]}? leaves such cells empty"
                )
            alike[key] = scenario.application.model is ApplicationModel.LOOP
        if not alike[key]:
            without_loops.append(point)
    return without_loops


def _but_for_seed(point: Point) -> str:
    """Return the overrides that decide whether a scenario is valid: all but a valid seed."""
    seed = point.overrides.get("seed")
    right = type(seed) is int and 0 <= seed <= MOST_SEEDS
    return repr([item for item in point.overrides.items() if not (right and item[0] == "seed")])


def _scenario(study: Study, place: int) -> Scenario:
    """Make the scenario of a combination; errors of a search name it, as the user did not write it."""
    try:
        return study.cases[place][1]
    except InputError as error:
        if study.search is None:
            raise
        raise InputError(f"{error} (search: {words_of(study.points[place].labels)})") from error


def _check_shown(study: Study, without_loops: Sequence[Point]) -> None:
    """Refuse pictures that could not be drawn after the runs."""
    from mlsim.experiment.study.study_tables import picture_files

    place = f"{study.source}: pictures"
    files: list[str] = []
    for picture, names in picture_files(study, study.points):
        _check_picture(study, picture, f"{place}: {picture.kind}", names)
        files += names
        for point in without_loops if picture.kind == "balance" else ():
            if picture.shows(point.labels):
                raise InputError(
                    f"{place}: balance: shows loops, and jobs execute none where {words_of(point.labels)}"
                )
    study_file.check_files(files, place)
    timelines = [timeline_file(point) for point in study.points if study.drawn(point)]
    study_file.check_files(timelines, f"{study.source}: timelines")


def _check_picture(study: Study, picture: PictureSpec, place: str, files: Sequence[str]) -> None:
    if not files:
        raise InputError(f"{place}: where: no combination is like that; it would show nothing")
    if picture.kind != "metric" and study.subject.kind != "runs":
        raise InputError(
            f"{place}: shows runs, and this study is of {study.subject.kind}; allowed: metric"
            + (", and timelines" if study.subject.kind == "loops" else "")
        )
    if picture.metric:
        study_file.one_of(picture.metric, list(study.metrics), f"{place}: metric")
    if picture.relative and not study.relative:
        raise InputError(f"{place}: relative: the study has no combination to divide by; give relative: too")


_WEEK = 7 * 86_400.0

Weeks = Callable[[Mapping[str, str]], bool]
"""Whether the log of a combination has the week that its labels name."""


def all_weeks(
    axes: Sequence[Axis], base: Base, subject: Subject, filled: Callable[[Point], Point], place: str
) -> tuple[list[Axis], Weeks]:
    """Replace the axis of all weeks by the weeks in which the logs have jobs.

    Returns the axes, and a predicate for the combinations that exist: logs need not have the same weeks.
    ``filled`` adds the keys of all runs to a combination.
    """
    if not any(axis.every_week for axis in axes):
        return list(axes), lambda _: True
    if subject.kind == "loops":
        raise InputError(f"{place}: weeks: are those of a log, and this study is of loops; give of: runs")
    others = [axis for axis in axes if not axis.every_week]
    known: dict[str, set[int]] = {}
    found: dict[tuple[str, ...], set[int]] = {}
    with sharing():
        for point in points(others, []):
            overrides = filled(replace(point, labels={**point.labels, "week": "1"})).overrides
            given = subject.given(base, overrides)
            key = json.dumps([given.get("workload"), given.get("platform")], default=str)
            if key not in known:
                known[key] = _weeks_of(subject.scenario(base, overrides))
            found[tuple(point.labels.values())] = known[key]
    forget()
    names = [axis.name for axis in others]

    def has(labels: Mapping[str, str]) -> bool:
        return int(labels["week"]) in found[tuple(labels[name] for name in names)]

    weeks = sorted(set().union(*known.values()))
    if not weeks:
        raise InputError(f"{place}: weeks: no week of the log has a job")
    return [week_axis(weeks) if axis.every_week else axis for axis in axes], has


def _weeks_of(scenario: Scenario) -> set[int]:
    """Return the weeks of a scenario's log in which its selection leaves jobs."""
    from mlsim.cosim import workload_of

    select = scenario.workload.select

    def selected(other: SelectConfig) -> Scenario:
        return scenario.model_copy(
            update={"workload": scenario.workload.model_copy(update={"select": other})}
        )

    *_, last = workload_of(selected(SelectConfig(warm_up=select.warm_up))).blocks()
    weeks = set()
    cut = scenario.workload.weeks is not None
    for week in range(0 if cut else 1, int(last.submit_time[-1] // _WEEK) + 2):
        try:
            workload_of(selected(select.model_copy(update={"weeks": (week, week)})))
        except NothingLeftError:
            continue
        weeks.add(week)
    return weeks
