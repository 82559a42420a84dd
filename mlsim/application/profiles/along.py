"""Costs that depend on the index in the loop alone: constant, increasing, decreasing."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats
from mlsim.application.profiles.request import Request
from mlsim.scenario import CostProfile

__all__ = ["costs", "line_of"]


def costs(request: Request) -> Floats:
    """Compute the costs of a profile of this family, float64[n] in s."""
    if request.config.profile is CostProfile.CONSTANT:
        return np.full(request.n, request.mean)
    first, last = _ends(request)
    middle = 0.5 * (first + last)
    # One iteration alone is in the middle, so that the mean does not depend on the length.
    line = np.linspace(first, last, request.n) if request.n > 1 else np.full(request.n, middle)
    return request.scaled(line, middle)


def line_of(request: Request) -> tuple[float, float]:
    """Return what the first and the last iteration cost, in s; those between are on a line."""
    if request.config.profile is CostProfile.CONSTANT:
        return request.mean, request.mean
    first, last = _ends(request)
    ends = request.scaled(np.array([first, last]), 0.5 * (first + last))
    return float(ends[0]), float(ends[1])


def _ends(request: Request) -> tuple[float, float]:
    falls = request.config.profile is CostProfile.DECREASING
    return (request.high, request.low) if falls else (request.low, request.high)
