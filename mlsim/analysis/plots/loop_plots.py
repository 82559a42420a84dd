"""Chunk sizes and iteration costs of loops, and their PEs over time; figures of loops for papers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mlsim._runtime.arrays import Floats, Ints, NDArray
from mlsim.analysis.formatting import count, number
from mlsim.analysis.machine_metrics import percent_imbalance
from mlsim.analysis.plots import chart_style
from mlsim.analysis.plots.chart_style import Runs, light_grid, line_of, paper_figure
from mlsim.analysis.plots.gantt_plot import GAP, SEPARATED, Boxes, Raster
from mlsim.analysis.plots.legends import number_bands, put_legend
from mlsim.analysis.plots.paper_runs import draw_rectangles
from mlsim.record import Chunks, Records
from mlsim.record.table_blocks import chunk_blocks, n_rows, size_range

_MOST_ACROSS = 4
_LETTER = 13  # width of a letter of a panel's title, in pixels
_LEFT, _GAP, _LINE = 110, 40, 95
_EDGES = (_LEFT, 30, 70, 80)
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
    height = _SINGLE_HEIGHT if len(curves) <= 1 else _HEIGHT
    top = max((int(curve.size.max()) for curve in curves if len(curve.size)), default=1)
    with chart_style.picture_style():
        figure, panels = chart_style.panels(len(curves), across, _EDGES, height, _GAP, _LINE)
        for place, (axes, curve) in enumerate(zip(panels, curves, strict=True)):
            _draw(axes, curve, top)
            axes.set_xlabel(f"scheduling step ({count(curve.steps, 'chunk')})")
            if place % across:
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


class Bands:
    """Bands of equal height, painted as by :class:`~mlsim.analysis.plots.gantt_plot.Raster`.

    All rows of pixels of a band are alike except the last one, which separates bars: so two are painted,
    whatever the height. ``shape`` is (height, width) in pixels.
    """

    def __init__(self, shape: tuple[int, int], bands: int) -> None:
        self._height, self._width = shape[0] // bands, shape[1]
        self._raster = Raster((2 * bands, shape[1]))

    def paint(self, band: NDArray[np.int32], left: Floats, right: Floats, colour: Ints) -> None:
        """Add bars, with edges in pixels, clipped to the picture; ``colour`` is a row of the palette."""
        left, right = np.maximum(left, 0.0), np.minimum(right, float(self._width))
        apart = (right - left >= SEPARATED) & (self._height >= SEPARATED)
        gap: Floats = np.where(apart, GAP, 0.0)
        top: Floats = band.astype(np.float64) * 2.0
        self._raster.paint(left, right - gap, top, top + 2.0 - gap, np.ones(len(top)), colour)

    def image(self, palette: Floats) -> NDArray[np.uint8]:
        """Return RGB bytes, (height, width, 3), from colours in [0, 1], (colours, 3)."""
        painted = self._raster.image(palette)
        return np.repeat(painted, [self._height - 1, 1] * (len(painted) // 2), axis=0)


_PES_LEFT, _PES_RIGHT, _PES_TOP, _PES_BOTTOM = 110, 190, 60, 80
_MAX_HEIGHT, _MAX_BAND, _MIN_HEIGHT = 900, 24, 120
_SCALE_LEFT, _SCALE_WIDTH = 40, 22
_LISTED = 1 << 16  # limit of sizes whose colours are looked up in a list
_NODE_BAND = 12  # smallest height of nodes, in pixels, that lines separate


def pe_timeline(records: Records, title: str) -> Figure:
    """Draw the chunks that each PE executed over time, coloured by chunk size.

    A PE is a band, PE 0 at the top. White is time without a chunk: waiting for one, or none was left. If
    several chunks or PEs share a pixel, it has the colour of the chunk with the largest part in it, and is
    fainter the less of it was in use. If there is space, thin lines separate the nodes.
    """
    pes = int(records.loops.pes[0])
    height = _height(pes)
    axis = chart_style.span_axis(float(records.jobs.end_time[0]))
    shape = (height, chart_style.WIDTH - _PES_LEFT - _PES_RIGHT)
    sizes = size_range(records.chunks) or (1, 1)
    with chart_style.picture_style():
        figure = chart_style.canvas(_PES_TOP + height + _PES_BOTTOM)
        axes = chart_style.axes_at(figure, _PES_LEFT, _PES_TOP, shape[1], height)
        chart_style.add_pixels(axes, _painted(records, shape[1] / axis.end, sizes, pes, shape))
        _part_nodes(axes, records, pes, height)
        axis.label(axes)
        axes.set_ylim(pes, 0)
        axes.set_ylabel("PE")
        number_bands(axes, pes, 9, [1, 2, 4, 8, 10])
        axes.set_title(f"{title}  ({_pe_facts(records)})")
        _draw_scale(figure, sizes, height)
    return figure


def _pe_facts(records: Records) -> str:
    imbalance = float(percent_imbalance(records.loops)[0])
    chunks = count(int(records.loops.steps[0]), "chunk")
    return chunks if np.isnan(imbalance) else f"{chunks}, imbalance {imbalance:.1f} %"


def _height(pes: int) -> int:
    """Return the height in pixels: whole pixels a PE, as long as there are that many."""
    band = min(max(_MAX_HEIGHT // pes, 1), _MAX_BAND)
    return min(max(band * pes, _MIN_HEIGHT), _MAX_HEIGHT)


def _painted(
    records: Records, across: float, sizes: tuple[int, int], pes: int, shape: tuple[int, int]
) -> NDArray[np.uint8]:
    """Paint the chunks: into bands where each PE has whole pixels, else whatever part of a pixel it has."""
    in_bands, least, band = shape[0] % pes == 0, sizes[0], shape[0] / pes
    bands, raster = Bands(shape, pes), Raster(shape)
    few = sizes[1] - least < _LISTED
    listed = _colours(np.arange(least, sizes[1] + 1 if few else least, dtype=np.float64), *sizes)
    for chunks in chunk_blocks(records.chunks):
        colour = listed[chunks.size - least] if few else _colours(chunks.size.astype(np.float64), *sizes)
        left, right = chunks.start * across, chunks.end * across
        if in_bands:
            bands.paint(chunks.pe, left, right, colour)
        else:
            top = chunks.pe.astype(np.float64) * band
            raster.paint(left, right, top, top + band, np.ones(len(top)), colour)
    return (bands if in_bands else raster).image(chart_style.scale_palette())


def _colours(size: Floats, least: float, largest: float) -> Ints:
    """Return the row of the palette for chunk sizes: linear in the logarithm; the middle if all are equal."""
    if least == largest:
        return np.full(len(size), 128, np.int64)
    # The lightest colours are close to white, which is idle.
    rows: Floats = np.rint(30 + 225 * np.log(size / least) / np.log(largest / least))
    return rows.astype(np.int64)


def _part_nodes(axes: Axes, records: Records, pes: int, height: int) -> None:
    cores = records.nodes.cores
    if int(cores.sum()) != pes or height / len(cores) < _NODE_BAND or len(cores) == pes:
        return
    for first in np.cumsum(cores)[:-1]:
        axes.axhline(float(first), color=chart_style.INK, linewidth=0.5, alpha=0.6)


def _draw_scale(figure: Figure, sizes: tuple[float, float], height: int) -> None:
    """Draw what the colours mean, beside the timeline."""
    axes = chart_style.axes_at(
        figure, chart_style.WIDTH - _PES_RIGHT + _SCALE_LEFT, _PES_TOP, _SCALE_WIDTH, height
    )
    along = np.exp(np.linspace(np.log(sizes[0]), np.log(sizes[1]), height))[::-1]
    column = np.rint(chart_style.scale_palette()[_colours(along, *sizes)] * 255).astype(np.uint8)
    chart_style.add_pixels(axes, np.repeat(column[:, None, :], _SCALE_WIDTH, axis=1))
    axes.set_xticks([])
    axes.set_yscale("log")
    axes.set_ylim(*(sizes if sizes[0] < sizes[1] else (sizes[0] / 2, sizes[0] * 2)))
    between = (10.0**k for k in range(1, 19) if sizes[0] * 1.6 < 10.0**k < sizes[1] / 1.6)
    axes.set_yticks(sorted({*sizes, *between}))
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
    axes.set_ylabel("chunk size (iterations)")
    for spine in axes.spines.values():
        spine.set_visible(False)


@paper_figure("chunk-sizes", "chunk sizes over scheduling steps", 52.0, of_loops=True)
def paper_chunk_sizes(axes: Axes, runs: Runs, _tau: float) -> None:
    """Draw chunk sizes over scheduling steps, on a logarithmic scale (as Eleliemy 2021, Fig. 2.1)."""
    curves = [chunk_curve(run.chunks, label) for label, run in runs.items()]
    steps = max(curve.steps for curve in curves)
    top = max(int(curve.size.max()) for curve in curves)
    for place, curve in enumerate(curves):
        look: dict[str, Any] = {"marker": "os^Dv<>"[place % 7], "markersize": 2.6 if steps <= 100 else 1.6}
        look |= {"markeredgewidth": 0, "linestyle": "none", "color": line_of(place)[0]}
        axes.plot(curve.step + 1, np.maximum(curve.size, 1), label=curve.label, **look)
    axes.set_yscale("log")
    axes.set_ylim(0.8, top * 1.5)
    axes.set_xlim(0, steps + max(steps * 0.02, 1))
    chart_style.plain_log(axes, "y")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("scheduling step")
    axes.set_ylabel("chunk size (iterations)")
    light_grid(axes)
    if len(curves) > 1:
        for line in put_legend(axes):
            line.set_markersize(4)


def _pes_of(records: Records) -> int:
    return max(int(records.chunks.pe.max()) + 1, len(records.pes.pe))


def _timeline_height(runs: Runs) -> float:
    (records,) = runs.values()
    return min(max(24.0 + 1.6 * _pes_of(records), 35.0), 70.0)


@paper_figure("loop-timeline", "PEs of a loop over time", _timeline_height, is_single=True, of_loops=True)
def loop_timeline(axes: Axes, runs: Runs, _tau: float) -> None:
    """Draw when each PE executed chunks, the darker the larger; dashed: the mean finish time; one run."""
    (records,) = runs.values()
    chunks, job = records.chunks, int(records.chunks.job[0])
    began, ended = float(records.jobs.start_time[job]), float(records.jobs.end_time[job])
    axis = chart_style.span_axis(ended - began)
    low, high = int(chunks.size.min()), int(chunks.size.max())
    palette, colours = chart_style.scale_palette(), _colours(chunks.size.astype(np.float64), low, high)
    top = chunks.pe.astype(np.float64)
    drawn = Boxes(np.arange(len(top)), top, top + 1.0, np.ones(len(top)))
    axes.set_ylim(_pes_of(records), 0)
    axis.label(axes)
    draw_rectangles(axes, axis, (chunks.start - began, chunks.end - began), drawn, colours, palette)
    finish = records.pes.finish - began
    if len(finish):
        look: dict[str, Any] = {"color": chart_style.VERMILION, "linestyle": "--", "linewidth": 1.0}
        words = f"mean finish; imbalance {_imbalance(finish)}"
        axes.axvline(float(finish.mean()) / axis.seconds, label=words, **look)
        put_legend(axes)
    norm = LogNorm(low, high if high > low else low * 1.001)
    colour_map = ScalarMappable(
        norm, ListedColormap(palette[_colours(np.geomspace(low, high, 256), low, high)])
    )
    bar = axes.figure.colorbar(colour_map, ax=axes, pad=0.02, fraction=0.08, aspect=25)
    marks = sorted({low, high, *(10**k for k in range(8) if low < 10**k < high)})
    bar.set_ticks(marks, labels=[f"{mark:,}" for mark in marks])
    bar.ax.minorticks_off()
    bar.set_label("iterations per chunk")
    number_bands(axes, _pes_of(records), 8)
    axes.set_ylabel("PE")


@paper_figure("imbalance-profile", "finish times of PEs, sorted", 50.0, of_loops=True)
def imbalance_profile(axes: Axes, runs: Runs, _tau: float) -> None:
    """Draw the finish times of PEs in rising order, as shares of the mean; the last value is max/mean."""
    lowest, highest = 1.0, 1.0
    for place, (label, records) in enumerate(runs.items()):
        finish = np.sort(records.pes.finish - records.jobs.start_time[int(records.pes.job[0])])
        shares = finish / finish.mean()
        edges = np.linspace(0.0, 100.0, len(shares) + 1)
        colour, style = line_of(place)
        words = f"{label} ({_imbalance(finish)})" if len(runs) > 1 else label
        axes.stairs(shares * 100.0, edges, baseline=None, color=colour, linestyle=style, label=words)
        lowest, highest = min(lowest, float(shares[0])), max(highest, float(shares[-1]))
    axes.axhline(100.0, color=chart_style.INK, linewidth=0.6, linestyle=":")
    room = max((highest - lowest) * 5.0, 0.5)
    axes.set_xlim(0, 100)
    axes.set_ylim(max(lowest * 100.0 - room, 0.0), highest * 100.0 + room)
    axes.set_xlabel("PEs, by finish time (%)")
    axes.set_ylabel("finish time (% of the mean)")
    light_grid(axes)
    if len(runs) > 1:
        put_legend(axes)


def _imbalance(finish: Floats) -> str:
    """Write (1 - mean/max) · 100 of finish times (Eleliemy 2021, Eq. 2.16)."""
    return f"{number(float(1.0 - finish.mean() / finish.max()) * 100.0)} %"
