"""What a search leaves beside its store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from mlsim import __version__
from mlsim.experiment.manifest import json_text
from mlsim.experiment.rundir import versions
from mlsim.experiment.study.digests import located
from mlsim.experiment.study.points import words_of
from mlsim.experiment.study.results import Results, all_metrics
from mlsim.experiment.study.search.candidates import FITTED, candidate_points
from mlsim.experiment.study.search.methods.base import PACKAGES
from mlsim.experiment.study.search.outcome import Outcome, outcome_of
from mlsim.experiment.study.search.tables import (
    best_table,
    candidates_frame,
    comparison_frame,
    comparison_table,
    page,
)
from mlsim.experiment.study.tables import latex
from mlsim.scenario import mapping_text

if TYPE_CHECKING:
    from mlsim.experiment.study.model import Study
    from mlsim.experiment.study.rows import StudyRow
    from mlsim.experiment.study.store import Store
    from mlsim.experiment.study.tables import Table

__all__ = ["search_tables", "write_search"]


def search_tables(study: Study, rows: Sequence[StudyRow]) -> dict[str, Table]:
    """Return the tables that are shown of a search, by their titles."""
    search = study.search
    assert search is not None, "called for searches only"
    return _tables(study, outcome_of(search, rows))


def _tables(study: Study, outcome: Outcome) -> dict[str, Table]:
    search = study.search
    assert search is not None, "called for searches only"
    tables = {"best candidates (fitted)": best_table(search, outcome)}
    if outcome.baselines:
        title = "fitted and held out" if outcome.held_out else "fitted; nothing was held out"
        tables[title] = comparison_table(search, outcome)
    return tables


def write_search(store: Store, study: Study, rows: Sequence[StudyRow]) -> Results:
    """Write the tables, the picture and the best scenario of a search.

    Raises
    ------
    OSError
        If a table cannot be written.
    """
    search = study.search
    assert search is not None, "called for searches only"
    outcome = outcome_of(search, rows)
    results = Results(store, study.formats)
    results.text("study.yaml", study.text)
    package, _ = PACKAGES.get(search.method, ("", ""))
    results.text("versions.json", json_text(versions() | ({package: version(package)} if package else {})))
    frames = {
        study.subject.kind: all_metrics(study, rows),
        "search": candidates_frame(search, outcome),
        **({"comparison": comparison_frame(search, outcome)} if outcome.baselines else {}),
    }
    for name, frame in frames.items():
        results.table(f"{name}.csv", frame)
        results.table(f"{name}.parquet", frame)
    results.text("search.md", page(study, outcome))
    tables = _tables(study, outcome)
    results.text("search.tex", "\n".join(latex(title, table) for title, table in tables.items()))
    results.text("best.yaml", _best(study, outcome))
    _draw(results, study, outcome)
    results.finish()
    return results


def _draw(results: Results, study: Study, outcome: Outcome) -> None:
    from mlsim import _matplotlib

    _matplotlib.load()
    from mlsim.experiment.study.search.picture import draw_search

    assert study.search is not None, "called for searches only"
    results.picture("search", draw_search(study.name, study.search, outcome))


def _best(study: Study, outcome: Outcome) -> str:
    """Return a scenario file of the best candidate: the base with its parameters, files by their whole paths.

    Seeds and weeks are those of the base; of other repetitions it has the first.
    """
    search, best = study.search, outcome.best
    assert search is not None, "called for searches only"
    values = tuple(one.value(best.labels[one.name]) for one in search.parameters)
    first = search.repetitions[:1]
    (point,) = candidate_points(search, values, int(best.name), int(best.generation), first, FITTED)
    own = {key for name in _left_out(study) for keys in _axis(study, name).values() for key in keys}
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


def _left_out(study: Study) -> list[str]:
    assert study.search is not None, "called for searches only"
    return [axis.name for axis in study.axes if axis.name not in study.search.kept_axes]


def _axis(study: Study, name: str) -> Mapping[str, Mapping[str, Any]]:
    return next(axis.points for axis in study.axes if axis.name == name)
