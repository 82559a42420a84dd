"""Features of jobs from which their class is learned (Zrigui 2021, Table 6.3), without a look ahead.

Time is cut into weeks from the first submission on. What is known of run times is what had ended by the last
edge of a week, by the log: a job's features, and the divider of its week, depend on nothing that ended later.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.workload.jobs import JobBlock
from mlsim.workload.weeks import WEEK, recorded_starts

__all__ = ["FEATURE_NAMES", "JobFeatures", "features_of"]

_CATEGORIES: Final = ("user_q", "user_p", "user_weekday")
FEATURE_NAMES: Final = (
    *("p", "q", "hour", "weekday", "day", "month", "week", "quarter"),
    *(f"{category}_{lag}" for category in _CATEGORIES for lag in (1, 2, 3)),
    *(f"{category}_share" for category in _CATEGORIES),
)
_UNKNOWN: Final = -1.0


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
        The class that each job turned out to have: 1 if its run time is below the divider. Jobs of the first
        week are judged by the divider of the second.
    """

    values: Floats
    week: Ints
    known_from: Ints
    divider: Floats
    small: Ints


class _History:
    """What is known of the jobs of each category: classes of the last three submitted, and the share."""

    def __init__(self) -> None:
        self._last: dict[tuple[float, float], list[tuple[int, int]]] = {}
        self._counts: dict[tuple[float, float], list[int]] = {}

    def add(self, key: tuple[float, float], row: int, small: int) -> None:
        """Add a job that has become known."""
        last = self._last.setdefault(key, [])
        last.append((row, small))
        last.sort(reverse=True)
        del last[3:]
        counts = self._counts.setdefault(key, [0, 0])
        counts[0] += 1
        counts[1] += small

    def features(self, key: tuple[float, float]) -> tuple[list[float], float]:
        """Return the classes of the last three jobs, the latest first, and the share of small ones."""
        last = [float(small) for _, small in self._last.get(key, ())]
        counts = self._counts.get(key)
        share = _UNKNOWN if counts is None else counts[1] / counts[0]
        return last + [_UNKNOWN] * (3 - len(last)), share


def features_of(jobs: JobBlock, local: Floats) -> JobFeatures:
    """Return the features of all jobs of a log.

    Parameters
    ----------
    jobs
        In arrival order, with the waits of the log; times in seconds.
    local
        Submit times as seconds since 1970 on the clocks of the log's time zone
        (:func:`mlsim.workload.dates.local_times`).

    Returns
    -------
    JobFeatures
        One row a job.
    """
    zero = float(jobs.submit_time[0]) if len(jobs) else 0.0
    week = np.floor((jobs.submit_time - zero) / WEEK).astype(np.int64)
    ends = recorded_starts(jobs) + jobs.run_time
    # The edge at which an end is known: one that falls on an edge is known there.
    known_from = np.maximum(np.ceil((ends - zero) / WEEK).astype(np.int64), week + 1)
    n_weeks = int(week.max()) + 1 if len(jobs) else 0
    dividers = _dividers(jobs.run_time, known_from, n_weeks)
    divider = dividers[week] if n_weeks else np.empty(0)
    judged = np.where(np.isnan(divider), dividers[1] if len(dividers) > 1 else np.nan, divider)
    small = (jobs.run_time < judged).astype(np.int64)
    values = np.full((len(jobs), len(FEATURE_NAMES)), _UNKNOWN)
    values[:, 0], values[:, 1] = jobs.walltime, jobs.processors
    values[:, 2:8] = _calendar(local)
    keys = [
        list(zip(jobs.user.tolist(), column.tolist(), strict=True))
        for column in (values[:, 1], values[:, 0], values[:, 3])
    ]
    histories = [_History() for _ in keys]
    by_edge = np.argsort(known_from, kind="stable")
    edges = np.searchsorted(known_from[by_edge], np.arange(n_weeks + 1), side="right")
    added = 0
    rows_of = np.searchsorted(week, np.arange(n_weeks + 1), side="left")
    for number in range(n_weeks):
        for row in by_edge[added : edges[number]].tolist():
            for history, key in zip(histories, keys, strict=True):
                history.add(key[row], row, int(small[row]))
        added = max(added, int(edges[number]))
        for row in range(int(rows_of[number]), int(rows_of[number + 1])):
            for place, (history, key) in enumerate(zip(histories, keys, strict=True)):
                lags, share = history.features(key[row])
                values[row, 8 + 3 * place : 11 + 3 * place] = lags
                values[row, 17 + place] = share
    return JobFeatures(values, week, known_from, divider, small)


def _dividers(run_time: Floats, known_from: Ints, n_weeks: int) -> Floats:
    """Return the divider of each week: the median run time of what became known at its beginning."""
    found = np.full(n_weeks + 1, np.nan)
    for number in range(1, n_weeks + 1):
        times = run_time[known_from == number]
        found[number] = np.median(times) if len(times) else found[number - 1]
    return found


def _calendar(local: Floats) -> Floats:
    """Return hour, weekday (0: Monday), day of the month, month, ISO week and quarter."""
    days = np.floor(local / 86_400.0)
    rows = {}
    for day in np.unique(days).tolist():
        date = datetime.date(1970, 1, 1) + datetime.timedelta(days=day)
        quarter = (date.month - 1) // 3 + 1
        rows[day] = (date.weekday(), date.day, date.month, date.isocalendar().week, quarter)
    found = np.array([rows[day] for day in days.tolist()], float).reshape(len(local), 5)
    return np.column_stack([np.floor(local / 3600.0) % 24, found])
