"""The messages of a run as rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim.coordination import (
    JobCompleted,
    MessageLog,
    NodeIdle,
    NodeReturned,
    ReleaseAccepted,
    ReleaseRejected,
    ReleaseRequest,
    Sent,
)
from mlsim.record import MessageKind, Messages

__all__ = ["message_rows"]

_COLUMNS = {
    "sent": np.float64,
    "received": np.float64,
    "job": np.int64,
    "kind": np.int8,
    "node": np.int64,
    "nodes": np.int64,
    "for_job": np.int64,
    "remaining_iterations": np.int64,
    "remaining_work": np.float64,
}
_KINDS = {
    NodeIdle: MessageKind.NODE_IDLE,
    JobCompleted: MessageKind.JOB_COMPLETED,
    ReleaseRequest: MessageKind.RELEASE_REQUEST,
    ReleaseAccepted: MessageKind.RELEASE_ACCEPTED,
    ReleaseRejected: MessageKind.RELEASE_REJECTED,
    NodeReturned: MessageKind.NODE_RETURNED,
}


def message_rows(log: MessageLog) -> Messages:
    """Put messages into rows, in order of (sent, received, job); an acceptance has a row for each node."""
    rows = sorted(row for sent in log.messages for row in _rows_of(sent))
    columns: dict[str, NDArray[Any]] = {
        name: np.array([row[place] for row in rows], dtype)
        for place, (name, dtype) in enumerate(_COLUMNS.items())
    }
    return Messages(**columns)


def _rows_of(sent: Sent) -> list[tuple[Any, ...]]:
    message = sent.message
    head = (message.time, sent.received, sent.number, int(_KINDS[type(message)]))
    if isinstance(message, NodeIdle):
        return [(*head, message.node, 1, -1, message.remaining_iterations, message.remaining_work)]
    if isinstance(message, ReleaseRequest):
        return [(*head, -1, message.nodes, message.for_job, 0, 0.0)]
    if isinstance(message, ReleaseAccepted):
        return [(*head, node, 1, -1, 0, 0.0) for node in message.nodes]
    if isinstance(message, NodeReturned):
        return [(*head, message.node, 1, -1, 0, 0.0)]
    return [(*head, -1, 0, -1, 0, 0.0)]
