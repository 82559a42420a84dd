"""The picture files of a study, and the bars of loop times."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from mlsim._arrays import Floats
from mlsim.experiment.study.study_model import MEANS, PictureSpec, file_name, gantt_file
from mlsim.experiment.study.study_tables import mean_interval, relative_title

if TYPE_CHECKING:
    from mlsim.analysis.plots import Panel
    from mlsim.experiment.study.axes import Point
    from mlsim.experiment.study.study_model import Study
    from mlsim.experiment.study.study_plan import StudyRow
    from mlsim.experiment.study.study_results import Results


Labelled = TypeVar("Labelled", "StudyRow", "Point")


def picture_files(study: Study, points: Sequence[Point]) -> Iterator[tuple[PictureSpec, list[str]]]:
    """Yield each picture entry of a study with the names of its files."""
    for picture in study.pictures:
        if picture.kind == "gantt":
            shown = [point for point in points if picture.shows(point.labels)]
            yield picture, [gantt_file(picture, point.labels) for point in shown]
            continue
        first = picture.kind
        if picture.kind == "metric":
            first = relative_title(study) if picture.relative else picture.metric or next(iter(study.metrics))
        yield (
            picture,
            [
                f"{file_name(first, *labels.values())}.{study.formats[0]}"
                for labels, _ in pictures_of(study, picture, points)
            ],
        )


def pictures_of(
    study: Study, picture: PictureSpec, rows: Sequence[Labelled]
) -> Iterator[tuple[dict[str, str], list[Labelled]]]:
    """Yield the pictures of one entry: labels in common, and what is in them, of some runs or points."""
    inside = {picture.lines, picture.panels, picture.along}
    if picture.kind == "metric":
        inside.add(study.repetitions or "")
    axes = [axis for axis in study.axes if axis.name not in inside]
    for labels in product(*(axis.points for axis in axes)):
        common = dict(zip([axis.name for axis in axes], labels, strict=True))
        part = [row for row in rows if picture.shows(row.labels) and common.items() <= row.labels.items()]
        if part:
            yield common, part


_NAN = float("nan")
_MOST_PANELS = 60
"""A picture of more would be longer than anybody looks at, and than can be drawn."""


def draw_bars(results: Results, study: Study, rows: Sequence[StudyRow]) -> None:
    """Draw one panel for each combination of all axes but repetitions, the columns and the last other one."""
    from mlsim.analysis.plots import bars

    others = [axis.name for axis in study.axes if axis.name not in (study.columns, study.repetitions)]
    parts: dict[tuple[str, ...], list[StudyRow]] = {}
    for row in rows:
        parts.setdefault(tuple(row.labels[name] for name in others[:-1]), []).append(row)
    if len(parts) > _MOST_PANELS:
        return
    panels = [_panel(", ".join(key), part, study, others[-1:]) for key, part in parts.items()]
    title, key = next(iter(study.metrics.items()))
    name = "t-loop" if key == "t_loop" else file_name(title)
    shown = study.name if study.repetitions is None else f"{study.name}{MEANS}"
    results.picture(name, bars(panels, shown, title))


def _panel(title: str, rows: Sequence[StudyRow], study: Study, along: Sequence[str]) -> Panel:
    """Return one panel; ``along`` is the axis of its groups, or nothing where only the columns vary."""
    columns = study.columns
    from mlsim.analysis.plots import Panel

    def group(row: StudyRow) -> str:
        return "".join(row.labels[name] for name in along)

    table: dict[tuple[str, str], list[StudyRow]] = {}
    for row in rows:
        table.setdefault((row.labels[columns], group(row)), []).append(row)
    groups = list(dict.fromkeys(map(group, rows)))
    series = list(dict.fromkeys(row.labels[columns] for row in rows))
    return Panel(
        title,
        groups,
        {name: [_mean(table.get((name, place), [])) for place in groups] for name in series},
        {name: [_reference(table.get((name, place), [])) for place in groups] for name in series},
        {}
        if study.repetitions is None
        else {
            name: [mean_interval(_values(table.get((name, place), [])), study.interval) for place in groups]
            for name in series
        },
    )


def _mean(rows: Sequence[StudyRow]) -> float:
    known = _values(rows)
    return sum(known.tolist()) / len(known) if len(known) else _NAN


def _values(rows: Sequence[StudyRow]) -> Floats:
    values = (next(iter(row.metrics.values())) for row in rows)
    return np.array([value for value in values if math.isfinite(value)])


def _reference(rows: Sequence[StudyRow]) -> float:
    found = [row.reference for row in rows if row.reference is not None]
    return found[0] if found else _NAN
