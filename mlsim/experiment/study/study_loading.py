"""Read a study, and make every scenario that it names."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mlsim._files import is_directory, is_there, read_lines
from mlsim._runtime.shared_cache import forget, sharing
from mlsim.cosim.scenario_inputs import workload_of
from mlsim.errors import InputError, NothingLeftError
from mlsim.experiment.study import axes as vary
from mlsim.experiment.study import search_file, study_file, study_model, study_tables
from mlsim.experiment.study.axes import Axis, Point, one_of
from mlsim.experiment.study.study_model import Study
from mlsim.scenario import Scenario, load, workload_section

_WEEK = 7 * 86_400.0
Weeks = Callable[[Mapping[str, str]], bool]  # whether the log of a combination has the week of its labels


def load_study(path: str | Path) -> Study:
    """Read a study, a file or a directory with ``study.yaml``, and every scenario it makes; simulate nothing.

    Raises InputError if a file cannot be read, or a combination cannot be simulated.
    """
    file = study_file.file_of(path)
    text = study_file.file_text(file)
    read = _Content(file, text, study_file.mapping(text, file))
    if "search" in read.content:
        return _search_study(read)
    study = _combinations(read)
    relative = [study_tables.relative_title(study)] if study.relative else []
    titles = [*(axis.name for axis in study.axes), *study.metrics, *relative]
    loops = study.subject.kind == "loops"
    titles += ["reference"] * loops
    study_file.check_titles(titles, f"{file}: {'vary' if loops else 'metrics'}")
    files = [f"table-{study_model.file_name(title)}.csv" for title in (*study.metrics, *relative)]
    study_file.check_files(files, f"{file}: metrics")
    without_loops = _check_runs(study)
    reference, pictures = read.content.get("reference"), read.content.get("pictures", [])
    place = read.place("pictures")
    if not isinstance(pictures, list):
        raise InputError(f"{place}: {pictures!r}; allowed: a list")
    study = replace(
        study,
        reference={} if reference is None else _reference(read.folder / str(reference), study),
        pictures=[study_model.picture_of(value, study.axes, place) for value in pictures],
        timelines=read.entries("timelines"),
    )
    _check_shown(study, without_loops)
    return study


class _Content:
    """A study file as read, with its axes."""

    def __init__(self, file: Path, text: str, content: Mapping[str, Any]) -> None:
        self.file, self.text, self.content = file, text, content
        self.folder = file.parent
        base = self.folder / str(content["base"])
        if not is_there(base) or is_directory(base):
            load(base)  # which reports what is wrong, and what else is there
        self.base = study_model.Base.of(base, study_file.file_text(base))
        self.subject = study_model.SUBJECTS[content["of"]]
        self.axes, self.has = self._axes()

    def _axes(self) -> tuple[list[Axis], Weeks]:
        """Return the axes, and a predicate for the combinations that exist."""
        place = self.place("vary")
        if "vary" not in self.content:  # a search without repetitions
            return [], lambda _: True
        axes = vary.axes_of(self.content["vary"], place, self.base.directory)
        found, has = _all_weeks([axis for axis in axes if not axis.template], self, place)
        templates = {axis.name: axis.template for axis in axes if axis.template}
        several = self.content.get("repetitions")
        if isinstance(several, list) and several and "search" not in self.content:
            names = [axis.name for axis in vary.with_joined(found, templates, place)]
            for name in several:
                one_of(name, names, self.place("repetitions"))
            if len(set(several)) > 1:
                templates[self.repetitions] = ", ".join(f"{{{name}}}" for name in several)
        return vary.with_joined(found, templates, place), has

    @cached_property
    def repetitions(self) -> Any:
        """The name of the axis of repetitions; that of several joins their names."""
        named = self.content.get("repetitions")
        return ", ".join(dict.fromkeys(map(str, named))) if isinstance(named, list) else named

    def place(self, key: str) -> str:
        return f"{self.file}: {key}"

    def entries(self, key: str) -> list[dict[str, Any]]:
        return study_file.entries(
            self.content.get(key, []), self.axes, self.place(key), parts=key == "without"
        )

    def with_common_keys(self, point: Point) -> Point:
        common, place = self.content.get("set", {}), self.place("set")
        if not isinstance(common, dict):
            raise InputError(f"{place}: {common!r}; allowed: a mapping of keys to values")
        try:
            keys = vary.filled(common, point.words)
        except (KeyError, ValueError, IndexError) as error:
            allowed = ", ".join(f"{{{name}}}" for name in point.words)
            raise InputError(f"{place}: {error} is no axis; allowed in braces: {allowed}") from error
        return Point(point.labels, {**keys, **point.overrides}, point.parts)

    def study(self, points: Sequence[Point], metrics: Mapping[str, str]) -> Study:
        """Return the study of some combinations, with the keys that do not depend on others."""
        return Study(
            name=self.content["name"],
            description=str(self.content.get("description", "")),
            source=self.file,
            text=self.text,
            subject=self.subject,
            axes=self.axes,
            cases=study_model.Cases(points, self.base, self.subject),
            metrics=metrics,
            keep=self.content.get("keep", study_file.KEEP[0]),
            timeout=self.content.get("timeout"),
            formats=self.content.get("formats", study_file.FORMATS[:1]),
        )

    def metrics(self) -> dict[str, str]:
        value = self.content.get("metrics", self.subject.metrics)
        if not isinstance(value, Mapping) or not value or not all(isinstance(k, str) for k in value.values()):
            raise InputError(
                f"{self.place('metrics')}: {value!r}; allowed: titles with keys of summary.json, e.g. "
                "{makespan (s): makespan}"
            )
        return {str(title): key for title, key in value.items()}


def _combinations(read: _Content) -> Study:
    axes, place, repetitions = read.axes, read.place, read.repetitions
    if repetitions is not None:
        repetitions = one_of(repetitions, [axis.name for axis in axes], place("repetitions"))
    metrics = read.metrics()
    vary.check_combinations(axes, place("vary"))
    every = vary.points(axes, read.entries("without"))
    found = [read.with_common_keys(point) for point in every if read.has(point.words)]
    if not found:
        raise InputError(f"{place('without')}: leaves no combination; take an entry away")
    study = read.study(found, metrics)
    interval: str = read.content.get("interval", next(iter(study_file.INTERVALS)))
    if "interval" in read.content and repetitions is None:
        raise InputError(
            f"{place('interval')}: is of means over repetitions; give repetitions too, or take it out"
        )
    if interval == "t":
        study_tables.t_quantile(1)  # which reports what it lacks
    trim = read.content.get("trim", 0)
    n = next((len(axis.points) for axis in axes if axis.name == repetitions), 1)
    most = max((n - 2) // 2, 0)  # at least two must remain
    if trim > most:
        raise InputError(
            f"{place('trim')}: {trim}; allowed: how many of the {n} repetitions are left out at either "
            f"end, 0 to {most}"
        )
    (relative,) = study_file.entries([read.content.get("relative", {})], axes, place("relative"))
    for name, label in relative.items():
        if isinstance(label, list):
            raise InputError(f"{place('relative')}: {name}: {label!r}; allowed: one label")
    return replace(
        study,
        columns=study_file.side_by_side(read.content.get("columns"), repetitions, axes, place("columns")),
        repetitions=repetitions,
        relative=relative,
        interval=interval,
        trim=trim,
    )


def _search_study(read: _Content) -> Study:
    """Read a study with a search, and check scenarios all over its ranges."""
    for key in study_file.NOT_WITH_SEARCH:
        if key in read.content:
            raise InputError(f"{read.place(key)}: does not go with search, which compares no combinations")
    metrics = read.metrics()
    search = search_file.read_search(read.content, read.axes, metrics, read.subject.empty(), str(read.file))
    study = read.study(search_file.probe_points(search), {search.title: search.metric, **metrics})
    columns = ["candidate", "generation", *search.names, "objective", "runs", "failed", *study.metrics]
    study_file.check_titles(columns, read.place("search: over"))
    study = replace(study, search=search)
    _check_runs(study)
    return study


def _reference(file: Path, study: Study) -> dict[tuple[str, ...], dict[str, float]]:
    """Read reference values: a column per compared axis, and columns by title or key of a metric."""
    found: dict[tuple[str, ...], dict[str, float]] = {}
    labels = {axis.name: list(axis.points) for axis in study.axes if axis.name != study.repetitions}
    for number, row in enumerate(csv.DictReader(read_lines(file, "table of results")), start=2):
        place = f"{file}:{number}"
        for name in labels:
            if not row.get(name):
                raise InputError(f"{place}: {name}: missing; columns: {', '.join((*labels, *study.metrics))}")
        values = found[
            tuple(one_of(row[name], allowed, f"{place}: {name}") for name, allowed in labels.items())
        ] = {}
        for title, metric in study.metrics.items():
            column = title if title in row else metric
            if text := row.get(column):
                try:
                    values[title] = float(text)
                except ValueError as error:
                    raise InputError(f"{place}: {column}: {text!r} is no number; allowed: numbers") from error
    return found


def _check_runs(study: Study) -> list[Point]:
    """Make every scenario; refuse metrics that some lack; return the combinations without loops."""
    empty = study.subject.empty()
    for key in study.metrics.values():
        study_file.metric_of(empty, key, f"{study.source}: metrics", empty=True)
    solved = [key for key in study.metrics.values() if key.startswith("cp.") and not key.endswith("?")]
    without_loops = []
    alike: dict[str, bool] = {}
    for place, point in enumerate(study.points):
        # Of the overrides, all but a valid seed decide whether a scenario is valid.
        seed = point.overrides.get("seed")
        right = type(seed) is int and 0 <= seed <= vary.MOST_SEEDS
        key = repr([item for item in point.overrides.items() if not (right and item[0] == "seed")])
        if key not in alike:
            try:
                scenario = study.cases[place][1]
            except InputError as error:
                if study.search is None:
                    raise
                # The user did not write the combination.
                raise InputError(f"{error} (search: {vary.words_of(point.labels)})") from error
            dispatcher = scenario.batch.dispatcher
            if solved and not getattr(dispatcher, "solves", False):
                raise InputError(
                    f"{study.source}: metrics: {solved[0]}: not in the summary where batch.dispatcher is "
                    f"{dispatcher} ({vary.words_of(point.labels)}); {solved[0]}? leaves such cells empty"
                )
            alike[key] = scenario.runs_loops
        if not alike[key]:
            without_loops.append(point)
    return without_loops


def _check_shown(study: Study, without_loops: Sequence[Point]) -> None:
    place = f"{study.source}: pictures"
    files: list[str] = []
    for picture, names in study_tables.picture_files(study, study.points):
        _check_picture(study, picture, f"{place}: {picture.kind}", names)
        files += names
        for point in without_loops if picture.kind == "balance" else ():
            if picture.shows(point.labels):
                raise InputError(
                    f"{place}: balance: shows loops, and jobs execute none where "
                    f"{vary.words_of(point.labels)}"
                )
    study_file.check_files(files, place)
    timelines = [study_model.timeline_file(point) for point in study.points if study.drawn(point)]
    study_file.check_files(timelines, f"{study.source}: timelines")


def _check_picture(study: Study, picture: study_model.PictureSpec, place: str, files: Sequence[str]) -> None:
    if not files:
        raise InputError(f"{place}: where: no combination is like that; it would show nothing")
    if picture.kind != "metric" and study.subject.kind != "runs":
        raise InputError(
            f"{place}: shows runs, and this study is of {study.subject.kind}; allowed: metric"
            + (", and timelines" if study.subject.kind == "loops" else "")
        )
    if picture.metric:
        one_of(picture.metric, list(study.metrics), f"{place}: metric")
    if picture.relative and not study.relative:
        raise InputError(f"{place}: relative: the study has no combination to divide by; give relative: too")


def _all_weeks(axes: Sequence[Axis], read: _Content, place: str) -> tuple[list[Axis], Weeks]:
    """Replace the axis of all weeks by those with jobs; also return a predicate for existing combinations."""
    if not any(axis.every_week for axis in axes):
        return list(axes), lambda _: True
    subject, base = read.subject, read.base
    if subject.kind == "loops":
        raise InputError(f"{place}: weeks: are those of a log, and this study is of loops; give of: runs")
    others = [axis for axis in axes if not axis.every_week]
    known: dict[str, set[int]] = {}
    found: dict[tuple[str, ...], set[int]] = {}
    with sharing():
        for point in vary.points(others, []):
            first = replace(point, labels={**point.labels, "week": "1"})
            overrides = read.with_common_keys(first).overrides
            given = subject.given(base, overrides)
            key = json.dumps([given.get("workload"), given.get("platform")], default=str)
            if key not in known:
                known[key] = _weeks_of(subject.scenario(base, overrides))
            found[tuple(point.labels.values())] = known[key]
    forget()

    def has(labels: Mapping[str, str]) -> bool:
        return int(labels["week"]) in found[tuple(labels[axis.name] for axis in others)]

    weeks = sorted(set().union(*known.values()))
    if not weeks:
        raise InputError(f"{place}: weeks: no week of the log has a job")
    return [vary.week_axis(weeks) if axis.every_week else axis for axis in axes], has


def _weeks_of(scenario: Scenario) -> set[int]:
    """Return the weeks of a scenario's log in which its selection leaves jobs."""
    select = scenario.workload.select

    def selected(other: workload_section.SelectConfig) -> Scenario:
        return scenario.model_copy(
            update={"workload": scenario.workload.model_copy(update={"select": other})}
        )

    *_, last = workload_of(selected(workload_section.SelectConfig(warm_up=select.warm_up))).blocks()
    weeks = set()
    cut = scenario.workload.weeks is not None
    for week in range(0 if cut else 1, int(last.submit_time[-1] // _WEEK) + 2):
        try:
            workload_of(selected(select.model_copy(update={"weeks": (week, week)})))
        except NothingLeftError:
            continue
        weeks.add(week)
    return weeks
