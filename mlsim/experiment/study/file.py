"""Study files: read as plain mappings, their keys and words checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlsim._files import expanded, is_directory, is_there, read_text
from mlsim.errors import InputError
from mlsim.experiment.study.axes import Axis
from mlsim.scenario.files.source import parse_text
from mlsim.scenario.values.field_types import Text
from mlsim.scenario.values.hints import nearest

__all__ = ["KEYS", "KINDS", "entries", "file_of", "file_text", "mapping", "one_of"]

KINDS = ("loops", "runs", "weeks")
"""What a study may be of; loops where it does not say."""

_COMMON = (
    *("of", "name", "description", "base", "vary", "search", "set", "without", "columns", "repetitions"),
    *("metrics", "relative", "reference", "pictures", "formats", "interval", "trim", "keep", "timeout"),
)
KEYS = {
    "loops": (*_COMMON, "timelines"),
    "runs": _COMMON,
    "weeks": tuple(key for key in _COMMON if key != "keep"),
}
"""What the file of a study may have, by what it is of."""


def file_of(path: str | Path) -> Path:
    """Return the study file of a path: itself, or ``study.yaml`` in a directory."""
    place = expanded(path)
    return place / "study.yaml" if is_directory(place) else place


def file_text(file: Path) -> str:
    """Read a file that belongs to a study.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    try:
        return read_text(file, "study")
    except InputError as error:
        if is_there(file):
            raise
        raise InputError(f"{error}; a study is a directory with study.yaml") from error


def _is_varied_key(key: tuple[str | int, ...]) -> bool:
    """Return whether it is a key of the scenario, below a label: an empty one has its default."""
    return len(key) == 4 and key[0] == "vary"


def mapping(text: str, file: Path) -> dict[str, Any]:
    """Read the keys of a study; ``of`` is among them then.

    Parameters
    ----------
    text, file
        The study file, and its name.

    Raises
    ------
    InputError
        If it is no mapping, has other keys, or lacks one; the message names the line.
    """
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

    Parameters
    ----------
    value
        Of the key.
    axes
        Of the study.
    place
        What messages begin with.
    parts
        Whether axes that others were made of may be named too.

    Raises
    ------
    InputError
        If it has another shape, or an axis or a label does not exist; the message begins with ``place``.
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
    """Return a word after checking that it is among those allowed.

    Raises
    ------
    InputError
        If it is not; the message begins with ``place`` and names a near one.
    """
    if word not in allowed:
        hint = nearest(str(word), list(allowed))
        raise InputError(f"{place}: {word!r} is not known;{hint} allowed: {', '.join(allowed)}")
    return str(word)
