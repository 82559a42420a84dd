"""Every key of a scenario file, with what it accepts, its default and its meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from mlsim.scenario.values.field_types import FieldType
from mlsim.scenario.values.meanings import meaning
from mlsim.scenario.values.plugins import PARAMETERS, CodeKind
from mlsim.scenario.values.section import Section, field_kind, field_section
from mlsim.scenario.whole.schema import Scenario

__all__ = ["Option", "dotted_keys", "options"]


class Option(NamedTuple):
    """One key."""

    key: str
    """Dotted; ``N`` stands for a place in a list, from 0."""
    allowed: str
    """What it accepts."""
    default: str
    """As a scenario file would write it; "needed" if there is none, empty if the description tells it."""
    description: str
    """Meaning, unit, and the source of the default."""
    named: bool = False
    """Whether its value is a mapping of names of the user's own."""
    code_key: str = ""
    """Where it may name code of the user's own, the key of that name beside ``parameters``; else empty."""


def options() -> list[Option]:
    """List every key that holds a value, in the order of the reference page."""
    return list(_walk(Scenario, ""))


def dotted_keys() -> list[str]:
    """List every key that can be set: those of :func:`options`, and the sections and lists around them.

    ``*`` at the end stands for a name of the user's, as of a resource.
    """
    found: dict[str, None] = {}
    for option in options():
        parts = option.key.split(".")
        found |= dict.fromkeys(".".join(parts[: end + 1]) for end in range(len(parts)))
        if option.named:
            found[f"{option.key}.*"] = None
        if option.code_key:
            own = (option.code_key, PARAMETERS, f"{PARAMETERS}.*")
            found |= dict.fromkeys(f"{option.key}.{part}" for part in own)
    return list(found)


def _walk(section: type[Section], prefix: str) -> Iterator[Option]:
    for name, field in section.model_fields.items():
        key = field.alias or name
        inner, is_list = field_section(field)
        kind = field_kind(field)
        if kind is not None:
            default = default_text(field, kind)
            named = kind.json().get("type") == "object"
            code_key = kind.key if isinstance(kind, CodeKind) else ""
            yield Option(prefix + key, kind.allowed, default, meaning(section, name), named, code_key)
        elif inner is not None:
            yield from _walk(inner, f"{prefix}{key}.{'N.' * is_list}")


def default_text(field: FieldInfo, kind: FieldType[Any]) -> str:
    """Write the default of a key as a scenario file would."""
    if field.is_required():
        return "needed"
    if field.default_factory is not None or field.default is None:
        return ""
    if isinstance(field.default, bool):
        return "on" if field.default else "off"
    return str(kind.show(field.default)) or "''"
