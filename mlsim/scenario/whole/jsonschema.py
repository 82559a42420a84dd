"""The JSON schema of scenario files, for editors and other programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from mlsim.scenario.values.meanings import meaning
from mlsim.scenario.values.section import Section, field_kind, field_section
from mlsim.scenario.whole.schema import Scenario

__all__ = ["json_schema"]


def json_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a scenario file.

    Values with a unit may be numbers or texts. What the schema cannot say, such as which keys exclude each
    other, is checked when the file is read.
    """
    schema = Scenario.model_json_schema()
    for section in _sections(Scenario):
        part = schema if section is Scenario else schema["$defs"][section.__name__]
        for name, field in section.model_fields.items():
            _tidy(part["properties"][field.alias or name], field, meaning(section, name))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def _sections(section: type[Section]) -> Iterator[type[Section]]:
    yield section
    for field in section.model_fields.values():
        inner, _ = field_section(field)
        if inner is not None:
            yield from _sections(inner)


def _tidy(part: dict[str, Any], field: FieldInfo, description: str) -> None:
    """Write the default as a file would; there is none where the description says what holds."""
    if description:
        rest = part | {"description": description}
        part.clear()
        part.update(sorted(rest.items()))
    kind = field_kind(field)
    part.pop("title", None)
    default = part.pop("default", None)
    if kind is not None and default is not None:
        part["default"] = kind.show(field.default)
