"""Distributions of waits and slowdowns: shares of jobs, boxes, and waits by the size of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from mlsim._arrays import Floats
from mlsim.analysis.metrics import JOB_METRICS
from mlsim.analysis.plots.paper import LINES, light_grid, log_ticks, paper_figure, paper_style, put_legend
from mlsim.analysis.plots.style import INK
from mlsim.record import Jobs, Records
from mlsim.record.derived import TAU, wait_time

__all__ = ["slowdown_box", "slowdown_ecdf", "wait_by_size", "wait_ecdf"]

Runs = Mapping[str, Records]

_POINTS = 512
"""Points of a curve: more are not told apart at a column's width."""
_BOX = (0.05, 0.25, 0.5, 0.75, 0.95)


def slowdown_ecdf(runs: Runs, width: float, height: float = 55.0, tau: float = TAU) -> Figure:
    """Draw the share of started jobs whose bounded slowdown is at most x; one line a run.

    Parameters
    ----------
    runs
        Name to records.
    width, height
        Of the figure, in mm.
    tau
        The bound of bounded slowdowns, in seconds.
    """
    metric = JOB_METRICS["bounded_slowdown"]
    values = {label: metric.values(run.jobs, tau) for label, run in runs.items()}
    with paper_style():
        figure, (axes,) = paper_figure(width, height)
        _draw_shares(axes, values)
        axes.set_xscale("log")
        axes.set_xlim(1.0, max(_largest(values), 2.0))
        log_ticks(axes, "x")
        axes.set_xlabel(f"bounded slowdown (τ = {tau:g} s)")
        _name_runs(axes, runs)
    return figure


def wait_ecdf(runs: Runs, width: float, height: float = 55.0) -> Figure:
    """Draw the share of started jobs that waited at most x; parameters are those of :func:`slowdown_ecdf`.

    The axis is linear up to a minute and logarithmic beyond, so that jobs that did not wait have a place.
    """
    values = {label: wait_time(run.jobs) for label, run in runs.items()}
    with paper_style():
        figure, (axes,) = paper_figure(width, height)
        _draw_shares(axes, values)
        most = max(_largest(values), 60.0)
        axes.set_xscale("symlog", linthresh=60.0, linscale=0.6)
        axes.set_xlim(0.0, most)
        _wait_ticks(axes, most, "x")
        axes.set_xlabel("wait")
        _name_runs(axes, runs)
    return figure


_WAITS = (
    (0.0, "0"), (60.0, "1 min"), (600.0, "10 min"), (3600.0, "1 h"), (36e3, "10 h"), (4 * 86400.0, "4 d"),
    (30 * 86400.0, "30 d"), (300 * 86400.0, "300 d"),
)  # fmt: skip


def _wait_ticks(axes: Axes, most: float, which: str) -> None:
    marks = [mark for mark in _WAITS if mark[0] <= most * 1.02]
    axis = axes.xaxis if which == "x" else axes.yaxis
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
        colour, style = LINES[place % len(LINES)]
        before = np.append(known[0], known), np.append(0.0, levels)
        axes.step(*before, where="post", color=colour, linestyle=style, label=label)
    axes.set_ylim(0.0, 1.0)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylabel("share of jobs")
    light_grid(axes, "both")


def _largest(values: Mapping[str, Floats]) -> float:
    known = (found[~np.isnan(found)] for found in values.values())
    return max((float(found.max()) for found in known if len(found)), default=0.0)


def _name_runs(axes: Axes, runs: Runs) -> None:
    if len(runs) > 1:
        put_legend(axes)


def slowdown_box(runs: Runs, width: float, height: float = 60.0, tau: float = TAU) -> Figure:
    """Draw the distribution of bounded slowdowns, a box a run; parameters are those of :func:`slowdown_ecdf`.

    A box spans the quartiles with a line at the median, whiskers the 5th to the 95th percentile; a diamond is
    the mean (as Galleguillos et al. 2020, Fig. 10, but for single jobs).
    """
    metric = JOB_METRICS["bounded_slowdown"]
    values = {label: metric.values(run.jobs, tau) for label, run in runs.items()}
    with paper_style():
        figure, (axes,) = paper_figure(width, height)
        _draw_boxes(
            axes, list(values.values()), [LINES[place % len(LINES)][0] for place in range(len(values))]
        )
        axes.set_yscale("log")
        axes.set_ylim(0.9, None)
        log_ticks(axes, "y")
        upright = sum(len(label) + 2 for label in values) > width * 0.55
        axes.set_xticks(range(len(values)), list(values), rotation=90 if upright else 0)
        axes.set_ylabel(f"bounded slowdown (τ = {tau:g} s)")
    return figure


def wait_by_size(runs: Runs, width: float, height: float = 55.0) -> Figure:
    """Draw the waits of jobs by the processors that they asked for, a box a size and run.

    Sizes are those between powers of two, as of ``mlsim metrics --by size``; boxes are as in
    :func:`slowdown_box`. Parameters are those of :func:`slowdown_ecdf`.
    """
    with paper_style():
        figure, (axes,) = paper_figure(width, height)
        places = sorted({int(size) for run in runs.values() for size in _sizes(run.jobs)})
        step = 0.8 / max(len(runs), 1)
        highest = 60.0
        for number, run in enumerate(runs.values()):
            jobs, sizes, waits = run.jobs, _size_of(run.jobs), wait_time(run.jobs)
            started = ~np.isnan(jobs.start_time)
            groups = [waits[started & (sizes == size)] for size in places]
            shift = (number - (len(runs) - 1) / 2) * step
            colour = LINES[number % len(LINES)][0]
            _draw_boxes(axes, groups, [colour] * len(groups), shift=shift, width=step * 0.85)
            tops = [np.quantile(group, 0.95) for group in groups if len(group)]
            means = [group.mean() for group in groups if len(group)]
            highest = max([highest, *tops, *means])
        axes.set_yscale("symlog", linthresh=60.0, linscale=0.6)
        axes.set_ylim(0.0, highest * 1.3)
        _wait_ticks(axes, highest * 1.3, "y")
        axes.set_xticks(range(len(places)), [_size_words(size) for size in places])
        if sum(len(_size_words(size)) + 2 for size in places) > width * 0.6:
            axes.tick_params(axis="x", labelrotation=90)
        axes.set_xlabel("processors asked for")
        axes.set_ylabel("wait")
        if len(runs) > 1:
            put_legend(axes, _swatches(list(runs)))
    return figure


def _swatches(labels: Sequence[str]) -> list[Any]:
    from matplotlib.patches import Patch

    return [
        Patch(facecolor=LINES[place % len(LINES)][0], alpha=0.6, edgecolor=INK, linewidth=0.5, label=label)
        for place, label in enumerate(labels)
    ]


def _size_of(jobs: Jobs) -> Any:
    """Return k for jobs of more than 2^(k - 1), at most 2^k processors."""
    return np.ceil(np.log2(np.maximum(jobs.processors, 1))).astype(np.int64)


def _sizes(jobs: Jobs) -> Any:
    return np.unique(_size_of(jobs)[~np.isnan(jobs.start_time)])


def _size_words(size: int) -> str:
    low, high = (2 ** (size - 1) + 1, 2**size) if size else (1, 1)
    return f"{high}" if low >= high else f"{low}-{high}"


def _draw_boxes(
    axes: Axes, groups: Sequence[Floats], colours: Sequence[str], shift: float = 0.0, width: float = 0.6
) -> None:
    for place, (group, colour) in enumerate(zip(groups, colours, strict=True)):
        known = group[~np.isnan(group)]
        if not len(known):
            continue
        low, first, median, third, high = np.quantile(known, _BOX).tolist()
        box = {"label": "", "whislo": low, "q1": first, "med": median, "q3": third, "whishi": high}
        thin = {"linewidth": 0.7, "color": INK}
        drawn = axes.bxp(
            [box],
            positions=[place + shift],
            widths=width,
            showfliers=False,
            patch_artist=True,
            manage_ticks=False,
            medianprops={"color": INK, "linewidth": 1.2},
            whiskerprops=thin,
            capprops=thin,
            boxprops={"linewidth": 0.7},
        )
        drawn["boxes"][0].set_facecolor((*(int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)), 0.6))
        axes.plot([place + shift], [known.mean()], marker="D", markersize=3, color="white",
                  markeredgecolor=INK, markeredgewidth=0.7)  # fmt: skip
    axes.set_xlim(-0.6, len(groups) - 0.4)
    light_grid(axes)
