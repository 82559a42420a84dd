"""Utilization of the machine and queue length over time."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, StepPatch
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import ArrayLike

from mlsim._runtime.arrays import Floats
from mlsim.analysis.formatting import number, share
from mlsim.analysis.job_metrics import queue_length
from mlsim.analysis.machine_metrics import busy_seconds, machine_cores, shared_spans, utilization
from mlsim.analysis.plots import chart_style, legends
from mlsim.record import OutageKind, Outages, Records
from mlsim.record.derived_times import allocated_seconds, out_of_use_spans, waiting_spans
from mlsim.record.table_blocks import BLOCK_ROWS, chunk_blocks, is_long, record_blocks, rows_of


def draw_area(axes: Axes, values: Floats, edges: Floats, baseline: ArrayLike = 0.0, **style: Any) -> None:
    """Fill between a baseline and a step function, which has ``values[k]`` from ``edges[k]`` on.

    Matplotlib's ``stairs`` searches for limits as if steps were curves, which takes longer than the rest.
    """
    below: Any = np.broadcast_to(np.asarray(baseline, np.float64), values.shape)
    axes.add_artist(StepPatch(values, edges, baseline=below, fill=True, **style))


def draw_line(axes: Axes, values: Floats, edges: Floats, **style: Any) -> None:
    """Draw a step function as a line; parameters are those of :func:`draw_area`."""
    unbounded: Any = None  # matplotlib's types know numbers alone
    axes.add_artist(StepPatch(values, edges, baseline=unbounded, fill=False, **style))


_SLICE = 1 << 16  # intervals handled at a time: bounds the memory


def binned_average(
    begin: Floats, end: Floats, weight: ArrayLike, span: tuple[float, float], bins: int
) -> Floats:
    """Sum the weights of open intervals, averaged over each of some equal bins of ``span``; exact."""
    weights = np.broadcast_to(np.asarray(weight, np.float64), begin.shape)
    width = (span[1] - span[0]) / bins
    inside, later = np.zeros(bins + 1), np.zeros(bins + 1)
    for at in range(0, len(begin), _SLICE):
        part = slice(at, at + _SLICE)
        known = ~np.isnan(begin[part] + end[part])
        for sign, times in ((1.0, begin[part][known]), (-1.0, end[part][known])):
            _add_steps(inside, later, (times - span[0]) / width, sign * weights[part][known])
    averages: Floats = inside[:bins] + np.concatenate([[0.0], np.cumsum(later)[: bins - 1]])
    return averages


def _add_steps(inside: Floats, later: Floats, position: Floats, height: Floats) -> None:
    """Add steps at positions in bins: their share of their own bin, and their height to later bins."""
    position = np.clip(position, 0, len(inside) - 1)
    own = position.astype(np.int64)
    inside += np.bincount(own, weights=height * (own + 1 - position), minlength=len(inside))
    later += np.bincount(own, weights=height, minlength=len(later))


_LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 110, 30, 60, 52, 80
_UPPER, _LOWER = 420, 230
_COLUMNS = chart_style.WIDTH - _LEFT - _RIGHT
LINES_OF_SHARED = (chart_style.VERMILION, chart_style.GREEN, chart_style.PURPLE, chart_style.YELLOW)


def utilization_over_time(records: Records, title: str) -> Figure:
    """Draw the allocated and the busy share of the machine's cores, and the queue length below.

    Every column of pixels shows the average over its time. If nodes were out of use, a line shows the share
    of the cores in use; jobs that held drained nodes may exceed it. Each machine-wide resource has a line.
    """
    axis = chart_style.common_axis(records)
    with chart_style.picture_style():
        figure = chart_style.canvas(_TOP + _UPPER + _GAP + _LOWER + _BOTTOM)
        upper = chart_style.axes_at(figure, _LEFT, _TOP, _COLUMNS, _UPPER)
        lower = chart_style.axes_at(figure, _LEFT, _TOP + _UPPER + _GAP, _COLUMNS, _LOWER)
        _draw_shares(upper, axis, records)
        _draw_queue(lower, axis, records)
        upper.set_xlabel("")
        upper.tick_params(labelbottom=False)
        upper.xaxis.offsetText.set_visible(False)
        legends.title_with_legend(upper, title, upper.get_legend_handles_labels()[0])
        figure.align_ylabels([upper, lower])
    return figure


def allocated_share(records: Records, axis: chart_style.TimeAxis, bins: int) -> Floats:
    """Return the share of the machine's cores that jobs held, averaged over each bin of the time axis."""

    def held_cores(part: Records) -> Floats:
        held = part.occupancy
        return _binned(held.start, held.end, held.count * held.cores, axis, bins)

    return _share_of_machine(records, held_cores)


def busy_share(records: Records, axis: chart_style.TimeAxis, bins: int) -> Floats:
    """Return the share of the machine's cores that computed, averaged over each bin of the time axis.

    PEs are busy in recorded chunks; the busy seconds of other jobs are spread over their core-seconds.
    """

    def busy_cores(part: Records) -> Floats:
        held, n_jobs = part.occupancy, len(part.jobs.job_id)
        allocated = allocated_seconds(held, n_jobs)
        intensity = np.divide(busy_seconds(part), allocated, out=np.zeros(n_jobs), where=allocated > 0)
        computing = np.zeros(bins)
        for chunks in chunk_blocks(part.chunks):
            intensity[chunks.job] = 0.0
            computing += _binned(chunks.start, chunks.end, 1.0, axis, bins)
        weight = held.count * held.cores * intensity[held.job]
        return _binned(held.start, held.end, weight, axis, bins) + computing

    return _share_of_machine(records, busy_cores)


def capacity_share(records: Records, axis: chart_style.TimeAxis, bins: int) -> Floats:
    """Return the share of the machine's cores on nodes in use, averaged over each bin of the time axis."""
    node, start, stop = out_of_use_spans(records.outages, axis.begin, axis.end)
    missing = _binned(start, stop, records.nodes.cores[node], axis, bins)
    return np.clip(1.0 - missing / max(machine_cores(records.nodes), 1), 0.0, 1.0)


def shared_share(records: Records, name: str, axis: chart_style.TimeAxis, bins: int) -> Floats:
    """Return the share that jobs held of what the machine has as a whole, averaged over each bin."""
    capacity = int(records.shared.capacity[records.shared.name.index(name)])
    return np.clip(_binned(*shared_spans(records, name), axis, bins) / max(capacity, 1), 0.0, 1.0)


def waiting_jobs(records: Records, axis: chart_style.TimeAxis, bins: int) -> Floats:
    """Return the number of waiting jobs, averaged over each bin of the time axis."""

    def waiting(part: Records) -> Floats:
        return _binned(*waiting_spans(part.jobs, part.attempts), 1.0, axis, bins)

    return _summed(records, waiting)


def _binned(begin: Floats, end: Floats, weight: ArrayLike, axis: chart_style.TimeAxis, bins: int) -> Floats:
    return binned_average(begin, end, weight, (axis.begin, axis.end), bins)


def _summed(records: Records, of_part: Callable[[Records], Floats]) -> Floats:
    """Add up what some jobs after the other contribute, where there are very many."""
    if not is_long(records.jobs) or len(records.loops.job):
        return of_part(records)
    parts: Floats = np.sum([of_part(part) for part in record_blocks(records, BLOCK_ROWS)], axis=0)
    return parts


def _share_of_machine(records: Records, used_cores: Callable[[Records], Floats]) -> Floats:
    """Return cores as a share of all, with rounding errors clipped to [0, 1]."""
    return np.clip(_summed(records, used_cores) / max(machine_cores(records.nodes), 1), 0.0, 1.0)


def _draw_shares(axes: Axes, axis: chart_style.TimeAxis, records: Records) -> None:
    means = utilization(records)
    edges = np.linspace(axis.begin, axis.end, _COLUMNS + 1) / axis.seconds
    allocated, busy = (allocated_share, chart_style.SKY, 0.45), (busy_share, chart_style.BLUE, 0.9)
    for name, (shares, colour, alpha) in (("allocated", allocated), ("busy", busy)):
        label, values = f"{name} (mean {share(means[name])})", shares(records, axis, _COLUMNS)
        draw_area(axes, values, edges, facecolor=colour, alpha=alpha, linewidth=0, label=label)
    if len(records.outages.node):
        _draw_capacity(axes, edges, capacity_share(records, axis, _COLUMNS))
    for k, name in enumerate(records.shared.name):
        held = shared_share(records, name, axis, _COLUMNS)
        label = f"{name} (mean {share(float(held.mean()))})"
        look: dict[str, Any] = {"linestyle": ("-", "--", ":", "-.")[k // len(LINES_OF_SHARED) % 4]}
        look |= {"edgecolor": LINES_OF_SHARED[k % len(LINES_OF_SHARED)], "linewidth": 1.4, "label": label}
        draw_line(axes, held, edges, **look)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylabel("share" if records.shared.name else "share of cores")
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axis.label(axes)


def _draw_capacity(axes: Axes, edges: Floats, capacity: Floats) -> None:
    """Draw the cores that were in use as a line, and hatch those that were not."""
    label = f"capacity (mean {share(float(capacity.mean()))})"
    look: dict[str, Any] = {"facecolor": "none", "edgecolor": chart_style.INK, "hatch": "////"}
    draw_area(
        axes, np.ones_like(capacity), edges, capacity, linewidth=0.0, alpha=0.5, label="out of use", **look
    )
    draw_line(axes, capacity, edges, edgecolor=chart_style.INK, linewidth=1.2, label=label)


def _draw_queue(axes: Axes, axis: chart_style.TimeAxis, records: Records) -> None:
    edges = np.linspace(axis.begin, axis.end, _COLUMNS + 1) / axis.seconds
    waiting = np.maximum(waiting_jobs(records, axis, _COLUMNS), 0.0)
    mean = number(queue_length(records.jobs, records.attempts)["mean"])
    label = f"waiting jobs (mean {mean})"
    draw_area(axes, waiting, edges, facecolor=chart_style.VERMILION, alpha=0.85, linewidth=0, label=label)
    axes.set_ylim(0, max(float(waiting.max()) * 1.05, 1.0))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.set_ylabel("queue length (jobs)")
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axis.label(axes)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.02))


_LOOKS = {
    OutageKind.FAILED: ("failed", "xxxx", chart_style.VERMILION),
    OutageKind.DRAINED: ("drained", "////", chart_style.INK),
    OutageKind.ANNOUNCED_DRAIN: ("drained, announced", "\\\\\\\\", chart_style.INK),
}
_HATCHED = 3000  # limit of hatched rectangles per kind; more are tinted, which takes a tenth of the time


def draw_outages(axes: Axes, axis: chart_style.TimeAxis, outages: Outages) -> list[Patch]:
    """Draw outages by time and node, one hatch per kind; return their legend entries."""
    handles = []
    for kind, (label, hatch, colour) in _LOOKS.items():
        boxes = out_of_use_boxes(rows_of(outages, outages.kind == kind), axis.begin, axis.end)
        if not len(boxes):
            continue
        look: dict[str, Any] = {"facecolor": colour, "alpha": 0.35}
        if len(boxes) <= _HATCHED:
            look = {"facecolor": "none", "hatch": hatch}
        look |= {"edgecolor": colour, "linewidth": 0.0}
        begin, end, first, last = boxes.T
        corners = [[begin, first], [end, first], [end, last], [begin, last]]
        scaled = np.array([[times / axis.seconds, nodes] for times, nodes in corners])
        axes.add_collection(PolyCollection(list(scaled.transpose(2, 0, 1)), **look), autolim=False)
        handles.append(Patch(label=label, **look))
    return handles


def out_of_use_boxes(outages: Outages, begin: float, end: float) -> Floats:
    """Return outages as rectangles: begin, end, first, last node + 1; equal neighbours are one."""
    node, start, stop = out_of_use_spans(outages, begin, end)
    order = np.lexsort((node, stop, start))
    node, start, stop = node[order], start[order], stop[order]
    new = (np.diff(node) != 1) | (np.diff(start) != 0) | (np.diff(stop) != 0)
    first = np.flatnonzero(np.append(True, new)[: len(node)])
    last = np.append(first[1:], len(node))[: len(first)] - 1
    return np.column_stack([start[first], stop[first], node[first], node[last] + 1.0])
