"""The compiled pass that writes all events of a trace."""

from __future__ import annotations

import numpy as np

from mlsim._jit import kernel, shared
from mlsim._runtime.arrays import Ints
from mlsim.record.otf2.otf2_library import (
    Api,
    add_string,
    add_uint,
    add_uint8,
    add_uint16,
    add_uint32,
    close_writer,
    enter,
    get_writer,
    leave,
    metric,
)
from mlsim.record.otf2.row_events import (
    TIES_STAY,
    Progress,
    Target,
    before_chunk,
    begin_requests,
    close_region,
    messages_until,
    open_region,
    serve_until,
    stamp,
    write_message,
    write_refusal,
    wrote,
)
from mlsim.record.otf2.trace_content import Content
from mlsim.record.otf2.trace_messages import MessageEvents, Samples
from mlsim.record.otf2.trace_references import (
    BATCH_LOCATION,
    CHUNK_REGION,
    DISPATCHER_REGION,
    FIRST_ITERATION,
    FIRST_ROW,
    ITERATIONS,
    JOB_ID,
    METRIC_CLASS,
    METRIC_LOCATION,
    STEP,
    TECHNIQUE,
    TECHNIQUE_STRING,
)

END_OF_TIME = int(np.iinfo(np.int64).max)
# Sums of floats may put a chunk's bounds outside of its job's by a rounding error, which is cut off;
# at more than this, in ns, the records are wrong.
TOLERANCE = 1000


@kernel(_nrt=False)
def write_rows(
    api: Api, archive: int, attributes: int, clock: Ints, content: Content, events: Ints, low: int, high: int
) -> tuple[int, int]:
    """Write the locations of rows ``low`` to ``high - 1``; stop at the first failure.

    ``api`` holds functions of the library; ``archive`` and ``attributes`` are handles; for ``clock`` see
    :func:`mlsim.record.otf2.row_events.stamp`. ``events`` receives the number of events per location. Returns
    a failure of the library (0: none), and a chunk outside of its job (-1: none).
    """
    known = shared(content)
    for row in range(low, high):
        if not known.intervals.shown[row]:
            continue
        location = FIRST_ROW + row
        to = shared(Target(api, get_writer(api.get_evt_writer, archive, location), attributes, clock))
        begin_location(to)
        if to.writer == 0:
            return 1, -1
        at = _write_row(to, known, row, location)
        failed = at.failed | close_writer(api.close_evt_writer, archive, to.writer)
        if failed != 0 or at.misplaced >= 0:
            return failed, at.misplaced
        events[location] = at.events
    return 0, -1


@kernel(_nrt=False)
def begin_location(to: Target) -> None:
    """Forget the last event of the location before."""
    if to.clock[0] != TIES_STAY:
        to.clock[0] = -1


@kernel(_nrt=False)
def _write_row(to: Target, content: Content, row: int, location: int) -> Progress:
    """Write one location's events."""
    intervals, messages = content.intervals, content.messages
    at = Progress(0, messages.first[location], messages.first[location + 1], 0, 0, -1, 0)
    for interval in range(intervals.first[row], intervals.first[row + 1]):
        at = _write_job(to, content, interval, at)
        if at.failed != 0 or at.misplaced >= 0:
            break
    return messages_until(to, content.messages, END_OF_TIME, at)


@kernel(_nrt=False)
def ticks(seconds: float) -> int:
    """Convert a time to the trace's clock."""
    return int(np.rint(seconds * 1e9))


@kernel(_nrt=False)
def _write_job(to: Target, content: Content, interval: int, at: Progress) -> Progress:
    """Write one job's time on one location with what is nested in it."""
    intervals, chunks, part, requests = content.intervals, content.chunks, content.part, content.requests
    row = intervals.occupancy_row[interval]
    job, begin, end = intervals.job[row], ticks(intervals.start[row]), ticks(intervals.end[row])
    if not part.shown[job] or end < part.first or begin > part.last:
        return messages_until(to, content.messages, end + 1, at)
    at, seen = open_region(to, content, begin, at)
    at = wrote(at, begin, enter_job(to, content, job, seen))
    at = begin_requests(at, interval, requests)
    if len(chunks.rows) > 0:
        for index in range(chunks.first[interval], chunks.first[interval + 1]):
            at = _write_chunk(to, content, interval, index, end, at)
    at = write_refusal(to, content, interval, at, requests)
    if len(intervals.told) > 0 and intervals.told[interval] < intervals.end[row]:
        idle = max(at.time, ticks(intervals.told[interval]))
        if idle < end and idle <= part.last:
            at = serve_until(to, content, interval, idle, True, at, requests)
            at, seen = open_region(to, content, idle, at)
            at = wrote(at, idle, enter(to.api.enter, to.writer, 0, stamp(to, seen), content.idle_region))
            at = serve_until(to, content, interval, end, True, at, requests)
            at = close_region(to, content, end, content.idle_region, at)
    at = serve_until(to, content, interval, end, True, at, requests)
    at = messages_until(to, content.messages, min(end, part.last) + 1, at)
    return close_region(to, content, end, content.jobs.region[job], at)


@kernel(_nrt=False)
def enter_job(to: Target, content: Content, job: int, time: int) -> int:
    """Write that a job begins."""
    region = content.jobs.region[job]
    if not content.describe:
        return enter(to.api.enter, to.writer, 0, stamp(to, time), region)
    failed = add_uint(to.api.add_uint64, to.attributes, JOB_ID, content.jobs.job_id[job])
    if content.jobs.has_loop[job]:
        failed |= add_string(to.api.add_string, to.attributes, TECHNIQUE, TECHNIQUE_STRING)
    return failed | enter(to.api.enter, to.writer, to.attributes, stamp(to, time), region)


@kernel(_nrt=False)
def _write_chunk(
    to: Target, content: Content, interval: int, chunk: int, limit: int, at: Progress
) -> Progress:
    """Write one chunk, between the time reached and ``limit``, if the part that is shown has some of it."""
    rows, part = content.chunks.rows, content.part
    start, end = rows[chunk, 0], rows[chunk, 1]
    first, size, step = rows[chunk, 2], rows[chunk, 3], rows[chunk, 4]
    begin = max(at.time, min(start, limit))
    stop = max(begin, min(end, limit))
    if abs(begin - start) > TOLERANCE or abs(stop - end) > TOLERANCE:
        return Progress(at.time, at.item, at.last_item, at.events, at.failed, chunk, at.service)
    at = before_chunk(to, content, interval, chunk, begin, at, content.requests)
    if stop < part.first or begin > part.last:
        at = serve_until(to, content, interval, stop, False, at, content.requests)
        return Progress(stop, at.item, at.last_item, at.events, at.failed, -1, at.service)
    at, seen = open_region(to, content, begin, at)
    failed = _add_iterations(to, content.size_bits, size)
    if content.details:
        failed |= add_uint(to.api.add_uint64, to.attributes, FIRST_ITERATION, first)
        failed |= add_uint(to.api.add_uint64, to.attributes, STEP, step)
    failed |= enter(to.api.enter, to.writer, to.attributes, stamp(to, seen), CHUNK_REGION)
    at = wrote(at, begin, failed)
    at = serve_until(to, content, interval, stop, False, at, content.requests)
    return close_region(to, content, stop, CHUNK_REGION, at)


@kernel(_nrt=False)
def _add_iterations(to: Target, bits: int, size: int) -> int:
    """Add the iterations of a chunk to the attributes of the next event."""
    if bits == 8:
        return add_uint8(to.api.add_uint8, to.attributes, ITERATIONS, size)
    if bits == 16:
        return add_uint16(to.api.add_uint16, to.attributes, ITERATIONS, size)
    if bits == 32:
        return add_uint32(to.api.add_uint32, to.attributes, ITERATIONS, size)
    return add_uint(to.api.add_uint64, to.attributes, ITERATIONS, size)


@kernel(_nrt=False)
def write_batch(
    api: Api, archive: int, attributes: int, clock: Ints, messages: MessageEvents, begin: int, end: int
) -> tuple[int, int]:
    """Write the dispatcher's location: its sides of messages, in its region if that has an ``end``.

    Readers such as Pipit number processes by those that have events: this one has, then.
    Returns a status, not 0 if the library failed, and the number of events.
    """
    to = shared(Target(api, get_writer(api.get_evt_writer, archive, BATCH_LOCATION), attributes, clock))
    begin_location(to)
    if to.writer == 0:
        return 1, 0
    failed = 0
    if end >= 0:
        failed |= enter(api.enter, to.writer, 0, stamp(to, begin), DISPATCHER_REGION)
    first, last = messages.first[BATCH_LOCATION], messages.first[BATCH_LOCATION + 1]
    for item in range(first, last):
        failed |= write_message(to, messages, item)
    if end >= 0:
        failed |= leave(api.leave, to.writer, 0, stamp(to, end), DISPATCHER_REGION)
    return failed | close_writer(api.close_evt_writer, archive, to.writer), last - first + 2 * (end >= 0)


@kernel(_nrt=False)
def write_metrics(
    api: Api, archive: int, samples: Samples, member_types: int, values: int
) -> tuple[int, int]:
    """Write the location of metrics.

    ``member_types`` and ``values`` are the addresses of the metrics' type codes and of
    ``samples.values``. Returns as :func:`write_batch`.
    """
    writer = get_writer(api.get_evt_writer, archive, METRIC_LOCATION)
    if writer == 0:
        return 1, 0
    failed, members = 0, samples.values.shape[1]
    for sample in range(len(samples.times)):
        where = values + sample * members * samples.values.itemsize
        failed |= metric(
            api.metric, writer, 0, samples.times[sample], METRIC_CLASS, members, member_types, where
        )
    return failed | close_writer(api.close_evt_writer, archive, writer), len(samples.times)
