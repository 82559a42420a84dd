"""Workloads resampled from a log: its weeks put together anew, user by user, or all users together.

The activity of a user is divided into the weeks of the log (those without jobs too). Each week of the new
workload has for every user one of that user's weeks, drawn at random with replacement (Zrigui 2021,
Algorithm 2, after Feitelson 2016). So jobs keep their sizes, run times, walltimes, weekdays and hours, and
users their habits within a week and, on the average, their share of the load; which users are active at the
same time changes. By ``week`` all users have the same week of the log, so that this is kept too.

Readings: weeks begin with the first job. A last week of which more than a day is missing is left out. Weeks
without jobs are drawn as well, else users that came for one week would come in all. Dependencies between
jobs are left out: a job may come twice, or without the one before it. The clock of the new workload is that
of the log, so that its hours and weekdays, but not its dates, are those of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from mlsim import _shared
from mlsim._arrays import Ints
from mlsim.errors import InputError
from mlsim.scenario import MOST_RESAMPLED_WEEKS, ResampledBy, WorkloadConfig
from mlsim.workload.from_log import SourceLog
from mlsim.workload.header import Header
from mlsim.workload.jobs import JobBlock
from mlsim.workload.made import Made
from mlsim.workload.mix import DAY

__all__ = ["WEEK", "Resampled", "ResampledBy", "resample", "resampled", "whole_weeks"]

WEEK: Final = 7 * DAY


def whole_weeks(jobs: JobBlock) -> int:
    """Return how many whole weeks a log has; a last one that lacks less than a day counts as whole."""
    return int((float(jobs.submit_time[-1]) + DAY) // WEEK)


class Resampled(Made):
    """A workload resampled from a log; see :func:`resample`."""

    def __init__(self, log: SourceLog, weeks: int, by: ResampledBy, seed: int) -> None:
        if not 1 <= weeks <= MOST_RESAMPLED_WEEKS:
            raise InputError(f"weeks: {weeks}; allowed: 1 to {MOST_RESAMPLED_WEEKS:,}")
        self.log, self.weeks, self.by, self.seed = log, weeks, by, seed

    @property
    def place(self) -> Path:
        """The log."""
        return self.log.path

    @property
    def identity(self) -> str | None:
        """What tells these jobs from others; None where the log's file cannot be told from others."""
        identity = _shared.file_identity(self.log.path)
        return None if identity is None else f"{identity}, {self.weeks} weeks by {self.by}, seed {self.seed}"

    @cached_property
    def _source(self) -> tuple[JobBlock, int]:
        """The jobs of the whole weeks of the log, and how many weeks these are."""
        jobs = self.log.jobs()
        weeks = whole_weeks(jobs)
        if weeks < 1:
            raise InputError(f"{self.log.path}: is shorter than a week, and weeks are what is resampled")
        if self.by is ResampledBy.USER and not np.any(jobs.user >= 0):
            raise InputError(
                f"{self.log.path}: says nothing of users; try --by week (in a scenario by: week)"
            )
        return jobs.select(jobs.submit_time < weeks * WEEK), weeks

    @property
    def source_weeks(self) -> int:
        """How many weeks are drawn from."""
        return self._source[1]

    @cached_property
    def _sorted(self) -> tuple[Ints, Ints, int]:
        """Rows by profile and week, where each of these begins, and how many profiles there are."""
        jobs, weeks = self._source
        profile = np.zeros(len(jobs), np.int64)
        if self.by is ResampledBy.USER:
            profile = np.unique(jobs.user, return_inverse=True)[1]
        place = profile * weeks + (jobs.submit_time // WEEK).astype(np.int64)
        rows = np.argsort(place, kind="stable")
        profiles = int(profile.max()) + 1
        return rows, np.searchsorted(place[rows], np.arange(profiles * weeks + 1)), profiles

    @property
    def header(self) -> Header:
        """What a log says of how it was made."""
        return self.log.header(f"{self.weeks} weeks resampled by {self.by}, seed {self.seed}")

    @property
    def length(self) -> int:
        """How many jobs that many weeks of the log have, about."""
        source, weeks = self._source
        return round(len(source) / weeks * self.weeks)

    def blocks(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order, a week at a time."""
        rows, begin, profiles = self._sorted
        source, weeks = self._source
        rng, made = np.random.default_rng(self.seed), 0
        for week in range(self.weeks):
            place = np.arange(profiles) * weeks + rng.integers(0, weeks, profiles)
            counts = begin[place + 1] - begin[place]
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            jobs = source.select(rows[np.repeat(begin[place], counts) + within])
            submit = jobs.submit_time % WEEK
            order = np.argsort(submit, kind="stable")
            ids = np.arange(made + 1, made + len(jobs) + 1)
            made += len(jobs)
            if len(jobs):
                times = submit[order] + week * WEEK
                yield replace(jobs.select(order), job_id=ids, submit_time=times, after=None)


def resample(
    log: str | Path, *, weeks: int, by: str = "user", seed: int = 0, lenient: bool = False
) -> Resampled:
    """Put a workload together from the weeks of a log.

    Parameters
    ----------
    log
        The file, as of :func:`mlsim.workload.open_workload`.
    weeks
        How many weeks the new workload has.
    by
        ``user``: a week of each user by itself (Zrigui 2021, Algorithm 2); ``week``: of all together.
    seed
        Of the draws.
    lenient
        Whether broken lines of the log are skipped.

    Returns
    -------
    Resampled
        With ``blocks()``, ``jobs()``, ``frame()``, ``write(path)``, ``header``.

    Raises
    ------
    InputError
        If the log cannot be read, is shorter than a week, or has no users where these are asked for.
    """
    try:
        chosen = ResampledBy(by)
    except ValueError:
        raise InputError(f"by: {by!r}; allowed: {', '.join(ResampledBy)}") from None
    return Resampled(SourceLog(log, lenient), weeks, chosen, seed)


def resampled(config: WorkloadConfig, log: Path, seed: int) -> Resampled:
    """Return the workload of a scenario.

    Parameters
    ----------
    config
        Its section ``workload``, with ``resample``; the format, a file of the user's own, as it was found.
    log
        The log.
    seed
        Of the scenario.
    """
    how = config.resample
    assert how is not None
    of = {name: getattr(config, name) for name in ("lenient", "format", "cleaning", "estimates")}
    seed = seed if how.seed is None else how.seed
    return Resampled(SourceLog(log, **of), how.weeks, how.by, seed)
