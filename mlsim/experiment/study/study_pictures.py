"""Pictures of several runs of a study: curves, bars of loop times, and the candidates of a search."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from mlsim._runtime.arrays import Floats
from mlsim.analysis import plots
from mlsim.analysis.plots import chart_style, legends
from mlsim.experiment.study import study_tables as tables
from mlsim.experiment.study.search_file import Outcome
from mlsim.experiment.study.study_model import MEANS, Balance, PictureSpec, Study, file_name, picture_title
from mlsim.experiment.study.study_plan import StudyRow
from mlsim.experiment.study.study_store import Results

_MOST_PANELS = 60  # a picture of more would be too long to read or draw
_BESIDE = 0.5  # share of the room between two categories that the curves take


def _bars(results: Results, study: Study, rows: Sequence[StudyRow]) -> None:
    """Draw one panel per combination of all axes except repetitions, the columns and the last other one."""
    others = [axis.name for axis in study.axes if axis.name not in (study.columns, study.repetitions)]
    parts: dict[tuple[str, ...], list[StudyRow]] = {}
    for row in rows:
        parts.setdefault(tuple(row.labels[name] for name in others[:-1]), []).append(row)
    if len(parts) > _MOST_PANELS:
        return
    panels = [_panel(", ".join(key), part, study, others[-1:]) for key, part in parts.items()]
    title, key = next(iter(study.metrics.items()))
    name = "t-loop" if key == "t_loop" else file_name(title)
    _write(results, name, plots.bars(panels, _with_means(study.name, panels), title))


def _with_means(title: str, panels: Sequence[plots.Panel | plots.LinePanel]) -> str:
    """Return a title, with what intervals mean if the panels have any: of single runs there are none."""
    ends = (np.asarray(values, np.float64) for panel in panels for values in panel.ends.values())
    return f"{title}{MEANS}" if any(np.isfinite(values).any() for values in ends) else title


def _panel(title: str, rows: Sequence[StudyRow], study: Study, along: Sequence[str]) -> plots.Panel:
    """Return one panel; ``along`` is the axis of its groups, or empty if only the columns vary."""
    table: dict[str, dict[str, list[StudyRow]]] = {}
    groups: dict[str, None] = {}
    for row in rows:
        group = "".join(row.labels[name] for name in along)
        groups[group] = None
        table.setdefault(row.labels[study.columns], {}).setdefault(group, []).append(row)

    def of_each(measure: Callable[[Sequence[StudyRow]], Any]) -> dict[str, list[Any]]:
        return {name: [measure(series.get(group, [])) for group in groups] for name, series in table.items()}

    def values(part: Sequence[StudyRow]) -> Floats:
        found = (next(iter(row.metrics.values())) for row in part)
        return np.array([value for value in found if math.isfinite(value)])

    def mean(part: Sequence[StudyRow]) -> float:
        known = values(part)
        return sum(known.tolist()) / len(known) if len(known) else math.nan

    def reference(part: Sequence[StudyRow]) -> float:
        return next((row.reference for row in part if row.reference is not None), math.nan)

    def ends(part: Sequence[StudyRow]) -> tuple[float, float]:
        return tables.mean_interval(values(part), study.interval)

    return plots.Panel(
        title,
        list(groups),
        of_each(mean),
        of_each(reference),
        {} if study.repetitions is None else of_each(ends),
    )


Points = tuple[Floats, Floats]


class _Drawing(NamedTuple):
    """A picture of curves: panels, labels of the axes, look, and the first words of its file name."""

    panels: list[plots.LinePanel]
    x: str
    y: str
    look: plots.Look
    name: str


def _write(results: Results, stem: str, figure: Figure) -> None:
    results.picture(stem, lambda path: plots.write_picture(figure, path))


def draw_pictures(
    results: Results, study: Study, rows: Sequence[StudyRow], outcome: Outcome | None = None
) -> None:
    """Draw all pictures of several runs, or of a search; those of single runs were drawn when these ended."""
    if outcome is not None:
        _write(results, "search", _search_figure(study.name, outcome))
        return

    def curve(part: Sequence[StudyRow]) -> Points:
        found = part[0].curve
        assert found is not None, "kept for the runs of such a picture"
        return found

    ratios = tables.relative_to(study, rows) if study.relative else {}
    done = [row for row in rows if not row.failed]
    for picture in study.pictures:
        if picture.kind == "gantt":
            continue
        for labels, part in tables.pictures_of(study, picture, done):
            if picture.kind == "utilization":
                look = plots.Look(percent=True)
                panels = _panels(picture, part, curve)
                drawing = _Drawing(panels, "time (s)", "busy share of the machine", look, "utilization")
            elif picture.kind == "balance":
                drawing = _balance(picture, part)
                with results.file(f"{file_name('balance', *labels.values())}.csv") as path:
                    _balance_table(part).write_csv(path)
            else:
                drawing = _metric(study, picture, part, ratios)
            title = picture_title(study.name, labels)
            title = _with_means(title, drawing.panels)
            figure = plots.lines(drawing.panels, title, drawing.x, drawing.y, drawing.look)
            _write(results, file_name(drawing.name, *labels.values()), figure)
    if study.subject.kind == "loops":
        _bars(results, study, rows)


def _panels(
    picture: PictureSpec,
    rows: Sequence[StudyRow],
    points: Callable[[Sequence[StudyRow]], Points],
    ends: Callable[[Sequence[StudyRow]], Points] | None = None,
) -> list[plots.LinePanel]:
    """Group runs by panel and curve; of some runs, ``points`` returns the curve, ``ends`` its intervals."""
    groups: dict[str, dict[str, list[StudyRow]]] = {}
    for row in rows:
        panel = f"{picture.panels}: {row.labels[picture.panels]}" if picture.panels else ""
        groups.setdefault(panel, {}).setdefault(row.labels[picture.lines], []).append(row)
    return [
        plots.LinePanel(
            title,
            {name: points(part) for name, part in series.items()},
            {} if ends is None else {name: ends(part) for name, part in series.items()},
        )
        for title, series in groups.items()
    ]


def _balance(picture: PictureSpec, rows: Sequence[StudyRow]) -> _Drawing:
    names = sorted({name for row in rows for name in _balance_of(row).executable})
    places = {name: float(place) for place, name in enumerate(names)}

    def points(part: Sequence[StudyRow]) -> Points:
        """Spread the jobs of an executable over the room around its place."""
        balance = _balance_of(part[0])
        x = np.array([places[name] for name in balance.executable])
        for place in places.values():
            of = np.flatnonzero(x == place)
            x[of] += (np.arange(len(of)) + 0.5) / max(len(of), 1) * 0.8 - 0.4
        return x, np.array(balance.max_over_mean)

    ticks = {place: name for name, place in places.items()}
    look = plots.Look(dots=True, joined=False, ticks=ticks, across=1)
    panels = _panels(picture, rows, points)
    return _Drawing(panels, "job, by executable", "max / mean of finishing times", look, "balance")


def _balance_of(row: StudyRow) -> Balance:
    balance = row.balance
    assert balance is not None, "kept for the runs of such a picture"
    return balance


def _balance_table(rows: Sequence[StudyRow]) -> pl.DataFrame:
    frames = [
        pl.DataFrame(_balance_of(row)._asdict()).with_columns(
            *(pl.lit(label).alias(name) for name, label in row.labels.items())
        )
        for row in rows
    ]
    return pl.concat(frames).select(*rows[0].labels, *Balance._fields)


def _metric(
    study: Study, picture: PictureSpec, rows: Sequence[StudyRow], ratios: Mapping[tuple[str, ...], float]
) -> _Drawing:
    labels = next(list(axis.points) for axis in study.axes if axis.name == picture.along)
    try:
        places = [float(label) for label in labels]
        of_numbers = all(map(math.isfinite, places))
    except ValueError:
        of_numbers = False
    if not of_numbers:
        places = list(map(float, range(len(labels))))
    title = picture.metric or next(iter(study.metrics))
    curves = list(dict.fromkeys(row.labels[picture.lines] for row in rows))
    # Categories are not joined, and stand beside each other, so that their intervals can be distinguished.
    beside = {name: _BESIDE * ((n + 0.5) / len(curves) - 0.5) for n, name in enumerate(curves)}

    def values_of(part: Sequence[StudyRow]) -> dict[str, Floats]:
        """Return the values of the repetitions at each position."""
        values: dict[str, list[float]] = {}
        for row in part:
            value = ratios.get(tables.labels_of(row), math.nan) if picture.relative else row.metrics[title]
            values.setdefault(row.labels[picture.along], []).append(value)
        known = {label: np.array(found)[np.isfinite(found)] for label, found in values.items()}
        return {label: known[label] for label in labels if label in known}

    def points(part: Sequence[StudyRow]) -> Points:
        values = values_of(part)
        shift = 0.0 if of_numbers else beside[part[0].labels[picture.lines]]
        x = [place + shift for label, place in zip(labels, places, strict=True) if label in values]
        return np.array(x), np.array([found.mean() if len(found) else math.nan for found in values.values()])

    def ends(part: Sequence[StudyRow]) -> Points:
        found = np.array(
            [tables.mean_interval(values, study.interval) for values in values_of(part).values()]
        )
        return found[:, 0], found[:, 1]

    name = tables.relative_title(study) if picture.relative else title
    ticks = dict(zip(places, labels, strict=True))
    look = plots.Look(dots=True, joined=of_numbers, ticks=ticks, across=3)
    panels = _panels(picture, rows, points, None if study.repetitions is None else ends)
    return _Drawing(panels, picture.along, name, look, name)


_LEFT, _RIGHT, _TOP, _HEIGHT, _BOTTOM = 130, 40, 110, 520, 90
_LOG_FROM = 5.0  # largest over least value from which the axis is logarithmic
_COLOURS = (chart_style.GREEN, chart_style.PURPLE, chart_style.INK)


def _search_figure(title: str, outcome: Outcome) -> Figure:
    """Draw the objective of all candidates; failed ones are at the edge."""
    search = outcome.search
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
        chart_style.write_title(figure, title, _LEFT)
        legends.legend(figure, axes.get_legend_handles_labels()[0], 38, _LEFT)
    return figure
