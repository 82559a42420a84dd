"""The compiled pass that writes all events of a trace."""

import numpy as np

from mlsim._jit import kernel, shared
from mlsim._runtime.arrays import Ints
from mlsim.record.otf2 import otf2_library as otf2
from mlsim.record.otf2 import row_events as steps
from mlsim.record.otf2 import trace_references as refs
from mlsim.record.otf2.row_events import Target
from mlsim.record.otf2.trace_content import Content
from mlsim.record.otf2.trace_messages import MessageEvents, Samples

END_OF_TIME = int(np.iinfo(np.int64).max)
# Sums of floats may put a chunk's bounds outside of its job's by a rounding error, which is cut off;
# at more than this, in ns, the records are wrong.
TOLERANCE = 1000


@kernel(_nrt=False)
def write_rows(
    api: otf2.Api,
    archive: int,
    attributes: int,
    state: Ints,
    content: Content,
    events: Ints,
    low: int,
    high: int,
) -> None:
    """Write the locations of rows ``low`` to ``high - 1``; stop at the first failure, which ``state`` has.

    ``archive`` and ``attributes`` are handles; ``events`` receives the number of events per location.
    """
    known = shared(content)
    for row in range(low, high):
        if not known.intervals.shown[row]:
            continue
        location = refs.FIRST_ROW + row
        writer = otf2.get_writer(api.get_evt_writer, archive, location)
        to = shared(Target(api, writer, attributes, state))
        steps.begin_location(to, known.messages, location)
        if state[steps.FAILED] == 0:
            _write_row(to, known, row)
            state[steps.FAILED] |= otf2.close_writer(api.close_evt_writer, archive, to.writer)
        if state[steps.FAILED] != 0 or state[steps.MISPLACED] >= 0:
            return
        events[location] = state[steps.EVENTS]


@kernel(_nrt=False)
def _write_row(to: Target, content: Content, row: int) -> None:
    """Write one location's events."""
    intervals = content.intervals
    for interval in range(intervals.first[row], intervals.first[row + 1]):
        _write_job(to, content, interval)
        if to.state[steps.FAILED] != 0 or to.state[steps.MISPLACED] >= 0:
            break
    steps.messages_until(to, content.messages, END_OF_TIME)


@kernel(_nrt=False)
def ticks(seconds: float) -> int:
    """Convert a time to the trace's clock."""
    return int(np.rint(seconds * 1e9))


@kernel(_nrt=False)
def _write_job(to: Target, content: Content, interval: int) -> None:
    """Write one job's time on one location with what is nested in it."""
    intervals, chunks, part, state = content.intervals, content.chunks, content.part, to.state
    row = intervals.occupancy_row[interval]
    job, begin, end = intervals.job[row], ticks(intervals.start[row]), ticks(intervals.end[row])
    if not part.shown[job] or end < part.first or begin > part.last:
        steps.messages_until(to, content.messages, end + 1)
        return
    seen = steps.open_region(to, content, begin)
    steps.wrote(to, begin, enter_job(to, content, job, seen))
    if content.requests.shown:
        state[steps.SERVICE] = content.requests.first[interval]
    if len(chunks.rows) > 0:
        for index in range(chunks.first[interval], chunks.first[interval + 1]):
            _write_chunk(to, content, interval, index, end)
    steps.write_refusal(to, content, interval)
    if len(intervals.told) > 0 and intervals.told[interval] < intervals.end[row]:
        idle = max(state[steps.TIME], ticks(intervals.told[interval]))
        if idle < end and idle <= part.last:
            steps.serve_until(to, content, interval, idle, True)
            steps.enter_region(to, content, idle, content.idle_region)
            steps.serve_until(to, content, interval, end, True)
            steps.close_region(to, content, end, content.idle_region)
    steps.serve_until(to, content, interval, end, True)
    steps.messages_until(to, content.messages, min(end, part.last) + 1)
    steps.close_region(to, content, end, content.jobs.region[job])


@kernel(_nrt=False)
def enter_job(to: Target, content: Content, job: int, time: int) -> int:
    """Write that a job begins; return a failure of the library, or 0."""
    region, api = content.jobs.region[job], to.api
    if not content.describe:
        return otf2.enter(api.enter, to.writer, 0, steps.stamp(to, time), region)
    failed = otf2.add_uint(api.add_uint64, to.attributes, refs.JOB_ID, content.jobs.job_id[job])
    if content.jobs.has_loop[job]:
        failed |= otf2.add_string(api.add_string, to.attributes, refs.TECHNIQUE, refs.TECHNIQUE_STRING)
    return failed | otf2.enter(api.enter, to.writer, to.attributes, steps.stamp(to, time), region)


@kernel(_nrt=False)
def _write_chunk(to: Target, content: Content, interval: int, chunk: int, limit: int) -> None:
    """Write one chunk, between the time reached and ``limit``, if the part that is shown has some of it."""
    rows, part, state, api = content.chunks.rows, content.part, to.state, to.api
    start, end = rows[chunk, 0], rows[chunk, 1]
    first, size, step = rows[chunk, 2], rows[chunk, 3], rows[chunk, 4]
    begin = max(state[steps.TIME], min(start, limit))
    stop = max(begin, min(end, limit))
    if abs(begin - start) > TOLERANCE or abs(stop - end) > TOLERANCE:
        state[steps.MISPLACED] = chunk
        return
    steps.before_chunk(to, content, interval, chunk, begin)
    if stop < part.first or begin > part.last:
        steps.serve_until(to, content, interval, stop, False)
        state[steps.TIME] = stop
        return
    seen = steps.open_region(to, content, begin)
    failed = _add_iterations(to, content.size_bits, size)
    if content.details:
        failed |= otf2.add_uint(api.add_uint64, to.attributes, refs.FIRST_ITERATION, first)
        failed |= otf2.add_uint(api.add_uint64, to.attributes, refs.STEP, step)
    failed |= otf2.enter(api.enter, to.writer, to.attributes, steps.stamp(to, seen), refs.CHUNK_REGION)
    steps.wrote(to, begin, failed)
    steps.serve_until(to, content, interval, stop, False)
    steps.close_region(to, content, stop, refs.CHUNK_REGION)


@kernel(_nrt=False)
def _add_iterations(to: Target, bits: int, size: int) -> int:
    """Add the iterations of a chunk to the attributes of the next event."""
    if bits == 8:
        return otf2.add_uint8(to.api.add_uint8, to.attributes, refs.ITERATIONS, size)
    if bits == 16:
        return otf2.add_uint16(to.api.add_uint16, to.attributes, refs.ITERATIONS, size)
    if bits == 32:
        return otf2.add_uint32(to.api.add_uint32, to.attributes, refs.ITERATIONS, size)
    return otf2.add_uint(to.api.add_uint64, to.attributes, refs.ITERATIONS, size)


@kernel(_nrt=False)
def write_batch(
    api: otf2.Api, archive: int, attributes: int, state: Ints, messages: MessageEvents, begin: int, end: int
) -> int:
    """Write the dispatcher's location: its sides of messages, in its region if that has an ``end``.

    Readers such as Pipit number processes by those that have events: this one has, then.
    Returns the number of events.
    """
    writer = otf2.get_writer(api.get_evt_writer, archive, refs.BATCH_LOCATION)
    to, failed = shared(Target(api, writer, attributes, state)), 0
    steps.begin_location(to, messages, refs.BATCH_LOCATION)
    if state[steps.FAILED] != 0:
        return 0
    if end >= 0:
        failed |= otf2.enter(api.enter, writer, 0, steps.stamp(to, begin), refs.DISPATCHER_REGION)
    steps.messages_until(to, messages, END_OF_TIME)
    if end >= 0:
        failed |= otf2.leave(api.leave, writer, 0, steps.stamp(to, end), refs.DISPATCHER_REGION)
    state[steps.FAILED] |= failed | otf2.close_writer(api.close_evt_writer, archive, writer)
    return int(state[steps.EVENTS] + 2 * (end >= 0))


@kernel(_nrt=False)
def write_metrics(
    api: otf2.Api, archive: int, state: Ints, samples: Samples, member_types: int, values: int
) -> int:
    """Write the location of metrics; return its number of events.

    ``member_types`` and ``values`` are the addresses of the metrics' type codes and of ``samples.values``.
    """
    writer = otf2.get_writer(api.get_evt_writer, archive, refs.METRIC_LOCATION)
    if writer == 0:
        state[steps.FAILED] = 1
        return 0
    failed, members = 0, samples.values.shape[1]
    for sample in range(len(samples.times)):
        where, time = values + sample * members * samples.values.itemsize, samples.times[sample]
        failed |= otf2.metric(api.metric, writer, 0, time, refs.METRIC_CLASS, members, member_types, where)
    state[steps.FAILED] |= failed | otf2.close_writer(api.close_evt_writer, archive, writer)
    return len(samples.times)
