"""The data that the report page draws."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, NDArray
from mlsim.analysis.formatting import count, duration, share
from mlsim.analysis.machine_metrics import machine_cores, utilization
from mlsim.analysis.plots import utilization_plot
from mlsim.analysis.plots.chart_style import BLUE, INK, SKY, VERMILION, TimeAxis, common_axis
from mlsim.analysis.plots.gantt_plot import Boxes, boxes
from mlsim.analysis.plots.job_colours import known_colours
from mlsim.record import Chunks, Loops, OutageKind, PEs, Records, derived_times, empty
from mlsim.record.table_blocks import n_rows, rows_of

Packed = dict[str, Any]

_KINDS = {"float64": "f8", "float32": "f4", "int32": "i4", "uint8": "u1"}
_LEVEL = 6


def packed(values: NDArray[Any]) -> Packed:
    """Return a column as ``type``, ``n`` and ``data``; integers of 64 bits become the narrowest that fits."""
    narrow = np.ascontiguousarray(values)
    if narrow.dtype == np.bool_ or narrow.dtype == np.int8:
        narrow = narrow.astype(np.uint8)
    elif narrow.dtype.name not in _KINDS:
        limits = np.iinfo(np.int32)
        fits = limits.min <= narrow.min(initial=0) and narrow.max(initial=0) <= limits.max
        narrow = narrow.astype(np.int32 if fits else np.float64)
    planes = narrow.view(np.uint8).reshape(len(narrow), narrow.itemsize).T
    data = base64.b64encode(zlib.compress(planes.tobytes(), _LEVEL)).decode("ascii")
    return {"type": _KINDS[narrow.dtype.name], "n": len(narrow), "data": data}


def packed_columns(columns: Mapping[str, NDArray[Any]]) -> dict[str, Packed]:
    """Return columns by name; see :func:`packed`."""
    return {name: packed(values) for name, values in columns.items()}


@dataclass(frozen=True, slots=True)
class PageLoops:
    """Chunks and PEs of some jobs of a run, grouped by job; ``job`` are rows of the run's jobs."""

    chunks: Chunks
    pes: PEs
    recorded: bool = True  # the run recorded chunks at all

    @staticmethod
    def none(recorded: bool = True) -> PageLoops:
        """Return tables without rows."""
        return PageLoops(empty(Chunks), empty(PEs), recorded)


def wanted_jobs(loops: Loops, most_chunks: int) -> Ints:
    """Return the rows of the jobs whose chunks go into a page, those whose PEs lost the most time first."""
    lost = loops.overhead + loops.idle
    order = np.lexsort((np.arange(len(lost)), -lost))
    fits = np.cumsum(loops.steps[order]) <= most_chunks
    return np.sort(loops.job[order[fits]])


def loop_data(records: Records, some: PageLoops) -> dict[str, Any]:
    """Return ``loops``, ``chunks`` and ``pes`` as the page reads them; times from the job's start."""
    loops, jobs = records.loops, records.jobs
    chunks = rows_of(some.chunks, np.lexsort((some.chunks.start, some.chunks.job)))
    pes = rows_of(some.pes, np.lexsort((some.pes.pe, some.pes.job)))
    first, count = _ranges(loops.job, chunks.job)
    first_pe, _ = _ranges(loops.job, pes.job)
    spread, mean, last = loops.std_finish, loops.mean_finish, loops.max_finish
    as_they_are = ("job", "pes", "iterations", "steps", "t_loop", "busy", "overhead", "idle")
    of_loops = {name: getattr(loops, name) for name in as_they_are}
    of_loops |= {"imbalance": _ratio(last - mean, last) * 100.0, "cov": _ratio(spread, mean)}
    of_chunks = {name: getattr(chunks, name) for name in ("pe", "step", "first", "size")}
    began = jobs.start_time[chunks.job]
    return {
        "loops": packed_columns({**of_loops, "first": first, "count": count, "first_pe": first_pe}),
        "chunks": packed_columns({**of_chunks, "start": chunks.start - began, "end": chunks.end - began}),
        "pes": packed_columns({"finish": pes.finish - jobs.start_time[pes.job]}),
        "unread": _LEFT_OUT if some.recorded else _NOT_RECORDED,
    }


_NOT_RECORDED = "Its chunks were not recorded: run the scenario with --set output.trace=chunks."
_LEFT_OUT = (
    "Its chunks are left out to keep the page small; mlsim report --chunks N has room for more, and "
    "mlsim plot loop-timeline RUN --job ID draws them."
)


def _ratio(part: Floats, whole: Floats) -> Floats:
    found: Floats = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return found


def _ranges(wanted: Ints, job: Ints) -> tuple[Ints, Ints]:
    """Return where the rows of each wanted job begin, -1 for none, and how many there are."""
    order = np.argsort(job, kind="stable")  # grouped by job: whole groups move
    at = np.searchsorted(job[order], wanted, "left")
    count = np.searchsorted(job[order], wanted, "right") - at
    first = np.full(len(wanted), -1, np.int64)
    first[count > 0] = order[at[count > 0]]
    return first, count


MOST_BOXES = 1_000_000  # limit of rectangles, beyond which browsers are slow to open the page
_BY_CORE_ROWS = 250_000  # limit of stays, up to which rectangles show the cores that a job held
_MOST_STEPS = 200_000  # step functions with more changes are averaged over ``_BINS`` equal parts of the time
_BINS = 16_384
_MOST_NAMES = 20_000


class _Drawn(NamedTuple):
    """The rectangles in the page."""

    boxes: Boxes
    left: int  # how many are not in it
    area: float  # their share of the node-seconds


def run_data(records: Records, loops: PageLoops, most_boxes: int = MOST_BOXES) -> dict[str, Any]:
    """Return the data of a run for the page's script; of more boxes than that the largest are kept."""
    axis, nodes = common_axis(records), records.nodes
    drawn = _boxes(records, most_boxes)
    return {
        "begin": axis.begin,
        "end": axis.end,
        "nodes": {"count": len(nodes.name), "names": nodes.name if len(nodes.name) <= _MOST_NAMES else None},
        "jobs": _jobs(records),
        "calendar": _calendar(axis),
        "colours": {
            by: {"row": packed(colours.row.astype(np.uint8)), "entries": colours.entries}
            for by, colours in known_colours(records).items()
        },
        "boxes": _box_columns(records, drawn.boxes),
        "outages": _outages(records, axis),
        "tracks": [_shares(records, axis), _queue(records, axis)],
        "alternative": _words(records, axis, drawn),
        **loop_data(records, loops),
    }


def _calendar(axis: TimeAxis) -> dict[str, Any] | None:
    """Return what dates the page writes on its axis, if the log has any."""
    dates = axis.calendar
    if dates is None or not dates.reaches(axis.end):
        return None
    return {"zero": dates.zero, "title": dates.title, "shifts": dates.shifts(axis.begin, axis.end)}


def _boxes(records: Records, most: int) -> _Drawn:
    found = boxes(records, by_core=n_rows(records.occupancy) <= _BY_CORE_ROWS)
    n = len(found.row)
    if n <= most:
        return _Drawn(found, 0, 0.0)
    held = records.occupancy
    area = (held.end - held.start)[found.row] * (found.bottom - found.top) * found.weight
    kept = np.sort(np.argpartition(-area, most)[:most])
    return _Drawn(rows_of(found, kept), n - most, 1.0 - float(area[kept].sum()) / float(area.sum()))


def _box_columns(records: Records, drawn: Boxes) -> dict[str, Packed]:
    held = records.occupancy
    columns: dict[str, Any] = {
        "job": held.job[drawn.row],
        "start": held.start[drawn.row],
        "end": held.end[drawn.row],
        "top": drawn.top.astype(np.float32),
        "bottom": drawn.bottom.astype(np.float32),
        "released": held.released[drawn.row],
    }
    if np.any(drawn.weight < 1.0):
        columns["weight"] = drawn.weight.astype(np.float32)
    return packed_columns(columns)


def _jobs(records: Records) -> dict[str, Packed]:
    jobs = records.jobs
    return packed_columns(
        {
            "id": jobs.job_id,
            "submit": jobs.submit_time,
            "start": jobs.start_time,
            "end": jobs.end_time,
            "walltime": jobs.walltime,
            "wait": derived_times.wait_time(jobs),
            "slowdown": derived_times.bounded_slowdown(jobs),
            "processors": jobs.processors,
            "state": jobs.state,
            "backfilled": jobs.backfilled,
            "user": jobs.user,
        }
    )


def _outages(records: Records, axis: TimeAxis) -> dict[str, Packed] | None:
    outages, parts = records.outages, []
    for place, kind in enumerate(OutageKind):
        some = rows_of(outages, outages.kind == kind)
        found = utilization_plot.out_of_use_boxes(some, axis.begin, axis.end)
        parts.append((found, np.full(len(found), place, np.uint8)))
    if not any(len(found) for found, _ in parts):
        return None
    start, end, first, last = np.concatenate([found for found, _ in parts]).T
    columns = {"start": start, "end": end, "first": first.astype(np.int64), "last": last.astype(np.int64)}
    return packed_columns({**columns, "kind": np.concatenate([kinds for _, kinds in parts])})


def _steps(times: Floats, values: Floats) -> dict[str, Packed]:
    return packed_columns({"time": times, "value": values.astype(np.float32)})


def _exact_or_averaged(
    spans: tuple[Floats, Floats, Any],
    scale: float,
    records: Records,
    axis: TimeAxis,
    averages: Callable[[Records, TimeAxis, int], Floats],
) -> dict[str, Packed]:
    """Return a step function over [begin, end] of the axis: as it is, or where it is long its averages."""
    if len(spans[0]) * 2 > _MOST_STEPS:
        return _steps(np.linspace(axis.begin, axis.end, _BINS + 1)[:-1], averages(records, axis, _BINS))
    times, values = derived_times.step_function(*spans)
    return _steps(times, values / scale)


def _shares(records: Records, axis: TimeAxis) -> dict[str, Any]:
    """Return the track of allocated, busy and available cores, as shares of the machine."""
    held, cores = records.occupancy, max(machine_cores(records.nodes), 1)
    means = utilization(records)
    spans = held.start, held.end, held.count * held.cores
    allocated = _exact_or_averaged(spans, cores, records, axis, utilization_plot.allocated_share)
    label = f"allocated ({share(means['allocated'])})"
    series: list[dict[str, Any]] = [{"label": label, "colour": SKY, "steps": allocated}]
    few = _BINS // 4
    edges = np.linspace(axis.begin, axis.end, few + 1)[:-1]
    if means["busy"] is not None and abs(means["busy"] - (means["allocated"] or 0.0)) > 5e-4:
        busy = _steps(edges, utilization_plot.busy_share(records, axis, few))
        series.append({"label": f"busy ({share(means['busy'])})", "colour": BLUE, "steps": busy})
    if len(records.outages.node):
        series.append(_capacity(records, axis, cores))
    colours = utilization_plot.LINES_OF_SHARED
    for k, name in enumerate(records.shared.name):
        steps = _steps(edges, utilization_plot.shared_share(records, name, axis, few))
        series.append({"label": name, "colour": colours[k % len(colours)], "line": True, "steps": steps})
    return {"title": "share of cores", "share": True, "most": 1.0, "series": series}


def _capacity(records: Records, axis: TimeAxis, cores: int) -> dict[str, Any]:
    node, start, stop = derived_times.out_of_use_spans(records.outages, axis.begin, axis.end)
    times, missing = derived_times.step_function(start, stop, records.nodes.cores[node])
    if not len(times) or times[0] > axis.begin:
        times, missing = np.append(axis.begin, times), np.append(0.0, missing)
    look = {"label": "capacity (hatched: out of use)", "colour": INK, "line": True, "hatched": True}
    return {**look, "steps": _steps(times, 1.0 - missing / cores)}


def _queue(records: Records, axis: TimeAxis) -> dict[str, Any]:
    begin, end = derived_times.waiting_spans(records.jobs, records.attempts)
    spans = begin, end, np.ones(len(begin))
    steps = _exact_or_averaged(spans, 1.0, records, axis, utilization_plot.waiting_jobs)
    waiting = {"label": "waiting", "colour": VERMILION, "steps": steps}
    return {"title": "queue length (jobs)", "share": False, "series": [waiting]}


def _words(records: Records, axis: TimeAxis, drawn: _Drawn) -> str:
    """Return what the picture shows, for those who do not see it."""
    used, nodes = utilization(records), records.nodes
    started: Ints = np.flatnonzero(~np.isnan(records.jobs.start_time))
    words = (
        f"{count(len(started), 'job')} on {count(len(nodes.name), 'node')} over "
        f"{duration(axis.end - axis.begin)}, "
        f"drawn as {count(len(drawn.boxes.row), 'rectangle')}; {share(used['allocated'])} of the "
        f"core-seconds between the first start and the last end were allocated, {share(used['busy'])} busy."
    )
    released = int(records.occupancy.count[records.occupancy.released].sum())
    if released:
        words += f" Triangles mark {count(released, 'node')} that jobs gave back before their end."
    if len(records.outages.node):
        words += f" Hatched: {count(len(records.outages.node), 'outage')} of nodes."
    if drawn.left:
        words += (
            f" Left out are the {count(drawn.left, 'rectangle')} that are smallest, with "
            f"{share(drawn.area)} of the allocated node-seconds."
        )
    return words
