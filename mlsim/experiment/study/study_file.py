"""Study files: keys, words, and checks across them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlsim._files import expanded, is_directory, is_there, read_text
from mlsim.errors import InputError
from mlsim.experiment.study.axes import Axis, Point
from mlsim.scenario.field_types import Text
from mlsim.scenario.scenario_text import parse_text
from mlsim.scenario.unit_types import nearest

KINDS = ("loops", "runs", "weeks")
"""The subjects of studies; loops by default."""

_COMMON = (
    *("of", "name", "description", "base", "vary", "search", "set", "without", "columns", "repetitions"),
    *("metrics", "relative", "reference", "pictures", "formats", "interval", "trim", "keep", "timeout"),
)
KEYS = {
    "loops": (*_COMMON, "timelines"),
    "runs": _COMMON,
    "weeks": tuple(key for key in _COMMON if key != "keep"),
}
"""Allowed keys, by subject."""


def file_of(path: str | Path) -> Path:
    """Return the study file of a path: itself, or ``study.yaml`` in a directory."""
    place = expanded(path)
    return place / "study.yaml" if is_directory(place) else place


def file_text(file: Path) -> str:
    """Read a file that belongs to a study."""
    try:
        return read_text(file, "study")
    except InputError as error:
        if is_there(file):
            raise
        raise InputError(f"{error}; a study is a directory with study.yaml") from error


def _is_varied_key(key: tuple[str | int, ...]) -> bool:
    """Whether it is a key of the scenario below a label of ``vary``: an empty one has its default."""
    return len(key) == 4 and key[0] == "vary"


def mapping(text: str, file: Path) -> dict[str, Any]:
    """Read the keys of a study file, with ``of``; errors name the line."""
    document = parse_text(text, str(file), _is_varied_key)
    for problem in document.problems:
        place = f"{file}:{problem.line}" if problem.line else str(file)
        raise InputError(f"{place}: {'.'.join(map(str, problem.key))}: {problem.message}")
    content = document.value
    if not isinstance(content, dict):
        raise InputError(f"{file}: a study is a mapping; its keys: {', '.join(_COMMON)}")
    kind = one_of(content.setdefault("of", KINDS[0]), KINDS, f"{file}: of")
    keys = KEYS[kind]
    for key in content:
        if key not in keys:
            hint = nearest(str(key), list(keys))
            line = document.line_of((key,))
            raise InputError(f"{file}:{line}: {key}: unknown key;{hint} allowed: {', '.join(keys)}")
    for key in ("base", "vary"):
        if key not in content and (key == "base" or "search" not in content):
            raise InputError(
                f"{file}: {key}: missing; a study needs base (a scenario file) and vary, or search"
            )
    if "name" in content:
        try:
            Text(file_name=True).parse(content["name"])
        except ValueError as error:
            raise InputError(f"{file}:{document.line_of(('name',))}: name: {error}") from error
    return content


def entries(value: object, axes: Sequence[Axis], place: str, *, parts: bool = False) -> list[dict[str, Any]]:
    """Read a list of combinations, each a mapping of axes to a label or a list of labels.

    With ``parts``, axes that others were joined of may be named too. Messages begin with ``place``.
    """
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InputError(f"{place}: {value!r}; allowed: a list of mappings, e.g. [{{technique: SS}}]")
    labels: dict[str, list[str]] = {axis.name: list(axis.points) for axis in axes}
    for of in (of for axis in axes for of in axis.parts.values() if parts):
        for name, label in of.items():
            labels.setdefault(name, []).append(label)
    for entry in value:
        for name, wanted in entry.items():
            one_of(name, list(labels), place)
            for label in wanted if isinstance(wanted, list) else [wanted]:
                one_of(str(label), labels[name], f"{place}: {name}")
    return value


def one_of(word: object, allowed: Sequence[str], place: str) -> str:
    """Return a word that must be allowed; the message begins with ``place`` and suggests a similar one."""
    if word not in allowed:
        hint = nearest(str(word), list(allowed))
        raise InputError(f"{place}: {word!r} is not known;{hint} allowed: {', '.join(allowed)}")
    return str(word)


_LONGEST_NAME = 255


def check_name(name: object, place: str) -> str:
    """Return the name of a study, if it can be part of a directory's name."""
    text = str(name)
    if not text.strip() or not text.isprintable() or set(text) & set("/\\") or text in (".", ".."):
        raise InputError(f"{place}: {text!r:.80} cannot be used; allowed: a text without / and \\, not empty")
    return text


def side_by_side(columns: object, repetitions: str | None, axes: Sequence[Axis], place: str) -> str:
    """Return the axis of the columns: the requested one, or the last one that is compared.

    Tables show the mean over repetitions, which therefore cannot be columns.
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
    """Refuse duplicate titles of columns."""
    for title, times in Counter(titles).items():
        if times > 1:
            raise InputError(f"{place}: {title}: names {times} columns of the table; allowed: each name once")


def check_files(names: Iterable[str], place: str) -> None:
    """Refuse file names of pictures and tables that are too long or collide."""
    for name, times in Counter(names).items():
        if times > 1:
            raise InputError(
                f"{place}: {times} pictures or tables have the file name {name}; give labels and titles "
                "that differ in letters or digits"
            )
        if len(os.fsencode(name)) > _LONGEST_NAME:
            raise InputError(f"{place}: the file name {name:.60}… is too long; give shorter labels")


def check_metric(key: str, summary: Mapping[str, Any], place: str) -> None:
    """Refuse a dotted key that no summary has, or that is no number; with ``?``, summaries may lack it.

    ``summary`` is of a run without jobs; parts of it that are empty or None may hold anything.
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
    """Return the combinations of a study, at least one."""
    found = list(points)
    if not found:
        raise InputError(f"{place}: leaves no combination; take an entry away")
    return found
