"""Core numbers for occupancy rows, which only count the cores that a job held."""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.errors import MlsimError
from mlsim.record.tables import Jobs, Nodes, Occupancy

__all__ = ["HeldCores", "number_cores"]

_WORD = 64
_ALL_FREE = np.uint64(0xFFFFFFFFFFFFFFFF)
_NONE = np.uint64(0)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class HeldCores:
    """One entry a core held: occupancy rows by core, in order of row, node, core."""

    row: NDArray[np.int32]
    """Row of the occupancy table."""
    node: NDArray[np.int32]
    """Row of the node."""
    core: NDArray[np.int32]
    """Number of the core in its node, from 0."""


def number_cores(nodes: Nodes, jobs: Jobs, occupancy: Occupancy) -> HeldCores:
    """Assign to every occupancy row the lowest free cores of its nodes.

    Rows are taken in their order; a core is free again for every row that starts when, or after, the
    row that held it ended.

    Parameters
    ----------
    nodes, jobs
        The machine, and the jobs that the occupancy rows name.
    occupancy
        Rows in order of start.

    Returns
    -------
    HeldCores
        ``sum(count * cores)`` entries.

    Raises
    ------
    MlsimError
        Where the records cannot be: rows out of order, or more cores held than a node has. That is an
        error in whatever made the records.
    """
    if np.any(np.diff(occupancy.start) < 0):
        raise MlsimError("internal error: occupancy rows are not in order of start")
    entries = int(np.sum(occupancy.count * occupancy.cores))
    held = HeldCores(*(np.empty(entries, np.int32) for _ in range(3)))
    row, node = _number(
        np.ascontiguousarray(nodes.cores),
        occupancy.node,
        occupancy.count,
        occupancy.cores,
        occupancy.start,
        occupancy.end,
        np.argsort(occupancy.end, kind="stable"),
        held.row,
        held.node,
        held.core,
    )
    if row >= 0:
        raise MlsimError(_overfull(nodes, jobs, occupancy, row, node))
    return held


def _overfull(nodes: Nodes, jobs: Jobs, occupancy: Occupancy, row: int, node: int) -> str:
    """Say which job found no room on which node."""
    job = jobs.job_id[occupancy.job[row]]
    return (
        f"internal error: job {job} is recorded with {occupancy.cores[row]} cores "
        f"on node {nodes.name[node]} from {occupancy.start[row]:.9g} s, but fewer of the node's "
        f"{nodes.cores[node]} cores are free then"
    )


@kernel
def _number(
    capacity: NDArray[np.int64],
    first_node: NDArray[np.int64],
    count: NDArray[np.int64],
    cores: NDArray[np.int64],
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    by_end: NDArray[np.int64],
    row_of: NDArray[np.int32],
    node_of: NDArray[np.int32],
    core_of: NDArray[np.int32],
) -> tuple[int, int]:
    """Fill the entries; return the row and node that did not fit, or (-1, -1)."""
    word_first, free = _free_cores(capacity)
    entry_first = np.empty(len(start) + 1, np.int64)
    entry_first[0] = 0
    ended = 0
    for row in range(len(start)):
        # Rows which end now but come later in order have no length: they stop this loop, rightly, since
        # all rows behind them with the same end come later still.
        while by_end[ended] < row and end[by_end[ended]] <= start[row]:
            past = by_end[ended]
            for entry in range(entry_first[past], entry_first[past + 1]):
                word = word_first[node_of[entry]] + core_of[entry] // _WORD
                free[word] |= _ONE << np.uint64(core_of[entry] % _WORD)
            ended += 1
        entry = entry_first[row]
        for node in range(first_node[row], first_node[row] + count[row]):
            stop = entry + cores[row]
            if not _take_lowest(free, word_first[node], word_first[node + 1], core_of[entry:stop]):
                return row, node
            for taken in range(entry, stop):
                row_of[taken], node_of[taken] = row, node
            entry = stop
        entry_first[row + 1] = entry
    return -1, -1


@kernel
def _free_cores(capacity: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Lay out one bit a core, set where it is free, each node from a word of its own."""
    word_first = np.zeros(len(capacity) + 1, np.int64)
    for node in range(len(capacity)):
        word_first[node + 1] = word_first[node] + (capacity[node] + _WORD - 1) // _WORD
    free = np.empty(word_first[-1], np.uint64)
    for node in range(len(capacity)):
        for word in range(word_first[node], word_first[node + 1]):
            left = capacity[node] - (word - word_first[node]) * _WORD
            free[word] = _ALL_FREE if left >= _WORD else (_ONE << np.uint64(left)) - _ONE
    return word_first, free


@kernel
def _take_lowest(free: NDArray[np.uint64], first: int, stop: int, taken: NDArray[np.int32]) -> bool:
    """Take the lowest set bits of the words [first, stop) as core numbers; false if too few are set."""
    found = 0
    for word in range(first, stop):
        while found < len(taken) and free[word] != _NONE:
            lowest = free[word] & (~free[word] + _ONE)
            free[word] ^= lowest
            # A power of two is exact as a float, and its exponent is the bit's number.
            taken[found] = (word - first) * _WORD + frexp(np.float64(lowest))[1] - 1
            found += 1
    return found == len(taken)
