"""The tables of a study: every metric, with an axis side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mlsim.experiment.study.model import Study
    from mlsim.experiment.study.rows import StudyRow

__all__ = [
    "Labels",
    "Table",
    "labels_of",
    "latex",
    "markdown",
    "relative_title",
    "relative_to",
    "study_tables",
]

Table = tuple[list[str], list[list[str]]]
Labels = tuple[str, ...]


def study_tables(study: Study, rows: Sequence[StudyRow]) -> dict[str, Table]:
    """Lay out every metric, and the first one relative to the study's combination.

    Returns
    -------
    dict
        Title to column titles and rows of cells. With repetitions a cell is their mean, with the least and
        the largest in brackets if they differ. Reference values are in a column beside.
    """
    tables: dict[str, Table] = {}
    write = _seconds if study.subject.kind == "loops" else _plain
    for title in study.metrics:
        values = {labels_of(row): row.metrics[title] for row in rows}
        tables[title] = _table(study, values, _found(study, title), write)
    if study.relative:
        found = _divided(study, _found(study, next(iter(study.metrics))), _compared(study))
        tables[relative_title(study)] = _table(study, relative_to(study, rows), found, "{:.3f}".format)
    return tables


def labels_of(row: StudyRow) -> Labels:
    """Return the labels of a run, in order of the axes."""
    return tuple(row.labels.values())


def _found(study: Study, title: str) -> dict[Labels, float]:
    """Return reference values of one metric, by labels."""
    return {labels: values[title] for labels, values in study.reference.items() if title in values}


def relative_title(study: Study) -> str:
    """Name the first metric divided by that of the study's combination."""
    base = ", ".join(f"{name}: {label}" for name, label in study.relative.items())
    return f"{next(iter(study.metrics))} / with {base}"


def relative_to(study: Study, rows: Sequence[StudyRow]) -> dict[Labels, float]:
    """Divide the first metric of each run by that of the run whose labels differ only in ``relative``.

    Returns
    -------
    dict
        Labels to ratio; runs that there is nothing to divide by are left out.
    """
    first = next(iter(study.metrics))
    values = {labels_of(row): row.metrics[first] for row in rows}
    return _divided(study, values, [axis.name for axis in study.axes])


def _divided(study: Study, values: Mapping[Labels, float], names: Sequence[str]) -> dict[Labels, float]:
    ratios: dict[Labels, float] = {}
    for labels, value in values.items():
        named = zip(names, labels, strict=True)
        below = values.get(tuple(study.relative.get(name, label) for name, label in named), 0.0)
        if below > 0.0:
            ratios[labels] = value / below
    return ratios


def _compared(study: Study) -> list[str]:
    return [axis.name for axis in study.axes if axis.name != study.repetitions]


def _gathered(study: Study, values: Mapping[Labels, float]) -> dict[Labels, list[float]]:
    """Gather the values of repetitions under the labels that they have in common."""
    left = [place for place, axis in enumerate(study.axes) if axis.name != study.repetitions]
    gathered: dict[Labels, list[float]] = {}
    for labels, value in values.items():
        gathered.setdefault(tuple(labels[place] for place in left), []).append(value)
    return gathered


def _table(
    study: Study,
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
                lines[left].append(_cell(cells.get(full, ()), write, study.trim))
                if label in known:
                    lines[left].append(_cell([found[full]] if full in found else (), write))
    return titles, list(lines.values())


def _cell(values: Sequence[float], write: Callable[[float], str], trim: int = 0) -> str:
    known = np.sort([value for value in values if math.isfinite(value)])
    known = known[trim : len(known) - trim]
    if not len(known):
        return ""
    mean, least, largest = (write(float(value)) for value in (known.mean(), known.min(), known.max()))
    return mean if least == largest else f"{mean} ({least} … {largest})"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _seconds(value: float) -> str:
    """Write seconds with three digits or, from 100 on, one decimal."""
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def markdown(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Write a table in Markdown."""
    cells = [titles, ["---"] * len(titles), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def latex(title: str, table: Table) -> str:
    """Write a table in LaTeX, with booktabs' rules."""
    titles, lines = table
    rows = [" & ".join(map(_escaped, line)) + r" \\" for line in lines]
    head = " & ".join(map(_escaped, titles)) + r" \\"
    body = [r"\toprule", head, r"\midrule", *rows, r"\bottomrule"]
    columns = "l" * len(titles)
    return "\n".join([f"% {title}", rf"\begin{{tabular}}{{{columns}}}", *body, r"\end{tabular}"]) + "\n"


def _escaped(text: str) -> str:
    """Return a text as LaTeX shows it."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


_LATEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "…": r"\dots{}",
}
