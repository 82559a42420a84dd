"""Groups of jobs: by class, size, week, or a column of the workload (user, queue ...)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Ints
from mlsim.record import Jobs
from mlsim.record.derived import run_time

__all__ = ["CLASSES", "CODED", "GROUPINGS", "WEEK", "Groups", "group_jobs"]


WEEK = 7 * 86400.0
"""Seconds in a week."""
HOUR = 3600.0

CLASSES = ("short", "medium", "long")
"""Classes by run time p in this run: p < 1 h, 1 h <= p <= 5 h, p > 5 h (Galleguillos 2020, §2.1.4)."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Which group each job is in."""

    labels: list[str]
    """The groups in their order; each has a job."""
    code: Ints
    """Place of each job's group in ``labels``; -1 for jobs that never started, which are in none."""


def group_jobs(jobs: Jobs, by: str, names: Mapping[int, str] | None = None) -> Groups:
    """Put the jobs that started into groups.

    Parameters
    ----------
    jobs
        Of a run.
    by
        ``class``: see :data:`CLASSES`. ``size``: processors q between powers of two: 1, 2, 3-4, 5-8 …
        ``week``: in which it ended, from 1, counted from the scenario's start. ``user`` and the others of
        :data:`CODED`: as in the workload.
    names
        Names of the numbers that users, or what else jobs are grouped by, have in the workload; a group is
        called by its name if it has one, with the number if another number has it too, else by the number.
    """
    started = np.flatnonzero(~np.isnan(jobs.start_time))
    numbers, name = _RULES[by](jobs) if by in _RULES else (_codes(jobs, by), _namer(names or {}))
    found, places = np.unique(numbers[started], return_inverse=True)
    code = np.full(len(numbers), -1, np.int64)
    code[started] = places
    return Groups([name(int(number)) for number in found], code)


def _classes(jobs: Jobs) -> Ints:
    length = run_time(jobs)
    return (length >= HOUR).astype(np.int64) + (length > 5 * HOUR)


def _size_exponents(jobs: Jobs) -> Ints:
    """Return k for sizes in (2^(k-1), 2^k]; exact, unlike the ceiling of a logarithm."""
    _, exponent = np.frexp((np.maximum(jobs.processors, 1) - 1).astype(np.float64))
    return exponent.astype(np.int64)


def _size_name(exponent: int) -> str:
    low, high = 2 ** (exponent - 1) + 1 if exponent else 1, 2**exponent
    return str(high) if exponent < 2 else f"{low}-{high}"


def _weeks(jobs: Jobs) -> Ints:
    return np.floor(np.nan_to_num(jobs.end_time) / WEEK).astype(np.int64)


def _codes(jobs: Jobs, column: str) -> Ints:
    codes: Ints | None = getattr(jobs, column)
    return np.full(len(jobs.job_id), -1, np.int64) if codes is None else codes


def _namer(names: Mapping[int, str]) -> Callable[[int], str]:
    """Return the function that maps a code to its label."""
    shared = {name for name, count in Counter(names.values()).items() if count > 1}

    def label(code: int) -> str:
        name = names.get(code)
        if name is None:
            return "unknown" if code < 0 else str(code)
        return f"{name} ({code})" if name in shared else name

    return label


_RULES: dict[str, Callable[[Jobs], tuple[Ints, Callable[[int], str]]]] = {
    "class": lambda jobs: (_classes(jobs), CLASSES.__getitem__),
    "size": lambda jobs: (_size_exponents(jobs), _size_name),
    "week": lambda jobs: (_weeks(jobs), lambda week: str(week + 1)),
}

CODED = ("user", "group", "executable", "queue", "partition", "qos")
"""Columns of numbers that the workload has given to what may have names."""

GROUPINGS = ("class", "size", *CODED, "week")
"""What jobs can be grouped by."""
