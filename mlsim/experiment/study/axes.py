"""What a study varies: axes, each with labelled choices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from mlsim.errors import InputError

__all__ = ["MOST_SEEDS", "Axis", "axes_of", "label_of"]

MOST_SEEDS = 1_000_000


@dataclass(frozen=True)
class Axis:
    """One thing that varies."""

    name: str
    """What it is called in tables."""
    points: Mapping[str, Mapping[str, object]]
    """Label to the overrides that make it so."""


def axes_of(vary: object, place: str) -> list[Axis]:
    """Read the axes of a study.

    Parameters
    ----------
    vary
        Name to points. A list holds values of the dotted key that the name is; a mapping holds labels, each
        with a mapping of dotted keys to values.
    place
        What messages call it.

    Raises
    ------
    InputError
        If it has another shape.
    """
    if not isinstance(vary, dict) or not vary:
        raise InputError(
            f"{place}: {_shape(vary)}; allowed: a mapping of what varies, such as "
            "{application.technique: [SS, GSS]}"
        )
    axes = [_axis(str(name), points, f"{place}: {name}") for name, points in vary.items()]
    for axis, times in Counter(axis.name for axis in axes).items():
        if times > 1:
            raise InputError(
                f"{place}: {times} axes are called {axis}; allowed: each name once, e.g. "
                f"{{{axis} a: {{label: {{key: value}}}}}}"
            )
    return axes


def _axis(name: str, points: object, place: str) -> Axis:
    if name == "seeds":
        return _seeds(points, place)
    if name == "weeks":
        return _weeks(points, place)
    if isinstance(points, list) and points:
        named = {label_of(value): {name: value} for value in points}
        if len(named) < len(points):
            raise InputError(f"{place}: the same value twice; allowed: each once")
        return Axis(name.split(".")[-1], named)
    if isinstance(points, dict) and points and all(isinstance(keys, dict) for keys in points.values()):
        return Axis(name, {str(label): keys for label, keys in points.items()})
    raise InputError(
        f"{place}: {_shape(points)}; allowed: a list of values, or a mapping of labels, each with a "
        "mapping of keys to values, e.g. {slow: {platform.network.latency: 5 us}}"
    )


def _seeds(count: object, place: str) -> Axis:
    """Return the axis of seeds 1 to a number."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_SEEDS:
        raise InputError(f"{place}: {_shape(count)}; allowed: how many, e.g. 20, for seeds 1 to 20")
    return Axis("seed", {str(seed): {"seed": seed} for seed in range(1, count + 1)})


def _weeks(span: object, place: str) -> Axis:
    """Return the axis of single weeks of the log."""
    found = re.fullmatch(r"([1-9]\d{0,5})\s*-\s*([1-9]\d{0,5})", str(span))
    if found is None or int(found[1]) > int(found[2]):
        raise InputError(f"{place}: {_shape(span)}; allowed: the first and the last week, e.g. 28-64")
    weeks = range(int(found[1]), int(found[2]) + 1)
    return Axis("week", {str(week): {"workload.select.weeks": f"{week}-{week}"} for week in weeks})


def _shape(value: object) -> str:
    return "empty" if not value else f"{value!r}"[:80]


def label_of(value: object) -> str:
    """Return how a value is written in tables."""
    return f"{value:g}" if isinstance(value, float) else str(value)
