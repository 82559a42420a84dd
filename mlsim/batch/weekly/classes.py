"""Classes of jobs in a simulation: told at submissions, learned week by week from jobs that have ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.batch.columns.table import LARGE, NUMBER, RUN, START, JobTable
from mlsim.batch.weekly.forest import Forest, check_library
from mlsim.batch.weekly.history import WeeklyHistory
from mlsim.batch.weekly.upcoming import Upcoming
from mlsim.record import Jobs
from mlsim.record.growing import GrowingArray
from mlsim.scenario import ClassifierConfig, ClassSource
from mlsim.workload.jobs import JobBlock
from mlsim.workload.weeks import WEEK

__all__ = ["JobClasses"]


class JobClasses:
    """Tells which jobs are small when they are submitted; in the first week all are large.

    Parameters
    ----------
    table
        The jobs in the system.
    config
        The ``batch.classifier`` section.
    local
        From submit times [s] to seconds since 1970 on the clocks of the log's time zone.
    seed
        Of the forests.

    Raises
    ------
    InputError
        If a library is missing.
    """

    def __init__(
        self, table: JobTable, config: ClassifierConfig, local: Callable[[Floats], Floats], seed: int
    ) -> None:
        if config.by is ClassSource.FOREST:
            check_library()
        self._table, self._config, self._local, self._seed = table, config, local, seed
        self._history, self._upcoming = WeeklyHistory(), Upcoming()
        self._forest: Forest | None = None
        self._taken = GrowingArray(np.int8)

    def admit(self, block: JobBlock, slots: Ints, /) -> None:
        """Take note of jobs that will be submitted."""
        numbers, before = self._table.ints[NUMBER, slots], self._history.n
        self._history.admit(block, numbers, self._local(block.submit_time))
        self._taken.reserve(self._history.n, before)
        self._taken.array[before : self._history.n] = 0
        self._upcoming.add(numbers, slots)

    def arrive(self, slots: Ints, now: float) -> None:
        """Tell the class of jobs that are submitted now."""
        week = int(now // WEEK)
        if week > self._history.week:
            self._history.begin(week)
            self._forest = None
        numbers = self._table.ints[NUMBER, slots]
        small = self._upcoming.take(numbers, week, self._are_small) == 1
        self._history.submit(numbers)
        self._taken.array[numbers], self._table.ints[LARGE, slots] = small, ~small

    def learn(self, slot: int, now: float) -> None:
        """Take note that a job completes now, or is killed at its walltime."""
        run_time = now - float(self._table.floats[START, slot])
        self._history.end(int(self._table.ints[NUMBER, slot]), now, run_time)

    def limit(self, slot: int) -> float:
        """Return for how long a job may run until it is killed for having been taken for small [s]."""
        if not self._config.safeguard or self._table.ints[LARGE, slot]:
            return np.inf
        return float(self._history.dividers[self._table.ints[NUMBER, slot]])

    def make_large(self, slot: int) -> None:
        """Have a job, which has run past its divider, be large from now on."""
        self._table.ints[LARGE, slot] = 1

    def added_to(self, jobs: Jobs) -> Jobs:
        """Return the jobs with what they were taken for, and their dividers."""
        n = len(jobs.job_id)
        dividers, taken = (
            np.full(n, np.nan),
            np.zeros(n, np.bool_),
        )  # jobs that were never submitted have none
        dividers[: self._history.n] = self._history.dividers
        taken[: self._history.n] = self._taken.array[: self._history.n]
        return replace(jobs, taken_for_small=taken, divider=dividers)

    def _are_small(self, numbers: Ints, slots: Ints) -> Floats:
        """Return 1 for jobs that are taken for small, else 0."""
        history = self._history
        if np.isnan(history.divider):
            return np.zeros(len(numbers))
        if self._config.by is ClassSource.ACTUAL:
            found: Floats = (self._table.floats[RUN, slots] < history.divider).astype(np.float64)
            return found
        if self._forest is None:
            known = history.known()
            small = history.small[known].astype(np.int64)
            self._forest = Forest(history.known_features(known), small, self._config.n_trees, self._seed)
        return self._forest.are_small(history.features(numbers)).astype(np.float64)
