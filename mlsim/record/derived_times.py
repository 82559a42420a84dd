"""Times derived from records: run, wait and response times, slowdowns."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats, Ints
from mlsim.record.column_types import JobState, empty
from mlsim.record.growing_arrays import let_go, zeros
from mlsim.record.record_tables import Attempts, Chunks, Jobs, Occupancy, PEs, Records
from mlsim.record.table_blocks import rows_of, sums_by_job, value_blocks

RowsOfAttempts = TypeVar("RowsOfAttempts", Chunks, PEs)

TAU = 10.0
"""Run times below this many seconds count as this long in bounded slowdowns (Feitelson and Rudolph 1998)."""


def run_time(jobs: Jobs) -> Floats:
    """Return run times [s]: p = end - start, of its last attempt."""
    return jobs.end_time - jobs.start_time


def queued_since(jobs: Jobs) -> Floats:
    """Return when each job entered the queue [s]: at its submission, or later if it had dependencies."""
    return jobs.submit_time if jobs.eligible_time is None else jobs.eligible_time


def wait_time(jobs: Jobs) -> Floats:
    """Return waiting times [s]: from :func:`queued_since` to the start of the last attempt.

    With ``batch.count_dispatch_time`` the wall time of the pass that started the job is added: a dispatcher
    that thinks for long lets the job wait for it. The schedule is the same with and without.
    """
    return _with_dispatch_time(jobs, jobs.start_time - queued_since(jobs))


def response_time(jobs: Jobs) -> Floats:
    """Return response times [s]: wait + p (Feitelson and Rudolph 1998)."""
    return _with_dispatch_time(jobs, jobs.end_time - queued_since(jobs))


def _with_dispatch_time(jobs: Jobs, seconds: Floats) -> Floats:
    return seconds if jobs.dispatch_time is None else seconds + jobs.dispatch_time


def slowdown(jobs: Jobs) -> Floats:
    """Return (wait + p) / p, without unit (Feitelson and Rudolph 1998); NaN for jobs of run time 0."""
    length = run_time(jobs)
    positive = np.where(length > 0, length, np.nan)
    return (wait_time(jobs) + length) / positive


def bounded_slowdown(jobs: Jobs, tau: float = TAU) -> Floats:
    """Return max((wait + p) / max(p, τ), 1), without unit, for τ > 0 s (Zrigui 2021, Eq. 3.3)."""
    length = run_time(jobs)
    return np.maximum((wait_time(jobs) + length) / np.maximum(length, tau), 1.0)


def per_processor_bounded_slowdown(jobs: Jobs, tau: float = TAU) -> Floats:
    """Return max((wait + p) / (q max(p, τ)), 1), for q processors, τ > 0 s (Zotkin and Keleher 1999)."""
    length = run_time(jobs)
    processors = np.maximum(jobs.processors, 1)
    bounded: Floats = np.maximum((wait_time(jobs) + length) / (processors * np.maximum(length, tau)), 1.0)
    return bounded


def away_until(occupancy: Occupancy, jobs: Jobs, attempts: Attempts | None = None) -> Floats:
    """Return when each released node returned to its job, or the job's attempt ended [s].

    One time per row; for a row without a release the row's own end. Rows that may be released name one node
    each.
    """
    attempts = empty(Attempts) if attempts is None else attempts
    attempt = attempt_of_rows(occupancy, attempts)
    ends = jobs.end_time[occupancy.job]
    earlier = attempt >= 0
    ends[earlier] = attempts.end[attempt[earlier]]
    until = np.where(occupancy.released, ends, occupancy.end)
    order = np.lexsort((occupancy.start, occupancy.node, occupancy.job))
    job, node = occupancy.job[order], occupancy.node[order]
    again = (np.diff(job) == 0) & (np.diff(node) == 0) & occupancy.released[order][:-1]
    again &= np.diff(attempt[order]) == 0
    until[order[:-1][again]] = occupancy.start[order[1:][again]]
    return until


def attempt_of_rows(occupancy: Occupancy, attempts: Attempts) -> Ints:
    """Find the row of the attempt that each occupancy row is of; -1 for the last attempt of its job."""
    found = np.full(len(occupancy.job), -1, np.int64)
    rows = np.flatnonzero(np.isin(occupancy.job, attempts.job))
    n = len(attempts.job)
    job = np.concatenate([attempts.job, occupancy.job[rows]])
    time = np.concatenate([attempts.start, occupancy.start[rows]])
    # Attempts are in order of (job, start) and come before the rows that start with them.
    order = np.lexsort((np.arange(len(job)) >= n, time, job))
    last = np.maximum.accumulate(np.where(order < n, order, -1))
    is_row = order >= n
    row, attempt = rows[order[is_row] - n], last[is_row]
    inside = occupancy.start[row] < attempts.end[attempt]
    found[row[inside]] = attempt[inside]
    return found


def attempt_numbers(attempts: Attempts) -> NDArray[np.int32]:
    """Return which attempt of its job each one was, from 1."""
    before = np.searchsorted(attempts.job, attempts.job)
    return (np.arange(1, len(before) + 1) - before).astype(np.int32)


def restarts(attempts: Attempts, n_jobs: int) -> Ints:
    """Return how often each job started again after a failure."""
    return np.bincount(attempts.job, minlength=n_jobs)


def of_last_attempts(table: RowsOfAttempts, attempts: Attempts, n_jobs: int) -> RowsOfAttempts:
    """Return the rows of the last attempt of each job."""
    if table.attempt is None:
        return table
    return rows_of(table, table.attempt > restarts(attempts, n_jobs)[table.job])


def waiting_spans(jobs: Jobs, attempts: Attempts) -> tuple[Floats, Floats]:
    """Return when jobs waited: from submission or a failure to the next start; NaN where there was none."""
    return (
        np.concatenate([_after_attempts(queued_since(jobs), attempts), _before_attempts(jobs, attempts)]),
        np.concatenate([jobs.start_time, attempts.start]),
    )


def running_spans(jobs: Jobs, attempts: Attempts) -> tuple[Floats, Floats]:
    """Return when jobs ran, each attempt by itself; NaN where there was none."""
    return (np.concatenate([jobs.start_time, attempts.start]), np.concatenate([jobs.end_time, attempts.end]))


def _after_attempts(submit: Floats, attempts: Attempts) -> Floats:
    """Return since when each job waited for its last start [s]."""
    since = submit.copy()
    np.maximum.at(since, attempts.job, attempts.end)
    return since


def _before_attempts(jobs: Jobs, attempts: Attempts) -> Floats:
    """Return since when the job of each attempt had waited for it [s]."""
    since = queued_since(jobs)[attempts.job]
    again = np.flatnonzero(np.diff(attempts.job) == 0)
    since[again + 1] = attempts.end[again]
    return since


def allocated_seconds(occupancy: Occupancy, n_jobs: int) -> Floats:
    """Return the core-seconds that each job held: Σ nodes · cores · (end - start) over its stays."""
    return sums_by_job(occupancy, n_jobs, _held_seconds)


def _held_seconds(occupancy: Occupancy) -> Floats:
    return occupancy.count * occupancy.cores * (occupancy.end - occupancy.start)


def lost_core_seconds(records: Records) -> Floats:
    """Return the core-seconds that each job lost by failures.

    All that it held if it ended as failed; otherwise what its earlier attempts held, without what later
    ones did not have to do again.
    """
    jobs, attempts = records.jobs, records.attempts
    n = len(jobs.job_id)
    lost = zeros(n)
    np.add.at(lost, attempts.job, attempts.lost)
    parts = [part == JobState.FAILED for part in value_blocks(jobs.state)]
    failed = np.flatnonzero(np.concatenate(parts))
    if len(failed):
        lost[failed] = allocated_seconds(records.occupancy, n)[failed]
    let_go(lost)
    return lost
