"""Metrics of workflows: jobs that depend on each other and have one name in the column ``workflow``."""

from collections.abc import Iterator
from graphlib import TopologicalSorter
from typing import Any, Final

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.analysis.job_metrics import aggregate_values
from mlsim.record import JobState, Records, derived_times

WORKFLOW: Final = "workflow"  # Column of the log


def workflow_metrics(records: Records) -> dict[str, Any]:
    """Count workflows, and aggregate makespan, critical path and stretch of those that completed [s].

    The critical path is the makespan on a machine without limits: each job starts when it is submitted and
    the jobs that it depends on have ended, think times included, and takes the run time that it had.
    """
    jobs = records.jobs
    known = np.array([name is not None for name in records.own.of[WORKFLOW]], np.bool_)
    names, of_job = np.unique(records.own.of[WORKFLOW][known].astype(str), return_inverse=True)
    n = len(names)
    failed = np.bincount(of_job, jobs.state[known] != JobState.COMPLETED, n) > 0
    submitted, ended, earliest = np.full(n, np.inf), np.full(n, -np.inf), np.full(n, -np.inf)
    np.minimum.at(submitted, of_job, jobs.submit_time[known])
    np.fmax.at(ended, of_job, jobs.end_time[known])
    np.fmax.at(earliest, of_job, earliest_ends(records)[known])
    makespan, path = (ended - submitted)[~failed], (earliest - submitted)[~failed]
    positive = path > 0
    return {
        "count": n,
        "unfinished": int(failed.sum()),
        "makespan": aggregate_values(makespan),
        "critical_path": aggregate_values(path),
        "stretch": aggregate_values(makespan[positive] / path[positive]),
    }


def earliest_ends(records: Records) -> Floats:
    """Return when each job would have ended on a machine without limits [s]; NaN if it never ran."""
    jobs, cells = records.jobs, records.own.of.get("dependencies")
    ends: Floats = jobs.submit_time + derived_times.run_time(jobs)
    if cells is None:
        return ends
    rows = {job: row for row, job in enumerate(jobs.job_id.tolist())}
    before = {
        row: [(rows[job], think) for job, think in _waits_for(cell) if job in rows]
        for row, cell in enumerate(cells)
        if cell
    }
    submit, run_time = jobs.submit_time.tolist(), derived_times.run_time(jobs).tolist()
    sorter = TopologicalSorter({row: [other for other, _ in others] for row, others in before.items()})
    for row in sorter.static_order():
        free = [ends[other] + think for other, think in before.get(row, ()) if ends[other] == ends[other]]
        ends[row] = max([submit[row], *free]) + run_time[row]
    return ends


def _waits_for(cell: str) -> Iterator[tuple[int, float]]:
    """Yield the jobs of a cell such as ``afterok:3,afterany:4+60s``, and the think times behind them [s]."""
    for part in cell.split(","):
        job, _, think = part.partition(":")[2].partition("+")
        yield int(job), float(think.removesuffix("s") or 0.0)
