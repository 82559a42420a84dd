"""What of a loop stands when it is ended before its time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mlsim.application.outcome import ChunkRows, LoopOutcome

__all__ = ["cut"]

Floats = NDArray[np.float64]


def cut(outcome: LoopOutcome, at: float, latency: Floats, serving: float) -> LoopOutcome:
    """End a loop at a time: chunks begun by then stay, shortened to it; the rest never happened.

    Parameters
    ----------
    outcome
        The whole loop, with chunk rows.
    at
        When it is ended, in s from its start.
    latency
        float64[P], in s: one-way message times to PE 0.
    serving
        Seconds in which PE 0 serves one request amid a chunk of its own; 0 if it does not (DCA).

    Returns
    -------
    LoopOutcome
        Everything but ``iterations`` is as of ``at``.
    """
    rows = outcome.rows
    assert rows is not None, "a loop that is cut is simulated with its chunk rows"
    p = len(outcome.finish)
    asked = rows.requested < at
    waits = np.minimum(rows.start[asked], at) - rows.requested[asked]
    waited = np.bincount(rows.pe[asked], waits, minlength=p).astype(np.float64)
    waited += np.maximum(np.minimum(outcome.told, at) - outcome.finish, 0.0)  # for the answer "no more"
    begun = _begun(rows, at)
    busy = np.bincount(begun.pe, begun.end - begun.start, minlength=p).astype(np.float64)
    if serving > 0.0:
        busy[0] -= _served_amid_chunks(rows, begun, latency, serving)
    finish = np.zeros(p)
    np.maximum.at(finish, begun.pe, begun.end)
    return replace(
        outcome,
        steps=len(begun.pe),
        t_loop=float(finish.max()),
        finish=finish,
        told=np.minimum(outcome.told, at),
        busy=busy,
        overhead=waited,
        chunks=np.bincount(begun.pe, minlength=p),
        rows=begun,
    )


def _begun(rows: ChunkRows, at: float) -> ChunkRows:
    kept = rows.start < at
    return ChunkRows(
        rows.pe[kept],
        rows.step[kept],
        rows.first[kept],
        rows.size[kept],
        rows.requested[kept],
        rows.start[kept],
        np.minimum(rows.end[kept], at),
    )


def _served_amid_chunks(rows: ChunkRows, begun: ChunkRows, latency: Floats, serving: float) -> float:
    """Seconds that PE 0 served others while it had a chunk in hand.

    A chunk of another PE starts one message after it has been served, which tells when that was.
    """
    others = rows.pe != 0
    ends = rows.start[others] - latency[rows.pe[others]]
    own = begun.pe == 0
    seconds = 0.0
    for start, end in zip(begun.start[own], begun.end[own], strict=True):
        overlap = np.minimum(ends, end) - np.maximum(ends - serving, start)
        seconds += float(np.maximum(overlap, 0.0).sum())
    return seconds
