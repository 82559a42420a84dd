"""The rows of the trace, the cores of PEs, and the numbers under which events refer to definitions."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

import numpy as np

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints, Mask, NDArray, ranges
from mlsim.errors import MlsimError, OutputError
from mlsim.record.column_types import MessageKind
from mlsim.record.derived_times import attempt_of_rows, restarts
from mlsim.record.node_sets import HeldCores, number_cores
from mlsim.record.record_tables import Jobs, Messages, Nodes, Occupancy, PEs, Records
from mlsim.record.table_blocks import n_rows

# Locations: the dispatcher, the metrics of the batch system, then the rows of the nodes in order. Readers
# expect that metrics which stand alone are on a location that is for nothing else.
BATCH_LOCATION = 0
METRIC_LOCATION = 1
FIRST_ROW = 2

Level = Literal["jobs", "nodes", "chunks", "messages"]
Rows = Literal["auto", "cores", "nodes"]

# Regions: those that a level nests in jobs, and that of the batch system, then one for each job that started.
# Numbers have no gaps, which readers would complain of.
NESTED_REGIONS: dict[Level, tuple[str, ...]] = {
    "jobs": (),
    "nodes": ("idle",),
    "chunks": ("chunk", "idle"),
    "messages": ("chunk", "idle", "chunk calculation", "request", "wait", "dispatcher"),
}
CHUNK_REGION = NESTED_REGIONS["chunks"].index("chunk")
CALCULATION_REGION = NESTED_REGIONS["messages"].index("chunk calculation")
REQUEST_REGION = NESTED_REGIONS["messages"].index("request")
DISPATCHER_REGION = NESTED_REGIONS["messages"].index("dispatcher")
WAIT_REGION = NESTED_REGIONS["messages"].index("wait")


def nested_regions(level: Level, *, merged: bool) -> tuple[str, ...]:
    """Return the names of the regions before those of jobs, by number."""
    if not merged:
        return NESTED_REGIONS[level]
    return (*("chunks" if name == "chunk" else name for name in NESTED_REGIONS[level]), SEVERAL_JOBS)


SEVERAL_JOBS = "several jobs"  # the last of them where a row shows several cores

METRIC_CLASS = 0
COMMUNICATOR = 0
CHUNK_WINDOW = 0
# What atomics do, in OTF2's numbers.
FETCH_AND_ADD = 5
FETCH_AND_INCREMENT = 6

# Attributes of events.
ITERATIONS = 0
FIRST_ITERATION = 1
STEP = 2
JOB_ID = 3
TECHNIQUE = 4
MESSAGE = 5
REMAINING_ITERATIONS = 6
REMAINING_WORK = 7
NODES = 8
FOR_JOB = 9
# Of merged rows alone.
CHUNKS = 10
PE_TIME = 11

# Strings that events refer to; string 0 is empty, as the format advises.
TECHNIQUE_STRING = 1
KIND_STRING = 2
# Messages inside of loops come after the kinds of coordination messages.
CHUNK_REQUEST = len(MessageKind)
CHUNK_REPLY = CHUNK_REQUEST + 1
_KINDS = (*(kind.name.lower().replace("_", " ") for kind in MessageKind), "chunk request", "chunk reply")


def technique_string(code: Ints) -> Ints:
    """Return the strings of techniques of jobs, of runs in which these differ."""
    return len(fixed_strings("")) + code


def fixed_strings(technique: str, several: Sequence[str] = ()) -> list[str]:
    """List the strings that have fixed numbers, from 0 on; ``several``: the techniques of jobs, by code.

    >>> fixed_strings("GSS")[:4]
    ['', 'GSS', 'node idle', 'job completed']
    """
    return ["", technique, *_KINDS, *several]


@kernel
def group(keys: Ints, groups: int) -> tuple[Ints, Ints]:
    """Group rows by key, 0 to ``groups - 1``, in their order: group k is ``order[first[k]:first[k + 1]]``."""
    first = np.zeros(groups + 1, np.int64)
    for key in keys:
        first[key + 1] += 1
    for k in range(groups):
        first[k + 1] += first[k]
    place = first[:-1].copy()
    order = np.empty(len(keys), np.int64)
    for row in range(len(keys)):
        order[place[keys[row]]] = row
        place[keys[row]] += 1
    return first, order


LATEST = 9.2e9  # latest time of a trace's clock [s]: it counts nanoseconds in 63 bits


MOST_ROWS = 997
"""Of more rows, several are one unless asked for: a trace has 2,000 files then, two a location.

Readers built on the library open the files of events of all rows at once, and most systems allow 1,024.
"""


def nanoseconds(seconds: Floats) -> Ints:
    """Convert times [s] to ticks of the trace's clock, rounded; OutputError after :data:`LATEST`."""
    latest = float(np.max(seconds, initial=0.0))
    if latest > LATEST:
        raise OutputError(
            f"the trace cannot be written: something happens at {latest:.6g} s, and the nanoseconds of a "
            f"trace end at {LATEST:.1e} s (292 years); try output.trace: none"
        )
    return np.rint(seconds * 1e9).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of a trace, which are nodes, or several nodes each."""

    name: list[str]
    group: list[str]
    of_node: Ints  # node -> its process; -1 where the trace has none for it
    place: Ints  # node -> its place among the nodes of its process
    nodes: int = 1  # most nodes of a process


@dataclass(frozen=True, slots=True)
class Layout:
    """The rows of the trace and the intervals on them.

    The intervals of row r are ``first[r]`` to ``first[r + 1] - 1``: they are in order of their begins, and do
    not overlap unless rows are merged.
    """

    per_node: bool  # a row is a whole node, or more, rather than a core
    merged: bool  # intervals of a row may overlap: it shows several cores, or nodes, at once
    processes: Processes
    row_node: Ints  # row -> its node, or the first of several
    node_row: Ints  # node -> its first row
    shown: Mask  # row -> whether the trace has it
    first: Ints
    occupancy_row: NDArray[np.int32]  # by interval
    entry: Ints  # interval -> entry of held
    held: HeldCores

    @property
    def row_process(self) -> Ints:
        """The process of each row."""
        return self.processes.of_node[self.row_node]


def lay_out(nodes: Nodes, jobs: Jobs, occupancy: Occupancy, *, per_node: bool) -> Layout:
    """Find the intervals of every row; raise MlsimError where two jobs would hold the same core."""
    if per_node:
        nodes = replace(nodes, cores=np.ones(len(nodes.cores), np.int64))
        occupancy = replace(occupancy, cores=np.ones(len(occupancy.job), np.int64))
    held = number_cores(nodes, jobs, occupancy)
    node_row, rows = np.cumsum(nodes.cores) - nodes.cores, int(np.sum(nodes.cores))
    first, entry = group(node_row[held.node] + held.core, rows)
    numbers = np.arange(len(nodes.name))
    processes = Processes(nodes.name, nodes.group, numbers, np.zeros_like(numbers))
    row_node, shown = np.repeat(numbers, nodes.cores), np.ones(rows, np.bool_)
    return Layout(per_node, False, processes, row_node, node_row, shown, first, held.row[entry], entry, held)


def without_rows(layout: Layout, shown: Mask) -> Layout:
    """Leave out all rows but those that are ``shown``, and the processes of nodes that have none of them."""
    nodes = np.unique(layout.row_node[shown])
    return replace(layout, shown=shown, processes=_processes(layout.processes, [[n] for n in nodes.tolist()]))


def merge_rows(layout: Layout, shown: Mask, most: int) -> Layout:
    """Show each node in one row, or neighbours of a group together, in at most ``most`` rows, if shown."""
    nodes = np.unique(layout.row_node[shown]).tolist()
    kinds = [list(members) for _, members in groupby(nodes, layout.processes.group.__getitem__)]
    if len(kinds) > most:
        kinds = [nodes]
    size = max(-(-len(nodes) // max(most, 1)), 1)
    while sum(-(-len(members) // size) for members in kinds) > most:
        size += 1
    blocks = [members[low : low + size] for members in kinds for low in range(0, len(members), size)]
    processes = replace(_processes(layout.processes, blocks), nodes=size)
    # What nodes without a process hold is on one more row, which is not shown.
    node_row = np.where(processes.of_node < 0, len(blocks), processes.of_node)
    first, entry = group(node_row[layout.held.node], len(blocks) + 1)
    return replace(
        layout,
        merged=True,
        processes=processes,
        row_node=np.array([*(block[0] for block in blocks), 0], np.int64),
        node_row=node_row,
        shown=np.arange(len(blocks) + 1) < len(blocks),
        first=first,
        occupancy_row=layout.held.row[entry],
        entry=entry,
    )


def _processes(old: Processes, blocks: Sequence[Sequence[int]]) -> Processes:
    """Make a process of each block of nodes."""
    of_node, place = np.full(len(old.of_node), -1), np.zeros(len(old.of_node), np.int64)
    names, groups = [], []
    for number, block in enumerate(blocks):
        of_node[list(block)], place[list(block)] = number, np.arange(len(block))
        names.append(_from_to(old.name, block))
        groups.append(_from_to(old.group, block))
    return Processes(names, groups, of_node, place)


def _from_to(names: Sequence[str], block: Sequence[int]) -> str:
    first, last = names[block[0]], names[block[-1]]
    return first if first == last else f"{first} to {last}"


_ROUNDING = 0.5e-6
"""Seconds that a chunk may begin before its stay, by rounding errors of the sums that both come from."""


@dataclass(frozen=True, slots=True)
class PePlaces:
    """The intervals each PE executes in.

    The last interval of PE p of attempt a is ``last_stay[first[a] + p]``. The last attempt of a job is
    numbered as the job; attempt k of job j that another one followed is numbered ``before[j] + k``.
    """

    first: Ints
    last_stay: Ints
    earlier: Ints  # interval -> the one before it of the same PEs; -1: none
    start: Floats  # of each interval
    restarts: Ints  # of each job
    before: Ints

    def of_pes(self, pes: PEs) -> Ints:
        """Get the last interval of each PE."""
        last: Ints = self.last_stay[self.first[self.numbers(pes.job, pes.attempt)] + pes.pe]
        return last

    def numbers(self, job: Ints, attempt: NDArray[np.int32] | None) -> Ints:
        """Get the numbers of attempts of jobs, which are the last ones if ``attempt`` is None."""
        if attempt is None:
            return job
        return np.where(attempt > self.restarts[job], job, self.before[job] + attempt)

    def find(
        self, jobs: Jobs, job: Ints, attempt: NDArray[np.int32] | None, pe: NDArray[np.int32], time: Floats
    ) -> Ints:
        """Find each PE's interval at a time, or the last one before; MlsimError if a job has no such PE."""
        found, number = np.empty(len(job), np.int64), self.numbers(job, attempt)
        wrong = _locate(self.first, self.last_stay, self.earlier, self.start, number, pe, time, found)
        if wrong >= 0:
            row = number[wrong]
            raise MlsimError(
                f"internal error: job {jobs.job_id[job[wrong]]} is recorded with PE {pe[wrong]}, but it has "
                f"cores for {self.first[row + 1] - self.first[row]} PEs"
            )
        return found

    def several(self, last: Ints) -> Ints:
        """Get all intervals of those PEs, given by their last ones, that have more than one."""
        stays = [last[self.earlier[last] >= 0]]
        while len(stays[-1]):
            before = self.earlier[stays[-1]]
            stays.append(before[before >= 0])
        return np.unique(np.concatenate(stays))


def place_pes(records: Records, layout: Layout, pes_per_node: int | Ints | None) -> PePlaces:
    """Find where PEs execute: PE j of an attempt is on the j-th of its cores, by first rows of nodes."""
    held, entries, n_jobs = layout.held, len(layout.held.row), len(records.jobs.job_id)
    again = restarts(records.attempts, n_jobs)
    earlier_one = attempt_of_rows(records.occupancy, records.attempts)
    owner = np.where(earlier_one < 0, records.occupancy.job, n_jobs + earlier_one)
    job_first, by_job = group(owner[held.row], n_jobs + len(records.attempts.job))
    home, earlier, latest = _link_stays(job_first, by_job, held.row, held.node, len(layout.node_row))
    at_home = home == np.arange(entries)
    pes = np.where(at_home, _pes_per_entry(records.occupancy, layout, pes_per_node), 0)[by_job]
    first = np.concatenate([[0], np.cumsum(pes)])[job_first]
    interval = np.empty(entries, np.int64)
    interval[layout.entry] = np.arange(entries)
    before = np.full(entries, -1, np.int64)
    back = np.flatnonzero(earlier >= 0)
    before[interval[back]] = interval[earlier[back]]
    last_stay = np.repeat(interval[latest[by_job]], pes)
    starts = records.occupancy.start[layout.occupancy_row]
    return PePlaces(first, last_stay, before, starts, again, n_jobs - 1 + np.cumsum(again) - again)


def _pes_per_entry(occupancy: Occupancy, layout: Layout, pes_per_node: int | Ints | None) -> Ints:
    """Count the PEs in each held entry: at most one on a core, or all of the node where rows are nodes."""
    limit: int | Ints = np.iinfo(np.int64).max if pes_per_node is None else pes_per_node
    if isinstance(limit, np.ndarray):
        limit = limit[occupancy.job[layout.held.row]]
    if layout.per_node:
        return np.minimum(occupancy.cores[layout.held.row], limit)
    rank = ranges(0, np.repeat(occupancy.cores, occupancy.count))
    return (rank < limit).astype(np.int64)


@kernel
def _link_stays(
    job_first: Ints, by_job: Ints, row: NDArray[np.int32], node: NDArray[np.int32], nodes: int
) -> tuple[Ints, Ints, Ints]:
    """Link the held entries of the same PEs.

    Returns, per entry, the first one of its PEs and the one before it, -1 for none; for ``home`` that is an
    entry on cores beyond those of the job's first row of the node. The third array has, per first entry, the
    last one of its PEs.
    """
    home, earlier = np.full(len(row), -1), np.full(len(row), -1)
    latest = np.arange(len(row))
    # Of the job at hand, on each node: its first entry, and its first entry of the row at hand.
    first_entry, row_entry = np.full(nodes, -1), np.full(nodes, -1)
    for job in range(len(job_first) - 1):
        for entry in by_job[job_first[job] : job_first[job + 1]]:
            n = node[entry]
            if first_entry[n] < 0 or row[row_entry[n]] != row[entry]:
                row_entry[n] = entry
            if first_entry[n] < 0:
                first_entry[n] = entry
            same = first_entry[n] + entry - row_entry[n]
            if row[same] == row[first_entry[n]] and node[same] == n:
                home[entry] = same
                if same != entry:
                    earlier[entry], latest[same] = latest[same], entry
        for entry in by_job[job_first[job] : job_first[job + 1]]:
            first_entry[node[entry]] = -1
    return home, earlier, latest


@kernel
def _locate(
    first: Ints,
    last_stay: Ints,
    earlier: Ints,
    start: Floats,
    attempt: Ints,
    pe: NDArray[np.int32],
    time: Floats,
    found: Ints,
) -> int:
    """Find the interval of every row's PE at its time; return the first row with no such PE, or -1."""
    for row in range(len(attempt)):
        index = first[attempt[row]] + pe[row]
        if pe[row] < 0 or index >= first[attempt[row] + 1]:
            return row
        stay = last_stay[index]
        while earlier[stay] >= 0 and time[row] + _ROUNDING < start[stay]:
            stay = earlier[stay]
        found[row] = stay
    return -1


def told_times(records: Records, layout: Layout, places: PePlaces) -> Floats:
    """Find from when on the PEs of each interval have no work; infinite without PEs.

    In the last stay of PEs that is when the last of them learned that no work is left. In an earlier one it
    is the start of the stay where chunks are shown (idle time never begins before the end of a chunk), else
    when the application sent that the node is idle.
    """
    pes, held = records.pes, records.occupancy
    told = np.full(len(layout.entry), -np.inf)
    np.maximum.at(told, places.find(records.jobs, pes.job, pes.attempt, pes.pe, pes.told), pes.told)
    stays = places.several(places.of_pes(pes))
    # PEs notified in an earlier stay had no work at all in the last one.
    other = stays[np.isneginf(told[stays]) | np.isin(stays, places.earlier[stays])]
    rows = layout.occupancy_row[other]
    told[other] = held.start[rows]
    if len(other) and not n_rows(records.chunks):
        told[other] = _idle_since(records.messages, held, rows, layout.held.node[layout.entry[other]])
    told[np.isneginf(told)] = np.inf
    return told


def _idle_since(
    messages: Messages, held: Occupancy, rows: NDArray[np.int32], nodes: NDArray[np.int32]
) -> Floats:
    """Find when the job of each row sent for the last time in it that the node is idle; else its start."""
    sent: dict[tuple[int, int], list[float]] = {}
    about = np.isin(messages.job, held.job[rows]) & (messages.kind == MessageKind.NODE_IDLE)
    columns = messages.sent[about], messages.job[about], messages.node[about]
    for time, job, node in sorted(zip(*(column.tolist() for column in columns), strict=True)):
        sent.setdefault((job, node), []).append(time)
    since = held.start[rows]
    keys = zip(held.job[rows].tolist(), nodes.tolist(), held.end[rows].tolist(), strict=True)
    for place, (job, node, end) in enumerate(keys):
        times = sent.get((job, node), [])
        before = bisect_right(times, end)
        if before:
            since[place] = max(since[place], times[before - 1])
    return since
