"""Iteration costs as prefix sums, or as linear functions of the index."""

from __future__ import annotations

import math
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mlsim._jit import kernel
from mlsim._runtime import shared_cache
from mlsim._runtime.arrays import Floats, Ints
from mlsim.application.profiles import profile_costs
from mlsim.application.profiles.profile_costs import Request
from mlsim.errors import InputError
from mlsim.scenario.application_section import IterationsConfig
from mlsim.scenario.costs_section import CostsConfig, has_linear_costs
from mlsim.scenario.words import Calibration, CostProfile

if TYPE_CHECKING:
    from mlsim.application.recorded_times import RecordedTimes


class CostProfiles:
    """The iteration costs of a scenario's jobs, by sections of the scenario.

    Profiles that do not depend on the job are computed once per length and limit, and shared: do not write
    into the arrays. Costs in FLOP are divided by ``reference_speed`` [FLOP/s]; ``path``: of the file of
    costs. ``iterations``: None where the profile sets them. Raises InputError if the file cannot be used.
    """

    def __init__(
        self,
        costs: CostsConfig,
        iterations: IterationsConfig | None,
        reference_speed: float,
        seed: int,
        path: Path | None = None,
    ) -> None:
        self._costs = costs
        self._iterations = iterations
        self._reference_speed = reference_speed
        self._seed = seed
        self._path = path
        self._shared: dict[tuple[int, int], Floats] = {}
        self.recorded: RecordedTimes | None = None  # of calibrate: recorded, which the first loop makes
        self._length = profile_costs.fixed_length(costs, iterations)
        if costs.profile is CostProfile.FILE:
            prefix = self._computed(0)
            self._length = len(prefix) - 1
            self._shared[self._length, -1] = prefix

    def iterations(self, pes: int, own: int = -1) -> int:
        """Return the number of iterations of a job's loop on ``pes`` PEs; ``own``: the job's, -1 for none."""
        if own > 0 and self._costs.profile is not CostProfile.FILE:
            return own
        if self._length is not None:
            return self._length
        chosen = self._iterations
        if chosen is not None and chosen.count is not None:
            return chosen.count
        per_pe = 1 if chosen is None or chosen.per_pe is None else chosen.per_pe
        return per_pe * pes

    def costs(
        self,
        job_id: int,
        pes: int,
        run_time: float,
        iterations: int = -1,
        limit: int = -1,
        each: bool = False,
    ) -> LoopCosts:
        """Return costs as :meth:`prefix` does, but three numbers for long linear loops unless ``each``."""
        n = self.iterations(pes, iterations)
        if each or not has_linear_costs(self._costs, n):
            return self.prefix(job_id, pes, run_time, iterations, limit)
        self._check(job_id, n, iterations)
        if self._costs.profile is CostProfile.JOB:
            return CostSums.linear(n, run_time * pes / n, 0.0)
        first, last = profile_costs.line_of(
            Request(self._costs, n, self._seed, self._reference_speed, self._path)
        )
        line = CostSums.linear(n, first, (last - first) / max(n - 1, 1))
        if self._costs.calibrate is Calibration.RUN_TIME and line.total > 0.0:
            return scaled_costs(line, run_time * pes / line.total)
        return line

    def prefix(self, job_id: int, pes: int, run_time: float, iterations: int = -1, limit: int = -1) -> Floats:
        """Return the prefix sums of a job's iteration costs, float64[N+1] in s at the reference speed.

        ``run_time`` is that in the log, in s; ``iterations`` and ``limit`` (steps per pixel) those of the
        job's own loop, -1 if the scenario sets them. Raises InputError if costs that are all zero are to be
        scaled to a run time, or the profile does not support the job's own loop.
        """
        n = self.iterations(pes, iterations)
        self._check(job_id, n, iterations)
        if self._costs.profile is CostProfile.JOB:
            mean = run_time * pes / max(n, 1)
            std = self._costs.variation * mean
            if std == 0.0:
                return _constant(n, mean)
            return prefix_sums(profile_costs.job_costs(self._seed, job_id, mean, std, n))
        key = (n, limit if self._costs.profile is CostProfile.MANDELBROT else -1)
        if key not in self._shared:
            self._shared[key] = self._computed(*key)
        prefix = self._shared[key]
        if self._costs.calibrate is Calibration.RUN_TIME:
            prefix = _calibrated(prefix, run_time * pes, job_id)
        return prefix

    def _check(self, job_id: int, n: int, own: int) -> None:
        """Refuse a job's own number of iterations that the profile does not support."""
        if own <= 0:
            return
        profile = self._costs.profile
        if own != n:
            allowed = f"{n}, as many as the file of costs has"
        elif profile is CostProfile.MANDELBROT and math.isqrt(own) ** 2 != own:
            allowed = "the square of an image's width, such as 262144"
        else:
            return
        raise InputError(
            f"job {job_id}: loop_iterations {own}, where application.costs.profile is {profile}; "
            f"allowed: {allowed}"
        )

    def _computed(self, n: int, limit: int = -1) -> Floats:
        """Compute the shared prefix sums of that length and limit."""
        costs = self._costs
        if limit >= 0:
            parameters = costs.parameters.model_copy(update={"limit": limit})
            costs = costs.model_copy(update={"parameters": parameters})
        request = Request(costs, n, self._seed, self._reference_speed, self._path)
        if n == 0 and self._costs.profile is not CostProfile.FILE:
            return np.zeros(1)
        if self._costs.profile is CostProfile.CONSTANT:
            return _constant(n, request.mean)

        def make() -> tuple[Floats, int]:
            prefix = prefix_sums(profile_costs.iteration_costs(request))
            return prefix, prefix.nbytes

        key = _shared_key(request)
        return make()[0] if key is None else shared_cache.shared(key, make)


def _shared_key(request: Request) -> Hashable | None:
    """Return the key under which runs share the costs of a request; None where they do not."""
    if not shared_cache.is_sharing():
        return None
    identity = None
    if request.config.profile is CostProfile.FILE:
        identity = shared_cache.file_identity(Path(request.path or request.config.path or ""))
        if identity is None:
            return None
    seed = None if request.config.profile in _WITHOUT_SEED else request.seed
    return "costs", identity, request.config, request.n, seed, request.reference_speed


_WITHOUT_SEED = (
    *(CostProfile.CONSTANT, CostProfile.INCREASING, CostProfile.DECREASING),
    *(CostProfile.FILE, CostProfile.MANDELBROT, CostProfile.PSIA),
)
"""Profiles that do not depend on the scenario's seed."""


def _constant(n: int, cost: float) -> Floats:
    # Products instead of a running sum: no rounding piles up.
    return np.arange(n + 1, dtype=np.float64) * cost


def _calibrated(prefix: Floats, work: float, job_id: int) -> Floats:
    """Scale costs to a total of ``work`` PE-seconds."""
    if prefix[-1] == 0.0 and work > 0.0 and len(prefix) > 1:
        raise InputError(
            f"application.costs.calibrate: run-time: job {job_id} ran for {work} PE-seconds, but all "
            f"{len(prefix) - 1} iterations cost 0; allowed: a profile with costs, or calibrate: none"
        )
    return prefix * (work / prefix[-1]) if prefix[-1] > 0.0 else prefix


def prefix_sums(costs: Floats) -> Floats:
    """Sum up costs: float64[N] to float64[N+1], beginning with 0."""
    prefix = np.zeros(len(costs) + 1)
    np.cumsum(costs, out=prefix[1:])
    return prefix


class CostSums(NamedTuple):
    """Prefix sums of a loop's iteration costs, per block of iterations of equal cost."""

    n: int  # iterations
    block: int  # iterations per block (the last may have fewer); 1: single iterations; 0: costs are linear
    # float64[ceil(n / block) + 1]: cost of the iterations before each block, and of all, in s at speed 1;
    # linear costs as in mlsim.techniques.pe_statistics.
    sums: Floats

    @staticmethod
    def of_each(prefix: Floats) -> CostSums:
        """Wrap prefix sums of single iterations, float64[N+1]."""
        return CostSums(len(prefix) - 1, 1, prefix)

    @staticmethod
    def linear(n: int, first: float, growth: float) -> CostSums:
        """Return costs of ``first + growth·k`` (s at speed 1) for iteration k."""
        return CostSums(n, 0, np.array([-1.0, first, growth]))

    @property
    def total(self) -> float:
        """Cost of all iterations, in s at speed 1."""
        return float(self.sums[-1]) if self.block else float(self.between(np.zeros(1), np.array([self.n]))[0])

    def between(self, first: Floats | Ints, size: Floats | Ints) -> Floats:
        """Return the cost of ranges of iterations, in s at speed 1; blocks must have one iteration."""
        if self.block:
            costs: Floats = self.sums[first + size] - self.sums[first]
            return costs
        count, begin = np.asarray(size, np.float64), np.asarray(first, np.float64)
        middle = self.sums[1] + self.sums[2] * (begin + 0.5 * (count - 1.0))
        return np.asarray(np.maximum(count * middle, 0.0), np.float64)


LoopCosts = Floats | CostSums
"""Prefix sums of single iterations, float64[N+1] in s at speed 1, or :class:`CostSums`."""


def scaled_costs(costs: LoopCosts, factor: float) -> LoopCosts:
    """Return all costs of a loop multiplied by a factor."""
    if not isinstance(costs, CostSums):
        return costs * factor
    if costs.block:
        return costs._replace(sums=costs.sums * factor)
    return CostSums.linear(costs.n, costs.sums[1] * factor, costs.sums[2] * factor)


def cost_sums(costs: LoopCosts) -> CostSums:
    """Return the costs of a loop as :class:`CostSums`."""
    return costs if isinstance(costs, CostSums) else CostSums.of_each(costs)


@kernel
def sums_of_each(block: int, sums: Floats, prefix: Floats) -> None:
    """Write the prefix sums of single iterations, float64[N+1], from those of blocks."""
    n = len(prefix) - 1
    prefix[0] = 0.0
    count = np.arange(1.0, block + 1.0)  # as numbers of their own: so the loop is compiled to vectors
    for number in range(len(sums) - 1):
        first = number * block + 1
        inside = prefix[first : min(first + block, n + 1)]
        total = sums[number]
        cost = (sums[number + 1] - total) / len(inside)
        for k in range(len(inside)):
            inside[k] = total + count[k] * cost
