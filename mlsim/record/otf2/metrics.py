"""The batch system's metrics over time, on the dispatcher's row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim._jit import kernel
from mlsim.record.derived import running_spans, waiting_spans
from mlsim.record.energy import power_over_time
from mlsim.record.otf2.layout import nanoseconds
from mlsim.record.tables import Occupancy, Records
from mlsim.record.timeline import step_function

__all__ = ["Metric", "Samples", "metrics_of", "sample_metrics"]


class Metric(NamedTuple):
    """A metric of the batch system."""

    name: str
    about: str
    unit: str
    whole: bool = True
    """Whether values are whole numbers."""


METRICS = (
    Metric("queue length", "jobs submitted and not yet started", "jobs"),
    Metric("running jobs", "jobs started and not yet ended", "jobs"),
    Metric("busy nodes", "nodes of which a job holds a core", "nodes"),
    Metric("allocated cores", "cores that jobs hold", "cores"),
    Metric("power", "power of all nodes", "W", whole=False),
)
"""In the order of the columns of ``Samples.values``; power only where that of nodes is known."""


class Samples(NamedTuple):
    """Values that hold from a time to the next: ``times`` in ns, ``values`` one column a metric.

    Values that are no whole numbers are there as the bits of a float64.
    """

    times: Ints
    values: NDArray[np.uint64]


def metrics_of(records: Records) -> tuple[Metric, ...]:
    """Return the metrics that a run has."""
    return METRICS if records.nodes.power is not None else METRICS[:-1]


def sample_metrics(records: Records) -> Samples:
    """Sample all metrics whenever one of them changes, and at time 0.

    Jobs that were rejected never count; a job that waits for no time never counts as queued.
    """
    jobs, held = records.jobs, records.occupancy
    metrics = metrics_of(records)
    functions = (
        step_function(*waiting_spans(jobs, records.attempts)),
        step_function(*running_spans(jobs, records.attempts)),
        step_function(*_busy_spans(held, len(records.nodes.cores))),
        step_function(held.start, held.end, held.count * held.cores),
        power_over_time(records),
    )[: len(metrics)]
    ticks = [nanoseconds(times) for times, _ in functions]
    times = np.sort(np.concatenate([np.zeros(1, np.int64), *ticks]))
    times = times[np.append(True, np.diff(times) > 0)]
    values = np.zeros((len(times), len(functions)), np.uint64)
    for column, (metric, own, (_, steps)) in enumerate(zip(metrics, ticks, functions, strict=True)):
        last = np.searchsorted(own, times, side="right")
        held_on = np.concatenate([[0.0], steps])[last]
        values[:, column] = np.rint(held_on) if metric.whole else held_on.view(np.uint64)
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
