"""Figures for papers: sized in millimetres, legible at the width of a column, legends off the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from mlsim.analysis.plots.style import INK, picture_style

__all__ = ["COLUMN", "LINES", "light_grid", "log_ticks", "paper_figure", "paper_style", "put_legend"]

COLUMN = 85.0
"""Width of a column of a paper, in mm."""

LINES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("#E69F00", "-"),
    ("#56B4E9", "--"),
    ("#222222", "-."),
)
"""Colours of Okabe and Ito (2008) with line styles, by which lines are told apart in grey, too."""

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
    with picture_style(), matplotlib.rc_context(settings):
        yield


def paper_figure(
    width: float, height: float, rows: int = 1, ratios: Sequence[float] | None = None
) -> tuple[Figure, list[Axes]]:
    """Make a figure of so many mm and its axes, one below the other with a common x axis.

    Parameters
    ----------
    width, height
        In mm.
    rows
        How many axes.
    ratios
        Of their heights; all alike by default.

    Returns
    -------
    figure, list of axes
    """
    figure = Figure(figsize=(width / _MM, height / _MM), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, 1, sharex=True, squeeze=False, height_ratios=ratios)
    return figure, [row[0] for row in grid]


def light_grid(axes: Axes, which: Any = "y") -> None:
    """Draw thin lines at the ticks, behind the data."""
    axes.grid(axis=which, linewidth=0.4, color="#dddddd")
    axes.set_axisbelow(True)


def put_legend(axes: Axes, handles: Sequence[Any] | None = None, columns: int | None = None) -> None:
    """Write the legend above the axes, where it covers no data."""
    found = axes.get_legend_handles_labels()[0] if handles is None else list(handles)
    if not found:
        return
    letters = max(len(str(handle.get_label())) for handle in found)
    figure = axes.get_figure(root=True)
    assert figure is not None, "they are in one"
    width = figure.get_figwidth() * _MM
    fit = max(int(width * 0.6 / (letters + 5)), 1)
    axes.legend(
        handles=found,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.01),
        ncols=columns or min(len(found), fit),
        handlelength=1.8,
        columnspacing=1.2,
        labelcolor=INK,
    )


def log_ticks(axes: Axes, which: str, most: int = 6) -> None:
    """Write plain numbers at powers of ten, as many as have room."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(numticks=most))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.set_minor_formatter(NullFormatter())
