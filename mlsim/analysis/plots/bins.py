"""Step functions at the resolution of a picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mlsim._arrays import Floats

__all__ = ["binned_average"]


_SLICE = 1 << 16
"""Intervals handled at a time: bounds the memory."""


def binned_average(
    begin: Floats, end: Floats, weight: ArrayLike, span: tuple[float, float], bins: int
) -> Floats:
    """Sum the weights of the intervals that are open, averaged over each of some equal bins.

    Exact: an interval counts in a bin by the part of it that lies inside. Takes time in proportion to
    intervals and bins, and no sorting.

    Parameters
    ----------
    begin, end
        Interval bounds in seconds; those with a NaN bound count nowhere.
    weight
        What an open interval adds: one number for all, or one an interval.
    span
        The first bin's begin and the last bin's end.
    bins
        How many bins.
    """
    weights = np.broadcast_to(np.asarray(weight, np.float64), begin.shape)
    width = (span[1] - span[0]) / bins
    inside, later = np.zeros(bins + 1), np.zeros(bins + 1)
    for at in range(0, len(begin), _SLICE):
        part = slice(at, at + _SLICE)
        known = ~np.isnan(begin[part] + end[part])
        for sign, times in ((1.0, begin[part][known]), (-1.0, end[part][known])):
            _add_steps(inside, later, (times - span[0]) / width, sign * weights[part][known])
    averages: Floats = inside[:bins] + np.concatenate([[0.0], np.cumsum(later)[: bins - 1]])
    return averages


def _add_steps(inside: Floats, later: Floats, position: Floats, height: Floats) -> None:
    """Add steps at positions in bins: their share of their own bin, and their height to later bins."""
    position = np.clip(position, 0, len(inside) - 1)
    own = position.astype(np.int64)
    inside += np.bincount(own, weights=height * (own + 1 - position), minlength=len(inside))
    later += np.bincount(own, weights=height, minlength=len(later))
