"""The mean of the middle half of some times, and how sure means are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["mean_of_middle", "unsureness"]

_QUANTILE = 2.0
"""Of a standard error, for an interval of 95 %."""


def mean_of_middle(values: Sequence[float]) -> float:
    """Return the mean of the middle half of some values, one or more; of three the median."""
    cut = _cut(values)
    return float(np.mean(sorted(values)[cut : len(values) - cut]))


def unsureness(values: Sequence[float]) -> float:
    """Return half the width of the 95 % interval of the mean of all values, as a share of it.

    Parameters
    ----------
    values
        Independent, more than 0. Of fewer than four it is infinite.

    Notes
    -----
    The middle half alone does not tell how sure its own mean is: of times with two modes, most of a few
    repetitions may be of one, and all of their middle half.
    """
    if len(values) < 4:
        return math.inf
    return float(_QUANTILE * np.std(values, ddof=1) / (math.sqrt(len(values)) * np.mean(values)))


def _cut(values: Sequence[float]) -> int:
    return (len(values) + 1) // 4
