"""Costs of a requested profile: which module computes which."""

from __future__ import annotations

import math

from mlsim._arrays import Floats
from mlsim.application.profiles import distributions
from mlsim.application.profiles.cost_files import read_costs
from mlsim.application.profiles.profile_requests import Request
from mlsim.errors import InputError
from mlsim.scenario import CostProfile, CostsConfig, IterationsConfig

DEFAULT_SIZE = 1152
"""Pixels (Eleliemy 2021, Table 4.1)."""


def image_size(costs: CostsConfig, iterations: IterationsConfig | None) -> int:
    """Return the width of the image [pixels]: ``size``, or the root of the number of iterations, or 1152."""
    if costs.parameters.size is not None:
        return costs.parameters.size
    if iterations is not None and iterations.count is not None:
        return math.isqrt(iterations.count)
    return DEFAULT_SIZE


def fixed_length(costs: CostsConfig, iterations: IterationsConfig | None) -> int | None:
    """Return the number of iterations of an image; None for profiles of any length, and for files."""
    return image_size(costs, iterations) ** 2 if costs.profile is CostProfile.MANDELBROT else None


def iteration_costs(request: Request) -> Floats:
    """Compute what each iteration of a loop costs, in s at the reference speed.

    Parameters
    ----------
    request
        Any profile but ``job``, whose costs depend on the job.

    Returns
    -------
    float64[N]
        The same for the same request. N is ``request.n``, but for a file its length.

    Raises
    ------
    InputError
        If a file of costs cannot be used.
    """
    match request.config.profile:
        case CostProfile.CONSTANT | CostProfile.INCREASING | CostProfile.DECREASING:
            return distributions.index_costs(request)
        case CostProfile.FILE:
            return _from_file(request)
        case CostProfile.MANDELBROT:
            from mlsim.application.profiles import mandelbrot_costs

            return mandelbrot_costs.costs(request)
        case CostProfile.PSIA:
            from mlsim.application.profiles import psia_costs

            return psia_costs.costs(request)
        case _:
            return distributions.drawn_costs(request)


def _from_file(request: Request) -> Floats:
    path = request.path or request.config.path or ""
    costs = read_costs(path)
    own_mean = float(costs.mean())
    if own_mean == 0.0 and request.config.mean is not None:
        raise InputError(
            f"{path}: all {len(costs)} costs are 0 and cannot be scaled to a mean of {request.mean} s; "
            "allowed: a file with costs, or no application.costs.mean"
        )
    return request.scaled(costs, own_mean)
