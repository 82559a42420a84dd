"""The content of a trace's rows, messages and metrics among it, and the part of a run that it shows."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints, Mask, NDArray
from mlsim.errors import MlsimError
from mlsim.record import column_types, table_blocks
from mlsim.record.column_types import MessageKind
from mlsim.record.derived_times import power_over_time, running_spans, step_function, waiting_spans
from mlsim.record.otf2 import trace_layout as refs
from mlsim.record.otf2.trace_layout import Layout, Level, PePlaces, Rows, group, nanoseconds
from mlsim.record.record_tables import Chunks, Jobs, Messages, Occupancy, Ranks, Records

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
    location = np.where(at_batch, refs.BATCH_LOCATION, refs.FIRST_ROW + layout.node_row[node[message]])
    in_time = np.argsort(time, kind="stable")
    first, order = group(location[in_time], refs.FIRST_ROW + len(layout.row_node))
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
    for place, (metric, own, (_, steps)) in enumerate(zip(metrics, ticks, functions, strict=True)):
        held_on = np.concatenate([[0.0], steps])[np.searchsorted(own, times, side="right")]
        values[:, place] = np.rint(held_on) if metric.whole else held_on.view(np.uint64)
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


@dataclass(frozen=True, slots=True)
class Selection:
    """Selection of a run's time span [s], with both ends, and of jobs by their identifiers; none: all."""

    begin: float = 0.0
    end: float = math.inf
    jobs: Collection[int] = ()


class Service(NamedTuple):
    """Servers of chunk requests, time per chunk [s], and message length."""

    by_messages: bool = True  # PEs ask a master
    by_atomics: bool = False  # PEs take chunks from a window; if neither, requests are unknown
    on_node: bool = False  # the master, or the window, is on the PE's own node, rather than PE 0
    calculates: bool = False  # PEs calculate the sizes of their chunks themselves
    waits: bool = False  # the time until a chunk begins is one of waiting for others
    calculation: float = 0.0  # of a size at speed 1
    delay: float = 0.0  # added to it at any speed
    assignment: float = 0.0  # of a chunk
    access: float = 0.0  # time that a window is busy with an atomic
    message_bytes: int = 0  # of a request, and of a reply


_AT_ONCE = Service()


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """The content of a run's trace; names appear in it, the workload's as the jobs' source file."""

    level: Level
    """``jobs``: jobs on their cores, and the batch system's metrics. ``nodes``: also the idle time of cores
    whose job has no more work for them, and coordination messages. ``chunks``: also every chunk.
    ``messages``: also requests to masters and replies, or atomics on windows, and the calculation of sizes.
    """
    exclusive_nodes: bool  # jobs do not share nodes: levels jobs and nodes have a row per node, not per core
    scenario_name: str
    technique: str
    workload_name: str
    # Cores per node on which jobs, or each job, execute PEs; None: all that they hold.
    pes_per_node: int | Ints | None = None
    details: bool = False  # chunks have their first iteration and step, which follow from the sizes before
    ranks: Ranks | None = (
        None  # of a real run, with a row per rank and no batch system; None: a simulated run
    )
    selection: Selection = Selection()  # regions open at the ends of its span are entered and left there
    service: Service = _AT_ONCE
    apart: bool = False  # events of a location at the same time are moved apart, by 1 ns each
    rows: Rows = "auto"
    """``cores``: as the level has them; ``nodes``: one per node; ``auto``: as the level has them up to
    :data:`~mlsim.record.otf2.trace_layout.MOST_ROWS` rows, else one per node, or per several nodes.
    """


class Part(NamedTuple):
    """A selection, as compiled code reads it."""

    first: int  # ns
    last: int
    shown: Mask  # by job


def part_of(selection: Selection, jobs: Jobs) -> Part:
    """Prepare a selection for the jobs of a run."""
    ends = nanoseconds(np.minimum(np.array([selection.begin, selection.end]), refs.LATEST))
    shown = np.ones(len(jobs.job_id), np.bool_)
    if selection.jobs:
        shown = np.isin(jobs.job_id, list(selection.jobs))
    return Part(int(ends[0]), int(ends[1]), shown)


def select_messages(messages: MessageEvents, part: Part, jobs: Jobs) -> MessageEvents:
    """Keep the sides of messages in the span, of jobs that are shown."""
    kept = (messages.time >= part.first) & (messages.time <= part.last)
    if not part.shown.all():
        kept &= np.isin(messages.job_id, jobs.job_id[part.shown])
    if kept.all():
        return messages
    before = np.concatenate([[0], np.cumsum(kept)])
    columns = {name: getattr(messages, name)[kept] for name in MessageEvents._fields[1:]}
    return MessageEvents(first=before[messages.first], **columns)


def select_samples(samples: Samples, part: Part) -> Samples:
    """Keep the values that hold in the span, of which the first may have begun to before."""
    times = samples.times
    low = max(int(np.searchsorted(times, part.first, side="right")) - 1, 0)
    high = int(np.searchsorted(times, part.last, side="right"))
    return Samples(np.maximum(times[low:high], part.first), samples.values[low:high])


class Intervals(NamedTuple):
    """Intervals on the rows of the trace (see ``Layout``)."""

    shown: Mask  # by row: whether the trace has it
    first: Ints  # by row: its first interval
    occupancy_row: NDArray[np.int32]  # by interval
    told: Floats  # by interval, or empty: when its PEs learned that no work is left
    job: Ints  # by row of occupancy, as start and end
    start: Floats
    end: Floats


class JobColumns(NamedTuple):
    """Regions of jobs (-1: never started), and the attributes of their enter events."""

    region: Ints
    job_id: Ints
    technique: Ints  # string of the technique of its loop; 0: none


CHUNK_FIELDS = ("start", "end", "first iteration", "iterations", "step")
"""Columns of a chunk; times in ns. Where requests are shown, also when it was asked for."""


class ChunkColumns(NamedTuple):
    """Chunks in order of time: of interval i ``rows[first[i]:first[i + 1]]``, with :data:`CHUNK_FIELDS`."""

    first: Ints
    rows: Ints


NO_CHUNKS = ChunkColumns(np.zeros(1, np.int64), np.empty((0, len(CHUNK_FIELDS)), np.int64))


class Requests(NamedTuple):
    """Chunk requests of PEs and the service of masters; columns are by interval, times in ns.

    The requests that the master of interval i served are ``served[first[i]:last[i]]``, in order of the
    replies: when it took it, when it sent the reply, and the interval of the PE.
    """

    shown: bool  # whether the trace has them; else the rest means nothing
    by_messages: bool  # PEs send requests to masters
    by_atomics: bool  # PEs access windows themselves
    calculates: bool  # a PE calculates the size of its chunk itself
    waits: bool  # the time until a chunk begins is one of waiting for others
    own: bool  # it is known when masters calculate chunks of their own
    message_bytes: int  # of a request, and of a reply
    rank: Ints  # of its row
    tag: Ints  # of its PE's requests, which is even; replies have the next one
    other: Ints  # rank of the master that its PE asks, or of the window that it takes chunks from; -1: none
    way: Ints  # latency of a message of its PE
    working: Ints  # how long its PE calculates a chunk's size, or its master works for it
    after: Ints  # from the end of the PE's own calculation to the begin of the chunk
    refused: Ints  # its PE's last request, and the reply that no work is left; -1 where there is none
    serving: Ints  # time that its PE, a master, spends per chunk; -1 if it is no master
    first: Ints
    last: Ints
    served: Ints


_NOTHING = np.empty(0, np.int64)
_NO_ROWS = np.empty((0, 3), np.int64)
NO_REQUESTS = Requests._make([*[False] * 6, 0, *[_NOTHING] * 6, _NO_ROWS, *[_NOTHING] * 3, _NO_ROWS])


class Content(NamedTuple):
    """The content to write."""

    intervals: Intervals
    jobs: JobColumns
    describe: bool  # enter events of jobs have attributes
    details: bool  # those of chunks have more than their iterations
    size_bits: int  # of iterations
    part: Part
    idle_region: int
    chunks: ChunkColumns
    messages: MessageEvents
    requests: Requests


_ROWS_AT_ONCE = 1 << 18  # number of chunks written before their memory is released


def chunks_by_interval(
    records: Records, places: PePlaces, part: Part, intervals: int, *, asked: bool = False
) -> ChunkColumns:
    """Arrange the chunks of shown jobs by interval, then time; ``asked``: with when they were asked for."""
    first = np.zeros(intervals + 1, np.int64)
    for _, stay in _found(records, places, part):
        _count(stay, first)
    first = np.cumsum(first)
    rows = column_types.column((int(first[-1]), len(CHUNK_FIELDS) + asked), np.int64)
    place = first[:-1].copy()
    for block, stay in _found(records, places, part):
        if asked:
            _put_asked(stay, place, block.requested, rows)
        _put(stay, place, block.start, block.end, block.first, block.size, block.step, rows)
        column_types.let_go(rows)
    return ChunkColumns(first, rows)


def _found(records: Records, places: PePlaces, part: Part) -> Iterator[tuple[Chunks, Ints]]:
    """Yield the chunks of jobs that are shown in blocks, with the interval of each."""
    for block in table_blocks.chunk_blocks(records.chunks):
        if not part.shown.all():
            block = table_blocks.rows_of(block, part.shown[block.job])
        yield block, places.find(records.jobs, block.job, block.attempt, block.pe, block.start)


@kernel
def _count(stay: Ints, first: Ints) -> None:
    for row in range(len(stay)):
        first[stay[row] + 1] += 1


@kernel
def _put(
    stay: Ints, place: Ints, start: Floats, end: Floats, first: Ints, size: Ints, step: Ints, rows: Ints
) -> None:
    """Write chunks into the next places of their intervals, with times in ns."""
    for row in range(len(stay)):
        to = place[stay[row]]
        place[stay[row]] += 1
        rows[to, 0], rows[to, 1] = int(np.rint(start[row] * 1e9)), int(np.rint(end[row] * 1e9))
        rows[to, 2], rows[to, 3], rows[to, 4] = first[row], size[row], step[row]


@kernel
def _put_asked(stay: Ints, place: Ints, requested: Floats, rows: Ints) -> None:
    """Write when chunks were asked for into the next places of their intervals, in ns."""
    following = place.copy()
    for row in range(len(stay)):
        to = following[stay[row]]
        following[stay[row]] += 1
        rows[to, 5] = int(np.rint(requested[row] * 1e9))


def row_ranges(row_first: Ints, chunks: ChunkColumns) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with a bounded number of chunks; row r begins at interval ``row_first[r]``."""
    rows = len(row_first) - 1
    if not len(chunks.rows):
        yield 0, rows
        return
    before = chunks.first[row_first]
    low = 0
    while low < rows:
        high = int(np.searchsorted(before, before[low] + _ROWS_AT_ONCE, side="right")) - 1
        high = min(max(high, low + 1), rows)
        yield low, high
        low = high


def nth_chunk(records: Records, places: PePlaces, part: Part, chunks: ChunkColumns, number: int) -> Chunks:
    """Return, as a table of one row, the chunk with a number in the order of intervals."""
    interval = int(np.searchsorted(chunks.first, number, side="right")) - 1
    left = number - int(chunks.first[interval])
    for block, stay in _found(records, places, part):
        rows = np.flatnonzero(stay == interval)
        if left < len(rows):
            return table_blocks.rows_of(block, slice(int(rows[left]), int(rows[left]) + 1))
        left -= len(rows)
    raise AssertionError("there are fewer chunks than were counted")
