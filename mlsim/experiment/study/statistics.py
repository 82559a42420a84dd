"""Statistics over repetitions: intervals of means by bootstrap, and paired differences with a test.

Pairs are of the same repetition (the same week, seed, order): what differs is the combination alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from mlsim._arrays import Floats
from mlsim.errors import InputError
from mlsim.experiment.study.tables import Labels, Table, labels_of

if TYPE_CHECKING:
    from mlsim.experiment.study.model import Study
    from mlsim.experiment.study.rows import StudyRow

__all__ = [
    "INTERVALS",
    "Spread",
    "interval_note",
    "mean_interval",
    "signed_rank_p",
    "spread_of",
    "statistics_table",
    "t_quantile",
    "trimmed",
]

INTERVALS = {
    "bootstrap": "percentiles of 10,000 bootstrap resamples",
    "t": "by Student's t, for values that are about normal",
}
"""How an interval is found."""
_NOTE = (
    "Intervals hold the mean with 95 %: {}. Differences are to the "
    "reference combination, of pairs of the same repetition; p is of Wilcoxon's signed-rank test, two-sided, "
    "not corrected for the number of comparisons."
)
_RESAMPLES = 10_000
_MOST_DRAWN = 1 << 20
_SHARE = 0.95
_MOST_EXACT = 200
"""Pairs up to which the distribution of the sum of ranks is computed; beyond, it is normal to many digits."""
_NAN = float("nan")


@dataclass(frozen=True)
class Spread:
    """The values of one combination over its repetitions."""

    runs: int
    mean: float
    median: float
    low: float
    """Lower end of the interval of the mean; NaN for less than two runs, as all below."""
    high: float
    pairs: int = 0
    """Repetitions that the reference combination has too."""
    difference: float = _NAN
    """Mean difference to the reference combination."""
    difference_low: float = _NAN
    difference_high: float = _NAN
    p: float = _NAN
    """Of Wilcoxon's signed-rank test."""


def interval_note(interval: str) -> str:
    """Return what tables say of their intervals and tests."""
    return _NOTE.format(INTERVALS[interval])


def spread_of(
    values: Mapping[str, float], reference: Mapping[str, float] | None = None, interval: str = "bootstrap"
) -> Spread:
    """Return the statistics of one combination.

    Parameters
    ----------
    values
        Label of a repetition to value; those that are not finite are left out.
    reference
        Likewise of the combination that it is compared with; None: none.
    interval
        A word of :data:`INTERVALS`.
    """
    known = {label: value for label, value in values.items() if math.isfinite(value)}
    own = np.array(list(known.values()))
    if not len(own):
        return Spread(0, _NAN, _NAN, _NAN, _NAN)
    first = (len(own), float(own.mean()), float(np.median(own)), *mean_interval(own, interval))
    if reference is None:
        return Spread(*first)
    below = {label: reference[label] for label in known if math.isfinite(reference.get(label, _NAN))}
    differences = np.array([known[label] - value for label, value in below.items()])
    if len(differences) < 2:
        return Spread(*first, pairs=len(differences))
    ends = mean_interval(differences, interval)
    return Spread(*first, len(differences), float(differences.mean()), *ends, signed_rank_p(differences))


def trimmed(values: Mapping[str, float], count: int) -> dict[str, float]:
    """Return values without so many of the least and of the largest; those that are not finite are left out.

    Of equal values the first by their order are the least.
    """
    known = [label for label, value in values.items() if math.isfinite(value)]
    kept = set(sorted(known, key=lambda label: values[label])[count : len(known) - count])
    return {label: value for label, value in values.items() if label in kept} if count else dict(values)


def mean_interval(values: Floats, interval: str = "bootstrap") -> tuple[float, float]:
    """Return the ends of an interval that holds the mean with 95 %; NaN for less than two values.

    By the percentile bootstrap (Efron and Tibshirani 1993, ch. 13), of which the same values give the same
    ends, or by Student's t.
    """
    if len(values) < 2:
        return _NAN, _NAN
    if interval == "t":
        mean, deviation = float(np.mean(values)), float(np.std(values, ddof=1))
        half = t_quantile(len(values) - 1) * deviation / math.sqrt(len(values))
        return mean - half, mean + half
    return _bootstrap(np.asarray(values, np.float64).tobytes())


@lru_cache(maxsize=512)
def _bootstrap(values: bytes) -> tuple[float, float]:
    """Return the interval of float64 values; a table and its pictures ask for the same ones."""
    own = np.frombuffer(values)
    random = np.random.default_rng(0)
    means = np.empty(_RESAMPLES)
    rows = max(1, _MOST_DRAWN // len(own))  # at once: all resamples of many values would take gigabytes
    for first in range(0, _RESAMPLES, rows):
        part = means[first : first + rows]
        part[:] = own[random.integers(0, len(own), (len(part), len(own)))].mean(axis=1)
    tail = (1.0 - _SHARE) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return float(low), float(high)


def t_quantile(freedom: int) -> float:
    """Return what Student's t exceeds in size with 5 %, for so many degrees of freedom.

    Raises
    ------
    InputError
        If SciPy, whose distribution it is, is not there.
    """
    try:
        from scipy.special import stdtrit
    except ImportError as error:
        raise InputError(f"interval: t needs SciPy: {error}; pip install 'mlsim[study]'") from error
    return float(stdtrit(freedom, 0.5 + _SHARE / 2.0))


def signed_rank_p(differences: Floats) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test; NaN where all differences are 0.

    Differences of 0 are left out (Wilcoxon 1945), equal ones share their ranks; the distribution is that of
    all signs being as likely, exact up to 200 differences.
    """
    differences = differences[differences != 0.0]
    n = len(differences)
    if not n:
        return _NAN
    _, inverse, counts = np.unique(np.abs(differences), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    doubled = (2 * last - counts + 1)[inverse]  # twice the mean rank, a whole number
    positive = int(doubled[differences > 0].sum())
    total = int(doubled.sum())
    least = min(positive, total - positive)
    if n > _MOST_EXACT:
        deviation = math.sqrt(float((doubled.astype(np.float64) ** 2).sum()) / 4.0)
        return math.erfc((total / 2.0 - least) / deviation / math.sqrt(2.0))
    ways = np.zeros(total + 1)
    ways[0] = 1.0
    for rank in doubled.tolist():
        shifted = np.zeros(total + 1)
        shifted[rank:] = ways[: total + 1 - rank]
        ways = (ways + shifted) / 2.0
    return min(1.0, 2.0 * float(ways[: least + 1].sum()))


def statistics_table(study: Study, rows: Sequence[StudyRow]) -> Table:
    """Lay out the statistics of every metric and combination; empty without repetitions."""
    place = next((n for n, axis in enumerate(study.axes) if axis.name == study.repetitions), None)
    if place is None:
        return [], []
    names = [axis.name for axis in study.axes if axis.name != study.repetitions]
    titles = ["metric", *names, "runs", "mean", "median", "low", "high"]
    if study.relative:
        titles += ["pairs", "difference", "difference low", "difference high", "p"]
    lines = []
    for title in study.metrics:
        groups: dict[Labels, dict[str, float]] = {}
        for row in rows:
            labels = labels_of(row)
            group = groups.setdefault(labels[:place] + labels[place + 1 :], {})
            group[labels[place]] = row.metrics[title]
        groups = {labels: trimmed(values, study.trim) for labels, values in groups.items()}
        for labels, values in groups.items():
            named = zip(names, labels, strict=True)
            other = tuple(study.relative.get(name, label) for name, label in named)
            compared = study.relative and other != labels
            found = spread_of(values, groups.get(other) if compared else None, study.interval)
            cells = [str(found.runs), *map(_number, (found.mean, found.median, found.low, found.high))]
            if study.relative:
                cells.append(str(found.pairs) if compared else "")
                cells += map(
                    _number, (found.difference, found.difference_low, found.difference_high, found.p)
                )
            lines.append([title, *labels, *cells])
    return titles, lines


def _number(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else ""
