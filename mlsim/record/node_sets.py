"""Sets of nodes as text, and core numbers of occupancy rows."""

from dataclasses import dataclass
from itertools import pairwise
from math import frexp

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim._runtime.arrays import Ints
from mlsim.errors import MlsimError
from mlsim.record.record_tables import Jobs, Nodes, Occupancy

Bytes = NDArray[np.uint8]


def job_node_sets(occupancy: Occupancy, n_jobs: int) -> list[str]:
    """Return, per job, the set of nodes it ever held, as text. Rows may overlap, in any order."""
    if not len(occupancy.job):
        return [""] * n_jobs  # without loading kernels
    rows, order = _group_by_job(occupancy.job, occupancy.node, n_jobs)
    return _texts(rows, occupancy.node[order], occupancy.count[order])


def _group_by_job(job: Ints, node: Ints, n_jobs: int) -> tuple[Ints, Ints]:
    """Order rows by (job, node); where each job's rows begin in that order, and the order."""
    order = _counting_order(node, np.arange(len(node)), int(node.max(initial=-1)) + 1)
    order = _counting_order(job, order, n_jobs)
    rows = np.zeros(n_jobs + 1, np.int64)
    np.cumsum(np.bincount(job, minlength=n_jobs), out=rows[1:])
    return rows, order


def _texts(rows: Ints, node: Ints, count: Ints) -> list[str]:
    """Write one text for each span of ``rows``: all bytes in one buffer, decoded once, then cut."""
    width = 2 * (len(str(int((node + count).max(initial=0)))) + 1)
    buffer = np.empty(width * len(node) + 1, np.uint8)
    ends = _write_sets(rows, node, count, buffer)
    text = buffer[: ends[-1]].tobytes().decode("ascii")
    bounds = ends.tolist()
    return [text[begin:end] for begin, end in pairwise(bounds)]


@kernel
def _counting_order(keys: Ints, order: Ints, n_keys: int) -> Ints:
    """Sort ``order`` by ``keys[order]``, stable, for keys in [0, n_keys)."""
    begins = np.zeros(n_keys + 1, np.int64)
    for key in keys:
        begins[key + 1] += 1
    for key in range(n_keys):
        begins[key + 1] += begins[key]
    result = np.empty_like(order)
    for row in order:
        key = keys[row]
        result[begins[key]] = row
        begins[key] += 1
    return result


@kernel
def _write_number(buffer: Bytes, at: int, number: int) -> int:
    """Write a number >= 0 in decimal; return where the next byte goes."""
    end = at + 1
    rest = number // 10
    while rest > 0:
        end += 1
        rest //= 10
    rest = number
    for place in range(end - 1, at - 1, -1):
        buffer[place] = 48 + rest % 10
        rest //= 10
    return end


@kernel
def _write_interval(buffer: Bytes, at: int, first: int, last: int) -> int:
    """Write ``first`` or ``first-last`` and a space; return where the next byte goes."""
    at = _write_number(buffer, at, first)
    if last > first:
        buffer[at] = 45  # "-"
        at = _write_number(buffer, at + 1, last)
    buffer[at] = 32  # " "
    return at + 1


@kernel
def _write_sets(rows: Ints, node: Ints, count: Ints, buffer: Bytes) -> Ints:
    """Write the merged intervals of each span of rows, ascending by node; return the texts' bounds."""
    ends = np.zeros(len(rows), np.int64)
    at = 0
    for span in range(len(rows) - 1):
        begin = rows[span]
        end = rows[span + 1]
        if begin < end:
            first = node[begin]
            last = first + count[begin] - 1
            for row in range(begin + 1, end):
                if node[row] > last + 1:
                    at = _write_interval(buffer, at, first, last)
                    first = node[row]
                    last = first + count[row] - 1
                else:
                    last = max(last, node[row] + count[row] - 1)
            at = _write_interval(buffer, at, first, last) - 1
        ends[span + 1] = at
    return ends


_WORD = 64
_ALL_FREE = np.uint64(0xFFFFFFFFFFFFFFFF)
_NONE = np.uint64(0)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class HeldCores:
    """One entry a core held: occupancy rows by core, in order of row, node, core."""

    row: NDArray[np.int32]  # of the occupancy table
    node: NDArray[np.int32]  # row of the node
    core: NDArray[np.int32]  # number of the core in its node, from 0


def number_cores(nodes: Nodes, jobs: Jobs, occupancy: Occupancy) -> HeldCores:
    """Assign to every occupancy row the lowest free cores of its nodes, one entry per core.

    Rows are in order of start; a core is free again for rows that start when its row ended, or later. Raises
    MlsimError for rows out of order, and where more cores are held than a node has.
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
    """Return a message on a job that exceeds the capacity of a node."""
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
    """Allocate the lowest set bits of the words [first, stop) as core numbers; false if there are too few."""
    found = 0
    for word in range(first, stop):
        while found < len(taken) and free[word] != _NONE:
            lowest = free[word] & (~free[word] + _ONE)
            free[word] ^= lowest
            # A power of two is exact as a float, and its exponent is the bit's number.
            taken[found] = (word - first) * _WORD + frexp(np.float64(lowest))[1] - 1
            found += 1
    return found == len(taken)
