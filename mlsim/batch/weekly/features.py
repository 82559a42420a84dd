"""Features of jobs from which their class is learned (Zrigui 2021, Table 6.3), as history grows."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Final

import numpy as np

from mlsim._arrays import Floats

__all__ = ["FEATURE_NAMES", "Categories", "first_features"]

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
