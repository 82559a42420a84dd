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
_PER_DECADE = 400
"""So many sizes between 1 and 10 are told apart."""


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
    n = n_rows(chunks)
    own, numbered = _Thinned(n), _Thinned(n)
    steps = _DistinctSteps()
    first = 0
    for block in chunk_blocks(chunks):
        if steps.are_distinct:
            steps.add(block.step)
        if steps.are_distinct:
            own.add(block.step, block.size)
        numbered.add(np.arange(first, first + len(block.step)), block.size)
        first += len(block.step)
    return Curve(label, n, *(own if steps.are_distinct else numbered).points())


class _DistinctSteps:
    """Finds out whether no step comes twice, with a bit for each."""

    def __init__(self) -> None:
        self.are_distinct = True
        self._seen = np.zeros(0, np.uint8)

    def add(self, step: Ints) -> None:
        """Look at some more steps."""
        if not len(step):
            return
        ordered = np.sort(step)
        least, largest = int(ordered[0]), int(ordered[-1])
        self.are_distinct = bool((ordered[1:] != ordered[:-1]).all())
        if largest // 8 >= len(self._seen):
            grown = np.zeros(max(largest // 8 + 1, 2 * len(self._seen)), np.uint8)
            grown[: len(self._seen)] = self._seen
            self._seen = grown
        span = np.zeros((largest // 8 - least // 8 + 1) * 8, np.bool_)
        span[step - least // 8 * 8] = True
        here, seen = np.packbits(span), self._seen[least // 8 : largest // 8 + 1]
        self.are_distinct &= not (here & seen).any()
        seen |= here


class _Thinned:
    """Points of a curve of ``n`` chunks, the first of those that look the same."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._key = self._step = self._size = np.empty(0, np.int64)

    def add(self, step: Ints, size: Ints) -> None:
        """Add chunks that follow those added before."""
        column = np.minimum(self._n, _FINEST) * step // max(self._n, 1)
        changes = np.append(True, (column[1:] != column[:-1]) | (size[1:] != size[:-1]))[: len(step)]
        column, step, size = column[changes], step[changes], size[changes]
        row = np.rint(np.log10(np.maximum(size, 1)) * _PER_DECADE).astype(np.int64)
        key = np.concatenate([self._key, column * (1 << 20) + row])
        self._key, kept = np.unique(key, return_index=True)
        self._step = np.concatenate([self._step, step])[kept]
        self._size = np.concatenate([self._size, size])[kept]

    def points(self) -> tuple[Ints, Ints]:
        """Return step and size of each point."""
        return self._step, self._size


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
