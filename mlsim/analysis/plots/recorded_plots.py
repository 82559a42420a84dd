"""Recorded beside simulated: waits and utilization of a run and of its log."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, PercentFormatter

from mlsim._runtime.arrays import Floats
from mlsim.analysis.formatting import share
from mlsim.analysis.machine_metrics import machine_cores
from mlsim.analysis.plots import chart_style
from mlsim.analysis.plots.chart_style import INK, Runs, light_grid, line_of, paper_figure
from mlsim.analysis.plots.comparison_plots import draw_waits, wait_marks
from mlsim.analysis.plots.legends import put_legend
from mlsim.analysis.plots.utilization_plot import allocated_share, binned_average, draw_line
from mlsim.analysis.recorded_waits import RecordedWaits

_BINS = 240
_LINEAR = 60.0  # waits up to this many seconds have little room, whatever they are


@paper_figure("recorded-ecdf", "share of jobs by recorded and by simulated wait", 60.0, is_single=True)
def recorded_ecdf(axes: Axes, runs: Runs, _tau: float) -> None:
    """Draw the share of jobs that waited at most x, in the log and in the run."""
    (run,) = runs.values()
    waits = RecordedWaits(run)
    draw_waits(axes, {"recorded": waits.recorded, "simulated": waits.simulated})


@paper_figure("recorded-waits", "simulated against recorded waits of jobs", 85.0, is_single=True)
def recorded_against_simulated(axes: Axes, runs: Runs, _tau: float) -> None:
    """Draw how many jobs have which recorded and which simulated wait; on the line both are equal."""
    (run,) = runs.values()
    waits = RecordedWaits(run)
    most = max(float(waits.recorded.max()), float(waits.simulated.max()), _LINEAR)
    end = float(_scaled(most))
    cells = axes.hexbin(
        *map(_scaled, (waits.recorded, waits.simulated)),
        gridsize=32,
        extent=(0.0, end, 0.0, end),
        bins="log",
        mincnt=1,
        cmap="viridis_r",
        linewidths=0.1,
    )
    axes.plot([0, end], [0, end], color=INK, linewidth=0.8, linestyle="--")
    # The first label is that of 0: others leave room for it.
    marks = [(time, words) for time, words in wait_marks(most) if not time or _scaled(time) > end / 10]
    places = _scaled(np.array([time for time, _ in marks])).tolist()
    for axis, name in ((axes.xaxis, "recorded"), (axes.yaxis, "simulated")):
        axis.set_ticks(places, [words for _, words in marks])
        axis.set_label_text(f"{name} wait")
    axes.set_aspect("equal")
    light_grid(axes, "both")
    bar = axes.figure.colorbar(cells, ax=axes, shrink=0.9, label="jobs")
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    bar.ax.minorticks_off()


@paper_figure("recorded-utilization", "share of cores held in the log and in the run", 50.0, is_single=True)
def recorded_utilization(axes: Axes, runs: Runs, _tau: float) -> None:
    """Draw the share of cores that jobs held, in the log by its starts and run times, and in the run.

    Jobs without a recorded start, and those that never started here, are not in the line of the log.
    """
    (run,) = runs.values()
    axis, start, total = chart_style.common_axis(run), RecordedWaits(run).start, machine_cores(run.nodes)
    end = start + run.jobs.log_run_time
    axis = axis._replace(end=max(axis.end, float(np.nanmax(end))))
    edges = np.linspace(axis.begin, axis.end, _BINS + 1) / axis.seconds
    in_log = binned_average(start, end, run.jobs.cores, (axis.begin, axis.end), _BINS) / max(total, 1)
    lines = {"recorded": in_log, "simulated": allocated_share(run, axis, _BINS)}
    for k, (name, values) in enumerate(lines.items()):
        colour, style = line_of(k)
        label = f"{name} (mean {share(float(values.mean()))})"
        draw_line(axes, values, edges, edgecolor=colour, linestyle=style, linewidth=1.0, label=label)
    axis.label(axes)
    axes.set_ylim(0, max(1.0, float(in_log.max())) * 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylabel("share of cores")
    light_grid(axes)
    put_legend(axes)


def _scaled(waits: Floats | float) -> Floats:
    scaled: Floats = np.log10(1.0 + np.asarray(waits) / _LINEAR)
    return scaled
