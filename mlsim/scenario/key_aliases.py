"""Other names of keys: earlier ones, which still work with a note, and the field's words for some of ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from mlsim.scenario.scenario_schema import Scenario
from mlsim.scenario.scenario_text import Path, Problem
from mlsim.scenario.section_base import Section, field_section, fields_by_key, holds_key, move_key, split_key


class KeyAlias(NamedTuple):
    """A key that has another name."""

    name: str
    """The other name, dotted."""
    key: str
    """The key, dotted."""
    old: bool
    """Whether it is an earlier name: using it prints a note."""


@cache
def key_aliases() -> tuple[KeyAlias, ...]:
    """List the other names of keys, as the sections declare them."""
    return tuple(_declared(Scenario, ""))


def _declared(section: type[Section], prefix: str) -> Iterator[KeyAlias]:
    for names, old in ((section.old_keys, True), (section.other_names, False)):
        for name, key in names.items():
            yield KeyAlias(prefix + name, prefix + key, old)
    for key, field in fields_by_key(section).items():
        inner, is_list = field_section(field)
        if inner is not None and not is_list:
            yield from _declared(inner, f"{prefix}{key}.")


def uses_aliases(value: Mapping[str, Any]) -> bool:
    """Whether a scenario's mapping names a key by another name."""
    return any(holds_key(value, split_key(alias.name)) for alias in key_aliases())


def rename_keys(value: dict[str, Any], lines: dict[Path, int], *, notes: bool) -> list[Problem]:
    """Rename aliases to key names, in place; return problems where both names are used.

    ``lines`` are the lines of the keys in the file, which move with them. With ``notes``, each old name is
    noted once per process.
    """
    problems = []
    for alias in key_aliases():
        name, key = split_key(alias.name), split_key(alias.key)
        if not holds_key(value, name):
            continue
        if not move_key(value, name, key):
            message = f"given together with {alias.key}, of which it is another name; take it out"
            problems.append(Problem(name, message))
            continue
        for path in [path for path in lines if path[: len(name)] == name]:
            lines[key + path[len(name) :]] = lines[path]
        if notes and alias.old:
            _note(alias)
    return problems


@cache
def _note(alias: KeyAlias) -> None:
    logging.getLogger("mlsim").warning("%s is now called %s; the old name still works", alias.name, alias.key)


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
            _noted(alias)
            key = alias.key + key.removeprefix(alias.name)
        elif alias.name.startswith(f"{key}.") and isinstance(value, dict):
            inside = split_key(alias.name.removeprefix(f"{key}."))
            if holds_key(value, inside):
                _noted(alias)
                value, part = _without(value, inside)
                apart.append((alias.key, part))
    yield key, value
    yield from apart


def _noted(alias: KeyAlias) -> None:
    if alias.old:
        _note(alias)


def _without(value: dict[str, Any], key: Path) -> tuple[dict[str, Any], object]:
    """Return a copy of a mapping without one key, and what stood there."""
    first, *rest = key
    if not rest:
        return {name: part for name, part in value.items() if name != first}, value[str(first)]
    inner, part = _without(value[str(first)], tuple(rest))
    return {**value, str(first): inner}, part
