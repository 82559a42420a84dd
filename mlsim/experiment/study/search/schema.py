"""The JSON schema of ``search:`` in study files."""

from __future__ import annotations

from typing import Any

from mlsim.experiment.study.search.model import AVERAGES, METHOD_KEYS

__all__ = ["search_schema"]


def search_schema(axes: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Return the schema.

    Parameters
    ----------
    axes
        That of ``vary``.
    overrides
        That of keys of a scenario with values.
    """
    number, count = {"type": "number"}, {"type": "integer", "minimum": 1}
    line = {"type": "string", "minLength": 1}
    span = {
        "type": "object",
        "properties": {
            "from": number,
            "to": number,
            "scale": {"enum": ["linear", "log"]},
            "integer": {"type": "boolean"},
        },
        "required": ["from", "to"],
        "additionalProperties": False,
    }
    labels = {
        "type": "object",
        "minProperties": 2,
        "not": {"anyOf": [{"required": ["from"]}, {"required": ["to"]}]},
        "additionalProperties": overrides,
    }
    choices = {"anyOf": [span, {"type": "array", "minItems": 2}, labels]}
    numbers = {"type": "object", "additionalProperties": number}
    properties: dict[str, Any] = {
        "minimise": line | {"description": "Key of summary.json that is to be small."},
        "maximise": line | {"description": "Key of summary.json that is to be large."},
        "over": {
            "description": "Parameters: a dotted key, or a name in braces in set, with a range or choices.",
            "type": "object",
            "minProperties": 1,
            "additionalProperties": choices,
        },
        "method": {"description": "What chooses candidates.", "enum": list(METHOD_KEYS)},
        "average": {"description": "Of a candidate's values over repetitions.", "enum": list(AVERAGES)},
        "relative": line | {"description": "Baseline whose value values are divided by."},
        "validate": axes | {"description": "Axes as in vary, with repetitions that the search does not see."},
        "baselines": {
            "description": "What the best candidate is compared with: labels, each with keys.",
            "type": "object",
            "additionalProperties": overrides,
        },
        "evaluations": count | {"description": "How many candidates are tried."},
        "seed": {"description": "Of the method.", "type": "integer", "minimum": 0},
        "points": {
            "description": "Of a grid: how many values of each range.",
            "anyOf": [count, {"type": "object", "additionalProperties": count}],
        },
        "population": count | {"description": "Candidates that are asked for at a time."},
        "sigma": {
            "description": "First standard deviation of cma-es, in lengths of the ranges.",
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 1,
        },
        "start": numbers | {"description": "First mean of cma-es, by parameter. Default: the middle."},
    }
    return {
        "description": "Searches for the least or largest value of a metric, in place of comparing.",
        "type": "object",
        "properties": properties,
        "required": ["over", "method"],
        "oneOf": [{"required": ["minimise"]}, {"required": ["maximise"]}],
        "allOf": [_own(method, keys) for method, keys in METHOD_KEYS.items()],
        "additionalProperties": False,
    }


def _own(method: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return what holds with one method: which keys it needs, and that those of others are not there."""
    others = sorted({key for own in METHOD_KEYS.values() for key in own} - set(keys))
    return {
        "if": {"properties": {"method": {"const": method}}},
        "then": {
            "required": ["points"] if method == "grid" else ["evaluations"],
            "not": {"anyOf": [{"required": [key]} for key in others]},
        },
    }
