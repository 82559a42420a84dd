"""Results of a study or a search: tables, pictures, the best scenario; written and read back."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mlsim import __version__
from mlsim._files import expanded, parquet, read_bytes
from mlsim._runtime.late import load_matplotlib
from mlsim.errors import InputError, OutputError
from mlsim.experiment import manifest, run_directory, stored_runs
from mlsim.experiment.study import study_tables as tables
from mlsim.experiment.study.axes import words_of
from mlsim.experiment.study.search_file import Outcome, candidate_points, outcome_of
from mlsim.experiment.study.search_methods import PACKAGES
from mlsim.experiment.study.study_model import Study, file_name, own_pictures
from mlsim.experiment.study.study_plan import StudyRow, located
from mlsim.experiment.study.study_store import Results, Store, beside_name
from mlsim.scenario.scenario_text import mapping_text

_BATCH = 1000  # rows whose metrics are held as Python objects at a time
_NO_METRICS = ("schema_version", "scenario", "self")
_SHOWN = 10  # of the best, and of the failed, candidates of a search
_JUDGED = ("difference_low", "difference_high", "p")
_NOTE = (
    "± is the wider side of an interval that holds the mean with 95 % (percentiles of 10,000 bootstrap "
    "resamples). *best - it* is the mean difference of pairs of the same repetition, with its interval; p is "
    "of Wilcoxon's signed-rank test, two-sided, not corrected for the number of comparisons."
)


def write_results(store: Store, study: Study, rows: Sequence[StudyRow]) -> Results:
    """Write the tables and pictures of a study, and the best scenario of a search."""
    results = Results(store, study.formats)
    results.data("study.yaml", study.text)
    versions = run_directory.versions()
    package = None if study.search is None else PACKAGES.get(study.search.method)
    if package is not None:
        versions[package[0]] = version(package[0])
    results.data("versions.json", manifest.json_text(versions))
    _write_frame(results, study.subject.kind, all_metrics(study, rows))
    outcome = None if study.search is None else outcome_of(study.search, rows)
    if outcome is None:
        _write_compared(results, study, rows)
    else:
        _write_search(results, study, outcome)
    if outcome is not None or study.pictures or study.subject.kind == "loops":
        load_matplotlib()
        from mlsim.experiment.study import study_pictures

        study_pictures.draw_pictures(results, study, rows, outcome)
    results.finish()
    return results


def _write_compared(results: Results, study: Study, rows: Sequence[StudyRow]) -> None:
    found = tables.study_tables(study, rows)
    parts = [f"## {title}\n\n{tables.markdown(table)}" for title, table in found.items()]
    if study.subject.kind == "loops" and len(found) == 1:
        parts = [tables.markdown(next(iter(found.values())))]
    note = tables.notes_on(study, found.values(), "bold")
    results.data("table.md", "\n".join([*parts, *([f"{note}\n"] if note else [])]))
    results.data("table.tex", "\n".join(tables.latex(title, table, note) for title, table in found.items()))
    for title, table in found.items():
        results.data(f"table-{file_name(title)}.csv", _csv(table))
    statistics = tables.statistics_table(study, rows)
    if statistics.lines:
        note = tables.INTERVAL_NOTES[study.interval]
        results.data("statistics.md", f"{tables.markdown(statistics)}\n{note}\n")
        results.data("statistics.csv", _csv(statistics))
    for point, row in zip(study.points, rows, strict=True):
        for name in {} if row.failed else own_pictures(study, point):
            results.data(name, read_bytes(results.store.beside(row.key, beside_name(name))))


def _write_frame(results: Results, name: str, frame: pl.DataFrame) -> None:
    """Write a table as CSV and as Parquet."""
    with results.file(f"{name}.csv") as path:
        frame.write_csv(path)
    with results.file(f"{name}.parquet") as path:
        frame.write_parquet(path)


def _csv(table: tables.Table) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.titles, *table.lines])
    return text.getvalue()


def all_metrics(study: Study, rows: Sequence[StudyRow]) -> pl.DataFrame:
    """Return every metric of every run after its labels, without measurements of mlsim itself."""
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
            for name, value in stored_runs.dotted_items(facts):
                line.setdefault(name, value)
            if loops:
                line["reference"] = row.reference
            lines.append(line)
        frames.append(pl.DataFrame(lines, infer_schema_length=None))
    frame = pl.concat(frames, how="diagonal_relaxed")
    none = [name for name, kind in frame.schema.items() if kind == pl.Null]
    return frame.with_columns(pl.col(none).cast(pl.Float64)) if none else frame


def _candidates_frame(outcome: Outcome) -> pl.DataFrame:
    """Return one row per candidate: parameters, objective, generation, failures."""
    search = outcome.search
    lines = []
    for one in outcome.candidates:
        line: dict[str, Any] = {"candidate": int(one.name), "generation": int(one.generation)}
        line |= zip(search.names, one.values_of(search), strict=True)
        line["objective"] = one.objective if one.works else None
        line["runs"], line["failed"] = len(one.values), len(one.failed)
        for title, values in one.metrics.items():
            mean = float(np.mean(list(values.values())))
            line[title] = mean if math.isfinite(mean) else None
        line["message"] = one.failed[0] if one.failed else None
        lines.append(line)
    frame = pl.DataFrame(lines, infer_schema_length=None)
    numbers = ("objective", *outcome.best.metrics)
    return frame.with_columns(pl.col("message").cast(pl.String), pl.col(numbers).cast(pl.Float64))


def _best_table(outcome: Outcome) -> tables.Table:
    search = outcome.search
    known = [one for one in outcome.candidates if one.works]
    known.sort(key=lambda one: search.loss(one.objective))
    lines = []
    for one in known[:_SHOWN]:
        values = (
            f"{value:.4g}" if isinstance(value, float) else str(value) for value in one.values_of(search)
        )
        lines.append([one.name, one.generation, *values, _number(one.objective)])
    return tables.Table(["candidate", "generation", *search.names, search.objective], lines)


def _comparison_frame(outcome: Outcome) -> pl.DataFrame:
    """Return the comparison of the best candidate with the baselines, on searched and held-out runs."""
    search = outcome.search
    numbers = ("mean", "median", "low", "high")
    schema: dict[str, Any] = dict.fromkeys(("part", "metric", "candidate"), pl.String)
    schema |= {"runs": pl.Int64, "failed": pl.Int64, **dict.fromkeys(numbers, pl.Float64)}
    schema |= {"pairs": pl.Int64, **dict.fromkeys(("difference", *_JUDGED), pl.Float64)}
    lines = []
    fitted = {"best": outcome.best, **outcome.baselines}
    # The objective is "", if it is not one of the metrics.
    metrics = ["", *(title for title in outcome.best.metrics if title != search.title or search.relative)]
    for part, tried in (("search", fitted), ("held out", outcome.held_out)):
        for metric in metrics:
            for name, one in tried.items():
                values = {
                    key: other.metrics[metric] if metric else other.values for key, other in tried.items()
                }
                own = tables.spread_of(values[name])
                compared = None if name == "best" else tables.spread_of(values["best"], values[name])
                line: dict[str, Any] = {"part": part, "metric": metric or search.objective, "candidate": name}
                line |= {"runs": own.runs, "failed": len(one.failed)}
                line |= {key: _or_none(getattr(own, key)) for key in numbers}
                if compared is not None:
                    line["pairs"] = compared.pairs
                    # An interval or a test of runs selected for being good would be meaningless.
                    judged = ("difference", *_JUDGED) if part == "held out" else ("difference",)
                    line |= {key: _or_none(getattr(compared, key)) for key in judged}
                lines.append(line)
    return pl.DataFrame(lines, schema=schema)


def _comparison_table(outcome: Outcome) -> tables.Table:
    search = outcome.search
    titles = ["metric", "candidate", "fitted"]
    if outcome.held_out:
        titles += ["held out", "runs", "best - it", "p"]
    rows = _comparison_frame(outcome).to_dicts()
    held_out = {(row["metric"], row["candidate"]): row for row in rows if row["part"] == "held out"}
    lines = []
    for row in rows:
        if row["part"] == "held out":
            continue
        metric, name = row["metric"], row["candidate"]
        # The objective is shown by its own average.
        average = "median" if search.average == "median" and metric == search.objective else "mean"
        shown = f"best ({outcome.best.name})" if name == "best" else name
        lines.append([metric, shown, _number(row[average])])
        if held_out:
            own = held_out[metric, name]
            # The interval is of the mean, beside a median it would mislead.
            shown = _number(own["median"]) if average == "median" else _spread(own, "mean", "low", "high")
            lines[-1] += [shown, str(own["runs"]), _spread(own, *_DIFFERENCE), _number(own["p"])]
    return tables.Table(titles, lines, 2)


def _page(study: Study, outcome: Outcome) -> str:
    """Write the results of a search in Markdown: what was fitted, to which runs, and what was held out."""
    search = outcome.search
    runs, held_out = (
        "one run" if len(of) == 1 else f"{len(of)} runs" for of in (search.repetitions, search.held_out)
    )
    failed = [one.name for one in outcome.candidates if one.failed]
    sentences = [
        f"{'Largest' if search.maximise else 'Least'} {search.objective} over {', '.join(search.names)}: "
        f"method {search.method}, {len(outcome.candidates)} candidates, each on "
        f"{runs}.",
        f"Best is candidate {outcome.best.name} ({words_of(outcome.best.labels)}): "
        f"{_number(outcome.best.objective)}. This number was fitted: it is the best of "
        f"{len(outcome.candidates)} on the runs that it was chosen by, and no evidence of what comes next.",
    ]
    if failed:
        named = ", ".join(failed[:_SHOWN] + ["…"] * (len(failed) > _SHOWN))
        sentences.append(
            f"Of {len(failed)} candidates at least one run failed; they count as the worst ({named})."
        )
    if outcome.held_out:
        last = f"Held out: {held_out} that no candidate was chosen by. {_NOTE}"
    else:
        last = "Nothing was held out (`validate`)."
    parts = [f"# {study.name}", " ".join(sentences)]
    parts += ["## Best candidates", tables.markdown(_best_table(outcome))]
    if outcome.baselines:
        parts += ["## Beside the baselines", tables.markdown(_comparison_table(outcome))]
    return "\n\n".join([*parts, last]).replace("\n\n\n", "\n\n") + "\n"


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float | None) -> str:
    return "" if value is None else tables.number(value, 4)


_DIFFERENCE = ("difference", "difference_low", "difference_high")


def _spread(row: Mapping[str, Any], mean: str, low: str, high: str) -> str:
    """Return a mean with its interval, as in the tables of all studies."""
    if row[mean] is None:
        return ""
    least, most = (math.nan if row[key] is None else float(row[key]) for key in (low, high))
    return tables.spread_cell(tables.Spread(row["runs"], row[mean], math.nan, least, most), _number)


def search_tables(study: Study, rows: Sequence[StudyRow]) -> dict[str, tables.Table]:
    """Return the tables of a search, by title."""
    assert study.search is not None, "called for searches only"
    return _tables(outcome_of(study.search, rows))


def _tables(outcome: Outcome) -> dict[str, tables.Table]:
    found = {"best candidates (fitted)": _best_table(outcome)}
    if outcome.baselines:
        title = "fitted and held out" if outcome.held_out else "fitted; nothing was held out"
        found[title] = _comparison_table(outcome)
    return found


def _write_search(results: Results, study: Study, outcome: Outcome) -> None:
    _write_frame(results, "search", _candidates_frame(outcome))
    if outcome.baselines:
        _write_frame(results, "comparison", _comparison_frame(outcome))
    results.data("search.md", _page(study, outcome))
    found = _tables(outcome)
    results.data("search.tex", "\n".join(tables.latex(title, table) for title, table in found.items()))
    results.data("best.yaml", _best(study, outcome))


def _best(study: Study, outcome: Outcome) -> str:
    """Return the scenario file of the best candidate: the base with its parameters and absolute paths."""
    search, best = outcome.search, outcome.best
    point, *_ = candidate_points(search, best.values_of(search), int(best.name), int(best.generation))
    left_out = [axis for axis in study.axes if axis.name not in search.kept_axes]
    own = {key for axis in left_out for keys in axis.points.values() for key in keys}
    overrides = {key: value for key, value in point.overrides.items() if key not in own}
    base = study.cases.base
    given = located(study.subject.given(base, overrides), base.directory)
    lines = [
        f"{study.name}: candidate {best.name} of {len(outcome.candidates)} ({words_of(best.labels)}).",
        f"{search.objective}: {best.objective:.6g} on {len(search.repetitions)} runs that it was chosen by.",
    ]
    if outcome.held_out:
        held_out = outcome.held_out["best"]
        found = f"{held_out.objective:.6g}" if held_out.works else "unknown, as a run failed,"
        lines.append(f"Held out: {found} on {len(search.held_out)} runs that no candidate was chosen by.")
    kept = {name: point.labels[name] for name in search.kept_axes}
    if kept:
        lines.append(f"Of what was repeated it has {words_of(kept)}.")
    lines.append(f"Made by mlsim {__version__}.")
    comment = "".join(f"# {' '.join(line.split())}\n" for line in lines)
    return comment + mapping_text(given)


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
    parquet.check_apart(place if there else runs, runs, *there.values())

    def table(path: Path) -> pl.DataFrame:
        return parquet.read_columns(path, path, list(parquet.read_schema(path, path)))

    return StudyTables(place, table(runs), **{part: table(path) for part, path in there.items()})
