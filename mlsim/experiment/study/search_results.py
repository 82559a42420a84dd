"""Results of a search: tables, the picture, and the scenario of the best candidate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from mlsim import __version__
from mlsim.analysis.plots import chart_style
from mlsim.experiment.manifest import json_text
from mlsim.experiment.run_directory import versions
from mlsim.experiment.study.axes import words_of
from mlsim.experiment.study.search_methods import PACKAGES, Search
from mlsim.experiment.study.search_run import FITTED, Outcome, Tried, candidate_points, outcome_of
from mlsim.experiment.study.study_plan import located
from mlsim.experiment.study.study_results import all_metrics
from mlsim.experiment.study.study_store import Results
from mlsim.experiment.study.study_tables import Spread, Table, latex, markdown, spread_of
from mlsim.scenario import mapping_text

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mlsim.experiment.study.search_methods import Search
    from mlsim.experiment.study.study_model import Study
    from mlsim.experiment.study.study_plan import StudyRow
    from mlsim.experiment.study.study_store import Store


_SHOWN = 10
_JUDGED = ("difference_low", "difference_high", "p")
_NOTE = (
    "Low and high are the ends of an interval that holds the mean with 95 % (percentiles of 10,000 bootstrap "
    "resamples). *best - it* is the mean difference of pairs of the same repetition, with its interval; p is "
    "of Wilcoxon's signed-rank test, two-sided, not corrected for the number of comparisons."
)


def candidates_frame(search: Search, outcome: Outcome) -> pl.DataFrame:
    """Return one row per candidate: parameters, objective, generation, failures."""
    import polars as pl

    lines = []
    for one in outcome.candidates:
        line: dict[str, Any] = {"candidate": int(one.name), "generation": int(one.generation)}
        line |= {
            parameter.name: parameter.value(one.labels[parameter.name]) for parameter in search.parameters
        }
        line["objective"] = one.objective if one.works else None
        line["runs"], line["failed"] = len(one.values), len(one.failed)
        line |= {title: _mean(values) for title, values in one.metrics.items()}
        line["message"] = one.failed[0] if one.failed else None
        lines.append(line)
    frame = pl.DataFrame(lines, infer_schema_length=None)
    texts = [pl.col("message").cast(pl.String), pl.col("objective").cast(pl.Float64)]
    return frame.with_columns(*texts, *(pl.col(title).cast(pl.Float64) for title in outcome.best.metrics))


def _mean(values: Mapping[str, float]) -> float | None:
    found = np.array(list(values.values()))
    return float(found.mean()) if np.isfinite(found).all() else None


def best_table(search: Search, outcome: Outcome) -> Table:
    """Lay out the best ten candidates, best first."""
    known = [one for one in outcome.candidates if one.works]
    known.sort(key=lambda one: search.loss(one.objective))
    names = [parameter.name for parameter in search.parameters]
    lines = [
        [one.name, one.generation, *_shown(search, one), _number(one.objective)] for one in known[:_SHOWN]
    ]
    return ["candidate", "generation", *names, search.objective], lines


def _shown(search: Search, one: Tried) -> list[str]:
    """Return the values of the parameters; all digits are in ``search.csv``."""
    values = (parameter.value(one.labels[parameter.name]) for parameter in search.parameters)
    return [f"{value:.4g}" if isinstance(value, float) else str(value) for value in values]


def comparison_frame(search: Search, outcome: Outcome) -> pl.DataFrame:
    """Return the comparison of the best candidate with the baselines, on searched and held-out runs."""
    import polars as pl

    schema: dict[str, Any] = {"part": pl.String, "metric": pl.String, "candidate": pl.String}
    schema |= {"runs": pl.Int64, "failed": pl.Int64}
    numbers = ("mean", "median", "low", "high")
    schema |= dict.fromkeys(numbers, pl.Float64) | {"pairs": pl.Int64}
    schema |= dict.fromkeys(("difference", *_JUDGED), pl.Float64)
    lines = []
    for part, tried in (("search", _fitted(outcome)), ("held out", outcome.held_out)):
        for metric in _metrics(search, outcome):
            for name, one in tried.items():
                own, compared = _spreads(tried, name, metric)
                line: dict[str, Any] = {"part": part, "metric": metric or search.objective, "candidate": name}
                line |= {"runs": own.runs, "failed": len(one.failed)}
                line |= {key: _or_none(getattr(own, key)) for key in numbers}
                if compared is not None:
                    line["pairs"] = compared.pairs
                    line["difference"] = _or_none(compared.difference)
                    # An interval or a test of runs selected for being good would be meaningless.
                    judged = _JUDGED if part == "held out" else ()
                    line |= {key: _or_none(getattr(compared, key)) for key in judged}
                lines.append(line)
    return pl.DataFrame(lines, schema=schema)


def comparison_table(search: Search, outcome: Outcome) -> Table:
    """Lay out the best candidate beside the baselines: fitted and held-out values."""
    titles = ["metric", "candidate", "fitted"]
    if outcome.held_out:
        titles += ["held out", "low", "high", "runs", "best - it", "low", "high", "p"]
    lines = []
    fitted = _fitted(outcome)
    for metric in _metrics(search, outcome):
        for name in fitted:
            known, _ = _spreads(fitted, name, metric)
            line = [metric or search.objective, _name(outcome, name), _number(_figure(search, metric, known))]
            if outcome.held_out:
                own, other = _spreads(outcome.held_out, name, metric)
                line += map(_number, (_figure(search, metric, own), own.low, own.high))
                line.append(str(own.runs))
                line += ["", "", "", ""] if other is None else map(_number, _differences(other))
            lines.append(line)
    return titles, lines


def _figure(search: Search, metric: str, spread: Spread) -> float:
    """Return the average that the objective uses; of other metrics the mean."""
    return spread.median if search.average == "median" and not metric else spread.mean


def _differences(spread: Spread) -> tuple[float, ...]:
    return spread.difference, spread.difference_low, spread.difference_high, spread.p


def _name(outcome: Outcome, name: str) -> str:
    return f"best ({outcome.best.name})" if name == "best" else name


def _fitted(outcome: Outcome) -> dict[str, Tried]:
    return {"best": outcome.best, **outcome.baselines}


def _metrics(search: Search, outcome: Outcome) -> list[str]:
    """Return the compared titles; "" is the objective, if it is not one of the metrics."""
    titles = [title for title in outcome.best.metrics if title != search.title or search.relative]
    return ["", *titles]


def _spreads(tried: Mapping[str, Tried], name: str, metric: str) -> tuple[Spread, Spread | None]:
    """Return the statistics of one candidate, and those of the best one against it."""
    values = {key: one.metrics[metric] if metric else one.values for key, one in tried.items()}
    own = spread_of(values[name])
    return own, None if name == "best" else spread_of(values["best"], values[name])


def page(study: Study, outcome: Outcome) -> str:
    """Write the results of a search in Markdown: what was fitted, to which runs, and what was held out."""
    search = study.search
    assert search is not None, "called for searches only"
    failed = [one for one in outcome.candidates if one.failed]
    names = ", ".join(parameter.name for parameter in search.parameters)
    sentences = [
        f"{'Largest' if search.maximise else 'Least'} {search.objective} over {names}: method "
        f"{search.method}, {len(outcome.candidates)} candidates, each on {_runs(len(search.repetitions))}.",
        f"Best is candidate {outcome.best.name} ({words_of(outcome.best.labels)}): "
        f"{_number(outcome.best.objective)}. This number was fitted: it is the best of "
        f"{len(outcome.candidates)} on the runs that it was chosen by, and no evidence of what comes next.",
    ]
    if failed:
        named = ", ".join([one.name for one in failed[:_SHOWN]] + ["…"] * (len(failed) > _SHOWN))
        sentences.append(
            f"Of {len(failed)} candidates at least one run failed; they count as the worst ({named})."
        )
    if outcome.held_out:
        last = f"Held out: {_runs(len(search.held_out))} that no candidate was chosen by. {_NOTE}"
    else:
        last = "Nothing was held out (`validate`)."
    parts = [
        f"# {study.name}",
        " ".join(sentences),
        "## Best candidates",
        markdown(*best_table(search, outcome)),
    ]
    if outcome.baselines:
        parts += ["## Beside the baselines", markdown(*comparison_table(search, outcome))]
    return "\n\n".join([*parts, last]).replace("\n\n\n", "\n\n") + "\n"


def _runs(count: int) -> str:
    return "one run" if count == 1 else f"{count} runs"


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else ""


def search_tables(study: Study, rows: Sequence[StudyRow]) -> dict[str, Table]:
    """Return the tables of a search, by title."""
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
    """Write the tables, the picture and the best scenario of a search."""
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
    results.picture("search", draw_search(study.name, search, outcome))
    results.finish()
    return results


def _best(study: Study, outcome: Outcome) -> str:
    """Return the scenario file of the best candidate: the base with its parameters, files by absolute paths.

    Seeds and weeks are those of the base; of other repetitions, the first.
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


_LEFT, _RIGHT, _TOP, _HEIGHT, _BOTTOM = 130, 40, 110, 520, 90
_LOG_FROM = 5.0
"""Largest over least value from which the axis is logarithmic."""
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
        axes.plot(
            places[known],
            values[known],
            "o",
            color=chart_style.SKY,
            markersize=3.5,
            markeredgewidth=0,
            label="candidate",
        )
        best = (np.fmax if search.maximise else np.fmin).accumulate(values)
        axes.step(places, best, where="post", color=chart_style.BLUE, linewidth=1.5, label="best so far")
        for place, (name, value) in enumerate(others.items()):
            axes.axhline(
                value,
                color=_COLOURS[place % len(_COLOURS)],
                linewidth=1.0,
                linestyle=(0, (4, 2 + place)),
                label=name,
            )
        _limits(axes, shown)
        if not known.all():
            _draw_failed(axes, places[~known], search.maximise)
        axes.set_xlim(0.5, len(values) + 0.5)
        axes.set_xlabel("candidate, in the order they were tried")
        axes.set_ylabel(search.objective)
        axes.grid(axis="y", linewidth=0.4, alpha=0.5)
        axes.set_axisbelow(True)
        height = figure.get_figheight() * figure.dpi
        figure.text(_LEFT / chart_style.WIDTH, 1 - 26 / height, title, fontsize=10)
        figure.legend(loc="upper left", bbox_to_anchor=(_LEFT / chart_style.WIDTH, 1 - 38 / height), ncols=5)
    return figure


def _limits(axes: Axes, shown: np.ndarray) -> None:
    """Show all values, with a margin for failed candidates."""
    low, high = float(shown.min()), float(shown.max())
    if axes.get_yscale() == "log":
        margin = (high / low) ** 0.07
        axes.set_ylim(low / margin, high * margin)
    else:
        margin = 0.07 * (high - low) or 0.07 * abs(high) or 1.0
        axes.set_ylim(low - margin, high + margin)


def _draw_failed(axes: Axes, places: Sequence[int] | np.ndarray, maximise: bool) -> None:
    height = 0.02 if maximise else 0.98
    axes.plot(
        places,
        np.full(len(places), height),
        "x",
        color=chart_style.VERMILION,
        markersize=5,
        transform=axes.get_xaxis_transform(),
        label="failed: counts as worst",
    )
