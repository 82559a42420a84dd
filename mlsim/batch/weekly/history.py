"""The jobs of a simulation and what has become known of them, week by week."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.batch.weekly.features import FEATURE_NAMES, Categories, first_features
from mlsim.record.growing import GrowingArray
from mlsim.workload.jobs import JobBlock
from mlsim.workload.weeks import WEEK

__all__ = ["UNKNOWN", "WeeklyHistory"]

UNKNOWN = -1
"""In place of the class of a job that is not known yet."""


class WeeklyHistory:
    """Jobs by number, in order of arrival; what ended before a week began is known in it.

    Weeks count from time 0. The divider of a week is the median run time of what ended in the week before,
    and that of the week before where nothing did; a job keeps the one of its submission. A job is small if
    its run time is below its divider; without one, below the first that there is.

    Attributes
    ----------
    n
        How many jobs there are.
    week, divider
        The current week, and its divider [s]; NaN if there is none yet.
    dividers : ndarray of float64
        Of each job [s].
    small : ndarray of int8
        1 of those known to be small, 0 of those known not to be; else :data:`UNKNOWN`.
    run_time : ndarray of float64
        Of each known job [s].
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
        """Divider of each job."""
        found: Floats = self._dividers.array[: self.n]
        return found

    @property
    def small(self) -> Ints:
        """What is known of the class of each job."""
        found: Ints = self._small.array[: self.n]
        return found

    @property
    def run_time(self) -> Floats:
        """Run time of each job that is known."""
        found: Floats = self._run_time.array[: self.n]
        return found

    def admit(self, block: JobBlock, numbers: Ints, local: Floats) -> None:
        """Take note of jobs that will be submitted.

        Parameters
        ----------
        block
            The jobs.
        numbers
            Their numbers; those that are left out are of jobs that will not.
        local
            Submit times as seconds since 1970 on the clocks of the log's time zone.
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
        """Take note that a job ends now; it is known from the next week on."""
        self._ended.append((now, number, run_time))

    def begin(self, week: int) -> None:
        """Begin a week: what ended before it becomes known, edge by edge."""
        self._ended.sort()
        n_known = 0
        for edge in range(self.week + 1, week + 1):
            first = n_known
            while n_known < len(self._ended) and self._ended[n_known][0] <= edge * WEEK:
                n_known += 1
            self._learn(self._ended[first:n_known])
        del self._ended[:n_known]
        self.week = week

    def _learn(self, ended: list[tuple[float, int, float]]) -> None:
        """Know the jobs that ended in a week, and set the divider of the next."""
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
        """Write what is known now into the features of jobs, and return them, shape (jobs, 20)."""
        values = self._values.array[:, numbers].T.astype(np.float64)
        for row, number in enumerate(numbers.tolist()):
            self._categories.write(int(self._users.array[number]), values[row])
        self._values.array[:, numbers] = values.T
        return values

    def known(self, most: int | None = None) -> Ints:
        """Return the numbers of the jobs that are known, the ``most`` latest of them."""
        found = np.flatnonzero(self.small != UNKNOWN)
        return found if most is None else found[-most:]

    def known_features(self, numbers: Ints) -> Floats:
        """Return the features that known jobs had at their submission, shape (jobs, 20)."""
        found: Floats = self._values.array[:, numbers].T.astype(np.float64)
        return found
