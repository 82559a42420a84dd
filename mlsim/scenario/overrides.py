"""Values given beside the scenario file: ``--set batch.policy=SAF``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mlsim.errors import InputError
from mlsim.scenario.key_aliases import renamed_overrides
from mlsim.scenario.plugin_names import PARAMETERS, CodeKind, PluginList
from mlsim.scenario.scenario_problems import look_up, unknown_key
from mlsim.scenario.scenario_text import Path, Problem, parse_value_text
from mlsim.scenario.section_base import field_kind, split_key
from mlsim.scenario.unit_types import shown


def parse_override(text: str) -> tuple[str, object]:
    """Split ``key=value``; the value is read as in a scenario file.

    Parameters
    ----------
    text
        A dotted key, ``=``, and a YAML scalar, list or mapping. Places in lists are numbers from 0. An empty
        value means the key's default.

    Raises
    ------
    InputError
        If there is no key or no ``=``, or the value is not YAML.

    Examples
    --------
    >>> parse_override("platform.nodes.0.count=8")
    ('platform.nodes.0.count', 8)
    >>> parse_override("application.costs={profile: constant, mean: 2 ms}")
    ('application.costs', {'profile': 'constant', 'mean': '2 ms'})
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not all(key.split(".")):
        raise InputError(f"--set {text}: expected KEY=VALUE, e.g. --set batch.policy=SAF")
    return key, parse_value_text(value, f"--set {key}")


def parse_overrides(texts: Iterable[str]) -> dict[str, object]:
    """Split several ``key=value``; of one key given twice, the last counts. See :func:`parse_override`.

    Other names of keys become their own.
    """
    return renamed_overrides(dict(map(parse_override, texts)))


def apply_overrides(
    value: dict[str, Any], overrides: Mapping[str, object]
) -> tuple[dict[Path, str], list[Problem]]:
    """Set dotted keys in a scenario's plain mappings, in order and in place; None resets to the default.

    Return the overridden keys with their texts, and the problems.
    """
    given: dict[Path, str] = {}
    problems = []
    for text, new in overrides.items():
        key = split_key(text)
        given[key] = text
        if not key:
            message = "empty key; expected one such as batch.policy"
        else:
            message = _put(value, key, new) if new is not None else _take_out(value, key)
        if message:
            problems.append(Problem(key, message))
    return given, problems


def _put(value: dict[str, Any], key: Path, new: object) -> str:
    """Set one override; return an error message or an empty text."""
    _open_code(value, key)
    place: Any = value
    for depth, part in enumerate(key):
        name = ".".join(map(str, key[:depth])) or "the scenario"
        if isinstance(place, list):
            if not isinstance(part, int) or part >= len(place):
                return f"{name} is a list of {len(place)}; allowed: {name}.0 to {name}.{len(place) - 1}"
        elif isinstance(place, dict):
            part = str(part)
        else:
            return f"{name} is {shown(place)} and holds no keys"
        if depth == len(key) - 1:
            place[part] = new
        elif isinstance(place, dict):
            place = place.setdefault(part, {})
        else:
            place = place[part]
    return ""


def _code_kind(key: Path) -> tuple[Path, CodeKind] | None:
    """Return the key of the name of code that a key is about the parameters of, and its kind."""
    for depth in (place for place, part in enumerate(key) if part == PARAMETERS and place):
        named = key[:depth]
        _, field = look_up(named[:-1] if isinstance(named[-1], int) else named)
        kind = None if field is None else field_kind(field)
        if isinstance(kind, PluginList) and isinstance(named[-1], int):
            return named, kind.each
        if isinstance(kind, CodeKind):
            return named, kind
    return None


def _open_code(value: dict[str, Any], key: Path) -> None:
    """Write the plain name of code as a mapping, where a key is about its parameters."""
    found = _code_kind(key)
    if found is None:
        return
    (*above, last), kind = found
    place: Any = value
    for part in above:
        if not _holds(place, part):
            return
        place = place[part]
    if _holds(place, last) and isinstance(place[last], str):
        place[last] = {kind.key: place[last]}


def _holds(place: object, part: str | int) -> bool:
    """Whether a mapping has a key, or a list has an index."""
    if isinstance(place, list):
        return isinstance(part, int) and part < len(place)
    return isinstance(place, dict) and part in place


def _take_out(value: dict[str, Any], key: Path) -> str:
    """Reset one key to its default; return an error message or an empty text."""
    _, field = look_up(key)
    if field is None and _code_kind(key) is None:
        return unknown_key(key)
    place: Any = value
    for part in key[:-1]:
        if not _holds(place, part):
            return ""
        place = place[part]
    if isinstance(place, dict):
        place.pop(key[-1], None)
    return ""
