"""The content of a trace's rows, as columns that the compiled pass reads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim.record.otf2.message_events import MessageEvents
from mlsim.record.otf2.selection import Part

__all__ = [
    "CHUNK_FIELDS",
    "ChunkColumns",
    "Content",
    "Intervals",
    "JobColumns",
    "NoRequests",
    "Requests",
]


class Intervals(NamedTuple):
    """Intervals on the rows: columns by interval (see ``Layout``), then of the occupancy rows behind them.

    ``shown`` is whether the trace has a row.
    ``told`` is when the interval's PEs knew that no work is left, or has no rows where none is shown.
    """

    shown: NDArray[np.bool_]
    first: Ints
    occupancy_row: NDArray[np.int32]
    told: Floats
    job: Ints
    start: Floats
    end: Floats


class JobColumns(NamedTuple):
    """Regions of jobs, and the attributes of their enter events."""

    region: Ints
    job_id: Ints
    has_loop: NDArray[np.bool_]


CHUNK_FIELDS = ("start", "end", "first iteration", "iterations", "step")
"""What there is of a chunk; times in ns. Where requests are shown, also when it was asked for."""


class ChunkColumns(NamedTuple):
    """Chunks; those of interval i are ``rows[first[i]:first[i + 1]]``, in order of time.

    A row has :data:`CHUNK_FIELDS`. Where none are shown there are no rows, and ``first`` means nothing.
    """

    first: Ints
    rows: Ints


class Requests(NamedTuple):
    """How PEs get their chunks; times in ns.

    Attributes
    ----------
    by_messages, by_atomics
        Whether PEs ask masters, or serve themselves from windows.
    calculates
        Whether a PE calculates the size of its chunk itself.
    waits
        Whether the time until a chunk begins is one of waiting for others.
    own
        Whether it is known when masters calculate chunks of their own.
    message_bytes
        Length of a request, and of a reply.
    rank, tag
        By interval: the rank of its row, and the tag of its PE's requests, which is even; replies have the
        next one.
    other
        By interval: the rank that its PE sends its requests to, or which has the window that it takes chunks
        from; -1 if there is none.
    way
        By interval: how long a message of its PE takes.
    working
        By interval: how long its PE calculates a chunk's size, or its master works for it.
    after
        By interval: what passes from the end of the PE's own calculation to the begin of the chunk.
    refused
        By interval: when its PE sent the request to which it was told that no work is left, and when that
        was; -1 where there is none.
    serving
        By interval: what its PE, a master, spends on a chunk; -1 if it is none.
    first, last, served
        The requests that the master of interval i served are ``served[first[i]:last[i]]``, in order of the
        replies: when it took it, when it sent the reply, and the interval of the PE.
    """

    by_messages: bool
    by_atomics: bool
    calculates: bool
    waits: bool
    own: bool
    message_bytes: int
    rank: Ints
    tag: Ints
    other: Ints
    way: Ints
    working: Ints
    after: Ints
    refused: Ints
    serving: Ints
    first: Ints
    last: Ints
    served: Ints


class NoRequests(NamedTuple):
    """Stands for requests where the trace shows none."""

    shown: bool = False


class Content(NamedTuple):
    """The content to write.

    Enter events of jobs have attributes where ``describe`` is true, those of chunks more than their
    iterations where ``details`` is. Iterations are written in ``size_bits`` bits.
    """

    intervals: Intervals
    jobs: JobColumns
    describe: bool
    details: bool
    size_bits: int
    part: Part
    idle_region: int
    chunks: ChunkColumns
    messages: MessageEvents
    requests: Requests | NoRequests
