"""A run by the recorded schedule: jobs are submitted at their recorded starts, and start as they fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask, ranges
from mlsim.platform.node_lists import RecordedNodes
from mlsim.record import Jobs, JobState, Records
from mlsim.scenario.words import Mapping
from mlsim.workload.workload_jobs import RECORDED_NODES, JobBlock, OwnColumns

if TYPE_CHECKING:
    from mlsim.batch.events.dependency_events import Dependants
    from mlsim.batch.room.unit_requests import Requests


class RecordedSchedule:
    """Submits jobs to the batch system at their recorded starts, and restores their submit times.

    A job that the log withdrew before it started is withdrawn at its time. A start before the submission is
    taken for one at the submission.
    """

    def __init__(self) -> None:
        # Of each block: submit times, withdrawals, and when jobs are due; NaN: never.
        self._columns: list[Floats] = [np.empty((3, 0))]

    def blocks(self, blocks: Iterable[JobBlock]) -> Iterator[JobBlock]:
        """Yield the jobs of a workload in order of their recorded starts."""
        later, first = JobBlock.empty(), 0
        for block in blocks:
            due = self._due(block, first)
            first += len(due)
            jobs = JobBlock.concatenate([later, due]) if len(later) else due
            assert jobs.number is not None, "all have one"
            jobs = jobs.select(np.lexsort((jobs.number, jobs.submit_time)))
            # Jobs of later blocks are submitted after this one's, and start no earlier.
            n = int(np.searchsorted(jobs.submit_time, block.submit_time.max(initial=-np.inf), side="right"))
            later = jobs.select(slice(n, None))
            if n:
                yield jobs.select(slice(0, n))
        if len(later):
            yield later

    def _due(self, block: JobBlock, first: int) -> JobBlock:
        """Return the jobs of a block submitted at their recorded starts, with their places in the log."""
        submit, leaves = block.submit_time, block.withdrawals()
        known = block.recorded_start >= 0
        at = np.where(
            known, np.maximum(block.recorded_start, submit), np.where(leaves < np.inf, leaves, submit)
        )
        self._columns.append(np.stack([submit, leaves, np.where(known, at, np.nan)]))
        stays = known & (leaves <= at)
        patience = np.where((leaves < np.inf) & ~stays, leaves - at, -1.0)
        names = None if block.own is None else block.own.of.get(RECORDED_NODES)
        own = None if names is None else OwnColumns({RECORDED_NODES: names})
        number = np.arange(first, first + len(block))
        return replace(block, submit_time=at, patience=patience, own=own, after=None, number=number)

    def restore(self, jobs: Jobs, dependants: Dependants | None) -> Jobs:
        """Return the rows with submit times of the log, and what follows from these."""
        submit, leaves, _ = np.concatenate(self._columns, axis=1)
        withdrawn = jobs.state == JobState.WITHDRAWN
        seen = withdrawn & (leaves > submit)
        eligible = submit
        if jobs.eligible_time is not None and dependants is not None:
            ready, settled = dependants.ready_times(len(submit))
            eligible = np.maximum(submit, ready)
            held = np.isnan(jobs.eligible_time) | withdrawn & (~settled | (eligible >= leaves))
            eligible = np.where(jobs.state == JobState.REJECTED, submit, eligible)
            eligible = np.where(held, np.nan, eligible)
            seen &= ~np.isnan(eligible)
        return replace(
            jobs,
            submit_time=submit,
            eligible_time=None if jobs.eligible_time is None else eligible,
            prediction=np.where(seen, jobs.walltime, jobs.prediction),
            backfilled=overtaking(eligible, np.where(withdrawn, leaves, jobs.start_time), jobs.start_time),
        )

    def facts(self, records: Records, requests: Requests) -> dict[str, Any]:
        """Count the jobs that did not start when, or where, they did in the log, and its over-allocation.

        ``late``: jobs whose start was delayed, as nodes were missing or they waited for others; the first
        ones by their recorded starts. ``over_allocated``: the time in which jobs of the log hold more cores
        than the machine has, by their recorded starts and run times; rejected jobs are among them.
        """
        jobs, due = records.jobs, np.concatenate(self._columns, axis=1)[2]
        delay = jobs.start_time - due
        late = np.flatnonzero(delay > 0)
        each = int(records.nodes.cores.max()) if requests.mapping is Mapping.NODE else 1
        cores = np.where(jobs.cores > 0, jobs.cores, jobs.processors * each)
        first = late[np.lexsort((late, due[late]))][:_SHOWN]
        return {
            "starts": int(np.count_nonzero(~np.isnan(due))),
            "late": len(late),
            "late_mean": float(delay[late].mean()) if len(late) else None,
            "late_max": float(delay[late].max()) if len(late) else None,
            "first_late": [
                {"job_id": int(jobs.job_id[k]), "recorded": float(due[k]), "start": float(jobs.start_time[k])}
                for k in first.tolist()
            ],
            "over_allocated": over_allocation(due, jobs.log_run_time, cores, int(records.nodes.cores.sum())),
            **({} if requests.named is None else _elsewhere(records, requests.named)),
        }


_SHOWN = 5


def over_allocation(start: Floats, run_time: Floats, cores: Ints, capacity: int) -> dict[str, Any]:
    """Return for how long jobs hold more cores than there are [s], at most how many more, and since when."""
    ran = ~np.isnan(start) & (run_time > 0)
    times = np.concatenate([start[ran], (start + run_time)[ran]])
    change = np.concatenate([cores[ran], -cores[ran]])
    order = np.argsort(times, kind="stable")
    times, excess = times[order], np.cumsum(change[order]) - capacity
    length = np.diff(times, append=times[-1:])
    over = (excess > 0) & (length > 0)
    return {
        "seconds": float(length[over].sum()),
        "cores": int(excess[over].max(initial=0)),
        "first": float(times[over][0]) if over.any() else None,
    }


def _elsewhere(records: Records, named: RecordedNodes) -> dict[str, Any]:
    """Count the jobs that started on other nodes than in the log, and those whose nodes are unknown."""
    lists, rows, n_nodes = records.own.of[RECORDED_NODES], records.occupancy, len(records.nodes.name)
    wanted = [named.of(text) for text in lists.tolist()]
    counts = np.array([len(nodes) for nodes in wanted], np.int64)
    places = np.repeat(np.arange(len(counts)), counts) * n_nodes + np.concatenate([_NO_NODES, *wanted])
    held = (rows.start == records.jobs.start_time[rows.job]) & (counts[rows.job] > 0)
    job, node, count = rows.job[held], rows.node[held], rows.count[held]
    others = ~np.isin(np.repeat(job, count) * n_nodes + ranges(node, count), places)
    return {
        "elsewhere": len(np.unique(np.repeat(job, count)[others])),
        "unknown_nodes": sum(bool(text) and n == 0 for text, n in zip(lists, counts.tolist(), strict=True)),
    }


def overtaking(queued: Floats, left: Floats, start: Floats) -> Mask:
    """Return which jobs started while one that had been queued before them still was."""
    order = np.lexsort((np.arange(len(queued)), queued))
    last = np.fmax.accumulate(np.concatenate([[-np.inf], left[order]]))[:-1]
    found = np.zeros(len(queued), np.bool_)
    found[order] = start[order] < last
    return found


_NO_NODES = np.empty(0, np.int64)
