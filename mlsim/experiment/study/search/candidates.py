"""The runs of candidates and baselines: one for each repetition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mlsim.experiment.study.model import Cases, Study
from mlsim.experiment.study.points import Point, filled
from mlsim.experiment.study.search.model import Search
from mlsim.experiment.study.search.space import Values

__all__ = [
    "FITTED",
    "HELD_OUT",
    "LABELS",
    "baseline_points",
    "candidate_points",
    "names_any",
    "part_of",
    "probe_points",
]

LABELS = ("part", "generation", "candidate")
"""What runs of a search are labelled with, beside parameters and repetitions."""
FITTED, HELD_OUT = "search", "held out"
"""Of label ``part``: runs by which candidates are chosen, and runs that no candidate was chosen by."""


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
    """Return the runs of a baseline; keys of ``set`` that name parameters do not hold for it."""
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
    """Return runs by which a search is checked before the first one: baselines, and ends of the ranges."""
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
    """Return a study of some runs alone."""
    return replace(study, cases=Cases(points, study.cases.base, study.cases.subject))


def names_any(value: object, names: Iterable[str]) -> bool:
    """Return whether a text of ``set`` has one of some names in braces."""
    return isinstance(value, str) and any(f"{{{name}}}" in value for name in names)


def _point(
    search: Search, labels: Mapping[str, str], values: Mapping[str, object], overrides: Mapping[str, object]
) -> Point:
    return Point(labels, {**filled(search.common, labels, values), **overrides})
