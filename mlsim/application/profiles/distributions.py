"""Costs drawn from distributions, or linear in the index."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from mlsim._arrays import Floats
from mlsim.application.profiles.profile_requests import Request
from mlsim.scenario import CostProfile

Generator = np.random.Generator

_UNSIGNED = (1 << 64) - 1


def drawn_costs(request: Request) -> Floats:
    """Draw the costs of a profile of this family, float64[n] in s."""
    return _FAMILY[request.config.profile](np.random.default_rng(request.seed), request)


def job_costs(seed: int, job_id: int, mean: float, std: float, n: int) -> Floats:
    """Draw normal costs for one job, keyed by seed and job id (Eleliemy 2021, §3.4)."""
    key = np.random.SeedSequence(seed, spawn_key=(job_id & _UNSIGNED,))
    return truncated_normal(np.random.default_rng(key), mean, std, n)


def truncated_normal(generator: Generator, mean: ArrayLike, std: float, n: int) -> Floats:
    """Draw from a normal distribution, drawing again whatever is not above zero.

    Parameters
    ----------
    generator
        Source of the random numbers.
    mean, std
        Of the distribution before it is cut; mean > 0, or one mean for each, std >= 0.
    n
        How many.
    """
    means = np.broadcast_to(np.asarray(mean, np.float64), n)
    values: Floats = generator.normal(means, std)
    again = np.flatnonzero(values <= 0.0)
    while len(again):
        values[again] = generator.normal(means[again], std)
        again = again[values[again] <= 0.0]
    return values


def _uniform(generator: Generator, request: Request) -> Floats:
    drawn = generator.uniform(request.low, request.high, request.n)
    return request.scaled(drawn, 0.5 * (request.low + request.high))


def _normal(generator: Generator, request: Request) -> Floats:
    return truncated_normal(generator, request.mean, request.std, request.n)


def _exponential(generator: Generator, request: Request) -> Floats:
    return generator.exponential(request.mean, request.n)


def _gamma(generator: Generator, request: Request) -> Floats:
    mean, std = request.mean, request.std
    if std < 1e-17 * mean:  # no two numbers near the mean are so close, and the shape would overflow
        return np.full(request.n, mean)
    return generator.gamma((mean / std) ** 2, std * (std / mean), request.n)


def _lognormal(generator: Generator, request: Request) -> Floats:
    mean, variance = request.mean, math.log1p((request.std / request.mean) ** 2)
    return generator.lognormal(math.log(mean) - 0.5 * variance, math.sqrt(variance), request.n)


def _bimodal(generator: Generator, request: Request) -> Floats:
    share = request.config.share
    modes = np.where(generator.random(request.n) < share, request.high, request.low)
    drawn = modes
    if request.std > 0.0:
        drawn = truncated_normal(generator, modes, request.std, request.n)
    return request.scaled(drawn, share * request.high + (1.0 - share) * request.low)


_FAMILY: dict[CostProfile, Callable[[Generator, Request], Floats]] = {
    CostProfile.UNIFORM: _uniform,
    CostProfile.NORMAL: _normal,
    CostProfile.EXPONENTIAL: _exponential,
    CostProfile.GAMMA: _gamma,
    CostProfile.LOGNORMAL: _lognormal,
    CostProfile.BIMODAL: _bimodal,
}


def index_costs(request: Request) -> Floats:
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
