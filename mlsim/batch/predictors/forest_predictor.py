"""Run times predicted from features of jobs by a random forest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.batch.columns.job_table import ESTIMATE, NUMBER, START, SUBMIT, WALLTIME
from mlsim.batch.predictors.predictor import SHORTEST
from mlsim.batch.weekly.job_history import Upcoming, WeeklyHistory
from mlsim.batch.weekly.weekly_forests import RunTimeForest, check_library
from mlsim.scenario import Predictor as Word
from mlsim.workload.job_selection import WEEK_SECONDS
from mlsim.workload.workload_jobs import JobBlock

if TYPE_CHECKING:
    from mlsim.batch.columns.job_table import JobTable


WEEKLY: Final = (Word.FOREST_MEAN, Word.FOREST_QUANTILE)
"""Predictors that learn at the end of each week."""

_MOST_LEARNED = 20_000
"""The forest learns from so many jobs at most, the latest."""
_LEAST_LEARNED = 10
"""With fewer, walltimes are all that is known."""


class RunTimeLearner:
    """Learns run times week by week.

    Parameters
    ----------
    name
        Of :data:`WEEKLY`.
    quantile
        Which one; read by the one that predicts it.
    seed
        Of the forests.

    Raises
    ------
    InputError
        If a library is missing.

    Attributes
    ----------
    history
        The jobs.
    """

    def __init__(self, name: str, quantile: float, seed: int) -> None:
        check_library()
        self.history = WeeklyHistory()
        self._quantile = quantile if name == Word.FOREST_QUANTILE else None
        self._seed = seed
        self._forest: RunTimeForest | None = None

    def begin(self, week: int) -> None:
        """Begin a week, if it has not begun."""
        if week > self.history.week:
            self.history.begin(week)
            self._forest = None

    def predict(self, numbers: Ints, walltime: Floats) -> Floats:
        """Return the predictions of jobs that are submitted in this week [s], cut to [1 s, walltime]."""
        known = self.history.known(_MOST_LEARNED)
        if len(known) < _LEAST_LEARNED:
            return walltime.copy()
        if self._forest is None:
            features = self.history.known_features(known)
            self._forest = RunTimeForest(features, self.history.run_time[known], self._quantile, self._seed)
        found = self._forest.run_times(self.history.features(numbers))
        return np.minimum(np.maximum(found, SHORTEST), walltime)


class WeeklyEstimates:
    """Estimates in a simulation.

    Parameters
    ----------
    table
        The jobs in the system.
    learner
        Who predicts.
    local
        From submit times [s] to seconds since 1970 on the clocks of the log's time zone.
    """

    def __init__(self, table: JobTable, learner: RunTimeLearner, local: Callable[[Floats], Floats]) -> None:
        self._table, self._learner, self._local = table, learner, local
        self._upcoming = Upcoming()

    def admit(self, block: JobBlock, slots: Ints, /) -> None:
        """Take note of the jobs of a block; none has an estimate yet."""
        numbers = self._table.ints[NUMBER, slots]
        self._learner.history.admit(block, numbers, self._local(block.submit_time))
        self._upcoming.add(numbers, slots)
        self._table.floats[ESTIMATE, slots] = np.nan

    def arrive(self, slots: Ints) -> None:
        """Make the estimates of jobs that are submitted now."""
        table = self._table
        week, numbers = int(table.floats[SUBMIT, slots[0]] // WEEK_SECONDS), table.ints[NUMBER, slots]
        self._learner.begin(week)

        def tell(untold: Ints, theirs: Ints) -> Floats:
            return self._learner.predict(untold, table.floats[WALLTIME, theirs])

        table.floats[ESTIMATE, slots] = self._upcoming.take(numbers, week, tell)
        self._learner.history.submit(numbers)

    def learn(self, slot: int, now: float) -> None:
        """Take note that a job completes now, or is killed at its walltime."""
        run_time = now - float(self._table.floats[START, slot])
        self._learner.history.end(int(self._table.ints[NUMBER, slot]), now, run_time)
