"""Curves in panels beside each other, on common axes: one metric for several runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from mlsim.analysis.plots.style import WIDTH, axes_at, canvas, job_palette, picture_style

__all__ = ["LinePanel", "Look", "lines"]


_LEFT, _RIGHT, _TOP, _GAP, _LINE, _BOTTOM = 110, 30, 110, 40, 110, 90
_WIDE_GAP = 100
"""With room for the numbers of each panel."""
_HEIGHT = 330
_LEGEND_COLUMNS = 7


@dataclass(frozen=True)
class LinePanel:
    """One panel."""

    title: str
    """What its curves have in common."""
    series: Mapping[str, tuple[ArrayLike, ArrayLike]]
    """Name of a curve to its points, x and y of one length; NaN leaves a gap."""
    ends: Mapping[str, tuple[ArrayLike, ArrayLike]] = field(default_factory=dict)
    """Name of a curve to the lower and upper ends of an interval at its points; NaN: none. It is drawn as a
    band around joined points, otherwise as bars."""


@dataclass(frozen=True)
class Look:
    """How curves are drawn.

    Attributes
    ----------
    across
        Most panels beside each other.
    dots, joined
        Whether points are marked, and whether there are lines between them.
    percent
        Whether values are shares of 1, from 0 to 1, written in percent.
    ticks
        Places and names along the x axis, where it is not a scale.
    own_scales
        Whether each panel has limits of its own, for values that differ much between panels.
    """

    across: int = 2
    dots: bool = False
    joined: bool = True
    percent: bool = False
    ticks: Mapping[float, str] = field(default_factory=dict)
    own_scales: bool = False


def lines(panels: Sequence[LinePanel], title: str, x: str, y: str, look: Look | None = None) -> Figure:
    """Draw curves.

    Parameters
    ----------
    panels
        In reading order; a name has one colour in all of them.
    title
        The picture's title.
    x, y
        Labels of the axes, with units.
    look
        How; plain lines by default.
    """
    look = look or Look()
    across = min(len(panels), look.across) or 1
    down = max(math.ceil(len(panels) / across), 1)
    gap = _WIDE_GAP if look.own_scales else _GAP
    width = (WIDTH - _LEFT - _RIGHT - (across - 1) * gap) // across
    names = list(dict.fromkeys(name for panel in panels for name in panel.series))
    with picture_style():
        figure = canvas(_TOP + down * _HEIGHT + (down - 1) * _LINE + _BOTTOM)
        for place, panel in enumerate(panels):
            row, column = divmod(place, across)
            left, top = _LEFT + column * (width + gap), _TOP + row * (_HEIGHT + _LINE)
            axes = axes_at(figure, left, top, width, _HEIGHT)
            _draw(axes, panel, names, look)
            _limit(axes, [panel] if look.own_scales else panels, look)
            axes.set_xlabel(x)
            if column:
                axes.tick_params(labelleft=look.own_scales)
            else:
                axes.set_ylabel(y)
        _explain(figure, names, title)
    return figure


def _draw(axes: Axes, panel: LinePanel, names: Sequence[str], look: Look) -> None:
    for name, (places, values) in panel.series.items():
        if name in panel.ends:
            low, high = (np.asarray(end, np.float64) for end in panel.ends[name])
            colour = _colour(names, name)
            if look.joined:
                axes.fill_between(np.asarray(places), low, high, color=colour, alpha=0.2, linewidth=0)
            else:
                axes.vlines(places, low, high, color=colour, linewidth=1.4)
        axes.plot(
            np.asarray(places, np.float64),
            np.asarray(values, np.float64),
            color=_colour(names, name),
            linestyle="-" if look.joined else "none",
            linewidth=1.0,
            marker="o" if look.dots else "",
            markersize=3.0,
            markeredgewidth=0,
        )
    axes.set_title(panel.title)
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axes.set_axisbelow(True)


def _limit(axes: Axes, panels: Sequence[LinePanel], look: Look) -> None:
    """Set the same axes for all panels."""
    from matplotlib.ticker import PercentFormatter

    across, up = (_extent(panels, which) for which in range(2))
    beside = 0.01 * (across[1] - across[0]) or 0.5  # of one point, as that of one week, something too
    if look.ticks and not look.joined:
        across = min(*look.ticks, across[0]), max(*look.ticks, across[1])
        beside = 0.5 - max(look.ticks) % 1 if not across[1] > across[0] else 0.06 * (across[1] - across[0])
    axes.set_xlim(across[0] - beside, across[1] + beside)
    if look.percent:
        axes.set_ylim(0.0, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    else:
        margin = 0.05 * (up[1] - up[0]) or 0.05
        axes.set_ylim(up[0] - margin, up[1] + margin)
    if look.ticks:
        axes.set_xticks(list(look.ticks), list(look.ticks.values()))


def _extent(panels: Sequence[LinePanel], which: int) -> tuple[float, float]:
    """Return least and largest of all x (0) or y (1); 0 and 1 where there are none."""
    parts = [np.asarray(points[which], np.float64) for panel in panels for points in panel.series.values()]
    if which == 1:
        parts += [
            np.asarray(end, np.float64) for panel in panels for ends in panel.ends.values() for end in ends
        ]
    values = np.concatenate(parts) if parts else np.empty(0)
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)


def _colour(names: Sequence[str], name: str) -> Any:
    palette = job_palette()
    return palette[names.index(name) % len(palette)]


def _explain(figure: Figure, names: Sequence[str], title: str) -> None:
    """Write the title, and below it what the colours mean."""
    from matplotlib.lines import Line2D

    height = figure.get_figheight() * figure.dpi
    handles = [Line2D([], [], color=_colour(names, name), linewidth=2.5, label=name) for name in names]
    figure.text(_LEFT / WIDTH, 1 - 26 / height, title, fontsize=10)
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(_LEFT / WIDTH, 1 - 34 / height),
        ncols=min(len(names), _LEGEND_COLUMNS) or 1,
    )
