"""Distributions of runs beside each other, as boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from mlsim._arrays import Floats
from mlsim.analysis.formatting import number
from mlsim.analysis.metrics import JOB_METRICS, queue_quantiles, queue_shares
from mlsim.analysis.plots.legends import colour_of, differ_much, legend, plain_log, write_title
from mlsim.analysis.plots.style import INK, WIDTH, axes_at, canvas, picture_style
from mlsim.record import Records

__all__ = ["queue_boxes", "slowdown_boxes", "value_boxes"]

Runs = Mapping[str, Records]
Panels = Mapping[str, Mapping[str, "_Box | None"]]

_LEFT, _RIGHT, _TOP, _GAP, _HEIGHT = 110, 30, 120, 36, 420
_ACROSS = 3
_LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]
"""Whiskers, edges and middle of a box."""
_LETTERS, _LETTER = 105, 11
"""So many letters of names have room below the panels; height of one that stands upright, in pixels."""


def slowdown_boxes(runs: Runs, tau: float) -> Figure:
    """Draw the distribution of slowdown, bounded slowdown and that per processor, on a logarithmic axis.

    A box spans the quartiles with a line at the median, whiskers the 5th to the 95th percentile; a diamond is
    the mean, a dash the 99th percentile (as Galleguillos et al. 2020, Fig. 10, but for single jobs).

    Parameters
    ----------
    runs
        Name to records.
    tau
        The bound of bounded slowdowns, in seconds.
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
    far = differ_much(value for box in known for value in (box.mean, box.p99))
    return _boxes(panels, "Queue length", "waiting jobs", "symlog" if far else "linear")


def value_boxes(
    panels: Mapping[str, Mapping[str, Floats]], title: str, y: str, scale: Literal["linear", "log"]
) -> Figure:
    """Draw distributions of any values, boxes as in :func:`slowdown_boxes`.

    Parameters
    ----------
    panels
        Name of a panel to names and values of its boxes, the same names in all.
    title, y
        Of the picture, and of its common axis.
    scale
        Of that axis; ``log`` from 1 up.
    """
    boxes = {
        panel: {name: _Box.of(values) for name, values in named.items()} for panel, named in panels.items()
    }
    return _boxes(boxes, title, y, scale)


class _Box:
    """What a box shows: values at the quantiles of ``_LEVELS``, the mean, the 99th percentile."""

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
    width = (WIDTH - _LEFT - _RIGHT - (across - 1) * _GAP) // across
    names = list(dict.fromkeys(name for boxes in panels.values() for name in boxes))
    upright = sum(len(name) + 3 for name in names) * across > _LETTERS
    below = 50 + (_LETTER * max(map(len, names)) if upright else 0)
    with picture_style():
        figure = canvas(_TOP + down * (_HEIGHT + below) + (down - 1) * _GAP)
        all_axes = []
        for place, (name, boxes) in enumerate(panels.items()):
            row, column = divmod(place, across)
            left, top = _LEFT + column * (width + _GAP), _TOP + row * (_HEIGHT + below + _GAP)
            axes = axes_at(figure, left, top, width, _HEIGHT)
            _draw_boxes(axes, boxes)
            axes.set_title(name)
            axes.tick_params(axis="x", length=0, labelrotation=90 if upright else 0)
            axes.tick_params(labelleft=not column)
            if not column:
                axes.set_ylabel(y)
            all_axes.append(axes)
        _scale(all_axes, scale)
        write_title(figure, title)
        _explain(figure)
    return figure


def _draw_boxes(axes: Axes, boxes: Mapping[str, _Box | None]) -> None:
    known = {place: box for place, box in enumerate(boxes.values()) if box is not None}
    drawn = axes.bxp(
        [box.for_matplotlib("") for box in known.values()],
        positions=list(known),
        widths=0.55,
        showfliers=False,
        patch_artist=True,
        manage_ticks=False,
        medianprops={"color": INK, "linewidth": 1.6},
    )
    for place, patch in zip(known, drawn["boxes"], strict=True):
        patch.set_facecolor((*colour_of(place), 0.55))
    for place, box in known.items():
        axes.plot([place], [box.p99], marker="_", markersize=12, markeredgewidth=1.6, color=INK)
        axes.plot([place], [box.mean], marker="D", markersize=5, color="white", markeredgecolor=INK)
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
            plain_log(axes, "y")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _explain(figure: Figure) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(facecolor="#cccccc", edgecolor=INK, label="quartiles and median; whiskers 5 % to 95 %"),
        Line2D([], [], marker="D", linestyle="none", color="white", markeredgecolor=INK, label="mean"),
        Line2D([], [], marker="_", linestyle="none", color=INK, markersize=10, label="99 %"),
    ]
    legend(figure, handles)
