"""The combinations of a study: a label of each axis, and what they set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from mlsim.experiment.study.axes import Axis, check_combinations, label_of

__all__ = ["Labels", "Point", "filled", "matches", "points", "words_of"]

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Point:
    """One combination: a label of each axis, and the overrides of all of them."""

    labels: Labels
    overrides: Mapping[str, object]
    parts: Labels = field(default_factory=dict)
    """Labels of axes that others were made of."""

    @property
    def words(self) -> Labels:
        """All labels, those of axes that others were made of as well."""
        return {**self.labels, **self.parts}


def points(axes: Sequence[Axis], without: Sequence[Mapping[str, Any]]) -> Iterator[Point]:
    """Yield every combination, the last axis fastest, but those that an entry of ``without`` matches."""
    check_combinations(axes)
    for labels in product(*(axis.points for axis in axes)):
        named = dict(zip([axis.name for axis in axes], labels, strict=True))
        overrides: dict[str, object] = {}
        parts: dict[str, str] = {}
        for axis, label in zip(axes, labels, strict=True):
            overrides |= axis.points[label]
            parts |= axis.parts.get(label, {})
        point = Point(named, overrides, parts)
        if not any(matches(point.words if parts else named, entry) for entry in without):
            yield point


def matches(labels: Labels, entry: Mapping[str, Any]) -> bool:
    """Return whether labels are among those of an entry: axis to a label or a list of labels."""
    return all(
        labels[name] in [label_of(label) for label in (wanted if isinstance(wanted, list) else [wanted])]
        for name, wanted in entry.items()
    )


def filled(
    common: Mapping[str, object], labels: Labels, values: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return keys of all runs for one of them: ``{name}`` in a text becomes the run's label.

    Parameters
    ----------
    common
        Keys with their values.
    labels
        Of the run.
    values
        Those that are numbers and no texts: ``"{name}"`` alone becomes the number.

    Raises
    ------
    KeyError, ValueError, IndexError
        If what is in braces is no label.
    """
    numbers = {f"{{{name}}}": value for name, value in (values or {}).items()}
    return {
        str(key): numbers[value]
        if isinstance(value, str) and value in numbers
        else value.format_map(labels)
        if isinstance(value, str)
        else value
        for key, value in common.items()
    }


def words_of(labels: Labels) -> str:
    """Write the labels of a combination for a message; empty ones are left out."""
    return ", ".join(f"{name}: {label}" for name, label in labels.items() if label)
