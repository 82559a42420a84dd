"""One step of large neighbourhood search: some jobs move, all others keep their starts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.batch.cp.problem.instance import Instance
from mlsim.batch.cp.problem.levels import pool_limits
from mlsim.batch.cp.solver.model import minimize_last, scaled
from mlsim.batch.cp.solver.solving import Answer, Control, solve

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntervalVar

__all__ = ["QUICKLY", "Window", "solve_window"]

QUICKLY = {
    "cp_model_presolve": False,
    "cp_model_probing_level": 0,
    "symmetry_level": 0,
    "linearization_level": 0,
}
"""Parameters of CP-SAT with which a small model is searched at once: presolve may take longer."""
_SECONDS_A_CONFLICT = 5.5e-7
"""A conflict for each constraint. Deterministic time runs slowly without presolve, so that conflicts are
counted as well."""
_SECONDS_A_PAIR = 4e-8
"""Conflicts get dearer one by one, as each may leave another time that starts are compared with: where a
search goes through a horizon second by second, its time grows with the square of its conflicts
(``tools/bench/cp_limits.py``)."""
_FINE_SCALE = 1e12
"""Weights of jobs of days, a few millionths, are so rounded by a millionth of themselves at most."""
_LEAST_CONFLICTS = 10
_MOST_CONFLICTS = 2**62


@dataclass(frozen=True, slots=True)
class Window:
    """What may move, and how far."""

    free: Ints
    """Jobs that move."""
    starts: Ints
    """int64[n]: the starts of all jobs in the plan so far."""
    earliest: Ints
    """int64[n]: the earliest start of each job if no other waited."""
    latest: Ints
    """The latest start at which a better plan could have each job that moves."""
    weights: Floats
    """float64[n]: what a second of waiting costs."""
    makespan: bool
    """Whether the end of the last job counts instead."""


def _steps(begins: Ints, ends: Ints, amounts: Ints) -> list[tuple[int, int, int]]:
    """Sum what fixed boxes hold: (from, until, amount), one after the other."""
    held = (amounts > 0) & (ends > begins)
    times, place = np.unique(np.concatenate((begins[held], ends[held])), return_inverse=True)
    change = np.concatenate((amounts[held], -amounts[held]))
    level = np.cumsum(np.bincount(place, weights=change, minlength=len(times)).astype(np.int64))
    busy = np.flatnonzero(level[:-1] > 0) if len(times) else np.empty(0, np.int64)
    return list(zip(times[busy].tolist(), times[busy + 1].tolist(), level[busy].tolist(), strict=True))


def solve_window(
    instance: Instance, window: Window, control: Control
) -> tuple[Ints | None, Answer, float, tuple[int, int]]:
    """Move some jobs on the pool of all nodes, so that the plan costs less.

    Returns
    -------
    starts : ndarray or None
        Starts of all jobs; None where nothing was found.
    answer, scale
        What CP-SAT says, and by how much costs were multiplied.
    size
        Variables and constraints of the model.
    """
    from ortools.sat.python import cp_model

    queued, running, free = instance.queued, instance.running, window.free
    fixed = np.setdiff1d(np.arange(len(queued)), free)
    cp = cp_model.CpModel()
    duration = queued.duration
    starts = [
        cp.new_int_var(low, high, "")
        for low, high in zip(window.earliest[free].tolist(), window.latest.tolist(), strict=True)
    ]
    intervals = [
        cp.new_fixed_size_interval_var(start, d, "")
        for start, d in zip(starts, duration[free].tolist(), strict=True)
    ]
    # What others hold before and after all that may move is left out.
    first = int(window.earliest[free].min())
    horizon = int((window.latest + duration[free]).max())

    def limit(asked: Ints, held: Ints, remaining: Ints, total: int) -> None:
        """Limit all jobs to a total of something of which running ones hold so much for so long."""
        begins = np.concatenate((np.zeros(len(held), np.int64), window.starts[fixed]))
        ends = np.concatenate((remaining, window.starts[fixed] + duration[fixed]))
        begins, ends = np.maximum(begins, first), np.minimum(ends, horizon)
        amounts = np.concatenate((held, asked[fixed]))
        _limit(cp, intervals, asked[free], _steps(begins, ends, amounts), total)

    for r in range(len(instance.resources)):
        held = running.request[:, r] * running.units
        total = int(instance.capacity[:, r].sum())
        limit(queued.request[:, r] * queued.units, held, running.remaining, total)
    whole = instance.shared
    for k in range(len(whole.names)):
        limit(whole.asked[:, k], whole.held[:, k], whole.remaining, int(whole.capacity[k]))
    if instance.power:  # where others are placed is not kept
        for of_power in pool_limits(instance, horizon):
            limit(*of_power)
    if window.makespan:
        last = int((window.starts[fixed] + duration[fixed]).max(initial=0))
        scale = minimize_last(cp, starts, duration[free], last, horizon)
    else:
        weights, scale = scaled(window.weights[free], horizon, _FINE_SCALE)
        cp.minimize(cp_model.LinearExpr.weighted_sum(starts, weights.tolist()))
    for start, hint in zip(starts, window.starts[free].tolist(), strict=True):
        cp.add_hint(start, hint)
    cp.add_decision_strategy(starts, cp_model.CHOOSE_LOWEST_MIN, cp_model.SELECT_MIN_VALUE)
    size = len(cp.proto.variables), len(cp.proto.constraints)
    conflicts = _conflicts_within(control.last_limit, size[1])
    answer = solve(cp, control, False, max_number_of_conflicts=conflicts, **QUICKLY)
    if answer.values is None:
        return None, answer, scale, size
    found = window.starts.copy()
    found[free] = answer.values[[start.index for start in starts]]
    return found, answer, scale, size


def _conflicts_within(limit: float, constraints: int) -> int:
    """Return how many conflicts there may be within a limit (s): n for which a n + b n^2 is the limit."""
    a, b = _SECONDS_A_CONFLICT * constraints, _SECONDS_A_PAIR
    # Not (root - a) / 2 b, which loses its digits where limits are short.
    conflicts = limit / (0.5 * (a + math.sqrt(a * a + 4 * b * limit)))
    return min(max(int(conflicts), _LEAST_CONFLICTS), _MOST_CONFLICTS)


def _limit(
    cp: CpModel, intervals: list[IntervalVar], asked: Ints, held: list[tuple[int, int, int]], total: int
) -> None:
    """Limit moving jobs, with what others hold, to a total at every time."""
    demands = asked.tolist()
    # Steps at which all that moves has room are no limit.
    held = [(begin, end, amount) for begin, end, amount in held if sum(demands) + amount > total]
    if sum(demands) <= total and not held:
        return
    boxes = [cp.new_fixed_size_interval_var(begin, end - begin, "") for begin, end, _ in held]
    moving = [interval for interval, demand in zip(intervals, demands, strict=True) if demand]
    # The hint may be above the total: where starts are not kept, others are planned over them. So may what
    # runs, where a cap has fallen.
    heights = [min(amount, total) for _, _, amount in held] + [demand for demand in demands if demand]
    cp.add_cumulative(boxes + moving, heights, total)
