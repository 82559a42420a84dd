"""Studies: one loop under every combination of some choices, side by side with what others measured.

A study is a YAML file beside the loop it varies.

```yaml
name: dca-vs-cca
description: ...
base: loop.yaml                  # a scenario file, read as `mlsim loop` does
vary:                            # every combination is simulated; the last varies fastest
  machine:                       # labels, each with the keys it sets
    slow master: {platform.nodes: [...]}
    fast master: {platform.nodes: [...]}
  application.technique: [SS, GSS, FAC2]           # or a list of values of one key
  application.execution.model: [cca, dca]
without: [{machine: slow master, technique: FAC2}] # combinations to leave out
columns: model                   # what stands side by side; default: the last of vary
reference: source.csv            # what others measured: a column a name of vary, and t_loop (s)
timelines: [{technique: GSS}]    # combinations whose PEs are drawn over time
```
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsim.errors import InputError
from mlsim.experiment.common_study import CommonStudy, open_study
from mlsim.experiment.grid import Axis, Point, matches, points
from mlsim.experiment.loops import LoopResult, load_loop, run_loop
from mlsim.experiment.study_checks import check_files, check_scenarios, check_titles, some_points
from mlsim.experiment.study_file import entries, file_text, one_of
from mlsim.experiment.study_results import timeline_name

if TYPE_CHECKING:
    from mlsim.experiment.directories import Place

__all__ = ["KEYS", "Study", "StudyRow", "load_study", "run_study", "study_into"]

KEYS = ("of", "name", "description", "base", "vary", "without", "columns", "reference", "timelines")


@dataclass(frozen=True)
class Study(CommonStudy):
    """What is compared with what, of loops."""

    reference: Mapping[tuple[str, ...], float]
    """What others measured: labels, in order of the axes, to s."""
    timelines: Sequence[Mapping[str, Any]]
    """Combinations whose PEs are drawn over time."""

    def drawn(self, point: Point) -> bool:
        """Return whether the PEs of a combination are drawn."""
        return any(matches(point.labels, entry) for entry in self.timelines)


@dataclass(frozen=True)
class StudyRow:
    """One combination: its labels, the facts of its loop, and what others measured (s), or None."""

    labels: Mapping[str, str]
    facts: Mapping[str, Any]
    reference: float | None


def load_study(path: str | Path) -> Study:
    """Read a study and every loop it makes.

    Parameters
    ----------
    path
        A study file, or a directory with ``study.yaml`` in it.

    Raises
    ------
    InputError
        If a file cannot be read or a combination is no loop that can be simulated; nothing was simulated.
    """
    opened = open_study(path, KEYS, "loops", "loops")
    content, axes, place = opened.content, opened.axes, opened.place
    names = [axis.name for axis in axes]
    columns = one_of(content.get("columns", names[-1]), names, place("columns"))
    check_titles([*names, "reference"], place("vary"))
    base = opened.path.parent / str(content["base"])
    found = some_points(points(axes, opened.without), place("without"))
    reference = content.get("reference")
    study = Study(
        **opened.head(),
        cases=[(point, load_loop(base, point.overrides)) for point in found],
        columns=columns,
        reference={} if reference is None else _reference(opened.path.parent / str(reference), axes),
        timelines=entries(content.get("timelines", []), axes, place("timelines")),
    )
    check_files([timeline_name(point) for point in found if study.drawn(point)], place("timelines"))
    return study


def _reference(file: Path, axes: Sequence[Axis]) -> dict[tuple[str, ...], float]:
    """Read what others measured: a column an axis, and ``t_loop`` in s; further columns are for readers."""
    names = [axis.name for axis in axes]
    labels = {axis.name: list(axis.points) for axis in axes}
    measured: dict[tuple[str, ...], float] = {}
    rows = list(csv.DictReader(file_text(file).splitlines()))
    for number, row in enumerate(rows, start=2):
        place = f"{file}:{number}"
        for name in (*names, "t_loop"):
            if not row.get(name):
                raise InputError(f"{place}: {name}: missing; columns: {', '.join((*names, 't_loop'))}")
        key = tuple(one_of(row[name], labels[name], f"{place}: {name}") for name in names)
        try:
            measured[key] = float(row["t_loop"])
        except ValueError as error:
            raise InputError(f"{place}: t_loop: {row['t_loop']!r} is not a number of seconds") from error
    return measured


def run_study(
    study: Study,
    *,
    out: str | Path | None = None,
    progress: Callable[[StudyRow, int], None] | None = None,
) -> list[StudyRow]:
    """Simulate every combination of a study.

    Parameters
    ----------
    study
        From :func:`load_study`.
    out
        Directory for the table (``loops.csv``, ``table.md``), the picture (``t-loop.png``) and timelines;
        it must not exist. Nothing is written without it.
    progress
        Called with each row and how many there will be.

    Raises
    ------
    OutputError
        If not all of the results can be written; the message says what was kept, and where.
    """
    from mlsim.experiment.directories import complete_or_gone

    if out is None:
        _check_loops(study)
        return [_row(study, point, run_loop(loop, chunks=False), progress) for point, loop in study.cases]
    with complete_or_gone(out) as place:
        return study_into(place, study, progress)


def study_into(
    place: Place, study: Study, progress: Callable[[StudyRow, int], None] | None = None
) -> list[StudyRow]:
    """Simulate every combination of a study and write its results into a place; see :func:`run_study`."""
    from mlsim.experiment.study_results import draw_timeline, write_study

    _check_loops(study)
    rows: list[StudyRow] = []
    for point, loop in study.cases:
        result = run_loop(loop, chunks=study.drawn(point))
        if study.drawn(point):
            draw_timeline(place, study, point, result)
        rows.append(_row(study, point, result, progress))
    write_study(place, study, rows)
    return rows


def _check_loops(study: Study) -> None:
    """Read what the loops name, before the first is simulated."""
    from mlsim.cosim import check_loop

    check_scenarios(study.cases, check_loop, ("seed", "platform", "application"))


def _row(
    study: Study, point: Point, result: LoopResult, progress: Callable[[StudyRow, int], None] | None
) -> StudyRow:
    measured = study.reference.get(tuple(point.labels.values()))
    row = StudyRow(point.labels, result.facts, measured)
    if progress is not None:
        progress(row, len(study.cases))
    return row
