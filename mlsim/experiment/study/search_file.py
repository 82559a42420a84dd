"""A search: its section of the study file, read and checked; the runs of its candidates; its outcome."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlsim.errors import InputError
from mlsim.experiment.study import study_file
from mlsim.experiment.study.axes import Axis, Point, axes_of, filled, limits, one_of, points, words_of
from mlsim.experiment.study.search_methods import Choice, Options, Parameter, Range, Search, Value, Values
from mlsim.experiment.study.study_file import METHOD_KEYS, MOST, SEARCH_KEYS
from mlsim.experiment.study.study_plan import StudyRow
from mlsim.scenario import field_types, scenario_keys

# Labels of the runs of a search, besides parameters and repetitions.
_LABELS = ("part", "generation", "candidate")
FITTED, HELD_OUT = "search", "held out"  # values of `part`; only fitted runs choose candidates
_NAN = float("nan")
_OF_METHODS = {key for keys in METHOD_KEYS.values() for key in keys}
_RANGE_KEYS = ("from", "to", "scale", "integer")
_SCALES = ("linear", "log")
_REPEATED = ("seed", "week")  # axes that are repetitions without being declared so
_SIGMA = 0.3
_UNITS = (
    "for one with a unit, name the number (over: {lag: {from: 1, to: 9}}) and give the unit in set "
    '({platform.network.latency: "{lag} us"})'
)


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
        one_of(key, list(SEARCH_KEYS), place)
    given = {key: study_file.parsed(key, value, SEARCH_KEYS, place) for key, value in given.items()}
    method = _needed(given, "method", ", ".join(METHOD_KEYS), place)
    for key in set(given) & _OF_METHODS - set(METHOD_KEYS[method]):
        readers = [name for name, keys in METHOD_KEYS.items() if key in keys]
        raise InputError(f"{place}: {key}: {method} does not read it; read by {', '.join(readers)}")
    metric, maximise = _metric(given, empty, place)
    over = _needed(given, "over", "{batch.weights.p: {from: -1, to: 1}}", place)
    if not isinstance(over, dict) or not over:
        raise InputError(
            f"{place}: over: {over!r:.80}; allowed: a mapping of parameters, each with a range or choices, "
            "e.g. {batch.weights.p: {from: -1, to: 1}}"
        )
    parameters = [_parameter(str(name), values, f"{place}: over") for name, values in over.items()]
    kept = [axis.name for axis in axes if axis.name not in _REPEATED]
    named = content.get("repetitions", [])
    named = [str(name) for name in (named if isinstance(named, list) else [named])]
    for name in named:
        one_of(name, [axis.name for axis in axes], f"{file}: repetitions")
    for name in kept:
        if name not in named:
            raise InputError(
                f"{file}: vary: {name}: is not known to be a repetition; with search every candidate is "
                f"evaluated on all of vary: allowed are seeds, weeks, and what repetitions names "
                f"(repetitions: {name}); what is to be found belongs in search: over"
            )
    common = _common(content, axes, parameters, file)
    _check_names(parameters, axes, file)
    options = _options(given, method, parameters, place)
    baselines = _baselines(given.get("baselines", {}), f"{place}: baselines")
    relative = given.get("relative", "")
    if relative != "":
        relative = one_of(str(relative), list(baselines), f"{place}: relative")
    repetitions = list(
        points(axes, study_file.entries(content.get("without", []), axes, f"{file}: without", parts=True))
    )
    if not repetitions:
        raise InputError(f"{file}: without: leaves no repetition; take an entry away")
    return Search(
        metric=metric,
        title=next((title for title, key in metrics.items() if key == metric), metric),
        maximise=maximise,
        average=given.get("average", study_file.AVERAGES[0]),
        relative=relative,
        parameters=parameters,
        method=method,
        options=options,
        repetitions=repetitions,
        held_out=_held_out(given, axes, repetitions, baselines, place),
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
    study_file.metric_of(empty, metric, f"{place}: {asked[0]}", empty=True)
    return metric, asked[0] == "maximise"


def _parameter(name: str, value: object, over: str) -> Parameter:
    place = f"{over}: {name}"
    if not isinstance(value, dict) or not set(value) & {"from", "to"}:
        (axis,) = axes_of({name: value}, over)
        if len(axis.points) < 2:
            raise InputError(f"{place}: is one choice; allowed: two or more, or a range {{from: 1, to: 9}}")
        return Choice(axis.name, axis.points)
    for key in value:
        one_of(key, _RANGE_KEYS, place)
    log = one_of(value.get("scale", _SCALES[0]), _SCALES, f"{place}: scale") == "log"
    integer = value.get("integer", False)
    if not isinstance(integer, bool):
        raise InputError(f"{place}: integer: {integer!r:.80}; allowed: true, false")
    low, high = limits(value, log, integer, place, _UNITS)
    return Range(name.split(".")[-1], name if "." in name else "", low, high, log, integer)


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
        unnamed = isinstance(parameter, Range) and not parameter.key
        if unnamed and not any(_names_any(value, [parameter.name]) for value in common.values()):
            keys = [key for key in scenario_keys.dotted_keys() if "." in key]
            hint = field_types.nearest(parameter.name, keys)
            raise InputError(
                f"{file}: search: over: {parameter.name}: sets nothing;{hint} allowed: a dotted key of the "
                f"scenario, or a name that a text of set has in braces, e.g. set: "
                f'{{platform.network.latency: "{{{parameter.name}}} us"}}'
            )
    return common


def _check_names(parameters: Sequence[Parameter], axes: Sequence[Axis], file: str) -> None:
    names = [*_LABELS, *(parameter.name for parameter in parameters), *(axis.name for axis in axes)]
    study_file.check_titles([*names, "objective", "failed"], f"{file}: search: over")
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
    if method != "grid":
        evaluations = _needed(given, "evaluations", "number of candidates, e.g. 100", place)
    elif given.get("evaluations", size) < size:
        raise InputError(
            f"{place}: evaluations: {given['evaluations']}, and the grid has {size} candidates; allowed: "
            f"{size} or more, or less points"
        )
    else:
        evaluations = size
    population = given.get("population", 4 + int(3 * math.log(len(parameters))))
    if method == "cma-es" and population < 2:
        raise InputError(f"{place}: population: {population}; allowed: a whole number, 2 to {MOST:,}")
    if method in ("cma-es", "optuna") and evaluations < population:
        raise InputError(
            f"{place}: evaluations: {evaluations}, less than one population of {population}; allowed: "
            f"{population} or more, or a smaller population"
        )
    for parameter in parameters if method == "cma-es" else ():
        if isinstance(parameter, Choice):
            raise InputError(
                f"{place}: over: {parameter.name}: choices have no order, which cma-es needs; allowed: "
                "ranges, or one of the methods grid, random, optuna"
            )
    start = _start(given.get("start", {}), parameters, f"{place}: start")
    return Options(evaluations, given.get("seed", 0), steps, population, given.get("sigma", _SIGMA), start)


def _points(value: object, parameters: Sequence[Parameter], place: str) -> list[int]:
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
            count = _needed(named, parameter.name, "how many values, e.g. 5", place)
            if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
                raise InputError(
                    f"{place}: {parameter.name}: {count!r:.80}; allowed: a whole number, 1 to {MOST:,}"
                )
            there = int(parameter.high - parameter.low) + 1
            if parameter.integer and count > there:
                raise InputError(
                    f"{place}: {parameter.name}: {count}, and there are {there} whole numbers from "
                    f"{parameter.low:g} to {parameter.high:g}; allowed: at most {there}"
                )
        steps.append(len(parameter.spread(count)))
    if math.prod(steps) > MOST:
        raise InputError(
            f"{place}: make a grid of {math.prod(steps):,} candidates; allowed: at most {MOST:,}"
        )
    return steps


def _start(value: object, parameters: Sequence[Parameter], place: str) -> dict[str, Value]:
    if not isinstance(value, dict):
        raise InputError(f"{place}: {value!r:.80}; allowed: parameters with their values, e.g. {{p: 0.5}}")
    ranges = {one.name: one for one in parameters if isinstance(one, Range)}
    for name, number in value.items():
        one = ranges[one_of(name, list(ranges), place)]
        right = isinstance(number, int | float) and not isinstance(number, bool)
        if not right or not one.low <= number <= one.high:
            raise InputError(f"{place}: {name}: {number!r:.80}; allowed: {one.low:g} to {one.high:g}")
    return value


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
    validate = {axis.name: axis for axis in axes_of(given["validate"], f"{place}: validate")}
    if any(axis.every_week for axis in validate.values()):
        raise InputError(
            f"{place}: validate: weeks: all: are those of the search too; allowed: others, e.g. 11-20"
        )
    names = [axis.name for axis in axes]
    if set(names) != set(validate):
        allowed = ", ".join(names) or "none: vary has no repetitions"
        raise InputError(
            f"{place}: validate: has {', '.join(validate)}; allowed: the axes of vary, with other values: "
            f"{allowed}"
        )
    held_out = list(points([validate[name] for name in names], []))
    for point in held_out:
        if any(
            point.labels == seen.labels or (seen.overrides and point.overrides == seen.overrides)
            for seen in repetitions
        ):
            raise InputError(
                f"{place}: validate: {words_of(point.labels)}: is among those that candidates are "
                "chosen by; allowed: others"
            )
    return held_out


def candidate_points(
    search: Search, values: Values, candidate: int, generation: int, part: str = FITTED
) -> list[Point]:
    """Return the runs of a candidate."""
    labels = {"part": part, "generation": str(generation), "candidate": str(candidate)}
    overrides: dict[str, object] = {}
    for parameter, value in zip(search.parameters, values, strict=True):
        labels[parameter.name] = parameter.label(value)
        overrides |= parameter.overrides(value)
    named = dict(zip(search.names, values, strict=True))
    return _repeated(search, part, labels, overrides, search.common, named)


def baseline_points(search: Search, part: str) -> list[Point]:
    """Return the runs of all baselines; keys of ``set`` that name parameters do not apply to them."""
    none = dict.fromkeys(search.names, "")
    common = {key: value for key, value in search.common.items() if not _names_any(value, search.names)}
    return [
        point
        for name, overrides in search.baselines.items()
        for point in _repeated(
            search, part, {"part": part, "generation": "", "candidate": name, **none}, overrides, common, {}
        )
    ]


def _repeated(
    search: Search,
    part: str,
    own: Mapping[str, str],
    overrides: Mapping[str, object],
    common: Mapping[str, object],
    values: Mapping[str, object],
) -> list[Point]:
    found = []
    for point in search.repetitions if part == FITTED else search.held_out:
        labels = {**own, **point.labels}
        found.append(Point(labels, {**filled(common, labels, values), **point.overrides, **overrides}))
    return found


def probe_points(search: Search) -> list[Point]:
    """Return the runs by which a search is checked before it starts: baselines, and limits of the ranges."""
    middle = tuple(parameter.probes()[0] for parameter in search.parameters)
    points = [point for part in (FITTED, HELD_OUT) for point in candidate_points(search, middle, 0, 0, part)]
    for place, parameter in enumerate(search.parameters):
        for value in parameter.probes()[1:]:
            tried = (*middle[:place], value, *middle[place + 1 :])
            points += candidate_points(search, tried, 0, 0)[:1]
    return points + [point for part in (FITTED, HELD_OUT) for point in baseline_points(search, part)]


def _names_any(value: object, names: Iterable[str]) -> bool:
    """Whether a text of ``set`` has one of these names in braces."""
    return isinstance(value, str) and any(f"{{{name}}}" in value for name in names)


@dataclass(frozen=True)
class Tried:
    """A candidate, or a baseline, evaluated on some repetitions."""

    name: str  # number of the candidate, or label of the baseline
    generation: str
    labels: Mapping[str, str]  # of the parameters
    objective: float  # NaN if a run has failed, or has no such value
    values: Mapping[str, float]  # those that the objective averages, by repetition
    metrics: Mapping[str, Mapping[str, float]]
    failed: Sequence[str]

    @property
    def works(self) -> bool:
        """Whether its objective is known."""
        return math.isfinite(self.objective)

    def values_of(self, search: Search) -> Values:
        """Return the values of the parameters."""
        return tuple(one.value(self.labels[one.name]) for one in search.parameters)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a search."""

    search: Search
    candidates: Sequence[Tried]  # in the order they were asked for
    baselines: Mapping[str, Tried]  # by label, on what candidates were chosen by
    best: Tried
    held_out: Mapping[str, Tried]  # `best` and the baselines on what was held out; empty if nothing was


def tried_of(
    search: Search, rows: Sequence[StudyRow], below: Mapping[str, float] | None = None
) -> list[Tried]:
    """Return the candidates or baselines of rows of one part, divided by ``below`` of the repetition."""
    groups: dict[str, list[StudyRow]] = {}
    for row in rows:
        groups.setdefault(row.labels["candidate"], []).append(row)
    return [_tried(search, group, below) for group in groups.values()]


def _tried(search: Search, rows: Sequence[StudyRow], below: Mapping[str, float] | None) -> Tried:
    first = rows[0].labels
    own = (*_LABELS, *search.names)
    repetitions = [", ".join(label for name, label in row.labels.items() if name not in own) for row in rows]
    metrics = {
        title: {name: row.metrics[title] for name, row in zip(repetitions, rows, strict=True)}
        for title in rows[0].metrics
    }
    values = metrics[search.title]
    if below is not None:
        divisors = {name: below.get(name, _NAN) for name in values}
        values = {
            name: value / divisors[name] if divisors[name] > 0.0 else _NAN for name, value in values.items()
        }
    known = np.array(list(values.values()))
    average = np.median if search.average == "median" else np.mean
    return Tried(
        name=first["candidate"],
        generation=first["generation"],
        labels={name: first[name] for name in search.names},
        objective=float(average(known)) if np.isfinite(known).all() else _NAN,
        values=values,
        metrics=metrics,
        failed=[row.failed for row in rows if row.failed],
    )


def best_of(search: Search, candidates: Sequence[Tried]) -> Tried | None:
    """Return the best candidate, the first of equal ones; None if none has an objective."""
    known = [one for one in candidates if one.works]
    return min(known, key=lambda one: search.loss(one.objective)) if known else None


def outcome_of(search: Search, rows: Sequence[StudyRow]) -> Outcome:
    """Return the outcome of a search by all of its rows."""
    parts = {part: [row for row in rows if row.labels["part"] == part] for part in (FITTED, HELD_OUT)}
    fitted, candidates = _split(search, parts[FITTED])
    best = best_of(search, candidates)
    assert best is not None, "a search in which none can be judged ends with an error"
    others, chosen = _split(search, parts[HELD_OUT])
    return Outcome(search, candidates, fitted, best, {"best": chosen[0], **others} if chosen else {})


def _split(search: Search, rows: Sequence[StudyRow]) -> tuple[dict[str, Tried], list[Tried]]:
    ours = [row for row in rows if row.labels["candidate"] in search.baselines]
    rest = [row for row in rows if row.labels["candidate"] not in search.baselines]
    divisor = tried_of(search, [row for row in ours if row.labels["candidate"] == search.relative])
    below = divisor[0].values if divisor else None
    return {one.name: one for one in tried_of(search, ours, below)}, tried_of(search, rest, below)
