"""Coordination messages as pairs of a send on a node and a receive on the dispatcher's row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim.errors import MlsimError
from mlsim.record.otf2.grouping import group
from mlsim.record.otf2.layout import Layout, nanoseconds
from mlsim.record.tables import Messages, Occupancy, Records

__all__ = ["BATCH_RANK", "Mail", "receives", "senders", "sends"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Ranks in the communicator: the dispatcher, then the nodes in order.
BATCH_RANK = 0


class Mail(NamedTuple):
    """One side of messages, in the order in which they are written."""

    time: Ints
    peer: Ints
    kind: Ints
    job_id: Ints
    remaining_iterations: Ints
    remaining_work: Floats


def senders(records: Records) -> Ints:
    """Find the node each message was sent from: its own, else the node that its job held last.

    Where a job held several nodes until its end, that is the first of them.
    """
    own = records.messages.node
    return np.where(
        own >= 0, own, _last_nodes(records.occupancy, len(records.jobs.job_id))[records.messages.job]
    )


def _last_nodes(held: Occupancy, jobs: int) -> Ints:
    """Find for each job the node of the first of its rows that ended last; -1 for a job with no rows."""
    last = np.full(jobs, -1, np.int64)
    order = np.lexsort((np.arange(len(held.job)), -held.end, held.job))
    job, first = np.unique(held.job[order], return_index=True)
    last[job] = held.node[order][first]
    return last


def sends(records: Records, layout: Layout, sender: Ints) -> tuple[Ints, Mail]:
    """Put messages in order of the row they are sent on, then of time.

    Returns
    -------
    first, mail
        The messages of row r are ``first[r]`` to ``first[r + 1] - 1``.
    """
    in_time = np.argsort(records.messages.sent, kind="stable")
    first, order = group(layout.node_first[sender[in_time]], len(layout.first) - 1)
    order = in_time[order]
    peer = np.full(len(order), BATCH_RANK, np.int64)
    return first, _mail(records, order, records.messages.sent, peer)


def receives(records: Records, sender: Ints) -> Mail:
    """Put messages in order of receipt; raise MlsimError where one overtakes another of its node.

    Messages of one sender are received in the order of sending, as in MPI: that is how readers of a
    trace know which send belongs to which receive.
    """
    messages = records.messages
    order = np.lexsort((messages.sent, messages.received))
    by_sender = np.lexsort((messages.sent, sender))
    later = np.diff(sender[by_sender]) == 0
    if np.any(np.diff(messages.received[by_sender])[later] < 0):
        raise MlsimError(
            "internal error: a coordination message was received before an earlier one of its node"
        )
    return _mail(records, order, messages.received, sender[order] + 1)


def _mail(records: Records, order: Ints, time: Floats, peer: Ints) -> Mail:
    """Gather the columns of one side."""
    messages: Messages = records.messages
    return Mail(
        nanoseconds(time[order]),
        peer,
        messages.kind[order].astype(np.int64),
        records.jobs.job_id[messages.job[order]],
        messages.remaining_iterations[order],
        messages.remaining_work[order],
    )
