"""Kinds of figures of ``mlsim plot``: figures of single loops, pictures of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mlsim._arrays import Floats
from mlsim.analysis.formatting import number
from mlsim.analysis.plots.chart_style import (
    INK,
    VERMILION,
    plain_log,
    scale_palette,
    span_axis,
    write_picture,
)
from mlsim.analysis.plots.gantt_plot import Boxes, gantt
from mlsim.analysis.plots.loop_plots import Curve, chunk_curve, chunk_sizes
from mlsim.analysis.plots.paper_runs import (
    LINES,
    draw_rectangles,
    light_grid,
    paper_figure,
    paper_style,
    put_legend,
)
from mlsim.analysis.plots.pe_plot import pe_timeline
from mlsim.analysis.plots.utilization_plot import utilization_over_time
from mlsim.record import Records


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of figure."""

    place: str
    """Module and function, which is imported when it is drawn."""
    meaning: str
    """What it shows, in a phrase."""
    is_single: bool = False
    """Whether it shows one run only."""
    of_loops: bool = False
    """Whether it shows one loop of each run."""
    has_tau: bool = False
    """Whether it shows bounded slowdowns."""

    def load(self) -> Callable[..., Any]:
        """Return the function that draws it."""
        module, _, name = self.place.partition(":")
        found: Callable[..., Any] = getattr(import_module(f"mlsim.analysis.plots.{module}"), name)
        return found


KINDS: Mapping[str, Kind] = {
    "gantt": Kind("paper_runs:gantt", "which job held which node when", is_single=True),
    "utilization": Kind("paper_runs:utilization_lines", "shares of the cores over time"),
    "queue": Kind("paper_runs:queue", "waiting jobs over time"),
    "slowdown-box": Kind("distribution_plots:slowdown_box", "bounded slowdowns as boxes", has_tau=True),
    "slowdown-ecdf": Kind(
        "distribution_plots:slowdown_ecdf", "share of jobs by bounded slowdown", has_tau=True
    ),
    "wait-ecdf": Kind("distribution_plots:wait_ecdf", "share of jobs by wait"),
    "wait-by-size": Kind("distribution_plots:wait_by_size", "waits by processors asked for, as boxes"),
    "chunk-sizes": Kind("figure_kinds:paper_chunk_sizes", "chunk sizes over scheduling steps", of_loops=True),
    "loop-timeline": Kind(
        "figure_kinds:loop_timeline", "PEs of a loop over time", is_single=True, of_loops=True
    ),
    "imbalance-profile": Kind("figure_kinds:imbalance_profile", "finish times of PEs, sorted", of_loops=True),
    "weekly": Kind("paper_runs:weekly_lines", "mean bounded slowdown by week", has_tau=True),
    "energy": Kind("paper_runs:energy", "power of the machine over time"),
}
"""By the words of the command line."""

_DPI = 300.0


def draw_kind(
    kind: str, runs: Mapping[str, Records], path: Path, width: float, height: float | None, tau: float
) -> None:
    """Draw a figure of :data:`KINDS` into a PNG, SVG or PDF file, by its suffix.

    Figures of loops need the chunks and PEs of one loop per run. ``width`` and ``height`` are in mm; without
    a height a suitable one is used. ``tau`` is in s.
    """
    from mlsim.analysis.plots.paper_runs import paper_style

    what = KINDS[kind]
    options: dict[str, Any] = {} if height is None else {"height": height}
    if what.has_tau:
        options["tau"] = tau
    write_picture(what.load()(runs, width, **options), path, dpi=_DPI, style=paper_style)


def draw_gantt(path: Path, records: Records, title: str) -> Path:
    """Write the nodes over time, coloured by job, as PNG; see :func:`gantt`. Same records, same bytes."""
    return write_picture(gantt(records, title), path)


def draw_utilization(path: Path, records: Records, title: str) -> Path:
    """Write utilization and queue length over time as PNG; see :func:`utilization_over_time`.

    Parameters and errors are those of :func:`draw_gantt`.
    """
    return write_picture(utilization_over_time(records, title), path)


def draw_pes(path: Path, records: Records, title: str) -> Path:
    """Write the PEs of one loop over time as PNG; see :func:`pe_timeline`.

    Parameters and errors are those of :func:`draw_gantt`; the records hold one loop and its chunks.
    """
    return write_picture(pe_timeline(records, title), path)


def draw_chunk_sizes(path: Path, curves: Sequence[Curve], title: str) -> Path:
    """Write chunk sizes over scheduling steps as PNG; see :func:`chunk_sizes`."""
    return write_picture(chunk_sizes(curves, title), path)


Runs = Mapping[str, Records]
"""Records whose chunks and PEs are those of one loop each."""


def paper_chunk_sizes(runs: Runs, width: float, height: float | None = None) -> Figure:
    """Draw chunk sizes over scheduling steps, on a logarithmic scale (as Eleliemy 2021, Fig. 2.1).

    Each run has the chunks of one loop; ``width`` and ``height`` are in mm.
    """
    curves = [chunk_curve(run.chunks, label) for label, run in runs.items()]
    steps = max(curve.steps for curve in curves)
    top = max(int(curve.size.max()) for curve in curves)
    with paper_style():
        figure, (axes,) = paper_figure(width, height or 52.0)
        for place, curve in enumerate(curves):
            axes.plot(
                curve.step + 1,
                np.maximum(curve.size, 1),
                linestyle="none",
                marker="os^Dv<>"[place % 7],
                markersize=2.6 if steps <= 100 else 1.6,
                markeredgewidth=0,
                color=LINES[place % len(LINES)][0],
                label=curve.label,
            )
        axes.set_yscale("log")
        axes.set_ylim(0.8, top * 1.5)
        axes.set_xlim(0, steps + max(steps * 0.02, 1))
        plain_log(axes, "y")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel("scheduling step")
        axes.set_ylabel("chunk size (iterations)")
        light_grid(axes)
        if len(curves) > 1:
            put_legend(axes)
            for handle in axes.get_legend().legend_handles:  # type: ignore[union-attr]
                handle.set_markersize(4)  # type: ignore[union-attr]
    return figure


def loop_timeline(runs: Runs, width: float, height: float | None = None) -> Figure:
    """Draw which PE of a loop executed chunks when, the darker the larger; of one run.

    A dashed line is the mean finish time of the PEs. Parameters are those of :func:`chunk_sizes`.
    """
    (records,) = runs.values()
    chunks, pes = records.chunks, int(records.chunks.pe.max()) + 1
    job = int(chunks.job[0])
    began, ended = float(records.jobs.start_time[job]), float(records.jobs.end_time[job])
    pes = max(pes, len(records.pes.pe))
    axis = span_axis(ended - began)
    low, high = int(chunks.size.min()), int(chunks.size.max())
    palette = scale_palette()
    scale = np.log(high / low) or 1.0
    colours = np.rint(np.log(chunks.size / low) / scale * (len(palette) - 1)).astype(np.int64)
    top = chunks.pe.astype(np.float64)
    drawn = Boxes(np.arange(len(top)), top, top + 1.0, np.ones(len(top)))
    with paper_style():
        figure, (axes,) = paper_figure(width, height or min(max(24.0 + 1.6 * pes, 35.0), 70.0))
        axes.set_ylim(pes, 0)
        axis.label(axes)
        draw_rectangles(axes, axis, (chunks.start - began, chunks.end - began), drawn, colours, palette)
        finish = records.pes.finish - began
        if len(finish):
            mean = float(finish.mean())
            words = f"mean finish; imbalance {_imbalance(finish)}"
            axes.axvline(mean / axis.seconds, color=VERMILION, linestyle="--", linewidth=1.0, label=words)
            put_legend(axes)
        norm = LogNorm(low, high if high > low else low * 1.001)
        bar = figure.colorbar(
            ScalarMappable(norm, ListedColormap(palette)), ax=axes, pad=0.02, fraction=0.08, aspect=25
        )
        marks = sorted({low, high, *(10**k for k in range(8) if low < 10**k < high)})
        bar.set_ticks(marks, labels=[f"{mark:,}" for mark in marks])
        bar.ax.minorticks_off()
        bar.set_label("iterations per chunk")
        axes.yaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        axes.set_ylabel("PE")
    return figure


def imbalance_profile(runs: Runs, width: float, height: float | None = None) -> Figure:
    """Draw the finish times of the PEs of a loop in rising order, as shares of the mean; one line a run.

    A horizontal line at 100 % would be perfect balance; the last value is max/mean. Parameters are those of
    :func:`chunk_sizes`.
    """
    with paper_style():
        figure, (axes,) = paper_figure(width, height or 50.0)
        lowest, highest = 1.0, 1.0
        for place, (label, records) in enumerate(runs.items()):
            finish = np.sort(_finish(records))
            shares = finish / finish.mean()
            edges = np.linspace(0.0, 100.0, len(shares) + 1)
            colour, style = LINES[place % len(LINES)]
            words = f"{label} ({_imbalance(finish)})" if len(runs) > 1 else label
            axes.stairs(shares * 100.0, edges, baseline=None, color=colour, linestyle=style, label=words)
            lowest, highest = min(lowest, float(shares[0])), max(highest, float(shares[-1]))
        axes.axhline(100.0, color=INK, linewidth=0.6, linestyle=":")
        room = max((highest - lowest) * 5.0, 0.5)
        axes.set_xlim(0, 100)
        axes.set_ylim(max(lowest * 100.0 - room, 0.0), highest * 100.0 + room)
        axes.set_xlabel("PEs, by finish time (%)")
        axes.set_ylabel("finish time (% of the mean)")
        light_grid(axes)
        if len(runs) > 1:
            put_legend(axes)
    return figure


def _imbalance(finish: Floats) -> str:
    """Write (1 - mean/max) · 100 of finish times (Eleliemy 2021, Eq. 2.16)."""
    return f"{number(float(1.0 - finish.mean() / finish.max()) * 100.0)} %"


def _finish(records: Records) -> Floats:
    job = int(records.pes.job[0])
    finish: Floats = records.pes.finish - records.jobs.start_time[job]
    return finish
