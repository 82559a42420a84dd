"""Grouped bars of one metric, in panels, with marks for published values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mlsim.analysis.plots.style import INK, WIDTH, axes_at, canvas, job_palette, picture_style

__all__ = ["Panel", "bars"]

_LEFT, _RIGHT, _TOP, _GAP = 100, 30, 100, 80
_HEIGHT, _ACROSS = 300, 2
_BELOW, _LETTER = 110, 11
"""Room below a panel for its groups' names, and for each letter of them where they stand upright (pixels)."""
_MOST_LETTERS = 66
"""Names of more letters than this in a row stand upright."""
_NAN = float("nan")


@dataclass(frozen=True)
class Panel:
    """One panel: bars in groups, one bar of each series in a group."""

    title: str
    """What all its bars have in common."""
    groups: Sequence[str]
    """Names of the groups, along the axis."""
    series: Mapping[str, Sequence[float]]
    """Name of a series to its values, one a group; NaN where there is none."""
    marks: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Likewise, values to be marked on the bars; may lack series."""
    ends: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """Likewise, ends of intervals, drawn as lines on the bars; NaN for none."""


def bars(panels: Sequence[Panel], title: str, label: str) -> Figure:
    """Draw panels of grouped bars, two beside each other.

    Parameters
    ----------
    panels
        In reading order, one or more.
    title
        The picture's title.
    label
        What the bars show, with its unit.
    """
    across = min(len(panels), _ACROSS)
    down = math.ceil(len(panels) / across)
    width = (WIDTH - _LEFT - _RIGHT - (across - 1) * _GAP) // across
    upright = max((len(name) + 1) * len(panel.groups) for panel in panels for name in panel.groups)
    longest = max(len(name) for panel in panels for name in panel.groups)
    below = _BELOW + (_LETTER * longest if upright > _MOST_LETTERS else 0)
    with picture_style():
        figure = canvas(_TOP + down * (_HEIGHT + below))
        names = list(dict.fromkeys(name for panel in panels for name in panel.series))
        for place, panel in enumerate(panels):
            row, column = divmod(place, across)
            axes = axes_at(
                figure, _LEFT + column * (width + _GAP), _TOP + row * (_HEIGHT + below), width, _HEIGHT
            )
            _draw(axes, panel, names, upright > _MOST_LETTERS)
            if not column:
                axes.set_ylabel(label)
        _explain(figure, panels, names, title)
    return figure


def _draw(axes: Axes, panel: Panel, names: Sequence[str], upright: bool) -> None:
    width = 0.84 / max(len(panel.series), 1)
    places = np.arange(len(panel.groups))
    for number, (name, values) in enumerate(panel.series.items()):
        middle = places + (number - (len(panel.series) - 1) / 2) * width
        axes.bar(middle, np.nan_to_num(values), width * 0.94, color=_colour(names, name))
        if name in panel.ends:
            low, high = np.array(panel.ends[name], np.float64).reshape(-1, 2).T
            axes.vlines(middle, low, high, color=INK, linewidth=1.0)
        marks = np.array(panel.marks.get(name, [_NAN] * len(places)), np.float64)
        axes.hlines(marks, middle - width / 2, middle + width / 2, color=INK, linewidth=1.6)
    axes.set_xticks(places, panel.groups, rotation=90 if upright else 0)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, len(panel.groups) - 0.4)
    axes.set_ylim(0, max(_highest(panel) * 1.06, 1e-9))
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axes.set_axisbelow(True)
    axes.set_title(panel.title)


def _highest(panel: Panel) -> float:
    values = [np.array(row, np.float64) for rows in (panel.series, panel.marks) for row in rows.values()]
    values += [np.array(rows, np.float64).ravel() for rows in panel.ends.values()]
    return float(np.nan_to_num(np.concatenate(values)).max()) if values else 0.0


def _colour(names: Sequence[str], name: str) -> Any:
    palette = job_palette()
    return palette[names.index(name) % len(palette)]


def _explain(figure: Figure, panels: Sequence[Panel], names: Sequence[str], title: str) -> None:
    """Write the title, and what colours and marks mean, above the panels."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    height = figure.get_figheight() * figure.dpi
    handles: list[Any] = [Patch(color=_colour(names, name), label=name) for name in names]
    if any(np.isfinite(row).any() for panel in panels for row in panel.marks.values()):
        handles.append(Line2D([], [], color=INK, linewidth=1.6, label="source"))
    figure.text(_LEFT / WIDTH, 1 - 26 / height, title, fontsize=10)
    figure.legend(
        handles=handles, loc="upper right", bbox_to_anchor=(1 - _RIGHT / WIDTH, 1 - 8 / height), ncols=5
    )
