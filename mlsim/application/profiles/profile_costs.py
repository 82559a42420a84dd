"""Profiles of iteration costs: their list, and costs drawn, linear in the index, or from a file."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from mlsim._runtime.arrays import Floats
from mlsim.application.profiles.cost_files import read_costs
from mlsim.errors import InputError
from mlsim.scenario.amount_types import Quantity
from mlsim.scenario.application_section import IterationsConfig
from mlsim.scenario.costs_section import PROFILE_KEYS, CostsConfig
from mlsim.scenario.words import CostProfile


@dataclass(frozen=True, slots=True)
class Request:
    """The costs of one loop's iterations."""

    config: CostsConfig  # section ``application.costs`` of the scenario
    n: int
    seed: int
    reference_speed: float  # FLOP/s that costs in FLOP are divided by
    path: Path | None = None  # of the file of costs; None: ``config.path``

    def seconds(self, amount: Quantity | None) -> float:
        """Convert a cost to seconds at the reference speed; 0 for none."""
        if amount is None:
            return 0.0
        return amount.value / self.reference_speed if amount.unit == "FLOP" else amount.value

    @property
    def mean(self) -> float:
        """Mean cost in s; 0 if not set. The next three likewise."""
        return self.seconds(self.config.mean)

    @property
    def std(self) -> float:
        """Standard deviation."""
        return self.seconds(self.config.std)

    @property
    def low(self) -> float:
        """Lowest cost."""
        return self.seconds(self.config.low)

    @property
    def high(self) -> float:
        """Highest cost."""
        return self.seconds(self.config.high)

    def scaled(self, costs: Floats, own_mean: float) -> Floats:
        """Scale costs of mean ``own_mean`` to the configured mean, if any."""
        return costs * (self.mean / own_mean) if self.config.mean is not None else costs

    def counted(self, counts: Floats) -> Floats:
        """Convert counts to costs: by the cost per count, or scaled to the mean, or 1 s per count."""
        if self.config.unit_cost is not None:
            return counts * self.seconds(self.config.unit_cost)
        return self.scaled(counts, float(counts.mean()))


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """One profile of iteration costs."""

    name: str
    formula: str  # of the cost of iteration k = 0 … N−1
    reference: str = ""  # empty for a plain formula

    @property
    def parameters(self) -> tuple[str, ...]:
        """Keys of ``application.costs``, besides ``calibrate``."""
        return tuple(key for key in PROFILE_KEYS[CostProfile(self.name)].possible if "calibrate" not in key)


PROFILES = (
    ProfileEntry(
        "job",
        "normal, cut at 0, with the job's own mean, run time·P/N, and σ = variation·mean; drawn for each job",
        "Eleliemy 2021, §3.4",
    ),
    ProfileEntry("constant", "mean"),
    ProfileEntry("uniform", "uniform from low to high"),
    ProfileEntry("normal", "normal, with values not above 0 drawn again"),
    ProfileEntry("exponential", "exponential"),
    ProfileEntry("gamma", "gamma with shape (mean/std)² and scale std²/mean"),
    ProfileEntry("lognormal", "exp of a normal with σ² = ln(1 + (std/mean)²) and μ = ln(mean) − σ²/2"),
    ProfileEntry("bimodal", "high with probability share, else low; around either normal with std, cut at 0"),
    ProfileEntry("increasing", "low + (high − low)·k/(N−1)"),
    ProfileEntry("decreasing", "high − (high − low)·k/(N−1)"),
    ProfileEntry("file", "the k-th number of a column of a .npy or .csv file, in s"),
    ProfileEntry(
        "mandelbrot",
        "steps of z ← z^exponent + c while fewer than limit and |z| < 2, for the c of pixel k; N = size²",
        "Mandelbrot 1980; Eleliemy 2021, Alg. 4.2",
    ),
    ProfileEntry(
        "psia",
        "points that fall into the spin image of point k, + scan_cost·points",
        "Johnson 1997; Eleliemy 2021, Alg. 4.1",
    ),
)
"""Every profile, in the order of :class:`mlsim.scenario.CostProfile`."""

Generator = np.random.Generator

DEFAULT_SIZE = 1152  # pixels (Eleliemy 2021, Table 4.1)


def image_size(costs: CostsConfig, iterations: IterationsConfig | None) -> int:
    """Return the width of the image [pixels]: ``size``, or the root of the number of iterations, or 1152."""
    if costs.parameters.size is not None:
        return costs.parameters.size
    if iterations is not None and iterations.count is not None:
        return math.isqrt(iterations.count)
    return DEFAULT_SIZE


def fixed_length(costs: CostsConfig, iterations: IterationsConfig | None) -> int | None:
    """Return the number of pixels of an image; None for other profiles."""
    return image_size(costs, iterations) ** 2 if costs.profile is CostProfile.MANDELBROT else None


def iteration_costs(request: Request) -> Floats:
    """Compute the cost of each iteration, float64[N] in s at the reference speed.

    N is ``request.n``, or the length of the file. Raises InputError if the file cannot be used.
    """
    match request.config.profile:
        case CostProfile.CONSTANT | CostProfile.INCREASING | CostProfile.DECREASING:
            return index_costs(request)
        case CostProfile.FILE:
            return _from_file(request)
        case CostProfile.MANDELBROT:
            from mlsim.application.profiles.counted_costs import mandelbrot_costs

            return mandelbrot_costs(request)
        case CostProfile.PSIA:
            from mlsim.application.profiles.counted_costs import psia_costs

            return psia_costs(request)
        case _:
            return drawn_costs(request)


def _from_file(request: Request) -> Floats:
    path = request.path or request.config.path or ""
    costs = read_costs(path, request.config.column)
    own_mean = float(costs.mean())
    if own_mean == 0.0 and request.config.mean is not None:
        raise InputError(
            f"{path}: all {len(costs)} costs are 0 and cannot be scaled to a mean of {request.mean} s; "
            "allowed: a file with costs, or no application.costs.mean"
        )
    return request.scaled(costs, own_mean)


_UNSIGNED = (1 << 64) - 1


def drawn_costs(request: Request) -> Floats:
    """Draw the costs of a random profile, float64[n] in s."""
    return _FAMILY[request.config.profile](np.random.default_rng(request.seed), request)


def job_costs(seed: int, job_id: int, mean: float, std: float, n: int) -> Floats:
    """Draw normal costs for one job, keyed by seed and job id (Eleliemy 2021, §3.4)."""
    key = np.random.SeedSequence(seed, spawn_key=(job_id & _UNSIGNED,))
    return truncated_normal(np.random.default_rng(key), mean, std, n)


def truncated_normal(generator: Generator, mean: ArrayLike, std: float, n: int) -> Floats:
    """Draw n values of a normal distribution (mean > 0, or one per value), redrawing those not above 0."""
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
    if std < 1e-17 * mean:  # below the rounding error of the mean, and the shape would overflow
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
    """Compute costs that are constant or linear in the index, float64[n] in s."""
    if request.config.profile is CostProfile.CONSTANT:
        return np.full(request.n, request.mean)
    first, last = _ends(request)
    middle = 0.5 * (first + last)
    # A single iteration is in the middle, so that the mean does not depend on the length.
    line = np.linspace(first, last, request.n) if request.n > 1 else np.full(request.n, middle)
    return request.scaled(line, middle)


def line_of(request: Request) -> tuple[float, float]:
    """Return the costs of the first and the last iteration, in s; those between are linear."""
    if request.config.profile is CostProfile.CONSTANT:
        return request.mean, request.mean
    first, last = _ends(request)
    ends = request.scaled(np.array([first, last]), 0.5 * (first + last))
    return float(ends[0]), float(ends[1])


def _ends(request: Request) -> tuple[float, float]:
    falls = request.config.profile is CostProfile.DECREASING
    return (request.high, request.low) if falls else (request.low, request.high)
