"""The nodes that each job holds, as rows."""

from typing import Final

import numpy as np

from mlsim._jit import apart_kernel, kernel, last_bit, leaf_kernel, next_bit
from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.columns.job_columns import FIRST_ROW, ROWS
from mlsim.record import Occupancy
from mlsim.record.column_types import GrowingArray, column, let_go

JOB, NODE, COUNT, NODE_CORES, RELEASED, DEVICES = range(6)
BEGIN, FINISH = range(2)
RELEASED_SOON: Final = 2  # value of RELEASED while a forecast expects the node back before the job's end
_N_INTS: Final = 5
_N_FLOATS: Final = 2
_BLOCK_ROWS: Final = 1 << 16


class OccupancyLog:
    """Rows of "this job holds so many cores on each of these nodes", in order of start.

    ``ints`` are job number, first node, number of nodes, cores on each, released early, and, if there are
    any, the devices on each, a bit for each; ``floats`` start and end (s), which is NaN while the nodes are
    held.
    """

    def __init__(self, capacity: int = 1024, with_devices: bool = False) -> None:
        self._ints = GrowingArray(np.int64, _N_INTS + with_devices, capacity)
        self._floats = GrowingArray(np.float64, _N_FLOATS, capacity)
        self.ints: Ints = self._ints.array
        self.floats: Floats = self._floats.array

    def reserve(self, used: int, more: int) -> None:
        """Ensure capacity for ``more`` rows behind the ``used`` ones."""
        self._ints.reserve(used + more, used)
        self._floats.reserve(used + more, used)
        self.ints, self.floats = self._ints.array, self._floats.array

    def free_filed(self) -> None:
        """Free the memory of rows that are kept in files."""
        let_go(self.ints, self.floats)

    def record(self, used: int) -> Occupancy:
        """Return the first ``used`` rows as a table of records, which shares the columns."""
        released = column((used,), np.bool_)
        for first in range(0, used, _BLOCK_ROWS):
            rows = slice(first, min(first + _BLOCK_ROWS, used))
            released[rows] = self.ints[RELEASED, rows]
            self.free_filed()
            let_go(released)
        return Occupancy(
            job=self.ints[JOB, :used],
            node=self.ints[NODE, :used],
            count=self.ints[COUNT, :used],
            cores=self.ints[NODE_CORES, :used],
            start=self.floats[BEGIN, :used],
            end=self.floats[FINISH, :used],
            released=released,
            devices=self.ints[DEVICES, :used] if len(self.ints) > DEVICES else None,
        )


@leaf_kernel
def write_row(row: int, job: int, node: int, cores: int, now: float, rows: Ints, times: Floats) -> None:
    """Write that a job holds ``cores`` cores of a node from ``now`` on."""
    rows[JOB, row] = job
    rows[NODE, row] = node
    rows[COUNT, row] = 1
    rows[NODE_CORES, row] = cores
    rows[RELEASED, row] = 0
    times[BEGIN, row] = now
    times[FINISH, row] = np.nan


@leaf_kernel
def devices_of(row: int, rows: Ints) -> int:
    """Return the devices that a row holds on each of its nodes, a bit for each."""
    return int(rows[DEVICES, row]) if rows.shape[0] > DEVICES else 0


@leaf_kernel
def _write_devices(row: int, devices: int, rows: Ints) -> None:
    if rows.shape[0] > DEVICES:
        rows[DEVICES, row] = devices


@apart_kernel
def write_rows(
    row: int,
    first_row: int,
    merge: bool,
    job: int,
    node: int,
    count: int,
    cores: int,
    devices: int,
    now: float,
    rows: Ints,
    times: Floats,
) -> int:
    """Write that a job holds cores of each of some nodes; return one past the last row."""
    if not merge:
        for each in range(node, node + count):
            write_row(row, job, each, cores, now, rows, times)
            _write_devices(row, devices, rows)
            row += 1
        return row
    last = row - 1
    alike = last >= first_row and rows[NODE_CORES, last] == cores and devices_of(last, rows) == devices
    if alike and rows[NODE, last] + rows[COUNT, last] == node:
        rows[COUNT, last] += count
        return row
    write_row(row, job, node, cores, now, rows, times)
    rows[COUNT, row] = count
    _write_devices(row, devices, rows)
    return row + 1


@kernel
def find_holders(
    node: int, running: Ints, ints: Ints, rows: Ints, times: Floats, slots: Ints, held: Ints
) -> int:
    """Write running jobs that hold part of a node to ``slots``, their cores to ``held``; return how many."""
    n = 0
    for k in range(len(running)):
        slot = running[k]
        first = ints[FIRST_ROW, slot]
        for row in range(first, first + ints[ROWS, slot]):
            if rows[NODE, row] <= node < rows[NODE, row] + rows[COUNT, row] and np.isnan(times[FINISH, row]):
                slots[n], held[n] = slot, rows[NODE_CORES, row]
                n += 1
    return n


_LEVELS: Final = 3
_BITS: Final = 64


def runs_of(kinds: Ints, amounts: Ints | None = None) -> Ints:
    """Return the runs of nodes of the same kind, with the same amounts: ``starts`` of the kernels here."""
    begins = np.ones(len(kinds), np.bool_)
    begins[1:] = kinds[1:] != kinds[:-1]
    if amounts is not None:
        begins[1:] |= (amounts[1:] != amounts[:-1]).any(axis=1)
    starts = np.zeros((_LEVELS, -(-len(kinds) // _BITS)), np.int64)
    for level in range(_LEVELS):
        whole = np.zeros(-(-len(begins) // _BITS) * _BITS, np.bool_)
        whole[: len(begins)] = begins
        words = np.packbits(whole, bitorder="little").view("<u8").astype(np.uint64).view(np.int64)
        starts[level, : len(words)] = words
        begins = words != 0
    return starts


def first_nodes(starts: Ints, n_nodes: int) -> Ints:
    """Return the first node of the run of each node."""
    begins = np.unpackbits(starts[0].view(np.uint8), count=n_nodes, bitorder="little")
    return np.flatnonzero(begins)[np.cumsum(begins, dtype=np.int64) - 1]


@leaf_kernel
def copy_runs(target: Ints, source: Ints) -> None:
    """Copy the begins of runs."""
    for level in range(_LEVELS):
        for word in range(((source.shape[1] - 1) >> (6 * level)) + 1):
            target[level, word] = source[level, word]


@leaf_kernel
def next_run(node: int, n_nodes: int, starts: Ints) -> int:
    """Return the first node of the run that follows that of a node; the number of nodes if none does."""
    at, level = node, 0
    while level < _LEVELS:
        word = at >> 6
        place = next_bit(starts[level, word], at & 63)
        if place < _BITS:
            at = (word << 6) + place
            break
        at = word
        level += 1
    if level == _LEVELS:  # beyond 262,144 nodes there are several words at the top
        level, most = _LEVELS - 1, ((starts.shape[1] - 1) >> 12) + 1
        at += 1
        while at < most and starts[level, at] == 0:
            at += 1
        if at >= most:
            return n_nodes
        at = (at << 6) + _first_bit(starts[level, at])
    while level > 0:
        level -= 1
        at = (at << 6) + _first_bit(starts[level, at])
    return int(at)


@leaf_kernel
def _first_bit(word: int) -> int:
    """Return the place of the first bit of a word that has one."""
    return 0 if word & 1 else next_bit(word, 0)


@leaf_kernel
def run_of(node: int, starts: Ints) -> int:
    """Return the first node of the run that a node belongs to."""
    at, level = node + 1, 0  # the last bit before it; the first node always has one
    while level < _LEVELS:
        word, bits = at >> 6, at & 63
        place = last_bit(starts[level, word], bits - 1) if bits > 0 else -1
        at = word
        if place >= 0:
            at = (word << 6) + place
            break
        level += 1
    if level == _LEVELS:
        level = _LEVELS - 1
        at -= 1
        while starts[level, at] == 0:
            at -= 1
        at = (at << 6) + last_bit(starts[level, at], _BITS - 1)
    while level > 0:
        level -= 1
        at = (at << 6) + last_bit(starts[level, at], _BITS - 1)
    return int(at)


@leaf_kernel
def begin_run(node: int, starts: Ints) -> None:
    """Begin a run at a node."""
    at = node
    for level in range(_LEVELS):
        word = starts[level, at >> 6]
        starts[level, at >> 6] = word | (np.int64(1) << np.int64(at & 63))
        if word != 0:
            break
        at >>= 6


@leaf_kernel
def join_run(node: int, starts: Ints) -> None:
    """Join the run that begins at a node to the one before."""
    at = node
    for level in range(_LEVELS):
        word = starts[level, at >> 6] & ~(np.int64(1) << np.int64(at & 63))
        starts[level, at >> 6] = word
        if word != 0:
            break
        at >>= 6
