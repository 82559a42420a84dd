"""The nodes over time, coloured by job."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints, NDArray
from mlsim.analysis.plots import chart_style, legends, utilization_plot
from mlsim.record import Nodes, Occupancy, Records, column_types, node_sets
from mlsim.record.table_blocks import blocks_of, n_rows


@dataclass(frozen=True, slots=True)
class Boxes:
    """One row per rectangle, which is some cores of nodes that a job held for a time."""

    row: Ints  # of occupancy
    top: Floats  # on the axis of nodes
    bottom: Floats
    weight: Floats  # share of the cores; below 1 where it is not known which of its nodes' cores they are


def boxes(records: Records, by_core: bool) -> Boxes:
    """Lay out the occupancy rows; ``by_core``: jobs on shared nodes show each core (lowest free first)."""
    held, before = records.occupancy, _first_cores(records.nodes)
    share: Floats = held.count * held.cores / (before[held.node + held.count] - before[held.node])
    if by_core and np.any(share < 1.0):
        return _core_boxes(records)
    top = held.node.astype(np.float64)
    return Boxes(np.arange(len(top)), top, top + held.count, share)


def _core_boxes(records: Records) -> Boxes:
    """Return one rectangle for each run of neighbouring cores; neighbouring whole nodes share one."""
    held = node_sets.number_cores(records.nodes, records.jobs, records.occupancy)
    # Numbers of 32 bits, as the columns are: there is one for each core of each stay.
    place = _first_cores(records.nodes).astype(np.int32)[held.node] + held.core
    new = np.diff(place) != 1
    new |= np.diff(held.row) != 0
    del place
    first = np.flatnonzero(np.append(True, new))
    last = np.flatnonzero(np.append(new, True))
    cores = records.nodes.cores
    return Boxes(
        held.row[first].astype(np.int64),
        held.node[first] + held.core[first] / cores[held.node[first]],
        held.node[last] + (held.core[last] + 1) / cores[held.node[last]],
        np.ones(len(first)),
    )


def _first_cores(nodes: Nodes) -> Ints:
    """Return the number of cores on all nodes before each node, and of all."""
    return np.concatenate([[0], np.cumsum(nodes.cores)])


FAINTEST = 0.25
"""A pixel that any rectangle touches has at least this share of its colour, so that nothing vanishes."""

GAP = 0.5  # pixels that are kept clear at the right and below
SEPARATED = 4.0  # smallest width and height, in pixels, of rectangles that are separated by it


class Raster:
    """Rectangles painted on white, for ``shape`` (height, width) in pixels.

    A pixel has the colour of the rectangle that covers most of it, fainter the less of it all of them
    cover. Rectangles of at least 4 by 4 pixels leave half a pixel clear at the right and below, so that
    neighbours of one colour are distinguishable.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._covered = np.zeros(shape, np.float32)
        self._most = np.zeros(shape, np.float32)
        self._winner = np.zeros(shape, np.uint8)

    def paint(
        self, left: Floats, right: Floats, top: Floats, bottom: Floats, weight: Floats, colour: Ints
    ) -> None:
        """Add rectangles, in pixels from the upper left corner, of a ``colour`` (row of the palette)."""
        _paint(left, right, top, bottom, weight, colour, self._covered, self._most, self._winner)

    def image(self, palette: Floats) -> NDArray[np.uint8]:
        """Return RGB bytes, (height, width, 3), from colours in [0, 1], (colours, 3)."""
        image = np.empty((*self._covered.shape, 3), np.uint8)
        _blend(self._covered, self._winner, palette, image)
        return image


@kernel
def _overlap(pixel: int, low: float, high: float) -> float:
    """Return the length of [low, high] that lies in [pixel, pixel + 1]."""
    return min(pixel + 1.0, high) - max(float(pixel), low)


@kernel
def _paint(
    left: Floats,
    right: Floats,
    top: Floats,
    bottom: Floats,
    weight: Floats,
    colour: NDArray[np.int64],
    covered: NDArray[np.float32],
    most: NDArray[np.float32],
    winner: NDArray[np.uint8],
) -> None:
    """Add every rectangle's share of every pixel, and keep which one has the largest."""
    height, width = covered.shape
    for row in range(len(left)):
        x0, x1 = max(left[row], 0.0), min(right[row], float(width))
        y0, y1 = max(top[row], 0.0), min(bottom[row], float(height))
        if x1 - x0 >= SEPARATED and y1 - y0 >= SEPARATED:
            x1 -= GAP
            y1 -= GAP
        for y in range(int(y0), min(int(np.ceil(y1)), height)):
            part = weight[row] * _overlap(y, y0, y1)
            for x in range(int(x0), min(int(np.ceil(x1)), width)):
                share = part * _overlap(x, x0, x1)
                covered[y, x] += share
                if share > most[y, x]:
                    most[y, x] = share
                    winner[y, x] = colour[row]


@kernel
def _blend(
    covered: NDArray[np.float32], winner: NDArray[np.uint8], palette: Floats, image: NDArray[np.uint8]
) -> None:
    """Mix each pixel's colour with white by how much of it is covered."""
    height, width = covered.shape
    for y in range(height):
        for x in range(width):
            strength = 0.0
            if covered[y, x] > 0:
                strength = min(max(float(covered[y, x]), FAINTEST), 1.0)
            for channel in range(3):
                part = 1.0 - strength * (1.0 - palette[winner[y, x], channel])
                image[y, x, channel] = np.uint8(part * 255.0 + 0.5)


_RIGHT, _TOP, _BOTTOM = 30, 60, 80
_MAX_HEIGHT, _MAX_BAND = 900, 48
_NAMED = 40  # limit of nodes that are named; more are numbered
_CORE_BAND = 4  # smallest height of bands, in pixels, that show the cores of a job
_BY_CORE_ROWS = 1_000_000  # limit of stays up to which cores are numbered
_AT_ONCE = 1 << 16  # rectangles painted at a time: bounds the memory
_LABELLED = 400  # limit of jobs that are labelled
_DIGIT, _LINE = 10, 18  # size of a digit, and of a line of text, in a label, in pixels
_CROWD, _CROWD_SIZE = 1500, 1.2  # number of marks beyond which they are drawn this small (points)
_MARK = 6  # side of a square of pixels in which one release is marked


def gantt(records: Records, title: str, span: tuple[float, float] | None = None) -> Figure:
    """Draw the nodes that each job held over time.

    A node is a band, in allocation order from the top; if jobs share nodes it is divided among its cores. The
    colour of a job depends only on its identifier. White is idle. If several jobs or nodes share a pixel, it
    has the colour of the job with the largest part in it, and is fainter the less of it was in use. A
    triangle marks a node released before its job's end. Outages are hatched. ``span`` is the time range in s;
    None: all of it.
    """
    axis = chart_style.common_axis(records)
    if span is not None:  # in s, as in other pictures of parts
        axis = chart_style.TimeAxis(*span, "s", 1.0)
    nodes = records.nodes
    height, left = _height(len(nodes.name)), _left_margin(nodes)
    shape = (height, chart_style.WIDTH - left - _RIGHT)
    by_core = height >= _CORE_BAND * len(nodes.name) and n_rows(records.occupancy) <= _BY_CORE_ROWS
    with chart_style.picture_style():
        figure = chart_style.canvas(_TOP + height + _BOTTOM)
        axes = chart_style.axes_at(figure, left, _TOP, shape[1], height)
        _draw_boxes(axes, axis, records, by_core, shape)
        if len(records.jobs.job_id) <= _LABELLED:
            _draw_labels(axes, axis, records, boxes(records, by_core), shape)
        handles: list[Any] = [*utilization_plot.draw_outages(axes, axis, records.outages)]
        scale = _draw_releases(axes, axis, records, shape, handles)
        _label_nodes(axes, nodes)
        axis.label(axes)
        legends.title_with_legend(axes, title, handles, markerscale=scale)
    return figure


def job_colours(job_id: Ints) -> Ints:
    """Return the row of the palette for each job; neighbours by identifier differ."""
    return job_id * 8 % len(chart_style.job_palette())


def _height(nodes: int) -> int:
    """Return the height in pixels: whole pixels a node, as long as there are that many."""
    band = min(max(_MAX_HEIGHT // max(nodes, 1), 1), _MAX_BAND)
    return min(max(band * nodes, _MAX_BAND), _MAX_HEIGHT)


def _left_margin(nodes: Nodes) -> int:
    named = max(map(len, nodes.name), default=0) if len(nodes.name) <= _NAMED else 0
    return 70 + max(12 * min(named, 24), 50)


def _pixels(axis: chart_style.TimeAxis, times: Floats, width: int) -> Floats:
    return (times - axis.begin) / (axis.end - axis.begin) * width


def _draw_boxes(
    axes: Axes, axis: chart_style.TimeAxis, records: Records, by_core: bool, shape: tuple[int, int]
) -> None:
    """Paint the rectangles as one image that fills the axes pixel by pixel."""
    raster, scale = Raster(shape), shape[0] / max(len(records.nodes.name), 1)
    for held, what in _layouts(records, by_core):
        for at in range(0, len(what.row), _AT_ONCE):
            part = slice(at, at + _AT_ONCE)
            row = what.row[part]
            raster.paint(
                _pixels(axis, held.start[row], shape[1]),
                _pixels(axis, held.end[row], shape[1]),
                what.top[part] * scale,
                what.bottom[part] * scale,
                what.weight[part],
                job_colours(records.jobs.job_id[held.job[row]]),
            )
    chart_style.add_pixels(axes, raster.image(chart_style.job_palette()))


def _layouts(records: Records, by_core: bool) -> Iterator[tuple[Occupancy, Boxes]]:
    """Yield stays and their rectangles, some at a time where there are very many."""
    if by_core:
        yield records.occupancy, boxes(records, by_core)
        return
    for held in blocks_of(records.occupancy):
        yield held, boxes(replace(records, occupancy=held), by_core)
        column_types.let_go(records.jobs.job_id)


def _draw_labels(
    axes: Axes, axis: chart_style.TimeAxis, records: Records, what: Boxes, shape: tuple[int, int]
) -> None:
    """Write job identifiers into the largest rectangle of each job, where they fit."""
    held, jobs = records.occupancy, records.jobs
    job = held.job[what.row]
    begin, end = np.maximum(held.start, axis.begin), np.minimum(held.end, axis.end)
    width = _pixels(axis, end - begin + axis.begin, shape[1])[what.row]
    height = (what.bottom - what.top) * shape[0] / max(len(records.nodes.name), 1)
    largest = np.lexsort((np.arange(len(job)), -width * height, job))
    largest = largest[np.append(True, np.diff(job[largest]) != 0)[: len(job)]]
    digits = np.char.str_len(jobs.job_id[job[largest]].astype(str))
    fits = largest[(width[largest] > _DIGIT * (digits + 1)) & (height[largest] > _LINE)]
    palette, colours = chart_style.job_palette(), job_colours(jobs.job_id)
    for box in fits:
        row = what.row[box]
        ink = chart_style.ink_on(palette[colours[held.job[row]]])
        when = (begin[row] + end[row]) / 2 / axis.seconds
        where = (what.top[box] + what.bottom[box]) / 2
        axes.text(when, where, str(jobs.job_id[job[box]]), color=ink, size=7, ha="center", va="center")


def _draw_releases(
    axes: Axes, axis: chart_style.TimeAxis, records: Records, shape: tuple[int, int], handles: list[Any]
) -> float:
    """Mark early releases, at most one per small square; return the factor of marks in the legend."""
    held = records.occupancy
    shown = np.flatnonzero(held.released & (held.end >= axis.begin) & (held.end <= axis.end))
    rows = np.repeat(shown, held.count[shown])
    if not len(rows):
        return 1.0
    inside = np.arange(len(rows)) - np.searchsorted(rows, rows)
    time, node = held.end[rows], held.node[rows] + inside + 0.5
    band = shape[0] / len(records.nodes.name)
    squares = np.stack([_pixels(axis, time, shape[1]) // _MARK, node * band // _MARK])
    _, kept = np.unique(squares, axis=1, return_index=True)
    size = _CROWD_SIZE if len(kept) > _CROWD else float(np.clip(band * 0.3, 2.5, 6.0))
    look: dict[str, Any] = {"linestyle": "none", "marker": "<", "markersize": size, "clip_on": False}
    look |= {"markerfacecolor": chart_style.INK, "markeredgecolor": "white"}
    look |= {"markeredgewidth": 0.4 if size > _CROWD_SIZE else 0.0}
    handles += axes.plot(time[kept] / axis.seconds, node[kept], label="node released early", **look)
    return 6.0 / size


def _label_nodes(axes: Axes, nodes: Nodes) -> None:
    """Name the nodes, or number them where there are too many."""
    if len(nodes.name) <= _NAMED:
        axes.set_yticks(np.arange(len(nodes.name)) + 0.5, nodes.name)
        axes.tick_params(axis="y", length=0)
        axes.set_ylabel("node")
    else:
        legends.number_bands(axes, len(nodes.name), 9)
        axes.set_ylabel("node number")
    axes.set_ylim(max(len(nodes.name), 1), 0)
