"""Weeks of a log, each of which is simulated alone (Zrigui 2021, §5.2).

"We ignore the first period [...]. Then, we split the trace on a weekly basis and remove the jobs that start
in one week and finish in another." Week 0 is the first whole one. Where the cut lies moves sums over weeks by
as much as a factor of two, so that all of it is an option (``workload.weeks``), with a phase.

Weeks have 7 x 86,400 s also where clocks change.
"""

from __future__ import annotations

import datetime
import zoneinfo
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.scenario import CrossingRule, WeekBegin, WeekEvent, WeeksConfig
from mlsim.workload.dates import start_and_zone
from mlsim.workload.header import Header
from mlsim.workload.jobs import JobBlock

__all__ = ["WEEK", "WeekCut", "recorded_starts", "split_weeks", "week_cut"]

WEEK = 7 * 86_400.0


def recorded_starts(jobs: JobBlock) -> Floats:
    """Return when jobs started in the log: submit time plus wait, which is 0 where it is not known [s]."""
    starts: Floats = jobs.submit_time + np.maximum(jobs.log_wait, 0.0)
    return starts


class WeekCut(NamedTuple):
    """How a log is cut into weeks.

    Attributes
    ----------
    by_start
        Whether jobs belong to the week of their recorded start; otherwise of their submission.
    remove
        Whether jobs whose recorded end is in a later week than their own are left out.
    edge
        One of the edges [s of the log's own time]; NaN: the arrival of the first job is one.
    phase
        How much later edges are [s].
    """

    by_start: bool
    remove: bool
    edge: float
    phase: float

    def zero_after(self, first: float, warm_up: float) -> float:
        """Return where week 0 begins [s of the log's own time].

        Parameters
        ----------
        first
            Submit time of the first job after the warm-up [s].
        warm_up
            Length of what is left out before [s].
        """
        if np.isnan(self.edge):
            return first + self.phase
        edge, begins = self.edge + self.phase, first if warm_up > 0 else 0.0
        return float(edge + np.ceil((begins - edge) / WEEK) * WEEK)

    def weeks(self, jobs: JobBlock, zero: float) -> Ints:
        """Return the week of each job, of which week 0 begins at ``zero``; earlier ones are below 0."""
        times = recorded_starts(jobs) if self.by_start else jobs.submit_time
        return np.floor((times - zero) / WEEK).astype(np.int64)

    def rows(self, jobs: JobBlock, zero: float, start: float, end: float) -> Ints:
        """Return the rows of jobs that belong to the weeks from ``start`` to ``end`` [s, log time]."""
        times = recorded_starts(jobs) if self.by_start else jobs.submit_time
        taken = (times >= start) & (times < end)
        if self.remove:
            ends = recorded_starts(jobs) + jobs.run_time
            taken &= np.ceil((ends - zero) / WEEK) - 1 <= np.floor((times - zero) / WEEK)
        return np.flatnonzero(taken)


def week_cut(config: WeeksConfig, header: Header, path: Path) -> WeekCut:
    """Return how a log is cut into weeks.

    Parameters
    ----------
    config
        The section ``workload.weeks``.
    header
        Of the log: ``UnixStartTime`` is its time 0.
    path
        The log, for messages.

    Raises
    ------
    InputError
        If weeks begin on a weekday and the header does not tell the log's start.
    """
    by_start, remove = config.by is WeekEvent.START, config.crossing is CrossingRule.REMOVE
    if config.begin is WeekBegin.FIRST_JOB:
        return WeekCut(by_start, remove, np.nan, config.phase)
    unix, zone = start_and_zone(header, path)
    if unix is None:
        raise InputError(
            f"{path}: the header has no UnixStartTime, so that nobody knows on which day it begins\n"
            "  write workload.weeks.begin: first-job"
        )
    if config.zone is not None:
        zone = zoneinfo.ZoneInfo(config.zone)
    midnight = datetime.datetime.fromtimestamp(unix, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    later = (list(WeekBegin).index(config.begin) - midnight.weekday()) % 7
    edge = (midnight + datetime.timedelta(days=later)).timestamp() - unix
    return WeekCut(by_start, remove, edge, config.phase)


def split_weeks(jobs: JobBlock, cut: WeekCut, zero: float, first: int, last: int) -> dict[int, JobBlock]:
    """Return the jobs of each week alone, the first of which is submitted at time 0.

    Parameters
    ----------
    jobs
        In arrival order, those that ``cut`` leaves out included; times in seconds.
    cut
        How they are cut.
    zero
        Where week 0 begins, on the clock of the jobs [s].
    first, last
        The weeks to return; those without jobs are not there.

    Returns
    -------
    dict
        From the number of a week to its jobs, in arrival order.
    """
    rows = cut.rows(jobs, zero, zero + first * WEEK, zero + (last + 1) * WEEK)
    weeks = cut.weeks(jobs, zero)[rows]
    found = {}
    for week in np.unique(weeks).tolist():
        block = jobs.select(rows[weeks == week])
        found[int(week)] = block.shifted(-float(block.submit_time[0]))
    return found
