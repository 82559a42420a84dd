"""What each row of the trace shows: jobs by location in order of time, and where every PE is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mlsim.errors import MlsimError
from mlsim.record.cores import HeldCores, number_cores
from mlsim.record.otf2.grouping import group, locate
from mlsim.record.tables import Chunks, Jobs, Nodes, Occupancy, PEs, Records

__all__ = ["Layout", "PePlaces", "lay_out", "nanoseconds", "place_pes", "told_times"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def nanoseconds(seconds: Floats) -> Ints:
    """Convert times to the ticks of the trace's clock, rounding to the nearest."""
    return np.rint(seconds * 1e9).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Layout:
    """The rows of the trace and the intervals on them.

    Attributes
    ----------
    per_node
        Whether a row is a whole node rather than a core.
    node_first
        The rows of node n are ``node_first[n]`` to ``node_first[n + 1] - 1``.
    first
        The intervals of row r are ``first[r]`` to ``first[r + 1] - 1``: they do not overlap and are in
        order of time.
    occupancy_row
        Row of the occupancy table of each interval.
    entry, held
        Interval -> held entry, and the held entries in order of occupancy row, node, core.
    """

    per_node: bool
    node_first: Ints
    first: Ints
    occupancy_row: NDArray[np.int32]
    entry: Ints
    held: HeldCores


def lay_out(nodes: Nodes, jobs: Jobs, occupancy: Occupancy, *, per_node: bool) -> Layout:
    """Find the intervals of every row; raise MlsimError where two jobs would hold the same core."""
    if per_node:
        nodes = replace(nodes, cores=np.ones(len(nodes.cores), np.int64))
        occupancy = replace(occupancy, cores=np.ones(len(occupancy.job), np.int64))
    held = number_cores(nodes, jobs, occupancy)
    node_first = np.append(np.int64(0), np.cumsum(nodes.cores))
    first, entry = group(node_first[held.node] + held.core, int(node_first[-1]))
    return Layout(per_node, node_first, first, held.row[entry], entry, held)


@dataclass(frozen=True, slots=True)
class PePlaces:
    """The interval each PE executes in: PE p of job j is in ``interval[first[j] + p]``."""

    first: Ints
    interval: Ints

    def find(self, jobs: Jobs, rows: Chunks | PEs) -> Ints:
        """Get the interval of each row's PE; raise MlsimError where a job has no such PE."""
        found = np.empty(len(rows.job), np.int64)
        wrong = locate(self.first, self.interval, rows.job, rows.pe, found)
        if wrong >= 0:
            job = rows.job[wrong]
            raise MlsimError(
                f"internal error: job {jobs.job_id[job]} is recorded with PE {rows.pe[wrong]}, but it has "
                f"cores for {self.first[job + 1] - self.first[job]} PEs"
            )
        return found


def place_pes(records: Records, layout: Layout, pes_per_node: int | None) -> PePlaces:
    """Find where PEs execute: PE j of a job is on the j-th of the cores that its PEs use."""
    entry_job = records.occupancy.job[layout.held.row]
    job_first, by_job = group(entry_job, len(records.jobs.job_id))
    pes = _pes_per_entry(records.occupancy, layout, pes_per_node)[by_job]
    first = np.concatenate([[0], np.cumsum(pes)])[job_first]
    interval = np.empty(len(entry_job), np.int64)
    interval[layout.entry] = np.arange(len(entry_job))
    return PePlaces(first, np.repeat(interval[by_job], pes))


def _pes_per_entry(occupancy: Occupancy, layout: Layout, pes_per_node: int | None) -> Ints:
    """Count the PEs in each held entry: at most one on a core, or all of the node where rows are nodes."""
    limit = np.iinfo(np.int64).max if pes_per_node is None else pes_per_node
    if layout.per_node:
        return np.minimum(occupancy.cores[layout.held.row], limit)
    cores = np.repeat(occupancy.cores, occupancy.count)
    rank = np.arange(len(layout.held.row)) - np.repeat(np.cumsum(cores) - cores, cores)
    return (rank < limit).astype(np.int64)


def told_times(records: Records, layout: Layout, places: PePlaces) -> Floats:
    """Find when the last PE of each interval learned that no work is left; infinite without PEs."""
    told = np.full(len(layout.entry), -np.inf)
    np.maximum.at(told, places.find(records.jobs, records.pes), records.pes.told)
    told[np.isneginf(told)] = np.inf
    return told
