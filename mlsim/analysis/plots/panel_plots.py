"""Curves and grouped bars in panels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike

from mlsim.analysis.plots import chart_style, legends

_EDGES, _GAP, _LINE = (110, 30, 110, 90), 40, 110
_WIDE_GAP = 100  # with space for the numbers of each panel
_HEIGHT = 330


@dataclass(frozen=True)
class LinePanel:
    """One panel."""

    title: str
    series: Mapping[str, tuple[ArrayLike, ArrayLike]]
    """Name of a curve to its points, x and y of one length; NaN leaves a gap."""
    ends: Mapping[str, tuple[ArrayLike, ArrayLike]] = field(default_factory=dict)
    """Name of a curve to the lower and upper ends of an interval at its points; NaN: none. It is drawn as a
    band around joined points, otherwise as bars."""


@dataclass(frozen=True)
class Look:
    """Style of curves."""

    across: int = 2  # most panels side by side
    dots: bool = False  # mark the points
    joined: bool = True  # join them by lines
    percent: bool = False  # values are shares of 1
    ticks: Mapping[float, str] = field(default_factory=dict)  # of an x axis without a scale
    own_scales: bool = False  # limits for each panel, of values that differ much between panels


def lines(panels: Sequence[LinePanel], title: str, x: str, y: str, look: Look | None = None) -> Figure:
    """Draw curves in panels, in reading order; a name has one colour in all panels."""
    look = look or Look()
    gap = _WIDE_GAP if look.own_scales else _GAP
    names = list(dict.fromkeys(name for panel in panels for name in panel.series))
    with chart_style.picture_style():
        figure, every = chart_style.panels(len(panels), look.across, _EDGES, _HEIGHT, gap, _LINE)
        for place, (axes, panel) in enumerate(zip(every, panels, strict=True)):
            _draw(axes, panel, names, look)
            _limit(axes, [panel] if look.own_scales else panels, look)
            legends.tell_apart(axes)
            axes.set_xlabel(x)
            if place % look.across:
                axes.tick_params(labelleft=look.own_scales)
            else:
                axes.set_ylabel(y)
        chart_style.write_title(figure, title)
        legends.legend(figure, legends.line_handles(names), below=34)
    return figure


def _draw(axes: Axes, panel: LinePanel, names: Sequence[str], look: Look) -> None:
    style: dict[str, Any] = {"linewidth": 1.0, "markersize": 3.0, "markeredgewidth": 0}
    style |= {"linestyle": "-" if look.joined else "none", "marker": "o" if look.dots else ""}
    for name, (places, values) in panel.series.items():
        colour = chart_style.colour_of(names.index(name))
        if name in panel.ends:
            low, high = (np.asarray(end, np.float64) for end in panel.ends[name])
            if look.joined:
                axes.fill_between(np.asarray(places), low, high, color=colour, alpha=0.2, linewidth=0)
            else:
                axes.vlines(places, low, high, color=colour, linewidth=1.4)
        axes.plot(np.asarray(places, np.float64), np.asarray(values, np.float64), color=colour, **style)
    _finish(axes, panel.title)


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title)
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axes.set_axisbelow(True)


def _limit(axes: Axes, panels: Sequence[LinePanel], look: Look) -> None:
    """Set the same axes for all panels."""
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
    parts = [points[which] for panel in panels for points in panel.series.values()]
    if which == 1:
        parts += [end for panel in panels for ends in panel.ends.values() for end in ends]
    values = np.concatenate([np.empty(0), *(np.asarray(part, np.float64) for part in parts)])
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)


_BARS_LEFT, _BARS_RIGHT, _BARS_TOP, _BARS_GAP = 100, 30, 110, 80
_BARS_HEIGHT, _ACROSS = 300, 2
_BELOW, _LETTER = 110, 11
"""Room below a panel for its groups' names, and for each letter of them where they stand upright (pixels)."""
_MOST_LETTERS = 66  # letters in a row beyond which names are upright
_NAN = float("nan")


@dataclass(frozen=True)
class Panel:
    """One panel: bars in groups, one bar of each series in a group."""

    title: str
    groups: Sequence[str]  # names of the groups, along the axis
    series: Mapping[str, Sequence[float]]  # name of a series to its values, one a group; NaN for none
    marks: Mapping[str, Sequence[float]] = field(default_factory=dict)  # values to mark on the bars
    ends: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)  # of lines on the bars


def bars(panels: Sequence[Panel], title: str, label: str) -> Figure:
    """Draw panels of grouped bars, two side by side; ``label`` names the value, with its unit."""
    upright = max((len(name) + 1) * len(panel.groups) for panel in panels for name in panel.groups)
    longest = max(len(name) for panel in panels for name in panel.groups)
    below = _BELOW + (_LETTER * longest if upright > _MOST_LETTERS else 0)
    with chart_style.picture_style():
        edges = _BARS_LEFT, _BARS_RIGHT, _BARS_TOP, below
        figure, every = chart_style.panels(len(panels), _ACROSS, edges, _BARS_HEIGHT, _BARS_GAP, below)
        names = list(dict.fromkeys(name for panel in panels for name in panel.series))
        for place, (axes, panel) in enumerate(zip(every, panels, strict=True)):
            _draw_bars(axes, panel, names, upright > _MOST_LETTERS)
            if not place % _ACROSS:
                axes.set_ylabel(label)
        colours = ((chart_style.colour_of(place), name) for place, name in enumerate(names))
        handles: list[Any] = [Patch(color=colour, label=name) for colour, name in colours]
        if any(np.isfinite(row).any() for panel in panels for row in panel.marks.values()):
            handles.append(Line2D([], [], color=chart_style.INK, linewidth=1.6, label="source"))
        chart_style.write_title(figure, title, _BARS_LEFT)
        legends.legend(figure, handles, left=_BARS_LEFT)
    return figure


def _draw_bars(axes: Axes, panel: Panel, names: Sequence[str], upright: bool) -> None:
    width = 0.84 / max(len(panel.series), 1)
    places = np.arange(len(panel.groups))
    for number, (name, values) in enumerate(panel.series.items()):
        middle = places + (number - (len(panel.series) - 1) / 2) * width
        axes.bar(middle, np.nan_to_num(values), width * 0.94, color=chart_style.colour_of(names.index(name)))
        if name in panel.ends:
            low, high = np.array(panel.ends[name], np.float64).reshape(-1, 2).T
            axes.vlines(middle, low, high, color=chart_style.INK, linewidth=1.0)
        marks = np.array(panel.marks.get(name, [_NAN] * len(places)), np.float64)
        axes.hlines(marks, middle - width / 2, middle + width / 2, color=chart_style.INK, linewidth=1.6)
    axes.set_xticks(places, panel.groups, rotation=90 if upright else 0)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, len(panel.groups) - 0.4)
    axes.set_ylim(0, max(_highest(panel) * 1.06, 1e-9))
    _finish(axes, panel.title)


def _highest(panel: Panel) -> float:
    values = [np.array(row, np.float64) for rows in (panel.series, panel.marks) for row in rows.values()]
    values += [np.array(rows, np.float64).ravel() for rows in panel.ends.values()]
    return float(np.nan_to_num(np.concatenate(values)).max()) if values else 0.0
