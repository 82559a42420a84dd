"""The JSON schemas of study and loop files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mlsim.experiment.loops import LEFT_ASIDE
from mlsim.experiment.study.axes import ALL_WEEKS, SAMPLES, SCALES
from mlsim.experiment.study.search_file import NOT_WITH_SEARCH, search_schema
from mlsim.experiment.study.study_file import KEYS
from mlsim.experiment.study.study_model import FORMATS, PICTURE_KEYS
from mlsim.experiment.study.study_store import KEEP
from mlsim.experiment.study.study_tables import INTERVALS
from mlsim.scenario import dotted_keys, json_schema
from mlsim.scenario.field_types import literal

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(kind: str) -> dict[str, Any]:
    """Return the JSON schema of a kind of file: scenario, loop or study."""
    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "scenario": json_schema,
        "loop": loop_schema,
        "study": study_schema,
    }
    return makers[kind]()


def loop_schema() -> dict[str, Any]:
    """Return the schema of what ``mlsim loop``, ``mlsim mpi run`` and studies of loops read.

    It is that of a scenario without the sections that a loop alone leaves aside; they may be there.
    """
    schema = json_schema()
    for section in LEFT_ASIDE:
        schema["properties"][section] = {"description": "Left aside by a loop alone."}
    schema["required"] = [key for key in schema["required"] if key not in LEFT_ASIDE]
    return schema | {"title": "Loop", "description": "A loop alone, on a whole machine."}


def study_schema() -> dict[str, Any]:
    """Return the schema of ``study.yaml``, of loops, of runs and of weeks."""
    parts = _parts()
    loops = _mapping({key: parts[key] for key in KEYS["loops"]}, ["base"]) | _compares_or_searches()
    loops["properties"]["of"] = {"const": "loops", "description": parts["of"]["description"]}
    runs, weeks = (
        _mapping({key: parts[key] for key in KEYS[kind]}, ["of", "base"]) | _compares_or_searches()
        for kind in ("runs", "weeks")
    )
    runs["properties"]["of"] = {"const": "runs", "description": parts["of"]["description"]}
    weeks["properties"]["of"] = {"const": "weeks", "description": parts["of"]["description"]}
    return {
        "$schema": _DRAFT,
        "title": "Study",
        "description": "A loop, or a scenario, under every combination of some choices.",
        "type": "object",
        "if": {"properties": {"of": {"const": "runs"}}, "required": ["of"]},
        "then": runs,
        "else": {
            "if": {"properties": {"of": {"const": "weeks"}}, "required": ["of"]},
            "then": weeks,
            "else": loops,
        },
        "$defs": {"Overrides": _overrides(), "Combination": _combination()},
    }


def _mapping(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _compares_or_searches() -> dict[str, Any]:
    """Return what holds of a study with ``search``, and of one without."""
    return {
        "if": {"required": ["search"]},
        "then": {"not": {"anyOf": [{"required": [key]} for key in NOT_WITH_SEARCH]}},
        "else": {"required": ["vary"]},
    }


def _key_pattern() -> str:
    """Return the pattern of the keys of a scenario, dotted; places in lists are numbers."""
    keys = [re.sub(r"\bN\b", "[0-9]+", literal(key)).replace(r"\*", ".+") for key in dotted_keys()]
    return f"^({'|'.join(keys)})$"


def _overrides() -> dict[str, Any]:
    return {
        "description": "Keys of a scenario, dotted, with their values; an empty value means the default.",
        "type": "object",
        "propertyNames": {"pattern": _key_pattern()},
    }


def _combination() -> dict[str, Any]:
    label = {"type": ["string", "number", "boolean"]}
    return {
        "description": "Axes, each with a label or a list of labels.",
        "type": "object",
        "additionalProperties": {"anyOf": [label, {"type": "array", "items": label}]},
    }


def _parts() -> dict[str, dict[str, Any]]:
    text, line = {"type": "string"}, {"type": "string", "minLength": 1}
    combination, overrides = {"$ref": "#/$defs/Combination"}, {"$ref": "#/$defs/Overrides"}
    labels = {"type": "object", "minProperties": 1, "additionalProperties": overrides}
    values = {"type": "array", "minItems": 1}
    combinations = {"type": "array", "items": combination}
    parts: dict[str, dict[str, Any]] = {
        "of": {"description": "What is simulated: loops (default), runs, or weeks of a log."},
        "name": text | {"description": "Name of the study. Default: that of its directory."},
        "description": text | {"description": "What the study shows."},
        "base": line | {"description": "The file that is varied, beside this one."},
        "vary": {
            "description": "Axes: a dotted key with a list of values, or a name with labels, each of which "
            "sets some keys.",
            "type": "object",
            "minProperties": 1,
            "properties": {
                "seeds": {"description": "How many: 1 to this number.", "type": "integer", "minimum": 1},
                "weeks": {
                    "description": "Weeks of the log, each alone, such as 28-64; all: every one with jobs.",
                    "type": "string",
                    "pattern": f"^({ALL_WEEKS}|(0|[1-9][0-9]{{0,5}}) *- *(0|[1-9][0-9]{{0,5}}))$",
                },
                "cases": {
                    "description": "Keys that are taken together.",
                    "anyOf": [{"type": "array", "minItems": 1, "items": overrides}, labels],
                },
            },
            "patternProperties": {_key_pattern(): {"anyOf": [values, labels, _files(), _sample()]}},
            "additionalProperties": {"anyOf": [labels, _files(), _joint_sample(), _template()]},
        },
        "set": overrides | {"description": "Keys of every run; {axis} in a text is the run's label."},
        "without": combinations | {"description": "Combinations to leave out."},
        "columns": line | {"description": "The axis that stands side by side. Default: the last."},
        "repetitions": {
            "description": "The axis that tables show the mean over, or several.",
            "anyOf": [line, {"type": "array", "minItems": 1, "items": line}],
        },
        "metrics": {
            "description": "Titles in the tables, each with a key of summary.json.",
            "type": "object",
            "minProperties": 1,
            "additionalProperties": line,
        },
        "relative": combination | {"description": "The first metric is also divided by this one's."},
        "reference": line | {"description": "CSV of what others measured, beside this file."},
        "interval": {
            "description": "How intervals of means are found. Default: bootstrap.",
            "enum": list(INTERVALS),
        },
        "trim": {
            "description": "How many of the least and of the largest values of repetitions are left out of "
            "means and intervals. Default: 0.",
            "type": "integer",
            "minimum": 0,
        },
        "formats": {
            "description": "What pictures are written as. Default: png.",
            "anyOf": [
                {"enum": list(FORMATS)},
                {"type": "array", "minItems": 1, "items": {"enum": list(FORMATS)}},
            ],
        },
        "keep": {"description": "What the store keeps of every run.", "enum": list(KEEP)},
        "timeout": {
            "description": "Wall-clock time after which a run has failed, with a unit.",
            "type": ["string", "number"],
        },
        "timelines": combinations | {"description": "Combinations whose PEs are drawn over time."},
        "pictures": {
            "description": "What is drawn.",
            "type": "array",
            "items": {"anyOf": [_picture(kind, keys) for kind, keys in PICTURE_KEYS.items()]},
        },
    }
    parts["search"] = search_schema(parts["vary"], overrides)
    return parts


def _files() -> dict[str, Any]:
    pattern = {"type": "string", "minLength": 1, "description": "Pattern of files, such as logs/*.swf.gz."}
    return _mapping({"files": pattern}, ["files"])


def _template() -> dict[str, Any]:
    return {
        "description": "A text with the names of axes in braces, which this one stands in place of.",
        "type": "string",
        "pattern": r"\{.+\}",
    }


def _range_keys() -> dict[str, Any]:
    return {
        "from": {"type": "number"},
        "to": {"type": "number"},
        "scale": {"enum": list(SCALES)},
        "unit": {"type": "string", "description": "Put behind each value, such as s."},
    }


def _sample_keys() -> dict[str, Any]:
    return {
        "sample": {"enum": list(SAMPLES), "description": "How values are drawn."},
        "count": {"type": "integer", "minimum": 2},
        "seed": {"type": "integer", "minimum": 0, "description": "Of the draw. Default: 0."},
    }


def _sample() -> dict[str, Any]:
    return _mapping(_sample_keys() | _range_keys(), ["sample", "count", "from", "to"])


def _joint_sample() -> dict[str, Any]:
    ranges = {
        "description": "Keys that are drawn together, each with its range.",
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": _key_pattern()},
        "additionalProperties": _mapping(_range_keys(), ["from", "to"]),
    }
    return _mapping(_sample_keys() | {"of": ranges}, ["sample", "count", "of"])


def _picture(kind: str, keys: tuple[str, ...]) -> dict[str, Any]:
    axis = {"type": "string"}
    parts: dict[str, Any] = dict.fromkeys(("along", "lines", "panels", "metric"), axis)
    parts["where"] = {"$ref": "#/$defs/Combination"}
    parts["relative"] = {"type": "boolean"}
    parts["span"] = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
    needed = [key for key in ("lines", "along") if key in keys]
    return _mapping({"kind": {"const": kind}} | {key: parts[key] for key in keys}, ["kind", *needed])
