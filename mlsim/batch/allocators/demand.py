"""Where scarce resources are, and who asks for them: which nodes a job should rather not be on, and may not.

A type of resource is *scarce* if only some nodes have it. Nodes that have the same scarce types are of one
*sort*. Two rules keep jobs off nodes whose scarce types they do not ask for:

- *dislike*: of the nodes with room, those come first on which the fewest arrivals want what the job would
  leave idle: the sum over the types that the node has and the job does not ask for of the share of
  arrivals that ask for them.
- *reserve*: the last ⌊reserve · share · size⌋ nodes of each sort, share being the largest of its scarce
  types, are kept from jobs that ask for none of these types, unless they would not fit elsewhere.

The share of arrivals that ask for a type is learned from submissions, the last thousand above all; or it is
given. How many nodes are kept from a job is decided when it arrives and stays so, and it is part of whether
units fit on a node (:func:`mlsim.batch.allocators.fit.units_on`). So a reservation, of whatever backfilling,
counts on no node that the job will not get, and later arrivals take none from it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.batch.columns.packing import FloatColumns, Floats, IntColumns, Ints

__all__ = [
    "dislike",
    "dislikes",
    "kept_nodes",
    "note_request",
    "scarce_types",
    "share_of",
    "sorts_of",
]

Bools = NDArray[np.bool_]

_FORGET: Final = 0.999
"""What an arrival counts for when the next one has come."""


@kernel
def note_request(request: Ints, asked: Floats) -> None:
    """Count an arrival.

    Parameters
    ----------
    request : ndarray, shape (R,)
        What a unit of the job asks for.
    asked : ndarray, shape (R + 1,)
        How many arrivals have asked for each type, and how many there were, earlier ones for less; changed.
    """
    for r in range(len(request)):
        asked[r] = asked[r] * _FORGET + (1.0 if request[r] > 0 else 0.0)
    asked[-1] = asked[-1] * _FORGET + 1.0


@kernel
def share_of(r: int, asked: Floats) -> float:
    """Return the share of arrivals that ask for a type; 0 before the first."""
    return float(asked[r] / max(asked[-1], 1.0))


@kernel
def dislike(request: Ints, has: Ints, asked: Floats) -> float:
    """Return how little a job should be on a node that has so much of each type."""
    total = 0.0
    for r in range(len(request)):
        if request[r] == 0 and has[r] > 0:
            total += share_of(r, asked)
    return total


@kernel
def kept_nodes(scarce: Ints, size: int, reserve: float, asked: Floats) -> int:
    """Return how many nodes of a sort are kept for those who ask for its scarce types."""
    most = 0.0
    for r in range(len(scarce)):
        if scarce[r] > 0:
            most = max(most, share_of(r, asked))
    return int(reserve * most * size)


@kernel
def dislikes(requests: IntColumns, has: IntColumns, asked: Floats, out: FloatColumns) -> None:
    """Fill in the dislike of each job, a row each, for each row of what nodes have."""
    for job in range(requests.shape[0]):
        for row in range(has.shape[0]):
            out[job, row] = dislike(requests[job], has[row], asked)


def scarce_types(capacity: IntColumns) -> Bools:
    """Return which types only some of the nodes in use have."""
    has = capacity > 0
    in_use = has[has.any(axis=1)]
    scarce: Bools = np.array(in_use.any(axis=0) & ~in_use.all(axis=0), np.bool_)
    return scarce


def sorts_of(capacity: IntColumns) -> tuple[Ints, Ints]:
    """Sort nodes by the scarce types that they have.

    Returns
    -------
    sort : ndarray of int64, shape (nodes,)
        Number of the sort of each node; -1 for nodes without any scarce type.
    scarce : ndarray of int64, shape (sorts, R)
        1 for the scarce types that nodes of a sort have.
    """
    marks = ((capacity > 0) & scarce_types(capacity)).astype(np.int64)
    rows, sort = np.unique(marks, axis=0, return_inverse=True)
    none = int(not rows[0].any())  # rows are in lexicographic order, so that the empty one is first
    return sort.reshape(-1).astype(np.int64) - none, rows[none:].copy()
