"""Costs that depend on the index in the loop alone: constant, increasing, decreasing."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats
from mlsim.application.profiles.request import Request
from mlsim.scenario import CostProfile

__all__ = ["costs"]


def costs(request: Request) -> Floats:
    """Compute the costs of a profile of this family, float64[n] in s."""
    if request.config.profile is CostProfile.CONSTANT:
        return np.full(request.n, request.mean)
    first, last = request.low, request.high
    if request.config.profile is CostProfile.DECREASING:
        first, last = last, first
    middle = 0.5 * (first + last)
    # One iteration alone is in the middle, so that the mean does not depend on the length.
    line = np.linspace(first, last, request.n) if request.n > 1 else np.full(request.n, middle)
    return request.scaled(line, middle)
