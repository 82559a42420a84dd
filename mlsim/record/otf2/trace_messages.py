"""Coordination messages and metrics of the batch system in a trace."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.errors import MlsimError
from mlsim.record.column_types import MessageKind
from mlsim.record.derived_times import running_spans, waiting_spans
from mlsim.record.otf2.trace_layout import Layout, group, nanoseconds
from mlsim.record.otf2.trace_references import BATCH_LOCATION, FIRST_ROW
from mlsim.record.record_tables import Messages, Occupancy, Records
from mlsim.record.timelines import power_over_time, step_function

# Ranks in the communicator: the dispatcher, then the nodes in order.
BATCH_RANK = 0
NUMBER_BYTES = 8  # bytes of a number in a message
MESSAGE_BYTES = 3 * NUMBER_BYTES  # length of a message with its kind, its job and its node only
_WITH_MORE = [
    kind.value for kind in (MessageKind.NODE_IDLE, MessageKind.JOB_COMPLETED, MessageKind.RELEASE_REQUEST)
]
_FROM_BATCH = [kind.value for kind in MessageKind if kind.from_batch]


class MessageEvents(NamedTuple):
    """Both sides of all messages in order; those of location r are ``first[r]`` to ``first[r + 1] - 1``."""

    first: Ints
    time: Ints
    is_sent: Mask  # else received
    peer: Ints
    kind: Ints
    tag: Ints
    job_id: Ints
    nodes: Ints
    for_job: Ints
    remaining_iterations: Ints
    remaining_work: Floats
    length: Ints  # in bytes


def application_nodes(records: Records) -> Ints:
    """Find the node of each message: the one it is about, else the one that its job held last."""
    own = records.messages.node
    return np.where(
        own >= 0, own, _last_nodes(records.occupancy, len(records.jobs.job_id))[records.messages.job]
    )


def _last_nodes(held: Occupancy, jobs: int) -> Ints:
    """Find for each job the node of the first of its rows that ended last; -1 for a job with no rows."""
    last = np.full(jobs, -1, np.int64)
    order = np.lexsort((np.arange(len(held.job)), -held.end, held.job))
    job, first = np.unique(held.job[order], return_index=True)
    last[job] = held.node[order][first]
    return last


def deliver(records: Records, layout: Layout) -> MessageEvents:
    """Order both sides of every message by their row, then by time.

    At the same time on the same row, a message that was sent before comes first; of those sent together, the
    one received first. Raises MlsimError if a message overtakes another one of the same pair: as in MPI,
    readers of a trace match sends and receives of a pair by their order.
    """
    messages, node = records.messages, application_nodes(records)
    from_batch = np.isin(messages.kind, _FROM_BATCH)
    _check_order(messages, node, from_batch)
    by_sending = np.lexsort((messages.received, messages.sent))
    # Two entries a message: its send, its receive.
    message = np.repeat(by_sending, 2)
    is_sent = np.tile([True, False], len(by_sending))
    time = np.where(is_sent, messages.sent[message], messages.received[message])
    at_batch = from_batch[message] == is_sent
    location = np.where(at_batch, BATCH_LOCATION, FIRST_ROW + layout.node_row[node[message]])
    in_time = np.argsort(time, kind="stable")
    first, order = group(location[in_time], FIRST_ROW + len(layout.row_node))
    order = in_time[order]
    processes, message = layout.processes, message[order]
    peer = np.where(at_batch[order], BATCH_RANK + 1 + processes.of_node[node[message]], BATCH_RANK)
    # Nodes of one process may overtake each other: they have tags of their own.
    tag = messages.kind[message] + len(MessageKind) * processes.place[node[message]]
    kind = messages.kind[message]
    length = MESSAGE_BYTES + 2 * NUMBER_BYTES * np.isin(kind, _WITH_MORE)
    return MessageEvents(
        first,
        nanoseconds(time[order]),
        is_sent[order],
        peer,
        kind.astype(np.int64),
        tag,
        records.jobs.job_id[messages.job[message]],
        messages.nodes[message],
        messages.for_job[message],
        messages.remaining_iterations[message],
        messages.remaining_work[message],
        length.astype(np.int64),
    )


def _check_order(messages: Messages, node: Ints, from_batch: Mask) -> None:
    """Raise MlsimError where a message overtakes another one between the same two."""
    pair = 2 * node + from_batch
    order = np.lexsort((messages.received, messages.sent, pair))
    if np.any((np.diff(pair[order]) == 0) & (np.diff(messages.received[order]) < 0)):
        raise MlsimError(
            "internal error: a coordination message was received before an earlier one of its node"
        )


class Metric(NamedTuple):
    """A metric of the batch system."""

    name: str
    about: str
    unit: str
    whole: bool = True  # values are whole numbers


METRICS = (
    Metric("queue length", "jobs submitted and not yet started", "jobs"),
    Metric("running jobs", "jobs started and not yet ended", "jobs"),
    Metric("busy nodes", "nodes of which a job holds a core", "nodes"),
    Metric("allocated cores", "cores that jobs hold", "cores"),
    Metric("power", "power of all nodes", "W", whole=False),
)
"""In the order of the columns of ``Samples.values``; power only where that of nodes is known."""


class Samples(NamedTuple):
    """Values from a time [ns] on, one column per metric; floats are there as the bits of a float64."""

    times: Ints
    values: NDArray[np.uint64]


def metrics_of(records: Records) -> tuple[Metric, ...]:
    """Return the metrics that a run has."""
    return METRICS if records.nodes.power is not None else METRICS[:-1]


def sample_metrics(records: Records) -> Samples:
    """Sample all metrics at time 0 and whenever one changes; a job that does not wait is never queued."""
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
