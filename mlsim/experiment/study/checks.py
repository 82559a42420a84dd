"""What can be wrong with a study although its file is right: all of it is found before the first run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlsim.errors import InputError
from mlsim.experiment.study.axes import Axis
from mlsim.experiment.study.file import one_of
from mlsim.experiment.study.points import Point
from mlsim.scenario.values.hints import nearest

__all__ = [
    "check_files",
    "check_metric",
    "check_name",
    "check_titles",
    "side_by_side",
    "some_points",
]

_LONGEST_NAME = 255


def check_name(name: object, place: str) -> str:
    """Return the name of a study, if it can be part of a directory's name."""
    text = str(name)
    if not text.strip() or not text.isprintable() or set(text) & set("/\\") or text in (".", ".."):
        raise InputError(f"{place}: {text!r:.80} cannot be used; allowed: a text without / and \\, not empty")
    return text


def side_by_side(columns: object, repetitions: str | None, axes: Sequence[Axis], place: str) -> str:
    """Return the axis that stands side by side: the one that is asked for, or the last of those compared.

    Tables show the mean over repetitions, so that there are no columns of them.
    """
    compared = [axis.name for axis in axes if axis.name != repetitions]
    if not compared:
        raise InputError(f"{place}: {repetitions}: is all that varies, and repeated; vary needs another axis")
    if columns is None:
        return compared[-1]
    if columns == repetitions:
        raise InputError(
            f"{place}: {columns}: is the axis of repetitions, which tables show the mean over; "
            f"allowed: {', '.join(compared)}"
        )
    return one_of(columns, compared, place)


def check_titles(titles: Iterable[str], place: str) -> None:
    """Refuse titles of columns that stand for two things."""
    for title, times in Counter(titles).items():
        if times > 1:
            raise InputError(f"{place}: {title}: names {times} columns of the table; allowed: each name once")


def check_files(names: Iterable[str], place: str) -> None:
    """Refuse pictures and tables whose files cannot be written, or would be written over."""
    for name, times in Counter(names).items():
        if times > 1:
            raise InputError(
                f"{place}: {times} pictures or tables have the file name {name}; give labels and titles "
                "that differ in letters or digits"
            )
        if len(os.fsencode(name)) > _LONGEST_NAME:
            raise InputError(f"{place}: the file name {name:.60}… is too long; give shorter labels")


def check_metric(key: str, summary: Mapping[str, Any], place: str) -> None:
    """Refuse a key that no summary has, or that is no number in it.

    Parameters
    ----------
    key
        Dotted; with ``?``, summaries may lack it.
    summary
        Of a run without jobs; a part of it that is empty or None may hold anything.
    place
        What the message begins with.
    """
    value: Any = summary
    for part in key.removesuffix("?").split("."):
        if value is None or value == {}:
            return
        if not isinstance(value, Mapping) or part not in value:
            if key.endswith("?"):
                return
            hint = nearest(part, list(value)) if isinstance(value, Mapping) else ""
            raise InputError(
                f"{place}: {key}: not in the summary of a run;{hint} `mlsim list metrics` has all"
            )
        value = value[part]
    if value not in (None, {}) and not isinstance(value, int | float):
        allowed = ", ".join(f"{key}.{part}" for part in value) if isinstance(value, Mapping) else "numbers"
        raise InputError(f"{place}: {key} is {type(value).__name__}, no number; allowed: {allowed}")


def some_points(points: Iterable[Point], place: str) -> list[Point]:
    """Return the combinations of a study, of which there must be one."""
    found = list(points)
    if not found:
        raise InputError(f"{place}: leaves no combination; take an entry away")
    return found
