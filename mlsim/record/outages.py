"""Intervals in which nodes were out of use, and in which no job held them meanwhile."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import kernel
from mlsim.record.blocks import blocks_of
from mlsim.record.codes import OutageKind
from mlsim.record.tables import Occupancy, Outages

__all__ = ["off_spans", "out_of_use_spans"]

Spans = tuple[Ints, Floats, Floats]
"""Node, start and end of each span; those of a node do not touch. By node, then start."""


def out_of_use_spans(outages: Outages, begin: float, end: float) -> Spans:
    """Unite the outages of each node, within [begin, end]."""
    return _united(outages.node, outages.start, outages.end, begin, end)


def off_spans(outages: Outages, occupancy: Occupancy, begin: float, end: float) -> Spans:
    """Find when nodes were out of use and held by no job, within [begin, end].

    A job that holds a drained node keeps it to its end, or gives it back; no other job gets it meanwhile.
    """
    start = outages.start.copy()
    drained = outages.kind != OutageKind.FAILED
    for at in np.unique(start[drained]):
        last: dict[int, float] = {}
        for block in blocks_of(occupancy):
            _add_ends(last, np.flatnonzero((block.start < at) & (block.end > at)), block)
        for outage in np.flatnonzero(drained & (outages.start == at)).tolist():
            start[outage] = max(start[outage], last.get(int(outages.node[outage]), -np.inf))
    return _united(outages.node, start, outages.end, begin, end)


def _add_ends(last: dict[int, float], rows: Ints, occupancy: Occupancy) -> None:
    """Store for each node of some occupancy rows when the last of them ends."""
    for row in rows.tolist():
        first, end = int(occupancy.node[row]), float(occupancy.end[row])
        for node in range(first, first + int(occupancy.count[row])):
            last[node] = max(last.get(node, end), end)


def _united(node: Ints, start: Floats, end: Floats, first: float, last: float) -> Spans:
    """Unite spans of equal nodes; a NaN end is never."""
    begin = np.clip(start, first, last)
    stop = np.clip(np.where(np.isnan(end), np.inf, end), first, last)
    kept = stop > begin
    order = np.lexsort((begin[kept], node[kept]))
    spans = node[kept][order], begin[kept][order], stop[kept][order]
    n = _unite(*spans)
    return spans[0][:n], spans[1][:n], spans[2][:n]


@kernel
def _unite(node: Ints, begin: Floats, end: Floats) -> int:
    """Unite spans in order of (node, begin), in place; return how many are left."""
    n = 0
    for row in range(len(node)):
        if n > 0 and node[n - 1] == node[row] and begin[row] <= end[n - 1]:
            end[n - 1] = max(end[n - 1], end[row])
        else:
            node[n], begin[n], end[n] = node[row], begin[row], end[row]
            n += 1
    return n
