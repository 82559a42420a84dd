"""Figures for papers: runs over time."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from mlsim._runtime.arrays import Floats, Ints
from mlsim.analysis.formatting import number, share
from mlsim.analysis.job_metrics import JOB_METRICS, weekly
from mlsim.analysis.machine_metrics import utilization
from mlsim.analysis.plots import chart_style, utilization_plot
from mlsim.analysis.plots.chart_style import Runs, line_of, paper_figure, size_of
from mlsim.analysis.plots.gantt_plot import Boxes, Raster, boxes
from mlsim.analysis.plots.job_colours import BY_JOB, colours_of, palette_of_jobs
from mlsim.analysis.plots.legends import entry, number_bands, put_legend
from mlsim.errors import InputError
from mlsim.record import Records
from mlsim.record.derived_times import power_over_time, run_energy, time_average
from mlsim.record.table_blocks import n_rows

_AS_LINES = 4000  # limit of rectangles drawn as such; more are painted into an image
_PIXELS = 24  # of such an image, per millimetre
_BINS = 240  # bins of lines: the resolution of a column's width
_NAMED = 24
_LABELLED = 150


def _gantt_height(runs: Runs) -> float:
    (records,) = runs.values()
    return min(max(18.0 + 3.2 * len(records.nodes.name), 35.0), 75.0)


@paper_figure("gantt", "which job held which node when", _gantt_height, is_single=True)
def gantt(axes: Axes, runs: Runs, _tau: float, colour: str = BY_JOB) -> None:
    """Draw the nodes of one run over time, as :func:`mlsim.analysis.plots.gantt_plot.gantt` does.

    ``colour``: jobs have a colour each, or by one of :data:`mlsim.analysis.plots.job_colours.COLOURED_BY`.
    """
    (records,) = runs.values()
    nodes, axis, held = records.nodes, chart_style.common_axis(records), records.occupancy
    drawn = boxes(records, by_core=n_rows(held) <= _AS_LINES)
    axes.set_ylim(max(len(nodes.name), 1), 0)
    axis.label(axes)
    colours = colours_of(records, colour)
    times = held.start[drawn.row], held.end[drawn.row]
    draw_rectangles(axes, axis, times, drawn, colours.row[held.job[drawn.row]], palette_of_jobs())
    if len(drawn.row) <= _LABELLED:
        _name_jobs(axes, axis, records, drawn, colours.row)
    handles = [*colours.handles(), *utilization_plot.draw_outages(axes, axis, records.outages)]
    handles += _mark_releases(axes, axis, records)
    if len(nodes.name) <= _NAMED:
        axes.set_yticks(np.arange(len(nodes.name)) + 0.5, nodes.name)
        axes.tick_params(axis="y", length=0, labelsize=min(7.5, 1.7 * size_of(axes)[1] / len(nodes.name)))
    else:
        number_bands(axes, len(nodes.name), 6)
        axes.set_ylabel("node number")
    put_legend(axes, handles)


def draw_rectangles(
    axes: Axes,
    axis: chart_style.TimeAxis,
    times: tuple[Floats, Floats],
    what: Boxes,
    colours: Any,
    palette: Floats,
) -> None:
    """Draw rectangles of time and lanes: as such where they are few, else painted into an image."""
    start, end = times
    if len(start) <= _AS_LINES:
        x0, x1 = start / axis.seconds, end / axis.seconds
        corners = np.array([[x0, what.top], [x1, what.top], [x1, what.bottom], [x0, what.bottom]])
        look: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.2}
        faces = 1.0 - what.weight[:, None] * (1.0 - palette[colours])
        rectangles = PolyCollection(list(corners.transpose(2, 0, 1)), facecolors=faces, **look)
        axes.add_collection(rectangles, autolim=False)
        return
    width, height = (int(length * _PIXELS * 0.85) for length in size_of(axes))
    raster, lanes = Raster((height, width)), float(axes.get_ylim()[0])
    across = width / (axis.end - axis.begin)
    raster.paint(
        (start - axis.begin) * across,
        (end - axis.begin) * across,
        what.top * height / lanes,
        what.bottom * height / lanes,
        what.weight,
        np.asarray(colours, np.int64),
    )
    extent = (axis.begin / axis.seconds, axis.end / axis.seconds, lanes, 0.0)
    axes.imshow(raster.image(palette), extent=extent, aspect="auto", interpolation="antialiased")


def _name_jobs(axes: Axes, axis: chart_style.TimeAxis, records: Records, drawn: Boxes, colours: Ints) -> None:
    """Write the identifiers of jobs into rectangles that have room for them."""
    held, palette = records.occupancy, palette_of_jobs()
    width, height = size_of(axes)
    room, tall = width * 0.8 / (axis.end - axis.begin), height * 0.75 / len(records.nodes.name)
    for place, row in enumerate(drawn.row.tolist()):
        job = int(held.job[row])
        name = str(records.jobs.job_id[job])
        length = float(held.end[row] - held.start[row]) * room
        if length < 1.4 * len(name) + 0.8 or (drawn.bottom[place] - drawn.top[place]) * tall < 2.4:
            continue
        face = palette[colours[job]]
        when = float(held.start[row] + held.end[row]) / 2 / axis.seconds
        where = float(drawn.top[place] + drawn.bottom[place]) / 2
        axes.text(when, where, name, color=chart_style.ink_on(face), size=6, ha="center", va="center")


def _mark_releases(axes: Axes, axis: chart_style.TimeAxis, records: Records) -> list[Any]:
    held = records.occupancy
    rows = np.flatnonzero(held.released)
    if not len(rows):
        return []
    look: dict[str, Any] = {"linestyle": "none", "marker": "<", "markeredgewidth": 0}
    look |= {"color": chart_style.INK, "markersize": 2.2 if len(rows) < 300 else 1.0}
    when, where = held.end[rows] / axis.seconds, held.node[rows] + held.count[rows] / 2
    return axes.plot(when, where, label="released early", **look)


def _edges(axis: chart_style.TimeAxis) -> Floats:
    return np.linspace(axis.begin, axis.end, _BINS + 1)


def _label(axes: Axes, axis: chart_style.TimeAxis, label: str) -> None:
    axis.label(axes)
    axes.set_ylabel(label)
    chart_style.light_grid(axes)


@paper_figure("utilization", "shares of the cores over time", 45.0)
def utilization_lines(axes: Axes, runs: Runs, _tau: float) -> None:
    """Draw shares of the cores over time: of one run allocated, busy, out of use; of several busy."""
    axis = chart_style.common_axis(*runs.values())
    if len(runs) == 1:
        (records,) = runs.values()
        handles = _draw_shares(axes, axis, records)
    else:
        handles = _draw_lines(axes, axis, runs, utilization_plot.busy_share)[0]
    _label(axes, axis, "share of cores" if len(runs) == 1 else "busy share of cores")
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    put_legend(axes, handles)


def _draw_shares(axes: Axes, axis: chart_style.TimeAxis, records: Records) -> list[Any]:
    """Draw the shares of one run's cores; return the legend entries."""
    means, edges = utilization(records), _edges(axis) / axis.seconds
    for words, values, colour in (
        ("allocated", utilization_plot.allocated_share(records, axis, _BINS), chart_style.SKY),
        ("busy", utilization_plot.busy_share(records, axis, _BINS), chart_style.BLUE),
    ):
        label = f"{words} ({share(means[words])})"
        utilization_plot.draw_area(axes, values, edges, facecolor=colour, linewidth=0, label=label)
    if len(records.outages.node):
        free = utilization_plot.capacity_share(records, axis, _BINS)
        look: dict[str, Any] = {"facecolor": "none", "edgecolor": chart_style.INK, "hatch": "/////"}
        whole = np.ones_like(free)
        utilization_plot.draw_area(axes, whole, edges, free, linewidth=0, label="out of use", **look)
        utilization_plot.draw_line(axes, free, edges, edgecolor=chart_style.INK, linewidth=0.9)
    return [patch for patch in axes.patches if not str(patch.get_label() or "_").startswith("_")]


@paper_figure("queue", "waiting jobs over time", 42.0)
def queue(axes: Axes, runs: Runs, _tau: float) -> None:
    """Draw the number of waiting jobs over time, averaged over equal parts of it."""
    axis = chart_style.common_axis(*runs.values())
    handles: list[Any] = []
    if len(runs) == 1:
        waiting = np.maximum(utilization_plot.waiting_jobs(next(iter(runs.values())), axis, _BINS), 0.0)
        edges = _edges(axis) / axis.seconds
        utilization_plot.draw_area(axes, waiting, edges, facecolor=chart_style.VERMILION, linewidth=0)
        most = float(waiting.max())
    else:
        handles, most = _draw_lines(axes, axis, runs, utilization_plot.waiting_jobs)
    _label(axes, axis, "waiting jobs")
    axes.set_ylim(0, max(most * 1.05, 1.0))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    put_legend(axes, handles)


def _draw_lines(
    axes: Axes,
    axis: chart_style.TimeAxis,
    runs: Runs,
    values_of: Callable[[Records, chart_style.TimeAxis, int], Floats],
) -> tuple[list[Any], float]:
    """Draw one step line per run, from its begin to its end; return legend entries and the largest value."""
    edges, handles, most = _edges(axis), [], 0.0
    for place, (label, records) in enumerate(runs.items()):
        own, (colour, style) = chart_style.time_axis(records.jobs), line_of(place)
        values = values_of(records, axis, _BINS)
        most = max(most, float(values.max()))
        values[(edges[:-1] >= own.end) | (edges[1:] <= own.begin)] = np.nan
        look: dict[str, Any] = {"edgecolor": colour, "linestyle": style, "linewidth": 0.9}
        utilization_plot.draw_line(axes, values, edges / axis.seconds, **look)
        handles.append(entry(colour, style, label))
    return handles, most


@paper_figure("weekly", "mean bounded slowdown by week", 48.0)
def weekly_lines(axes: Axes, runs: Runs, tau: float) -> None:
    """Draw weekly means of bounded slowdown, and the mean over all weeks so far (Zrigui 2021, Fig. 4.1)."""
    metric, last, handles = JOB_METRICS["bounded_slowdown"], 1, []
    for place, (label, records) in enumerate(runs.items()):
        found, (colour, style) = weekly(records.jobs, metric.values(records.jobs, tau)), line_of(place)
        # Weeks are apart from each other: their means are points, and only the running mean is a line.
        point: dict[str, Any] = {"marker": "os^Dv"[place % 5], "markersize": 2.2, "markeredgewidth": 0}
        axes.plot(found.week, found.mean, linestyle="none", color=colour, **point)
        axes.plot(found.week, found.cumulative_mean, color=colour, linestyle=style)
        words = label if len(runs) > 1 else "all weeks so far; points: each week"
        handles.append(entry(colour, style, words, **point))
        last = max(last, *found.week.tolist())
    axes.set_xlim(0.5, last + 0.5)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda _value, _: ""))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    axes.set_xlabel("week")
    axes.set_ylabel(f"mean bounded\nslowdown (τ = {tau:g} s)")
    chart_style.light_grid(axes)
    put_legend(axes, handles)


@paper_figure("energy", "power of the machine over time", 42.0)
def energy(axes: Axes, runs: Runs, _tau: float) -> None:
    """Draw the power of the machine over time, averaged over bins; raise InputError if it is unknown."""
    for label, records in runs.items():
        if records.nodes.power is None:
            raise InputError(
                f"{label}: the power of its nodes is not known; give power: {{idle: 90 W, busy: 200 W}} to "
                "the nodes of the scenario's platform, and run it again"
            )
    axis, handles, most = chart_style.common_axis(*runs.values()), [], 0.0
    edges = _edges(axis)
    for place, (label, records) in enumerate(runs.items()):
        steps, (colour, style) = power_over_time(records), line_of(place)
        values = np.array([time_average(*steps, low, high) for low, high in pairwise(edges.tolist())]) / 1e3
        look: dict[str, Any] = {"edgecolor": colour, "linestyle": style, "linewidth": 1.0}
        utilization_plot.draw_line(axes, values, edges / axis.seconds, **look)
        used = run_energy(records)
        total = "" if used is None else f" ({number(used.total / 3.6e6)} kWh)"
        handles.append(entry(colour, style, f"{label}{total}"))
        most = max(most, float(values.max()))
    _label(axes, axis, "power (kW)")
    axes.set_ylim(0, most * 1.05 or 1.0)
    put_legend(axes, handles)
