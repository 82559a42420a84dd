"""Requests for chunks and replies to them, between the PEs of simulated loops and their master.

Records have when a PE asked for a chunk and when it began it, and how long a message takes. So a reply was
sent one latency before the chunk began, and the master took the request when it began to work for that
reply: calculation and assignment earlier (``mlsim/application/README.md``, "CCA: one chunk").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim._jit import inner_kernel, kernel, leaf_kernel
from mlsim.record.growing import column
from mlsim.record.otf2.content import ChunkColumns, NoRequests, Requests
from mlsim.record.otf2.grouping import group
from mlsim.record.otf2.layout import Layout, nanoseconds
from mlsim.record.otf2.places import PePlaces
from mlsim.record.otf2.selection import Part
from mlsim.record.tables import PEs, Records

__all__ = ["Service", "requests_of"]


class Service(NamedTuple):
    """What a master spends on a chunk, and how long messages are.

    Attributes
    ----------
    calculation
        Time of a size's calculation at speed 1, in s.
    constant
        What is added to it whatever the speed of the master, in s.
    message_bytes
        Length of a request, and of a reply.
    """

    calculation: float = 0.0
    constant: float = 0.0
    message_bytes: int = 0


class _Workers(NamedTuple):
    """Intervals of PEs that ask a master, by job: those of job j are ``of[first[j]:first[j + 1]]``.

    By interval: when it begins and ends, the latency of its PE, and its row; times in ns.
    """

    first: Ints
    of: Ints
    begin: Ints
    end: Ints
    latency: Ints
    row: Ints


class _Cursors(NamedTuple):
    """How far each interval has been read.

    ``place``: its next request. ``reached``: the end of what it did before. ``taken``, ``sent``: when the
    master took the request that was read last, and sent the reply.
    """

    place: Ints
    reached: Ints
    taken: Ints
    sent: Ints


def requests_of(
    records: Records, layout: Layout, places: PePlaces, part: Part, chunks: ChunkColumns, service: Service
) -> Requests | NoRequests:
    """Find what masters served, and put it in order of the replies.

    Parameters
    ----------
    records
        Whose PEs have their latency and their last request.
    layout, places, part
        Of the trace.
    chunks
        By interval, with the times at which they were asked for.
    service
        What a master spends on each.
    """
    pes, intervals = records.pes, len(layout.entry)
    if pes.latency is None or pes.last_request is None or not len(pes.pe):
        return NoRequests()
    home = places.last_stay[places.first[pes.job] + pes.pe]
    pe_of = _pe_rows(places, home, intervals)
    asks = np.flatnonzero((pe_of >= 0) & (pes.pe[pe_of] > 0))
    master = np.full(len(records.jobs.job_id), -1)
    master[pes.job[pes.pe == 0]] = home[pes.pe == 0]
    served_by = np.full(intervals, -1)
    served_by[asks] = master[pes.job[pe_of[asks]]]
    serving = _serving(records, layout, home[pes.pe == 0], service)
    refused = _refused(
        pes, pes.last_request, home, part.shown[pes.job] & (pes.told >= places.start[home]), intervals
    )
    workers = _workers(records, layout, pe_of, asks, pes.latency)
    given = chunks.first if len(chunks.rows) else np.zeros(intervals + 1, np.int64)
    first, last = np.zeros(intervals + 1, np.int64), np.zeros(intervals, np.int64)
    np.add.at(first, served_by[asks] + 1, (np.diff(given) + (refused[:, 1] >= 0))[asks])
    first = np.cumsum(first)
    served = column((int(first[-1]), 3), np.int64)
    cursors = _Cursors(given[:-1].copy(), workers.begin.copy(), *np.zeros((2, intervals), np.int64))
    _put_in_order(workers, cursors, given, chunks.rows, refused, master, serving, first, last, served)
    to = np.where(served_by >= 0, workers.row[served_by], -1)
    return Requests(service.message_bytes, to, serving, refused, first, last, served)


def _serving(records: Records, layout: Layout, masters: Ints, service: Service) -> Ints:
    """Return what each master spends on a chunk in ns, given their intervals; -1 in other intervals."""
    speed = records.nodes.speed[layout.held.node[layout.entry[masters]]]
    serving = np.full(len(layout.entry), -1)
    serving[masters] = nanoseconds(service.calculation / speed + service.constant)
    return serving


def _refused(pes: PEs, asked: Floats, home: Ints, shown: NDArray[np.bool_], intervals: int) -> Ints:
    """Return when the PE of each interval asked in vain, and was told so, in ns; -1 where it did not."""
    found = np.full((intervals, 2), -1)
    answered = shown & np.isfinite(asked) & (pes.pe > 0)
    found[home[answered], 0] = nanoseconds(asked[answered])
    found[home[answered], 1] = nanoseconds(pes.told[answered])
    return found


def _workers(records: Records, layout: Layout, pe_of: Ints, asks: Ints, latency: Floats) -> _Workers:
    """Arrange the intervals of PEs that ask a master by job."""
    held, rows = records.occupancy, np.arange(len(layout.first) - 1)
    first, order = group(records.pes.job[pe_of[asks]], len(records.jobs.job_id))
    way = np.zeros(len(layout.entry), np.int64)
    way[asks] = nanoseconds(latency[pe_of[asks]])
    begin, end = (nanoseconds(times[layout.occupancy_row]) for times in (held.start, held.end))
    return _Workers(first, asks[order], begin, end, way, np.repeat(rows, np.diff(layout.first)))


def _pe_rows(places: PePlaces, home: Ints, intervals: int) -> Ints:
    """Find the row of the PE that executes in each interval, -1 where none does, given their last ones."""
    found = np.full(intervals, -1)
    rows, stays = np.arange(len(home)), home
    while len(rows):
        found[stays] = rows
        before = places.earlier[stays]
        rows, stays = rows[before >= 0], before[before >= 0]
    return found


@kernel
def _put_in_order(
    workers: _Workers,
    cursors: _Cursors,
    given: Ints,
    rows: Ints,
    refused: Ints,
    master: Ints,
    serving: Ints,
    first: Ints,
    last: Ints,
    served: Ints,
) -> None:
    """Merge what the PEs of each job asked into the order in which their master sent the replies.

    Times of ``refused`` are made to fit to those of chunks, as the pass that writes them sees them. Where a
    reply was sent when the master's node had been given back, there is no row of the trace to show that on:
    its request is unknown, -1.
    """
    most = 1
    for job in range(len(workers.first) - 1):
        most = max(most, workers.first[job + 1] - workers.first[job])
    heap = np.zeros(most + 1, np.int64)
    for job in range(len(workers.first) - 1):
        if workers.first[job] == workers.first[job + 1]:
            continue
        heap[0] = 0
        home = master[job]
        spent, until = serving[home], workers.end[home]
        for interval in workers.of[workers.first[job] : workers.first[job + 1]]:
            if _read(workers, cursors, given, rows, refused, interval, spent, until):
                heap[0] += 1
                heap[heap[0]] = interval
        for place in range(heap[0] // 2, 0, -1):
            _sift(cursors, heap, place)
        to = first[home]
        while heap[0] > 0:
            interval = heap[1]
            served[to, 0], served[to, 1] = cursors.taken[interval], cursors.sent[interval]
            served[to, 2] = workers.row[interval]
            if to > first[home]:  # by rounding, the work for it may have begun before
                served[to - 1, 1] = min(served[to - 1, 1], served[to, 1])
            to += 1
            if not _read(workers, cursors, given, rows, refused, interval, spent, until):
                heap[1] = heap[heap[0]]
                heap[0] -= 1
            _sift(cursors, heap, 1)
        last[home] = to


@inner_kernel
def _read(
    workers: _Workers,
    cursors: _Cursors,
    given: Ints,
    rows: Ints,
    refused: Ints,
    interval: int,
    spent: int,
    until: int,
) -> bool:
    """Read the next request of an interval that is answered by ``until``; return whether there is one.

    Sums of floats that times come from may be wrong by more than a tick of the clock, which is cut off.
    """
    place, end = cursors.place[interval], workers.end[interval]
    while place < given[interval + 1]:
        reached = cursors.reached[interval]
        begin = max(reached, min(rows[place, 0], end))
        asked = max(reached, min(rows[place, 5], begin))
        cursors.reached[interval] = max(begin, min(rows[place, 1], end))
        sent = max(asked, min(rows[place, 0] - workers.latency[interval], begin))
        place += 1
        if sent <= until:
            cursors.sent[interval], cursors.taken[interval] = sent, max(asked, sent - spent)
            cursors.place[interval] = place
            return True
        rows[place - 1, 5] = -1
    cursors.place[interval] = place + 1
    if place > given[interval + 1] or refused[interval, 1] < 0:
        return False
    reached = cursors.reached[interval]
    told = max(reached, min(refused[interval, 1], end))
    asked = max(reached, min(refused[interval, 0], told))
    sent = max(asked, min(refused[interval, 1] - workers.latency[interval], told))
    cursors.sent[interval], cursors.taken[interval] = sent, sent
    is_known = bool(sent <= until)
    refused[interval, 0], refused[interval, 1] = asked, told if is_known else -1
    return is_known


@leaf_kernel
def _is_before(cursors: _Cursors, one: int, other: int) -> bool:
    """Whether a request was served before another, by the middle of the work for it.

    Rounding may put its ends some ns behind those of what came before or after it.
    """
    middle = cursors.taken[one] + cursors.sent[one] - cursors.taken[other] - cursors.sent[other]
    return bool(middle < 0 or (middle == 0 and one < other))


@inner_kernel
def _sift(cursors: _Cursors, heap: Ints, place: int) -> None:
    """Move an interval down the heap to where it belongs."""
    while 2 * place <= heap[0]:
        child = 2 * place
        if child < heap[0] and _is_before(cursors, heap[child + 1], heap[child]):
            child += 1
        if not _is_before(cursors, heap[child], heap[place]):
            return
        heap[place], heap[child] = heap[child], heap[place]
        place = child
