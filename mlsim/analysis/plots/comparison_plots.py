"""Runs beside each other, and distributions of waits and slowdowns, of one run or of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from mlsim._runtime.arrays import Floats
from mlsim.analysis import job_metrics
from mlsim.analysis.breakdowns import pass_time_by_queue_length
from mlsim.analysis.formatting import number, share
from mlsim.analysis.machine_metrics import utilization
from mlsim.analysis.plots import chart_style, legends
from mlsim.analysis.plots.chart_style import Runs, light_grid, line_of, paper_figure, size_of
from mlsim.analysis.plots.legends import put_legend
from mlsim.analysis.plots.utilization_plot import allocated_share, busy_share, draw_line
from mlsim.record import Records
from mlsim.record.derived_times import wait_time

_POINTS = 512  # points of a curve: more are indistinguishable at a column's width


@paper_figure("slowdown-ecdf", "share of jobs by bounded slowdown", 55.0)
def slowdown_ecdf(axes: Axes, runs: Runs, tau: float) -> None:
    """Draw the share of started jobs whose bounded slowdown is at most x; one line per run."""
    values = _slowdowns(runs, tau)
    _draw_shares(axes, values)
    axes.set_xscale("log")
    axes.set_xlim(1.0, max(_largest(values), 2.0))
    chart_style.plain_log(axes, "x")
    axes.set_xlabel(f"bounded slowdown (τ = {tau:g} s)")
    if len(runs) > 1:
        put_legend(axes)


@paper_figure("wait-ecdf", "share of jobs by wait", 55.0)
def wait_ecdf(axes: Axes, runs: Runs, _tau: float) -> None:
    """Draw the share of jobs that waited at most x, one line per run; linear to a minute, then log."""
    draw_waits(axes, {label: wait_time(run.jobs) for label, run in runs.items()})


def draw_waits(axes: Axes, values: Mapping[str, Floats]) -> None:
    """Draw the share of waits that are at most x, one line per name."""
    _draw_shares(axes, values)
    most = max(_largest(values), 60.0)
    axes.set_xscale("symlog", linthresh=60.0, linscale=0.6)
    axes.set_xlim(0.0, most)
    _wait_ticks(axes.xaxis, most)
    axes.set_xlabel("wait")
    if len(values) > 1:
        put_legend(axes)


def _slowdowns(runs: Runs, tau: float) -> dict[str, Floats]:
    metric = job_metrics.JOB_METRICS["bounded_slowdown"]
    return {label: metric.values(run.jobs, tau) for label, run in runs.items()}


_WAITS = (
    (0.0, "0"), (60.0, "1 min"), (600.0, "10 min"), (3600.0, "1 h"), (36e3, "10 h"), (4 * 86400.0, "4 d"),
    (30 * 86400.0, "30 d"), (300 * 86400.0, "300 d"),
)  # fmt: skip


def wait_marks(most: float) -> list[tuple[float, str]]:
    """Return the ticks of an axis of waits up to ``most`` seconds, with their labels."""
    return [mark for mark in _WAITS if mark[0] <= most * 1.02]


def _wait_ticks(axis: Any, most: float) -> None:
    marks = wait_marks(most)
    axis.set_ticks([time for time, _ in marks], [words for _, words in marks])
    axis.set_ticks([], minor=True)


def _draw_shares(axes: Axes, values: Mapping[str, Floats]) -> None:
    """Draw one curve a run of the shares of values up to x."""
    for place, (label, found) in enumerate(values.items()):
        known = np.sort(found[~np.isnan(found)])
        if not len(known):
            continue
        levels = np.arange(1, len(known) + 1) / len(known)
        if len(known) > _POINTS:
            kept = np.unique(np.linspace(0, len(known) - 1, _POINTS).astype(np.int64))
            known, levels = known[kept], levels[kept]
        colour, style = line_of(place)
        before = np.append(known[0], known), np.append(0.0, levels)
        axes.step(*before, where="post", color=colour, linestyle=style, label=label)
    axes.set_ylim(0.0, 1.0)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylabel("share of jobs")
    light_grid(axes, "both")


def _largest(values: Mapping[str, Floats]) -> float:
    known = (found[~np.isnan(found)] for found in values.values())
    return max((float(found.max()) for found in known if len(found)), default=0.0)


@paper_figure("slowdown-box", "bounded slowdowns as boxes", 60.0)
def slowdown_box(axes: Axes, runs: Runs, tau: float) -> None:
    """Draw the distribution of bounded slowdowns, a box a run.

    A box spans the quartiles with a line at the median, whiskers the 5th to the 95th percentile; a diamond is
    the mean (as Galleguillos et al. 2020, Fig. 10, but for single jobs).
    """
    values = _slowdowns(runs, tau)
    for place, found in enumerate(values.values()):
        _draw_paper_box(axes, place, _Box.of(found), 0.6, line_of(place)[0])
    axes.set_xlim(-0.6, len(values) - 0.4)
    light_grid(axes)
    axes.set_yscale("log")
    axes.set_ylim(0.9, None)
    chart_style.plain_log(axes, "y")
    upright = sum(len(label) + 2 for label in values) > size_of(axes)[0] * 0.55
    axes.set_xticks(range(len(values)), list(values), rotation=90 if upright else 0)
    axes.set_ylabel(f"bounded slowdown (τ = {tau:g} s)")


@paper_figure("wait-by-size", "waits by processors asked for, as boxes", 55.0)
def wait_by_size(axes: Axes, runs: Runs, _tau: float) -> None:
    """Draw waits by requested processors, between powers of two; boxes as in :func:`slowdown_box`."""
    started = {label: ~np.isnan(run.jobs.start_time) for label, run in runs.items()}
    sizes = {label: job_metrics.size_exponents(run.jobs)[started[label]] for label, run in runs.items()}
    places = sorted({size for found in sizes.values() for size in found.tolist()})
    step, highest = 0.8 / max(len(runs), 1), 60.0
    for place, (label, run) in enumerate(runs.items()):
        waits = wait_time(run.jobs)[started[label]]
        shift = (place - (len(runs) - 1) / 2) * step
        for at, size in enumerate(places):
            box = _Box.of(waits[sizes[label] == size])
            _draw_paper_box(axes, at + shift, box, step * 0.85, line_of(place)[0])
            if box is not None:
                highest = max(highest, box.levels[-1], box.mean)
    axes.set_xlim(-0.6, len(places) - 0.4)
    light_grid(axes)
    axes.set_yscale("symlog", linthresh=60.0, linscale=0.6)
    axes.set_ylim(0.0, highest * 1.3)
    _wait_ticks(axes.yaxis, highest * 1.3)
    names = [job_metrics.size_name(size) for size in places]
    axes.set_xticks(range(len(places)), names)
    if sum(len(name) + 2 for name in names) > size_of(axes)[0] * 0.6:
        axes.tick_params(axis="x", labelrotation=90)
    axes.set_xlabel("processors asked for")
    axes.set_ylabel("wait")
    if len(runs) > 1:
        look: dict[str, Any] = {"alpha": 0.6, "edgecolor": chart_style.INK, "linewidth": 0.5}
        colours = ((line_of(place)[0], label) for place, label in enumerate(runs))
        put_legend(axes, [Patch(facecolor=colour, label=label, **look) for colour, label in colours])


_LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]  # whiskers, edges and middle of a box


@dataclass(frozen=True, slots=True)
class _Box:
    """Statistics of a box."""

    levels: list[float]  # values at the quantiles of _LEVELS
    mean: float
    p99: float

    @classmethod
    def of(cls, values: Floats) -> _Box | None:
        """Sum up values; None where none is defined."""
        known = values[~np.isnan(values)]
        if not len(known):
            return None
        *levels, p99 = np.quantile(known, [*_LEVELS, 0.99]).tolist()
        return cls(levels, float(known.mean()), p99)

    @classmethod
    def of_shares(cls, shares: Floats | None) -> _Box | None:
        """Sum up queue lengths by their shares of the time."""
        if shares is None:
            return None
        *levels, p99 = job_metrics.queue_quantiles(shares, [*_LEVELS, 0.99])
        return cls(levels, float(shares @ np.arange(len(shares))), p99)

    def draw(self, axes: Axes, place: float, width: float, face: Any, line: float, **look: Any) -> None:
        """Draw the box, with a median line of this width [points]."""
        levels = dict(zip(("whislo", "q1", "med", "q3", "whishi"), self.levels, strict=True))
        drawn = axes.bxp(
            [{"label": "", **levels}],
            positions=[place],
            widths=width,
            showfliers=False,
            patch_artist=True,
            manage_ticks=False,
            medianprops={"color": chart_style.INK, "linewidth": line},
            **look,
        )
        drawn["boxes"][0].set_facecolor(face)


def _draw_paper_box(axes: Axes, place: float, box: _Box | None, width: float, colour: str) -> None:
    if box is None:
        return
    thin = {"linewidth": 0.7, "color": chart_style.INK}
    face = (*chart_style.rgb(colour), 0.6)
    box.draw(axes, place, width, face, 1.2, whiskerprops=thin, capprops=thin, boxprops={"linewidth": 0.7})
    look: dict[str, Any] = {"markersize": 3, "markeredgecolor": chart_style.INK, "markeredgewidth": 0.7}
    axes.plot([place], [box.mean], marker="D", color="white", **look)


Panels = Mapping[str, Mapping[str, "_Box | None"]]

_LEFT, _RIGHT, _TOP, _GAP, _HEIGHT = 110, 30, 120, 36, 420
_ACROSS = 3
_LETTERS, _LETTER = 105, 11
"""Letters of names that fit below the panels; height of an upright letter, in pixels."""


def slowdown_boxes(runs: Runs, tau: float) -> Figure:
    """Draw boxes of three slowdowns on a logarithmic axis; a dash is the 99th percentile."""
    panels = {}
    for name in ("slowdown", "bounded_slowdown", "per_processor_bounded_slowdown"):
        metric = job_metrics.JOB_METRICS[name]
        panels[metric.title] = {label: _Box.of(metric.values(run.jobs, tau)) for label, run in runs.items()}
    return _boxes(panels, f"Slowdowns of jobs (τ = {tau:g} s)", "", "log")


def queue_boxes(runs: Runs) -> Figure:
    """Draw the distribution of the queue length over time, and at passes where all runs recorded them.

    The axis is logarithmic from 1 up where means and 99th percentiles differ by more than a factor of ten.
    """
    panels = {
        "over time": {name: _Box.of_shares(job_metrics.queue_shares(run.jobs)) for name, run in runs.items()}
    }
    if all(len(run.passes.time) for run in runs.values()):
        panels["at passes"] = {
            label: _Box.of(run.passes.queue_length.astype(np.float64)) for label, run in runs.items()
        }
    known = [box for boxes in panels.values() for box in boxes.values() if box is not None]
    far = chart_style.differ_much(value for box in known for value in (box.mean, box.p99))
    return _boxes(panels, "Queue length", "waiting jobs", "symlog" if far else "linear")


def value_boxes(
    panels: Mapping[str, Mapping[str, Floats]], title: str, y: str, scale: Literal["linear", "log"]
) -> Figure:
    """Draw distributions: ``panels`` maps panels to names and values of boxes; scale ``log`` is from 1 up."""
    boxes = {
        panel: {name: _Box.of(values) for name, values in named.items()} for panel, named in panels.items()
    }
    return _boxes(boxes, title, y, scale)


def _boxes(panels: Panels, title: str, y: str, scale: str) -> Figure:
    """Draw panels, a few beside each other, on one scale, a box a run."""
    names = list(dict.fromkeys(name for boxes in panels.values() for name in boxes))
    upright = sum(len(name) + 3 for name in names) * min(len(panels), _ACROSS) > _LETTERS
    below = 50 + (_LETTER * max(map(len, names)) if upright else 0)
    with chart_style.picture_style():
        edges = _LEFT, _RIGHT, _TOP, below
        figure, every = chart_style.panels(len(panels), _ACROSS, edges, _HEIGHT, _GAP, below + _GAP)
        for place, (axes, (name, boxes)) in enumerate(zip(every, panels.items(), strict=True)):
            _draw_run_boxes(axes, boxes)
            axes.set_title(name)
            axes.tick_params(axis="x", length=0, labelrotation=90 if upright else 0)
            axes.tick_params(labelleft=not place % _ACROSS)
            if not place % _ACROSS:
                axes.set_ylabel(y)
        _scale(every, scale)
        chart_style.write_title(figure, title)
        _explain(figure)
    return figure


def _draw_run_boxes(axes: Axes, boxes: Mapping[str, _Box | None]) -> None:
    note: dict[str, Any] = {"xytext": (6, 3), "textcoords": "offset points", "fontsize": 8}
    note["bbox"] = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
    for place, box in enumerate(boxes.values()):
        if box is None:
            axes.text(place, 0.5, "no job", transform=axes.get_xaxis_transform(), ha="center")
            continue
        box.draw(axes, place, 0.55, (*chart_style.colour_of(place), 0.55), 1.6)
        ink = chart_style.INK
        axes.plot([place], [box.p99], marker="_", markersize=12, markeredgewidth=1.6, color=ink)
        axes.plot([place], [box.mean], marker="D", markersize=5, color="white", markeredgecolor=ink)
        axes.annotate(number(box.mean), (place, box.mean), **note)
    axes.set_xticks(range(len(boxes)), list(boxes))
    axes.set_xlim(-0.6, len(boxes) - 0.4)
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axes.set_axisbelow(True)


def _scale(all_axes: Sequence[Axes], scale: str) -> None:
    """Set one scale for all panels."""
    top = max(*(float(axes.get_ylim()[1]) for axes in all_axes), 1.0)
    for axes in all_axes:
        options = {"linthresh": 1.0, "linscale": 0.3} if scale == "symlog" else {}
        axes.set_yscale(scale, **options)
        axes.set_ylim(0.8 if scale == "log" else 0, top * (1.05 if scale == "linear" else 1.6))
        if scale == "log":
            chart_style.plain_log(axes, "y")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _explain(figure: Figure) -> None:
    ink = chart_style.INK
    box = Patch(facecolor="#cccccc", edgecolor=ink, label="quartiles and median; whiskers 5 % to 95 %")
    mean = Line2D([], [], marker="D", linestyle="none", color="white", markeredgecolor=ink, label="mean")
    p99 = Line2D([], [], marker="_", linestyle="none", color=ink, markersize=10, label="99 %")
    legends.legend(figure, [box, mean, p99])


_CURVES_TOP, _CURVES_BOTTOM = 60, 80
_BINS = 160  # bins of utilization: fewer than pixels, so that the eye can follow lines


def draw_comparison(directory: Path, runs: Runs, tau: float) -> list[Path]:
    """Write all pictures that compare runs, by name, as PNG and PDF into an existing directory.

    ``weekly`` if a run is longer than a week, ``pass-time`` if all runs recorded passes.
    """
    figures: dict[str, Callable[[], Figure]] = {
        "slowdown": lambda: slowdown_boxes(runs, tau),
        "queue-length": lambda: queue_boxes(runs),
        "utilization": lambda: utilization_lines(runs),
    }
    if any(len(job_metrics.weekly(run.jobs, run.jobs.submit_time).week) > 1 for run in runs.values()):
        figures["weekly"] = lambda: weekly_bands(runs, tau)
    if all(len(records.passes.time) for records in runs.values()):
        figures["pass-time"] = lambda: pass_times(runs)
    made = ((name, make()) for name, make in figures.items())
    return [
        chart_style.write_picture(figure, directory / f"{name}{suffix}")
        for name, figure in made
        for suffix in (".png", ".pdf")
    ]


def weekly_bands(runs: Runs, tau: float) -> Figure:
    """Draw the cumulative weekly mean of wait, bounded slowdown and that per processor.

    A band is from the 10th to the 90th percentile of the means of the single weeks up to it (Zrigui 2021,
    Fig. 4.1). The axis is logarithmic if runs differ by more than a factor of ten.
    """
    names = ("wait_time", "bounded_slowdown", "per_processor_bounded_slowdown")
    with chart_style.picture_style():
        edges = _LEFT, _RIGHT, _CURVES_TOP + 66, _CURVES_BOTTOM
        figure, panels = chart_style.panels(len(names), len(names), edges, 330, 90)
        for axes, name in zip(panels, names, strict=True):
            metric = job_metrics.JOB_METRICS[name]
            weeks = [job_metrics.weekly(run.jobs, metric.values(run.jobs, tau)) for run in runs.values()]
            _draw_weeks(axes, weeks, 3600.0 if metric.unit == "s" else 1.0)
            axes.set_title(f"{metric.title} (h)" if metric.unit == "s" else metric.title)
            axes.set_xlabel("week")
        title = "Mean over all jobs so far; bands: 10 % to 90 % of the means of the weeks so far"
        chart_style.write_title(figure, title)
        legends.legend(figure, legends.line_handles(list(runs)))
    return figure


def _draw_weeks(axes: Axes, weeks: list[job_metrics.Weekly], scale: float) -> None:
    highest = 0.0
    for place, found in enumerate(weeks):
        low, mean, high = (found.band_low / scale, found.cumulative_mean / scale, found.band_high / scale)
        colour = chart_style.colour_of(place)
        axes.fill_between(found.week, low, high, color=colour, alpha=0.16, linewidth=0)
        # One week alone is a point, not a line.
        marker = "o" if len(found.week) < 3 else ""
        axes.plot(found.week, mean, color=colour, linewidth=1.4, marker=marker, markersize=4)
        highest = max(highest, float(np.nanmax(np.concatenate([mean, high, [0.0]]))))
    if chart_style.differ_much(float(found.cumulative_mean[-1]) for found in weeks if len(found.week)):
        axes.set_yscale("log")
        chart_style.plain_log(axes, "y")
    else:
        axes.set_ylim(0, highest * 1.05 or 1.0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    weeks_shown = np.concatenate([found.week for found in weeks])
    axes.set_xlim(weeks_shown.min() - 0.5, weeks_shown.max() + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    legends.tell_apart(axes)


def utilization_lines(runs: Runs) -> Figure:
    """Draw the busy share of each run's cores over time, and the allocated one where it is another."""
    axis = chart_style.common_axis(*runs.values())
    panels = {"busy": busy_share}
    if any(_differs(utilization(records)) for records in runs.values()):
        panels["allocated"] = allocated_share
    with chart_style.picture_style():
        edges = _LEFT, _RIGHT, _CURVES_TOP + 56, _CURVES_BOTTOM
        figure, every = chart_style.panels(len(panels), 1, edges, 300, between=50)
        for place, (axes, (name, shares)) in enumerate(zip(every, panels.items(), strict=True)):
            _draw_shares_of_time(axes, axis, [_while_running(shares, run, axis) for run in runs.values()])
            means = ", ".join(f"{label} {share(utilization(run)[name])}" for label, run in runs.items())
            axes.set_title(f"{name}: {means}" if len(means) < 110 else name)
            axes.set_ylabel("share of cores")
            if place < len(panels) - 1:
                axes.set_xlabel("")
                axes.tick_params(labelbottom=False)
                axes.xaxis.offsetText.set_visible(False)
        chart_style.write_title(figure, "Utilization")
        legends.legend(figure, legends.line_handles(list(runs)))
    return figure


def _while_running(
    shares: Callable[[Records, chart_style.TimeAxis, int], Floats],
    records: Records,
    axis: chart_style.TimeAxis,
) -> Floats:
    """Return shares over time, NaN before the run has begun and after its end."""
    own = chart_style.time_axis(records.jobs)
    edges = np.linspace(axis.begin, axis.end, _BINS + 1)
    values = shares(records, axis, _BINS)
    values[(edges[:-1] > own.end) | (edges[1:] < own.begin)] = np.nan
    return values


def _differs(used: Mapping[str, float | None]) -> bool:
    busy, allocated = used["busy"], used["allocated"]
    return busy is not None and allocated is not None and abs(busy - allocated) > 5e-4


def _draw_shares_of_time(axes: Axes, axis: chart_style.TimeAxis, shares: list[Floats]) -> None:
    edges = np.linspace(axis.begin, axis.end, _BINS + 1) / axis.seconds
    for place, values in enumerate(shares):
        draw_line(axes, values, edges, edgecolor=chart_style.colour_of(place), linewidth=1.1)
    axis.label(axes)
    axes.set_ylim(0, 1.02)
    legends.tell_apart(axes)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)


def pass_times(runs: Runs) -> Figure:
    """Draw the wall time of passes against queue length (Galleguillos et al. 2020, Fig. 13).

    A line is the median, its band goes up to the 90th percentile.
    """
    with chart_style.picture_style():
        figure, (axes,) = chart_style.panels(1, 1, (_LEFT, _RIGHT, _CURVES_TOP + 36, _CURVES_BOTTOM), 430)
        for place, records in enumerate(runs.values()):
            table, colour = pass_time_by_queue_length(records.passes, 3), chart_style.colour_of(place)
            middle = (table["low"] + table["high"]).to_numpy() / 2
            median, high = (table[name].to_numpy() * 1e6 for name in ("median", "p90"))
            axes.fill_between(middle, median, high, color=colour, alpha=0.16, linewidth=0)
            axes.plot(middle, median, color=colour, linewidth=1.4, marker="o", markersize=3)
        axes.set_xscale("symlog", linthresh=1.0, linscale=0.3)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        chart_style.plain_log(axes, "y")
        axes.set_xlim(-0.1, None)
        axes.set_xlabel("queue length (waiting jobs when the pass began)")
        axes.set_ylabel("wall time of a pass (µs)")
        axes.grid(linewidth=0.4, alpha=0.5)
        chart_style.write_title(figure, "Wall time of passes: median, and up to the 90th percentile")
        legends.legend(figure, legends.line_handles(list(runs)))
    return figure
