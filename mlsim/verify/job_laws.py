"""Laws of single jobs: no start before the job is there, stays within its time, as much as it asked for."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats, Mask
from mlsim.record import JobState
from mlsim.scenario import Mapping, OverrunRule
from mlsim.verify.schedule import Schedule
from mlsim.verify.verdicts import MOST_NAMED, Breach, Verdict

__all__ = ["first_of", "judge_arrivals", "judge_stays", "judge_walltimes"]


def judge_arrivals(run: Schedule) -> Verdict:
    """Judge that no job starts before it was submitted, or before it was eligible."""
    jobs, attempts = run.records.jobs, run.records.attempts
    first = jobs.start_time.copy()
    np.fmin.at(first, attempts.job, attempts.start)
    early = run.ran & ~(first >= run.arrival)
    found = [
        Breach(
            int(jobs.job_id[row]),
            float(first[row]),
            f"starts before it may, at {run.arrival[row]:.17g} s; it was submitted at "
            f"{jobs.submit_time[row]:.17g} s",
        )
        for row in first_of(early, first)
    ]
    return Verdict.of("arrival", f"{int(run.ran.sum())} starts", found, int(early.sum()))


def judge_walltimes(run: Schedule) -> Verdict:
    """Judge that jobs end after they start, and by their walltimes where these are limits."""
    jobs = run.records.jobs
    backwards = run.ran & ~(jobs.end_time >= jobs.start_time)
    limit = jobs.start_time + jobs.walltime
    kills = run.scenario.batch.on_overrun is OverrunRule.KILL
    late = run.ran & (jobs.end_time > limit) & kills
    found = [
        Breach(
            int(jobs.job_id[row]),
            float(jobs.end_time[row]),
            f"ends before its start at {jobs.start_time[row]:.17g} s"
            if backwards[row]
            else f"ends after its walltime, which is over at {limit[row]:.17g} s (on_overrun: kill)",
        )
        for row in first_of(backwards | late, jobs.end_time)
    ]
    return Verdict.of("walltime", f"{int(run.ran.sum())} jobs", found, int((backwards | late).sum()))


def judge_stays(run: Schedule) -> Verdict:
    """Judge that jobs hold nodes while they run and not otherwise, and as much as they asked for."""
    jobs, stays = run.records.jobs, run.records.occupancy
    outside = ~((run.row_starts <= stays.start) & (stays.start <= stays.end) & (stays.end <= run.row_ends))
    outside |= jobs.state[stays.job] == JobState.REJECTED
    found = [
        Breach(
            int(jobs.job_id[stays.job[row]]),
            float(stays.start[row]),
            f"holds node {stays.node[row]} until {stays.end[row]:.17g} s, and runs from "
            f"{run.row_starts[row]:.17g} to {run.row_ends[row]:.17g} s ({_state(run, int(stays.job[row]))})",
        )
        for row in first_of(outside, stays.start)
    ]
    at_start = run.is_last & (stays.start == run.row_starts)
    held = np.bincount(stays.job[at_start], (stays.count * stays.cores)[at_start], run.n_jobs)
    asked = np.where(run.scenario.workload.mapping is Mapping.NODE, run.units, held) >= jobs.processors
    wrong = run.ran & ~((held == jobs.cores) & asked)
    found += [
        Breach(
            int(jobs.job_id[row]),
            float(jobs.start_time[row]),
            f"holds {int(held[row])} cores on {run.units[row]} {'nodes' if run.is_exclusive else 'cores'}; "
            f"its row says {jobs.cores[row]} cores, and it asked for {jobs.processors[row]} processors",
        )
        for row in first_of(wrong, jobs.start_time)
    ]
    return Verdict.of("stays", f"{len(stays.job)} stays", found, int(outside.sum() + wrong.sum()))


def _state(run: Schedule, job: int) -> str:
    return JobState(int(run.records.jobs.state[job])).name.lower()


def first_of(wrong: Mask, times: Floats) -> list[int]:
    """Return the first rows that are wrong, in order of time."""
    rows = np.flatnonzero(wrong)
    chosen: list[int] = rows[np.argsort(times[rows], kind="stable")[:MOST_NAMED]].tolist()
    return chosen
