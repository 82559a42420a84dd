"""Iteration costs under which loops take the recorded run times of their jobs."""

import hashlib
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from mlsim._runtime import shared_cache
from mlsim._runtime.arrays import Floats, Ints
from mlsim.application.iteration_costs import LoopCosts, cost_sums, scaled_costs
from mlsim.application.loop_outcome import ChunkRows, LoopOutcome
from mlsim.application.loop_simulation import simulate
from mlsim.errors import InputError
from mlsim.scenario import ApplicationConfig
from mlsim.scenario.words import ExecutionModel, LockOrder, MasterRole, Technique

TOLERANCE = 1e-9
"""Largest difference of a loop's time from the recorded run time, as a share of it, that counts as none."""
_SOUGHT = 1e-12  # difference at which a search ends; it is content with TOLERANCE
_MOST_TRIALS = 100  # simulations of one search
_SECANTS = 12  # simulations after which intervals are only halved
_MOST_KEPT = 200_000  # factors that the runs of a study share
_KEPT_BYTES = 32_000_000  # of them
_TRIPS = 8  # messages, one after another, of a PE that gets one chunk under dca, and then none
_UNCHARGED = (
    "message_size",
    "lock_retry",
    "parameters",
)  # times and sizes of ExecutionConfig that cost nothing alone

TOO_SHORT = "shorter_than_scheduling"
"""Note: jobs whose recorded run time is less than the scheduling of their loop takes without any work."""
NO_SCALE = "no_exact_costs"
"""Note: jobs whose loop jumps over the recorded run time at some scale of its costs, and ends near it."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The PEs of a loop, as ``simulate`` takes them."""

    node_of_pe: Ints
    latency: Floats
    intra_latency: float


class RecordedTimes:
    """Scales the costs of a scenario's loops so that these take the recorded run times of their jobs."""

    def __init__(self, application: ApplicationConfig) -> None:
        self._loop = loop = application.recorded()
        # One step stands for all unless they differ: PEs start up once, and AWF learns from step to step.
        differ = loop.technique == Technique("AWF") or loop.execution.parameters.start_up > 0.0
        self._time_steps = loop.time_steps if differ else 1
        self._is_free = _is_free(loop)
        self._noted: dict[str, set[int]] = {}
        # Shared by the runs of a study; costs and seeds are in the keys of the mapping.
        key = "recorded times", loop.model_copy(update={"costs": None})
        self._factors: dict[Hashable, tuple[float, str]] = shared_cache.shared(key, lambda: ({}, _KEPT_BYTES))

    @property
    def notes(self) -> dict[str, int]:
        """The number of jobs whose loop cannot take its recorded run time, by reason."""
        return {note: len(self._noted[note]) for note in sorted(self._noted)}

    def has_note(self, job_id: int) -> bool:
        """Whether the loop of a job cannot take its recorded run time."""
        return any(job_id in noted for noted in self._noted.values())

    def scaled(
        self, job_id: int, costs: LoopCosts, run_time: float, placement: Placement, seed: int
    ) -> LoopCosts:
        """Return costs under which the recorded loop of a job, of one time step, takes ``run_time`` [s].

        Where scheduling alone takes longer, all iterations cost 0. ``seed``: of the job's random numbers.
        """
        total = cost_sums(costs).total
        if total <= 0.0 and run_time > 0.0 and cost_sums(costs).n > 0:
            raise InputError(
                f"application.costs.calibrate: recorded: job {job_id} ran for {run_time} s, but all "
                f"{cost_sums(costs).n} iterations cost 0; allowed: a profile with costs, or calibrate: none"
            )
        if total <= 0.0:
            return costs
        found = self._static_factor(costs, run_time, placement)
        factor, note = found or self._searched_factor(job_id, costs, run_time, placement, seed)
        if note:
            self._noted.setdefault(note, set()).add(job_id)
        return scaled_costs(costs, factor)

    def _static_factor(
        self, costs: LoopCosts, run_time: float, placement: Placement
    ) -> tuple[float, str] | None:
        """Return the factor of costs under STATIC without contention, and a note; None: it must be sought.

        Each PE ends when its part has been executed, and after the messages for it and for no further one.
        """
        loop, sums, latency = self._loop, cost_sums(costs), placement.latency
        is_dca, execution = loop.execution.model is ExecutionModel.DCA, loop.execution
        works = execution.master is not MasterRole.DEDICATED or len(latency) == 1
        at_once = execution.model is ExecutionModel.CCA and works and not latency.any()
        if loop.technique != Technique("STATIC") or not self._is_free or not (is_dca or at_once):
            return None
        size = max(-(-sums.n // len(latency)), min(loop.min_chunk, sums.n))
        number = np.minimum(np.arange(len(latency), dtype=np.int64), sums.n // size + 1)
        first = np.minimum(number * size, sums.n)
        work = sums.between(first, np.minimum(size, sums.n - first))
        rest = run_time - np.where(first < sums.n, _TRIPS, _TRIPS / 2) * latency
        if (rest < 0.0).any():
            return 0.0, TOO_SHORT
        return float((rest[work > 0.0] / work[work > 0.0]).min()), ""

    def _searched_factor(
        self, job_id: int, costs: LoopCosts, run_time: float, placement: Placement, seed: int
    ) -> tuple[float, str]:
        """Return the factor of a job's costs, and a note if it is not exact; known ones are not sought."""
        sums = cost_sums(costs)
        digest = hashlib.blake2b(sums.sums.tobytes(), digest_size=16)
        digest.update(placement.latency.tobytes() + placement.node_of_pe.tobytes())
        key = digest.digest(), sums.n, run_time, placement.intra_latency, seed
        found = self._factors.get(key)
        if found is None:
            try:
                found = factor_for(
                    partial(self._end, costs, placement, seed),
                    run_time * self._time_steps,
                    run_time * len(placement.latency) / sums.total,
                )
            except InputError as error:
                raise InputError(f"job {job_id}, application.costs.calibrate_to: {error}") from error
            if shared_cache.is_sharing() and len(self._factors) < _MOST_KEPT:
                self._factors[key] = found
        return found

    def _end(self, costs: LoopCosts, placement: Placement, seed: int, factor: float) -> float:
        """Return when the recorded loop ends [s] if its costs are multiplied by a factor."""
        loop = self._loop
        outcome = simulate(
            *(scaled_costs(costs, factor), np.ones(len(placement.latency)), placement.latency),
            *(loop.technique, loop.execution),
            min_chunk=loop.min_chunk,
            parameters=loop.parameters,
            seed=seed,
            time_steps=self._time_steps,
            node_of_pe=placement.node_of_pe,
            intra_latency=placement.intra_latency,
        )
        return float(outcome.notified_at.max())


def _is_free(loop: ApplicationConfig) -> bool:
    """Whether scheduling takes no time by itself, whatever costs ``execution`` has."""
    execution = loop.execution
    charged = (
        value
        for name, value in (*execution, *execution.parameters)
        if name not in _UNCHARGED and not isinstance(value, int | str)  # numbers of iterations, and words
    )
    return execution.lock is LockOrder.FIFO and not any(charged)


def factor_for(end_of: Callable[[float], float], target: float, first: float) -> tuple[float, str]:
    """Return the factor of costs under which a loop ends at ``target`` [s], and a note if there is none.

    ``end_of`` returns the end for a factor. It rises with the factor on the whole, but may jump, as other
    PEs come first: the search keeps an interval at whose begin the loop ends earlier and at whose end it
    ends later than wanted, divides it by secants, and in halves where these do not help. An interval
    that has no number left in it holds a jump. ``first`` is the first factor that is tried.
    """
    if target <= 0.0 or first <= 0.0:
        return (0.0, TOO_SHORT) if end_of(0.0) > target else (0.0, "")
    search = _Search(end_of, target)
    search.tries(first)
    while search.trials < _MOST_TRIALS and (factor := search.next_factor()) is not None:
        search.tries(factor)
    difference, factor = search.best
    if factor == 0.0 and difference > TOLERANCE:
        return 0.0, TOO_SHORT
    return factor, "" if difference <= TOLERANCE else NO_SCALE


class _Point(NamedTuple):
    """A factor that was tried, and the difference of the loop's end from the wanted one, as a share of it."""

    factor: float
    difference: float


class _Search:
    """The state of a search: the closest factors below and above, the last two, and the best one."""

    def __init__(self, end_of: Callable[[float], float], target: float) -> None:
        self._end_of, self._target = end_of, target
        self.trials = 0
        self.best = math.inf, 0.0  # size of the difference, and factor
        self._low: _Point | None = None
        self._high: _Point | None = None
        self._last: list[_Point] = []

    def tries(self, factor: float) -> None:
        """Simulate the loop with a factor."""
        point = _Point(factor, self._end_of(factor) / self._target - 1.0)
        self.trials += 1
        self.best = min(self.best, (abs(point.difference), factor))
        self._last = [*self._last[-1:], point]
        low, high = self._low, self._high
        if point.difference > 0.0 and (high is None or factor < high.factor):
            self._high = high = point
            # A loop that is too long with lower costs is of no use as the lower end.
            self._low = low = None if low is not None and low.factor > factor else low
        if point.difference < 0.0 and (high is None or factor < high.factor):
            self._low = point if low is None or factor > low.factor else low

    def next_factor(self) -> float | None:
        """Return the next factor to try; None: the search has ended."""
        if self.best[0] <= _SOUGHT:
            return None
        low, high = self._low, self._high
        if low is not None and high is not None:
            return self._between(low, high)
        guess = _secant(*self._last) if len(self._last) == 2 else None
        if low is not None:
            beyond = low.factor / max(1.0 + low.difference, 1.0 / 16.0)
            return guess if guess is not None and low.factor < guess < 16.0 * beyond else 1.001 * beyond
        assert high is not None, "a point is below, above, or the one that was sought"
        if high.factor == 0.0:
            return None  # too long without any work
        if self.trials == 1:
            return high.factor / (1.0 + high.difference)
        return guess if guess is not None and self.trials < 4 and 0.0 < guess < high.factor else 0.0

    def _between(self, low: _Point, high: _Point) -> float | None:
        """Return a factor inside the interval: by a secant in two of three of the first trials, or half."""
        middle, guess = 0.5 * (low.factor + high.factor), _secant(low, high)
        if not low.factor < middle < high.factor:
            return None  # a jump
        by_secant = self.trials % 3 and self.trials < _SECANTS and low.factor < guess < high.factor
        return guess if by_secant else middle


def _secant(a: _Point, b: _Point) -> float:
    """Return the factor at which the straight line through two points has no difference."""
    rise = b.difference - a.difference
    return a.factor - a.difference * (b.factor - a.factor) / rise if rise else math.inf


def ending_at(outcome: LoopOutcome, end: float) -> LoopOutcome:
    """Return an outcome that ends at ``end`` [s]; what lies beyond, or at the end it had, moves there."""
    last = float(outcome.notified_at.max())

    def moved(times: Floats) -> Floats:
        return np.where(times == last, end, np.minimum(times, end))

    rows = outcome.rows
    if rows is not None:
        times = moved(rows.requested), moved(rows.start), moved(rows.end)
        rows = ChunkRows(rows.pe, rows.step, rows.first, rows.size, *times)
    finish = moved(outcome.finish)
    return replace(
        outcome,
        finish=finish,
        notified_at=moved(outcome.notified_at),
        last_start=moved(outcome.last_start),
        t_loop=float(finish.max()),
        rows=rows,
    )
