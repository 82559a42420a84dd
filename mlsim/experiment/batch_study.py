"""Studies of whole runs: a scenario under every combination of some choices.

A study of runs is a YAML file beside the scenario it varies, as :mod:`mlsim.experiment.study` has it for
loops, with some keys of its own.

```yaml
of: runs
name: esp-rca
description: ...
base: esp.yaml                   # a scenario file
vary:                            # every combination is simulated; the last varies fastest
  application:                   # labels, each with the keys it sets
    psia: {application.costs.profile: psia}
    mandelbrot: {application.costs.profile: mandelbrot}
  application.technique: [STATIC, GSS, AF]         # or a list of values of one key
  rca: {off: {coordination.rca: off}, on: {coordination.rca: on}}
  order: {0: {}, 1: {}}
set: {workload.path: "{application}-{order}.csv"}  # keys of every run; {axis} is the run's label
without: [{application: psia, technique: AF}]      # combinations to leave out
columns: rca                     # what stands side by side; default: the last of vary
repetitions: order               # tables show the mean over this axis, least and largest
metrics:                         # title in the tables: key of summary.json
  makespan (s): makespan
  utilization: utilization.busy
  fallbacks: cp.fallbacks?       # with ?, runs whose summary has no such key leave the cell empty
relative: {rca: off}             # the first metric is also shown divided by that of this combination
reference: source.csv            # what others found: a column an axis, and some of the titles of metrics
pictures:                        # an axis that a picture does not name makes one picture each
  - {kind: utilization, lines: technique, panels: rca, where: {order: 0}}
  - {kind: metric, along: order, lines: technique, panels: application, relative: true}
  - {kind: balance, lines: technique, panels: rca, where: {order: 0}}
  - {kind: gantt, where: {technique: STATIC, order: 0}, span: [415, 550]}
```
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsim.errors import InputError
from mlsim.experiment.batch_pictures import Balance, PictureSpec, balance_of, busy_curve, picture_of
from mlsim.experiment.common_study import CommonStudy, open_study
from mlsim.experiment.grid import Axis, Point, points
from mlsim.experiment.result import Result
from mlsim.experiment.study_checks import (
    check_files,
    check_metric,
    check_scenarios,
    check_titles,
    side_by_side,
    some_points,
)
from mlsim.experiment.study_file import entries, file_of, file_text, one_of
from mlsim.scenario import ApplicationModel, Scenario, load

if TYPE_CHECKING:
    from mlsim.experiment.directories import Place

__all__ = [
    "KEYS",
    "BatchStudy",
    "RunRow",
    "batch_study_into",
    "is_batch_study",
    "load_batch_study",
    "run_batch_study",
]

KEYS = (
    *("of", "name", "description", "base", "vary", "set", "without", "columns", "repetitions"),
    *("metrics", "relative", "reference", "pictures"),
)
_METRICS = {"makespan (s)": "makespan", "utilization": "utilization.busy"}
_KINDS = ("runs", "loops")
_PLUGINS = ("batch.dispatcher", "batch.policy", "batch.allocator", "batch.predictor")
"""Keys of the batch level that may name code of the user's own."""


@dataclass(frozen=True)
class BatchStudy(CommonStudy):
    """What is compared with what, of whole runs."""

    repetitions: str | None
    """Name of the axis that tables take the mean over, or None."""
    metrics: Mapping[str, str]
    """Title to key of the summary."""
    relative: Mapping[str, str]
    """Labels of the combination that the first metric is divided by; empty: none."""
    reference: Mapping[tuple[str, ...], Mapping[str, float]]
    """What others found: labels of all axes but repetitions, to values by title."""
    pictures: Sequence[PictureSpec]
    """What is drawn."""


@dataclass(frozen=True)
class RunRow:
    """One combination, simulated."""

    labels: Mapping[str, str]
    """Of each axis."""
    metrics: Mapping[str, float]
    """By title; NaN where the run has none."""
    curve: tuple[Any, Any] | None = None
    """Times (s) and busy shares of the machine, where a picture shows them."""
    balance: Balance | None = None
    """The balance of each job's loop, where a picture shows it."""


def is_batch_study(path: str | Path) -> bool:
    """Return whether a study is one of whole runs, and not of loops alone.

    Raises
    ------
    InputError
        If it cannot be read, or is neither.
    """
    from mlsim.scenario.files.source import parse_text

    file = file_of(path)
    content = parse_text(file_text(file), str(file)).value
    kind = content.get("of", "loops") if isinstance(content, dict) else "loops"
    return one_of(kind, _KINDS, f"{file}: of") == "runs"


def load_batch_study(path: str | Path) -> BatchStudy:
    """Read a study and every scenario it makes.

    Parameters
    ----------
    path
        A study file, or a directory with ``study.yaml`` in it.

    Raises
    ------
    InputError
        If a file cannot be read or a combination is no scenario; nothing was simulated.
    """
    opened = open_study(path, KEYS, "runs", None)
    content, axes, place, folder = opened.content, opened.axes, opened.place, opened.path.parent
    repetitions = content.get("repetitions")
    if repetitions is not None:
        repetitions = one_of(repetitions, [axis.name for axis in axes], place("repetitions"))
    metrics = _words(content.get("metrics", _METRICS), place("metrics"))
    reference = content.get("reference")
    compared = [axis for axis in axes if axis.name != repetitions]
    study = BatchStudy(
        **opened.head(),
        cases=[
            (point, load(folder / str(content["base"]), _overrides(content, point, opened.path)))
            for point in some_points(points(axes, opened.without), place("without"))
        ],
        columns=side_by_side(content.get("columns"), repetitions, axes, place("columns")),
        repetitions=repetitions,
        metrics=metrics,
        relative=_relative(content.get("relative", {}), axes, place("relative")),
        reference={} if reference is None else _reference(folder / str(reference), compared, metrics),
        pictures=[
            picture_of(value, axes, place("pictures")) for value in _list(content, "pictures", opened.path)
        ],
    )
    _check(study)
    return study


def _check(study: BatchStudy) -> None:
    """Refuse what would fail after the runs: tables and pictures of what there is not."""
    from mlsim.analysis.summary import summary_without_jobs
    from mlsim.experiment.batch_drawing import picture_files
    from mlsim.experiment.batch_tables import relative_title

    empty = summary_without_jobs()
    for key in study.metrics.values():
        check_metric(key, empty, f"{study.source}: metrics")
        for point, scenario in study.cases:
            dispatcher = scenario.batch.dispatcher
            if key.startswith("cp.") and not key.endswith("?") and not getattr(dispatcher, "solves", False):
                raise InputError(
                    f"{study.source}: metrics: {key}: not in the summary where batch.dispatcher is "
                    f"{dispatcher} ({_words_of(point)}); {key}? leaves such cells empty"
                )
    titles = [*(axis.name for axis in study.axes), *study.metrics]
    check_titles([*titles, relative_title(study)] if study.relative else titles, f"{study.source}: metrics")
    place = f"{study.source}: pictures"
    files: list[str] = []
    for picture, names in picture_files(study, [point for point, _ in study.cases]):
        _check_picture(study, picture, f"{place}: {picture.kind}", names)
        files += names
    check_files(files, place)


def _check_picture(study: BatchStudy, picture: PictureSpec, place: str, files: Sequence[str]) -> None:
    if not files:
        raise InputError(f"{place}: where: no combination is like that; it would show nothing")
    if picture.metric:
        one_of(picture.metric, list(study.metrics), f"{place}: metric")
    if picture.relative and not study.relative:
        raise InputError(f"{place}: relative: the study has no combination to divide by; give relative: too")
    for point, scenario in study.cases:
        rigid = scenario.application.model is not ApplicationModel.LOOP
        if picture.kind == "balance" and rigid and picture.shows(point.labels):
            raise InputError(f"{place}: shows loops, and jobs execute none where {_words_of(point)}")


def _words_of(point: Point) -> str:
    return ", ".join(f"{name}: {label}" for name, label in point.labels.items())


def _overrides(content: Mapping[str, Any], point: Point, file: Path) -> dict[str, object]:
    """Return the overrides of one run: those of all runs, with its labels filled in, and its own."""
    common = content.get("set", {})
    if not isinstance(common, dict):
        raise InputError(f"{file}: set: {common!r}; allowed: a mapping of keys to values")
    try:
        filled = {
            str(key): value.format_map(point.labels) if isinstance(value, str) else value
            for key, value in common.items()
        }
    except (KeyError, ValueError, IndexError) as error:
        allowed = ", ".join(f"{{{name}}}" for name in point.labels)
        raise InputError(f"{file}: set: {error} is no axis; allowed in braces: {allowed}") from error
    return {**filled, **point.overrides}


def _list(content: Mapping[str, Any], key: str, file: Path) -> list[Any]:
    value = content.get(key, [])
    if not isinstance(value, list):
        raise InputError(f"{file}: {key}: {value!r}; allowed: a list")
    return value


def _words(value: object, place: str) -> dict[str, str]:
    if not isinstance(value, dict) or not value or not all(isinstance(key, str) for key in value.values()):
        raise InputError(f"{place}: {value!r}; allowed: titles with keys of summary.json, e.g. {_METRICS}")
    return {str(title): key for title, key in value.items()}


def _relative(value: object, axes: Sequence[Axis], place: str) -> dict[str, str]:
    (entry,) = entries([value], axes, place)
    for name, label in entry.items():
        if isinstance(label, list):
            raise InputError(f"{place}: {name}: {label!r}; allowed: one label")
    return {name: str(label) for name, label in entry.items()}


def _reference(
    file: Path, axes: Sequence[Axis], metrics: Mapping[str, str]
) -> dict[tuple[str, ...], dict[str, float]]:
    """Read what others found; further columns are for readers, and cells may be empty."""
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for number, row in enumerate(csv.DictReader(file_text(file).splitlines()), start=2):
        place = f"{file}:{number}"
        key = tuple(one_of(row.get(a.name), list(a.points), f"{place}: {a.name}") for a in axes)
        try:
            found[key] = {title: float(row[title]) for title in metrics if row.get(title)}
        except ValueError as error:
            raise InputError(f"{place}: {error}; allowed: numbers") from error
    return found


def run_batch_study(
    study: BatchStudy,
    *,
    out: str | Path | None = None,
    progress: Callable[[RunRow, int], None] | None = None,
) -> list[RunRow]:
    """Simulate every combination of a study of runs, as :func:`mlsim.experiment.run_study` does one of loops.

    With ``out`` the tables are ``runs.csv`` and ``table.md``.

    Raises
    ------
    InputError
        If a file that a scenario names cannot be used, or a summary has no such metric.
    OutputError
        If not all of the results can be written; the message says what was kept, and where.
    """
    from mlsim.experiment.directories import complete_or_gone

    if out is None:
        _check_files(study)
        return [_simulated(study, *case, None, progress) for case in study.cases]
    with complete_or_gone(out) as place:
        return batch_study_into(place, study, progress)


def batch_study_into(
    place: Place, study: BatchStudy, progress: Callable[[RunRow, int], None] | None = None
) -> list[RunRow]:
    """Simulate a study and write its results into a place; see :func:`run_batch_study`."""
    from mlsim.experiment.batch_tables import write_batch_study

    _check_files(study)
    rows = [_simulated(study, *case, place, progress) for case in study.cases]
    write_batch_study(place, study, rows)
    return rows


def _check_files(study: BatchStudy) -> None:
    """Read what the scenarios name, before the first is simulated."""
    from mlsim.cosim import survey

    check_scenarios(study.cases, survey, ("platform", "workload", "application", *_PLUGINS))


def _simulated(
    study: BatchStudy,
    point: Point,
    scenario: Scenario,
    place: Place | None,
    progress: Callable[[RunRow, int], None] | None,
) -> RunRow:
    """Simulate one combination, and keep of it what tables and pictures show."""
    from mlsim.experiment.runner import run

    result = run(scenario)
    wanted = [picture for picture in study.pictures if picture.shows(point.labels)]
    kinds = {picture.kind for picture in wanted} if place is not None else set()
    row = RunRow(
        point.labels,
        {title: _metric(result, key, study.source) for title, key in study.metrics.items()},
        busy_curve(result) if "utilization" in kinds else None,
        balance_of(result) if "balance" in kinds else None,
    )
    if "gantt" in kinds and place is not None:
        from mlsim.experiment.batch_drawing import draw_gantt

        for picture in wanted:
            if picture.kind == "gantt":
                draw_gantt(place, study.name, picture, point.labels, result)
    if progress is not None:
        progress(row, len(study.cases))
    return row


def _metric(result: Result, key: str, source: Path) -> float:
    value: Any = result.summary
    for part in key.removesuffix("?").split("."):
        if not isinstance(value, Mapping) or part not in value:
            if key.endswith("?"):
                return math.nan
            raise InputError(f"{source}: metrics: {key}: not in the summary of {result.scenario.name}")
        value = value[part]
    if value is None:
        return math.nan
    if not isinstance(value, int | float):
        allowed = ", ".join(f"{key}.{part}" for part in value) if isinstance(value, Mapping) else "numbers"
        raise InputError(f"{source}: metrics: {key} is {type(value).__name__}, no number; allowed: {allowed}")
    return float(value)
