"""Requests of PEs for chunks, and messages of real ranks."""

from typing import NamedTuple

import numpy as np

from mlsim._jit import inner_kernel, kernel, leaf_kernel
from mlsim._runtime.arrays import Floats, Ints, NDArray
from mlsim.record import column_types, table_blocks
from mlsim.record.otf2 import trace_layout as refs
from mlsim.record.otf2.trace_content import NO_REQUESTS, ChunkColumns, MessageEvents, Part, Requests, Service
from mlsim.record.otf2.trace_layout import Layout, PePlaces, group, nanoseconds
from mlsim.record.record_tables import PEs, RankRequests, Ranks, Records


class _Workers(NamedTuple):
    """Intervals of PEs that ask masters: those of the k-th are ``of[first[k]:first[k + 1]]``; times in ns."""

    master: Ints  # interval of each master
    first: Ints
    of: Ints
    begin: Ints  # of each interval
    end: Ints
    way: Ints  # of a message of its PE


class _Cursors(NamedTuple):
    """Read positions of the intervals."""

    place: Ints  # next request
    reached: Ints  # end of what came before
    taken: Ints  # when the master took the request that was read last,
    sent: Ints  # and sent the reply


def requests_of(
    records: Records,
    layout: Layout,
    places: PePlaces,
    part: Part,
    chunks: ChunkColumns,
    service: Service,
    ranks: Ints,
) -> Requests:
    """Return the chunk requests of PEs, with the requests that masters served in order of the replies.

    Where PEs lack latency and last request, as in real runs, only the time to get a chunk is known; messages
    are recorded elsewhere. ``ranks`` are those of rows; where several share one, tags identify the PE.
    """
    pes, intervals = records.pes, len(layout.entry)
    if not len(pes.pe):
        return NO_REQUESTS
    if pes.latency is None or pes.last_request is None:
        service = service._replace(by_messages=False, calculates=False)
    home = places.of_pes(pes)
    pe_of = _pe_rows(places, home, intervals)
    asked = _asked(records, layout, places, home, pe_of, service)
    is_master = np.full(intervals, service.by_messages) & (asked == np.arange(intervals))
    asked[is_master] = -1
    way, refused = np.zeros(intervals, np.int64), np.full((intervals, 2), -1)
    if pes.latency is not None and pes.last_request is not None:
        way[pe_of >= 0] = nanoseconds(pes.latency)[pe_of[pe_of >= 0]]
        shown = part.shown[pes.job] & (pes.told >= places.start[home])
        refused = _refused(pes, pes.last_request, home, shown, intervals)
        if service.by_messages:
            refused[asked < 0] = -1
    speed = records.nodes.speed[layout.held.node[layout.entry]]
    working = nanoseconds(service.calculation / speed + service.delay)
    rows = np.repeat(np.arange(len(layout.first) - 1), np.diff(layout.first))
    none = np.zeros(intervals, np.int64)
    kept = np.full(intervals, -1), none, none, np.zeros((0, 3), np.int64)
    if service.by_messages:
        working = nanoseconds(service.calculation / speed + service.delay + service.assignment)
        kept = _serve(records, layout, way, asked, is_master, chunks, refused, working)
        working = np.where(asked >= 0, working[asked], 0)
    after = round(1e9 * (service.assignment + service.access * service.by_atomics))
    return Requests(
        True,
        service.by_messages,
        service.by_atomics,
        service.calculates,
        service.waits,
        not service.on_node,
        service.message_bytes,
        ranks[rows],
        refs.CHUNK_REQUEST + 2 * (rows - layout.node_row[layout.held.node[layout.entry]]),
        np.where(asked >= 0, ranks[rows[asked]], -1),
        way,
        working,
        after + 2 * way * service.by_atomics,
        refused,
        *kept,
    )


def _asked(
    records: Records, layout: Layout, places: PePlaces, home: Ints, pe_of: Ints, service: Service
) -> Ints:
    """Return the interval of the master or window of each interval's PE, maybe its own; -1: none."""
    pes, executes = records.pes, pe_of >= 0
    found = np.full(len(pe_of), -1)
    if not (service.by_messages or service.by_atomics):
        return found
    if service.on_node:
        # A node's stay is one row of occupancy; its first PE has the lowest number of those there.
        stay = layout.occupancy_row.astype(np.int64) * len(records.nodes.name)
        stay += layout.held.node[layout.entry]
        there = np.flatnonzero(executes)
        there = there[np.lexsort((pes.pe[pe_of[there]], stay[there]))]
        is_first = np.append(True, np.diff(stay[there]) != 0)[: len(there)]
        found[there] = there[is_first][np.cumsum(is_first) - 1]
    else:
        attempt = places.numbers(pes.job, pes.attempt)
        first = np.full(len(places.first) - 1, -1)
        first[attempt[pes.pe == 0]] = home[pes.pe == 0]
        found[executes] = first[attempt[pe_of[executes]]]
    return found


def _serve(
    records: Records,
    layout: Layout,
    way: Ints,
    asked: Ints,
    is_master: NDArray[np.bool_],
    chunks: ChunkColumns,
    refused: Ints,
    spent: Ints,
) -> tuple[Ints, Ints, Ints, Ints]:
    """Order served requests by replies, as the last columns of Requests; ``spent`` [ns] per chunk and PE."""
    held, intervals = records.occupancy, len(asked)
    asks = np.flatnonzero(asked >= 0)
    masters = np.flatnonzero(is_master)
    serving = np.full(intervals, -1)
    serving[masters] = spent[masters]
    by_master, order = group(np.searchsorted(masters, asked[asks]), len(masters))
    begin, end = (nanoseconds(times[layout.occupancy_row]) for times in (held.start, held.end))
    workers = _Workers(masters, by_master, asks[order], begin, end, way)
    given = chunks.first if len(chunks.rows) else np.zeros(intervals + 1, np.int64)
    first, last = np.zeros(intervals + 1, np.int64), np.zeros(intervals, np.int64)
    np.add.at(first, asked[asks] + 1, (np.diff(given) + (refused[:, 1] >= 0))[asks])
    first = np.cumsum(first)
    served = column_types.column((int(first[-1]), 3), np.int64)
    cursors = _Cursors(given[:-1].copy(), begin.copy(), *np.zeros((2, intervals), np.int64))
    _put_in_order(workers, cursors, given, chunks.rows, refused, serving, first, last, served)
    return serving, first, last, served


def _refused(pes: PEs, asked: Floats, home: Ints, shown: NDArray[np.bool_], intervals: int) -> Ints:
    """Return the times [ns] of each interval's PE's last request and its refusal; -1 where there is none."""
    found = np.full((intervals, 2), -1)
    answered = shown & np.isfinite(asked)
    found[home[answered], 0] = nanoseconds(asked[answered])
    found[home[answered], 1] = nanoseconds(pes.told[answered])
    return found


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
    serving: Ints,
    first: Ints,
    last: Ints,
    served: Ints,
) -> None:
    """Merge what PEs asked into the order in which their master sent the replies.

    Times of ``refused`` are made to fit to those of chunks, as the pass that writes them sees them. Where a
    reply was sent when the master's node had been given back, there is no row of the trace to show that on:
    its request is unknown, -1.
    """
    most = 1
    for k in range(len(workers.master)):
        most = max(most, workers.first[k + 1] - workers.first[k])
    heap = np.zeros(most + 1, np.int64)
    for k in range(len(workers.master)):
        heap[0] = 0
        home = workers.master[k]
        spent, until = serving[home], workers.end[home]
        for interval in workers.of[workers.first[k] : workers.first[k + 1]]:
            if _read(workers, cursors, given, rows, refused, interval, spent, until):
                heap[0] += 1
                heap[heap[0]] = interval
        for place in range(heap[0] // 2, 0, -1):
            _sift(cursors, heap, place)
        to = first[home]
        while heap[0] > 0:
            interval = heap[1]
            served[to, 0], served[to, 1] = cursors.taken[interval], cursors.sent[interval]
            served[to, 2] = interval
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
        sent = max(asked, min(rows[place, 0] - workers.way[interval], begin))
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
    sent = max(asked, min(refused[interval, 1] - workers.way[interval], told))
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


_NO_REQUESTS = RankRequests(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0), 0, 0)


def answered_at(records: Records, requests: RankRequests) -> Floats | None:
    """Return when each reply had arrived; None where requests and chunks do not go together."""
    blocks = [(block.pe, block.start) for block in table_blocks.chunk_blocks(records.chunks)]
    who = np.concatenate([records.pes.pe, *(pe for pe, _ in blocks)]).astype(np.int64)
    when = np.concatenate([records.pes.told, *(start for _, start in blocks)])
    others = who != 0
    who, when = who[others], when[others]
    if not np.array_equal(np.sort(who), np.sort(requests.pe)):
        return None
    arrived = np.empty(len(who))
    # The k-th reply to a PE assigns its k-th chunk; the one after the last chunk ends its requests.
    arrived[np.lexsort((requests.answered, requests.pe))] = when[np.lexsort((when, who))]
    return np.maximum(arrived, requests.answered)


def rank_messages(records: Records, layout: Layout, ranks: Ranks) -> MessageEvents:
    """Arrange requests and replies by row, then time; nothing is received before it was sent."""
    requests = ranks.requests or _NO_REQUESTS
    rows = len(layout.row_node)
    arrived = answered_at(records, requests) if ranks.requests is not None else np.empty(0)
    if arrived is None:
        requests, arrived = _NO_REQUESTS, np.empty(0)
    n = len(requests.pe)
    master, worker = np.zeros(n, np.int64), requests.pe
    received = np.maximum(requests.received, requests.sent)
    row = np.concatenate([worker, master, master, worker])
    other = np.concatenate([master, worker, worker, master])
    time = np.concatenate([requests.sent, received, np.maximum(requests.answered, received), arrived])
    is_sent = np.repeat([True, False, True, False], n)
    kind = np.repeat([refs.CHUNK_REQUEST, refs.CHUNK_REQUEST, refs.CHUNK_REPLY, refs.CHUNK_REPLY], n)
    in_time = np.argsort(time, kind="stable")
    first, order = group(refs.FIRST_ROW + row[in_time], refs.FIRST_ROW + rows)
    order = in_time[order]
    length = np.where(kind == refs.CHUNK_REQUEST, requests.request_bytes, requests.reply_bytes)
    nothing = np.zeros(4 * n, np.int64)
    return MessageEvents(
        first,
        nanoseconds(np.maximum(time[order], 0.0)),
        is_sent[order],
        ranks.numbers[other[order]],
        kind[order],
        kind[order],
        np.full(4 * n, int(records.jobs.job_id[0])),
        nothing,
        nothing,
        nothing,
        np.zeros(4 * n),
        length[order],
    )
