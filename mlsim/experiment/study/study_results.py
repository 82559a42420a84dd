"""Results of a study: its tables and pictures, written and read back."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsim._files import expanded, read_bytes
from mlsim._runtime.late import load_matplotlib
from mlsim.errors import InputError, OutputError
from mlsim.experiment.manifest import json_text
from mlsim.experiment.run_directory import versions
from mlsim.experiment.stored_runs import dotted_items
from mlsim.experiment.study import study_tables as tables
from mlsim.experiment.study.study_model import Study, file_name, own_pictures
from mlsim.experiment.study.study_plan import StudyRow
from mlsim.experiment.study.study_store import Results, Store, beside_name

if TYPE_CHECKING:
    import polars as pl

_BATCH = 1000  # rows whose metrics are held as Python objects at a time
_NO_METRICS = ("schema_version", "scenario", "self")


def write_results(store: Store, study: Study, rows: Sequence[StudyRow]) -> Results:
    """Write the tables and pictures of a study."""
    results = Results(store, study.formats)
    results.data("study.yaml", study.text)
    results.data("versions.json", json_text(versions()))
    write_frame(results, study.subject.kind, all_metrics(study, rows))
    found = tables.study_tables(study, rows)
    if study.subject.kind == "loops" and len(found) == 1:
        results.data("table.md", tables.markdown(*next(iter(found.values()))))
    else:
        parts = [f"## {title}\n\n{tables.markdown(*table)}" for title, table in found.items()]
        results.data("table.md", "\n".join(parts))
    results.data("table.tex", "\n".join(tables.latex(title, table) for title, table in found.items()))
    for title, table in found.items():
        results.data(f"table-{file_name(title)}.csv", _csv(table))
    statistics = tables.statistics_table(study, rows)
    if statistics[1]:
        note = tables.INTERVAL_NOTES[study.interval]
        results.data("statistics.md", f"{tables.markdown(*statistics)}\n{note}\n")
        results.data("statistics.csv", _csv(statistics))
    if study.pictures or study.subject.kind == "loops":
        load_matplotlib()
        from mlsim.experiment.study.study_pictures import draw_pictures

        draw_pictures(results, study, rows)
    for point, row in zip(study.points, rows, strict=True):
        for name in {} if row.failed else own_pictures(study, point):
            results.data(name, read_bytes(results.store.beside(row.key, beside_name(name))))
    results.finish()
    return results


def write_frame(results: Results, name: str, frame: pl.DataFrame) -> None:
    """Write a table as CSV and as Parquet."""
    for suffix in ("csv", "parquet"):
        results.table(f"{name}.{suffix}", frame)


def _csv(table: tables.Table) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table[0], *table[1]])
    return text.getvalue()


def all_metrics(study: Study, rows: Sequence[StudyRow]) -> pl.DataFrame:
    """Return every metric of every run after its labels, without measurements of mlsim itself."""
    import polars as pl

    ratios = tables.relative_to(study, rows) if study.relative else {}
    failures = any(row.failed for row in rows)
    loops = study.subject.kind == "loops"
    joined = [axis for axis in study.axes if axis.parts]
    frames = []
    for first in range(0, len(rows), _BATCH):
        lines = []
        for row in rows[first : first + _BATCH]:
            line: dict[str, Any] = dict(row.labels)
            for axis in joined:
                line |= axis.parts[row.labels[axis.name]]
            if not loops or study.metrics != study.subject.metrics:
                line |= row.metrics
            if study.relative:
                line[tables.relative_title(study)] = ratios.get(tables.labels_of(row))
            if failures:
                line["failed"] = row.failed or None
            facts = {name: value for name, value in row.facts.items() if name not in _NO_METRICS}
            for name, value in dotted_items(facts):
                line.setdefault(name, value)
            if loops:
                line["reference"] = row.reference
            lines.append(line)
        frames.append(pl.DataFrame(lines, infer_schema_length=None))
    frame = pl.concat(frames, how="diagonal_relaxed")
    none = [name for name, kind in frame.schema.items() if kind == pl.Null]
    return frame.with_columns(pl.col(none).cast(pl.Float64)) if none else frame


def check_complete(results: Results) -> None:
    """Raise OutputError if pictures are missing."""
    if results.missing:
        lines = [
            f"{results.directory / name}: cannot be drawn: {why}" for name, why in results.missing.items()
        ]
        raise OutputError(f"{'; '.join(lines)}. All else is in {results.directory}")


@dataclass(frozen=True)
class StudyTables:
    """The results of a study."""

    directory: Path
    """Directory of the results."""
    runs: pl.DataFrame
    """One row per run, or loop: its labels, then all metrics."""
    search: pl.DataFrame | None = None
    """Of a search: one row a candidate: parameters, objective, failures."""
    comparison: pl.DataFrame | None = None
    """Of a search with baselines: they and the best candidate, on what was searched and what was held out."""


def read_study(directory: str | Path) -> StudyTables:
    """Read the results of a study from the directory that ``mlsim study`` wrote.

    Raises InputError if there are none, or they are damaged.
    """
    from mlsim._files.parquet import check_apart, read_columns, read_schema

    place = expanded(directory)
    runs = next(
        (place / name for name in ("runs.parquet", "loops.parquet") if (place / name).is_file()), None
    )
    if runs is None:
        raise InputError(
            f"{place}: no results of a study: there is no runs.parquet or loops.parquet in it; "
            "`mlsim study` writes them when all runs are done"
        )
    others = {part: place / f"{part}.parquet" for part in ("search", "comparison")}
    there = {part: path for part, path in others.items() if path.is_file()}
    check_apart(place if there else runs, runs, *there.values())

    def table(path: Path) -> pl.DataFrame:
        return read_columns(path, path, list(read_schema(path, path)))

    return StudyTables(place, table(runs), **{part: table(path) for part, path in there.items()})
