"""Metrics of jobs: aggregates, in bounded memory for very long runs; distributions; accuracy of estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlsim._runtime.arrays import Floats
from mlsim.record import Jobs, JobState, derived_times
from mlsim.record.table_blocks import are_many, blocks_of, is_long, value_blocks

_FEITELSON = "Feitelson and Rudolph 1998"


@dataclass(frozen=True, slots=True)
class JobMetric:
    """A metric that each job has one value of; less is better for all of them."""

    title: str
    unit: str  # "s", or "1" for a ratio
    formula: str  # in the symbols of the page on metrics
    source: str
    values: Callable[[Jobs, float], Floats]  # per job, of the jobs and τ (s); NaN if it is undefined


def _without_tau(values: Callable[[Jobs], Floats]) -> Callable[[Jobs, float], Floats]:
    return lambda jobs, _: values(jobs)


_PER_PROCESSOR = "per-processor bounded slowdown", "1", "max((w + p)/(q max(p, τ)), 1)"
_ZRIGUI = "Zrigui 2021, Eq. 3.4; Zotkin and Keleher 1999"
JOB_METRICS: dict[str, JobMetric] = {
    "wait_time": JobMetric(
        "wait", "s", "w", "Zrigui 2021, Eq. 3.1", _without_tau(derived_times.wait_time)
    ),
    "response_time": JobMetric(
        "response", "s", "C - r", _FEITELSON, _without_tau(derived_times.response_time)
    ),
    "slowdown": JobMetric(
        "slowdown", "1", "(w + p)/p, over jobs with p > 0", _FEITELSON, _without_tau(derived_times.slowdown)
    ),
    "bounded_slowdown": JobMetric(
        "bounded slowdown", "1", "max((w + p)/max(p, τ), 1)", "Zrigui 2021, Eq. 3.3",
        derived_times.bounded_slowdown,
    ),
    "per_processor_bounded_slowdown": JobMetric(
        *_PER_PROCESSOR, _ZRIGUI, derived_times.per_processor_bounded_slowdown
    ),
}  # fmt: skip
"""By their keys in ``summary.json``; summaries, breakdowns, weeks and the page of metrics follow."""


def backfilled_share(jobs: Jobs) -> float | None:
    """Return the share of started jobs that were backfilled, in [0, 1] (Zrigui 2021, §4.3.4, counts them)."""
    started = backfilled = 0
    for block in blocks_of(jobs):
        started += int(np.count_nonzero(~np.isnan(block.start_time)))
        backfilled += int(np.count_nonzero(block.backfilled))
    return backfilled / started if started else None


Aggregate = dict[str, float | None]
"""``mean``, ``std``, ``median``, ``p90``, ``p99``, ``max``, in the values' unit; None without values."""

NAMES = ("mean", "std", "median", "p90", "p99", "max")
PERCENTILES = (50.0, 90.0, 99.0)


def aggregate(values: ArrayLike) -> Aggregate:
    """Return mean, population standard deviation, median, 90th and 99th percentile and maximum.

    Percentiles interpolate linearly between the two nearest values; NaN is left out.
    """
    numbers = np.asarray(values, np.float64)
    defined = numbers[~np.isnan(numbers)]
    if not len(defined):
        return dict.fromkeys(NAMES)
    median, p90, p99 = np.percentile(defined, PERCENTILES)
    results = (defined.mean(), defined.std(), median, p90, p99, defined.max())
    return {name: float(result) for name, result in zip(NAMES, results, strict=True)}


SLOWDOWN_BINS = ("1", "(1,10]", "(10,100]", ">100")
"""Jobs that never waited, that waited a little, and that were scheduled badly (Zrigui 2021, Fig. 4.3)."""


def slowdown_histogram(values: NDArray[np.float64]) -> dict[str, int]:
    """Count the jobs whose slowdown is 1, in (1, 10], in (10, 100], above 100; NaN is in no bin."""
    defined = values[~np.isnan(values)]
    places = np.searchsorted([1.0, 10.0, 100.0], defined, side="left")
    return dict(zip(SLOWDOWN_BINS, np.bincount(places, minlength=4).tolist(), strict=True))


WITHIN = 0.25
"""Largest distance of the accuracy A from 1 that counts as near (Galleguillos 2020, §4.1.2)."""


def accuracy(predicted: Floats, actual: Floats) -> dict[str, Any]:
    """Compare estimates, above 0, with run times [s], one value per job each.

    ``mae`` is the mean of abs(predicted - actual) [s]; ``under`` and ``over`` have the ``share`` of estimates
    that are too short or too long, and their ``mean`` error [s]; ``within_25``: share of the jobs with
    0.75 <= A <= 1.25, where A = actual / predicted (Galleguillos 2020, §4.1.2). None without jobs.
    """
    return _accuracy([(predicted, actual)])


def _accuracy(blocks: Iterable[tuple[Floats, Floats]]) -> dict[str, Any]:
    """Return what :func:`accuracy` does, of estimates and run times of some jobs after the other."""
    sums = np.zeros(8)
    for predicted, actual in blocks:
        error = predicted - actual
        under, over, is_near = error < 0, error > 0, np.abs(actual / predicted - 1.0) <= WITHIN
        counts = [len(error), *map(np.count_nonzero, (under, over, error == 0, is_near))]
        sums += [*counts, np.sum(np.abs(error)), np.sum(-error[under]), np.sum(error[over])]
    jobs, n_under, n_over, exact, near, errors, too_short, too_long = sums.tolist()
    return {
        "jobs": int(jobs),
        "mae": _mean(errors, jobs),
        "under": {"share": _mean(n_under, jobs), "mean": _mean(too_short, n_under)},
        "over": {"share": _mean(n_over, jobs), "mean": _mean(too_long, n_over)},
        "exact": _mean(exact, jobs),
        "within_25": _mean(near, jobs),
    }


def estimate_metrics(jobs: Jobs) -> dict[str, Any]:
    """Compare predictions, and walltimes, with the run times of a run.

    Over jobs that completed or were killed; how long a failed job would have run is not known.
    """

    def errors(estimate: str) -> Iterator[tuple[Floats, Floats]]:
        for block in blocks_of(jobs):
            ended = (block.state == JobState.COMPLETED) | (block.state == JobState.KILLED)
            yield getattr(block, estimate)[ended], derived_times.run_time(block)[ended]

    return {estimate: _accuracy(errors(estimate)) for estimate in ("prediction", "walltime")}


def _mean(total: float, count: float) -> float | None:
    return total / count if count else None


Walk = Callable[[], Iterator[Floats]]

_DIGIT_BITS = 16
_DIGITS = 1 << _DIGIT_BITS
_SIGN = np.uint64(1 << 63)


def aggregate_jobs(jobs: Jobs, metric: Callable[[Jobs], Floats]) -> Aggregate:
    """Aggregate a metric with one value per job; NaN marks an undefined value."""
    if not is_long(jobs):
        return aggregate(metric(jobs))
    return streamed_aggregate(lambda: (metric(block) for block in blocks_of(jobs)))


def aggregate_values(values: NDArray[Any]) -> Aggregate:
    """Aggregate a column of values; NaN marks an undefined value."""
    if not are_many(values):
        return aggregate(values)
    return streamed_aggregate(lambda: (block.astype(np.float64) for block in value_blocks(values)))


def total(values: Floats) -> float:
    """Add up a column of values."""
    return sum((float(np.sum(block)) for block in value_blocks(values)), 0.0)


def streamed_aggregate(walk: Walk) -> Aggregate:
    """Aggregate blocks of values as :func:`aggregate` does; ``walk`` is called up to six times."""
    count, total, largest = 0, 0.0, -np.inf
    for values in _defined(walk):
        count += len(values)
        total += float(np.sum(values))
        largest = max(largest, float(np.max(values)))
    if not count:
        return dict.fromkeys(NAMES)
    mean = total / count
    squares = sum(float(np.sum((values - mean) ** 2)) for values in _defined(walk))
    median, p90, p99 = percentiles(walk, count, PERCENTILES)
    results = (mean, (squares / count) ** 0.5, median, p90, p99, largest)
    return dict(zip(NAMES, results, strict=True))


def percentiles(walk: Walk, count: int, wanted: tuple[float, ...]) -> list[float]:
    """Return percentiles of ``count`` values, interpolated linearly between the two nearest."""
    places = [(count - 1) * (percent / 100.0) for percent in wanted]
    ranks = sorted({int(place) for place in places} | {min(int(place) + 1, count - 1) for place in places})
    found = dict(zip(ranks, _of_ranks(walk, ranks), strict=True))
    results = []
    for place in places:
        low, high = found[int(place)], found[min(int(place) + 1, count - 1)]
        part = place - int(place)
        # The two forms that NumPy uses, each exact at its end.
        results.append(low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part))
    return results


def _of_ranks(walk: Walk, ranks: list[int]) -> list[float]:
    """Return the values of these ranks (0 is the smallest), by radix selection on their bits.

    A walk counts the next 16 bits of the values that begin like one that is looked for.
    """
    prefixes = [0] * len(ranks)
    rest = list(ranks)
    for digit in range(64 // _DIGIT_BITS):
        shift = np.uint64(64 - _DIGIT_BITS * (digit + 1))
        counts = {prefix: np.zeros(_DIGITS, np.int64) for prefix in set(prefixes)}
        for values in _defined(walk):
            heads = _keys(values) >> shift
            for prefix, histogram in counts.items():
                begin = np.uint64(prefix << _DIGIT_BITS)
                alike = heads[(heads >= begin) & (heads <= begin + np.uint64(_DIGITS - 1))]
                histogram += np.bincount((alike - begin).astype(np.int64), minlength=_DIGITS)
        for k, prefix in enumerate(prefixes):
            below = np.cumsum(counts[prefix])
            next_bits = int(np.searchsorted(below, rest[k], side="right"))
            rest[k] -= int(below[next_bits - 1]) if next_bits else 0
            prefixes[k] = (prefix << _DIGIT_BITS) | next_bits
    found: list[float] = _values(np.array(prefixes, np.uint64)).tolist()
    return found


def _keys(values: Floats) -> NDArray[np.uint64]:
    """Return integers in the same order as the values."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _values(keys: NDArray[np.uint64]) -> Floats:
    return np.where(keys & _SIGN, keys & ~_SIGN, ~keys).view(np.float64)


def _defined(walk: Walk) -> Iterator[Floats]:
    for values in walk():
        kept = values[~np.isnan(values)]
        if len(kept):
            yield kept
