"""What a study of runs leaves in words: a row for each run as CSV, and tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlsim.experiment.rundir import versions, write_json

if TYPE_CHECKING:
    from mlsim.experiment.batch_study import BatchStudy, RunRow
    from mlsim.experiment.directories import Place

__all__ = ["batch_tables", "labels_of", "relative_title", "relative_to", "write_batch_study"]

Table = tuple[list[str], list[list[str]]]
Labels = tuple[str, ...]


def batch_tables(study: BatchStudy, rows: Sequence[RunRow]) -> dict[str, Table]:
    """Lay out every metric, and the first one relative to the study's combination.

    Returns
    -------
    dict
        Title to column titles and rows of cells. With repetitions a cell is their mean, with the least and
        the largest in brackets if they differ. Reference values are in a column beside.
    """
    tables: dict[str, Table] = {}
    for title in study.metrics:
        values = {labels_of(row): row.metrics[title] for row in rows}
        tables[title] = _table(study, values, _found(study, title), _plain)
    if study.relative:
        found = _divided(study, _found(study, next(iter(study.metrics))), _compared(study))
        tables[relative_title(study)] = _table(study, relative_to(study, rows), found, "{:.3f}".format)
    return tables


def labels_of(row: RunRow) -> Labels:
    """Return the labels of a run, in order of the axes."""
    return tuple(row.labels.values())


def _found(study: BatchStudy, title: str) -> dict[Labels, float]:
    """Return reference values of one metric, by labels."""
    return {labels: values[title] for labels, values in study.reference.items() if title in values}


def relative_title(study: BatchStudy) -> str:
    """Name the first metric divided by that of the study's combination."""
    base = ", ".join(f"{name}: {label}" for name, label in study.relative.items())
    return f"{next(iter(study.metrics))} / with {base}"


def relative_to(study: BatchStudy, rows: Sequence[RunRow]) -> dict[Labels, float]:
    """Divide the first metric of each run by that of the run whose labels differ only in ``relative``.

    Returns
    -------
    dict
        Labels to ratio; runs that there is nothing to divide by are left out.
    """
    first = next(iter(study.metrics))
    values = {labels_of(row): row.metrics[first] for row in rows}
    return _divided(study, values, [axis.name for axis in study.axes])


def _divided(study: BatchStudy, values: Mapping[Labels, float], names: Sequence[str]) -> dict[Labels, float]:
    ratios: dict[Labels, float] = {}
    for labels, value in values.items():
        named = zip(names, labels, strict=True)
        below = values.get(tuple(study.relative.get(name, label) for name, label in named), 0.0)
        if below > 0.0:
            ratios[labels] = value / below
    return ratios


def _compared(study: BatchStudy) -> list[str]:
    return [axis.name for axis in study.axes if axis.name != study.repetitions]


def _gathered(study: BatchStudy, values: Mapping[Labels, float]) -> dict[Labels, list[float]]:
    """Gather the values of repetitions under the labels that they have in common."""
    left = [place for place, axis in enumerate(study.axes) if axis.name != study.repetitions]
    gathered: dict[Labels, list[float]] = {}
    for labels, value in values.items():
        gathered.setdefault(tuple(labels[place] for place in left), []).append(value)
    return gathered


def _table(
    study: BatchStudy,
    values: Mapping[Labels, float],
    found: Mapping[Labels, float],
    write: Callable[[float], str],
) -> Table:
    cells = _gathered(study, values)
    names = _compared(study)
    place = names.index(study.columns)
    across = next(list(axis.points) for axis in study.axes if axis.name == study.columns)
    known = {key[place] for key in found}
    titles = names[:place] + names[place + 1 :]
    for label in across:
        titles += [label, "source"] if label in known else [label]
    lines: dict[Labels, list[str]] = {}
    for key in cells:
        left = key[:place] + key[place + 1 :]
        if left not in lines:
            lines[left] = list(left)
            for label in across:
                full = (*key[:place], label, *key[place + 1 :])
                lines[left].append(_cell(cells.get(full, ()), write))
                if label in known:
                    lines[left].append(_cell([found[full]] if full in found else (), write))
    return titles, list(lines.values())


def _cell(values: Sequence[float], write: Callable[[float], str]) -> str:
    known = np.array([value for value in values if math.isfinite(value)])
    if not len(known):
        return ""
    mean, least, largest = (write(float(value)) for value in (known.mean(), known.min(), known.max()))
    return mean if least == largest else f"{mean} ({least} … {largest})"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def write_batch_study(place: Place, study: BatchStudy, rows: Sequence[RunRow]) -> None:
    """Write the tables and pictures of a study."""
    from mlsim.experiment.batch_drawing import draw_pictures

    directory = place.partial
    (directory / "study.yaml").write_text(study.text, encoding="utf-8")
    write_json(directory / "versions.json", versions())
    _write_csv(directory / "runs.csv", study, rows)
    parts = [f"## {title}\n\n{_markdown(*table)}" for title, table in batch_tables(study, rows).items()]
    (directory / "table.md").write_text("\n".join(parts), encoding="utf-8")
    draw_pictures(place, study, rows)


def _write_csv(path: Path, study: BatchStudy, rows: Sequence[RunRow]) -> None:
    import polars as pl

    lines: list[dict[str, object]] = [{**row.labels, **row.metrics} for row in rows]
    if study.relative:
        ratios = relative_to(study, rows)
        for line, row in zip(lines, rows, strict=True):
            line[relative_title(study)] = ratios.get(labels_of(row))
    pl.DataFrame(lines, infer_schema_length=None).write_csv(path)


def _markdown(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    cells = [titles, ["---"] * len(titles), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)
