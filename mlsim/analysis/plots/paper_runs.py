"""Figures for papers: their style, and figures of runs over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from mlsim._runtime.arrays import Floats
from mlsim.analysis.formatting import number, share
from mlsim.analysis.group_metrics import weekly
from mlsim.analysis.job_metrics import JOB_METRICS
from mlsim.analysis.machine_metrics import utilization
from mlsim.analysis.plots import chart_style, utilization_plot
from mlsim.analysis.plots.gantt_plot import Boxes, Raster, boxes, job_colours
from mlsim.errors import InputError
from mlsim.record import Records
from mlsim.record.derived_times import TAU
from mlsim.record.run_energy import power_over_time, run_energy
from mlsim.record.table_blocks import n_rows
from mlsim.record.timelines import time_average

LINES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("#E69F00", "-"),
    ("#56B4E9", "--"),
    ("#222222", "-."),
)
"""Colours of Okabe and Ito (2008) with line styles, distinguishable in grey as well."""

_MM = 25.4
_DPI = 300.0
_STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "lines.linewidth": 1.2,
    "hatch.linewidth": 0.5,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.02,
    "figure.constrained_layout.h_pad": 0.02,
    "savefig.dpi": _DPI,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}


@contextmanager
def paper_style() -> Iterator[None]:
    """Draw under the settings of papers, whatever the user's are."""
    settings: Any = _STYLE  # matplotlib types the names one by one
    with chart_style.picture_style(), matplotlib.rc_context(settings):
        yield


def paper_figure(
    width: float, height: float, rows: int = 1, ratios: Sequence[float] | None = None
) -> tuple[Figure, list[Axes]]:
    """Create a figure, in mm, with axes one below the other and a common x axis.

    ``ratios`` of their heights.
    """
    figure = Figure(figsize=(width / _MM, height / _MM), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, 1, sharex=True, squeeze=False, height_ratios=ratios)
    return figure, [row[0] for row in grid]


def light_grid(axes: Axes, which: Any = "y") -> None:
    """Draw thin lines at the ticks, behind the data."""
    axes.grid(axis=which, linewidth=0.4, color="#dddddd")
    axes.set_axisbelow(True)


def put_legend(axes: Axes, handles: Sequence[Any] | None = None, columns: int | None = None) -> list[Line2D]:
    """Write the legend above the axes, where it covers no data; return its lines."""
    found = axes.get_legend_handles_labels()[0] if handles is None else list(handles)
    if not found:
        return []
    letters = max(len(str(handle.get_label())) for handle in found)
    figure = axes.get_figure(root=True)
    assert figure is not None, "they are in one"
    width = figure.get_figwidth() * _MM
    fit = max(int(width * 0.6 / (letters + 5)), 1)
    legend = axes.legend(
        handles=found,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.01),
        ncols=columns or min(len(found), fit),
        handlelength=1.8,
        columnspacing=1.2,
        labelcolor=chart_style.INK,
    )
    return legend.get_lines()


Runs = Mapping[str, Records]

_AS_LINES = 4000
"""Limit of rectangles drawn as such; more are an image of this many pixels per millimetre."""
_PIXELS = 24
_BINS = 240
"""Bins of lines: the resolution of a column's width."""
_NAMED = 24
_LABELLED = 150


def gantt(runs: Runs, width: float, height: float | None = None) -> Figure:
    """Draw the nodes of one run over time, as :func:`mlsim.analysis.plots.gantt_plot.gantt` does."""
    (records,) = runs.values()
    nodes, axis = records.nodes, chart_style.time_axis(records.jobs)
    tall = height or min(max(18.0 + 3.2 * len(nodes.name), 35.0), 75.0)
    drawn = boxes(records, by_core=n_rows(records.occupancy) <= _AS_LINES)
    held = records.occupancy
    with paper_style():
        figure, (axes,) = paper_figure(width, tall)
        axes.set_ylim(max(len(nodes.name), 1), 0)
        axis.label(axes)
        colours = job_colours(records.jobs.job_id[held.job[drawn.row]])
        times = held.start[drawn.row], held.end[drawn.row]
        draw_rectangles(axes, axis, times, drawn, colours, chart_style.job_palette())
        if len(drawn.row) <= _LABELLED:
            _name_jobs(axes, axis, records, drawn, width)
        handles: list[Any] = [*utilization_plot.draw_outages(axes, axis, records.outages)]
        handles += _mark_releases(axes, axis, records)
        if len(nodes.name) <= _NAMED:
            axes.set_yticks(np.arange(len(nodes.name)) + 0.5, nodes.name)
            axes.tick_params(axis="y", length=0, labelsize=min(7.5, 1.7 * tall / len(nodes.name)))
        else:
            axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
            axes.set_ylabel("node number")
        if handles:
            put_legend(axes, handles)
    return figure


def draw_rectangles(
    axes: Axes,
    axis: chart_style.TimeAxis,
    times: tuple[Floats, Floats],
    what: Boxes,
    colours: Any,
    palette: Any,
) -> None:
    """Draw rectangles of time and lanes: as such where they are few, else painted into an image.

    The limits of the axes are set, the upper lane first.
    """
    start, end = times
    if len(start) <= _AS_LINES:
        x0, x1 = start / axis.seconds, end / axis.seconds
        corners = np.array([[x0, what.top], [x1, what.top], [x1, what.bottom], [x0, what.bottom]])
        faces = 1.0 - what.weight[:, None] * (1.0 - palette[colours])
        axes.add_collection(
            PolyCollection(
                list(corners.transpose(2, 0, 1)), facecolors=faces, edgecolors="white", linewidths=0.2
            ),
            autolim=False,
        )
        return
    size = axes.get_figure(root=True)
    assert size is not None, "they are in one"
    shape = tuple(int(inches * 25.4 * _PIXELS * 0.85) for inches in size.get_size_inches()[::-1])
    raster, lanes = Raster((shape[0], shape[1])), float(axes.get_ylim()[0])
    across = shape[1] / (axis.end - axis.begin)
    raster.paint(
        (start - axis.begin) * across,
        (end - axis.begin) * across,
        what.top * shape[0] / lanes,
        what.bottom * shape[0] / lanes,
        what.weight,
        np.asarray(colours, np.int64),
    )
    extent = (axis.begin / axis.seconds, axis.end / axis.seconds, lanes, 0.0)
    axes.imshow(raster.image(palette), extent=extent, aspect="auto", interpolation="antialiased")


def _name_jobs(axes: Axes, axis: chart_style.TimeAxis, records: Records, drawn: Boxes, width: float) -> None:
    """Write the identifiers of jobs into rectangles that have room for them."""
    held, palette = records.occupancy, chart_style.job_palette()
    room = width * 0.8 / (axis.end - axis.begin)
    tall = axes.get_figure(root=True).get_size_inches()[1] * 25.4 * 0.75 / len(records.nodes.name)  # type: ignore[union-attr]
    for place, row in enumerate(drawn.row.tolist()):
        job = int(held.job[row])
        name = str(records.jobs.job_id[job])
        length = float(held.end[row] - held.start[row]) * room
        if length < 1.4 * len(name) + 0.8 or (drawn.bottom[place] - drawn.top[place]) * tall < 2.4:
            continue
        face = palette[job_colours(records.jobs.job_id[job : job + 1])[0]]
        when = float(held.start[row] + held.end[row]) / 2 / axis.seconds
        where = float(drawn.top[place] + drawn.bottom[place]) / 2
        axes.text(when, where, name, color=chart_style.ink_on(face), size=6, ha="center", va="center")


def _mark_releases(axes: Axes, axis: chart_style.TimeAxis, records: Records) -> list[Any]:
    held = records.occupancy
    rows = np.flatnonzero(held.released)
    if not len(rows):
        return []
    size = 2.2 if len(rows) < 300 else 1.0
    when = held.end[rows] / axis.seconds, held.node[rows] + held.count[rows] / 2
    return axes.plot(
        *when,
        linestyle="none",
        marker="<",
        markersize=size,
        color=chart_style.INK,
        markeredgewidth=0,
        label="released early",
    )


def _panel(axes: Axes, axis: chart_style.TimeAxis, label: str) -> None:
    axis.label(axes)
    axes.set_ylabel(label)
    light_grid(axes)


def utilization_lines(runs: Runs, width: float, height: float | None = None) -> Figure:
    """Draw shares of the cores over time: of one run allocated, busy, out of use; of several busy.

    Values are exact averages over equal parts of the time. Parameters are those of :func:`gantt`.
    """
    with paper_style():
        figure, (axes,) = paper_figure(width, height or 45.0)
        axis = chart_style.common_axis(runs)
        edges = np.linspace(axis.begin, axis.end, _BINS + 1) / axis.seconds
        handles: list[Any] | None = None
        if len(runs) == 1:
            (records,) = runs.values()
            means = utilization(records)
            for words, values, colour in (
                ("allocated", utilization_plot.allocated_share(records, axis, _BINS), chart_style.SKY),
                ("busy", utilization_plot.busy_share(records, axis, _BINS), chart_style.BLUE),
            ):
                label = f"{words} ({share(means[words])})"
                utilization_plot.draw_area(axes, values, edges, facecolor=colour, linewidth=0, label=label)
            if len(records.outages.node):
                free = utilization_plot.capacity_share(records, axis, _BINS)
                look: dict[str, Any] = {"facecolor": "none", "edgecolor": chart_style.INK, "hatch": "/////"}
                utilization_plot.draw_area(
                    axes, np.ones_like(free), edges, free, linewidth=0, label="out of use", **look
                )
                utilization_plot.draw_line(axes, free, edges, edgecolor=chart_style.INK, linewidth=0.9)
            handles = [patch for patch in axes.patches if not str(patch.get_label() or "_").startswith("_")]
        else:
            handles = _draw_lines(
                axes, runs, axis, lambda records: utilization_plot.busy_share(records, axis, _BINS)
            )
        _panel(axes, axis, "share of cores" if len(runs) == 1 else "busy share of cores")
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        put_legend(axes, handles)
    return figure


def queue(runs: Runs, width: float, height: float | None = None) -> Figure:
    """Draw the number of waiting jobs over time, averaged over equal parts of it; see :func:`gantt`."""
    with paper_style():
        figure, (axes,) = paper_figure(width, height or 42.0)
        axis = chart_style.common_axis(runs)
        edges = np.linspace(axis.begin, axis.end, _BINS + 1) / axis.seconds
        if len(runs) == 1:
            waiting = np.maximum(utilization_plot.waiting_jobs(next(iter(runs.values())), axis, _BINS), 0.0)
            utilization_plot.draw_area(axes, waiting, edges, facecolor=chart_style.VERMILION, linewidth=0)
            most, handles = float(waiting.max()), []
        else:
            found = {label: utilization_plot.waiting_jobs(run, axis, _BINS) for label, run in runs.items()}
            most = max(float(values.max()) for values in found.values())
            handles = _draw_lines(
                axes, runs, axis, lambda records: utilization_plot.waiting_jobs(records, axis, _BINS)
            )
        _panel(axes, axis, "waiting jobs")
        axes.set_ylim(0, max(most * 1.05, 1.0))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        put_legend(axes, handles)
    return figure


def _draw_lines(
    axes: Axes, runs: Runs, axis: chart_style.TimeAxis, values_of: Callable[[Records], Floats]
) -> list[Any]:
    """Draw one step line per run, from its begin to its end; return the legend entries."""
    edges, handles = np.linspace(axis.begin, axis.end, _BINS + 1), []
    for place, (label, records) in enumerate(runs.items()):
        own, (colour, style) = chart_style.time_axis(records.jobs), LINES[place % len(LINES)]
        values = values_of(records)
        values[(edges[:-1] >= own.end) | (edges[1:] <= own.begin)] = np.nan
        utilization_plot.draw_line(
            axes, values, edges / axis.seconds, edgecolor=colour, linestyle=style, linewidth=0.9
        )
        handles.append(_entry(colour, style, label))
    return handles


def _entry(colour: str, style: Any, label: str, **look: Any) -> Line2D:
    """Return the legend entry of a line."""
    return Line2D([], [], color=colour, linestyle=style, label=label, **look)


def weekly_lines(runs: Runs, width: float, height: float | None = None, tau: float = TAU) -> Figure:
    """Draw the mean bounded slowdown of the jobs that ended in each week, and the mean over all weeks so far.

    The cumulative mean is as Zrigui 2021, Fig. 4.1. Parameters are those of :func:`gantt`; ``tau`` is the
    bound of bounded slowdowns, in s.
    """
    metric = JOB_METRICS["bounded_slowdown"]
    with paper_style():
        figure, (axes,) = paper_figure(width, height or 48.0)
        last, handles = 1, []
        for place, (label, records) in enumerate(runs.items()):
            found = weekly(records.jobs, metric.values(records.jobs, tau))
            colour, style = LINES[place % len(LINES)]
            # Weeks are apart from each other: their means are points, and only the running mean is a line.
            point: dict[str, Any] = {"marker": "os^Dv"[place % 5], "markersize": 2.2, "markeredgewidth": 0}
            axes.plot(found.week, found.mean, linestyle="none", color=colour, **point)
            axes.plot(found.week, found.cumulative_mean, color=colour, linestyle=style)
            words = label if len(runs) > 1 else "all weeks so far; points: each week"
            handles.append(_entry(colour, style, words, **point))
            last = max(last, *found.week.tolist())
        axes.set_xlim(0.5, last + 0.5)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda _value, _: ""))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
        axes.set_xlabel("week")
        axes.set_ylabel(f"mean bounded\nslowdown (τ = {tau:g} s)")
        light_grid(axes)
        put_legend(axes, handles)
    return figure


def energy(runs: Runs, width: float, height: float | None = None) -> Figure:
    """Draw the power of the machine over time, averaged over bins; raise InputError if it is unknown."""
    for label, records in runs.items():
        if records.nodes.power is None:
            raise InputError(
                f"{label}: the power of its nodes is not known; give power: {{idle: 90 W, busy: 200 W}} to "
                "the nodes of the scenario's platform, and run it again"
            )
    with paper_style():
        figure, (axes,) = paper_figure(width, height or 42.0)
        axis = chart_style.common_axis(runs)
        edges, handles, most = np.linspace(axis.begin, axis.end, _BINS + 1), [], 0.0
        for place, (label, records) in enumerate(runs.items()):
            steps, (colour, style) = power_over_time(records), LINES[place % len(LINES)]
            means = [time_average(*steps, low, high) for low, high in pairwise(edges.tolist())]
            values = np.array(means) / 1e3
            used = run_energy(records)
            total = "" if used is None else f" ({number(used.total / 3.6e6)} kWh)"
            utilization_plot.draw_line(
                axes, values, edges / axis.seconds, edgecolor=colour, linestyle=style, linewidth=1.0
            )
            handles.append(_entry(colour, style, f"{label}{total}"))
            most = max(most, float(values.max()))
        _panel(axes, axis, "power (kW)")
        axes.set_ylim(0, most * 1.05 or 1.0)
        put_legend(axes, handles)
    return figure
