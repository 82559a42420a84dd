"""Legends that stay inside their picture, lines that cover each other, and numbers of bands."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from mlsim._runtime.arrays import Floats
from mlsim.analysis.plots import chart_style

_LINE = 28  # height of a line of a legend, in pixels
_FONT, _PAPER_FONT = 9.0, 7.5  # points
_HANDLE, _BETWEEN = 2.9, 2.0  # width of a handle with its space, and space between columns, in font sizes
_MOST_COLUMNS = 12
_POINT = 72.0 / chart_style.DPI  # points in a pixel


def text_width(text: str, size: float) -> float:
    """Return the width of a text in points, for a font size in points; in pixels letters are a bit wider."""
    font = FontProperties(family="DejaVu Sans", size=size)
    return 1.04 * float(text_to_path.get_text_width_height_descent(text, font, False)[0])


def _columns(handles: Sequence[Any], room: float, size: float) -> int:
    """Return how many columns of a legend fit into ``room`` points; shorten entries that fit into none."""
    widths, room = [], room - size  # and its own margin
    for handle in handles:
        label = whole = str(handle.get_label())
        while len(label) > 2 and _HANDLE * size + text_width(label, size) > room:
            label = f"{label[: max(len(label) * 9 // 10 - 2, 1)]}…"
        if label != whole:
            handle.set_label(label)
        widths.append(_HANDLE * size + text_width(label, size))
    for columns in range(min(len(widths), _MOST_COLUMNS), 1, -1):
        each = [float(part.max()) for part in np.array_split(np.array(widths), columns)]
        if sum(each) + (columns - 1) * _BETWEEN * size <= room:
            return columns
    return 1


def _grow(figure: Figure, pixels: float) -> None:
    """Make a picture higher at its upper end; what it holds stays as it is."""
    old = figure.get_figheight() * figure.dpi
    figure.set_figheight((old + pixels) / figure.dpi)
    part = old / (old + pixels)
    for axes in figure.axes:
        x, y, width, height = axes.get_position().bounds
        axes.set_position((x, y * part, width, height * part))
    for text in figure.texts:
        text.set_y(1.0 - (1.0 - text.get_position()[1]) * part)


def legend(
    figure: Figure, handles: Sequence[Any], below: int = 36, left: int = chart_style.LEFT, lines: int = 1
) -> None:
    """Write a legend so many pixels below the upper end; of more ``lines`` the picture becomes higher."""
    columns = _columns(handles, (chart_style.WIDTH - left - chart_style.RIGHT) * _POINT, _FONT)
    more = -(-len(handles) // columns) - lines
    if more > 0:
        _grow(figure, more * _LINE)
    height = figure.get_figheight() * figure.dpi
    corner = left / chart_style.WIDTH, 1 - below / height
    figure.legend(handles=handles, loc="upper left", bbox_to_anchor=corner, ncols=columns)


def title_with_legend(axes: Axes, title: str, handles: Sequence[Any], **look: Any) -> None:
    """Write a title above axes, and a legend beside it, or below it where it has no room there."""
    axes.set_title(title)
    if not handles:
        return
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    room = axes.get_position().width * chart_style.WIDTH * _POINT
    beside = room - text_width(title, 10.0) - 3 * _FONT
    if _columns(handles, room, _FONT) >= len(handles) and _columns(handles, beside, _FONT) >= len(handles):
        look |= {"loc": "lower right", "bbox_to_anchor": (1.0, 1.02), "ncols": len(handles)}
    else:
        columns = _columns(handles, room, _FONT)
        lines = -(-len(handles) // columns)
        look |= {"loc": "lower left", "bbox_to_anchor": (0.0, 1.01), "ncols": columns}
        _grow(figure, lines * _LINE)
        axes.set_title(title, pad=8 + lines * _LINE * _POINT)
    axes.legend(handles=handles, **look)


def line_handles(labels: Sequence[str]) -> list[Line2D]:
    """Return legend entries that map names to colours."""
    look: dict[str, Any] = {"linewidth": 2.5}
    return [
        Line2D([], [], color=chart_style.colour_of(k), label=label, **look) for k, label in enumerate(labels)
    ]


def entry(colour: str, style: Any, label: str, **look: Any) -> Line2D:
    """Return the legend entry of a line."""
    return Line2D([], [], color=colour, linestyle=style, label=label, **look)


def put_legend(axes: Axes, handles: Sequence[Any] | None = None) -> list[Line2D]:
    """Write the legend of a figure for papers above its axes, where it covers no data; return its lines.

    Before that, lines of the axes that cover each other become dashes. A legend of several lines makes the
    figure higher.
    """
    tell_apart(axes)
    found = axes.get_legend_handles_labels()[0] if handles is None else list(handles)
    if not found:
        return []
    figure: Any = axes.get_figure(root=True)
    names = axes.yaxis.get_tightbbox(figure.canvas.get_renderer())
    beside = (0.0 if names is None else max(axes.bbox.x0 - names.x0, 0.0)) * 72.0 / figure.dpi
    room = figure.get_figwidth() * 72.0 - beside - 2 * _PAPER_FONT
    columns = _columns(found, room, _PAPER_FONT)
    more = -(-len(found) // columns) - 1
    figure.set_figheight(figure.get_figheight() + more * 1.5 * _PAPER_FONT / 72.0)
    legend = axes.legend(
        handles=found,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.01),
        ncols=columns,
        handlelength=1.8,
        columnspacing=1.2,
        labelcolor=chart_style.INK,
    )
    return legend.get_lines()


_DASH = 5.0  # length of the dashes of lines that cover each other, in points


def tell_apart(axes: Axes) -> None:
    """Draw lines that cover each other as dashes in turn, so that the colours of all are seen."""
    groups: list[list[tuple[Any, Floats]]] = []
    for line in (*axes.lines, *axes.patches):
        if isinstance(line, StepPatch) and line.get_fill():
            continue
        if not isinstance(line, Line2D | StepPatch) or line.get_linestyle() in ("None", "none"):
            continue
        path = np.asarray(line.get_path().vertices)
        if len(path) < 2 or not line.get_transform().contains_branch(axes.transData):
            continue
        points: Floats = axes.transData.transform(path)
        same = (group for group in groups if _cover(group[0][1], points))
        found = next(same, None)
        if found is None:
            groups.append([(line, points)])
        else:
            found.append((line, points))
    for group in groups:
        if len(group) > 1:
            for place, (line, _) in enumerate(group):
                dash = _DASH / max(line.get_linewidth(), 0.1)
                line.set_linestyle(((len(group) - place) * dash, (dash, (len(group) - 1) * dash)))
                if isinstance(line, Line2D):
                    line.set_dash_capstyle("butt")
                    line.set_markevery((place, len(group)))


def _cover(one: Floats, other: Floats) -> bool:
    """Whether two lines, in pixels, look the same."""
    if one.shape != other.shape:
        return False
    known = np.isfinite(one)
    return bool(np.array_equal(known, np.isfinite(other)) and np.all(np.abs(one - other)[known] < 1.0))


def number_bands(axes: Axes, bands: int, most: int, steps: Sequence[float] | None = None) -> None:
    """Write the numbers of bands of height 1, from 0, at their middles."""
    ticks: Any = MaxNLocator(nbins=most, integer=True, steps=steps).tick_values(0, max(bands - 1, 1))
    shown = ticks[(ticks >= 0) & (ticks < bands)]
    axes.set_yticks(shown + 0.5, [f"{tick:,.0f}" for tick in shown])
