"""How the batch system did: jobs, queue, makespan, utilization, throughput.

None stands for a metric that is undefined, such as the makespan of a run in which no job started.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim.analysis.metrics.streamed import streamed_queue_length
from mlsim.record import Jobs, JobState, Nodes, Occupancy, Records
from mlsim.record.blocks import blocks_of, is_long
from mlsim.record.derived import run_time
from mlsim.record.timeline import step_function, time_average

__all__ = [
    "allocated_seconds",
    "busy_seconds",
    "job_counts",
    "machine_cores",
    "makespan",
    "makespan_from_submit",
    "queue_length",
    "throughput",
    "utilization",
]

Floats = NDArray[np.float64]


def job_counts(jobs: Jobs) -> dict[str, int]:
    """How many jobs were submitted, how many ended in each state, how many were backfilled."""
    ends = np.zeros(len(JobState), np.int64)
    for block in blocks_of(jobs):
        ends += np.bincount(block.state, minlength=len(JobState))
    return {
        "submitted": len(jobs.job_id),
        "completed": int(ends[JobState.COMPLETED]),
        "killed": int(ends[JobState.KILLED]),
        "failed": int(ends[JobState.FAILED]),
        "rejected": int(ends[JobState.REJECTED]),
        "backfilled": int(np.count_nonzero(jobs.backfilled)),
    }


def makespan(jobs: Jobs) -> float | None:
    """T_batch = last end - first start, in seconds (Eleliemy 2021, Eq. 2.17)."""
    return _span(jobs, "start_time", "end_time")


def makespan_from_submit(jobs: Jobs) -> float | None:
    """Last end - first submission, in seconds."""
    return _span(jobs, "submit_time", "end_time")


def queue_length(jobs: Jobs) -> dict[str, float | None]:
    """Time-weighted mean, and maximum, of the number of waiting jobs.

    A job waits from its submission to its start; one that starts at its submission, or is rejected,
    never waits. The mean is over the time from the first submission to the last start, in which there
    can be a queue: Σ wait / (last start - first submission); 0 where that time has no length.
    """
    span = _span(jobs, "submit_time", "start_time")
    if span is None:
        return {"mean": None, "max": None}
    if is_long(jobs):
        return dict(zip(("mean", "max"), streamed_queue_length(jobs, span), strict=True))
    times, waiting = step_function(jobs.submit_time, jobs.start_time)
    first = float(np.min(jobs.submit_time))
    mean = time_average(times, waiting, first, first + span)
    return {"mean": mean, "max": float(np.max(waiting, initial=0.0))}


def throughput(jobs: Jobs) -> float | None:
    """Completed jobs per hour of makespan (Eleliemy 2021, §2.2.5)."""
    span = makespan(jobs)
    completed = sum(int(np.count_nonzero(block.state == JobState.COMPLETED)) for block in blocks_of(jobs))
    return completed / span * 3600.0 if span else None


def machine_cores(nodes: Nodes) -> int:
    """P: the PEs of the machine, which are its cores."""
    return int(np.sum(nodes.cores))


def busy_seconds(records: Records) -> Floats:
    """T of Eq. 6.1 for each job: PE-seconds it computed.

    For a job that executed a loop, the time its PEs executed chunks. For any other, its run time on the
    cores that its processors fill: working · run time. 0 if rejected.
    """
    jobs = records.jobs
    seconds = np.nan_to_num(jobs.working * run_time(jobs))
    seconds[records.loops.job] = records.loops.busy
    return seconds


def allocated_seconds(occupancy: Occupancy, n_jobs: int) -> Floats:
    """Core-seconds that each job held: Σ nodes · cores · (end - start) over its stays."""
    held = occupancy.count * occupancy.cores * (occupancy.end - occupancy.start)
    seconds: Floats = np.bincount(occupancy.job, weights=held, minlength=n_jobs).astype(np.float64)
    return seconds


def utilization(records: Records) -> dict[str, float | None]:
    """Shares of the machine's core-seconds in the makespan, in [0, 1]: Σ_k T_k / (P · T_batch).

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
    return sum(float(np.nansum(block.working * run_time(block))) for block in blocks_of(records.jobs))


def _allocated_sum(records: Records) -> float:
    if not is_long(records.occupancy):
        return float(np.sum(allocated_seconds(records.occupancy, len(records.jobs.job_id))))
    return sum(
        float(np.sum(block.count * block.cores * (block.end - block.start)))
        for block in blocks_of(records.occupancy)
    )


def _span(jobs: Jobs, begin: str, end: str) -> float | None:
    """Last end - first begin; None where no job has both."""
    first, last, found = np.inf, -np.inf, False
    for block in blocks_of(jobs):
        begins, ends = getattr(block, begin), getattr(block, end)
        found = found or bool(np.any(ends >= begins))
        first = float(np.fmin(first, np.fmin.reduce(begins, initial=np.inf)))
        last = float(np.fmax(last, np.fmax.reduce(ends, initial=-np.inf)))
    return last - first if found else None
