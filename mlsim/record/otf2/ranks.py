"""What the ranks of a real run said to each other, as both sides of messages."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats
from mlsim.record.blocks import chunk_blocks
from mlsim.record.otf2.grouping import group
from mlsim.record.otf2.layout import Layout, nanoseconds
from mlsim.record.otf2.message_events import MessageEvents
from mlsim.record.otf2.references import CHUNK_REPLY, CHUNK_REQUEST, FIRST_ROW
from mlsim.record.ranks import RankRequests, Ranks
from mlsim.record.tables import Records

__all__ = ["answered_at", "rank_messages"]


_NO_REQUESTS = RankRequests(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0), 0, 0)


def answered_at(records: Records, requests: RankRequests) -> Floats | None:
    """Return when each reply had arrived: when its chunk began, or the PE learned that there is none.

    None where requests and chunks do not go together, as where a first chunk was not asked for.
    """
    blocks = [(block.pe, block.start) for block in chunk_blocks(records.chunks)]
    who = np.concatenate([records.pes.pe, *(pe for pe, _ in blocks)]).astype(np.int64)
    when = np.concatenate([records.pes.told, *(start for _, start in blocks)])
    others = who != 0
    who, when = who[others], when[others]
    if not np.array_equal(np.sort(who), np.sort(requests.pe)):
        return None
    arrived = np.empty(len(who))
    # The k-th reply to a PE gives its k-th chunk; after the last one it is told.
    arrived[np.lexsort((requests.answered, requests.pe))] = when[np.lexsort((when, who))]
    return np.maximum(arrived, requests.answered)


def rank_messages(records: Records, layout: Layout, ranks: Ranks) -> MessageEvents:
    """Arrange both sides of requests and replies by row, then time.

    The clocks of ranks agree to some µs; what would be received before it was sent is received then.
    """
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
    kind = np.repeat([CHUNK_REQUEST, CHUNK_REQUEST, CHUNK_REPLY, CHUNK_REPLY], n)
    in_time = np.argsort(time, kind="stable")
    first, order = group(FIRST_ROW + row[in_time], FIRST_ROW + rows)
    order = in_time[order]
    length = np.where(kind == CHUNK_REQUEST, requests.request_bytes, requests.reply_bytes)
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
