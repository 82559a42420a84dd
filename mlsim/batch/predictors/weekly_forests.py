"""Random forests learned week by week from the features of jobs: classes of jobs, and run times."""

import datetime
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.batch.predictors.run_time_predictors import SHORTEST
from mlsim.errors import InputError
from mlsim.record.column_types import GrowingArray
from mlsim.scenario.words import Predictor as Word
from mlsim.workload.job_selection import WEEK_SECONDS
from mlsim.workload.workload_jobs import JobBlock


class Upcoming:
    """Jobs that have been read and not submitted yet, with their forecasts.

    A forecast depends on what was known when the week of submission began, and on no job submitted later. So
    it is made for all jobs that may arrive in the week at once, which is faster than one by one.
    """

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._forecasts: dict[int, tuple[int, float]] = {}  # by number: week, and forecast in it

    def add(self, numbers: Ints, slots: Ints) -> None:
        """Add jobs that have been read."""
        self._slots.update(zip(numbers.tolist(), slots.tolist(), strict=True))

    def take(self, numbers: Ints, week: int, forecast: Callable[[Ints, Ints], Floats]) -> Floats:
        """Remove jobs that are submitted in this week, and return their forecasts.

        ``forecast`` makes the forecasts of many jobs, from their numbers and slots.
        """
        if any(self._forecasts.get(number, (-1, 0.0))[0] != week for number in numbers.tolist()):
            missing = {
                number: slot
                for number, slot in self._slots.items()
                if self._forecasts.get(number, (-1, 0.0))[0] != week
            }
            values = forecast(np.array(list(missing)), np.array(list(missing.values())))
            self._forecasts |= {
                number: (week, value) for number, value in zip(missing, values.tolist(), strict=True)
            }
        found = [self._forecasts.pop(number)[1] for number in numbers.tolist()]
        for number in numbers.tolist():
            del self._slots[number]
        return np.array(found)


_CATEGORIES: Final = ("user_q", "user_p", "user_weekday")
FEATURE_NAMES: Final = (
    *("p", "q", "hour", "weekday", "day", "month", "week", "quarter"),
    *(f"{category}_{lag}" for category in _CATEGORIES for lag in (1, 2, 3)),
    *(f"{category}_share" for category in _CATEGORIES),
)
"""Walltime, processors; six of the calendar; of each category the classes of the last three jobs; of each the
share of small ones. -1 where unknown."""
_UNKNOWN: Final = -1.0
_P, _Q, _WEEKDAY, _LAGS, _SHARES = 0, 1, 3, 8, 17


def first_features(walltime: Floats, processors: Floats, local: Floats) -> Floats:
    """Return the features of jobs without history, shape (jobs, 20), in the order of :data:`FEATURE_NAMES`.

    Those of history are -1. ``local`` are submit times as seconds since 1970 on the clocks of the log's time
    zone.
    """
    values = np.full((len(local), len(FEATURE_NAMES)), _UNKNOWN)
    values[:, _P], values[:, _Q] = walltime, processors
    values[:, 2:_LAGS] = _calendar(local)
    return values


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


class _History:
    """History of each category: classes of the last three submitted jobs, and the share of small ones."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, float], list[tuple[int, int]]] = {}
        self._counts: dict[tuple[int, float], list[int]] = {}

    def add(self, key: tuple[int, float], row: int, small: int) -> None:
        """Add a job whose class has become known."""
        last = self._last.setdefault(key, [])
        last.append((row, small))
        last.sort(reverse=True)
        del last[3:]
        counts = self._counts.setdefault(key, [0, 0])
        counts[0] += 1
        counts[1] += small

    def features(self, key: tuple[int, float]) -> tuple[list[float], float]:
        """Return the classes of the last three jobs, the latest first, and the share of small ones."""
        last = [float(small) for _, small in self._last.get(key, ())]
        counts = self._counts.get(key)
        share = _UNKNOWN if counts is None else counts[1] / counts[0]
        return last + [_UNKNOWN] * (3 - len(last)), share


class Categories:
    """Histories of jobs of the same user and the same processors, walltime, or day of the week."""

    def __init__(self) -> None:
        self._histories = [(_History(), place) for place in (_Q, _P, _WEEKDAY)]

    def add(self, row: int, user: int, values: Sequence[float], small: int) -> None:
        """Add a job whose class has become known: place in arrival order, user, features, 1 if small."""
        for history, place in self._histories:
            history.add((user, float(values[place])), row, small)

    def write(self, user: int, values: Floats) -> None:
        """Write the current histories into the features of a user's job."""
        for category, (history, place) in enumerate(self._histories):
            lags, share = history.features((user, float(values[place])))
            first = _LAGS + 3 * category
            values[first : first + 3] = lags
            values[_SHARES + category] = share


UNKNOWN = -1  # in place of the class of a job that is not known yet


class WeeklyHistory:
    """Jobs by number, in order of arrival; jobs that ended before a week began are known in it.

    Weeks count from time 0. The divider of a week is the median run time (s) of the jobs that ended in the
    week before, and that of the week before where none did; a job keeps the one of its submission. A job is
    small if its run time is below its divider; without one, below the first that there is.
    """

    def __init__(self) -> None:
        self.n, self.week, self.divider = 0, 0, np.nan
        self._first_divider = np.nan
        self._categories = Categories()
        self._ended: list[tuple[float, int, float]] = []  # end, number and run time, not yet known
        self._values = GrowingArray(np.float32, len(FEATURE_NAMES))
        self._users, self._small = GrowingArray(np.int64), GrowingArray(np.int8)
        self._dividers, self._run_time = GrowingArray(np.float64), GrowingArray(np.float64)

    @property
    def dividers(self) -> Floats:
        """Divider of each job (s); NaN if there was none."""
        return self._dividers.array[: self.n]

    @property
    def small(self) -> Ints:
        """Class of each job: 1 small, 0 large, or :data:`UNKNOWN`."""
        return self._small.array[: self.n]

    @property
    def run_time(self) -> Floats:
        """Run time of each known job (s)."""
        return self._run_time.array[: self.n]

    def admit(self, block: JobBlock, numbers: Ints, local: Floats) -> None:
        """Register jobs that will be submitted, with submit times as for :func:`first_features`.

        Numbers that are left out belong to jobs that will not be.
        """
        rows = max(int(numbers.max(initial=-1)) + 1, self.n)
        for column in (self._values, self._users, self._small, self._dividers, self._run_time):
            column.reserve(rows, self.n)
        new = slice(self.n, rows)
        self._dividers.array[new], self._run_time.array[new], self._small.array[new] = np.nan, np.nan, UNKNOWN
        features = first_features(block.walltime, block.processors.astype(np.float64), local)
        self._values.array[:, numbers], self._users.array[numbers] = features.T, block.user
        self.n = rows

    def submit(self, numbers: Ints) -> None:
        """Freeze the dividers of jobs that are submitted in the current week."""
        self._dividers.array[numbers] = self.divider

    def end(self, number: int, now: float, run_time: float) -> None:
        """Register the end of a job; it is known from the next week on."""
        self._ended.append((now, number, run_time))

    def begin(self, week: int) -> None:
        """Begin a week: jobs that ended before it become known, edge by edge."""
        self._ended.sort()
        n_known = 0
        for edge in range(self.week + 1, week + 1):
            first = n_known
            while n_known < len(self._ended) and self._ended[n_known][0] <= edge * WEEK_SECONDS:
                n_known += 1
            self._learn(self._ended[first:n_known])
        del self._ended[:n_known]
        self.week = week

    def _learn(self, ended: list[tuple[float, int, float]]) -> None:
        """Learn the jobs that ended in a week, and set the divider of the next."""
        if not ended:
            return
        self.divider = float(np.median([run_time for _, _, run_time in ended]))
        if np.isnan(self._first_divider):
            self._first_divider = self.divider
        for _, number, run_time in ended:
            own = float(self._dividers.array[number])
            small = run_time < (self._first_divider if np.isnan(own) else own)
            self._small.array[number], self._run_time.array[number] = small, run_time
            values = self._values.array[:, number].tolist()
            self._categories.add(number, int(self._users.array[number]), values, int(small))

    def features(self, numbers: Ints) -> Floats:
        """Update the features of jobs by the current histories, and return them, shape (jobs, 20)."""
        values = self._values.array[:, numbers].T.astype(np.float64)
        for row, number in enumerate(numbers.tolist()):
            self._categories.write(int(self._users.array[number]), values[row])
        self._values.array[:, numbers] = values.T
        return values

    def known(self, most: int | None = None) -> Ints:
        """Return the numbers of known jobs, the ``most`` latest."""
        found = np.flatnonzero(self.small != UNKNOWN)
        return found if most is None else found[-most:]

    def known_features(self, numbers: Ints) -> Floats:
        """Return the features that known jobs had at their submission, shape (jobs, 20)."""
        return self._values.array[:, numbers].T.astype(np.float64)


# Forests

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
        self._forest: Any = None
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

    def importances(self) -> Floats:
        """Return the Gini importance of each feature, 1 in all; NaN where only one class is known."""
        if self._forest is None:
            return np.full(len(FEATURE_NAMES), np.nan)
        return np.array(self._forest.feature_importances_)


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
