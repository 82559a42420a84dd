"""Study files: their keys, the JSON schemas of files, and checks across keys."""

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlsim._files import expanded, is_directory, is_there, read_text
from mlsim.errors import InputError
from mlsim.experiment.study.axes import ALL_WEEKS, SAMPLES, SCALES, Axis, label_of, one_of, unknown_word
from mlsim.scenario.amount_types import amount
from mlsim.scenario.field_types import (
    FILE_NAME,
    TIME,
    AdviceError,
    FieldType,
    literal,
    nearest,
    number,
    whole,
)
from mlsim.scenario.scenario_keys import dotted_keys, json_schema
from mlsim.scenario.scenario_text import parse_text

Schema = dict[str, Any]

KINDS = ("loops", "runs", "weeks")  # subjects of studies; loops by default
FORMATS = ("png", "svg", "pdf")  # of pictures
KEEP = ("summary", "tables", "all")  # levels of stored results of a run, from least to most
INTERVALS = {
    "bootstrap": "percentiles of 10,000 bootstrap resamples",
    "t": "by Student's t, for values that are about normal",
}
PICTURE_KEYS = {
    "utilization": ("lines", "panels", "where"),
    "balance": ("lines", "panels", "where"),
    "metric": ("along", "lines", "panels", "where", "relative", "metric"),
    "gantt": ("where", "span"),
}
AVERAGES = ("mean", "median")
METHOD_KEYS: Mapping[str, tuple[str, ...]] = {
    "grid": ("points", "evaluations"),
    "random": ("evaluations", "seed"),
    "cma-es": ("evaluations", "seed", "population", "sigma", "start"),
    "optuna": ("evaluations", "seed", "population"),
}
"""Search methods, each with the keys of ``search:`` that it reads besides the common ones."""
NOT_WITH_SEARCH = ("columns", "relative", "reference", "pictures", "timelines", "interval", "trim")
MOST = 1_000_000  # candidates, and values of a grid


def _word(words: Sequence[str]) -> FieldType[str]:
    """Return the type of one of several words."""

    def read(value: object) -> str:
        if value not in words:
            raise AdviceError(unknown_word(value, words))
        return str(value)

    return FieldType(", ".join(words), read, {"enum": list(words)})


def _words(words: Sequence[str]) -> FieldType[tuple[str, ...]]:
    """Return the type of one word or a list of them, each once."""
    each = _word(words)

    def read(value: object) -> tuple[str, ...]:
        given = value if isinstance(value, list | tuple) else [value]
        if not given:
            raise ValueError("names none")
        return tuple(dict.fromkeys(map(each.parse, given)))

    return FieldType(each.allowed, read, {"anyOf": [each.json(), _some(each.json())]})


def _mapping(properties: Schema, required: Sequence[str]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _named(values: Schema, least: int = 1) -> Schema:
    return {"type": "object", "minProperties": least, "additionalProperties": values}


def _some(items: Schema) -> Schema:
    return {"type": "array", "minItems": 1, "items": items}


_LINE = {"type": "string", "minLength": 1}
_NUMBER = {"type": "number"}
_OVERRIDES = {"$ref": "#/$defs/Overrides"}
_AXES = {"$ref": "#/$defs/Axes"}
_COMBINATION = {"$ref": "#/$defs/Combination"}
_COMBINATIONS = {"type": "array", "items": _COMBINATION}
_COUNT = whole(1, MOST)

_LIMITS = _mapping(
    {"from": _NUMBER, "to": _NUMBER, "scale": {"enum": ["linear", "log"]}, "integer": {"type": "boolean"}},
    ["from", "to"],
)
_CHOICES = _named(_OVERRIDES, 2) | {"not": {"anyOf": [{"required": ["from"]}, {"required": ["to"]}]}}

SEARCH_KEYS: Mapping[str, tuple[FieldType[Any] | Schema, str]] = {
    "minimise": (_LINE, "Key of summary.json that is to be small."),
    "maximise": (_LINE, "Key of summary.json that is to be large."),
    "over": (
        _named({"anyOf": [_LIMITS, {"type": "array", "minItems": 2}, _CHOICES]}),
        "Parameters: a dotted key, or a name in braces in set, with a range or choices.",
    ),
    "method": (_word(list(METHOD_KEYS)), "The method that chooses candidates."),
    "average": (_word(AVERAGES), "Of a candidate's values over repetitions."),
    "relative": (_LINE, "Baseline whose value values are divided by."),
    "validate": (_AXES, "Axes as in vary, with repetitions that the search does not see."),
    "baselines": (_named(_OVERRIDES, 0), "Labels, each with keys, that the best candidate is compared with."),
    "evaluations": (_COUNT, "Number of candidates."),
    "seed": (whole(0, 2**32 - 1), "Of the method."),
    "points": (
        {"anyOf": [_COUNT.json(), _named(_COUNT.json(), 0)]},
        "Of a grid: number of values of each range.",
    ),
    "population": (_COUNT, "Number of candidates that are asked for at a time."),
    "sigma": (
        number(0, 1, low_belongs=False),
        "First standard deviation of cma-es, as a part of the ranges.",
    ),
    "start": (_named(_NUMBER, 0), "First mean of cma-es, by parameter. Default: the middle."),
}
"""Keys of ``search``, each with its type (or only its schema) and meaning."""

_KEYS: Mapping[str, tuple[FieldType[Any] | Schema, str]] = {
    "of": (_word(KINDS), "The subject: loops (default), runs, or weeks of a log."),
    "name": (FILE_NAME, "Name of the study. Default: that of its directory."),
    "description": ({"type": "string"}, "Purpose of the study."),
    "base": (_LINE, "The file that is varied, beside this one."),
    "vary": (_AXES, "Axes: a dotted key with a list of values, or a name with labels and their keys."),
    "search": (
        {"$ref": "#/$defs/Search"},
        "Searches for the least or largest value of a metric, in place of comparing.",
    ),
    "set": (_OVERRIDES, "Keys of every run; {axis} in a text is the run's label."),
    "without": (_COMBINATIONS, "Combinations to leave out."),
    "columns": (_LINE, "The axis that stands side by side. Default: the last."),
    "repetitions": ({"anyOf": [_LINE, _some(_LINE)]}, "The axis that tables show the mean over, or several."),
    "metrics": (_named(_LINE), "Titles in the tables, each with a key of summary.json."),
    "relative": (_COMBINATION, "The first metric is also divided by that of this combination."),
    "reference": (_LINE, "CSV of published values, beside this file."),
    "pictures": (
        {"type": "array", "items": {"anyOf": [{"$ref": f"#/$defs/Picture-{kind}"} for kind in PICTURE_KEYS]}},
        "Pictures to draw.",
    ),
    "formats": (_words(FORMATS), "File formats of pictures. Default: png."),
    "interval": (_word(list(INTERVALS)), "Method for intervals of means. Default: bootstrap."),
    "trim": (
        whole(0),
        "How many of the least and of the largest values of repetitions are left out. Default: 0.",
    ),
    "keep": (_word(KEEP), "Results of every run that the store keeps."),
    "timeout": (amount(TIME, positive=True), "Wall-clock time after which a run has failed, with a unit."),
    "timelines": (_COMBINATIONS, "Combinations whose PEs are drawn over time."),
}
_OF_LOOPS = ("timelines",)
KEYS = {
    "loops": tuple(_KEYS),
    "runs": tuple(key for key in _KEYS if key not in _OF_LOOPS),
    "weeks": tuple(key for key in _KEYS if key not in (*_OF_LOOPS, "keep")),
}
"""Allowed keys, by subject."""


def _properties(keys: Mapping[str, tuple[FieldType[Any] | Schema, str]]) -> Schema:
    return {
        key: {**(kind if isinstance(kind, dict) else kind.json()), "description": meaning}
        for key, (kind, meaning) in keys.items()
    }


def schema_of(kind: str) -> Schema:
    """Return the JSON schema of a kind of file: scenario, loop or study."""
    if kind == "study":
        return study_schema()
    schema = json_schema()
    if kind == "loop":  # it may lack the sections that a loop ignores
        from mlsim.experiment.loops import LEFT_ASIDE

        for section in LEFT_ASIDE:
            schema["properties"][section] = {"description": "Left aside by a loop alone."}
        schema["required"] = [key for key in schema["required"] if key not in LEFT_ASIDE]
        schema |= {"title": "Loop", "description": "A loop alone, on a whole machine."}
    return schema


def study_schema() -> Schema:
    """Return the schema of ``study.yaml``, of loops, of runs and of weeks."""
    properties = _properties(_KEYS)
    kinds: Schema = {}
    for kind, keys in KEYS.items():
        kinds[kind] = _mapping(
            {key: properties[key] for key in keys}, ["base"] if kind == KINDS[0] else ["of", "base"]
        )
        kinds[kind]["properties"]["of"] = {"const": kind, "description": properties["of"]["description"]}
        kinds[kind] |= {
            "if": {"required": ["search"]},
            "then": {"not": {"anyOf": [{"required": [key]} for key in NOT_WITH_SEARCH]}},
            "else": {"required": ["vary"]},
        }

    def when(kind: str, otherwise: Schema) -> Schema:
        right = {"properties": {"of": {"const": kind}}, "required": ["of"]}
        return {"if": right, "then": kinds[kind], "else": otherwise}

    label = {"type": ["string", "number", "boolean"]}
    # Keys of a scenario, dotted; places in lists are numbers.
    names = [re.sub(r"\bN\b", "[0-9]+", literal(key)).replace(r"\*", ".+") for key in dotted_keys()]
    pattern = f"^({'|'.join(names)})$"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Study",
        "description": "A loop, or a scenario, under every combination of some choices.",
        "type": "object",
        **when("runs", when("weeks", kinds["loops"])),
        "$defs": {
            "Key": {"pattern": pattern},
            "Overrides": {
                "description": "Dotted keys of a scenario, with their values; an empty value is the default.",
                "type": "object",
                "propertyNames": {"$ref": "#/$defs/Key"},
            },
            "Combination": {
                "description": "Axes, each with a label or a list of labels.",
                "type": "object",
                "additionalProperties": {"anyOf": [label, {"type": "array", "items": label}]},
            },
            "Axes": _axes_schema(pattern),
            "Search": _search_schema(),
            **{f"Picture-{kind}": _picture_schema(kind, keys) for kind, keys in PICTURE_KEYS.items()},
        },
    }


def _axes_schema(pattern: str) -> Schema:
    labels = _named(_OVERRIDES)
    file_pattern = _LINE | {"description": "Pattern of files, such as logs/*.swf.gz."}
    files = _mapping({"files": file_pattern}, ["files"])
    span: Schema = {
        "from": _NUMBER,
        "to": _NUMBER,
        "scale": {"enum": list(SCALES)},
        "unit": {"type": "string", "description": "Put behind each value, such as s."},
    }
    sample: Schema = {
        "sample": {"enum": list(SAMPLES), "description": "The way in which values are drawn."},
        "count": {"type": "integer", "minimum": 2},
        "seed": {"type": "integer", "minimum": 0, "description": "Of the draw. Default: 0."},
    }
    joint = _named(_mapping(span, ["from", "to"])) | {"propertyNames": {"$ref": "#/$defs/Key"}}
    template = {
        "description": "A text with the names of axes in braces, which this one replaces.",
        "type": "string",
        "pattern": r"\{.+\}",
    }
    of_key = [{"type": "array", "minItems": 1}, labels, files]
    of_key.append(_mapping(sample | span, ["sample", "count", "from", "to"]))
    of_name = [labels, files, _mapping(sample | {"of": joint}, ["sample", "count", "of"]), template]
    return {
        "type": "object",
        "minProperties": 1,
        "properties": {
            "seeds": {"description": "Number of seeds, from 1 on.", "type": "integer", "minimum": 1},
            "weeks": {
                "description": "Weeks of the log, each alone, such as 28-64; all: every one with jobs.",
                "type": "string",
                "pattern": f"^({ALL_WEEKS}|(0|[1-9][0-9]{{0,5}}) *- *(0|[1-9][0-9]{{0,5}}))$",
            },
            "cases": {"description": "Keys that vary together.", "anyOf": [_some(_OVERRIDES), labels]},
        },
        "patternProperties": {pattern: {"anyOf": of_key}},
        "additionalProperties": {"anyOf": of_name},
    }


def _search_schema() -> Schema:
    """Each method needs ``points`` or ``evaluations``, and lacks the keys of other methods."""
    every = {key for keys in METHOD_KEYS.values() for key in keys}
    return _mapping(_properties(SEARCH_KEYS), ["over", "method"]) | {
        "oneOf": [{"required": ["minimise"]}, {"required": ["maximise"]}],
        "allOf": [
            {
                "if": {"properties": {"method": {"const": method}}},
                "then": {
                    "required": ["points" if method == "grid" else "evaluations"],
                    "not": {"anyOf": [{"required": [key]} for key in sorted(every - set(keys))]},
                },
            }
            for method, keys in METHOD_KEYS.items()
        ],
    }


def _picture_schema(kind: str, keys: Sequence[str]) -> Schema:
    parts: Schema = {key: {"type": "string"} for key in ("along", "lines", "panels", "metric")}
    parts |= {"where": _COMBINATION, "relative": {"type": "boolean"}}
    parts["span"] = {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}
    needed = [key for key in ("lines", "along") if key in keys]
    return _mapping({"kind": {"const": kind}} | {key: parts[key] for key in keys}, ["kind", *needed])


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


def mapping(text: str, file: Path) -> dict[str, Any]:
    """Read the keys of a study file, with ``of`` and ``name``; most values are parsed."""
    # An empty value below a label of vary is the default of its key.
    document = parse_text(text, str(file), lambda key: len(key) == 4 and key[0] == "vary")
    for problem in document.problems:
        place = f"{file}:{problem.line}" if problem.line else str(file)
        raise InputError(f"{place}: {'.'.join(map(str, problem.key))}: {problem.message}")
    content = document.value
    if not isinstance(content, dict):
        raise InputError(f"{file}: a study is a mapping; its keys: {', '.join(_KEYS)}")
    if {"platform", "workload"} & content.keys() and not {"base", "vary"} & content.keys():
        raise InputError(f"{file}: is a scenario by its keys; mlsim run simulates it, a study varies it")
    content = {"of": KINDS[0], "name": file.parent.resolve().name or "study", **content}
    keys = KEYS[parsed("of", content["of"], _KEYS, str(file))]
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
    return {key: parsed(key, value, _KEYS, str(file)) for key, value in content.items()}


def parsed(
    key: str, value: object, keys: Mapping[str, tuple[FieldType[Any] | Schema, str]], place: str
) -> Any:
    """Return the value of a key as its type reads it."""
    kind, _ = keys[key]
    if isinstance(kind, dict):
        return value
    try:
        return kind.parse(value)
    except ValueError as error:
        raise InputError(f"{place}: {key}: {error}") from error


def entries(value: object, axes: Sequence[Axis], place: str, *, parts: bool = False) -> list[dict[str, Any]]:
    """Read a list of combinations: axes (with ``parts``: also joined ones) to a label or a list of labels.

    A number names its label: 1.0 names ``1.0`` if there is one, else ``1``.
    """
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InputError(f"{place}: {value!r}; allowed: a list of mappings, e.g. [{{technique: SS}}]")
    labels: dict[str, list[str]] = {axis.name: list(axis.points) for axis in axes}
    for of in (of for axis in axes for of in axis.parts.values() if parts):
        for name, label in of.items():
            labels.setdefault(name, []).append(label)

    def known(name: str, label: object) -> str:
        text = str(label) if str(label) in labels[name] else label_of(label)
        return one_of(text, labels[name], f"{place}: {name}")

    found: list[dict[str, Any]] = []
    for entry in value:
        for name in entry:
            one_of(name, list(labels), place)
        found.append(
            {
                name: [known(name, one) for one in wanted]
                if isinstance(wanted, list)
                else known(name, wanted)
                for name, wanted in entry.items()
            }
        )
    return found


_LONGEST_NAME = 255


def side_by_side(columns: object, repetitions: str | None, axes: Sequence[Axis], place: str) -> str:
    """Return the axis of the columns: the requested one, or the last one that is compared."""
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


def metric_of(summary: Mapping[str, Any], key: str, place: str, *, empty: bool = False) -> float:
    """Return a metric by its dotted key, a number; NaN without a value, which only ``?`` allows.

    ``empty``: the summary is that of no run, whose empty parts may have anything in them.
    """
    value: Any = summary
    for part in key.removesuffix("?").split("."):
        if empty and value in (None, {}):
            return math.nan
        if not isinstance(value, Mapping) or part not in value:
            if key.endswith("?"):
                return math.nan
            hint = nearest(part, list(value)) if isinstance(value, Mapping) else ""
            of = summary.get("scenario") or "a run"
            raise InputError(
                f"{place}: {key}: not in the summary of {of};{hint} `mlsim list metrics` has all"
            )
        value = value[part]
    if value is None or (empty and value == {}):
        return math.nan
    if not isinstance(value, int | float):
        allowed = ", ".join(f"{key}.{part}" for part in value) if isinstance(value, Mapping) else "numbers"
        raise InputError(f"{place}: {key} is {type(value).__name__}, no number; allowed: {allowed}")
    return float(value)
