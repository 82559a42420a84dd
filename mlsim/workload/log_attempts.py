"""Attempts of jobs that returned to the queue, and records that accounting repeats."""

from dataclasses import replace

import numpy as np

from mlsim._runtime.arrays import Mask
from mlsim.workload.log_fields import DAY
from mlsim.workload.workload_jobs import LogBlock


def settle_attempts(log: LogBlock, requeued: Mask, *, join: bool) -> tuple[LogBlock, dict[str, int]]:
    """Return a log with each attempt once, as a job of its own or joined to one job, and their counts.

    ``requeued``: attempts that ended in a return to the queue. The next attempt is the following record of
    the same job, submitted within a day of that end. Later ones are other jobs, as identifiers begin again.
    """
    log, requeued, repeated = _without_repeated(log, requeued)
    counts = {"repeated_records": repeated} if repeated else {}
    if not requeued.any():
        return log, counts
    start, submit = log.starts(), log.submit_time.copy()
    end = np.maximum(start, submit) + np.maximum(log.run_time, 0.0)
    order = np.lexsort((np.where(start < 0, np.inf, start), submit, log.job_id))
    before, after = order[:-1], order[1:]
    again = (log.job_id[after] == log.job_id[before]) & requeued[before]
    again &= submit[after] <= end[before] + DAY
    if not again.any():
        return log, counts
    if join:
        begins = np.concatenate([[True], ~again])
        submit[order] = submit[order[begins]][np.cumsum(begins) - 1]
    else:
        later = np.maximum(submit[after], end[before])
        later = np.where(start[after] >= 0, np.minimum(later, start[after]), later)[again]
        submit[after[again]] = np.maximum(submit[after[again]], later)
    recorded = log.recorded_start
    wait = np.where((recorded >= submit) & (submit >= 0), recorded - submit, log.wait_time)
    log = replace(log, submit_time=submit, wait_time=wait)
    counts["joined_attempts" if join else "requeued_attempts"] = int(np.sum(again))
    if join:
        stays = np.ones(len(log), np.bool_)
        stays[before[again]] = False
        log = log.rows(stays)
    return log, counts


def _without_repeated(log: LogBlock, requeued: Mask) -> tuple[LogBlock, Mask, int]:
    """Leave out records of the same job with the same times, such as those of files that overlap."""
    times = (log.submit_time, log.starts(), log.run_time)
    order = np.lexsort((*times, log.job_id))
    same = np.logical_and.reduce([column[order][1:] == column[order][:-1] for column in (*times, log.job_id)])
    if not same.any():
        return log, requeued, 0
    stays = np.ones(len(log), np.bool_)
    stays[order[1:][same]] = False
    return log.rows(stays), requeued[stays], int(np.sum(same))
