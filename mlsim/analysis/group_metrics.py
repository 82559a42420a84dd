"""Metrics by class, by size and by week, and groups of jobs."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.analysis.job_metrics import mean_of
from mlsim.record import Jobs, Records
from mlsim.record.derived_times import bounded_slowdown, run_time
from mlsim.record.table_blocks import rows_of

WEEK = 7 * 86400.0
HOUR = 3600.0

CLASSES = ("short", "medium", "long")
"""Classes by run time p in this run: p < 1 h, 1 h <= p <= 5 h, p > 5 h (Galleguillos 2020, §2.1.4)."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Assignment of jobs to groups."""

    labels: list[str]  # in their order; each has a job
    code: Ints  # place of each job's group in labels; -1: it never started, and is in none


def group_jobs(jobs: Jobs, by: str, names: Mapping[int, str] | None = None) -> Groups:
    """Group the started jobs.

    ``by`` is ``class``: see :data:`CLASSES`; ``size``: processors q between powers of two: 1, 2, 3-4, 5-8 …;
    ``week`` of the end, from 1, counted from the scenario's start; or one of :data:`CODED`, whose numbers
    ``names`` maps to names. Two numbers with one name keep the number as well.
    """
    started = np.flatnonzero(~np.isnan(jobs.start_time))
    if by in _RULES:
        numbers, name = _RULES[by][0](jobs), _RULES[by][1]
    else:
        codes: Ints | None = getattr(jobs, by)
        numbers = np.full(len(jobs.job_id), -1, np.int64) if codes is None else codes
        name = _namer(names or {})
    found, places = np.unique(numbers[started], return_inverse=True)
    code = np.full(len(numbers), -1, np.int64)
    code[started] = places
    return Groups([name(int(number)) for number in found], code)


def _classes(jobs: Jobs) -> Ints:
    length = run_time(jobs)
    return (length >= HOUR).astype(np.int64) + (length > 5 * HOUR)


def size_exponents(jobs: Jobs) -> Ints:
    """Return k for sizes in (2^(k-1), 2^k]; exact, unlike the ceiling of a logarithm."""
    _, exponent = np.frexp((np.maximum(jobs.processors, 1) - 1).astype(np.float64))
    return exponent.astype(np.int64)


def size_name(exponent: int) -> str:
    """Return the range of processors of an exponent of :func:`size_exponents`."""
    low, high = 2 ** (exponent - 1) + 1 if exponent else 1, 2**exponent
    return str(high) if exponent < 2 else f"{low}-{high}"


def _weeks(jobs: Jobs) -> Ints:
    return np.floor(np.nan_to_num(jobs.end_time) / WEEK).astype(np.int64)


def _namer(names: Mapping[int, str]) -> Callable[[int], str]:
    """Return the function that maps a code to its label."""
    shared = {name for name, count in Counter(names.values()).items() if count > 1}

    def label(code: int) -> str:
        name = names.get(code)
        if name is None:
            return "unknown" if code < 0 else str(code)
        return f"{name} ({code})" if name in shared else name

    return label


_RULES: dict[str, tuple[Callable[[Jobs], Ints], Callable[[int], str]]] = {
    "class": (_classes, CLASSES.__getitem__),
    "size": (size_exponents, size_name),
    "week": (_weeks, lambda week: str(week + 1)),
}

CODED = ("user", "group", "executable", "queue", "partition", "qos")
"""Columns of numbers that may have names in the workload."""

GROUPINGS = ("class", "size", *CODED, "week")


def class_quality(truth: Mask, said: Mask) -> dict[str, float]:
    """Compare predicted with true classes of jobs; small is the positive class.

    ``accuracy``, ``precision``, ``recall`` (Zrigui 2021, Eqs. 6.1 to 6.3); ``false_small``, ``false_large``:
    shares of all jobs. NaN if undefined.
    """

    def share(part: Mask, of: int) -> float:
        return float(np.count_nonzero(part)) / of if of else float("nan")

    n = len(truth)
    return {
        "accuracy": share(said == truth, n),
        "precision": share(said & truth, int(said.sum())),
        "recall": share(said & truth, int(truth.sum())),
        "false_small": share(said & ~truth, n),
        "false_large": share(~said & truth, n),
    }


def class_metrics(records: Records, tau: float) -> dict[str, Any]:
    """Measure the classes of a run with a classifier, over the jobs that ran and had a divider.

    Means of bounded slowdown (bound ``tau`` [s]) are of both true classes; ``killed`` attempts are those that
    the safeguard ended.
    """
    jobs, attempts = records.jobs, records.attempts
    assert jobs.divider is not None
    assert jobs.taken_for_small is not None
    judged = ~np.isnan(jobs.divider) & ~np.isnan(jobs.start_time)
    truth = (run_time(jobs) < jobs.divider)[judged]
    slowdown = bounded_slowdown(jobs, tau)[judged]
    recalled = rows_of(attempts, np.flatnonzero(attempts.node < 0))
    return {
        "jobs": len(truth),
        "small": int(truth.sum()),
        **class_quality(truth, jobs.taken_for_small[judged].astype(bool)),
        "bounded_slowdown_small": mean_of(slowdown[truth]),
        "bounded_slowdown_large": mean_of(slowdown[~truth]),
        "killed": len(recalled.job),
        "lost_core_seconds": float(recalled.lost.sum()),
    }


@dataclass(frozen=True, slots=True)
class Weekly:
    """One metric of jobs per week, from the first to the last week in which a job ended.

    The band is from the 10th to the 90th percentile, interpolated linearly, of ``mean`` over the weeks so
    far; the source's (Zrigui 2021, Fig. 4.1) is over resampled workloads, of which a single run has none.
    """

    week: Ints  # from 1 at the scenario's start
    count: Ints  # jobs with the metric that ended in the week
    total: Floats  # of their values
    mean: Floats
    cumulative_mean: Floats  # over all jobs that ended by its end: Σ total / Σ count
    band_low: Floats
    band_high: Floats


def weekly(jobs: Jobs, values: Floats) -> Weekly:
    """Aggregate a metric, one value per job and NaN if undefined, by the weeks in which jobs ended."""
    ended = np.flatnonzero(~np.isnan(jobs.end_time))
    weeks = np.floor(jobs.end_time[ended] / WEEK).astype(np.int64)
    first, n = (int(weeks.min()), int(np.ptp(weeks)) + 1) if len(weeks) else (0, 0)
    mine = values[ended]
    known = ~np.isnan(mine)
    count = np.bincount(weeks[known] - first, minlength=n)
    total = np.bincount(weeks[known] - first, weights=mine[known], minlength=n).astype(np.float64)
    mean, week = total / _or_nan(count), np.arange(n) + first + 1
    cumulative_mean = np.cumsum(total) / _or_nan(np.cumsum(count))
    return Weekly(week, count, total, mean, cumulative_mean, *_band(mean))


def _or_nan(count: NDArray[np.int64]) -> Floats:
    return np.where(count > 0, count, np.nan)


def _band(mean: Floats) -> tuple[Floats, Floats]:
    """Return the 10th and the 90th percentile of the known values so far."""
    band = np.full((2, len(mean)), np.nan)
    known: list[float] = []
    for week, value in enumerate(mean.tolist()):
        if value == value:
            known.append(value)
        if known:
            band[:, week] = np.percentile(known, [10, 90])
    return band[0], band[1]
