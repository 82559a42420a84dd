"""A search, generation by generation: candidates, their runs, their objective."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from mlsim.errors import InputError
from mlsim.experiment.study.axes import Point, filled, words_of
from mlsim.experiment.study.search_methods import PACKAGES, Search, Values, method_of
from mlsim.experiment.study.study_executors import Started
from mlsim.experiment.study.study_model import Done, Study, Task
from mlsim.experiment.study.study_plan import StudyRow
from mlsim.experiment.study.study_runner import StudyRunner

LABELS = ("part", "generation", "candidate")  # labels of runs of a search, besides parameters and repetitions
FITTED, HELD_OUT = "search", "held out"  # values of `part`; only fitted runs choose candidates
_NAN = float("nan")


def candidate_points(
    search: Search, values: Values, candidate: int, generation: int, part: str = FITTED
) -> list[Point]:
    """Return the runs of a candidate."""
    labels = {"part": part, "generation": str(generation), "candidate": str(candidate)}
    overrides: dict[str, object] = {}
    for parameter, value in zip(search.parameters, values, strict=True):
        labels[parameter.name] = parameter.label(value)
        overrides |= parameter.overrides(value)
    named = dict(zip(search.names, values, strict=True))
    return _points(search, part, labels, overrides, search.common, named)


def baseline_points(search: Search, part: str) -> list[Point]:
    """Return the runs of all baselines; keys of ``set`` that name parameters do not apply to them."""
    none = dict.fromkeys(search.names, "")
    common = {key: value for key, value in search.common.items() if not names_any(value, search.names)}
    return [
        point
        for name, overrides in search.baselines.items()
        for point in _points(
            search, part, {"part": part, "generation": "", "candidate": name, **none}, overrides, common, {}
        )
    ]


def _points(
    search: Search,
    part: str,
    own: Mapping[str, str],
    overrides: Mapping[str, object],
    common: Mapping[str, object],
    values: Mapping[str, object],
) -> list[Point]:
    found = []
    for point in search.repetitions if part == FITTED else search.held_out:
        labels = {**own, **point.labels}
        found.append(Point(labels, {**filled(common, labels, values), **point.overrides, **overrides}))
    return found


def probe_points(search: Search) -> list[Point]:
    """Return the runs by which a search is checked before it starts: baselines, and limits of the ranges."""
    middle = tuple(parameter.probes()[0] for parameter in search.parameters)
    points = [point for part in (FITTED, HELD_OUT) for point in candidate_points(search, middle, 0, 0, part)]
    for place, parameter in enumerate(search.parameters):
        for value in parameter.probes()[1:]:
            tried = (*middle[:place], value, *middle[place + 1 :])
            points += candidate_points(search, tried, 0, 0)[:1]
    return points + [point for part in (FITTED, HELD_OUT) for point in baseline_points(search, part)]


def names_any(value: object, names: Iterable[str]) -> bool:
    """Whether a text of ``set`` has one of these names in braces."""
    return isinstance(value, str) and any(f"{{{name}}}" in value for name in names)


@dataclass(frozen=True)
class Tried:
    """A candidate, or a baseline, evaluated on some repetitions."""

    name: str  # number of the candidate, or label of the baseline
    generation: str
    labels: Mapping[str, str]  # of the parameters
    objective: float  # NaN if a run has failed, or has no such value
    values: Mapping[str, float]  # those that the objective averages, by repetition
    metrics: Mapping[str, Mapping[str, float]]
    failed: Sequence[str]

    @property
    def works(self) -> bool:
        """Whether its objective is known."""
        return math.isfinite(self.objective)

    def values_of(self, search: Search) -> Values:
        """Return the values of the parameters."""
        return tuple(one.value(self.labels[one.name]) for one in search.parameters)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a search."""

    candidates: Sequence[Tried]  # in the order they were asked for
    baselines: Mapping[str, Tried]  # by label, on what candidates were chosen by
    best: Tried
    held_out: Mapping[str, Tried]  # `best` and the baselines on what was held out; empty if nothing was


def tried_of(
    search: Search, rows: Sequence[StudyRow], below: Mapping[str, float] | None = None
) -> list[Tried]:
    """Return the candidates or baselines of rows of one part, divided by ``below`` of the repetition."""
    groups: dict[str, list[StudyRow]] = {}
    for row in rows:
        groups.setdefault(row.labels["candidate"], []).append(row)
    return [_tried(search, group, below) for group in groups.values()]


def _tried(search: Search, rows: Sequence[StudyRow], below: Mapping[str, float] | None) -> Tried:
    first = rows[0].labels
    own = (*LABELS, *search.names)
    repetitions = [", ".join(label for name, label in row.labels.items() if name not in own) for row in rows]
    metrics = {
        title: {name: row.metrics[title] for name, row in zip(repetitions, rows, strict=True)}
        for title in rows[0].metrics
    }
    values = metrics[search.title]
    if below is not None:
        divisors = {name: below.get(name, _NAN) for name in values}
        values = {
            name: value / divisors[name] if divisors[name] > 0.0 else _NAN for name, value in values.items()
        }
    known = np.array(list(values.values()))
    average = np.median if search.average == "median" else np.mean
    return Tried(
        name=first["candidate"],
        generation=first["generation"],
        labels={name: first[name] for name in search.names},
        objective=float(average(known)) if np.isfinite(known).all() else _NAN,
        values=values,
        metrics=metrics,
        failed=[row.failed for row in rows if row.failed],
    )


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
    return Outcome(candidates, fitted, best, {"best": chosen[0], **others} if chosen else {})


def _split(search: Search, rows: Sequence[StudyRow]) -> tuple[dict[str, Tried], list[Tried]]:
    ours = [row for row in rows if row.labels["candidate"] in search.baselines]
    rest = [row for row in rows if row.labels["candidate"] not in search.baselines]
    divisor = tried_of(search, [row for row in ours if row.labels["candidate"] == search.relative])
    below = divisor[0].values if divisor else None
    return {one.name: one for one in tried_of(search, ours, below)}, tried_of(search, rest, below)


def search_rows(study: Study, runner: StudyRunner) -> list[StudyRow]:
    """Search; return a row per run, in the order of the candidates."""
    search = study.search
    assert search is not None, "called for searches only"
    package, extra = PACKAGES.get(search.method, ("", ""))
    if package and find_spec(package) is None:
        raise InputError(
            f"{study.source}: search: method: {search.method}: needs the package {package}, which is not "
            f"installed; pip install 'mlsim[{extra}]', or use random"
        )
    plan, tasks = runner.plan(study)
    plan.check_files(tasks)

    def baselines(part: str) -> list[StudyRow]:
        points = baseline_points(search, part)
        return runner.rows(study.part(points)) if points else []

    rows = baselines(FITTED)
    divisors = tried_of(search, [row for row in rows if row.labels["candidate"] == search.relative])
    below = divisors[0].values if divisors else None
    for name, value in (below or {}).items():
        if not value > 0.0:
            why = f"; {divisors[0].failed[0]}" if divisors[0].failed else ""
            raise InputError(
                f"{study.source}: search: relative: {search.relative} has {search.title} {value:g} "
                f"({name or 'its one run'}), by which nothing can be divided{why}"
            )
    candidates = _candidates(study, search, runner, rows, below)
    best = best_of(search, candidates)
    assert best is not None, "otherwise the first generation has ended the search"
    if search.held_out:
        points = candidate_points(
            search, best.values_of(search), int(best.name), int(best.generation), HELD_OUT
        )
        rows += runner.rows(study.part(points), check=False)
        rows += baselines(HELD_OUT)
    return rows


def _candidates(
    study: Study, search: Search, runner: StudyRunner, rows: list[StudyRow], below: Mapping[str, float] | None
) -> list[Tried]:
    """Evaluate candidates until the method or the budget ends; add their rows to ``rows``."""
    method = method_of(search)
    candidates: list[Tried] = []
    worst = -math.inf
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
            for point in candidate_points(search, values, number, generation)
        ]
        found = runner.rows(study.part(points), check=False)
        rows += found
        new = tried_of(search, found, below)
        candidates += new
        worst = max([worst, *(search.loss(one.objective) for one in new if one.works)])
        best = best_of(search, candidates)
        if best is None:
            failed = (one.failed[0] for one in candidates if one.failed)
            raise InputError(
                f"{study.source}: search: none of the {len(candidates)} candidates of the first generation "
                f"can be judged: {next(failed, f'none has a value of {search.metric}')}"
            )
        runner.watch.note(
            f"generation {generation}, {len(candidates)} of {search.options.evaluations} candidates: best "
            f"{search.objective} {best.objective:.6g}, of candidate {best.name} ({words_of(best.labels)})"
        )
        if len(tried) == len(asked):
            method.tell([search.loss(one.objective) if one.works else worst for one in new])
    return candidates


class Rehearsal:
    """An executor that stops at the first tasks: which come later depends on their results."""

    def results(self, tasks: Sequence[Task], _started: Started, /) -> Iterator[Done]:
        """Stop if there are tasks."""
        if tasks:
            raise _StopError(list(tasks))
        return iter(())


class _StopError(Exception):
    """The next tasks are known: its argument."""


def rehearsed(study: Study, runner: StudyRunner) -> list[Task]:
    """Return the tasks that a search would execute next; the runner must have a :class:`Rehearsal`."""
    try:
        search_rows(study, runner)
    except _StopError as stop:
        return list(stop.args[0])
    return []
