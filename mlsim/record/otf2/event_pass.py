"""The compiled pass that writes all events of a trace, and its steps: regions, messages and requests."""

from typing import NamedTuple

import numpy as np

from mlsim._jit import kernel, shared
from mlsim._runtime.arrays import Ints
from mlsim.record.column_types import MessageKind
from mlsim.record.otf2 import otf2_library as otf2
from mlsim.record.otf2 import trace_layout as refs
from mlsim.record.otf2.trace_content import NUMBER_BYTES, Content, MessageEvents, Samples

_RELEASE_REQUEST, _LAST_WITH_REMAINS = int(MessageKind.RELEASE_REQUEST), int(MessageKind.JOB_COMPLETED)

LAST, LATEST, TIME, ITEM, LAST_ITEM, EVENTS, FAILED, MISPLACED, SERVICE = range(9)
"""Places in the state of writing.

The time [ns] that the last event of this location was written with, or :data:`TIES_STAY`; the latest of all
locations; the time reached, of the whole run, of which a part may be shown; the next message event, and the
end of those of this location; its number of events; not 0 after a failed call; a chunk that lies outside of
its job, or -1; the next request that a master serves.
"""
TIES_STAY = int(np.iinfo(np.int64).min)
"""In place of the time of a location's last event: events at the same time stay so."""


class Target(NamedTuple):
    """Output of events: the library's functions, an event writer, an attribute list, and the state."""

    api: otf2.Api
    writer: int
    attributes: int
    state: Ints


def new_state(apart: bool) -> Ints:
    """Return the state before the first location; ``apart``: no two events of one have the same time."""
    state = np.zeros(9, np.int64)
    state[LAST], state[MISPLACED] = -1 if apart else TIES_STAY, -1
    return state


@kernel(_nrt=False)
def begin_location(to: Target, messages: MessageEvents, location: int) -> None:
    """Forget the location before."""
    state = to.state
    if state[LAST] != TIES_STAY:
        state[LAST] = -1
    state[ITEM], state[LAST_ITEM] = messages.first[location], messages.first[location + 1]
    state[TIME], state[EVENTS], state[FAILED], state[MISPLACED] = 0, 0, int(to.writer == 0), -1


@kernel(_nrt=False)
def stamp(to: Target, time: int) -> int:
    """Return the time, in ns, that an event is written with: later than the last one if ties are resolved."""
    state = to.state
    if state[LAST] == TIES_STAY:
        return time
    moved = max(time, state[LAST] + 1)
    state[LAST], state[LATEST] = moved, max(moved, state[LATEST])
    return int(moved)


@kernel(_nrt=False)
def wrote(to: Target, time: int, failed: int) -> None:
    """Advance past an event at ``time``."""
    to.state[TIME] = time
    to.state[EVENTS] += 1
    to.state[FAILED] |= failed


@kernel(_nrt=False)
def open_region(to: Target, content: Content, time: int) -> int:
    """Write the messages before a region that is entered; return when the trace shows it entered.

    Where the part that is shown begins later, that is its beginning.
    """
    seen = max(time, content.part.first)
    messages_until(to, content.messages, seen)
    return int(seen)


@kernel(_nrt=False)
def enter_region(to: Target, content: Content, time: int, region: int) -> None:
    """Enter a region without attributes."""
    seen = open_region(to, content, time)
    wrote(to, time, otf2.enter(to.api.enter, to.writer, 0, stamp(to, seen), region))


@kernel(_nrt=False)
def close_region(to: Target, content: Content, time: int, region: int) -> None:
    """Leave a region, at the end of the part that is shown if it lasts longer, after the messages in it."""
    last = content.part.last
    seen = min(time, last)
    messages_until(to, content.messages, seen + (last < time))
    wrote(to, time, otf2.leave(to.api.leave, to.writer, 0, stamp(to, seen), region))


@kernel(_nrt=False)
def messages_until(to: Target, messages: MessageEvents, limit: int) -> None:
    """Write the sends and receives of messages before ``limit``."""
    state = to.state
    while state[ITEM] < state[LAST_ITEM] and messages.time[state[ITEM]] < limit:
        state[FAILED] |= write_message(to, messages, state[ITEM])
        state[ITEM] += 1
        state[EVENTS] += 1


@kernel(_nrt=False)
def write_message(to: Target, messages: MessageEvents, item: int) -> int:
    """Write one side of a message."""
    api, listed, kind = to.api, to.attributes, messages.kind[item]
    failed = otf2.add_string(api.add_string, listed, refs.MESSAGE, refs.KIND_STRING + kind)
    failed |= otf2.add_uint(api.add_uint64, listed, refs.JOB_ID, messages.job_id[item])
    if kind <= _LAST_WITH_REMAINS:
        iterations, work = messages.remaining_iterations[item], messages.remaining_work[item]
        failed |= otf2.add_int(api.add_int64, listed, refs.REMAINING_ITERATIONS, iterations)
        failed |= otf2.add_double(api.add_double, listed, refs.REMAINING_WORK, work)
    if kind == _RELEASE_REQUEST:
        failed |= otf2.add_uint(api.add_uint64, listed, refs.NODES, messages.nodes[item])
        failed |= otf2.add_uint(api.add_uint64, listed, refs.FOR_JOB, messages.for_job[item])
    side = api.mpi_send if messages.is_sent[item] else api.mpi_recv
    time, peer, length = stamp(to, messages.time[item]), messages.peer[item], messages.length[item]
    tag = messages.tag[item]
    return failed | otf2.message(side, to.writer, listed, time, peer, refs.COMMUNICATOR, tag, length)


_ROUNDING = 2  # so many ns four rounded times may make a wait of


@kernel(_nrt=False)
def before_chunk(to: Target, content: Content, interval: int, chunk: int, begin: int) -> None:
    """Write what comes before a chunk: its request and the reply; of a master, what it serves until then."""
    requests = content.requests
    if not requests.shown:
        return
    asked = content.chunks.rows[chunk, 5]
    if requests.serving[interval] >= 0:
        _serve_before_own(to, content, interval, asked, begin)
    elif asked >= 0 and not (requests.by_messages and requests.other[interval] < 0):
        _ask(to, content, interval, max(to.state[TIME], min(asked, begin)), begin, True)


@kernel(_nrt=False)
def write_refusal(to: Target, content: Content, interval: int) -> None:
    """Write a PE's last request, and the reply that no work is left."""
    if content.requests.shown and content.requests.refused[interval, 1] >= 0:
        asked, told = content.requests.refused[interval, 0], content.requests.refused[interval, 1]
        asked = max(to.state[TIME], asked)
        _ask(to, content, interval, asked, max(asked, told), False)


@kernel(_nrt=False)
def serve_until(to: Target, content: Content, interval: int, limit: int, closed: bool) -> None:
    """Write what a master serves until ``limit``, or, if not ``closed``, before it."""
    while _serves(to, content, interval, limit, closed):
        _serve(to, content, limit)


@kernel(_nrt=False)
def _ask(to: Target, content: Content, interval: int, asked: int, begin: int, gets: bool) -> None:
    """Write a request until its chunk begins, or, unless the PE ``gets`` one, until the notice of none."""
    requests = content.requests
    region = refs.WAIT_REGION if requests.waits else refs.REQUEST_REGION
    other, is_seen = requests.other[interval], _is_seen(content, asked, begin)
    if is_seen:
        enter_region(to, content, asked, region)
    if requests.by_messages:
        arrived = asked + requests.way[interval]
        taken = begin - requests.way[interval] - (requests.working[interval] if gets else 0)
        tag = requests.tag[interval]
        _say(to, content, asked, other, True, tag)
        if taken - arrived > _ROUNDING:
            _span(to, content, refs.WAIT_REGION, arrived, taken)
        _say(to, content, begin, other, False, tag + 1)
    elif requests.calculates and gets:
        # A PE takes a chunk itself: what it calculates, and an atomic on the window before and after that.
        calculated = max(asked, begin - requests.after[interval])
        calculates = max(asked, calculated - requests.working[interval])
        _access(to, content, other, asked, calculates, refs.FETCH_AND_INCREMENT)
        _span(to, content, refs.CALCULATION_REGION, calculates, calculated)
        _access(to, content, other, calculated, begin, refs.FETCH_AND_ADD)
    else:
        _access(to, content, other, asked, begin, refs.FETCH_AND_INCREMENT)
    if is_seen:
        close_region(to, content, begin, region)
    to.state[TIME] = begin


@kernel(_nrt=False)
def _access(to: Target, content: Content, owner: int, begin: int, end: int, what: int) -> None:
    """Write an atomic on a window, if there is one: its begin and completion, as far as the part has them.

    A PE makes one after the other, so that a completion is that of the atomic before it.
    """
    part, api, window, size = content.part, to.api, refs.CHUNK_WINDOW, NUMBER_BYTES
    if not content.requests.by_atomics:
        return
    if part.first <= begin <= part.last:
        messages_until(to, content.messages, begin)
        time = stamp(to, begin)
        failed = otf2.atomic(api.rma_atomic, to.writer, 0, time, window, owner, what, size, size, 0)
        wrote(to, begin, failed)
    if part.first <= end <= part.last:
        messages_until(to, content.messages, end)
        wrote(to, end, otf2.completed(api.rma_completed, to.writer, 0, stamp(to, end), window, 0))


@kernel(_nrt=False)
def _is_seen(content: Content, begin: int, end: int) -> bool:
    """Whether the part that is shown has some of a region."""
    return bool(end >= content.part.first and begin <= content.part.last)


@kernel(_nrt=False)
def _span(to: Target, content: Content, region: int, begin: int, end: int) -> None:
    """Write a region that has some length, if the part that is shown has some of it."""
    if end <= begin:
        return
    if _is_seen(content, begin, end):
        enter_region(to, content, begin, region)
        close_region(to, content, end, region)
    to.state[TIME] = end


@kernel(_nrt=False)
def _say(to: Target, content: Content, time: int, peer: int, is_sent: bool, tag: int) -> None:
    """Write one side of a request or reply, if it is in the part that is shown."""
    if time < content.part.first or time > content.part.last:
        return
    messages_until(to, content.messages, time)
    side, when = to.api.mpi_send if is_sent else to.api.mpi_recv, stamp(to, time)
    length = content.requests.message_bytes
    failed = otf2.message(side, to.writer, 0, when, peer, refs.COMMUNICATOR, tag, length)
    wrote(to, to.state[TIME], failed)


@kernel(_nrt=False)
def _serve_before_own(to: Target, content: Content, interval: int, asked: int, begin: int) -> None:
    """Write what a master serves until a chunk of its own begins, which it calculates in its turn.

    From asking for that chunk to its begin it serves without a pause. So where none of the others is served
    for as long as a calculation takes, it is its own.
    """
    requests, state, region = content.requests, to.state, refs.CALCULATION_REGION
    spent = requests.serving[interval]
    calculated = spent == 0 or not requests.own
    while _serves(to, content, interval, begin, True):
        taken, since = requests.served[state[SERVICE], 0], max(state[TIME], asked)
        if not calculated and taken - since > spent // 2:
            _span(to, content, region, since, min(since + spent, taken))
            calculated = True
        _serve(to, content, begin)
    if not calculated:
        _span(to, content, region, min(max(state[TIME], asked), begin), begin)


@kernel(_nrt=False)
def _serves(to: Target, content: Content, interval: int, limit: int, closed: bool) -> bool:
    """Whether a master serves another request until ``limit``, by the middle of its work for it.

    Rounding may leave the ends of that work some ns on the wrong side of an end of its own chunk.
    """
    requests, service = content.requests, to.state[SERVICE]
    if not requests.shown or service >= requests.last[interval]:
        return False
    taken, sent = requests.served[service, 0], requests.served[service, 1]
    taken = max(to.state[TIME], taken)
    middle = taken + (max(taken, sent) - taken) // 2
    return bool(middle < limit or (closed and middle == limit))


@kernel(_nrt=False)
def _serve(to: Target, content: Content, limit: int) -> None:
    """Write that a master takes a request, works for the reply and sends it, all that until ``limit``."""
    requests, state = content.requests, to.state
    service = state[SERVICE]
    taken = max(state[TIME], requests.served[service, 0])
    sent = min(max(taken, requests.served[service, 1]), limit)
    of = requests.served[service, 2]
    worker, tag = requests.rank[of], requests.tag[of]
    state[SERVICE] += 1
    _say(to, content, taken, worker, False, tag)
    _span(to, content, refs.CALCULATION_REGION, taken, sent)
    _say(to, content, sent, worker, True, tag + 1)
    state[TIME] = sent


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
        begin_location(to, known.messages, location)
        if state[FAILED] == 0:
            _write_row(to, known, row)
            state[FAILED] |= otf2.close_writer(api.close_evt_writer, archive, to.writer)
        if state[FAILED] != 0 or state[MISPLACED] >= 0:
            return
        events[location] = state[EVENTS]


@kernel(_nrt=False)
def _write_row(to: Target, content: Content, row: int) -> None:
    """Write one location's events."""
    intervals = content.intervals
    for interval in range(intervals.first[row], intervals.first[row + 1]):
        _write_job(to, content, interval)
        if to.state[FAILED] != 0 or to.state[MISPLACED] >= 0:
            break
    messages_until(to, content.messages, END_OF_TIME)


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
        messages_until(to, content.messages, end + 1)
        return
    seen = open_region(to, content, begin)
    wrote(to, begin, enter_job(to, content, job, seen))
    if content.requests.shown:
        state[SERVICE] = content.requests.first[interval]
    if len(chunks.rows) > 0:
        for index in range(chunks.first[interval], chunks.first[interval + 1]):
            _write_chunk(to, content, interval, index, end)
    write_refusal(to, content, interval)
    if len(intervals.told) > 0 and intervals.told[interval] < intervals.end[row]:
        idle = max(state[TIME], ticks(intervals.told[interval]))
        if idle < end and idle <= part.last:
            serve_until(to, content, interval, idle, True)
            enter_region(to, content, idle, content.idle_region)
            serve_until(to, content, interval, end, True)
            close_region(to, content, end, content.idle_region)
    serve_until(to, content, interval, end, True)
    messages_until(to, content.messages, min(end, part.last) + 1)
    close_region(to, content, end, content.jobs.region[job])


@kernel(_nrt=False)
def enter_job(to: Target, content: Content, job: int, time: int) -> int:
    """Write that a job begins; return a failure of the library, or 0."""
    region, api = content.jobs.region[job], to.api
    if not content.describe:
        return otf2.enter(api.enter, to.writer, 0, stamp(to, time), region)
    failed = otf2.add_uint(api.add_uint64, to.attributes, refs.JOB_ID, content.jobs.job_id[job])
    technique = content.jobs.technique[job]
    if technique > 0:
        failed |= otf2.add_string(api.add_string, to.attributes, refs.TECHNIQUE, technique)
    return failed | otf2.enter(api.enter, to.writer, to.attributes, stamp(to, time), region)


@kernel(_nrt=False)
def _write_chunk(to: Target, content: Content, interval: int, chunk: int, limit: int) -> None:
    """Write one chunk, between the time reached and ``limit``, if the part that is shown has some of it."""
    rows, part, state, api = content.chunks.rows, content.part, to.state, to.api
    start, end = rows[chunk, 0], rows[chunk, 1]
    first, size, step = rows[chunk, 2], rows[chunk, 3], rows[chunk, 4]
    begin = max(state[TIME], min(start, limit))
    stop = max(begin, min(end, limit))
    if abs(begin - start) > TOLERANCE or abs(stop - end) > TOLERANCE:
        state[MISPLACED] = chunk
        return
    before_chunk(to, content, interval, chunk, begin)
    if stop < part.first or begin > part.last:
        serve_until(to, content, interval, stop, False)
        state[TIME] = stop
        return
    seen = open_region(to, content, begin)
    failed = _add_iterations(to, content.size_bits, size)
    if content.details:
        failed |= otf2.add_uint(api.add_uint64, to.attributes, refs.FIRST_ITERATION, first)
        failed |= otf2.add_uint(api.add_uint64, to.attributes, refs.STEP, step)
    failed |= otf2.enter(api.enter, to.writer, to.attributes, stamp(to, seen), refs.CHUNK_REGION)
    wrote(to, begin, failed)
    serve_until(to, content, interval, stop, False)
    close_region(to, content, stop, refs.CHUNK_REGION)


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
    begin_location(to, messages, refs.BATCH_LOCATION)
    if state[FAILED] != 0:
        return 0
    if end >= 0:
        failed |= otf2.enter(api.enter, writer, 0, stamp(to, begin), refs.DISPATCHER_REGION)
    messages_until(to, messages, END_OF_TIME)
    if end >= 0:
        failed |= otf2.leave(api.leave, writer, 0, stamp(to, end), refs.DISPATCHER_REGION)
    state[FAILED] |= failed | otf2.close_writer(api.close_evt_writer, archive, writer)
    return int(state[EVENTS] + 2 * (end >= 0))


@kernel(_nrt=False)
def write_metrics(
    api: otf2.Api, archive: int, state: Ints, samples: Samples, member_types: int, values: int
) -> int:
    """Write the location of metrics; return its number of events.

    ``member_types`` and ``values`` are the addresses of the metrics' type codes and of ``samples.values``.
    """
    writer = otf2.get_writer(api.get_evt_writer, archive, refs.METRIC_LOCATION)
    if writer == 0:
        state[FAILED] = 1
        return 0
    failed, members = 0, samples.values.shape[1]
    for sample in range(len(samples.times)):
        where, time = values + sample * members * samples.values.itemsize, samples.times[sample]
        failed |= otf2.metric(api.metric, writer, 0, time, refs.METRIC_CLASS, members, member_types, where)
    state[FAILED] |= failed | otf2.close_writer(api.close_evt_writer, archive, writer)
    return len(samples.times)
