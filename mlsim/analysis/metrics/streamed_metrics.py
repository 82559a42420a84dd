"""Metrics of very long runs, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats
from mlsim.analysis.metrics.job_metrics import NAMES, PERCENTILES, Aggregate, aggregate
from mlsim.record import Jobs
from mlsim.record.table_blocks import are_many, blocks_of, is_long, value_blocks

Walk = Callable[[], Iterator[Floats]]

_DIGIT_BITS = 16
_DIGITS = 1 << _DIGIT_BITS
_SIGN = np.uint64(1 << 63)


def aggregate_jobs(jobs: Jobs, metric: Callable[[Jobs], Floats]) -> Aggregate:
    """Aggregate a metric that each job has one value of; NaN stands for an undefined value."""
    if not is_long(jobs):
        return aggregate(metric(jobs))
    return streamed_aggregate(lambda: (metric(block) for block in blocks_of(jobs)))


def aggregate_values(values: NDArray[Any]) -> Aggregate:
    """Aggregate a column of values; NaN stands for an undefined value."""
    if not are_many(values):
        return aggregate(values)
    return streamed_aggregate(lambda: (block.astype(np.float64) for block in value_blocks(values)))


def total(values: Floats) -> float:
    """Add up a column of values."""
    return sum((float(np.sum(block)) for block in value_blocks(values)), 0.0)


def streamed_aggregate(walk: Walk) -> Aggregate:
    """Aggregate values as :func:`mlsim.analysis.metrics.aggregate` does, over blocks that ``walk`` yields.

    ``walk`` is called up to six times.
    """
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
