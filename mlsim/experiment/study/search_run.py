"""A search, generation by generation: candidates, their runs, their objective."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mlsim.errors import InputError
from mlsim.experiment.study.axes import Point, filled, words_of
from mlsim.experiment.study.search_methods import Search, Values, check_installed, method_of
from mlsim.experiment.study.study_executors import Started
from mlsim.experiment.study.study_model import Cases, Done, Study, Task
from mlsim.experiment.study.study_plan import StudyRow
from mlsim.experiment.study.study_runner import StudyRunner

LABELS = ("part", "generation", "candidate")
"""Labels of runs of a search, besides parameters and repetitions."""
FITTED, HELD_OUT = "search", "held out"
"""Values of label ``part``: runs that choose candidates, and runs that no candidate was chosen by."""


def candidate_points(
    search: Search, values: Values, candidate: int, generation: int, repetitions: Sequence[Point], part: str
) -> list[Point]:
    """Return the runs of a candidate."""
    labels: dict[str, str] = {}
    named: dict[str, object] = {}
    overrides: dict[str, object] = {}
    for parameter, value in zip(search.parameters, values, strict=True):
        labels[parameter.name] = parameter.label(value)
        named[parameter.name] = value
        overrides |= parameter.overrides(value)
    first = {"part": part, "generation": str(generation), "candidate": str(candidate)}
    return [
        _point(search, {**first, **labels, **point.labels}, named, {**point.overrides, **overrides})
        for point in repetitions
    ]


def baseline_points(search: Search, name: str, repetitions: Sequence[Point], part: str) -> list[Point]:
    """Return the runs of a baseline; keys of ``set`` that name parameters do not apply to it."""
    named = {"part": part, "generation": "", "candidate": name}
    none = {parameter.name: "" for parameter in search.parameters}
    names = [parameter.name for parameter in search.parameters]
    common = {key: value for key, value in search.common.items() if not names_any(value, names)}
    return [
        _point(
            replace(search, common=common),
            {**named, **none, **point.labels},
            {},
            {**point.overrides, **search.baselines[name]},
        )
        for point in repetitions
    ]


def probe_points(search: Search) -> list[Point]:
    """Return the runs by which a search is checked before it starts: baselines, and limits of the ranges."""
    middle = tuple(parameter.probes()[0] for parameter in search.parameters)
    every = [*search.repetitions, *search.held_out]
    points = candidate_points(search, middle, 0, 0, every, FITTED)
    for place, parameter in enumerate(search.parameters):
        for value in parameter.probes()[1:]:
            tried = (*middle[:place], value, *middle[place + 1 :])
            points += candidate_points(search, tried, 0, 0, every[:1], FITTED)
    for name in search.baselines:
        points += baseline_points(search, name, every, FITTED)
    return points


def part_of(study: Study, points: Sequence[Point]) -> Study:
    """Return a study of some of its runs."""
    return replace(study, cases=Cases(points, study.cases.base, study.cases.subject))


def names_any(value: object, names: Iterable[str]) -> bool:
    """Whether a text of ``set`` has one of these names in braces."""
    return isinstance(value, str) and any(f"{{{name}}}" in value for name in names)


def _point(
    search: Search, labels: Mapping[str, str], values: Mapping[str, object], overrides: Mapping[str, object]
) -> Point:
    return Point(labels, {**filled(search.common, labels, values), **overrides})


_NAN = float("nan")


@dataclass(frozen=True)
class Tried:
    """A candidate, or a baseline, evaluated on some repetitions."""

    name: str
    """Number of the candidate, or label of the baseline."""
    generation: str
    labels: Mapping[str, str]
    objective: float
    """NaN if a run has failed, or has no such value."""
    values: Mapping[str, float]
    """The values that the objective averages, by repetition."""
    metrics: Mapping[str, Mapping[str, float]]
    failed: Sequence[str]

    @property
    def works(self) -> bool:
        """Whether its objective is known."""
        return math.isfinite(self.objective)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a search."""

    candidates: Sequence[Tried]
    """In the order they were asked for."""
    baselines: Mapping[str, Tried]
    """By label, on what candidates were chosen by."""
    best: Tried
    held_out: Mapping[str, Tried]
    """The best candidate (``best``) and the baselines, on what was held out; empty if nothing was."""


def tried_of(
    search: Search, rows: Sequence[StudyRow], below: Mapping[str, float] | None = None
) -> list[Tried]:
    """Return the candidates or baselines of rows of one part, in their order.

    ``below`` are divisors of the values, by repetition; None: none.
    """
    groups: dict[str, list[StudyRow]] = {}
    for row in rows:
        groups.setdefault(row.labels["candidate"], []).append(row)
    return [_tried(search, group, below) for group in groups.values()]


def _tried(search: Search, rows: Sequence[StudyRow], below: Mapping[str, float] | None) -> Tried:
    names = [parameter.name for parameter in search.parameters]
    first = rows[0].labels
    repetitions = [_repetition(row, names) for row in rows]
    titles = list(rows[0].metrics)
    metrics = {
        title: {name: row.metrics[title] for name, row in zip(repetitions, rows, strict=True)}
        for title in titles
    }
    values = {
        name: _divided(value, below.get(name, _NAN)) if below is not None else value
        for name, value in metrics[search.title].items()
    }
    return Tried(
        name=first["candidate"],
        generation=first["generation"],
        labels={name: first[name] for name in names},
        objective=_average(search.average, list(values.values())),
        values=values,
        metrics=metrics,
        failed=[row.failed for row in rows if row.failed],
    )


def _repetition(row: StudyRow, names: Sequence[str]) -> str:
    """Return the label of a repetition of a candidate."""
    return ", ".join(label for name, label in row.labels.items() if name not in (*LABELS, *names))


def _divided(value: float, below: float) -> float:
    return value / below if below > 0.0 else _NAN


def _average(kind: str, values: Sequence[float]) -> float:
    """Return the mean or median; NaN if one of the values is not finite."""
    known = np.array(values)
    if not np.isfinite(known).all():
        return _NAN
    return float(np.median(known) if kind == "median" else known.mean())


def best_of(search: Search, candidates: Sequence[Tried]) -> Tried | None:
    """Return the best candidate, the first of equal ones; None if none has an objective."""
    known = [one for one in candidates if one.works]
    return min(known, key=lambda one: search.loss(one.objective)) if known else None


def outcome_of(search: Search, rows: Sequence[StudyRow]) -> Outcome:
    """Return the outcome of a search by all of its rows."""
    parts = {part: [row for row in rows if row.labels["part"] == part] for part in (FITTED, HELD_OUT)}
    fitted, candidates = _split(search, parts[FITTED])
    best = best_of(search, candidates)
    assert best is not None, "a search in which none can be judged ends with an error"
    others, chosen = _split(search, parts[HELD_OUT])
    held_out = {"best": chosen[0], **others} if chosen else {}
    return Outcome(candidates, fitted, best, held_out)


def _split(search: Search, rows: Sequence[StudyRow]) -> tuple[dict[str, Tried], list[Tried]]:
    """Return baselines and candidates of rows with the same repetitions."""
    ours = [row for row in rows if row.labels["candidate"] in search.baselines]
    below = None
    if search.relative:
        (one,) = tried_of(search, [row for row in ours if row.labels["candidate"] == search.relative])
        below = one.values
    baselines = {one.name: one for one in tried_of(search, ours, below)}
    rest = [row for row in rows if row.labels["candidate"] not in search.baselines]
    return baselines, tried_of(search, rest, below)


def search_rows(study: Study, runner: StudyRunner) -> list[StudyRow]:
    """Search; return a row per run, in the order of the candidates.

    Raises InputError if a file cannot be used, or no candidate of the first generation can be evaluated.
    """
    search = study.search
    assert search is not None, "called for searches only"
    check_installed(search.method, f"{study.source}: search: method")
    plan, tasks = runner.plan(study)
    plan.check_files(tasks)
    rows = _baselines(study, search, runner, FITTED)
    below = _below(study, search, rows)
    candidates = _candidates(study, search, runner, rows, below)
    best = best_of(search, candidates)
    assert best is not None, "otherwise the first generation has ended the search"
    if search.held_out:
        values = tuple(one.value(best.labels[one.name]) for one in search.parameters)
        points = candidate_points(
            search, values, int(best.name), int(best.generation), search.held_out, HELD_OUT
        )
        rows += runner.rows(part_of(study, points), check=False)
        rows += _baselines(study, search, runner, HELD_OUT)
    return rows


def _baselines(study: Study, search: Search, runner: StudyRunner, part: str) -> list[StudyRow]:
    repetitions = search.repetitions if part == FITTED else search.held_out
    points = [
        point for name in search.baselines for point in baseline_points(search, name, repetitions, part)
    ]
    return runner.rows(part_of(study, points)) if points else []


def _below(study: Study, search: Search, rows: Sequence[StudyRow]) -> dict[str, float] | None:
    """Return the divisors of the values, by repetition."""
    if not search.relative:
        return None
    (one,) = (one for one in tried_of(search, rows) if one.name == search.relative)
    for name, value in one.values.items():
        if not value > 0.0:
            why = f"; {one.failed[0]}" if one.failed else ""
            raise InputError(
                f"{study.source}: search: relative: {search.relative} has {search.title} {value:g} "
                f"({name or 'its one run'}), by which nothing can be divided{why}"
            )
    return dict(one.values)


def _candidates(
    study: Study, search: Search, runner: StudyRunner, rows: list[StudyRow], below: dict[str, float] | None
) -> list[Tried]:
    """Evaluate candidates until the method or the budget ends; add their rows to ``rows``."""
    method = method_of(search)
    candidates: list[Tried] = []
    worst: float | None = None
    generation = 0
    while len(candidates) < search.options.evaluations:
        asked = method.ask()
        if not asked:
            break
        generation += 1
        tried = asked[: search.options.evaluations - len(candidates)]
        points = [
            point
            for number, values in enumerate(tried, start=len(candidates) + 1)
            for point in candidate_points(search, values, number, generation, search.repetitions, FITTED)
        ]
        found = runner.rows(part_of(study, points), check=False)
        rows += found
        new = tried_of(search, found, below)
        candidates += new
        losses = [search.loss(one.objective) for one in new if one.works]
        worst = max([*losses, *([] if worst is None else [worst])], default=None)
        if worst is None:
            raise InputError(_none_works(study, search, candidates))
        runner.note(_words(search, generation, candidates))
        if len(tried) == len(asked):
            method.tell([search.loss(one.objective) if one.works else worst for one in new])
    return candidates


def _words(search: Search, generation: int, candidates: Sequence[Tried]) -> str:
    best = best_of(search, candidates)
    assert best is not None, "otherwise the search has ended"
    return (
        f"generation {generation}, {len(candidates)} of {search.options.evaluations} candidates: best "
        f"{search.objective} {best.objective:.6g}, of candidate {best.name} "
        f"({words_of(best.labels)})"
    )


def _none_works(study: Study, search: Search, candidates: Sequence[Tried]) -> str:
    why = next((one.failed[0] for one in candidates if one.failed), f"none has a value of {search.metric}")
    return (
        f"{study.source}: search: none of the {len(candidates)} candidates of the first generation can be "
        f"judged: {why}"
    )


class Rehearsal:
    """An executor that stops at the first tasks: which come later depends on their results."""

    def results(self, tasks: Sequence[Task], _started: Started, /) -> Iterator[Done]:
        """Stop if there are tasks."""
        if tasks:
            raise _StopError(tasks)
        return iter(())


class _StopError(Exception):
    """The next tasks are known."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        super().__init__()
        self.tasks = list(tasks)


def rehearsed(study: Study, runner: StudyRunner) -> list[Task]:
    """Return the tasks that a search would execute next; the runner must have a :class:`Rehearsal`."""
    try:
        search_rows(study, runner)
    except _StopError as stop:
        return stop.tasks
    return []
