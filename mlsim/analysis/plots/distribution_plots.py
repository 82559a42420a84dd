"""Distributions of waits and slowdowns, of one run or of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from mlsim._runtime.arrays import Floats
from mlsim.analysis.formatting import number
from mlsim.analysis.group_metrics import size_exponents, size_name
from mlsim.analysis.job_metrics import JOB_METRICS
from mlsim.analysis.pass_metrics import queue_quantiles, queue_shares
from mlsim.analysis.plots import chart_style, paper_runs
from mlsim.record import Records
from mlsim.record.derived_times import TAU, wait_time

Runs = Mapping[str, Records]

_POINTS = 512
"""Points of a curve: more are indistinguishable at a column's width."""
_BOX = (0.05, 0.25, 0.5, 0.75, 0.95)


def slowdown_ecdf(runs: Runs, width: float, height: float = 55.0, tau: float = TAU) -> Figure:
    """Draw the share of started jobs whose bounded slowdown is at most x; one line per run.

    ``width`` and ``height`` are in mm, ``tau`` in s, here and in the other figures.
    """
    metric = JOB_METRICS["bounded_slowdown"]
    values = {label: metric.values(run.jobs, tau) for label, run in runs.items()}
    with paper_runs.paper_style():
        figure, (axes,) = paper_runs.paper_figure(width, height)
        _draw_shares(axes, values)
        axes.set_xscale("log")
        axes.set_xlim(1.0, max(_largest(values), 2.0))
        chart_style.plain_log(axes, "x")
        axes.set_xlabel(f"bounded slowdown (τ = {tau:g} s)")
        _name_runs(axes, runs)
    return figure


def wait_ecdf(runs: Runs, width: float, height: float = 55.0) -> Figure:
    """Draw the share of started jobs that waited at most x; parameters are those of :func:`slowdown_ecdf`.

    The axis is linear up to a minute and logarithmic beyond, so that jobs that did not wait have a place.
    """
    values = {label: wait_time(run.jobs) for label, run in runs.items()}
    with paper_runs.paper_style():
        figure, (axes,) = paper_runs.paper_figure(width, height)
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
        colour, style = paper_runs.LINES[place % len(paper_runs.LINES)]
        before = np.append(known[0], known), np.append(0.0, levels)
        axes.step(*before, where="post", color=colour, linestyle=style, label=label)
    axes.set_ylim(0.0, 1.0)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylabel("share of jobs")
    paper_runs.light_grid(axes, "both")


def _largest(values: Mapping[str, Floats]) -> float:
    known = (found[~np.isnan(found)] for found in values.values())
    return max((float(found.max()) for found in known if len(found)), default=0.0)


def _name_runs(axes: Axes, runs: Runs) -> None:
    if len(runs) > 1:
        paper_runs.put_legend(axes)


def slowdown_box(runs: Runs, width: float, height: float = 60.0, tau: float = TAU) -> Figure:
    """Draw the distribution of bounded slowdowns, a box a run; parameters are those of :func:`slowdown_ecdf`.

    A box spans the quartiles with a line at the median, whiskers the 5th to the 95th percentile; a diamond is
    the mean (as Galleguillos et al. 2020, Fig. 10, but for single jobs).
    """
    metric = JOB_METRICS["bounded_slowdown"]
    values = {label: metric.values(run.jobs, tau) for label, run in runs.items()}
    with paper_runs.paper_style():
        figure, (axes,) = paper_runs.paper_figure(width, height)
        _draw_boxes(
            axes,
            list(values.values()),
            [paper_runs.LINES[place % len(paper_runs.LINES)][0] for place in range(len(values))],
        )
        axes.set_yscale("log")
        axes.set_ylim(0.9, None)
        chart_style.plain_log(axes, "y")
        upright = sum(len(label) + 2 for label in values) > width * 0.55
        axes.set_xticks(range(len(values)), list(values), rotation=90 if upright else 0)
        axes.set_ylabel(f"bounded slowdown (τ = {tau:g} s)")
    return figure


def wait_by_size(runs: Runs, width: float, height: float = 55.0) -> Figure:
    """Draw the waits of jobs by the processors that they asked for, a box a size and run.

    Sizes are those between powers of two, as of ``mlsim metrics --by size``; boxes are as in
    :func:`slowdown_box`. Parameters are those of :func:`slowdown_ecdf`.
    """
    with paper_runs.paper_style():
        figure, (axes,) = paper_runs.paper_figure(width, height)
        sizes_of = {label: size_exponents(run.jobs) for label, run in runs.items()}
        started_of = {label: ~np.isnan(run.jobs.start_time) for label, run in runs.items()}
        places = sorted(
            {size for label, sizes in sizes_of.items() for size in sizes[started_of[label]].tolist()}
        )
        step = 0.8 / max(len(runs), 1)
        highest = 60.0
        for number, (label, run) in enumerate(runs.items()):
            sizes, started, waits = sizes_of[label], started_of[label], wait_time(run.jobs)
            groups = [waits[started & (sizes == size)] for size in places]
            shift = (number - (len(runs) - 1) / 2) * step
            colour = paper_runs.LINES[number % len(paper_runs.LINES)][0]
            _draw_boxes(axes, groups, [colour] * len(groups), shift=shift, width=step * 0.85)
            tops = [np.quantile(group, 0.95) for group in groups if len(group)]
            means = [group.mean() for group in groups if len(group)]
            highest = max([highest, *tops, *means])
        axes.set_yscale("symlog", linthresh=60.0, linscale=0.6)
        axes.set_ylim(0.0, highest * 1.3)
        _wait_ticks(axes, highest * 1.3, "y")
        axes.set_xticks(range(len(places)), [size_name(size) for size in places])
        if sum(len(size_name(size)) + 2 for size in places) > width * 0.6:
            axes.tick_params(axis="x", labelrotation=90)
        axes.set_xlabel("processors asked for")
        axes.set_ylabel("wait")
        if len(runs) > 1:
            paper_runs.put_legend(axes, _swatches(list(runs)))
    return figure


def _swatches(labels: Sequence[str]) -> list[Any]:
    from matplotlib.patches import Patch

    return [
        Patch(
            facecolor=paper_runs.LINES[place % len(paper_runs.LINES)][0],
            alpha=0.6,
            edgecolor=chart_style.INK,
            linewidth=0.5,
            label=label,
        )
        for place, label in enumerate(labels)
    ]


def _draw_boxes(
    axes: Axes, groups: Sequence[Floats], colours: Sequence[str], shift: float = 0.0, width: float = 0.6
) -> None:
    for place, (group, colour) in enumerate(zip(groups, colours, strict=True)):
        known = group[~np.isnan(group)]
        if not len(known):
            continue
        low, first, median, third, high = np.quantile(known, _BOX).tolist()
        box = {"label": "", "whislo": low, "q1": first, "med": median, "q3": third, "whishi": high}
        thin = {"linewidth": 0.7, "color": chart_style.INK}
        drawn = axes.bxp(
            [box],
            positions=[place + shift],
            widths=width,
            showfliers=False,
            patch_artist=True,
            manage_ticks=False,
            medianprops={"color": chart_style.INK, "linewidth": 1.2},
            whiskerprops=thin,
            capprops=thin,
            boxprops={"linewidth": 0.7},
        )
        drawn["boxes"][0].set_facecolor((*(int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)), 0.6))
        axes.plot([place + shift], [known.mean()], marker="D", markersize=3, color="white",
                  markeredgecolor=chart_style.INK, markeredgewidth=0.7)  # fmt: skip
    axes.set_xlim(-0.6, len(groups) - 0.4)
    paper_runs.light_grid(axes)


Panels = Mapping[str, Mapping[str, "_Box | None"]]

_LEFT, _RIGHT, _TOP, _GAP, _HEIGHT = 110, 30, 120, 36, 420
_ACROSS = 3
_LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]
"""Whiskers, edges and middle of a box."""
_LETTERS, _LETTER = 105, 11
"""Letters of names that fit below the panels; height of an upright letter, in pixels."""


def slowdown_boxes(runs: Runs, tau: float) -> Figure:
    """Draw the distribution of slowdown, bounded slowdown and that per processor, on a logarithmic axis.

    A box spans the quartiles with a line at the median, whiskers the 5th to the 95th percentile; a diamond is
    the mean, a dash the 99th percentile (as Galleguillos et al. 2020, Fig. 10, but for single jobs).
    """
    panels = {}
    for name in ("slowdown", "bounded_slowdown", "per_processor_bounded_slowdown"):
        metric = JOB_METRICS[name]
        panels[metric.title] = {label: _Box.of(metric.values(run.jobs, tau)) for label, run in runs.items()}
    return _boxes(panels, f"Slowdowns of jobs (τ = {tau:g} s)", "", "log")


def queue_boxes(runs: Runs) -> Figure:
    """Draw the distribution of the queue length over time, and at passes where all runs recorded them.

    Over time a length counts for as long as it lasts, from the first submission to the last start; at passes
    each pass counts once. Boxes are as in :func:`slowdown_boxes`. Where means and 99th percentiles differ by
    more than a factor of ten, the axis is logarithmic from 1 up.
    """
    panels = {"over time": {name: _Box.of_shares(queue_shares(run.jobs)) for name, run in runs.items()}}
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
    """Draw distributions of any values, with boxes as in :func:`slowdown_boxes`.

    ``panels`` maps the name of a panel to names and values of its boxes, the same names in all. ``y`` is the
    label of the common axis, whose scale ``log`` is from 1 up.
    """
    boxes = {
        panel: {name: _Box.of(values) for name, values in named.items()} for panel, named in panels.items()
    }
    return _boxes(boxes, title, y, scale)


class _Box:
    """Statistics of a box: values at the quantiles of ``_LEVELS``, the mean, the 99th percentile."""

    def __init__(self, levels: Sequence[float], mean: float, p99: float) -> None:
        self.levels, self.mean, self.p99 = list(levels), mean, p99

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
        *levels, p99 = queue_quantiles(shares, [*_LEVELS, 0.99])
        return cls(levels, float(shares @ np.arange(len(shares))), p99)

    def for_matplotlib(self, label: str) -> dict[str, Any]:
        """Return the box statistics as ``Axes.bxp`` takes them."""
        low, first, median, third, high = self.levels
        return {"label": label, "whislo": low, "q1": first, "med": median, "q3": third, "whishi": high}


def _boxes(panels: Panels, title: str, y: str, scale: str) -> Figure:
    """Draw panels, a few beside each other, on one scale, a box a run."""
    across = min(len(panels), _ACROSS)
    down = -(-len(panels) // across)
    width = (chart_style.WIDTH - _LEFT - _RIGHT - (across - 1) * _GAP) // across
    names = list(dict.fromkeys(name for boxes in panels.values() for name in boxes))
    upright = sum(len(name) + 3 for name in names) * across > _LETTERS
    below = 50 + (_LETTER * max(map(len, names)) if upright else 0)
    with chart_style.picture_style():
        figure = chart_style.canvas(_TOP + down * (_HEIGHT + below) + (down - 1) * _GAP)
        all_axes = []
        for place, (name, boxes) in enumerate(panels.items()):
            row, column = divmod(place, across)
            left, top = _LEFT + column * (width + _GAP), _TOP + row * (_HEIGHT + below + _GAP)
            axes = chart_style.axes_at(figure, left, top, width, _HEIGHT)
            _draw_run_boxes(axes, boxes)
            axes.set_title(name)
            axes.tick_params(axis="x", length=0, labelrotation=90 if upright else 0)
            axes.tick_params(labelleft=not column)
            if not column:
                axes.set_ylabel(y)
            all_axes.append(axes)
        _scale(all_axes, scale)
        chart_style.write_title(figure, title)
        _explain(figure)
    return figure


def _draw_run_boxes(axes: Axes, boxes: Mapping[str, _Box | None]) -> None:
    known = {place: box for place, box in enumerate(boxes.values()) if box is not None}
    drawn = axes.bxp(
        [box.for_matplotlib("") for box in known.values()],
        positions=list(known),
        widths=0.55,
        showfliers=False,
        patch_artist=True,
        manage_ticks=False,
        medianprops={"color": chart_style.INK, "linewidth": 1.6},
    )
    for place, patch in zip(known, drawn["boxes"], strict=True):
        patch.set_facecolor((*chart_style.colour_of(place), 0.55))
    for place, box in known.items():
        axes.plot([place], [box.p99], marker="_", markersize=12, markeredgewidth=1.6, color=chart_style.INK)
        axes.plot(
            [place], [box.mean], marker="D", markersize=5, color="white", markeredgecolor=chart_style.INK
        )
        axes.annotate(
            number(box.mean),
            (place, box.mean),
            xytext=(6, 3),
            textcoords="offset points",
            fontsize=8,
            bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.75},
        )
    for place in range(len(boxes)):
        if place not in known:
            axes.text(place, 0.5, "no job", transform=axes.get_xaxis_transform(), ha="center")
    axes.set_xticks(range(len(boxes)), list(boxes))
    axes.set_xlim(-0.6, len(boxes) - 0.4)
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axes.set_axisbelow(True)


def _scale(all_axes: Sequence[Axes], scale: str) -> None:
    """Set one scale for all panels."""
    top = max(*(float(axes.get_ylim()[1]) for axes in all_axes), 1.0)
    for axes in all_axes:
        if scale == "symlog":
            axes.set_yscale("symlog", linthresh=1.0, linscale=0.3)
        else:
            axes.set_yscale(scale)
        axes.set_ylim(0.8 if scale == "log" else 0, top * (1.05 if scale == "linear" else 1.6))
        if scale == "log":
            chart_style.plain_log(axes, "y")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _explain(figure: Figure) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(
            facecolor="#cccccc", edgecolor=chart_style.INK, label="quartiles and median; whiskers 5 % to 95 %"
        ),
        Line2D(
            [], [], marker="D", linestyle="none", color="white", markeredgecolor=chart_style.INK, label="mean"
        ),
        Line2D([], [], marker="_", linestyle="none", color=chart_style.INK, markersize=10, label="99 %"),
    ]
    chart_style.legend(figure, handles)
