"""Cores of PEs: PE j of a job is on one core, or on several one after the other.

A node that a job gave up and got back is held by another row of the occupancy table, maybe with other
cores: each PE of the node has another *stay* then, which is an interval of another row of the trace.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim._jit import kernel
from mlsim.errors import MlsimError
from mlsim.record.blocks import n_rows
from mlsim.record.codes import MessageKind
from mlsim.record.derived import attempt_of_rows, restarts
from mlsim.record.otf2.grouping import group
from mlsim.record.otf2.layout import Layout
from mlsim.record.tables import Jobs, Messages, Occupancy, PEs, Records

__all__ = ["PePlaces", "place_pes", "told_times"]


_ROUNDING = 0.5e-6
"""Seconds that a chunk may begin before its stay, by rounding errors of the sums that both come from."""


@dataclass(frozen=True, slots=True)
class PePlaces:
    """The intervals each PE executes in.

    Attributes
    ----------
    first, last_stay
        The last interval of PE p of attempt a is ``last_stay[first[a] + p]``. The last attempt of a job is
        numbered as the job, and those before it follow behind all jobs.
    earlier
        Interval -> the interval before it of the same PEs; -1 where there is none.
    start
        When each interval begins.
    restarts, before
        How often each job started again; attempt k of job j is numbered ``before[j] + k`` if it is not the
        last one.
    """

    first: Ints
    last_stay: Ints
    earlier: Ints
    start: Floats
    restarts: Ints
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
        """Get the interval in which a PE is at a time, or was last before.

        Parameters
        ----------
        jobs
            The jobs.
        job, attempt, pe, time
            What to look for, row by row; ``attempt`` as of chunks.

        Raises
        ------
        MlsimError
            Where a job has no such PE.
        """
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


def place_pes(records: Records, layout: Layout, pes_per_node: int | None) -> PePlaces:
    """Find where PEs execute: PE j of a job is on the j-th of the cores that its PEs use.

    Cores are counted in the job's first rows of each node; a later row continues the node's PEs. Of a job
    that started again, each attempt has PEs of its own.
    """
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


def _pes_per_entry(occupancy: Occupancy, layout: Layout, pes_per_node: int | None) -> Ints:
    """Count the PEs in each held entry: at most one on a core, or all of the node where rows are nodes."""
    limit = np.iinfo(np.int64).max if pes_per_node is None else pes_per_node
    if layout.per_node:
        return np.minimum(occupancy.cores[layout.held.row], limit)
    cores = np.repeat(occupancy.cores, occupancy.count)
    rank = np.arange(len(layout.held.row)) - np.repeat(np.cumsum(cores) - cores, cores)
    return (rank < limit).astype(np.int64)


@kernel
def _link_stays(
    job_first: Ints, by_job: Ints, row: NDArray[np.int32], node: NDArray[np.int32], nodes: int
) -> tuple[Ints, Ints, Ints]:
    """Tie the held entries in which the same PEs are.

    Returns
    -------
    home, earlier
        For each entry the first one of its PEs, and the one before it; -1 where there is none, which for
        ``home`` is on cores beyond those of the job's first row of the node.
    latest
        For each entry that is a first one, the last one of its PEs.
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
    """Look up the interval of every row's PE at its time; return the first row with no such PE, or -1."""
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

    In the last stay of PEs that is when the last of them learned that no work is left. In an earlier one
    they had none after their last chunk there: where chunks are shown, the time is the stay's start, since
    idle time never begins before the end of a chunk. Where they are not, it is when the application sent
    that the node is idle.
    """
    pes, held = records.pes, records.occupancy
    told = np.full(len(layout.entry), -np.inf)
    np.maximum.at(told, places.find(records.jobs, pes.job, pes.attempt, pes.pe, pes.told), pes.told)
    stays = places.several(places.of_pes(pes))
    # PEs that were told in an earlier stay had no work at all in the last one.
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
