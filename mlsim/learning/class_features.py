"""Features of jobs from which their class is learned (Zrigui 2021, Table 6.3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.batch.weekly.job_history import Categories, first_features
from mlsim.workload.job_selection import WEEK_SECONDS, recorded_starts
from mlsim.workload.workload_jobs import JobBlock


class Known(StrEnum):
    """What is known of jobs when the class of another one is predicted.

    Attributes
    ----------
    ENDED
        Those that had ended, by the log, when the week of the other one began.
    SUBMITTED
        Those submitted in earlier weeks, also if they still ran then, which nobody can know.
    AT_ONCE
        As SUBMITTED to learn from, and for lags and shares all that were submitted before the other one.
    """

    ENDED = "ended"
    SUBMITTED = "submitted"
    AT_ONCE = "at-once"


@dataclass(frozen=True)
class JobFeatures:
    """Features of jobs, and what classes are.

    Attributes
    ----------
    values : ndarray of float64, shape (jobs, 20)
        In the order of :data:`FEATURE_NAMES`; -1 where there is nothing to tell.
    week
        Of each job's submission, from 0.
    known_from
        The first week in which each job's run time is known.
    divider
        Median run time of the jobs that ended in the week before [s], frozen at submission; of the last week
        with any where none did, NaN in the first week.
    small
        The class that each job turned out to have: 1 if its run time is below the divider. Jobs without one
        are judged by the first that there is.
    """

    values: Floats
    week: Ints
    known_from: Ints
    divider: Floats
    small: Ints


def features_of(jobs: JobBlock, local: Floats, known: Known = Known.ENDED) -> JobFeatures:
    """Return the features of all jobs of a log.

    Parameters
    ----------
    jobs
        In arrival order, with the waits of the log; times in seconds.
    local
        Submit times as seconds since 1970 on the clocks of the log's time zone
        (:func:`mlsim.workload.log_times.local_times`).
    known
        What is known of other jobs.

    Returns
    -------
    JobFeatures
        One row a job.
    """
    zero, week = weeks_from_first(jobs)
    known_from = week + 1
    if known is Known.ENDED:
        ends = recorded_starts(jobs) + jobs.run_time
        # The edge at which an end is known: one that falls on an edge is known there.
        known_from = np.maximum(np.ceil((ends - zero) / WEEK_SECONDS).astype(np.int64), known_from)
    n_weeks = int(week.max()) + 1 if len(jobs) else 0
    dividers = _dividers(jobs.run_time, known_from, n_weeks)
    divider = dividers[week] if n_weeks else np.empty(0)
    known_dividers = dividers[~np.isnan(dividers)]
    judged = np.where(np.isnan(divider), known_dividers[0] if len(known_dividers) else np.nan, divider)
    small = (jobs.run_time < judged).astype(np.int64)
    values = first_features(jobs.walltime, jobs.processors.astype(np.float64), local)
    _write_history(jobs, values, small, week, known_from, known is Known.AT_ONCE)
    return JobFeatures(values, week, known_from, divider, small)


def weeks_from_first(jobs: JobBlock) -> tuple[float, Ints]:
    """Return when the first job is submitted [s], and the week after that, from 0, of each submission."""
    zero = float(jobs.submit_time[0]) if len(jobs) else 0.0
    return zero, np.floor((jobs.submit_time - zero) / WEEK_SECONDS).astype(np.int64)


def _write_history(
    jobs: JobBlock, values: Floats, small: Ints, week: Ints, known_from: Ints, at_once: bool
) -> None:
    """Write what is known of each job's categories into its features."""
    n_weeks = int(week.max()) + 1 if len(jobs) else 0
    users, categories = jobs.user.tolist(), Categories()
    by_edge = np.argsort(known_from, kind="stable")
    edges = np.searchsorted(known_from[by_edge], np.arange(n_weeks + 1), side="right")
    rows_of = np.searchsorted(week, np.arange(n_weeks + 1), side="left")
    added = 0
    for number in range(n_weeks):
        for row in () if at_once else by_edge[added : edges[number]].tolist():
            categories.add(row, users[row], values[row].tolist(), int(small[row]))
        added = max(added, int(edges[number]))
        for row in range(int(rows_of[number]), int(rows_of[number + 1])):
            categories.write(users[row], values[row])
            if at_once:
                categories.add(row, users[row], values[row].tolist(), int(small[row]))


def _dividers(run_time: Floats, known_from: Ints, n_weeks: int) -> Floats:
    """Return the divider of each week: the median run time of what became known at its beginning."""
    found = np.full(n_weeks + 1, np.nan)
    for number in range(1, n_weeks + 1):
        times = run_time[known_from == number]
        found[number] = np.median(times) if len(times) else found[number - 1]
    return found
