"""The jobs of a simulation week by week, and features of them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.record.growing_arrays import GrowingArray
from mlsim.workload.job_selection import WEEK_SECONDS
from mlsim.workload.workload_jobs import JobBlock


class Upcoming:
    """Jobs that have been read and not been submitted yet, and what was told of them.

    That depends on what was known when the week of their submission began, and on no job submitted later. So
    it is told of all that may come in the week at once, which is quicker than one by one.
    """

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._told: dict[int, tuple[int, float]] = {}  # by number: week, and what was told in it

    def add(self, numbers: Ints, slots: Ints) -> None:
        """Add jobs that have been read."""
        self._slots.update(zip(numbers.tolist(), slots.tolist(), strict=True))

    def take(self, numbers: Ints, week: int, tell: Callable[[Ints, Ints], Floats]) -> Floats:
        """Return what is told of jobs that are submitted in this week, and take them away.

        Parameters
        ----------
        numbers
            The jobs.
        week
            The week.
        tell
            Tells it of many jobs, by their numbers and slots.
        """
        if any(self._told.get(number, (-1, 0.0))[0] != week for number in numbers.tolist()):
            untold = {
                number: slot
                for number, slot in self._slots.items()
                if self._told.get(number, (-1, 0.0))[0] != week
            }
            values = tell(np.array(list(untold)), np.array(list(untold.values())))
            self._told |= {
                number: (week, value) for number, value in zip(untold, values.tolist(), strict=True)
            }
        found = [self._told.pop(number)[1] for number in numbers.tolist()]
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
share of small ones. -1 where there is nothing to tell."""
_UNKNOWN: Final = -1.0
_P, _Q, _WEEKDAY, _LAGS, _SHARES = 0, 1, 3, 8, 17


def first_features(walltime: Floats, processors: Floats, local: Floats) -> Floats:
    """Return the features of jobs of which nothing is known but what their users say.

    Parameters
    ----------
    walltime, processors
        What the jobs ask for; walltimes in seconds.
    local
        Submit times as seconds since 1970 on the clocks of the log's time zone.

    Returns
    -------
    ndarray of float64, shape (jobs, 20)
        In the order of :data:`FEATURE_NAMES`; those of history are -1.
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
    """What is known of the jobs of each category: classes of the last three submitted, and the share."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, float], list[tuple[int, int]]] = {}
        self._counts: dict[tuple[int, float], list[int]] = {}

    def add(self, key: tuple[int, float], row: int, small: int) -> None:
        """Add a job that has become known."""
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
    """What is known of jobs of the same user and the same processors, walltime, or day of the week."""

    def __init__(self) -> None:
        self._histories = [(_History(), place) for place in (_Q, _P, _WEEKDAY)]

    def add(self, row: int, user: int, values: Sequence[float], small: int) -> None:
        """Add a job whose class has become known.

        Parameters
        ----------
        row
            Its place in the order of arrival.
        user
            Its user.
        values
            Its features.
        small
            1 if it was small, else 0.
        """
        for history, place in self._histories:
            history.add((user, float(values[place])), row, small)

    def write(self, user: int, values: Floats) -> None:
        """Write what is known now into the features of a job of a user."""
        for category, (history, place) in enumerate(self._histories):
            lags, share = history.features((user, float(values[place])))
            first = _LAGS + 3 * category
            values[first : first + 3] = lags
            values[_SHARES + category] = share


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
            while n_known < len(self._ended) and self._ended[n_known][0] <= edge * WEEK_SECONDS:
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
