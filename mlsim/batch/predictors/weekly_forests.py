"""Random forests learned week by week: classes of jobs, and run times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.batch.columns.job_table import ESTIMATE, LARGE, NUMBER, RUN, START, SUBMIT, WALLTIME, JobTable
from mlsim.batch.predictors.job_history import Upcoming, WeeklyHistory
from mlsim.batch.predictors.predictor import SHORTEST
from mlsim.errors import InputError
from mlsim.record import Jobs
from mlsim.record.growing_arrays import GrowingArray
from mlsim.scenario import ClassifierConfig, ClassSource
from mlsim.scenario import Predictor as Word
from mlsim.workload.job_selection import WEEK_SECONDS
from mlsim.workload.workload_jobs import JobBlock

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier


_LEAST_IN_LEAF = 2


def check_library() -> None:
    """Raise InputError if scikit-learn is missing."""
    try:
        import sklearn.ensemble  # noqa: F401 - whether it can be imported is the question
    except ImportError as error:
        raise InputError(
            "classes are learned by scikit-learn, which is not installed; pip install 'mlsim[learning]'"
        ) from error


class Forest:
    """Predicts which jobs are small, from their features (jobs, 20); ``small`` is 1 or 0 per known job."""

    def __init__(self, values: Floats, small: Ints, trees: int, seed: int) -> None:
        self._only = bool(small[0]) if small.min() == small.max() else None
        self._forest: RandomForestClassifier | None = None
        if self._only is None:
            from sklearn.ensemble import RandomForestClassifier

            self._forest = RandomForestClassifier(
                trees, min_samples_leaf=_LEAST_IN_LEAF, random_state=seed, n_jobs=1
            )
            self._forest.fit(values.astype(np.float32), small)

    def are_small(self, values: Floats) -> Mask:
        """Return which jobs are predicted to be small, from their features, shape (jobs, 20)."""
        if self._forest is None:
            return np.full(len(values), self._only)
        found: Mask = self._forest.predict(values.astype(np.float32)) == 1
        return found


_TREES: Final = 30
_LEAST_IN_LEAF_OF_TIMES: Final = 5
_FEATURES: Final = 1 / 3  # share of the features among which each split is found, as is usual for regression


class RunTimeForest:
    """Predicts the mean of jobs' run times, or a quantile in (0, 1), from features (jobs, 20).

    Trees are grown on logarithms of run times, as these span five orders of magnitude. The answer of a tree
    is the mean, or the quantile, of the run times of all known jobs of the same leaf; the forest's is their
    mean, where Meinshausen 2006 weighs all jobs of all leaves.
    """

    def __init__(self, values: Floats, run_time: Floats, quantile: float | None, seed: int) -> None:
        from sklearn.ensemble import RandomForestRegressor

        self._forest = RandomForestRegressor(
            _TREES,
            min_samples_leaf=_LEAST_IN_LEAF_OF_TIMES,
            max_features=_FEATURES,
            random_state=seed,
            n_jobs=1,
        )
        self._forest.fit(values.astype(np.float32), np.log1p(run_time))
        leaves = self._forest.apply(values.astype(np.float32)).T
        self._answers = [
            _by_leaf(leaf, run_time, quantile, tree.tree_.node_count)
            for leaf, tree in zip(leaves, self._forest.estimators_, strict=True)
        ]

    def run_times(self, values: Floats) -> Floats:
        """Return the predicted run times of jobs (s), from their features, shape (jobs, 20)."""
        leaves = self._forest.apply(values.astype(np.float32)).T
        answers = [answer[leaf] for answer, leaf in zip(self._answers, leaves, strict=True)]
        found: Floats = np.mean(answers, axis=0)
        return found


def _by_leaf(leaf: Ints, run_time: Floats, quantile: float | None, nodes: int) -> Floats:
    """Return the mean or a quantile of the run times in each leaf of a tree."""
    order = np.lexsort((run_time, leaf))
    sizes = np.bincount(leaf, minlength=nodes)
    first = np.cumsum(sizes) - sizes
    filled = np.flatnonzero(sizes)
    found, ordered = np.zeros(nodes), run_time[order]
    if quantile is None:
        found[filled] = np.add.reduceat(ordered, first[filled]) / sizes[filled]
    else:  # the smallest value that so many are not above
        found[filled] = ordered[first[filled] + np.ceil(quantile * sizes[filled]).astype(np.int64) - 1]
    return found


class JobClasses:
    """Predicts at submission which jobs are small; in the first week all are large.

    ``local`` converts submit times (s) to seconds since 1970 on the clocks of the log's time zone. Raises
    InputError if a library is missing.
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
        """Register jobs that will be submitted."""
        numbers, before = self._table.ints[NUMBER, slots], self._history.n
        self._history.admit(block, numbers, self._local(block.submit_time))
        self._taken.reserve(self._history.n, before)
        self._taken.array[before : self._history.n] = 0
        self._upcoming.add(numbers, slots)

    def arrive(self, slots: Ints, now: float) -> None:
        """Predict the classes of jobs that are submitted now."""
        week = int(now // WEEK_SECONDS)
        if week > self._history.week:
            self._history.begin(week)
            self._forest = None
        numbers = self._table.ints[NUMBER, slots]
        small = self._upcoming.take(numbers, week, self._are_small) == 1
        self._history.submit(numbers)
        self._taken.array[numbers], self._table.ints[LARGE, slots] = small, ~small

    def learn(self, slot: int, now: float) -> None:
        """Register a job that completes now, or is killed at its walltime."""
        run_time = now - float(self._table.floats[START, slot])
        self._history.end(int(self._table.ints[NUMBER, slot]), now, run_time)

    def limit(self, slot: int) -> float:
        """Return the run time at which a job predicted small is killed (s)."""
        if not self._config.safeguard or self._table.ints[LARGE, slot]:
            return np.inf
        return float(self._history.dividers[self._table.ints[NUMBER, slot]])

    def make_large(self, slot: int) -> None:
        """Reclassify a job that has run past its divider as large."""
        self._table.ints[LARGE, slot] = 1

    def added_to(self, jobs: Jobs) -> Jobs:
        """Return the jobs with their predicted classes and dividers."""
        n = len(jobs.job_id)
        dividers, taken = (
            np.full(n, np.nan),
            np.zeros(n, np.bool_),
        )  # jobs that were never submitted have none
        dividers[: self._history.n] = self._history.dividers
        taken[: self._history.n] = self._taken.array[: self._history.n]
        return replace(jobs, taken_for_small=taken, divider=dividers)

    def _are_small(self, numbers: Ints, slots: Ints) -> Floats:
        """Return 1 for jobs that are predicted small, else 0."""
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


WEEKLY: Final = (Word.FOREST_MEAN, Word.FOREST_QUANTILE)  # predictors that learn at the end of each week

_MOST_LEARNED = 20_000  # maximum number of jobs that the forest learns from, the latest
_LEAST_LEARNED = 10  # with fewer, walltimes are all that is known


class RunTimeLearner:
    """Learns run times week by week; ``name`` is one of :data:`WEEKLY`.

    Raises InputError if a library is missing.
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
        """Return the predictions of jobs that are submitted in this week (s), cut to [1 s, walltime]."""
        known = self.history.known(_MOST_LEARNED)
        if len(known) < _LEAST_LEARNED:
            return walltime.copy()
        if self._forest is None:
            features = self.history.known_features(known)
            self._forest = RunTimeForest(features, self.history.run_time[known], self._quantile, self._seed)
        found = self._forest.run_times(self.history.features(numbers))
        return np.minimum(np.maximum(found, SHORTEST), walltime)


class WeeklyEstimates:
    """Weekly predictions in a simulation; ``local`` is that of :class:`JobClasses`."""

    def __init__(self, table: JobTable, learner: RunTimeLearner, local: Callable[[Floats], Floats]) -> None:
        self._table, self._learner, self._local = table, learner, local
        self._upcoming = Upcoming()

    def admit(self, block: JobBlock, slots: Ints, /) -> None:
        """Register the jobs of a block; none has an estimate yet."""
        numbers = self._table.ints[NUMBER, slots]
        self._learner.history.admit(block, numbers, self._local(block.submit_time))
        self._upcoming.add(numbers, slots)
        self._table.floats[ESTIMATE, slots] = np.nan

    def arrive(self, slots: Ints) -> None:
        """Make the estimates of jobs that are submitted now."""
        table = self._table
        week, numbers = int(table.floats[SUBMIT, slots[0]] // WEEK_SECONDS), table.ints[NUMBER, slots]
        self._learner.begin(week)

        def forecast(numbers: Ints, theirs: Ints) -> Floats:
            return self._learner.predict(numbers, table.floats[WALLTIME, theirs])

        table.floats[ESTIMATE, slots] = self._upcoming.take(numbers, week, forecast)
        self._learner.history.submit(numbers)

    def learn(self, slot: int, now: float) -> None:
        """Register a job that completes now, or is killed at its walltime."""
        run_time = now - float(self._table.floats[START, slot])
        self._learner.history.end(int(self._table.ints[NUMBER, slot]), now, run_time)
