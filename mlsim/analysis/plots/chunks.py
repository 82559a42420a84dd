"""Chunk sizes over scheduling steps, a panel for each loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mlsim._arrays import Ints
from mlsim.analysis.formatting import count
from mlsim.analysis.plots.style import BLUE, INK, WIDTH, axes_at, canvas, picture_style
from mlsim.record import Chunks
from mlsim.record.blocks import chunk_blocks, n_rows

__all__ = ["Curve", "chunk_curve", "chunk_sizes"]


_MOST_ACROSS = 4
_LETTER = 13
"""Width of a letter of a panel's title, in pixels."""
_LEFT, _RIGHT, _TOP, _GAP, _LINE, _BOTTOM = 110, 30, 70, 40, 95, 80
_SINGLE_HEIGHT, _HEIGHT = 560, 260
_FINEST = 1500
"""Steps are told apart down to this part of the axis."""


class Curve(NamedTuple):
    """The chunks of one loop, thinned to what a picture can show.

    Attributes
    ----------
    label
        Name of the loop.
    steps
        How many chunks it had.
    step, size
        Points of the curve: scheduling step from 0, iterations.
    """

    label: str
    steps: int
    step: Ints
    size: Ints


def chunk_curve(chunks: Chunks, label: str) -> Curve:
    """Thin the chunks of one loop to points that differ in the picture.

    Parameters
    ----------
    chunks
        Of one loop. Where two chunks have the same step, as where nodes count their own, they are numbered
        in order of start instead.
    label
        Name of the loop.
    """
    from mlsim.analysis.plots.thinning import Thinned, are_new

    n = n_rows(chunks)
    own, numbered = Thinned(n, _FINEST), Thinned(n, _FINEST)
    are_distinct, seen = True, np.zeros(n // 8 + 1, np.uint8)
    first = 0
    for block in chunk_blocks(chunks):
        if are_distinct and len(block.step):
            most = int(block.step.max()) // 8 + 1
            if most > len(seen):
                seen = np.append(seen, np.zeros(max(most, 2 * len(seen)) - len(seen), np.uint8))
            are_distinct = are_new(block.step, seen)
        if are_distinct:
            own.add(block.step, block.size)
        numbered.add(np.arange(first, first + len(block.step)), block.size)
        first += len(block.step)
    return Curve(label, n, *(own if are_distinct else numbered).points())


def chunk_sizes(curves: Sequence[Curve], title: str) -> Figure:
    """Draw chunk sizes over scheduling steps (as Eleliemy 2021, Fig. 2.1).

    Every loop has a panel of its own, with its own steps across and the same logarithmic scale of sizes
    upwards.

    Parameters
    ----------
    curves
        From :func:`chunk_curve`, in the order of the panels.
    title
        The picture's title.
    """
    letters = max((len(curve.label) for curve in curves), default=1)
    across = max(min(len(curves), _MOST_ACROSS, (WIDTH - _LEFT) // (_LETTER * letters + _GAP)), 1)
    down = max(math.ceil(len(curves) / across), 1)
    height = _SINGLE_HEIGHT if len(curves) <= 1 else _HEIGHT
    width = (WIDTH - _LEFT - _RIGHT - (across - 1) * _GAP) // across
    top = max((int(curve.size.max()) for curve in curves if len(curve.size)), default=1)
    with picture_style():
        figure = canvas(_TOP + down * height + (down - 1) * _LINE + _BOTTOM)
        for place, curve in enumerate(curves):
            row, column = divmod(place, across)
            axes = axes_at(
                figure, _LEFT + column * (width + _GAP), _TOP + row * (height + _LINE), width, height
            )
            _draw(axes, curve, top)
            axes.set_xlabel(f"scheduling step ({count(curve.steps, 'chunk')})")
            if column:
                axes.tick_params(labelleft=False)
            else:
                axes.set_ylabel("chunk size (iterations)")
            axes.set_title(curve.label if len(curves) > 1 else title)
        if len(curves) > 1:
            figure.text(_LEFT / WIDTH, 1 - 22 / (figure.get_figheight() * figure.dpi), title, fontsize=10)
    return figure


def _draw(axes: Axes, curve: Curve, top: int) -> None:
    """Draw one curve: as points, joined where they are few enough to be seen one by one."""
    few = curve.steps <= 60
    axes.plot(
        curve.step,
        np.maximum(curve.size, 1),
        marker="o",
        markersize=3.0 if few else 1.6,
        markeredgewidth=0,
        linestyle="-" if few else "none",
        linewidth=0.6,
        color=BLUE,
    )
    axes.set_yscale("log")
    axes.set_ylim(0.8, max(top, 10) * 1.6)
    axes.set_xlim(-0.02 * max(curve.steps, 1), max(curve.steps, 1) * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(axis="y", linewidth=0.4, alpha=0.5, color=INK)
