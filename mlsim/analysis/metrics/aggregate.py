"""Aggregates of a column: mean, standard deviation, percentiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["NAMES", "PERCENTILES", "Aggregate", "aggregate"]

Aggregate = dict[str, float | None]
"""``mean``, ``std``, ``median``, ``p90``, ``p99``, ``max``, in the values' unit; None without values."""

NAMES = ("mean", "std", "median", "p90", "p99", "max")
PERCENTILES = (50.0, 90.0, 99.0)


def aggregate(values: ArrayLike) -> Aggregate:
    """Return mean, population standard deviation, median, 90th and 99th percentile and maximum.

    Percentiles interpolate linearly between the two nearest values.

    Parameters
    ----------
    values
        Numbers; NaN stands for an undefined value and is left out.
    """
    numbers = np.asarray(values, np.float64)
    defined = numbers[~np.isnan(numbers)]
    if not len(defined):
        return dict.fromkeys(NAMES)
    median, p90, p99 = np.percentile(defined, PERCENTILES)
    results = (defined.mean(), defined.std(), median, p90, p99, defined.max())
    return {name: float(result) for name, result in zip(NAMES, results, strict=True)}
