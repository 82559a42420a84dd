"""Keys given in other ways: by other names, such as earlier ones, and beside the file by ``--set``."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from mlsim.errors import InputError
from mlsim.scenario import section_base
from mlsim.scenario.plugin_names import PARAMETERS, CodeList, CodeType
from mlsim.scenario.scenario_problems import look_up, unknown_key
from mlsim.scenario.scenario_schema import Scenario
from mlsim.scenario.scenario_text import Path, Problem, parse_value_text
from mlsim.scenario.unit_types import shown


def parse_override(text: str) -> tuple[str, object]:
    """Split ``key=value``, a dotted key and a YAML scalar, list or mapping; InputError for anything else.

    Places in lists are numbers from 0. An empty value means the key's default.

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
    """Split several ``key=value``; the last of a key counts, and other names of keys become their own."""
    return renamed_overrides(dict(map(parse_override, texts)))


def apply_overrides(
    value: dict[str, Any], overrides: Mapping[str, object]
) -> tuple[dict[Path, str], list[Problem]]:
    """Set dotted keys in plain mappings, in place (None: reset); return their texts, and problems."""
    given: dict[Path, str] = {}
    problems = []
    for text, new in overrides.items():
        key = section_base.split_key(text)
        given[key] = text
        message = "empty key; expected one such as batch.policy"
        if key:
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


def _code_kind(key: Path) -> tuple[Path, CodeType] | None:
    """Return the key of the name of code that a key is about the parameters of, and its kind."""
    for depth in (place for place, part in enumerate(key) if part == PARAMETERS and place):
        named = key[:depth]
        _, field = look_up(named[:-1] if isinstance(named[-1], int) else named)
        kind = None if field is None else section_base.field_kind(field)
        if isinstance(kind, CodeList) and isinstance(named[-1], int):
            return named, kind.each
        if isinstance(kind, CodeType):
            return named, kind
    return None


def _open_code(value: dict[str, Any], key: Path) -> None:
    """Write the plain name of code as a mapping, where a key is about its parameters."""
    found = _code_kind(key)
    if found is None:
        return
    (*above, last), kind = found
    place = _at(value, tuple(above))
    if _holds(place, last) and isinstance(place[last], str):
        place[last] = {kind.key: place[last]}


def _at(value: Any, key: Path) -> Any:
    """Return what nested mappings and lists hold at a key; None where there is nothing."""
    for part in key:
        if not _holds(value, part):
            return None
        value = value[part]
    return value


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
    place = _at(value, key[:-1])
    if isinstance(place, dict):
        place.pop(key[-1], None)
    return ""


class KeyAlias(NamedTuple):
    """A key that has another name."""

    name: str  # the other name, dotted
    key: str  # dotted
    old: bool  # whether it is an earlier name: using it prints a note


@cache
def key_aliases() -> tuple[KeyAlias, ...]:
    """List the other names of keys, as the sections declare them."""
    return tuple(_declared(Scenario, ""))


def _declared(section: type[section_base.Section], prefix: str) -> Iterator[KeyAlias]:
    for names, old in ((section.old_keys, True), (section.other_names, False)):
        for name, key in names.items():
            yield KeyAlias(prefix + name, prefix + key, old)
    for key, field in section_base.fields_by_key(section).items():
        inner, is_list = section_base.field_section(field)
        if inner is not None and not is_list:
            yield from _declared(inner, f"{prefix}{key}.")


def uses_aliases(value: Mapping[str, Any]) -> bool:
    """Whether a scenario's mapping names a key by another name."""
    return any(section_base.holds_key(value, section_base.split_key(alias.name)) for alias in key_aliases())


def rename_keys(value: dict[str, Any], lines: dict[Path, int], *, notes: bool) -> list[Problem]:
    """Rename aliases to key names, in place; return problems where both names are used.

    ``lines`` of keys in the file move with them. With ``notes``, each old name is noted once per process.
    """
    problems = []
    for alias in key_aliases():
        name, key = section_base.split_key(alias.name), section_base.split_key(alias.key)
        if not section_base.holds_key(value, name):
            continue
        if not section_base.move_key(value, name, key):
            message = f"given together with {alias.key}, of which it is another name; take it out"
            problems.append(Problem(name, message))
            continue
        for path in [path for path in lines if path[: len(name)] == name]:
            lines[key + path[len(name) :]] = lines[path]
        if notes:
            _note(alias)
    return problems


@cache
def _note(alias: KeyAlias) -> None:
    if alias.old:
        logger = logging.getLogger("mlsim")
        logger.warning("%s is now called %s; the old name still works", alias.name, alias.key)


def renamed_overrides(overrides: Mapping[str, object]) -> dict[str, object]:
    """Return overrides in which every key, also inside a value, has its own name; the order stays."""
    found: dict[str, object] = {}
    for key, value in overrides.items():
        for name, part in _renamed(key, value):
            found.pop(name, None)
            found[name] = part
    return found


def _renamed(key: str, value: object) -> Iterator[tuple[str, object]]:
    apart: list[tuple[str, object]] = []
    for alias in key_aliases():
        if key == alias.name or key.startswith(f"{alias.name}."):
            _note(alias)
            key = alias.key + key.removeprefix(alias.name)
        elif alias.name.startswith(f"{key}.") and isinstance(value, dict):
            inside = section_base.split_key(alias.name.removeprefix(f"{key}."))
            if section_base.holds_key(value, inside):
                _note(alias)
                value, part = _without(value, inside)
                apart.append((alias.key, part))
    yield key, value
    yield from apart


def _without(value: dict[str, Any], key: Path) -> tuple[dict[str, Any], object]:
    """Return a copy of a mapping without one key, and what stood there."""
    first, *rest = key
    if not rest:
        return {name: part for name, part in value.items() if name != first}, value[str(first)]
    inner, part = _without(value[str(first)], tuple(rest))
    return {**value, str(first): inner}, part
