"""Intervals in which PEs are not in a loop, because their node has been given up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import kernel

__all__ = ["Unavailability", "always_available", "next_asking", "unavailability_of"]


class Unavailability(NamedTuple):
    """Intervals in which PEs request no chunks [s from the loop's start].

    A PE that would ask at a time in [begin, end) asks at ``end`` instead; where that is infinity it has
    left. What it has in hand, or has asked for before, it executes.

    Attributes
    ----------
    entries
        int64[P + 1]: spans ``entries[p]`` to ``entries[p + 1] - 1`` belong to PE p; one 0 where nobody
        ever leaves.
    begin, end
        float64[m]: rising within a PE, apart from each other.
    """

    entries: Ints
    begin: Floats
    end: Floats


def always_available() -> Unavailability:
    """Return that every PE is there all the time."""
    return Unavailability(np.zeros(1, np.int64), np.empty(0), np.empty(0))


def unavailability_of(node_of_pe: Ints, spans: Sequence[Sequence[tuple[float, float]]]) -> Unavailability:
    """Return the intervals of PEs whose nodes leave and come back at these times.

    Parameters
    ----------
    node_of_pe
        int64[P]: index of each PE's node.
    spans
        For each node the times between which it is away.
    """
    of_pe = [spans[node] for node in node_of_pe.tolist()]
    flat = [span for own in of_pe for span in own]
    return Unavailability(
        entries=np.cumsum([0, *(len(own) for own in of_pe)], dtype=np.int64),
        begin=np.array([begin for begin, _ in flat], np.float64),
        end=np.array([end for _, end in flat], np.float64),
    )


@kernel
def next_asking(time: float, pe: int, entries: Ints, begin: Floats, end: Floats) -> float:
    """Return when a PE that has nothing left to execute at ``time`` asks for a chunk [s]; infinity: never."""
    for k in range(entries[pe], entries[pe + 1]):
        if begin[k] <= time < end[k]:
            time = end[k]
    return time
