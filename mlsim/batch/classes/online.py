"""Classes of jobs in a simulation: told at submissions, learned week by week from jobs that have ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.batch.classes.features import FEATURE_NAMES, Categories, first_features
from mlsim.batch.classes.forest import Forest, check_library
from mlsim.batch.columns.table import LARGE, NUMBER, RUN, START, JobTable
from mlsim.record import Jobs
from mlsim.record.growing import GrowingArray
from mlsim.scenario import ClassifierConfig, ClassSource
from mlsim.workload.jobs import JobBlock
from mlsim.workload.weeks import WEEK

__all__ = ["JobClasses"]

_NEVER = -1


class JobClasses:
    """Tells which jobs are small when they are submitted.

    Weeks count from the first submission. What is known in a week is what ended, in this simulation, before
    it began. The divider of a week is the median run time of what ended in the week before, and that of the
    week before where nothing did; each job keeps the one of its submission. In the first week all are large.

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
        self._week, self._divider, self._first_divider = 0, np.nan, np.nan
        self._forest: Forest | None = None
        self._categories = Categories()
        self._ended: list[tuple[float, int, float]] = []  # end, number and run time, not yet known
        self._admitted: dict[int, int] = {}  # by number: slots of the jobs that have not been submitted yet
        self._n = 0
        self._values = GrowingArray(np.float32, len(FEATURE_NAMES))
        self._dividers = GrowingArray(np.float64)
        self._users, self._told_in = GrowingArray(np.int64), GrowingArray(np.int64)
        self._taken, self._small = GrowingArray(np.int8), GrowingArray(np.int8)  # _small: -1 while unknown

    # What happens to jobs

    def admit(self, block: JobBlock, slots: Ints, /) -> None:
        """Take note of jobs that will be submitted."""
        numbers = self._table.ints[NUMBER, slots]
        rows = max(int(numbers.max(initial=-1)) + 1, self._n)
        for column in (
            *(self._values, self._dividers),
            *(self._users, self._told_in, self._taken, self._small),
        ):
            column.reserve(rows, self._n)
        new = slice(self._n, rows)  # among them may be jobs that are not submitted, as they never fit
        self._dividers.array[new], self._taken.array[new] = np.nan, 0
        self._told_in.array[new] = self._small.array[new] = _NEVER
        local = self._local(block.submit_time)
        features = first_features(block.walltime, block.processors.astype(np.float64), local)
        self._values.array[:, numbers] = features.T
        self._users.array[numbers] = block.user
        self._admitted.update(zip(numbers.tolist(), slots.tolist(), strict=True))
        self._n = rows

    def arrive(self, slots: Ints, now: float) -> None:
        """Tell the class of jobs that are submitted now."""
        week = int(now // WEEK)
        if week > self._week:
            self._begin(week)
        numbers = self._table.ints[NUMBER, slots]
        if (self._told_in.array[numbers] != week).any():
            self._tell(numbers)
        for number in numbers.tolist():
            del self._admitted[number]
        self._dividers.array[numbers] = self._divider
        self._table.ints[LARGE, slots] = self._taken.array[numbers] == 0

    def learn(self, slot: int, now: float) -> None:
        """Take note that a job completes now, or is killed at its walltime."""
        run_time = now - float(self._table.floats[START, slot])
        self._ended.append((now, int(self._table.ints[NUMBER, slot]), run_time))

    def limit(self, slot: int) -> float:
        """Return for how long a job may run until it is killed for having been taken for small [s]."""
        if not self._config.safeguard or self._table.ints[LARGE, slot]:
            return np.inf
        return float(self._dividers.array[self._table.ints[NUMBER, slot]])

    def make_large(self, slot: int) -> None:
        """Have a job, which has run past its divider, be large from now on."""
        self._table.ints[LARGE, slot] = 1

    def added_to(self, jobs: Jobs) -> Jobs:
        """Return the jobs with what they were taken for, and their dividers."""
        n = len(jobs.job_id)
        taken = self._taken.array[:n].astype(np.bool_)
        return replace(jobs, taken_for_small=taken, divider=self._dividers.array[:n])

    # What is known

    def _begin(self, week: int) -> None:
        """Begin a week: what ended before it becomes known, edge by edge."""
        self._ended.sort()
        n_known = 0
        for edge in range(self._week + 1, week + 1):
            first = n_known
            while n_known < len(self._ended) and self._ended[n_known][0] <= edge * WEEK:
                n_known += 1
            self._learn(self._ended[first:n_known])
        del self._ended[:n_known]
        self._week, self._forest = week, None
        known = np.flatnonzero(self._small.array[: self._n] != _NEVER)
        if self._config.by is ClassSource.FOREST and len(known):
            values = self._values.array[:, known].T
            self._forest = Forest(values, self._small.array[known], self._config.n_trees, self._seed)

    def _learn(self, ended: list[tuple[float, int, float]]) -> None:
        """Know the jobs that ended in a week, and set the divider of the next."""
        if not ended:
            return
        self._divider = float(np.median([run_time for _, _, run_time in ended]))
        if np.isnan(self._first_divider):
            self._first_divider = self._divider
        for _, number, run_time in ended:
            own = float(self._dividers.array[number])
            small = run_time < (self._first_divider if np.isnan(own) else own)
            self._small.array[number] = small
            values = self._values.array[:, number].tolist()
            self._categories.add(number, int(self._users.array[number]), values, int(small))

    def _tell(self, numbers: Ints) -> None:
        """Tell the class of jobs, and of all that may be submitted in this week too: one by one is slow.

        The class depends on what was known when the week began, and on no job that is submitted later.
        """
        told = np.union1d(numbers, np.fromiter(self._admitted, np.int64, len(self._admitted)))
        told = told[self._told_in.array[told] != self._week]
        self._told_in.array[told] = self._week
        if np.isnan(self._divider):
            self._taken.array[told] = 0
        elif self._config.by is ClassSource.ACTUAL:
            slots = np.array([self._admitted[number] for number in told.tolist()], np.int64)
            self._taken.array[told] = self._table.floats[RUN, slots] < self._divider
        else:
            self._taken.array[told] = self._by_forest(told)

    def _by_forest(self, numbers: Ints) -> Ints:
        assert self._forest is not None, "there is a divider, so that classes are known"
        values = self._values.array[:, numbers].T.astype(np.float64)
        for row, number in enumerate(numbers.tolist()):
            self._categories.write(int(self._users.array[number]), values[row])
        self._values.array[:, numbers] = values.T
        return self._forest.are_small(values).astype(np.int8)
