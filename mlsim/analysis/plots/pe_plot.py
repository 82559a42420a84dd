"""The PEs of a loop over time, with their chunks; figures of loops for papers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.analysis.formatting import count, number
from mlsim.analysis.machine_metrics import percent_imbalance
from mlsim.analysis.plots import chart_style, paper_runs
from mlsim.analysis.plots.gantt_plot import GAP, SEPARATED, Boxes, Raster, blended
from mlsim.analysis.plots.loop_plots import chunk_curve
from mlsim.record import Records
from mlsim.record.table_blocks import chunk_blocks, size_range


class Bands:
    """Bands of equal height, painted as by :class:`~mlsim.analysis.plots.gantt_plot.Raster`.

    All rows of pixels of a band are alike except the last one, which separates bars: so two are painted,
    whatever the height. ``shape`` is (height, width) in pixels.
    """

    def __init__(self, shape: tuple[int, int], bands: int) -> None:
        self._height = shape[0] // bands
        self._separated = self._height >= SEPARATED
        painted = (2 if self._separated else 1, bands, shape[1])
        self._covered = np.zeros(painted, np.float32)
        self._most = np.zeros(painted, np.float32)
        self._winner = np.zeros(painted, np.uint8)

    def paint(
        self,
        band: NDArray[np.int32],
        start: Floats,
        end: Floats,
        across: float,
        value: Ints,
        least: int,
        colours: NDArray[np.uint8],
    ) -> None:
        """Add bars, clipped to the picture, with ``across`` pixels per unit of time.

        The colour of a bar is the row ``value - least`` of ``colours``, which has rows of the palette.
        """
        image = self._covered, self._most, self._winner
        _paint(band, start, end, across, value, least, colours, self._separated, *image)

    def image(self, palette: Floats) -> NDArray[np.uint8]:
        """Return RGB bytes, (height, width, 3), from colours in [0, 1], (colours, 3)."""
        painted = [blended(*pixels, palette) for pixels in zip(self._covered, self._winner, strict=True)]
        rows = [painted[0]] * (self._height - 1) + [painted[-1]]
        return np.stack(rows, axis=1).reshape(-1, *painted[0].shape[1:])


@kernel
def _paint(
    band: NDArray[np.int32],
    start: Floats,
    end: Floats,
    across: float,
    value: Ints,
    least: int,
    colours: NDArray[np.uint8],
    separated: bool,
    covered: NDArray[np.float32],
    most: NDArray[np.float32],
    winner: NDArray[np.uint8],
) -> None:
    width = covered.shape[2]
    for row in range(len(start)):
        left, right = max(start[row] * across, 0.0), min(end[row] * across, float(width))
        colour, height = colours[value[row] - least], 1.0
        if separated and right - left >= SEPARATED:
            right -= GAP
            height -= GAP
        for layer in range(len(covered)):
            part = height if layer == 1 else 1.0
            for x in range(int(left), min(int(np.ceil(right)), width)):
                share = part * (min(x + 1.0, right) - max(float(x), left))
                covered[layer, band[row], x] += share
                if share > most[layer, band[row], x]:
                    most[layer, band[row], x] = share
                    winner[layer, band[row], x] = colour


_LEFT, _RIGHT, _TOP, _BOTTOM = 110, 190, 60, 80
_MAX_HEIGHT, _MAX_BAND, _MIN_HEIGHT = 900, 24, 120
_SCALE_LEFT, _SCALE_WIDTH = 40, 22
_LISTED = 1 << 16
"""Limit of sizes whose colours are looked up in a list."""
_NODE_BAND = 12
"""Smallest height of nodes, in pixels, that lines separate."""


def pe_timeline(records: Records, title: str) -> Figure:
    """Draw the chunks that each PE executed over time, coloured by chunk size.

    A PE is a band, PE 0 at the top. White is time without a chunk: waiting for one, or none was left. If
    several chunks or PEs share a pixel, it has the colour of the chunk with the largest part in it, and is
    fainter the less of it was in use. If there is space, thin lines separate the nodes.
    """
    pes = int(records.loops.pes[0])
    height = _height(pes)
    axis = chart_style.span_axis(float(records.jobs.end_time[0]))
    shape = (height, chart_style.WIDTH - _LEFT - _RIGHT)
    sizes = size_range(records.chunks) or (1, 1)
    with chart_style.picture_style():
        figure = chart_style.canvas(_TOP + height + _BOTTOM)
        axes = chart_style.axes_at(figure, _LEFT, _TOP, shape[1], height)
        _paint_pes(axes, axis, records, sizes, pes, shape)
        _part_nodes(axes, records, pes, height)
        axis.label(axes)
        axes.set_ylim(pes, 0)
        axes.set_ylabel("PE")
        axes.yaxis.set_major_locator(MaxNLocator(nbins=9, integer=True, steps=[1, 2, 4, 8, 10]))
        axes.set_title(f"{title}  ({_facts(records)})")
        _draw_scale(figure, sizes, height)
    return figure


def draw_pes(path: Path, records: Records, title: str) -> Path:
    """Write the PEs of one loop over time as PNG; see :func:`pe_timeline`.

    Parameters and errors are those of :func:`draw_gantt`; the records hold one loop and its chunks.
    """
    return chart_style.write_picture(pe_timeline(records, title), path)


def _facts(records: Records) -> str:
    imbalance = float(percent_imbalance(records.loops)[0])
    chunks = count(int(records.loops.steps[0]), "chunk")
    return chunks if np.isnan(imbalance) else f"{chunks}, imbalance {imbalance:.1f} %"


def _height(pes: int) -> int:
    """Return the height in pixels: whole pixels a PE, as long as there are that many."""
    band = min(max(_MAX_HEIGHT // pes, 1), _MAX_BAND)
    return min(max(band * pes, _MIN_HEIGHT), _MAX_HEIGHT)


def _paint_pes(
    axes: Axes,
    axis: chart_style.TimeAxis,
    records: Records,
    sizes: tuple[int, int],
    pes: int,
    shape: tuple[int, int],
) -> None:
    """Paint the chunks as one image that fills the axes pixel by pixel."""
    across = shape[1] / axis.end
    paint = _paint_bands if shape[0] % pes == 0 else _paint_boxes
    image = paint(records, across, sizes, pes, shape)
    corner = axes.get_window_extent()
    axes.add_artist(chart_style.Pixels(image, round(corner.x0), round(corner.y0)))


def _paint_bands(
    records: Records, across: float, sizes: tuple[int, int], pes: int, shape: tuple[int, int]
) -> NDArray[np.uint8]:
    """Paint chunks of PEs that have whole pixels each."""
    bands, (least, largest) = Bands(shape, pes), sizes
    few = largest - least < _LISTED
    colours = _colours(np.arange(least, largest + 1 if few else least, dtype=np.float64), *sizes)
    listed = colours.astype(np.uint8)
    for chunks in chunk_blocks(records.chunks):
        value = chunks.size
        if not few:
            listed = _colours(value.astype(np.float64), *sizes).astype(np.uint8)
            value, least = np.arange(len(value)), 0
        bands.paint(chunks.pe, chunks.start, chunks.end, across, value, least, listed)
    return bands.image(chart_style.scale_palette())


def _paint_boxes(
    records: Records, across: float, sizes: tuple[int, int], pes: int, shape: tuple[int, int]
) -> NDArray[np.uint8]:
    """Paint chunks of PEs, whatever part of a pixel each has."""
    raster, band = Raster(shape), shape[0] / pes
    for chunks in chunk_blocks(records.chunks):
        top = chunks.pe.astype(np.float64) * band
        raster.paint(
            chunks.start * across,
            chunks.end * across,
            top,
            top + band,
            np.ones(len(top)),
            _colours(chunks.size.astype(np.float64), *sizes),
        )
    return raster.image(chart_style.scale_palette())


def _colours(size: Floats, least: float, largest: float) -> NDArray[np.int64]:
    """Return the row of the palette for chunk sizes: linear in the logarithm; the middle if all are equal."""
    if least == largest:
        return np.full(len(size), 128, np.int64)
    # The lightest colours are close to white, which is idle.
    rows: NDArray[np.int64] = np.rint(30 + 225 * np.log(size / least) / np.log(largest / least)).astype(
        np.int64
    )
    return rows


def _part_nodes(axes: Axes, records: Records, pes: int, height: int) -> None:
    cores = records.nodes.cores
    if int(cores.sum()) != pes or height / len(cores) < _NODE_BAND or len(cores) == pes:
        return
    for first in np.cumsum(cores)[:-1]:
        axes.axhline(float(first), color=chart_style.INK, linewidth=0.5, alpha=0.6)


def _draw_scale(figure: Figure, sizes: tuple[float, float], height: int) -> None:
    """Draw what the colours mean, beside the timeline."""
    axes = chart_style.axes_at(figure, chart_style.WIDTH - _RIGHT + _SCALE_LEFT, _TOP, _SCALE_WIDTH, height)
    along = np.exp(np.linspace(np.log(sizes[0]), np.log(sizes[1]), height))[::-1]
    column = np.rint(chart_style.scale_palette()[_colours(along, *sizes)] * 255).astype(np.uint8)
    corner = axes.get_window_extent()
    image = np.repeat(column[:, None, :], _SCALE_WIDTH, axis=1)
    axes.add_artist(chart_style.Pixels(image, round(corner.x0), round(corner.y0)))
    axes.set_xticks([])
    axes.set_yscale("log")
    axes.set_ylim(*(sizes if sizes[0] < sizes[1] else (sizes[0] / 2, sizes[0] * 2)))
    axes.set_yticks(_marks(*sizes))
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
    axes.set_ylabel("chunk size (iterations)")
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)


def _marks(least: float, largest: float) -> list[float]:
    """Return the tick labels of the colour scale: both ends, and powers of ten well between."""
    powers = [10.0**exponent for exponent in range(1, 19)]
    between = [power for power in powers if least * 1.6 < power < largest / 1.6]
    return sorted({least, largest, *between})


Runs = Mapping[str, Records]
"""Records whose chunks and PEs are those of one loop each."""


def paper_chunk_sizes(runs: Runs, width: float, height: float | None = None) -> Figure:
    """Draw chunk sizes over scheduling steps, on a logarithmic scale (as Eleliemy 2021, Fig. 2.1).

    Each run has the chunks of one loop; ``width`` and ``height`` are in mm.
    """
    curves = [chunk_curve(run.chunks, label) for label, run in runs.items()]
    steps = max(curve.steps for curve in curves)
    top = max(int(curve.size.max()) for curve in curves)
    with paper_runs.paper_style():
        figure, (axes,) = paper_runs.paper_figure(width, height or 52.0)
        for place, curve in enumerate(curves):
            axes.plot(
                curve.step + 1,
                np.maximum(curve.size, 1),
                linestyle="none",
                marker="os^Dv<>"[place % 7],
                markersize=2.6 if steps <= 100 else 1.6,
                markeredgewidth=0,
                color=paper_runs.LINES[place % len(paper_runs.LINES)][0],
                label=curve.label,
            )
        axes.set_yscale("log")
        axes.set_ylim(0.8, top * 1.5)
        axes.set_xlim(0, steps + max(steps * 0.02, 1))
        chart_style.plain_log(axes, "y")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel("scheduling step")
        axes.set_ylabel("chunk size (iterations)")
        paper_runs.light_grid(axes)
        if len(curves) > 1:
            for line in paper_runs.put_legend(axes):
                line.set_markersize(4)
    return figure


def loop_timeline(runs: Runs, width: float, height: float | None = None) -> Figure:
    """Draw which PE of a loop executed chunks when, the darker the larger; of one run.

    A dashed line is the mean finish time of the PEs. Parameters are those of :func:`chunk_sizes`.
    """
    (records,) = runs.values()
    chunks, pes = records.chunks, int(records.chunks.pe.max()) + 1
    job = int(chunks.job[0])
    began, ended = float(records.jobs.start_time[job]), float(records.jobs.end_time[job])
    pes = max(pes, len(records.pes.pe))
    axis = chart_style.span_axis(ended - began)
    low, high = int(chunks.size.min()), int(chunks.size.max())
    palette = chart_style.scale_palette()
    scale = np.log(high / low) or 1.0
    colours = np.rint(np.log(chunks.size / low) / scale * (len(palette) - 1)).astype(np.int64)
    top = chunks.pe.astype(np.float64)
    drawn = Boxes(np.arange(len(top)), top, top + 1.0, np.ones(len(top)))
    with paper_runs.paper_style():
        figure, (axes,) = paper_runs.paper_figure(width, height or min(max(24.0 + 1.6 * pes, 35.0), 70.0))
        axes.set_ylim(pes, 0)
        axis.label(axes)
        paper_runs.draw_rectangles(
            axes, axis, (chunks.start - began, chunks.end - began), drawn, colours, palette
        )
        finish = records.pes.finish - began
        if len(finish):
            mean = float(finish.mean())
            words = f"mean finish; imbalance {_imbalance(finish)}"
            axes.axvline(
                mean / axis.seconds, color=chart_style.VERMILION, linestyle="--", linewidth=1.0, label=words
            )
            paper_runs.put_legend(axes)
        norm = LogNorm(low, high if high > low else low * 1.001)
        bar = figure.colorbar(
            ScalarMappable(norm, ListedColormap(palette)), ax=axes, pad=0.02, fraction=0.08, aspect=25
        )
        marks = sorted({low, high, *(10**k for k in range(8) if low < 10**k < high)})
        bar.set_ticks(marks, labels=[f"{mark:,}" for mark in marks])
        bar.ax.minorticks_off()
        bar.set_label("iterations per chunk")
        axes.yaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        axes.set_ylabel("PE")
    return figure


def imbalance_profile(runs: Runs, width: float, height: float | None = None) -> Figure:
    """Draw the finish times of the PEs of a loop in rising order, as shares of the mean; one line per run.

    A horizontal line at 100 % would be perfect balance; the last value is max/mean. Parameters are those of
    :func:`chunk_sizes`.
    """
    with paper_runs.paper_style():
        figure, (axes,) = paper_runs.paper_figure(width, height or 50.0)
        lowest, highest = 1.0, 1.0
        for place, (label, records) in enumerate(runs.items()):
            finish = np.sort(_finish(records))
            shares = finish / finish.mean()
            edges = np.linspace(0.0, 100.0, len(shares) + 1)
            colour, style = paper_runs.LINES[place % len(paper_runs.LINES)]
            words = f"{label} ({_imbalance(finish)})" if len(runs) > 1 else label
            axes.stairs(shares * 100.0, edges, baseline=None, color=colour, linestyle=style, label=words)
            lowest, highest = min(lowest, float(shares[0])), max(highest, float(shares[-1]))
        axes.axhline(100.0, color=chart_style.INK, linewidth=0.6, linestyle=":")
        room = max((highest - lowest) * 5.0, 0.5)
        axes.set_xlim(0, 100)
        axes.set_ylim(max(lowest * 100.0 - room, 0.0), highest * 100.0 + room)
        axes.set_xlabel("PEs, by finish time (%)")
        axes.set_ylabel("finish time (% of the mean)")
        paper_runs.light_grid(axes)
        if len(runs) > 1:
            paper_runs.put_legend(axes)
    return figure


def _imbalance(finish: Floats) -> str:
    """Write (1 - mean/max) · 100 of finish times (Eleliemy 2021, Eq. 2.16)."""
    return f"{number(float(1.0 - finish.mean() / finish.max()) * 100.0)} %"


def _finish(records: Records) -> Floats:
    job = int(records.pes.job[0])
    finish: Floats = records.pes.finish - records.jobs.start_time[job]
    return finish
