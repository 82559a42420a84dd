"""Chunk sizes and iteration costs of loops."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mlsim._runtime.arrays import Floats, Ints
from mlsim.analysis.formatting import count, number
from mlsim.analysis.plots import chart_style
from mlsim.record import Chunks
from mlsim.record.table_blocks import chunk_blocks, n_rows

_MOST_ACROSS = 4
_LETTER = 13  # width of a letter of a panel's title, in pixels
_LEFT, _RIGHT, _TOP, _GAP, _LINE, _BOTTOM = 110, 30, 70, 40, 95, 80
_SINGLE_HEIGHT, _HEIGHT = 560, 260
_FINEST = 1500  # number of distinguishable steps along the axis


class Curve(NamedTuple):
    """The chunks of one loop, thinned to the resolution of a picture."""

    label: str
    steps: int  # number of chunks
    step: Ints  # of the points of the curve, from 0
    size: Ints  # in iterations


def chunk_curve(chunks: Chunks, label: str) -> Curve:
    """Thin the chunks of one loop to points that differ in the picture; steps met twice are renumbered."""
    n = n_rows(chunks)
    own, numbered = chart_style.Thinned(n, _FINEST), chart_style.Thinned(n, _FINEST)
    are_distinct, seen = True, np.zeros(n // 8 + 1, np.uint8)
    first = 0
    for block in chunk_blocks(chunks):
        if are_distinct and len(block.step):
            most = int(block.step.max()) // 8 + 1
            if most > len(seen):
                seen = np.append(seen, np.zeros(max(most, 2 * len(seen)) - len(seen), np.uint8))
            are_distinct = chart_style.are_new(block.step, seen)
        if are_distinct:
            own.add(block.step, block.size)
        numbered.add(np.arange(first, first + len(block.step)), block.size)
        first += len(block.step)
    return Curve(label, n, *(own if are_distinct else numbered).points())


def chunk_sizes(curves: Sequence[Curve], title: str) -> Figure:
    """Draw chunk sizes over scheduling steps, one panel per loop (as Eleliemy 2021, Fig. 2.1)."""
    letters = max((len(curve.label) for curve in curves), default=1)
    across = max(min(len(curves), _MOST_ACROSS, (chart_style.WIDTH - _LEFT) // (_LETTER * letters + _GAP)), 1)
    down = max(math.ceil(len(curves) / across), 1)
    height = _SINGLE_HEIGHT if len(curves) <= 1 else _HEIGHT
    width = (chart_style.WIDTH - _LEFT - _RIGHT - (across - 1) * _GAP) // across
    top = max((int(curve.size.max()) for curve in curves if len(curve.size)), default=1)
    with chart_style.picture_style():
        figure = chart_style.canvas(_TOP + down * height + (down - 1) * _LINE + _BOTTOM)
        for place, curve in enumerate(curves):
            row, column = divmod(place, across)
            left, above = _LEFT + column * (width + _GAP), _TOP + row * (height + _LINE)
            axes = chart_style.axes_at(figure, left, above, width, height)
            _draw(axes, curve, top)
            axes.set_xlabel(f"scheduling step ({count(curve.steps, 'chunk')})")
            if column:
                axes.tick_params(labelleft=False)
            else:
                axes.set_ylabel("chunk size (iterations)")
            axes.set_title(curve.label if len(curves) > 1 else title)
        if len(curves) > 1:
            chart_style.write_title(figure, title, below=22)
    return figure


def _draw(axes: Axes, curve: Curve, top: int) -> None:
    """Draw one curve: as points, joined where they are few enough to be seen one by one."""
    few = curve.steps <= 60
    look: dict[str, Any] = {"marker": "o", "markeredgewidth": 0, "linewidth": 0.6, "color": chart_style.BLUE}
    look |= {"markersize": 3.0, "linestyle": "-"} if few else {"markersize": 1.6, "linestyle": "none"}
    axes.plot(curve.step, np.maximum(curve.size, 1), **look)
    axes.set_yscale("log")
    axes.set_ylim(0.8, max(top, 10) * 1.6)
    axes.set_xlim(-0.02 * max(curve.steps, 1), max(curve.steps, 1) * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(axis="y", linewidth=0.4, alpha=0.5, color=chart_style.INK)


Extent = tuple[float, float, float, float]

_COSTS_LEFT, _COSTS_RIGHT, _COSTS_TOP, _COSTS_GAP, _COSTS_BOTTOM = 128, 56, 122, 96, 76
_UPPER, _LOWER = 340, 260
_BESIDE, _IMAGE, _SCALE = 130, 560, 22  # left of the image, its side, and the width of its scale of colours
_MOST_PIXELS = 2 * _IMAGE
_BARS = 60
_FLAT = 20.0  # ratio of largest cost to largest mean from which the scale is logarithmic


class Band(NamedTuple):
    """Costs in bins along the loop."""

    edges: Floats  # numbers of iterations
    mean: Floats
    least: Floats
    largest: Floats


def cost_band(costs: Floats, bins: int) -> Band:
    """Sum up costs in bins of equally many iterations (give or take one), at most one bin an iteration."""
    edges = np.linspace(0, len(costs), min(bins, len(costs)) + 1).astype(np.int64)
    mean = np.add.reduceat(costs, edges[:-1]) / np.diff(edges)
    least, largest = (extreme.reduceat(costs, edges[:-1]) for extreme in (np.minimum, np.maximum))
    return Band(edges.astype(np.float64), mean, least, largest)


def cost_facts(costs: Floats) -> dict[str, float | int | None]:
    """Return count, mean, std (divisor N), min, max and c.o.v., which is None if the mean is 0."""
    mean, std = float(costs.mean()), float(costs.std())
    facts = {"count": len(costs), "mean": mean, "std": std, "min": float(costs.min())}
    return facts | {"max": float(costs.max()), "cov": std / mean if mean > 0.0 else None}


def cost_bins(costs: Floats) -> tuple[Floats, bool]:
    """Return the bin edges of a histogram, and whether the scale is logarithmic.

    It is where the costs are above 0, span two powers of ten, and most are in the lowest tenth.
    """
    low, high = float(costs.min()), float(costs.max())
    if not low < high:
        margin = abs(low) * 0.05 or 0.5
        return np.linspace(max(low - margin, 0.0), high + margin, 4), False
    if low > 0.0 and high > 100.0 * low and np.median(costs) < low + 0.1 * (high - low):
        return np.geomspace(low, high, _BARS + 1), True
    return np.linspace(low, high, _BARS + 1), False


def iteration_costs(
    costs: Floats, title: str, unit: str | None = None, image: Extent | None = None
) -> Figure:
    """Draw costs float64[N] over the iterations, their histogram, and the image if they are its pixels.

    ``unit`` None is s; ``image``: limits of real and imaginary part, pixels by column from the lower left.
    """
    if unit is None:
        axis = chart_style.span_axis(float(costs.max()))
        costs, unit = costs / axis.seconds, axis.unit
    across = chart_style.WIDTH - _COSTS_LEFT - _COSTS_RIGHT
    if image is not None:
        across -= _BESIDE + _IMAGE + _SCALE + 44
    with chart_style.picture_style():
        figure = chart_style.canvas(_COSTS_TOP + _UPPER + _COSTS_GAP + _LOWER + _COSTS_BOTTOM)
        upper = chart_style.axes_at(figure, _COSTS_LEFT, _COSTS_TOP, across, _UPPER)
        lower = chart_style.axes_at(figure, _COSTS_LEFT, _COSTS_TOP + _UPPER + _COSTS_GAP, across, _LOWER)
        _draw_along(upper, costs, unit, across)
        _draw_histogram(lower, costs, unit)
        figure.align_ylabels([upper, lower])
        if image is not None:
            _draw_image(figure, _COSTS_LEFT + across + _BESIDE, costs, unit, image)
        bold: dict[str, Any] = {"fontsize": 11, "fontweight": "bold", "va": "center"}
        chart_style.write_title(figure, title, _COSTS_LEFT, **bold)
        chart_style.write_title(figure, _facts(costs, unit), _COSTS_LEFT, 54, fontsize=9, va="center")
    return figure


def _facts(costs: Floats, unit: str) -> str:
    facts = {name: number(value) for name, value in cost_facts(costs).items()}
    return (
        f"{count(len(costs), 'iteration')}, mean {facts['mean']}, std {facts['std']}, "
        f"from {facts['min']} to {facts['max']} {unit}, c.o.v. {facts['cov']}"
    )


_MEAN: dict[str, Any] = {"color": chart_style.VERMILION, "linewidth": 1.0, "linestyle": (0, (5, 3))}


def _draw_along(axes: Axes, costs: Floats, unit: str, columns: int) -> None:
    band = cost_band(costs, columns // 2)
    binned = len(band.mean) < len(costs)
    if binned:
        look: dict[str, Any] = {"color": chart_style.SKY, "alpha": 0.4, "label": "least to largest"}
        axes.stairs(band.largest, band.edges, baseline=band.least, fill=True, linewidth=0, **look)
    label = "mean of neighbours" if binned else "cost"
    axes.stairs(band.mean, band.edges, baseline=None, color=chart_style.BLUE, linewidth=1.0, label=label)
    axes.axhline(float(costs.mean()), label="mean", **_MEAN)
    axes.set_xlim(0, len(costs))
    largest = float(costs.max())
    if costs.min() > 0.0 and largest > _FLAT * band.mean.max():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_ylim(0, largest * 1.05 or 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=max(columns // 160, 3), integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("iteration")
    axes.set_ylabel(f"cost ({unit})")
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.02), ncols=3, borderpad=0.0)


def _draw_histogram(axes: Axes, costs: Floats, unit: str) -> None:
    edges, logarithmic = cost_bins(costs)
    found, _ = np.histogram(costs, np.append(edges[:-1], max(edges[-1], costs.max())))
    share = found / len(costs)
    percent = FuncFormatter(lambda value, _: f"{value * 100:g} %")
    axes.stairs(share, edges, fill=True, color=chart_style.BLUE, alpha=0.9)
    axes.axvline(float(costs.mean()), **_MEAN)
    if logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylim(share[share > 0].min() / 2, 1.0)
    else:
        axes.set_ylim(0, float(share.max()) * 1.05)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.yaxis.set_major_formatter(percent)
    axes.set_xlim(float(edges[0]), float(edges[-1]))
    axes.set_xlabel(f"cost ({unit})")
    axes.set_ylabel("share of iterations")
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)


def _draw_image(figure: Figure, left: int, costs: Floats, unit: str, extent: Extent) -> None:
    """Draw the image, upright: real parts to the right, imaginary parts upwards."""
    size = round(len(costs) ** 0.5)
    stride = -(-size // _MOST_PIXELS)
    pixels = costs.reshape(size, size)[::stride, ::stride].T
    axes = chart_style.axes_at(figure, left, _COSTS_TOP, _IMAGE, _IMAGE)
    low, high = float(pixels.min()), float(pixels.max())
    scale = LogNorm(low, high) if 0.0 < low < high else None
    palette = ListedColormap(chart_style.scale_palette())
    shown = axes.imshow(pixels, palette, scale, aspect="auto", origin="lower", extent=extent)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    axes.set_xlabel("real part of c")
    axes.set_ylabel("imaginary part of c")
    colours = chart_style.axes_at(figure, left + _IMAGE + 14, _COSTS_TOP, _SCALE, _IMAGE)
    bar = figure.colorbar(shown, cax=colours, format=FuncFormatter(lambda value, _: f"{value:g}"))
    bar.outline.set_visible(False)
    colours.set_title(unit, loc="left", fontsize=9, color=chart_style.INK, pad=12)
