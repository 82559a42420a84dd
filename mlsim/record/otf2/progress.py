"""How far a row of the trace has been written, and the steps in which it is: messages, regions.

The kernels make no arrays, so they are compiled without reference counts: counting the references to
every column at every call would take several times as long as writing the events.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlsim._arrays import Ints
from mlsim._jit import kernel
from mlsim.record.codes import MessageKind
from mlsim.record.otf2.calls import Api, add_double, add_int, add_string, add_uint, leave, message
from mlsim.record.otf2.content import Content
from mlsim.record.otf2.message_events import MessageEvents
from mlsim.record.otf2.references import (
    COMMUNICATOR,
    FOR_JOB,
    JOB_ID,
    KIND_STRING,
    MESSAGE,
    NODES,
    REMAINING_ITERATIONS,
    REMAINING_WORK,
)

__all__ = [
    "TIES_STAY",
    "Progress",
    "Target",
    "close_region",
    "messages_until",
    "open_region",
    "stamp",
    "write_message",
    "wrote",
]

_RELEASE_REQUEST, _LAST_WITH_REMAINS = int(MessageKind.RELEASE_REQUEST), int(MessageKind.JOB_COMPLETED)


class Target(NamedTuple):
    """Where to write: the library's functions, an event writer and an attribute list.

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
    """Where a location is: time of the last event, next and last message event, events written.

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
