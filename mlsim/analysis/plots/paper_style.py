"""Figures for papers, of ``mlsim plot``: their style, and the record by which each is known."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mlsim.analysis.plots import chart_style
from mlsim.record import Records
from mlsim.record.derived_times import TAU

Runs = Mapping[str, Records]
"""Labels to records; of figures of loops, with the chunks and PEs of one loop each."""

LINES = (
    ("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":"), ("#E69F00", "-"),
    ("#56B4E9", "--"), ("#222222", "-."),
)  # fmt: skip
"""Colours of Okabe and Ito (2008) with line styles, distinguishable in grey as well."""

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
    with chart_style.picture_style(), matplotlib.rc_context(settings):
        yield


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """One kind of figure."""

    draw: Callable[..., Figure]  # of runs, width and height in mm (None: the usual one), and τ in s
    meaning: str
    is_single: bool
    of_loops: bool


_FIGURES: dict[str, PaperFigure] = {}


def figures() -> Mapping[str, PaperFigure]:
    """Return all kinds of figures, by the words of the command line: those of the modules of this folder."""
    folder = __name__.rpartition(".")[0]
    for module in iter_modules(import_module(folder).__path__):
        import_module(f"{folder}.{module.name}")
    return dict(sorted(_FIGURES.items()))


def paper_figure(
    word: str,
    meaning: str,
    height: float | Callable[[Runs], float],
    *,
    is_single: bool = False,
    of_loops: bool = False,
) -> Callable[[Callable[[Axes, Runs, float], None]], Callable[..., Figure]]:
    """Declare the function below as the one that draws a kind of figure, usually ``height`` mm high."""

    def declare(draw: Callable[[Axes, Runs, float], None]) -> Callable[..., Figure]:
        @wraps(draw)
        def figure(runs: Runs, width: float, tall: float | None = None, tau: float = TAU) -> Figure:
            usual = height(runs) if callable(height) else height
            with paper_style():
                made = Figure(figsize=(width / _MM, (tall or usual) / _MM), dpi=_DPI, layout="constrained")
                FigureCanvasAgg(made)
                draw(made.subplots(), runs, tau)
            return made

        _FIGURES[word] = PaperFigure(figure, meaning, is_single, of_loops)
        return figure

    return declare


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the suffix of the file."""
    chart_style.write_picture(figure, path, dpi=_DPI, style=paper_style)


def size_of(axes: Axes) -> tuple[float, float]:
    """Return width and height of the figure that axes are in, in mm."""
    figure = axes.get_figure(root=True)
    assert figure is not None, "they are in one"
    width, height = figure.get_size_inches() * _MM
    return float(width), float(height)


def light_grid(axes: Axes, which: Any = "y") -> None:
    """Draw thin lines at the ticks, behind the data."""
    axes.grid(axis=which, linewidth=0.4, color="#dddddd")
    axes.set_axisbelow(True)


def line_of(place: int) -> tuple[str, str]:
    """Return colour and line style of the run with this index."""
    return LINES[place % len(LINES)]


def entry(colour: str, style: Any, label: str, **look: Any) -> Line2D:
    """Return the legend entry of a line."""
    return Line2D([], [], color=colour, linestyle=style, label=label, **look)


def put_legend(axes: Axes, handles: Sequence[Any] | None = None) -> list[Line2D]:
    """Write the legend above the axes, where it covers no data; return its lines."""
    found = axes.get_legend_handles_labels()[0] if handles is None else list(handles)
    if not found:
        return []
    letters = max(len(str(handle.get_label())) for handle in found)
    fit = max(int(size_of(axes)[0] * 0.6 / (letters + 5)), 1)
    legend = axes.legend(
        handles=found,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.01),
        ncols=min(len(found), fit),
        handlelength=1.8,
        columnspacing=1.2,
        labelcolor=chart_style.INK,
    )
    return legend.get_lines()
