"""Requests and replies of loops among the other events of a row, where the trace shows them.

Where it does not, nothing of this is compiled: which kernel answers is decided by the type of the requests.
"""

# mypy: disable-error-code="empty-body"
# by_last_type gives a declared function its bodies.

from __future__ import annotations

from mlsim._jit import by_last_type, kernel
from mlsim.record.otf2.calls import enter, message
from mlsim.record.otf2.content import Content, NoRequests, Requests
from mlsim.record.otf2.progress import (
    Progress,
    Target,
    close_region,
    messages_until,
    open_region,
    wrote,
)
from mlsim.record.otf2.references import (
    CALCULATION_REGION,
    CHUNK_REPLY,
    CHUNK_REQUEST,
    LOOP_COMMUNICATOR,
)

__all__ = ["before_chunk", "begin_requests", "serve_until", "write_refusal"]


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
    if requests.master[interval] < 0 or asked < 0:
        return at
    asked, master = max(at.time, min(asked, begin)), requests.master[interval]
    at = _say(to, content, requests, asked, master, True, CHUNK_REQUEST, at)
    return _say(to, content, requests, begin, master, False, CHUNK_REPLY, at)


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
    at = _say(to, content, requests, asked, requests.master[interval], True, CHUNK_REQUEST, at)
    return _say(to, content, requests, told, requests.master[interval], False, CHUNK_REPLY, at)


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
    """Go to a request that a master serves."""
    return Progress(at.time, at.item, at.last_item, at.events, at.failed, at.misplaced, service)


@kernel(_nrt=False)
def _say(
    to: Target,
    content: Content,
    requests: Requests,
    time: int,
    peer: int,
    is_sent: bool,
    kind: int,
    at: Progress,
) -> Progress:
    """Write one side of a request or reply, if it is in the part that is shown."""
    if time < content.part.first or time > content.part.last:
        return at
    at = messages_until(to, content.messages, time, at)
    side = to.api.mpi_send if is_sent else to.api.mpi_recv
    length = requests.message_bytes
    return wrote(at, at.time, message(side, to.writer, 0, time, peer, LOOP_COMMUNICATOR, kind, length))


@kernel(_nrt=False)
def _serve_before_own(
    to: Target, content: Content, requests: Requests, interval: int, asked: int, begin: int, at: Progress
) -> Progress:
    """Write what a master serves until a chunk of its own begins, which it calculates in its turn.

    From asking for that chunk to its begin it serves without a pause. So where none of the others is served
    for as long as a calculation takes, it is its own.
    """
    spent = requests.serving[interval]
    calculated = spent == 0
    while _serves(requests, interval, begin, True, at):
        taken, since = requests.served[at.service, 0], max(at.time, asked)
        if not calculated and taken - since > spent // 2:
            at = _calculate(to, content, since, min(since + spent, taken), at)
            calculated = True
        at = _serve(to, content, requests, begin, at)
    if not calculated:
        at = _calculate(to, content, min(max(at.time, asked), begin), begin, at)
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
    worker = served[at.service, 2]
    at = _say(to, content, requests, taken, worker, False, CHUNK_REQUEST, _with_service(at, at.service + 1))
    if sent > taken:
        at = _calculate(to, content, taken, sent, at)
    at = _say(to, content, requests, sent, worker, True, CHUNK_REPLY, at)
    return Progress(sent, at.item, at.last_item, at.events, at.failed, at.misplaced, at.service)


@kernel(_nrt=False)
def _calculate(to: Target, content: Content, begin: int, end: int, at: Progress) -> Progress:
    """Write that a master calculates and assigns a chunk, if the part that is shown has some of it."""
    if end < content.part.first or begin > content.part.last:
        return Progress(end, at.item, at.last_item, at.events, at.failed, at.misplaced, at.service)
    at, seen = open_region(to, content, begin, at)
    at = wrote(at, begin, enter(to.api.enter, to.writer, 0, seen, CALCULATION_REGION))
    return close_region(to, content, end, CALCULATION_REGION, at)
