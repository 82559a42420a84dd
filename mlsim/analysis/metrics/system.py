"""Metrics of the batch system: jobs, makespan, utilization, throughput.

None stands for a metric that is undefined, such as the makespan of a run in which no job started.
"""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats
from mlsim.record import Jobs, JobState, Nodes, Records, Rejections
from mlsim.record.blocks import blocks_of, is_long, value_blocks
from mlsim.record.derived import allocated_seconds, run_time

__all__ = [
    "allocated_seconds",
    "busy_seconds",
    "job_counts",
    "machine_cores",
    "makespan",
    "makespan_from_submit",
    "rejected_because",
    "throughput",
    "utilization",
]


def job_counts(jobs: Jobs) -> dict[str, int]:
    """Count the jobs that were submitted, that ended in each state, and that were backfilled."""
    ends = np.zeros(len(JobState), np.int64)
    backfilled = 0
    for block in blocks_of(jobs):
        backfilled += int(np.count_nonzero(block.backfilled))
        ends += np.bincount(block.state, minlength=len(JobState))
    withdrawn = int(ends[JobState.WITHDRAWN])
    return {
        "submitted": len(jobs.job_id),
        "completed": int(ends[JobState.COMPLETED]),
        "killed": int(ends[JobState.KILLED]),
        "failed": int(ends[JobState.FAILED]),
        "rejected": int(ends[JobState.REJECTED]),
        **({"withdrawn": withdrawn} if withdrawn else {}),
        "backfilled": backfilled,
    }


def rejected_because(rejections: Rejections) -> dict[str, int]:
    """Count the rejected jobs by reason."""
    counts = np.zeros(len(rejections.reasons), np.int64)
    for reasons in value_blocks(rejections.reason):
        counts += np.bincount(reasons, minlength=len(counts))
    return dict(zip(rejections.reasons, counts.tolist(), strict=True))


def makespan(jobs: Jobs) -> float | None:
    """Return T_batch = last end - first start, in seconds (Eleliemy 2021, Eq. 2.17)."""
    return _span(jobs, "start_time", "end_time")


def makespan_from_submit(jobs: Jobs) -> float | None:
    """Return last end - first submission, in seconds."""
    return _span(jobs, "submit_time", "end_time")


def throughput(jobs: Jobs) -> float | None:
    """Return the completed jobs per hour of makespan (Eleliemy 2021, §2.2.5)."""
    span = makespan(jobs)
    completed = sum(int(np.count_nonzero(block.state == JobState.COMPLETED)) for block in blocks_of(jobs))
    return completed / span * 3600.0 if span else None


def machine_cores(nodes: Nodes) -> int:
    """Return P: the PEs of the machine, which are its cores."""
    return int(np.sum(nodes.cores))


def busy_seconds(records: Records) -> Floats:
    """Return T of Eq. 6.1 for each job: the PE-seconds it computed.

    For a job that executed a loop, the time its PEs executed chunks. For any other, its run time on the
    cores that its processors fill: working · run time. 0 if rejected. Attempts that a failure ended count as
    well: their PEs computed, even if for nothing.
    """
    jobs, attempts = records.jobs, records.attempts
    seconds = np.nan_to_num(jobs.working * run_time(jobs))
    seconds[records.loops.job] = records.loops.busy
    if len(attempts.job):
        seconds += np.bincount(attempts.job, weights=attempts.busy, minlength=len(seconds))
    return seconds


def utilization(records: Records) -> dict[str, float | None]:
    """Return shares of the machine's core-seconds in the makespan, in [0, 1]: Σ_k T_k / (P · T_batch).

    ``busy``: T_k is the time PE k computed (Eleliemy 2021, Eq. 6.1; see :func:`busy_seconds`).
    ``allocated``: T_k is the time core k was held by a job.
    """
    jobs = records.jobs
    capacity = machine_cores(records.nodes) * (makespan(jobs) or 0.0)
    if not capacity:
        return {"busy": None, "allocated": None}
    return {"busy": _busy_sum(records) / capacity, "allocated": _allocated_sum(records) / capacity}


def _busy_sum(records: Records) -> float:
    if not is_long(records.jobs) or len(records.loops.job):
        return float(np.sum(busy_seconds(records)))
    of_jobs = sum(float(np.nansum(block.working * run_time(block))) for block in blocks_of(records.jobs))
    return of_jobs + float(np.sum(records.attempts.busy))


def _allocated_sum(records: Records) -> float:
    if not is_long(records.occupancy):
        return float(np.sum(allocated_seconds(records.occupancy, len(records.jobs.job_id))))
    return sum(
        float(np.sum(block.count * block.cores * (block.end - block.start)))
        for block in blocks_of(records.occupancy)
    )


def _span(jobs: Jobs, begin: str, end: str) -> float | None:
    """Return last end - first begin [s]; None where no job has both."""
    first, last, found = np.inf, -np.inf, False
    for block in blocks_of(jobs):
        begins, ends = getattr(block, begin), getattr(block, end)
        found = found or bool(np.any(ends >= begins))
        first = float(np.fmin(first, np.fmin.reduce(begins, initial=np.inf)))
        last = float(np.fmax(last, np.fmax.reduce(ends, initial=-np.inf)))
    return last - first if found else None
