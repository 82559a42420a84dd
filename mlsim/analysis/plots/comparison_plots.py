"""Pictures of runs beside each other."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from mlsim._runtime.arrays import Floats
from mlsim.analysis.breakdowns import pass_time_by_queue_length
from mlsim.analysis.formatting import number, share
from mlsim.analysis.group_metrics import Weekly, weekly
from mlsim.analysis.job_metrics import JOB_METRICS
from mlsim.analysis.machine_metrics import utilization
from mlsim.analysis.plots import chart_style
from mlsim.analysis.plots.distribution_plots import queue_boxes, slowdown_boxes
from mlsim.analysis.plots.utilization_plot import allocated_share, busy_share, draw_line
from mlsim.record import Records

Runs = Mapping[str, Records]

_LEFT, _RIGHT, _TOP, _BOTTOM = 110, 30, 60, 80
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
    if any(len(weekly(run.jobs, run.jobs.submit_time).week) > 1 for run in runs.values()):
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
    height, gap = 330, 90
    width = (chart_style.WIDTH - _LEFT - _RIGHT - 2 * gap) // 3
    with chart_style.picture_style():
        top = _TOP + chart_style.legend_height(runs) + 40
        figure = chart_style.canvas(top + height + _BOTTOM)
        for place, name in enumerate(names):
            metric = JOB_METRICS[name]
            axes = chart_style.axes_at(figure, _LEFT + place * (width + gap), top, width, height)
            weeks = [weekly(run.jobs, metric.values(run.jobs, tau)) for run in runs.values()]
            _draw_weeks(axes, weeks, 3600.0 if metric.unit == "s" else 1.0)
            axes.set_title(f"{metric.title} (h)" if metric.unit == "s" else metric.title)
            axes.set_xlabel("week")
        title = "Mean over all jobs so far; bands: 10 % to 90 % of the means of the weeks so far"
        chart_style.write_title(figure, title)
        chart_style.name_lines(figure, list(runs))
    return figure


def _draw_weeks(axes: Axes, weeks: list[Weekly], scale: float) -> None:
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


def utilization_lines(runs: Runs) -> Figure:
    """Draw the busy share of each run's cores over time, and the allocated one where it is another."""
    axis = chart_style.common_axis(runs)
    panels = {"busy": busy_share}
    if any(_differs(utilization(records)) for records in runs.values()):
        panels["allocated"] = allocated_share
    height, gap = 300, 50
    with chart_style.picture_style():
        top = _TOP + chart_style.legend_height(runs) + 30
        figure = chart_style.canvas(top + len(panels) * height + (len(panels) - 1) * gap + _BOTTOM)
        for place, (name, shares) in enumerate(panels.items()):
            below = top + place * (height + gap)
            axes = chart_style.axes_at(figure, _LEFT, below, chart_style.WIDTH - _LEFT - _RIGHT, height)
            _draw_shares(axes, axis, [_while_running(shares, run, axis) for run in runs.values()])
            means = ", ".join(f"{label} {share(utilization(run)[name])}" for label, run in runs.items())
            axes.set_title(f"{name}: {means}" if len(means) < 110 else name)
            axes.set_ylabel("share of cores")
            if place < len(panels) - 1:
                axes.set_xlabel("")
                axes.tick_params(labelbottom=False)
        chart_style.write_title(figure, "Utilization")
        chart_style.name_lines(figure, list(runs))
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


def _draw_shares(axes: Axes, axis: chart_style.TimeAxis, shares: list[Floats]) -> None:
    edges = np.linspace(axis.begin, axis.end, _BINS + 1) / axis.seconds
    for place, values in enumerate(shares):
        draw_line(axes, values, edges, edgecolor=chart_style.colour_of(place), linewidth=1.1)
    axis.label(axes)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)


def pass_times(runs: Runs) -> Figure:
    """Draw the wall time of passes against queue length (Galleguillos et al. 2020, Fig. 13).

    A line is the median, its band goes up to the 90th percentile.
    """
    with chart_style.picture_style():
        top = _TOP + chart_style.legend_height(runs) + 10
        figure = chart_style.canvas(top + 430 + _BOTTOM)
        axes = chart_style.axes_at(figure, _LEFT, top, chart_style.WIDTH - _LEFT - _RIGHT, 430)
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
        chart_style.name_lines(figure, list(runs))
    return figure
