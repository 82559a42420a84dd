"""Results of a search: tables, the picture, and the scenario of the best candidate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from mlsim import __version__
from mlsim.analysis.plots import chart_style
from mlsim.experiment.manifest import json_text
from mlsim.experiment.run_directory import versions
from mlsim.experiment.study import study_tables as tables
from mlsim.experiment.study.axes import words_of
from mlsim.experiment.study.search_methods import PACKAGES, Search
from mlsim.experiment.study.search_run import Outcome, candidate_points, outcome_of
from mlsim.experiment.study.study_model import Study
from mlsim.experiment.study.study_plan import StudyRow, located
from mlsim.experiment.study.study_results import all_metrics, write_frame
from mlsim.experiment.study.study_store import Results, Store
from mlsim.experiment.study.study_tables import Table
from mlsim.scenario.scenario_text import mapping_text

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure


_SHOWN = 10
_JUDGED = ("difference_low", "difference_high", "p")
_NOTE = (
    "Low and high are the ends of an interval that holds the mean with 95 % (percentiles of 10,000 bootstrap "
    "resamples). *best - it* is the mean difference of pairs of the same repetition, with its interval; p is "
    "of Wilcoxon's signed-rank test, two-sided, not corrected for the number of comparisons."
)


def _of(study: Study) -> Search:
    assert study.search is not None, "called for searches only"
    return study.search


def candidates_frame(search: Search, outcome: Outcome) -> pl.DataFrame:
    """Return one row per candidate: parameters, objective, generation, failures."""
    import polars as pl

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


def _best_table(search: Search, outcome: Outcome) -> Table:
    known = [one for one in outcome.candidates if one.works]
    known.sort(key=lambda one: search.loss(one.objective))
    lines = []
    for one in known[:_SHOWN]:
        values = (
            f"{value:.4g}" if isinstance(value, float) else str(value) for value in one.values_of(search)
        )
        lines.append([one.name, one.generation, *values, _number(one.objective)])
    return ["candidate", "generation", *search.names, search.objective], lines


def comparison_frame(search: Search, outcome: Outcome) -> pl.DataFrame:
    """Return the comparison of the best candidate with the baselines, on searched and held-out runs."""
    import polars as pl

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


def _comparison_table(search: Search, outcome: Outcome) -> Table:
    titles = ["metric", "candidate", "fitted"]
    if outcome.held_out:
        titles += ["held out", "low", "high", "runs", "best - it", "low", "high", "p"]
    rows = comparison_frame(search, outcome).to_dicts()
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
            lines[-1] += map(_number, (own[average], own["low"], own["high"]))
            lines[-1] += [str(own["runs"]), *(_number(own[key]) for key in ("difference", *_JUDGED))]
    return titles, lines


def _page(study: Study, outcome: Outcome) -> str:
    """Write the results of a search in Markdown: what was fitted, to which runs, and what was held out."""
    search = _of(study)
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
    parts += ["## Best candidates", tables.markdown(*_best_table(search, outcome))]
    if outcome.baselines:
        parts += ["## Beside the baselines", tables.markdown(*_comparison_table(search, outcome))]
    return "\n\n".join([*parts, last]).replace("\n\n\n", "\n\n") + "\n"


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float | None) -> str:
    return "" if value is None else tables.number(value, 4)


def search_tables(study: Study, rows: Sequence[StudyRow]) -> dict[str, Table]:
    """Return the tables of a search, by title."""
    return _tables(_of(study), outcome_of(_of(study), rows))


def _tables(search: Search, outcome: Outcome) -> dict[str, Table]:
    found = {"best candidates (fitted)": _best_table(search, outcome)}
    if outcome.baselines:
        title = "fitted and held out" if outcome.held_out else "fitted; nothing was held out"
        found[title] = _comparison_table(search, outcome)
    return found


def write_search(store: Store, study: Study, rows: Sequence[StudyRow]) -> Results:
    """Write the tables, the picture and the best scenario of a search."""
    search = _of(study)
    outcome = outcome_of(search, rows)
    results = Results(store, study.formats)
    results.data("study.yaml", study.text)
    package, _ = PACKAGES.get(search.method, ("", ""))
    results.data("versions.json", json_text(versions() | ({package: version(package)} if package else {})))
    write_frame(results, study.subject.kind, all_metrics(study, rows))
    write_frame(results, "search", candidates_frame(search, outcome))
    if outcome.baselines:
        write_frame(results, "comparison", comparison_frame(search, outcome))
    results.data("search.md", _page(study, outcome))
    found = _tables(search, outcome)
    results.data("search.tex", "\n".join(tables.latex(title, table) for title, table in found.items()))
    results.data("best.yaml", _best(study, outcome))
    results.picture("search", draw_search(study.name, search, outcome))
    results.finish()
    return results


def _best(study: Study, outcome: Outcome) -> str:
    """Return the scenario file of the best candidate: the base with its parameters and absolute paths."""
    search, best = _of(study), outcome.best
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


_LEFT, _RIGHT, _TOP, _HEIGHT, _BOTTOM = 130, 40, 110, 520, 90
_LOG_FROM = 5.0  # largest over least value from which the axis is logarithmic
_COLOURS = (chart_style.GREEN, chart_style.PURPLE, chart_style.INK)


def draw_search(title: str, search: Search, outcome: Outcome) -> Figure:
    """Draw the objective of all candidates; failed ones are at the edge."""
    values = np.array([one.objective for one in outcome.candidates])
    places = np.arange(1, len(values) + 1)
    known = np.isfinite(values)
    others = {name: one.objective for name, one in outcome.baselines.items() if one.works}
    shown = np.concatenate([values[known], list(others.values())])
    with chart_style.picture_style():
        figure = chart_style.canvas(_TOP + _HEIGHT + _BOTTOM)
        axes = chart_style.axes_at(figure, _LEFT, _TOP, chart_style.WIDTH - _LEFT - _RIGHT, _HEIGHT)
        if shown.min() > 0.0 and shown.max() > _LOG_FROM * shown.min():
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        dots: dict[str, Any] = {
            "color": chart_style.SKY,
            "markersize": 3.5,
            "markeredgewidth": 0,
            "label": "candidate",
        }
        axes.plot(places[known], values[known], "o", **dots)
        best = (np.fmax if search.maximise else np.fmin).accumulate(values)
        axes.step(places, best, where="post", color=chart_style.BLUE, linewidth=1.5, label="best so far")
        for place, (name, value) in enumerate(others.items()):
            colour, dashes = _COLOURS[place % len(_COLOURS)], (0, (4, 2 + place))
            axes.axhline(value, color=colour, linewidth=1.0, linestyle=dashes, label=name)
        low, high = float(shown.min()), float(shown.max())
        if axes.get_yscale() == "log":
            margin = (high / low) ** 0.07
            axes.set_ylim(low / margin, high * margin)
        else:
            margin = 0.07 * (high - low) or 0.07 * abs(high) or 1.0
            axes.set_ylim(low - margin, high + margin)
        if not known.all():
            heights = np.full(int((~known).sum()), 0.02 if search.maximise else 0.98)
            crosses: dict[str, Any] = {"color": chart_style.VERMILION, "markersize": 5}
            crosses |= {"transform": axes.get_xaxis_transform(), "label": "failed: counts as worst"}
            axes.plot(places[~known], heights, "x", **crosses)
        axes.set_xlim(0.5, len(values) + 0.5)
        axes.set_xlabel("candidate, in the order they were tried")
        axes.set_ylabel(search.objective)
        axes.grid(axis="y", linewidth=0.4, alpha=0.5)
        axes.set_axisbelow(True)
        height = figure.get_figheight() * figure.dpi
        figure.text(_LEFT / chart_style.WIDTH, 1 - 26 / height, title, fontsize=10)
        figure.legend(loc="upper left", bbox_to_anchor=(_LEFT / chart_style.WIDTH, 1 - 38 / height), ncols=5)
    return figure
