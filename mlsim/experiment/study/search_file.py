"""The section ``search`` of a study file: reading, checks, JSON schema."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mlsim.errors import InputError
from mlsim.experiment.study.axes import Axis, Point, axes_of, points, words_of
from mlsim.experiment.study.search_methods import (
    AVERAGES,
    METHOD_KEYS,
    Choice,
    Options,
    Parameter,
    Range,
    Search,
    Value,
)
from mlsim.experiment.study.search_run import LABELS, names_any
from mlsim.experiment.study.study_file import check_metric, check_titles, one_of
from mlsim.experiment.study.study_model import Study
from mlsim.scenario import dotted_keys
from mlsim.scenario.unit_types import nearest

NOT_WITH_SEARCH = ("columns", "relative", "reference", "pictures", "timelines", "interval", "trim")
"""Keys that a study with a search does not have; its own intervals are by bootstrap."""
_OF_ALL = ("minimise", "maximise", "over", "method", "average", "relative", "validate", "baselines")
SEARCH_KEYS = (*_OF_ALL, *dict.fromkeys(key for keys in METHOD_KEYS.values() for key in keys))
_RANGE_KEYS = ("from", "to", "scale", "integer")
_SCALES = ("linear", "log")
_REPEATED = ("seed", "week")
"""Axes that are repetitions without being declared so."""
_MOST = 1_000_000
_SIGMA = 0.3


def read_search(
    content: Mapping[str, Any],
    axes: Sequence[Axis],
    metrics: Mapping[str, str],
    empty: Mapping[str, Any],
    file: str,
) -> Search:
    """Read the search of a study; ``axes`` are its repetitions, ``empty`` is a summary for its keys."""
    given, place = content["search"], f"{file}: search"
    if not isinstance(given, dict):
        raise InputError(f"{place}: {given!r:.80}; allowed: a mapping; its keys: {', '.join(SEARCH_KEYS)}")
    for key in given:
        one_of(key, SEARCH_KEYS, place)
    method = one_of(
        _needed(given, "method", ", ".join(METHOD_KEYS), place), list(METHOD_KEYS), f"{place}: method"
    )
    for key in set(given) - set(_OF_ALL) - set(METHOD_KEYS[method]):
        readers = [name for name, keys in METHOD_KEYS.items() if key in keys]
        raise InputError(f"{place}: {key}: {method} does not read it; read by {', '.join(readers)}")
    metric, maximise = _metric(given, empty, place)
    parameters = _parameters(
        _needed(given, "over", "{batch.weights.p: {from: -1, to: 1}}", place), f"{place}: over"
    )
    kept = _kept_axes(content, axes, file)
    common = _common(content, axes, parameters, file)
    _check_names(parameters, axes, file)
    options = _options(given, method, parameters, place)
    baselines = _baselines(given.get("baselines", {}), f"{place}: baselines")
    relative = given.get("relative", "")
    if relative != "":
        relative = one_of(str(relative), list(baselines), f"{place}: relative")
    repetitions = list(points(axes, content.get("without", [])))
    if not repetitions:
        raise InputError(f"{file}: without: leaves no repetition; take an entry away")
    held_out = _held_out(given, axes, repetitions, baselines, place)
    return Search(
        metric=metric,
        title=next((title for title, key in metrics.items() if key == metric), metric),
        maximise=maximise,
        average=one_of(given.get("average", AVERAGES[0]), AVERAGES, f"{place}: average"),
        relative=relative,
        parameters=parameters,
        method=method,
        options=options,
        repetitions=repetitions,
        held_out=held_out,
        baselines=baselines,
        common=common,
        kept_axes=kept,
    )


def _needed(given: Mapping[str, Any], key: str, allowed: str, place: str) -> Any:
    if key not in given:
        raise InputError(f"{place}: {key}: missing; allowed: {allowed}")
    return given[key]


def _metric(given: Mapping[str, Any], empty: Mapping[str, Any], place: str) -> tuple[str, bool]:
    """Return the key of the metric, and whether it is maximised."""
    asked = [key for key in ("minimise", "maximise") if key in given]
    if len(asked) != 1:
        found = "both are there" if asked else "missing"
        raise InputError(
            f"{place}: minimise, maximise: {found}; allowed: one of them, with a key of summary.json, "
            "e.g. minimise: bounded_slowdown.mean"
        )
    metric = given[asked[0]]
    if not isinstance(metric, str):
        raise InputError(f"{place}: {asked[0]}: {metric!r:.80}; allowed: a key of summary.json")
    if metric.startswith("self."):
        raise InputError(
            f"{place}: {asked[0]}: {metric}: is measured of the tool itself, and differs from run to run; "
            "allowed: metrics of what is simulated"
        )
    check_metric(metric, empty, f"{place}: {asked[0]}")
    return metric, asked[0] == "maximise"


def _parameters(value: object, place: str) -> list[Parameter]:
    if not isinstance(value, dict) or not value:
        raise InputError(
            f"{place}: {value!r:.80}; allowed: a mapping of parameters, each with a range or choices, e.g. "
            "{batch.weights.p: {from: -1, to: 1}}"
        )
    return [_parameter(str(name), points, f"{place}: {name}") for name, points in value.items()]


def _parameter(name: str, value: object, place: str) -> Parameter:
    if not isinstance(value, dict) or not set(value) & {"from", "to"}:
        (axis,) = axes_of({name: value}, place.rsplit(":", 1)[0])
        if len(axis.points) < 2:
            raise InputError(f"{place}: is one choice; allowed: two or more, or a range {{from: 1, to: 9}}")
        return Choice(axis.name, axis.points)
    for key in value:
        one_of(key, _RANGE_KEYS, place)
    low, high = (_limit(value, key, place) for key in ("from", "to"))
    scale = one_of(value.get("scale", _SCALES[0]), _SCALES, f"{place}: scale")
    integer = value.get("integer", False)
    if not isinstance(integer, bool):
        raise InputError(f"{place}: integer: {integer!r:.80}; allowed: true, false")
    if low >= high:
        raise InputError(f"{place}: from {low:g} to {high:g}: is empty; allowed: from less than to")
    if scale == "log" and low <= 0:
        raise InputError(f"{place}: from {low:g}: has no logarithm; allowed with scale log: more than 0")
    if integer and (not low.is_integer() or not high.is_integer()):
        raise InputError(
            f"{place}: from {low:g} to {high:g}: integer, and its limits are not; allowed: whole numbers"
        )
    return Range(name.split(".")[-1], name if "." in name else "", low, high, scale == "log", integer)


def _limit(value: Mapping[str, Any], key: str, place: str) -> float:
    limit = value.get(key)
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not math.isfinite(limit):
        found = "missing" if key not in value else f"{limit!r:.80}"
        raise InputError(
            f"{place}: {key}: {found}; allowed: a number; for one with a unit, name the number (over: "
            '{lag: {from: 1, to: 9}}) and give the unit in set ({platform.network.latency: "{lag} us"})'
        )
    return float(limit)


def _kept_axes(content: Mapping[str, Any], axes: Sequence[Axis], file: str) -> list[str]:
    """Return the axes other than seeds and weeks, each of which must be declared as a repetition."""
    named = content.get("repetitions", [])
    names = [str(name) for name in (named if isinstance(named, list) else [named])]
    for name in names:
        one_of(name, [axis.name for axis in axes], f"{file}: repetitions")
    for axis in axes:
        if axis.name not in (*_REPEATED, *names):
            raise InputError(
                f"{file}: vary: {axis.name}: is not known to be a repetition; with search every candidate is "
                f"evaluated on all of vary: allowed are seeds, weeks, and what repetitions names "
                f"(repetitions: {axis.name}); what is to be found belongs in search: over"
            )
    return [axis.name for axis in axes if axis.name not in _REPEATED]


def _common(
    content: Mapping[str, Any], axes: Sequence[Axis], parameters: Sequence[Parameter], file: str
) -> Mapping[str, object]:
    """Return the keys of all runs; every parameter without a key of its own must be named in one of them."""
    common = content.get("set", {})
    if not isinstance(common, dict):
        raise InputError(f"{file}: set: {common!r:.80}; allowed: a mapping of keys to values")
    allowed = [*(parameter.name for parameter in parameters), *(axis.name for axis in axes)]
    for key, value in common.items():
        if not isinstance(value, str):
            continue
        try:
            value.format_map(dict.fromkeys(allowed, ""))
        except (KeyError, ValueError, IndexError) as error:
            words = ", ".join(f"{{{name}}}" for name in allowed)
            raise InputError(
                f"{file}: set: {key}: {error}: is no parameter or axis; allowed in braces: {words}"
            ) from error
    for parameter in parameters:
        own = isinstance(parameter, Range) and parameter.key
        if isinstance(parameter, Choice) or own:
            continue
        if not any(names_any(value, [parameter.name]) for value in common.values()):
            hint = nearest(parameter.name, [key for key in dotted_keys() if "." in key])
            raise InputError(
                f"{file}: search: over: {parameter.name}: sets nothing;{hint} allowed: a dotted key of the "
                f"scenario, or a name that a text of set has in braces, e.g. set: "
                f'{{platform.network.latency: "{{{parameter.name}}} us"}}'
            )
    return common


def _check_names(parameters: Sequence[Parameter], axes: Sequence[Axis], file: str) -> None:
    names = [*LABELS, *(parameter.name for parameter in parameters), *(axis.name for axis in axes)]
    check_titles([*names, "objective", "failed"], f"{file}: search: over")
    keys = {key for axis in axes for overrides in axis.points.values() for key in overrides}
    for parameter in parameters:
        own = {key for value in parameter.probes() for key in parameter.overrides(value)}
        if own & keys:
            raise InputError(
                f"{file}: search: over: {parameter.name}: sets {min(own & keys)}, as an axis of vary does; "
                "allowed: each key once"
            )


def _options(given: Mapping[str, Any], method: str, parameters: Sequence[Parameter], place: str) -> Options:
    steps = _points(given.get("points"), parameters, f"{place}: points") if method == "grid" else []
    size = math.prod(steps)
    if method == "grid":
        evaluations = _count(given.get("evaluations", size), 1, f"{place}: evaluations")
        if evaluations < size:
            raise InputError(
                f"{place}: evaluations: {evaluations}, and the grid has {size} candidates; allowed: {size} "
                "or more, or less points"
            )
        evaluations = size
    else:
        evaluations = _count(
            _needed(given, "evaluations", "how many candidates, e.g. 100", place), 1, f"{place}: evaluations"
        )
    default = 4 + int(3 * math.log(len(parameters)))
    population = _count(
        given.get("population", default), 2 if method == "cma-es" else 1, f"{place}: population"
    )
    if method in ("cma-es", "optuna") and evaluations < population:
        raise InputError(
            f"{place}: evaluations: {evaluations}, less than one population of {population}; allowed: "
            f"{population} or more, or a smaller population"
        )
    if method == "cma-es":
        for parameter in parameters:
            if isinstance(parameter, Choice):
                raise InputError(
                    f"{place}: over: {parameter.name}: choices have no order, which cma-es needs; allowed: "
                    "ranges, or one of the methods grid, random, optuna"
                )
    return Options(
        evaluations=evaluations,
        seed=_count(given.get("seed", 0), 0, f"{place}: seed", 2**32 - 1),
        points=steps,
        population=population,
        sigma=_sigma(given.get("sigma", _SIGMA), f"{place}: sigma"),
        start=_start(given.get("start", {}), parameters, f"{place}: start"),
    )


def _points(value: object, parameters: Sequence[Parameter], place: str) -> list[int]:
    """Return the number of values of each parameter."""
    ranges = [parameter for parameter in parameters if isinstance(parameter, Range)]
    if value is None and ranges:
        raise InputError(
            f"{place}: missing; allowed: how many values of each range, e.g. 5, or by name, e.g. "
            f"{{{ranges[0].name}: 5}}"
        )
    named = value if isinstance(value, dict) else {one.name: value for one in ranges}
    for name in named:
        one_of(name, [one.name for one in ranges], place)
    steps = []
    for parameter in parameters:
        count = 1
        if isinstance(parameter, Range):
            count = _count(
                _needed(named, parameter.name, "how many values, e.g. 5", place),
                1,
                f"{place}: {parameter.name}",
            )
            if parameter.integer and count > parameter.high - parameter.low + 1:
                there = int(parameter.high - parameter.low) + 1
                raise InputError(
                    f"{place}: {parameter.name}: {count}, and there are {there} whole numbers from "
                    f"{parameter.low:g} to {parameter.high:g}; allowed: at most {there}"
                )
        steps.append(len(parameter.spread(count)))
    if math.prod(steps) > _MOST:
        raise InputError(
            f"{place}: make a grid of {math.prod(steps):,} candidates; allowed: at most {_MOST:,}"
        )
    return steps


def _count(value: object, least: int, place: str, most: int = _MOST) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{place}: {value!r:.80}; allowed: a whole number, {least} to {most:,}")
    return value


def _sigma(value: object, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise InputError(
            f"{place}: {value!r:.80}; allowed: more than 0, at most 1: a part of the ranges, e.g. {_SIGMA}"
        )
    return float(value)


def _start(value: object, parameters: Sequence[Parameter], place: str) -> dict[str, Value]:
    if not isinstance(value, dict):
        raise InputError(f"{place}: {value!r:.80}; allowed: parameters with their values, e.g. {{p: 0.5}}")
    ranges = {one.name: one for one in parameters if isinstance(one, Range)}
    start: dict[str, Value] = {}
    for name, number in value.items():
        one = ranges[one_of(name, list(ranges), place)]
        if (
            isinstance(number, bool)
            or not isinstance(number, int | float)
            or not one.low <= number <= one.high
        ):
            raise InputError(f"{place}: {name}: {number!r:.80}; allowed: {one.low:g} to {one.high:g}")
        start[one.name] = number
    return start


def _baselines(value: object, place: str) -> dict[str, Mapping[str, object]]:
    if not isinstance(value, dict) or not all(isinstance(keys, dict) for keys in value.values()):
        raise InputError(
            f"{place}: {value!r:.80}; allowed: labels, each with keys of the scenario, e.g. "
            "{SAF: {batch.policy: SAF}}; {} are those of the base as it is"
        )
    for label in value:
        if not str(label).strip() or str(label).isdigit() or str(label) == "best":
            raise InputError(f"{place}: {label!r}: candidates are called so; allowed: another label")
    return {str(label): keys for label, keys in value.items()}


def _held_out(
    given: Mapping[str, Any],
    axes: Sequence[Axis],
    repetitions: Sequence[Point],
    baselines: Mapping[str, object],
    place: str,
) -> list[Point]:
    """Return the repetitions, of the same axes, that the search does not see."""
    if "validate" not in given:
        return []
    if not baselines:
        raise InputError(
            f"{place}: baselines: missing; validate compares the best candidate with them, e.g. "
            "{base: {}}: the base as it is"
        )
    validate = axes_of(given["validate"], f"{place}: validate")
    if any(axis.every_week for axis in validate):
        raise InputError(
            f"{place}: validate: weeks: all: are those of the search too; allowed: others, e.g. 11-20"
        )
    known = {axis.name for axis in axes}
    if known != {axis.name for axis in validate}:
        found = ", ".join(axis.name for axis in validate)
        allowed = ", ".join(axis.name for axis in axes) or "none: vary has no repetitions"
        raise InputError(
            f"{place}: validate: has {found}; allowed: the axes of vary, with other values: {allowed}"
        )
    order = [next(axis for axis in validate if axis.name == one.name) for one in axes]
    held_out = list(points(order, []))
    seen = [(dict(point.labels), dict(point.overrides)) for point in repetitions]
    for point in held_out:
        if any(point.labels == labels or (keys and point.overrides == keys) for labels, keys in seen):
            raise InputError(
                f"{place}: validate: {words_of(point.labels)}: is among those that candidates are "
                "chosen by; allowed: others"
            )
    return held_out


def check_columns(study: Study) -> None:
    """Refuse names that two columns of a search's results would have."""
    search = study.search
    assert search is not None, "called for searches only"
    names = [
        "candidate",
        "generation",
        *(one.name for one in search.parameters),
        "objective",
        "runs",
        "failed",
    ]
    check_titles([*names, *study.metrics], f"{study.source}: search: over")


def search_schema(axes: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of ``search``, by those of ``vary`` and of keys with values."""
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
    """Return the conditions of one method: the keys it needs, and those of other methods that it lacks."""
    others = sorted({key for own in METHOD_KEYS.values() for key in own} - set(keys))
    return {
        "if": {"properties": {"method": {"const": method}}},
        "then": {
            "required": ["points"] if method == "grid" else ["evaluations"],
            "not": {"anyOf": [{"required": [key]} for key in others]},
        },
    }
