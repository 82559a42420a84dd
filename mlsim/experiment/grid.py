"""What a study varies: axes with labelled points, and their product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from mlsim.errors import InputError

__all__ = ["Axis", "Point", "axes_of", "matches", "points"]

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Axis:
    """One thing that varies."""

    name: str
    """What it is called in tables."""
    points: Mapping[str, Mapping[str, object]]
    """Label to the overrides that make it so."""


@dataclass(frozen=True)
class Point:
    """One combination: a label of each axis, and the overrides of all of them."""

    labels: Labels
    overrides: Mapping[str, object]


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
    if isinstance(points, list) and points:
        named = {_label(value): {name: value} for value in points}
        if len(named) < len(points):
            raise InputError(f"{place}: the same value twice; allowed: each once")
        return Axis(name.split(".")[-1], named)
    if isinstance(points, dict) and points and all(isinstance(keys, dict) for keys in points.values()):
        return Axis(name, {str(label): keys for label, keys in points.items()})
    raise InputError(
        f"{place}: {_shape(points)}; allowed: a list of values, or a mapping of labels, each with a "
        "mapping of keys to values, e.g. {slow: {platform.network.latency: 5 us}}"
    )


def _shape(value: object) -> str:
    return "empty" if not value else f"{value!r}"[:80]


def _label(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def points(axes: Sequence[Axis], without: Sequence[Mapping[str, Any]]) -> Iterator[Point]:
    """Yield every combination, the last axis fastest, but those that an entry of ``without`` matches."""
    for labels in product(*(axis.points for axis in axes)):
        named = dict(zip([axis.name for axis in axes], labels, strict=True))
        if any(matches(named, entry) for entry in without):
            continue
        overrides: dict[str, object] = {}
        for axis, label in zip(axes, labels, strict=True):
            overrides |= axis.points[label]
        yield Point(named, overrides)


def matches(labels: Labels, entry: Mapping[str, Any]) -> bool:
    """Return whether labels are among those of an entry: axis to a label or a list of labels."""
    return all(
        labels[name] in [_label(label) for label in (wanted if isinstance(wanted, list) else [wanted])]
        for name, wanted in entry.items()
    )
