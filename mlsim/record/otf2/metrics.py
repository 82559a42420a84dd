"""The batch system's metrics over time, on the dispatcher's row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim._jit import kernel
from mlsim.record.derived import running_spans, waiting_spans
from mlsim.record.otf2.layout import nanoseconds
from mlsim.record.tables import Occupancy, Records
from mlsim.record.timeline import step_function

__all__ = ["METRICS", "Samples", "sample_metrics"]


# Name, description and unit, in the order of the columns of Samples.values.
METRICS = (
    ("queue length", "jobs submitted and not yet started", "jobs"),
    ("running jobs", "jobs started and not yet ended", "jobs"),
    ("busy nodes", "nodes of which a job holds a core", "nodes"),
    ("allocated cores", "cores that jobs hold", "cores"),
)


class Samples(NamedTuple):
    """Values that hold from a time to the next: ``times`` in ns, ``values`` one column a metric."""

    times: Ints
    values: NDArray[np.uint64]


def sample_metrics(records: Records) -> Samples:
    """Sample all metrics whenever one of them changes, and at time 0.

    Jobs that were rejected never count; a job that waits for no time never counts as queued.
    """
    jobs, held = records.jobs, records.occupancy
    functions = (
        step_function(*waiting_spans(jobs, records.attempts)),
        step_function(*running_spans(jobs, records.attempts)),
        step_function(*_busy_spans(held, len(records.nodes.cores))),
        step_function(held.start, held.end, held.count * held.cores),
    )
    ticks = [nanoseconds(times) for times, _ in functions]
    times = np.sort(np.concatenate([np.zeros(1, np.int64), *ticks]))
    times = times[np.append(True, np.diff(times) > 0)]
    values = np.zeros((len(times), len(functions)), np.uint64)
    for column, (own, (_, steps)) in enumerate(zip(ticks, functions, strict=True)):
        last = np.searchsorted(own, times, side="right")
        values[:, column] = np.concatenate([[0.0], np.rint(steps)])[last]
    return Samples(times, values)


def _busy_spans(held: Occupancy, nodes: int) -> tuple[Floats, Floats]:
    """Unite the occupancy of each node, for jobs that share one make it busy once."""
    begin, end = (np.empty(int(np.sum(held.count)), np.float64) for _ in range(2))
    spans = _unite(nodes, held.node, held.count, held.start, held.end, begin, end)
    return begin[:spans], end[:spans]


@kernel
def _unite(
    nodes: int, node: Ints, count: Ints, start: Floats, end: Floats, span_begin: Floats, span_end: Floats
) -> int:
    """Fill in the unions per node of the rows, which are in order of start; return how many there are."""
    spans = 0
    open_span = np.full(nodes, -1)
    for row in range(len(node)):
        for n in range(node[row], node[row] + count[row]):
            span = open_span[n]
            if span >= 0 and start[row] <= span_end[span]:
                span_end[span] = max(span_end[span], end[row])
            else:
                open_span[n] = spans
                span_begin[spans], span_end[spans] = start[row], end[row]
                spans += 1
    return spans
