"""Step functions over time, outages, and the record of a single job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.record.column_types import JobState, OutageKind
from mlsim.record.record_tables import Jobs, Occupancy, Outages
from mlsim.record.table_blocks import blocks_of

Spans = tuple[Floats, Floats, Floats]
"""Begin and end of intervals in s, and what each adds while it is open."""


def step_function(begin: ArrayLike, end: ArrayLike, weight: ArrayLike = 1.0) -> tuple[Floats, Floats]:
    """Sum the weights of the intervals [begin, end) [s] that are open, over time.

    Intervals of no length, or with a NaN bound, do not count. ``weight`` is one number, or one per interval.
    Returns strictly increasing times and the sum from each of them to the next; the last value is 0. Both are
    empty without intervals.
    """
    begin, end = np.asarray(begin, np.float64), np.asarray(end, np.float64)
    weights = np.broadcast_to(np.asarray(weight, np.float64), begin.shape)
    kept = end > begin
    changes = np.concatenate([weights[kept], -weights[kept]])
    times, where = np.unique(np.concatenate([begin[kept], end[kept]]), return_inverse=True)
    deltas = np.bincount(where, weights=changes, minlength=len(times))
    return times, np.cumsum(deltas)


def step_parts(blocks: Iterable[Spans], others: Spans) -> Iterator[tuple[Floats, Floats]]:
    """Yield the step function of many intervals in parts, with memory for the intervals open at one time.

    No interval of ``blocks`` begins before one of an earlier block (a NaN begin: no interval); ``others`` are
    in any order. Each part, as of :func:`step_function`, continues the one before.
    """
    waiting, value = others, 0.0
    for block in blocks:
        joined: Spans = (
            np.concatenate([waiting[0], block[0]]),
            np.concatenate([waiting[1], block[1]]),
            np.concatenate([waiting[2], block[2]]),
        )
        horizon = float(np.fmax.reduce(block[0], initial=-np.inf))
        times, deltas, waiting = _changes(joined, horizon)
        if len(times):
            values = value + np.cumsum(deltas)
            value = float(values[-1])
            yield times, values
    times, deltas, _ = _changes(waiting, np.inf)
    if len(times):
        yield times, value + np.cumsum(deltas)


def _changes(spans: Spans, horizon: float) -> tuple[Floats, Floats, Spans]:
    """Sum the changes at each time before the horizon; return the later changes too."""
    begin, end, weight = spans
    kept = end > begin
    begin, end, weight = begin[kept], end[kept], weight[kept]
    began = (begin < horizon) & (begin > -np.inf)
    ended = end < horizon
    changes = np.concatenate([weight[began], -weight[ended]])
    times, where = np.unique(np.concatenate([begin[began], end[ended]]), return_inverse=True)
    deltas = np.bincount(where, weights=changes, minlength=len(times)).astype(np.float64)
    left = ~ended
    # What has begun already begins no more.
    since = np.where(begin < horizon, -np.inf, begin)[left]
    return times, deltas, (since, end[left], weight[left])


def time_average(times: Floats, values: Floats, begin: float, end: float) -> float:
    """Average a step function over [begin, end]; 0 where the span has no length."""
    if end <= begin or not len(times):
        return 0.0
    edges = np.clip(np.append(times, np.inf), begin, end)
    return float(np.sum(values * np.diff(edges)) / (end - begin))


OutageSpans = tuple[Ints, Floats, Floats]
"""Node, start and end of each span; those of a node do not touch. By node, then start."""


def out_of_use_spans(outages: Outages, begin: float, end: float) -> OutageSpans:
    """Unite the outages of each node, within [begin, end]."""
    return _united(outages.node, outages.start, outages.end, begin, end)


def off_spans(outages: Outages, occupancy: Occupancy, begin: float, end: float) -> OutageSpans:
    """Find when nodes were out of use and held by no job, within [begin, end].

    A job that holds a drained node keeps it to its end, or gives it back; no other job gets it meanwhile.
    """
    start = outages.start.copy()
    drained = outages.kind != OutageKind.FAILED
    for at in np.unique(start[drained]):
        last: dict[int, float] = {}
        for block in blocks_of(occupancy):
            _add_ends(last, np.flatnonzero((block.start < at) & (block.end > at)), block)
        for outage in np.flatnonzero(drained & (outages.start == at)).tolist():
            start[outage] = max(start[outage], last.get(int(outages.node[outage]), -np.inf))
    return _united(outages.node, start, outages.end, begin, end)


def _add_ends(last: dict[int, float], rows: Ints, occupancy: Occupancy) -> None:
    """Store for each node of some occupancy rows when the last of them ends."""
    for row in rows.tolist():
        first, end = int(occupancy.node[row]), float(occupancy.end[row])
        for node in range(first, first + int(occupancy.count[row])):
            last[node] = max(last.get(node, end), end)


def _united(node: Ints, start: Floats, end: Floats, first: float, last: float) -> OutageSpans:
    """Unite spans of equal nodes; a NaN end is never."""
    begin = np.clip(start, first, last)
    stop = np.clip(np.where(np.isnan(end), np.inf, end), first, last)
    kept = stop > begin
    order = np.lexsort((begin[kept], node[kept]))
    spans = node[kept][order], begin[kept][order], stop[kept][order]
    n = _unite(*spans)
    return spans[0][:n], spans[1][:n], spans[2][:n]


@kernel
def _unite(node: Ints, begin: Floats, end: Floats) -> int:
    """Unite spans in order of (node, begin), in place; return how many are left."""
    n = 0
    for row in range(len(node)):
        if n > 0 and node[n - 1] == node[row] and begin[row] <= end[n - 1]:
            end[n - 1] = max(end[n - 1], end[row])
        else:
            node[n], begin[n], end[n] = node[row], begin[row], end[row]
            n += 1
    return n


def one_job(job_id: int, end: float, pes: int, cores: int) -> Jobs:
    """Return the row of a job without a user that ran from 0 to ``end`` [s] on the whole machine."""
    unknown = np.full(1, -1, np.int64)
    return Jobs(
        job_id=np.array([job_id]),
        submit_time=np.zeros(1),
        start_time=np.zeros(1),
        end_time=np.array([end]),
        walltime=np.array([end]),
        prediction=np.array([end]),
        log_run_time=np.array([end]),
        processors=np.array([pes]),
        cores=np.array([cores]),
        working=np.array([pes]),
        state=np.array([JobState.COMPLETED], np.int8),
        backfilled=np.zeros(1, np.bool_),
        user=unknown,
        group=unknown.copy(),
        executable=unknown.copy(),
        queue=unknown.copy(),
        partition=unknown.copy(),
    )
