"""Steps of writing a row, and requests among its events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlsim._jit import by_last_type, kernel
from mlsim._runtime.arrays import Ints
from mlsim.record.column_types import MessageKind
from mlsim.record.otf2.otf2_library import (
    Api,
    add_double,
    add_int,
    add_string,
    add_uint,
    atomic,
    completed,
    enter,
    leave,
    message,
)
from mlsim.record.otf2.trace_content import Content, NoRequests, Requests
from mlsim.record.otf2.trace_messages import NUMBER_BYTES, MessageEvents
from mlsim.record.otf2.trace_references import (
    CALCULATION_REGION,
    CHUNK_WINDOW,
    COMMUNICATOR,
    FETCH_AND_ADD,
    FETCH_AND_INCREMENT,
    FOR_JOB,
    JOB_ID,
    KIND_STRING,
    MESSAGE,
    NODES,
    REMAINING_ITERATIONS,
    REMAINING_WORK,
    REQUEST_REGION,
    WAIT_REGION,
)

_RELEASE_REQUEST, _LAST_WITH_REMAINS = int(MessageKind.RELEASE_REQUEST), int(MessageKind.JOB_COMPLETED)


class Target(NamedTuple):
    """Output of events: the library's functions, an event writer and an attribute list.

    ``clock``: of this location, see :func:`stamp`.
    """

    api: Api
    writer: int
    attributes: int
    clock: Ints


TIES_STAY = np.iinfo(np.int64).min
"""In place of the time of a location's last event: events at the same time stay so."""


@kernel(_nrt=False)
def stamp(to: Target, time: int) -> int:
    """Return the time, in ns, that an event is written with: later than the last one if ties are resolved.

    ``to.clock``: the time of the last event, and the latest of all locations.
    """
    if to.clock[0] == TIES_STAY:
        return time
    moved = max(time, int(to.clock[0]) + 1)
    to.clock[0], to.clock[1] = moved, max(moved, to.clock[1])
    return moved


class Progress(NamedTuple):
    """Progress of a location: time of the last event, next and last message event, events written.

    ``time`` is that of the whole run, of which a part may be shown. ``service`` is the next request that a
    master serves.
    ``failed`` is not 0 after a failed call, and ``misplaced`` a chunk that lies outside of its job, or -1.
    """

    time: int
    item: int
    last_item: int
    events: int
    failed: int
    misplaced: int
    service: int


@kernel(_nrt=False)
def wrote(at: Progress, time: int, failed: int) -> Progress:
    """Advance past an event at ``time``."""
    return Progress(time, at.item, at.last_item, at.events + 1, at.failed | failed, at.misplaced, at.service)


@kernel(_nrt=False)
def open_region(to: Target, content: Content, time: int, at: Progress) -> tuple[Progress, int]:
    """Write the messages before a region that is entered; return also when the trace shows it entered.

    Where the part that is shown begins later, that is its beginning.
    """
    seen = max(time, content.part.first)
    return messages_until(to, content.messages, seen, at), seen


@kernel(_nrt=False)
def close_region(to: Target, content: Content, time: int, region: int, at: Progress) -> Progress:
    """Leave a region, at the end of the part that is shown if it lasts longer, after the messages in it."""
    last = content.part.last
    seen = min(time, last)
    at = messages_until(to, content.messages, seen + (last < time), at)
    return wrote(at, time, leave(to.api.leave, to.writer, 0, stamp(to, seen), region))


@kernel(_nrt=False)
def messages_until(to: Target, messages: MessageEvents, limit: int, at: Progress) -> Progress:
    """Write the sends and receives of messages before ``limit``."""
    failed = at.failed
    item = at.item
    while item < at.last_item and messages.time[item] < limit:
        failed |= write_message(to, messages, item)
        item += 1
    events = at.events + item - at.item
    return Progress(at.time, item, at.last_item, events, failed, at.misplaced, at.service)


@kernel(_nrt=False)
def write_message(to: Target, messages: MessageEvents, item: int) -> int:
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
    time, peer, length = stamp(to, messages.time[item]), messages.peer[item], messages.length[item]
    tag = messages.tag[item]
    return failed | message(side, to.writer, to.attributes, time, peer, COMMUNICATOR, tag, length)


# mypy: disable-error-code="empty-body"
# by_last_type gives a declared function its bodies.


_ROUNDING = 2
"""So many ns four rounded times may make a wait of."""


@kernel(_nrt=False)
def _begin_none(at: Progress, _interval: int, _requests: NoRequests) -> Progress:
    return at


@kernel(_nrt=False)
def _begin(at: Progress, interval: int, requests: Requests) -> Progress:
    return _with_service(at, requests.first[interval])


@by_last_type({NoRequests: _begin_none, Requests: _begin})
def begin_requests(at: Progress, interval: int, requests: Requests | NoRequests) -> Progress:
    """Begin with the requests that a master serves in an interval."""


@kernel(_nrt=False)
def _nothing_before(
    _to: Target,
    _content: Content,
    _interval: int,
    _chunk: int,
    _begin: int,
    at: Progress,
    _requests: NoRequests,
) -> Progress:
    return at


@kernel(_nrt=False)
def _before_chunk(
    to: Target, content: Content, interval: int, chunk: int, begin: int, at: Progress, requests: Requests
) -> Progress:
    asked = content.chunks.rows[chunk, 5]
    if requests.serving[interval] >= 0:
        return _serve_before_own(to, content, requests, interval, asked, begin, at)
    if asked < 0 or (requests.by_messages and requests.other[interval] < 0):
        return at
    asked = max(at.time, min(asked, begin))
    return _ask(to, content, requests, interval, asked, begin, True, at)


@by_last_type({NoRequests: _nothing_before, Requests: _before_chunk})
def before_chunk(
    to: Target,
    content: Content,
    interval: int,
    chunk: int,
    begin: int,
    at: Progress,
    requests: Requests | NoRequests,
) -> Progress:
    """Write what comes before a chunk: its request and the reply; of a master, what it serves until then."""


@kernel(_nrt=False)
def _no_refusal(
    _to: Target, _content: Content, _interval: int, at: Progress, _requests: NoRequests
) -> Progress:
    return at


@kernel(_nrt=False)
def _write_refusal(to: Target, content: Content, interval: int, at: Progress, requests: Requests) -> Progress:
    asked, told = requests.refused[interval, 0], requests.refused[interval, 1]
    if told < 0:
        return at
    asked = max(at.time, asked)
    return _ask(to, content, requests, interval, asked, max(asked, told), False, at)


@by_last_type({NoRequests: _no_refusal, Requests: _write_refusal})
def write_refusal(
    to: Target, content: Content, interval: int, at: Progress, requests: Requests | NoRequests
) -> Progress:
    """Write a PE's last request, and the reply that no work is left."""


@kernel(_nrt=False)
def _serve_none(
    _to: Target,
    _content: Content,
    _interval: int,
    _limit: int,
    _closed: bool,
    at: Progress,
    _requests: NoRequests,
) -> Progress:
    return at


@kernel(_nrt=False)
def _serve_until(
    to: Target, content: Content, interval: int, limit: int, closed: bool, at: Progress, requests: Requests
) -> Progress:
    while _serves(requests, interval, limit, closed, at):
        at = _serve(to, content, requests, limit, at)
    return at


@by_last_type({NoRequests: _serve_none, Requests: _serve_until})
def serve_until(
    to: Target,
    content: Content,
    interval: int,
    limit: int,
    closed: bool,
    at: Progress,
    requests: Requests | NoRequests,
) -> Progress:
    """Write what a master serves until ``limit``, or, if not ``closed``, before it."""


@kernel(_nrt=False)
def _with_service(at: Progress, service: int) -> Progress:
    """Return the progress moved to a request that a master serves."""
    return Progress(at.time, at.item, at.last_item, at.events, at.failed, at.misplaced, service)


@kernel(_nrt=False)
def _ask(
    to: Target,
    content: Content,
    requests: Requests,
    interval: int,
    asked: int,
    begin: int,
    gets: bool,
    at: Progress,
) -> Progress:
    """Write a request until its chunk begins, or, unless the PE ``gets`` one, until the notice of none."""
    region = WAIT_REGION if requests.waits else REQUEST_REGION
    other, is_seen = requests.other[interval], _is_seen(content, asked, begin)
    if is_seen:
        at = _enter(to, content, asked, region, at)
    if requests.by_messages:
        arrived = asked + requests.way[interval]
        taken = begin - requests.way[interval] - (requests.working[interval] if gets else 0)
        tag = requests.tag[interval]
        at = _say(to, content, requests, asked, other, True, tag, at)
        if taken - arrived > _ROUNDING:
            at = _span(to, content, WAIT_REGION, arrived, taken, at)
        at = _say(to, content, requests, begin, other, False, tag + 1, at)
    elif requests.calculates and gets:
        at = _serve_oneself(to, content, requests, interval, asked, begin, at)
    else:
        at = _access(to, content, requests, other, asked, begin, FETCH_AND_INCREMENT, at)
    if is_seen:
        at = close_region(to, content, begin, region, at)
    return Progress(begin, at.item, at.last_item, at.events, at.failed, at.misplaced, at.service)


@kernel(_nrt=False)
def _serve_oneself(
    to: Target, content: Content, requests: Requests, interval: int, asked: int, begin: int, at: Progress
) -> Progress:
    """Write how a PE takes a chunk: what it calculates, and an atomic on the window before and after that."""
    other = requests.other[interval]
    calculated = max(asked, begin - requests.after[interval])
    calculates = max(asked, calculated - requests.working[interval])
    at = _access(to, content, requests, other, asked, calculates, FETCH_AND_INCREMENT, at)
    at = _span(to, content, CALCULATION_REGION, calculates, calculated, at)
    return _access(to, content, requests, other, calculated, begin, FETCH_AND_ADD, at)


@kernel(_nrt=False)
def _access(
    to: Target,
    content: Content,
    requests: Requests,
    owner: int,
    begin: int,
    end: int,
    what: int,
    at: Progress,
) -> Progress:
    """Write an atomic on a window, if there is one: its begin and completion, as far as the part has them.

    A PE makes one after the other, so that a completion is that of the atomic before it.
    """
    part = content.part
    if not requests.by_atomics:
        return at
    if part.first <= begin <= part.last:
        at = messages_until(to, content.messages, begin, at)
        sizes = NUMBER_BYTES, NUMBER_BYTES
        failed = atomic(
            to.api.rma_atomic, to.writer, 0, stamp(to, begin), CHUNK_WINDOW, owner, what, *sizes, 0
        )
        at = wrote(at, begin, failed)
    if part.first <= end <= part.last:
        at = messages_until(to, content.messages, end, at)
        at = wrote(at, end, completed(to.api.rma_completed, to.writer, 0, stamp(to, end), CHUNK_WINDOW, 0))
    return at


@kernel(_nrt=False)
def _is_seen(content: Content, begin: int, end: int) -> bool:
    """Whether the part that is shown has some of a region."""
    return bool(end >= content.part.first and begin <= content.part.last)


@kernel(_nrt=False)
def _enter(to: Target, content: Content, time: int, region: int, at: Progress) -> Progress:
    """Enter a region without attributes."""
    at, seen = open_region(to, content, time, at)
    return wrote(at, time, enter(to.api.enter, to.writer, 0, stamp(to, seen), region))


@kernel(_nrt=False)
def _span(to: Target, content: Content, region: int, begin: int, end: int, at: Progress) -> Progress:
    """Write a region that has some length, if the part that is shown has some of it."""
    if end <= begin:
        return at
    if not _is_seen(content, begin, end):
        return Progress(end, at.item, at.last_item, at.events, at.failed, at.misplaced, at.service)
    return close_region(to, content, end, region, _enter(to, content, begin, region, at))


@kernel(_nrt=False)
def _say(
    to: Target,
    content: Content,
    requests: Requests,
    time: int,
    peer: int,
    is_sent: bool,
    tag: int,
    at: Progress,
) -> Progress:
    """Write one side of a request or reply, if it is in the part that is shown."""
    if time < content.part.first or time > content.part.last:
        return at
    at = messages_until(to, content.messages, time, at)
    side = to.api.mpi_send if is_sent else to.api.mpi_recv
    length = requests.message_bytes
    return wrote(at, at.time, message(side, to.writer, 0, stamp(to, time), peer, COMMUNICATOR, tag, length))


@kernel(_nrt=False)
def _serve_before_own(
    to: Target, content: Content, requests: Requests, interval: int, asked: int, begin: int, at: Progress
) -> Progress:
    """Write what a master serves until a chunk of its own begins, which it calculates in its turn.

    From asking for that chunk to its begin it serves without a pause. So where none of the others is served
    for as long as a calculation takes, it is its own.
    """
    spent = requests.serving[interval]
    calculated = spent == 0 or not requests.own
    while _serves(requests, interval, begin, True, at):
        taken, since = requests.served[at.service, 0], max(at.time, asked)
        if not calculated and taken - since > spent // 2:
            at = _span(to, content, CALCULATION_REGION, since, min(since + spent, taken), at)
            calculated = True
        at = _serve(to, content, requests, begin, at)
    if not calculated:
        at = _span(to, content, CALCULATION_REGION, min(max(at.time, asked), begin), begin, at)
    return at


@kernel(_nrt=False)
def _serves(requests: Requests, interval: int, limit: int, closed: bool, at: Progress) -> bool:
    """Whether a master serves another request until ``limit``, by the middle of its work for it.

    Rounding may leave the ends of that work some ns on the wrong side of an end of its own chunk.
    """
    if at.service >= requests.last[interval]:
        return False
    taken, sent = requests.served[at.service, 0], requests.served[at.service, 1]
    taken = max(at.time, taken)
    middle = taken + (max(taken, sent) - taken) // 2
    return bool(middle < limit or (closed and middle == limit))


@kernel(_nrt=False)
def _serve(to: Target, content: Content, requests: Requests, limit: int, at: Progress) -> Progress:
    """Write that a master takes a request, works for the reply and sends it, all that until ``limit``."""
    served = requests.served
    taken = max(at.time, served[at.service, 0])
    sent = min(max(taken, served[at.service, 1]), limit)
    worker, tag = requests.rank[served[at.service, 2]], requests.tag[served[at.service, 2]]
    at = _say(to, content, requests, taken, worker, False, tag, _with_service(at, at.service + 1))
    at = _span(to, content, CALCULATION_REGION, taken, sent, at)
    at = _say(to, content, requests, sent, worker, True, tag + 1, at)
    return Progress(sent, at.item, at.last_item, at.events, at.failed, at.misplaced, at.service)
