"""What a study leaves: its table as CSV and Markdown, bars of the loop times, timelines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlsim.experiment.rundir import versions, write_json

if TYPE_CHECKING:
    from mlsim.analysis.plots import Panel
    from mlsim.experiment.directories import Place
    from mlsim.experiment.grid import Point
    from mlsim.experiment.loops import LoopResult
    from mlsim.experiment.study import Study, StudyRow

__all__ = ["draw_timeline", "study_table", "timeline_name", "write_study"]

_NAN = float("nan")


def study_table(study: Study, rows: Sequence[StudyRow]) -> tuple[list[str], list[list[str]]]:
    """Lay out loop times, with one column for each label of the study's columns.

    Returns
    -------
    tuple
        Titles, and rows of cells. Reference values are in a column beside.
    """
    names = [axis.name for axis in study.axes if axis.name != study.columns]
    across = next(list(axis.points) for axis in study.axes if axis.name == study.columns)
    known = {row.labels[study.columns] for row in rows if row.reference is not None}
    titles = names + [title for label in across for title in _titles(label, label in known)]
    lines: dict[tuple[str, ...], dict[str, StudyRow]] = {}
    for row in rows:
        key = tuple(row.labels[name] for name in names)
        lines.setdefault(key, {})[row.labels[study.columns]] = row
    return titles, [
        [*key, *(cell for label in across for cell in _cells(line.get(label), label in known))]
        for key, line in lines.items()
    ]


def _titles(label: str, known: bool) -> list[str]:
    return [label, "source"] if known else [label]


def _cells(row: StudyRow | None, known: bool) -> list[str]:
    ours = "" if row is None else seconds(row.facts["t_loop"])
    theirs = "" if row is None or row.reference is None else seconds(row.reference)
    return [ours, theirs] if known else [ours]


def seconds(value: float) -> str:
    """Write seconds with three digits or, from 100 on, one decimal."""
    return f"{value:.1f}" if value >= 100 else f"{value:.3g}"


def write_study(place: Place, study: Study, rows: Sequence[StudyRow]) -> None:
    """Write the tables and the picture of a study."""
    directory = place.partial
    (directory / "study.yaml").write_text(study.text, encoding="utf-8")
    write_json(directory / "versions.json", versions())
    _write_csv(directory / "loops.csv", rows)
    (directory / "table.md").write_text(_markdown(*study_table(study, rows)), encoding="utf-8")
    with place.extra(directory / "t-loop.png") as path:
        _draw_bars(path, study, rows)


def _write_csv(path: Path, rows: Sequence[StudyRow]) -> None:
    import polars as pl

    # Technique and model of the facts are what the labels stand for; a label's name comes first.
    lines = [{**row.facts, **row.labels, "reference": row.reference} for row in rows]
    order = list(dict.fromkeys([*rows[0].labels, *lines[0]]))
    pl.DataFrame(lines, infer_schema_length=None).select(order).write_csv(path)


def _markdown(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    cells = [titles, ["---"] * len(titles), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def _draw_bars(path: Path, study: Study, rows: Sequence[StudyRow]) -> None:
    """Draw one panel for each combination of all axes but the columns and the last other one."""
    from mlsim.analysis.plots import bars, write_picture

    others = [axis.name for axis in study.axes if axis.name != study.columns]
    parts: dict[tuple[str, ...], list[StudyRow]] = {}
    for row in rows:
        parts.setdefault(tuple(row.labels[name] for name in others[:-1]), []).append(row)
    panels = [_panel(", ".join(key), part, study.columns, others[-1:]) for key, part in parts.items()]
    write_picture(bars(panels, study.name, "T_loop (s)"), path)


def _panel(title: str, rows: Sequence[StudyRow], columns: str, along: Sequence[str]) -> Panel:
    """Return one panel; ``along`` is the axis of its groups, or nothing where only the columns vary."""
    from mlsim.analysis.plots import Panel

    def group(row: StudyRow) -> str:
        return "".join(row.labels[name] for name in along)

    table = {(row.labels[columns], group(row)): row for row in rows}
    groups = list(dict.fromkeys(map(group, rows)))
    series = list(dict.fromkeys(row.labels[columns] for row in rows))
    return Panel(
        title,
        groups,
        {name: [_value(table.get((name, place))) for place in groups] for name in series},
        {name: [_reference(table.get((name, place))) for place in groups] for name in series},
    )


def _value(row: StudyRow | None) -> float:
    return _NAN if row is None else float(row.facts["t_loop"])


def _reference(row: StudyRow | None) -> float:
    return _NAN if row is None or row.reference is None else row.reference


def draw_timeline(place: Place, study: Study, point: Point, result: LoopResult) -> None:
    """Draw the PEs of one combination over time."""
    from mlsim.analysis.plots import draw_pes

    with place.extra(place.partial / timeline_name(point)) as path:
        draw_pes(path, result.records, f"{study.name}: {', '.join(point.labels.values())}")


def timeline_name(point: Point) -> str:
    """Return the name of the file that shows the PEs of one combination."""
    words = re.sub(r"[^\w+.-]+", "-", ", ".join(point.labels.values()))
    return f"pes-{words.strip('-.')}.png"
