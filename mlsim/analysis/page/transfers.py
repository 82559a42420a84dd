"""Who got the nodes that running jobs gave back early, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.record import Records
from mlsim.record.derived import away_until

__all__ = ["Transfers", "transfers"]


@dataclass(frozen=True, slots=True)
class Transfers:
    """One row a node that one job gave back and another got before the first had ended.

    Jobs are rows of the run's jobs, nodes rows of its nodes.
    """

    giver: Ints
    taker: Ints
    node: Ints
    start: Floats
    """When the other job got it [s]."""
    seconds: Floats
    """Node-seconds won: until the taker left it or the giver ended; a part of a node counts as that."""


def transfers(records: Records) -> Transfers:
    """Find, for each node that was given back early, the jobs that started on it while its giver ran."""
    held = records.occupancy
    until = away_until(held, records.jobs, records.attempts)
    given = _spread(held.node, held.count, np.flatnonzero(held.released))
    lent = np.unique(given[1])
    stays = _spread(held.node, held.count, np.flatnonzero(np.isin(held.node, lent) | (held.count > 1)))
    stays = tuple(column[np.isin(stays[1], lent)] for column in stays)  # type: ignore[assignment]
    order = np.lexsort((held.start[stays[0]], stays[1]))
    row, node = stays[0][order], stays[1][order]
    first, last = np.searchsorted(node, lent, "left"), np.searchsorted(node, lent, "right")
    pairs: list[tuple[Ints, Ints]] = []
    for place, number in enumerate(lent.tolist()):
        here, there = given[0][given[1] == number], row[first[place] : last[place]]
        low = np.searchsorted(held.start[there], held.end[here], "left")
        high = np.searchsorted(held.start[there], until[here], "left")
        many = np.maximum(high - low, 0)
        inside = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        pairs.append((np.repeat(here, many), there[np.repeat(low, many) + inside]))
    giver, taker = (
        np.concatenate([pair[side] for pair in pairs]) if pairs else np.empty(0, np.int64) for side in (0, 1)
    )
    nodes = np.concatenate(
        [np.full(len(pair[0]), number) for pair, number in zip(pairs, lent.tolist(), strict=True)]
        or [np.empty(0, np.int64)]
    )
    other = held.job[giver] != held.job[taker]
    giver, taker, nodes = giver[other], taker[other], nodes[other]
    length = np.minimum(held.end[taker], until[giver]) - held.start[taker]
    part = held.cores[taker] / records.nodes.cores[nodes]
    order = np.lexsort((held.job[taker], nodes, held.start[taker]))
    return Transfers(
        held.job[giver][order],
        held.job[taker][order],
        nodes[order],
        held.start[taker][order],
        (length * part)[order],
    )


def _spread(node: Ints, count: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return a row and a node for each node of each row."""
    row = np.repeat(rows, count[rows])
    inside = np.arange(len(row)) - np.repeat(np.cumsum(count[rows]) - count[rows], count[rows])
    return row, node[row] + inside
