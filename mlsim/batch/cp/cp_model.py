"""Models for CP-SAT: start times, capacities, objective, and their cost in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.cp.instance import Instance
from mlsim.batch.cp.plan import pool_limits

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntervalVar, IntVar


_LARGEST_OBJECTIVE = 2.0**50
"""Sums above this lose precision in what CP-SAT computes with doubles."""
_LARGEST_SCALE = 1e9
SAME_COST = 2e-5
"""Share of the cost up to which a plan counts as an optimum: weights in models are rounded."""


def horizon_of(instance: Instance) -> int:
    """Return the end of the serial schedule: the queued jobs one by one after the last running one."""
    last = int(instance.running.remaining.max(initial=0))
    return last + int(instance.queued.duration.sum())


def scaled(weights: Floats, horizon: int, largest: float = _LARGEST_SCALE) -> tuple[Ints, float]:
    """Return weights scaled to integers, and the scale: the largest that keeps the objective below 2^50."""
    worst = float(weights.sum()) * max(horizon, 1)
    scale = min(largest, _LARGEST_OBJECTIVE / max(worst, 1e-300))
    return _rounded(weights, scale), scale


def _rounded(weights: Floats, scale: float) -> Ints:
    return np.maximum(np.rint(weights * scale), 1).astype(np.int64)


def overstated(weights: Floats, scale: float, latest: Floats) -> float:
    """Return how much a model may overstate the cost of a plan, as its weights are rounded integers.

    A bound proved in the model, less this, holds for the exact weights. It is large where seconds of some
    jobs cost millions of times as much as those of others. No plan has starts later than ``latest`` (s per
    job).
    """
    above = np.maximum(_rounded(weights, scale) / scale - weights, 0.0)
    return float(above @ latest)


def boxes_by_end(remaining: Ints, amounts: Ints) -> list[tuple[int, int]]:
    """Sum the amounts of one resource held by running units, by end: (remaining, amount)."""
    held = amounts > 0
    ends, place = np.unique(remaining[held], return_inverse=True)
    sums = np.bincount(place, weights=amounts[held], minlength=len(ends)).astype(np.int64)
    return list(zip(ends.tolist(), sums.tolist(), strict=True))


def minimize_last(cp: CpModel, starts: list[IntVar], durations: Ints, least: int, most: int) -> float:
    """Minimise the end of the last job and, among plans with the same makespan, the sum of starts.

    The sum is left out where the objective would lose precision. The last end is from ``least`` to ``most``.
    Returns the scale: the weight of a second of the makespan in the objective.
    """
    last = cp.new_int_var(least, max(least, most), "")
    for start, duration in zip(starts, durations.tolist(), strict=True):
        cp.add(last >= start + duration)
    scale = len(starts) * most + 1
    if scale * most > _LARGEST_OBJECTIVE:
        cp.minimize(last)
        return 1.0
    cp.minimize(scale * last + sum(starts))
    return float(scale)


class PowerOfPlaces(NamedTuple):
    """The power of a job as a sum over variables that place its units."""

    variables: list[IntVar]
    amounts: list[int]
    """Power per unit of each variable, in the model's measure."""


@dataclass(slots=True)
class Scheduling:
    """Start times, intervals and capacities of a model; every job of the reduced instance could start now."""

    instance: Instance
    cp: CpModel
    starts: list[IntVar]
    intervals: list[IntervalVar]
    horizon: int
    """End of the worst plan (s)."""

    @classmethod
    def of(cls, instance: Instance, horizon: int | None = None) -> Scheduling:
        """Make start variables and intervals, and the pooled capacity of each resource type.

        All jobs end by ``horizon`` (None: late enough for all); a job that cannot makes the model infeasible.
        """
        from ortools.sat.python import cp_model

        cp = cp_model.CpModel()
        if horizon is None:
            horizon = horizon_of(instance)
        durations = instance.queued.duration.tolist()
        starts = [cp.new_int_var(0, max(horizon - d, 0), "") for d in durations]
        if horizon < max(durations, default=0):
            cp.add_bool_or([])  # no plan ends by then
        intervals = [cp.new_fixed_size_interval_var(s, d, "") for s, d in zip(starts, durations, strict=True)]
        model = cls(instance, cp, starts, intervals, horizon)
        for r in range(len(instance.resources)):
            model._pool(r)
        for k in range(len(instance.shared.names)):
            model._share(k)
        return model

    def _pool(self, r: int) -> None:
        """Constrain a resource type by its total capacity over all nodes (HCP's relaxation)."""
        running, queued = self.instance.running, self.instance.queued
        held = boxes_by_end(running.remaining, running.request[:, r] * running.units)
        self._limit(queued.request[:, r] * queued.units, held, int(self.instance.capacity[:, r].sum()))

    def _share(self, k: int) -> None:
        """Constrain a machine-wide amount."""
        shared = self.instance.shared
        held = boxes_by_end(shared.remaining, shared.held[:, k])
        self._limit(shared.asked[:, k], held, int(shared.capacity[k]))

    def limit_power(self, places: list[PowerOfPlaces] | None = None) -> None:
        """Constrain power by a cap, where nodes add unequal power.

        ``places`` is the power of each job by its nodes. None: its nodes are not in the model, which then has
        only the limits of :func:`~mlsim.batch.cp.plan.pool_limits`; they forbid no plan.
        """
        power, measure = self.instance.power, self.power_measure
        if not power:
            return
        for limit in pool_limits(self.instance, self.horizon):
            self._limit(limit.asked, boxes_by_end(limit.remaining, limit.held), limit.total)
        if places is None:
            return
        # Rounded up, so that nothing is above the cap.
        held, total = -(-power.held // measure), power.capacity // measure
        least = (power.least // measure).tolist()
        added = [self._added(of_job, low, total) for of_job, low in zip(places, least, strict=True)]
        fixed, heights = self._boxes(boxes_by_end(power.remaining, held), total)
        self.cp.add_cumulative([*fixed, *self.intervals], [*heights, *added], total)

    def _added(self, places: PowerOfPlaces, least: int, most: int) -> IntVar:
        """Return the power of a job as one variable."""
        added = self.cp.new_int_var(least, max(least, most), "")
        terms = zip(places.variables, places.amounts, strict=True)
        self.cp.add(sum(amount * variable for variable, amount in terms) == added)
        return added

    @property
    def power_measure(self) -> int:
        """Microwatts per unit of power."""
        return self.instance.power.measure(self.horizon)

    def power_of_unit(self, job: int) -> Ints:
        """Return the power of a unit of a job on each node, in the measure and rounded up."""
        power = self.instance.power
        added: Ints = -(-power.of_node * int(power.counts[job]) // self.power_measure)
        return added

    def _limit(self, asked: Ints, held: list[tuple[int, int]], total: int) -> None:
        """Limit jobs and the amounts held by running ones, until their ends, to a total at every time."""
        demands = asked.tolist()
        intervals = [i for i, demand in zip(self.intervals, demands, strict=True) if demand]
        demands = [demand for demand in demands if demand]
        if not demands:
            return
        if sum(demands) + sum(amount for _, amount in held) <= total:
            return
        fixed, heights = self._boxes(held, total)
        self.cp.add_cumulative(fixed + intervals, heights + demands, total)

    def _boxes(self, held: list[tuple[int, int]], total: int) -> tuple[list[IntervalVar], list[int]]:
        """Return fixed intervals and their heights for amounts held until their ends.

        Running jobs may hold more than the total, where a cap has fallen; then nothing is free, and no less.
        """
        ends, amounts = [end for end, _ in held], [amount for _, amount in held]
        if sum(amounts) <= total:
            return [self.cp.new_fixed_size_interval_var(0, end, "") for end in ends], amounts
        left = np.cumsum(amounts[::-1])[::-1]
        lengths = np.diff(ends, prepend=0).tolist()
        boxes = [
            self.cp.new_fixed_size_interval_var(end - length, length, "")
            for end, length in zip(ends, lengths, strict=True)
        ]
        return boxes, np.minimum(left, total).tolist()

    def minimize(self, weights: Floats, after: Floats | None = None) -> float:
        """Minimise the weighted sum of starts and return the scale of the weights.

        Waiting costs nothing until ``after`` (s from now per job; None: from now on).
        """
        integers, scale = scaled(weights, self.horizon)
        terms = []
        for k, (start, weight) in enumerate(zip(self.starts, integers.tolist(), strict=True)):
            late: object = start
            if after is not None and after[k] > 0:
                free = int(min(np.floor(after[k]), max(self.horizon, 2**53)))
                late = self.cp.new_int_var(0, max(self.horizon - free, 0), "")
                self.cp.add(late >= start - free)
            terms.append(weight * late)
        self.cp.minimize(sum(terms))
        return scale

    def minimize_makespan(self) -> float:
        """Minimise the end of the last queued job, and return the weight of a second of it."""
        return minimize_last(self.cp, self.starts, self.instance.queued.duration, 0, self.horizon)

    def search_by_priority(self) -> None:
        """Branch on the job that can start first, ties by priority, at its earliest start.

        Jobs of a reduced instance are in order of priority. This is how the sources' solver searches
        ("schedule or postpone"), as far as CP-SAT's options allow.
        """
        from ortools.sat.python import cp_model

        self.cp.add_decision_strategy(self.starts, cp_model.CHOOSE_LOWEST_MIN, cp_model.SELECT_MIN_VALUE)


SECONDS_A_PART = 10e-6
"""Making a variable or a constraint, and CP-SAT's reading it; more where constraints have many terms."""
_SECONDS_A_PAIR = 3e-7
"""Presolve: it grows with about the square of the parts."""


Parts = TypeVar("Parts", float, Floats)


def building(parts: Parts, each: float = SECONDS_A_PART) -> Parts:
    """Return the time to build and read a model of this many variables and constraints (s)."""
    return each * parts


def presolving(parts: float) -> float:
    """Return the longest time of CP-SAT's presolve (s), which ignores limits."""
    return _SECONDS_A_PAIR * parts * parts
