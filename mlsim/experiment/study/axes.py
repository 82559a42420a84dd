"""The axes of a study: choices, samples of ranges, and their combinations."""

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob
from itertools import product
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np

from mlsim._files import expanded
from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError
from mlsim.scenario import field_types, scenario_paths

SAMPLES = ("random", "latin-hypercube", "sobol")
SCALES = ("linear", "log", "integer", "log-integer")  # of values in a range; the last two are integers
ALL_WEEKS = "all"
MOST_SEEDS = 1_000_000
_MOST_SAMPLES = 100_000
_MOST_COMBINATIONS = 1_000_000  # a study holds all of them, each in about 2 kB
_KEYS = ("sample", "count", "seed", "of")
_RANGE_KEYS = ("from", "to", "scale", "unit")
_DIGITS = 6
_COMPRESSED = (".gz", ".xz", ".bz2", ".zst", ".lz4")

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Axis:
    """One thing that varies."""

    name: str  # in tables
    points: Mapping[str, Mapping[str, object]]  # label to overrides
    parts: Mapping[str, Labels] = field(default_factory=dict)  # of a joined axis: label to those of its parts
    every_week: bool = False  # the axis of all weeks, whose points are found in the log
    template: str = ""  # the text that names the axes to join, until the labels of all weeks are known


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


def unknown_word(word: object, allowed: Sequence[str]) -> str:
    """Return the message that a word is not allowed, with a similar one that is."""
    hint = field_types.nearest(str(word), list(allowed))
    return f"{word!r:.80} is not known;{hint} allowed: {', '.join(allowed)}"


def one_of(word: object, allowed: Sequence[str], place: str) -> str:
    """Return a word that must be allowed; the message begins with ``place``."""
    if word not in allowed:
        raise InputError(f"{place}: {unknown_word(word, allowed)}")
    return str(word)


def axes_of(vary: object, place: str, directory: Path = Path()) -> list[Axis]:
    """Read the axes of a study: name to points; relative paths are looked up in ``directory`` first.

    A list has values of the dotted key that is the name; a mapping has labels, each with keys and values; a
    text joins the axes that it names. Files, samples, ``seeds``, ``weeks`` and ``cases`` are short forms.
    """
    if not isinstance(vary, dict) or not vary:
        raise InputError(
            f"{place}: {_shape(vary)}; allowed: a mapping of what varies, such as "
            "{application.technique: [SS, GSS]}"
        )
    named = {str(name): points for name, points in vary.items()}
    joins = {name: text for name, text in named.items() if isinstance(text, str) and "{" in text}
    axes = [
        _axis(name, points, f"{place}: {name}", directory)
        for name, points in named.items()
        if name not in joins
    ]
    return with_joined(axes, joins, place)


def with_joined(axes: Sequence[Axis], templates: Mapping[str, str], place: str) -> list[Axis]:
    """Replace axes that a text names by one axis: every combination of them, labelled by the text."""
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
    combinations = math.prod(len(axis.points) for axis in axes)
    if combinations > _MOST_COMBINATIONS:
        found = " x ".join(f"{axis.name} {len(axis.points):,}" for axis in axes)
        raise InputError(
            f"{place}: {combinations:,} combinations ({found}); allowed: {_MOST_COMBINATIONS:,}; draw some "
            "of them by sample: sobol, search among them, or take keys together as cases"
        )


def _axis(name: str, points: object, place: str, directory: Path) -> Axis:
    short_forms = {"seeds": _seeds, "weeks": _weeks, "cases": _cases}
    if name in short_forms:
        return short_forms[name](points, place)
    if isinstance(points, dict) and isinstance(points.get("sample"), str):
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


def _seeds(count: object, place: str) -> Axis:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_SEEDS:
        raise InputError(f"{place}: {_shape(count)}; allowed: how many, e.g. 20, for seeds 1 to 20")
    return Axis("seed", {str(seed): {"seed": seed} for seed in range(1, count + 1)})


def _weeks(span: object, place: str) -> Axis:
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
    folders = search_path(directory)
    for folder in folders:
        matching = glob(pattern, root_dir=folder, recursive=True)
        found = sorted(path for path in matching if (folder / path).is_file())
        if found:
            break
    if not found:
        looked = ", ".join(map(str, folders))
        raise InputError(f"{place}: files: no file is like {pattern}; looked up in {looked}")
    names = (path.with_suffix("") if path.suffix in _COMPRESSED else path for path in map(Path, found))
    labels = [name.stem for name in names]
    if len(set(labels)) < len(labels):
        labels = found
    key = name if "." in name else "workload.path"
    return Axis(name.split(".")[-1], {label: {key: path} for label, path in zip(labels, found, strict=True)})


def search_path(directory: Path) -> list[Path]:
    """Return the folders in which relative paths of a scenario are looked up, in order."""
    variable = os.environ.get(scenario_paths.VARIABLE, "").split(os.pathsep)
    return [directory, *(expanded(place) for place in variable if place), Path("traces")]


def _sampled(name: str, points: Mapping[str, Any], place: str) -> Axis:
    """Return the axis of samples: of the key ``name``, or of several keys together (``of``)."""
    values = _drawn(name, points, place)
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


def _drawn(name: str, points: Mapping[str, Any], place: str) -> list[dict[str, object]]:
    joint = "of" in points
    for key in points:
        one_of(key, _KEYS if joint else (*_KEYS[:3], *_RANGE_KEYS), place)
    one_of(points["sample"], SAMPLES, f"{place}: sample")
    count = _whole(points.get("count"), 2, f"{place}: count")
    seed = _whole(points.get("seed", 0), 0, f"{place}: seed")
    given = points["of"] if joint else {name: {key: points[key] for key in points if key in _RANGE_KEYS}}
    if not isinstance(given, Mapping) or not given:
        raise InputError(f"{place}: of: allowed: keys, each with a range such as {{from: 1, to: 100}}")
    shares = _shares(points["sample"], count, seed, len(given), place)
    columns = [
        _in_range(one, shares[:, column], f"{place}: {key}")
        for column, (key, one) in enumerate(given.items())
    ]
    return [dict(zip(map(str, given), values, strict=True)) for values in zip(*columns, strict=True)]


def _shares(sample: str, count: int, seed: int, dimensions: int, place: str) -> Floats:
    random = np.random.default_rng(seed)
    if sample == "random":
        return random.random((count, dimensions))
    try:
        from scipy.stats import qmc
    except ImportError as error:
        raise InputError(
            f"{place}: sample: {sample} needs SciPy: {error}; pip install 'mlsim[study]'"
        ) from error
    found: Floats
    if sample == "latin-hypercube":
        found = qmc.LatinHypercube(dimensions, seed=random).random(count)
        return found
    power = round(math.log2(count))
    if 2**power != count:
        raise InputError(
            f"{place}: count: {count}; allowed for sobol: powers of 2, for which the sequence is balanced, "
            f"e.g. {2**power}"
        )
    found = qmc.Sobol(dimensions, seed=random).random_base2(power)
    return found


def _in_range(value: object, shares: Floats, place: str) -> list[object]:
    """Return the values at shares of a range, in [0, 1), to six significant digits."""
    if not isinstance(value, Mapping):
        raise InputError(f"{place}: {value!r:.80}; allowed: a range such as {{from: 1, to: 100, scale: log}}")
    for key in value:
        one_of(key, _RANGE_KEYS, place)
    scale = one_of(value.get("scale", SCALES[0]), SCALES, f"{place}: scale")
    log, whole = scale.startswith("log"), scale.endswith("integer")
    first, last = limits(value, log, whole, place, "units go into unit, e.g. unit: s")
    low, high = first, last + 1.0 if whole else last
    found = low * (high / low) ** shares if log else low + (high - low) * shares
    if whole:
        numbers: list[Any] = np.clip(np.floor(found), first, last).astype(int).tolist()
    else:
        numbers = [float(f"{number:.{_DIGITS}g}") for number in found.tolist()]
    unit = str(value.get("unit", ""))
    return [f"{number:g} {unit}" for number in numbers] if unit else numbers


def limits(value: Mapping[str, Any], log: bool, whole: bool, place: str, units: str) -> tuple[float, float]:
    """Read ``from`` and ``to`` of a range; ``units`` is the advice for numbers that have one."""
    for key in ("from", "to"):
        number = value.get(key)
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            found = f"{number!r:.80}" if key in value else "missing"
            raise InputError(f"{place}: {key}: {found}; allowed: a number; {units}")
    low, high = float(value["from"]), float(value["to"])
    if not low < high:
        raise InputError(f"{place}: from {low:g} to {high:g}; allowed: from below to")
    if log and low <= 0.0:
        raise InputError(f"{place}: from: {low:g}; allowed with scale log: above 0")
    if whole and not (low.is_integer() and high.is_integer()):
        raise InputError(f"{place}: from {low:g} to {high:g}: of integers; allowed: whole numbers")
    return low, high


def _whole(value: object, least: int, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST_SAMPLES:
        raise InputError(f"{place}: {value!r:.80}; allowed: a whole number from {least} to {_MOST_SAMPLES:,}")
    return value


def _joined(name: str, template: str, axes: Sequence[Axis], place: str) -> list[Axis]:
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
    parts: dict[str, Labels] = {}
    points_of: dict[str, Mapping[str, object]] = {}
    joined = [axis for axis in axes if axis.name in names]
    check_combinations(joined, place)
    for point in points(joined, []):
        label = template.format_map(point.labels)
        if label in parts:
            raise InputError(f"{place}: two combinations are called {label}; name all that differs")
        parts[label], points_of[label] = point.labels, point.overrides
    first = next(row for row, axis in enumerate(axes) if axis.name in names)
    left = [axis for axis in axes[first:] if axis.name not in names]
    return [*axes[:first], Axis(name, points_of, parts), *left]


def _shape(value: object) -> str:
    return "empty" if not value else f"{value!r}"[:80]


def label_of(value: object) -> str:
    """Return a value as tables show it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


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
        labels[name] in (wanted if isinstance(wanted, list) else [wanted]) for name, wanted in entry.items()
    )


def filled(
    common: Mapping[str, object], labels: Labels, values: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return common keys with placeholders substituted for one run: ``{name}`` becomes the run's label.

    ``"{name}"`` alone becomes the value of ``values``, if there is one, so that numbers stay numbers.
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
