"""The compiled pass that writes all events of a trace, location after location, each in order of time.

What a location shows is nested by construction: its jobs do not overlap, a PE's chunks lie inside its
job, and idle time follows the last chunk. So nothing is sorted by time here; an instant's leaves come
before its enters, and what has no length is entered and left before what follows.

The kernels make no arrays, so they are compiled without reference counts: counting the references to
every column at every call would take several times as long as writing the events.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlsim._arrays import Ints
from mlsim._jit import kernel
from mlsim.record.codes import MessageKind
from mlsim.record.otf2.calls import (
    Api,
    add_double,
    add_int,
    add_string,
    add_uint,
    add_uint8,
    add_uint16,
    add_uint32,
    close_writer,
    enter,
    get_writer,
    leave,
    message,
    metric,
)
from mlsim.record.otf2.content import Content
from mlsim.record.otf2.message_events import MessageEvents
from mlsim.record.otf2.metrics import Samples
from mlsim.record.otf2.references import (
    BATCH_LOCATION,
    CHUNK_REGION,
    COMMUNICATOR,
    FIRST_ITERATION,
    FIRST_ROW,
    FOR_JOB,
    ITERATIONS,
    JOB_ID,
    KIND_STRING,
    MESSAGE,
    METRIC_CLASS,
    METRIC_LOCATION,
    NODES,
    REMAINING_ITERATIONS,
    REMAINING_WORK,
    STEP,
    TECHNIQUE,
    TECHNIQUE_STRING,
)

__all__ = ["write_batch", "write_metrics", "write_rows"]


_END_OF_TIME = int(np.iinfo(np.int64).max)
# Sums of floats may put a chunk's bounds outside of its job's by a rounding error, which is cut off;
# at more than this, in ns, the records are wrong.
_TOLERANCE = 1000
_RELEASE_REQUEST, _LAST_WITH_REMAINS = int(MessageKind.RELEASE_REQUEST), int(MessageKind.JOB_COMPLETED)


class _Target(NamedTuple):
    """Where to write: the library's functions, an event writer and an attribute list."""

    api: Api
    writer: int
    attributes: int


class _Progress(NamedTuple):
    """Where a location is: time of the last event, next and last message event, events written.

    ``time`` is that of the whole run, of which a part may be shown.
    ``failed`` is not 0 after a failed call, and ``misplaced`` a chunk that lies outside of its job, or -1.
    """

    time: int
    item: int
    last_item: int
    events: int
    failed: int
    misplaced: int


@kernel(_nrt=False)
def write_rows(
    api: Api, archive: int, attributes: int, content: Content, events: Ints, low: int, high: int
) -> tuple[int, int]:
    """Write some locations of cores or nodes; stop at the first failure.

    Parameters
    ----------
    api, archive, attributes
        The library's functions, and the handles of the archive and of an attribute list.
    content
        What to write.
    events
        Receives the number of events of each location.
    low, high
        The first row to write, and the one after the last.

    Returns
    -------
    failed, misplaced
        Not 0 if the library failed; a chunk that lies outside of its job, or -1.
    """
    for row in range(low, high):
        location = FIRST_ROW + row
        to = _Target(api, _open_location(api, archive, location), attributes)
        if to.writer == 0:
            return 1, -1
        at = _write_row(to, content, row, location)
        failed = at.failed | close_writer(api.close_evt_writer, archive, to.writer)
        if failed != 0 or at.misplaced >= 0:
            return failed, at.misplaced
        events[location] = at.events
    return 0, -1


@kernel(_nrt=False)
def _open_location(api: Api, archive: int, location: int) -> int:
    """Open the event file of a location, and write its (empty) file of local definitions.

    Readers look for both at every location. Returns the event writer's handle, 0 if that failed.
    """
    definitions = get_writer(api.get_def_writer, archive, location)
    if definitions == 0 or close_writer(api.close_def_writer, archive, definitions) != 0:
        return 0
    return get_writer(api.get_evt_writer, archive, location)


@kernel(_nrt=False)
def _write_row(to: _Target, content: Content, row: int, location: int) -> _Progress:
    """Write one location's events."""
    intervals, messages = content.intervals, content.messages
    at = _Progress(0, messages.first[location], messages.first[location + 1], 0, 0, -1)
    for interval in range(intervals.first[row], intervals.first[row + 1]):
        at = _write_job(to, content, interval, at)
        if at.failed != 0 or at.misplaced >= 0:
            break
    return _messages_until(to, content.messages, _END_OF_TIME, at)


@kernel(_nrt=False)
def _wrote(at: _Progress, time: int, failed: int) -> _Progress:
    """Advance past an event at ``time``."""
    return _Progress(time, at.item, at.last_item, at.events + 1, at.failed | failed, at.misplaced)


@kernel(_nrt=False)
def _ticks(seconds: float) -> int:
    """Convert a time to the trace's clock."""
    return int(np.rint(seconds * 1e9))


@kernel(_nrt=False)
def _write_job(to: _Target, content: Content, interval: int, at: _Progress) -> _Progress:
    """Write one job's time on one location with what is nested in it."""
    intervals, chunks, part = content.intervals, content.chunks, content.part
    row = intervals.occupancy_row[interval]
    job, begin, end = intervals.job[row], _ticks(intervals.start[row]), _ticks(intervals.end[row])
    if not part.shown[job] or end < part.first or begin > part.last:
        return _messages_until(to, content.messages, end + 1, at)
    at, seen = _open(to, content, begin, at)
    at = _wrote(at, begin, _enter_job(to, content, job, seen))
    if len(chunks.rows) > 0:
        for index in range(chunks.first[interval], chunks.first[interval + 1]):
            at = _write_chunk(to, content, index, end, at)
    if len(intervals.told) > 0 and intervals.told[interval] < intervals.end[row]:
        idle = max(at.time, _ticks(intervals.told[interval]))
        if idle < end and idle <= part.last:
            at, seen = _open(to, content, idle, at)
            at = _wrote(at, idle, enter(to.api.enter, to.writer, 0, seen, content.idle_region))
            at = _close(to, content, end, content.idle_region, at)
    at = _messages_until(to, content.messages, min(end, part.last) + 1, at)
    return _close(to, content, end, content.jobs.region[job], at)


@kernel(_nrt=False)
def _open(to: _Target, content: Content, time: int, at: _Progress) -> tuple[_Progress, int]:
    """Write the messages before a region that is entered; return also when the trace shows it entered.

    Where the part that is shown begins later, that is its beginning.
    """
    seen = max(time, content.part.first)
    return _messages_until(to, content.messages, seen, at), seen


@kernel(_nrt=False)
def _close(to: _Target, content: Content, time: int, region: int, at: _Progress) -> _Progress:
    """Leave a region, at the end of the part that is shown if it lasts longer, after the messages in it."""
    last = content.part.last
    seen = min(time, last)
    at = _messages_until(to, content.messages, seen + (last < time), at)
    return _wrote(at, time, leave(to.api.leave, to.writer, 0, seen, region))


@kernel(_nrt=False)
def _enter_job(to: _Target, content: Content, job: int, time: int) -> int:
    """Write that a job begins."""
    region = content.jobs.region[job]
    if not content.describe:
        return enter(to.api.enter, to.writer, 0, time, region)
    failed = add_uint(to.api.add_uint64, to.attributes, JOB_ID, content.jobs.job_id[job])
    if content.jobs.has_loop[job]:
        failed |= add_string(to.api.add_string, to.attributes, TECHNIQUE, TECHNIQUE_STRING)
    return failed | enter(to.api.enter, to.writer, to.attributes, time, region)


@kernel(_nrt=False)
def _write_chunk(to: _Target, content: Content, chunk: int, limit: int, at: _Progress) -> _Progress:
    """Write one chunk, between the time reached and ``limit``, if the part that is shown has some of it."""
    rows, part = content.chunks.rows, content.part
    start, end = rows[chunk, 0], rows[chunk, 1]
    first, size, step = rows[chunk, 2], rows[chunk, 3], rows[chunk, 4]
    begin = max(at.time, min(start, limit))
    stop = max(begin, min(end, limit))
    if abs(begin - start) > _TOLERANCE or abs(stop - end) > _TOLERANCE:
        return _Progress(at.time, at.item, at.last_item, at.events, at.failed, chunk)
    if stop < part.first or begin > part.last:
        return _Progress(stop, at.item, at.last_item, at.events, at.failed, -1)
    at, seen = _open(to, content, begin, at)
    failed = _add_iterations(to, content.size_bits, size)
    if content.details:
        failed |= add_uint(to.api.add_uint64, to.attributes, FIRST_ITERATION, first)
        failed |= add_uint(to.api.add_uint64, to.attributes, STEP, step)
    failed |= enter(to.api.enter, to.writer, to.attributes, seen, CHUNK_REGION)
    return _close(to, content, stop, CHUNK_REGION, _wrote(at, begin, failed))


@kernel(_nrt=False)
def _add_iterations(to: _Target, bits: int, size: int) -> int:
    """Add the iterations of a chunk to the attributes of the next event."""
    if bits == 8:
        return add_uint8(to.api.add_uint8, to.attributes, ITERATIONS, size)
    if bits == 16:
        return add_uint16(to.api.add_uint16, to.attributes, ITERATIONS, size)
    if bits == 32:
        return add_uint32(to.api.add_uint32, to.attributes, ITERATIONS, size)
    return add_uint(to.api.add_uint64, to.attributes, ITERATIONS, size)


@kernel(_nrt=False)
def _messages_until(to: _Target, messages: MessageEvents, limit: int, at: _Progress) -> _Progress:
    """Write the sends and receives of messages before ``limit``."""
    failed = at.failed
    item = at.item
    while item < at.last_item and messages.time[item] < limit:
        failed |= _write_message(to, messages, item)
        item += 1
    return _Progress(at.time, item, at.last_item, at.events + item - at.item, failed, at.misplaced)


@kernel(_nrt=False)
def _write_message(to: _Target, messages: MessageEvents, item: int) -> int:
    """Write one side of a message."""
    kind = messages.kind[item]
    failed = add_string(to.api.add_string, to.attributes, MESSAGE, KIND_STRING + kind)
    failed |= add_uint(to.api.add_uint64, to.attributes, JOB_ID, messages.job_id[item])
    if kind <= _LAST_WITH_REMAINS:
        iterations, work = messages.remaining_iterations[item], messages.remaining_work[item]
        failed |= add_int(to.api.add_int64, to.attributes, REMAINING_ITERATIONS, iterations)
        failed |= add_double(to.api.add_double, to.attributes, REMAINING_WORK, work)
    if kind == _RELEASE_REQUEST:
        failed |= add_uint(to.api.add_uint64, to.attributes, NODES, messages.nodes[item])
        failed |= add_uint(to.api.add_uint64, to.attributes, FOR_JOB, messages.for_job[item])
    side = to.api.mpi_send if messages.is_sent[item] else to.api.mpi_recv
    time, peer, length = messages.time[item], messages.peer[item], messages.length[item]
    return failed | message(side, to.writer, to.attributes, time, peer, COMMUNICATOR, kind, length)


@kernel(_nrt=False)
def write_batch(api: Api, archive: int, attributes: int, messages: MessageEvents) -> tuple[int, int]:
    """Write the dispatcher's location: its sides of messages.

    Returns a status, not 0 if the library failed, and the number of events.
    """
    to = _Target(api, _open_location(api, archive, BATCH_LOCATION), attributes)
    if to.writer == 0:
        return 1, 0
    failed = 0
    begin, end = messages.first[BATCH_LOCATION], messages.first[BATCH_LOCATION + 1]
    for item in range(begin, end):
        failed |= _write_message(to, messages, item)
    return failed | close_writer(api.close_evt_writer, archive, to.writer), end - begin


@kernel(_nrt=False)
def write_metrics(
    api: Api, archive: int, samples: Samples, member_types: int, values: int
) -> tuple[int, int]:
    """Write the location of metrics.

    ``member_types`` and ``values`` are the addresses of the metrics' type codes and of
    ``samples.values``. Returns as :func:`write_batch`.
    """
    writer = _open_location(api, archive, METRIC_LOCATION)
    if writer == 0:
        return 1, 0
    failed, members = 0, samples.values.shape[1]
    for sample in range(len(samples.times)):
        where = values + sample * members * samples.values.itemsize
        failed |= metric(
            api.metric, writer, 0, samples.times[sample], METRIC_CLASS, members, member_types, where
        )
    return failed | close_writer(api.close_evt_writer, archive, writer), len(samples.times)
