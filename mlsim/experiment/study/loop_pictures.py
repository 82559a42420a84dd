"""What a study of loops shows unasked: bars of the loop times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mlsim._arrays import Floats
from mlsim.experiment.study.own_pictures import MEANS, file_name
from mlsim.experiment.study.statistics import mean_interval

if TYPE_CHECKING:
    from mlsim.analysis.plots import Panel
    from mlsim.experiment.study.model import Study
    from mlsim.experiment.study.results import Results
    from mlsim.experiment.study.rows import StudyRow

__all__ = ["draw_bars"]

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
