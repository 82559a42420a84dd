"""What the page draws of one run: rectangles of nodes over time, step functions, columns of jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.analysis.formatting import count, duration, share
from mlsim.analysis.metrics import machine_cores, utilization
from mlsim.analysis.page.loops import PageLoops, loop_data
from mlsim.analysis.page.packing import Packed, packed_columns
from mlsim.analysis.plots.boxes import Boxes, boxes
from mlsim.analysis.plots.outages import out_of_use_boxes
from mlsim.analysis.plots.style import BLUE, GREEN, INK, SKY, VERMILION, TimeAxis, time_axis
from mlsim.analysis.plots.utilization import allocated_share, busy_share, shared_share, waiting_jobs
from mlsim.record import OutageKind, Outages, Records
from mlsim.record.blocks import n_rows
from mlsim.record.derived import bounded_slowdown, wait_time, waiting_spans
from mlsim.record.outages import out_of_use_spans
from mlsim.record.timeline import step_function

__all__ = ["MOST_BOXES", "run_data"]

MOST_BOXES = 1_000_000
"""More rectangles than these would make the page larger than what browsers open gladly."""
_BY_CORE_ROWS = 250_000
"""Up to so many stays cores are numbered: rectangles show which of them a job held."""
_MOST_STEPS = 200_000
"""Step functions of more changes are averaged over ``_BINS`` equal parts of the time."""
_BINS = 16_384
_MOST_NAMES = 20_000


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The rectangles in the page; ``left``: how many are not, ``area``: their share of the node-seconds."""

    boxes: Boxes
    left: int
    area: float


def run_data(records: Records, loops: PageLoops, most_boxes: int = MOST_BOXES) -> dict[str, Any]:
    """Return what the page's script reads of a run, as plain values.

    Parameters
    ----------
    records
        Of the run.
    loops
        Chunks and PEs of the jobs whose loops can be looked at.
    most_boxes
        Of more rectangles the largest are kept, and the page says how many are left out.
    """
    axis, nodes = time_axis(records.jobs), records.nodes
    drawn = _boxes(records, most_boxes)
    return {
        "begin": axis.begin,
        "end": axis.end,
        "nodes": {
            "count": len(nodes.name),
            "names": nodes.name if len(nodes.name) <= _MOST_NAMES else None,
        },
        "jobs": _jobs(records),
        "boxes": _box_columns(records, drawn.boxes),
        "outages": _outages(records, axis),
        "tracks": [_shares(records, axis), _queue(records, axis)],
        "alternative": _words(records, axis, drawn),
        **loop_data(records, loops),
    }


def _boxes(records: Records, most: int) -> _Drawn:
    found = boxes(records, by_core=n_rows(records.occupancy) <= _BY_CORE_ROWS)
    n = len(found.row)
    if n <= most:
        return _Drawn(found, 0, 0.0)
    held = records.occupancy
    area = (held.end - held.start)[found.row] * (found.bottom - found.top) * found.weight
    kept = np.sort(np.argpartition(-area, most)[:most])
    part = Boxes(found.row[kept], found.top[kept], found.bottom[kept], found.weight[kept])
    return _Drawn(part, n - most, 1.0 - float(area[kept].sum()) / float(area.sum()))


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
            "wait": wait_time(jobs),
            "slowdown": bounded_slowdown(jobs),
            "processors": jobs.processors,
            "state": jobs.state,
            "backfilled": jobs.backfilled,
            "user": jobs.user,
        }
    )


def _outages(records: Records, axis: TimeAxis) -> dict[str, Packed] | None:
    outages, parts = records.outages, []
    for kind in OutageKind:
        here = outages.kind == kind
        some = Outages(*(getattr(outages, name)[here] for name in ("node", "kind", "start", "end")))
        found = out_of_use_boxes(some, axis.begin, axis.end)
        parts.append((found, np.full(len(found), list(OutageKind).index(kind), np.uint8)))
    if not any(len(found) for found, _ in parts):
        return None
    start, end, first, last = np.concatenate([found for found, _ in parts]).T
    columns = {"start": start, "end": end, "first": first.astype(np.int64), "last": last.astype(np.int64)}
    return packed_columns({**columns, "kind": np.concatenate([kinds for _, kinds in parts])})


def _steps(times: Floats, values: Floats) -> dict[str, Packed]:
    return packed_columns({"time": times, "value": values.astype(np.float32)})


def _exact_or_averaged(
    spans: tuple[Floats, Floats, Any], scale: float, axis: TimeAxis, averaged: Callable[[int], Floats]
) -> dict[str, Packed]:
    """Return a step function over [begin, end] of the axis: as it is, or where it is long its averages."""
    if len(spans[0]) * 2 > _MOST_STEPS:
        return _steps(np.linspace(axis.begin, axis.end, _BINS + 1)[:-1], averaged(_BINS))
    times, values = step_function(*spans)
    return _steps(times, values / scale)


def _shares(records: Records, axis: TimeAxis) -> dict[str, Any]:
    """Return the track of allocated, busy and available cores, as shares of the machine."""
    held, cores = records.occupancy, max(machine_cores(records.nodes), 1)
    means = utilization(records)
    allocated = _exact_or_averaged(
        (held.start, held.end, held.count * held.cores), cores, axis,
        lambda bins: allocated_share(records, axis, bins),
    )  # fmt: skip
    series: list[dict[str, Any]] = [
        {"label": f"allocated ({share(means['allocated'])})", "colour": SKY, "steps": allocated}
    ]
    if means["busy"] is not None and abs(means["busy"] - (means["allocated"] or 0.0)) > 5e-4:
        edges = np.linspace(axis.begin, axis.end, _BINS // 4 + 1)[:-1]
        busy = _steps(edges, busy_share(records, axis, _BINS // 4))
        series.append({"label": f"busy ({share(means['busy'])})", "colour": BLUE, "steps": busy})
    if len(records.outages.node):
        series.append(_capacity(records, axis, cores))
    for name in records.shared.name:
        steps = _steps(
            np.linspace(axis.begin, axis.end, _BINS // 4 + 1)[:-1],
            shared_share(records, name, axis, _BINS // 4),
        )
        series.append({"label": name, "colour": GREEN, "line": True, "steps": steps})
    return {"title": "share of cores", "share": True, "most": 1.0, "series": series}


def _capacity(records: Records, axis: TimeAxis, cores: int) -> dict[str, Any]:
    node, start, stop = out_of_use_spans(records.outages, axis.begin, axis.end)
    times, missing = step_function(start, stop, records.nodes.cores[node])
    if not len(times) or times[0] > axis.begin:
        times, missing = np.append(axis.begin, times), np.append(0.0, missing)
    look: dict[str, Any] = {
        "label": "capacity (hatched: out of use)",
        "colour": INK,
        "line": True,
        "hatched": True,
    }
    return {**look, "steps": _steps(times, 1.0 - missing / cores)}


def _queue(records: Records, axis: TimeAxis) -> dict[str, Any]:
    begin, end = waiting_spans(records.jobs, records.attempts)
    steps = _exact_or_averaged(
        (begin, end, np.ones(len(begin))), 1.0, axis, lambda bins: waiting_jobs(records, axis, bins)
    )
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
