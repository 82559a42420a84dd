"""Titles and legends above the panels of a picture that compares runs, and scales that suit them all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from mlsim.analysis.plots.style import WIDTH, job_palette

__all__ = ["colour_of", "differ_much", "legend", "legend_height", "name_lines", "plain_log", "write_title"]

_LEFT = 110
_LINE = 26
"""Height of a line of a legend, in pixels."""
_LETTERS = 130
"""So many letters have room in a line of a legend."""


def colour_of(place: int) -> Any:
    """Return the colour of the run with this index."""
    palette = job_palette()
    return palette[place % len(palette)]


def write_title(figure: Figure, title: str) -> None:
    """Write the title of a picture."""
    figure.text(_LEFT / WIDTH, 1 - 26 / _height(figure), title, fontsize=10)


def legend(figure: Figure, handles: Sequence[Any], columns: int | None = None) -> None:
    """Write a legend below the title."""
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(_LEFT / WIDTH, 1 - 36 / _height(figure)),
        ncols=columns or len(handles),
    )


def name_lines(figure: Figure, labels: Sequence[str]) -> None:
    """Say which run has which colour."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour_of(place), linewidth=2.5, label=label)
        for place, label in enumerate(labels)
    ]
    legend(figure, handles, _per_line(labels))


def legend_height(labels: Collection[str]) -> int:
    """Return the height in pixels of what :func:`name_lines` writes."""
    return _LINE * -(-len(labels) // _per_line(labels))


def _per_line(labels: Collection[str]) -> int:
    return max(min(len(labels), _LETTERS // (max(map(len, labels)) + 6)), 1)


def _height(figure: Figure) -> float:
    return float(figure.get_figheight() * figure.dpi)


def differ_much(values: Iterable[float], factor: float = 10.0) -> bool:
    """Whether some values would vanish beside others on a linear axis."""
    positive = [value for value in values if value > 0]
    return len(positive) > 1 and max(positive) > factor * min(positive)


def plain_log(axes: Axes, which: str) -> None:
    """Write plain numbers at 1, 2 and 5 times powers of ten, or at these alone where there are many."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    many = high > 300 * max(low, 1e-12)
    axis.set_major_locator(LogLocator(subs=(1.0,) if many else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.set_minor_formatter(NullFormatter())
