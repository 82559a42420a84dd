"""The axes of a study: choices, samples of ranges, and their combinations."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np

from mlsim._files import expanded
from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError
from mlsim.scenario.scenario_paths import VARIABLE
from mlsim.scenario.unit_types import nearest

SAMPLES = ("random", "latin-hypercube", "sobol")
SCALES = ("linear", "log", "integer", "log-integer")
"""Distributions of values in a range; the last two are integers."""
_MOST = 100_000
_KEYS = ("sample", "count", "seed", "of")
_RANGE_KEYS = ("from", "to", "scale", "unit")
_DIGITS = 6


@dataclass(frozen=True)
class _Range:
    low: float
    high: float
    scale: str
    unit: str

    def at(self, shares: Floats) -> list[object]:
        """Return the values at shares of the range, in [0, 1)."""
        whole, log = self.scale.endswith("integer"), self.scale.startswith("log")
        low, high = self.low, self.high + 1.0 if whole else self.high
        values = low * (high / low) ** shares if log else low + (high - low) * shares
        if whole:
            numbers: list[Any] = np.clip(np.floor(values), self.low, self.high).astype(int).tolist()
        else:
            numbers = [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]
        return [f"{number:g} {self.unit}" for number in numbers] if self.unit else numbers


def is_sample(points: object) -> bool:
    """Whether the points of an axis are sampled from ranges."""
    return isinstance(points, Mapping) and isinstance(points.get("sample"), str)


def drawn(name: str, points: Mapping[str, Any], place: str) -> list[dict[str, object]]:
    """Sample the values of an axis; return keys with values, to six significant digits.

    ``points`` has ``sample`` (a word of :data:`SAMPLES`), ``count``, ``seed`` (default 0), and either a range
    (``from``, ``to``, ``scale``, ``unit``) of the key ``name``, or ``of``: several keys with ranges that are
    sampled together. Messages begin with ``place``.
    """
    joint = "of" in points
    _known(points, _KEYS if joint else (*_KEYS[:3], *_RANGE_KEYS), place)
    _word(points["sample"], SAMPLES, f"{place}: sample")
    count = _whole(points.get("count"), 2, f"{place}: count")
    seed = _whole(points.get("seed", 0), 0, f"{place}: seed")
    given = points["of"] if joint else {name: {key: points[key] for key in points if key in _RANGE_KEYS}}
    if not isinstance(given, Mapping) or not given:
        raise InputError(f"{place}: of: allowed: keys, each with a range such as {{from: 1, to: 100}}")
    ranges = {str(key): _range(one, f"{place}: {key}") for key, one in given.items()}
    shares = _shares(points["sample"], count, seed, len(ranges), place)
    columns = [one.at(shares[:, column]) for column, one in enumerate(ranges.values())]
    return [dict(zip(ranges, values, strict=True)) for values in zip(*columns, strict=True)]


def _shares(sample: str, count: int, seed: int, dimensions: int, place: str) -> Floats:
    """Return points in the unit cube, one per row."""
    if sample == "random":
        return np.random.default_rng(seed).random((count, dimensions))
    try:
        from scipy.stats import qmc
    except ImportError as error:
        raise InputError(
            f"{place}: sample: {sample} needs SciPy: {error}; pip install 'mlsim[study]'"
        ) from error
    random = np.random.default_rng(seed)
    if sample == "latin-hypercube":
        found: Floats = qmc.LatinHypercube(dimensions, seed=random).random(count)
        return found
    power = round(math.log2(count))
    if 2**power != count:
        raise InputError(
            f"{place}: count: {count}; allowed for sobol: powers of 2, for which the sequence is balanced, "
            f"e.g. {2**power}"
        )
    balanced: Floats = qmc.Sobol(dimensions, seed=random).random_base2(power)
    return balanced


def _range(value: object, place: str) -> _Range:
    if not isinstance(value, Mapping):
        raise InputError(f"{place}: {value!r:.80}; allowed: a range such as {{from: 1, to: 100, scale: log}}")
    _known(value, _RANGE_KEYS, place)
    scale = value.get("scale", SCALES[0])
    _word(scale, SCALES, f"{place}: scale")
    low, high = (_number(value.get(key), f"{place}: {key}") for key in ("from", "to"))
    if not low < high:
        raise InputError(f"{place}: from {low:g} to {high:g}; allowed: from below to")
    if scale.startswith("log") and low <= 0.0:
        raise InputError(f"{place}: from: {low:g}; allowed with scale {scale}: above 0")
    if scale.endswith("integer") and (low != int(low) or high != int(high)):
        raise InputError(f"{place}: {low:g} to {high:g}; allowed with scale {scale}: whole numbers")
    return _Range(low, high, scale, str(value.get("unit", "")))


def _known(value: Mapping[str, Any], keys: Sequence[str], place: str) -> None:
    for key in value:
        _word(key, keys, place)


def _word(word: object, allowed: Sequence[str], place: str) -> None:
    if word not in allowed:
        hint = nearest(str(word), list(allowed))
        raise InputError(f"{place}: {word!r:.80} is not known;{hint} allowed: {', '.join(allowed)}")


def _whole(value: object, least: int, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise InputError(f"{place}: {value!r:.80}; allowed: a whole number from {least} to {_MOST:,}")
    return value


def _number(value: object, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{place}: {value!r:.80}; allowed: a number; units go into unit, e.g. unit: s")
    return float(value)


MOST_SEEDS = 1_000_000
_MOST_COMBINATIONS = 1_000_000
"""A study holds all of them, each in about 2 kB."""
ALL_WEEKS = "all"
_COMPRESSED = (".gz", ".xz", ".bz2", ".zst", ".lz4")


@dataclass(frozen=True)
class Axis:
    """One thing that varies."""

    name: str
    """Its name in tables."""
    points: Mapping[str, Mapping[str, object]]
    """Label to overrides."""
    parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of a joined axis: label to the labels of its parts, by name."""
    every_week: bool = False
    """Whether it is the axis of all weeks, whose points are found in the log."""
    template: str = ""
    """Of an axis that will join others, once their labels are known: the text that names them."""


def axes_of(vary: object, place: str, directory: Path = Path()) -> list[Axis]:
    """Read the axes of a study: name to points; relative paths are looked up in ``directory`` first.

    A list has values of the dotted key that is the name; a mapping has labels, each with a mapping of dotted
    keys to values. A text joins the axes that it names. Files (``{files: "*.swf"}``), samples
    (``{sample: random, ...}``), ``seeds``, ``weeks`` and ``cases`` are short forms.
    """
    if not isinstance(vary, dict) or not vary:
        raise InputError(
            f"{place}: {_shape(vary)}; allowed: a mapping of what varies, such as "
            "{application.technique: [SS, GSS]}"
        )
    axes = [
        _axis(str(name), points, f"{place}: {name}", directory)
        for name, points in vary.items()
        if not _joins(points)
    ]
    return with_joined(axes, {str(name): points for name, points in vary.items() if _joins(points)}, place)


def with_joined(axes: Sequence[Axis], templates: Mapping[str, str], place: str) -> list[Axis]:
    """Replace axes that a text names by one axis: every combination of them, labelled by the text.

    If one of them is that of all weeks, whose labels are unknown before the log is read, the axis keeps its
    text as a template.
    """
    axes = list(axes)
    for name, template in templates.items():
        axes = _joined(name, template, axes, f"{place}: {name}")
    for axis, times in Counter(axis.name for axis in axes).items():
        if times > 1:
            raise InputError(
                f"{place}: {times} axes are called {axis}; allowed: each name once, e.g. "
                f"{{{axis} a: {{label: {{key: value}}}}}}"
            )
    return axes


def check_combinations(axes: Sequence[Axis], place: str = "vary") -> None:
    """Refuse axes with more combinations than a study can hold."""
    combinations = prod(len(axis.points) for axis in axes)
    if combinations > _MOST_COMBINATIONS:
        found = " x ".join(f"{axis.name} {len(axis.points):,}" for axis in axes)
        raise InputError(
            f"{place}: {combinations:,} combinations ({found}); allowed: {_MOST_COMBINATIONS:,}; draw some "
            "of them by sample: sobol, search among them, or take keys together as cases"
        )


def _axis(name: str, points: object, place: str, directory: Path) -> Axis:
    if name == "seeds":
        return _seeds(points, place)
    if name == "weeks":
        return _weeks(points, place)
    if name == "cases":
        return _cases(points, place)
    if is_sample(points):
        assert isinstance(points, dict), "a sample is one"
        return _sampled(name, points, place)
    if isinstance(points, dict) and isinstance(points.get("files"), str):
        return _files(name, points, place, directory)
    if isinstance(points, list) and points:
        named = {label_of(value): {name: value} for value in points}
        if len(named) < len(points):
            raise InputError(f"{place}: the same value twice; allowed: each once")
        return Axis(name.split(".")[-1], named)
    return _labelled(name, points, place)


def _labelled(name: str, points: object, place: str) -> Axis:
    if isinstance(points, dict) and points and all(isinstance(keys, dict) for keys in points.values()):
        return Axis(name, {str(label): keys for label, keys in points.items()})
    raise InputError(
        f"{place}: {_shape(points)}; allowed: a list of values, or a mapping of labels, each with a "
        "mapping of keys to values, e.g. {slow: {platform.network.latency: 5 us}}; files: a pattern; sample: "
        'one of random, latin-hypercube, sobol; a text such as "{log}-{week}" of other axes'
    )


def _cases(points: object, place: str) -> Axis:
    """Return the axis of keys that vary together: labelled, or labelled by their values."""
    if not isinstance(points, list):
        return _labelled("case", points, place)
    if not points or not all(isinstance(keys, dict) and keys for keys in points):
        raise InputError(
            f"{place}: {_shape(points)}; allowed: mappings of keys to values, e.g. [{{batch.policy: FCFS, "
            "batch.backfill: easy}}, {{batch.policy: SAF}}]; or labels, each with one"
        )
    named = {", ".join(label_of(value) for value in keys.values()): keys for keys in points}
    if len(named) < len(points):
        raise InputError(f"{place}: two have the same values; give each a label: {{first: {{key: value}}}}")
    return Axis("case", named)


def _files(name: str, points: Mapping[str, Any], place: str, directory: Path) -> Axis:
    """Return the axis of the sorted files of a pattern: of a dotted key, or of the workload's path."""
    if set(points) != {"files"}:
        other = next(key for key in points if key != "files")
        raise InputError(f"{place}: {other!r:.80}: unknown beside files; allowed: files, a pattern")
    pattern = str(expanded(points["files"]))
    found: list[str] = []
    places = [directory, *map(expanded, filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)))]
    for folder in (*places, Path("traces")):
        found = _matching(folder, pattern)
        if found:
            break
    if not found:
        looked = ", ".join(str(folder) for folder in (*places, "traces"))
        raise InputError(f"{place}: files: no file is like {pattern}; looked up in {looked}")
    labels = [_stem(path) for path in found]
    if len(set(labels)) < len(labels):
        labels = found
    key = name if "." in name else "workload.path"
    return Axis(name.split(".")[-1], {label: {key: path} for label, path in zip(labels, found, strict=True)})


def _matching(folder: Path, pattern: str) -> list[str]:
    from glob import glob

    return sorted(
        path for path in glob(pattern, root_dir=folder, recursive=True) if (folder / path).is_file()
    )


def _stem(path: str) -> str:
    """Return the name of a file without the suffixes of its format."""
    name = Path(path)
    if name.suffix in _COMPRESSED:
        name = name.with_suffix("")
    return name.stem


def _sampled(name: str, points: Mapping[str, Any], place: str) -> Axis:
    values = drawn(name, points, place)
    single = "of" not in points
    named = {
        label_of(keys[name])
        if single
        else ", ".join(f"{key.split('.')[-1]} {label_of(value)}" for key, value in keys.items()): keys
        for keys in values
    }
    if len(named) < len(values):
        raise InputError(
            f"{place}: {len(values)} samples have {len(named)} different values; take fewer, or a wider range"
        )
    return Axis(name.split(".")[-1] if single else name, named)


def _joins(points: object) -> bool:
    """Whether an axis joins others: a text with their names in braces."""
    return isinstance(points, str) and "{" in points


def _joined(name: str, template: str, axes: Sequence[Axis], place: str) -> list[Axis]:
    """Replace the axes that a text names by one axis of all their combinations."""
    known = {axis.name: axis for axis in axes}
    try:
        names = [key for _, key, _, _ in Formatter().parse(template) if key is not None]
        template.format_map(dict.fromkeys(names, ""))
    except (ValueError, LookupError, AttributeError) as error:
        raise InputError(f"{place}: {template!r:.80}: {error}; allowed: names of axes in braces") from error
    for key in names:
        if key not in known:
            raise InputError(f"{place}: {{{key}}} is no axis; allowed in braces: {', '.join(known)}")
    if any(known[key].every_week for key in names):
        return [*axes, Axis(name, {}, template=template)]
    parts: dict[str, dict[str, str]] = {}
    points: dict[str, dict[str, object]] = {}
    joined = [axis for axis in axes if axis.name in names]
    check_combinations(joined, place)
    for labels in product(*(axis.points for axis in joined)):
        of = {axis.name: label for axis, label in zip(joined, labels, strict=True)}
        label = template.format_map(of)
        if label in points:
            raise InputError(f"{place}: two combinations are called {label}; name all that differs")
        parts[label] = of
        points[label] = {}
        for axis in joined:
            points[label] |= axis.points[of[axis.name]]
    first = next(row for row, axis in enumerate(axes) if axis.name in names)
    left = [axis for axis in axes[first:] if axis.name not in names]
    return [*axes[:first], Axis(name, points, parts), *left]


def _seeds(count: object, place: str) -> Axis:
    """Return the axis of seeds 1 to a number."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_SEEDS:
        raise InputError(f"{place}: {_shape(count)}; allowed: how many, e.g. 20, for seeds 1 to 20")
    return Axis("seed", {str(seed): {"seed": seed} for seed in range(1, count + 1)})


def _weeks(span: object, place: str) -> Axis:
    """Return the axis of single weeks of the log."""
    if span == ALL_WEEKS:
        return Axis("week", {}, every_week=True)
    found = re.fullmatch(r"(0|[1-9]\d{0,5})\s*-\s*(0|[1-9]\d{0,5})", str(span))
    if found is None or int(found[1]) > int(found[2]):
        raise InputError(
            f"{place}: {_shape(span)}; allowed: the first and the last week, e.g. 28-64, or {ALL_WEEKS}"
        )
    return week_axis(range(int(found[1]), int(found[2]) + 1))


def week_axis(weeks: Sequence[int]) -> Axis:
    """Return the axis of some weeks of the log, each alone."""
    return Axis("week", {str(week): {"workload.select.weeks": f"{week}-{week}"} for week in weeks})


def _shape(value: object) -> str:
    return "empty" if not value else f"{value!r}"[:80]


def label_of(value: object) -> str:
    """Return a value as tables show it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


Labels = Mapping[str, str]


@dataclass(frozen=True)
class Point:
    """One combination: a label of each axis, and the overrides of all of them."""

    labels: Labels
    overrides: Mapping[str, object]
    parts: Labels = field(default_factory=dict)

    @property
    def words(self) -> Labels:
        """All labels, including those of joined axes."""
        return {**self.labels, **self.parts}


def points(axes: Sequence[Axis], without: Sequence[Mapping[str, Any]]) -> Iterator[Point]:
    """Yield every combination, the last axis fastest, except those that an entry of ``without`` matches."""
    check_combinations(axes)
    for labels in product(*(axis.points for axis in axes)):
        named = dict(zip([axis.name for axis in axes], labels, strict=True))
        overrides: dict[str, object] = {}
        parts: dict[str, str] = {}
        for axis, label in zip(axes, labels, strict=True):
            overrides |= axis.points[label]
            parts |= axis.parts.get(label, {})
        point = Point(named, overrides, parts)
        if not any(matches(point.words if parts else named, entry) for entry in without):
            yield point


def matches(labels: Labels, entry: Mapping[str, Any]) -> bool:
    """Whether labels are among those of an entry: axis to a label or a list of labels."""
    return all(
        labels[name] in [label_of(label) for label in (wanted if isinstance(wanted, list) else [wanted])]
        for name, wanted in entry.items()
    )


def filled(
    common: Mapping[str, object], labels: Labels, values: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return common keys with placeholders substituted for one run: ``{name}`` becomes the run's label.

    ``"{name}"`` alone becomes the value of ``values``, if there is one, so that numbers stay numbers. Raises
    KeyError, ValueError or IndexError if a placeholder is no label.
    """
    numbers = {f"{{{name}}}": value for name, value in (values or {}).items()}
    return {
        str(key): numbers[value]
        if isinstance(value, str) and value in numbers
        else value.format_map(labels)
        if isinstance(value, str)
        else value
        for key, value in common.items()
    }


def words_of(labels: Labels) -> str:
    """Format the labels of a combination for a message, without empty ones."""
    return ", ".join(f"{name}: {label}" for name, label in labels.items() if label)
