"""The mean of the middle half of some times, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["mean_of_middle", "unsureness_of_middle"]

_QUANTILE = 2.0
"""Of a standard error, for an interval of 95 %."""


def mean_of_middle(values: Sequence[float]) -> float:
    """Return the mean of the middle half of some values, one or more; of three the median."""
    cut = _cut(values)
    return float(np.mean(sorted(values)[cut : len(values) - cut]))


def unsureness_of_middle(values: Sequence[float]) -> float:
    """Return half the width of the 95 % interval of :func:`mean_of_middle`, as a share of that.

    Parameters
    ----------
    values
        Independent, more than 0. Of fewer than four it is infinite.

    Notes
    -----
    The standard error of a trimmed mean is that of the Winsorized values, as a share of what is not cut
    (Tukey and McLaughlin 1963).
    """
    if len(values) < 4:
        return math.inf
    cut, ordered = _cut(values), np.sort(values)
    winsorized = np.clip(ordered, ordered[cut], ordered[len(values) - 1 - cut])
    kept = 1.0 - 2.0 * cut / len(values)
    error = float(winsorized.std(ddof=1)) / (kept * math.sqrt(len(values)))
    return _QUANTILE * error / mean_of_middle(values)


def _cut(values: Sequence[float]) -> int:
    return (len(values) + 1) // 4
