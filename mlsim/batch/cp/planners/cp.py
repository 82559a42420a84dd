"""``cp``: the list planner's plan, made better by CP-SAT within a bound on the whole pass.

The best list schedule is the first plan. Where it is not optimal already, CP-SAT searches on the pool of all
nodes, a relaxation: the whole queue where it is short, else one neighbourhood after the other (large
neighbourhood search), with all other jobs at their starts. The order of the starts that it finds is scheduled
as a list again, on nodes, and kept if it costs less; so every plan is one that can be carried out. Where the
instance is small, and CP-SAT has not proved the plan optimal on the pool, it places units on nodes as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from mlsim._arrays import Ints
from mlsim.batch.cp.planners.list_planner import Lists, Task
from mlsim.batch.cp.planners.pcp4 import Pcp4
from mlsim.batch.cp.problem.plan import Plan
from mlsim.batch.cp.solver.model import Scheduling
from mlsim.batch.cp.solver.solving import Answer, Status, solve
from mlsim.batch.cp.solver.window import Window, solve_window

__all__ = ["Cp"]

_WINDOW = 20
"""Jobs of a neighbourhood; as many as CP-SAT mostly proves an optimum for within a few ms."""
_SEARCHED = 50
"""Jobs of the order, the first ones, of which there are neighbourhoods."""
_MOST_COUNTS = 200
"""Jobs x nodes up to which units are placed on nodes by CP-SAT."""


class Cp(Lists):
    """Lists, then CP-SAT."""

    name: ClassVar[str] = "cp"

    def improve(
        self, task: Task, order: Ints, cost: float, earliest: Ints, least: float
    ) -> tuple[Ints, float, Status, dict[str, Any]]:
        """Search with CP-SAT; return order, cost, status and counts."""
        n = len(task.jobs.units)
        counts = {"variables": 0, "constraints": 0, "branches": 0, "conflicts": 0, "extensions": 0}
        if n - task.fixed < 2 or n > self.options.solve_jobs:
            return order, cost, Status.FEASIBLE, counts
        status = Status.FEASIBLE
        neighbourhoods = _neighbourhoods(order)
        control, parts = self.control, len(neighbourhoods)
        control = replace(control, limit=control.limit / parts, last_limit=control.last_limit / parts)
        starts, nobody = np.empty(n, np.int64), np.empty(0, np.int64)
        for free in neighbourhoods:
            task.schedule(order, starts, nobody)
            # With every other job as early as can be, a later start would cost more than the plan.
            slack = np.minimum((cost - least) / task.ranks.weights, 2.0**40).astype(np.int64) + 1
            latest = np.maximum(earliest + slack, starts)
            window = Window(free, starts, earliest, latest, task.ranks.weights)
            found, answer, scale, size = solve_window(task.reduced.instance, window, control)
            _count(counts, answer, size)
            if found is None:
                continue
            by_start = np.argsort(found, kind="stable")
            fixed = order[: task.fixed]
            by_start = np.concatenate((fixed, by_start[~np.isin(by_start, fixed)]))
            whole = len(free) == n
            # Weights are rounded to integers of the model, by at most 1/2 each.
            rounding = 0.5 * float(starts.sum()) / scale
            if (other := task.schedule(by_start, starts, nobody, cost)) < cost:
                order, cost = by_start, other
            if whole and answer.bound / scale >= cost - rounding - 1e-9 * cost:
                status = Status.OPTIMAL
        return order, cost, status, counts

    def place_exactly(
        self, task: Task, plan: Plan, cost: float, earliest: Ints, least: float
    ) -> tuple[Plan, float, Status, dict[str, Any]]:
        """Have CP-SAT place the units of a small instance; return a plan that costs no more."""
        part = task.reduced.instance
        n = len(part.queued)
        small = n * part.n_nodes <= _MOST_COUNTS and not task.fixed and n <= self.options.solve_jobs
        # Room that is left free, nodes that are kept and starts that make way are not in the model.
        plain = task.ranks.keep_start.all() and not task.ranks.keep_free.any()
        if not small or not plain or not np.isfinite(task.jobs.dislike).all():
            return plan, cost, Status.FEASIBLE, {}
        model = Scheduling.of(part)
        read = Pcp4(self.control).place(model)
        assert read is not None
        for k, start in enumerate(model.starts):
            latest = int(earliest[k] + (cost - least) / task.ranks.weights[k]) + 1
            model.cp.add_linear_constraint(start, int(earliest[k]), max(latest, int(earliest[k])))
        scale = model.minimize(task.ranks.weights)
        answer = solve(model.cp, self.control, False, linearization_level=0)
        if answer.values is None:
            return plan, cost, Status.FEASIBLE, {}
        starts = answer.values[[start.index for start in model.starts]]
        found = float(task.ranks.weights @ starts)
        rounding = 0.5 * float(starts.sum()) / scale
        better = found < cost - rounding
        best = min(found, cost)
        proved = answer.bound / scale >= best - rounding - 1e-9 * best
        if better:
            chosen = zip(read(answer.values), starts.tolist(), strict=True)
            nodes = [each if start == 0 else None for each, start in chosen]
            plan, cost = task.reduced.widen(Plan(starts, tuple(nodes))), found
        return plan, cost, Status.OPTIMAL if proved else Status.FEASIBLE, {}


def _neighbourhoods(order: Ints) -> list[Ints]:
    """Return which jobs move together: all, or those that follow each other in the order.

    Jobs far back in a long queue are left out: what starts now hardly depends on them.
    """
    n = len(order)
    if n <= _WINDOW:
        return [np.arange(n)]
    firsts = range(0, min(n, _SEARCHED) - _WINDOW // 2, _WINDOW // 2)
    return [np.sort(order[first : first + _WINDOW]) for first in firsts]


def _count(counts: dict[str, int], answer: Answer, size: tuple[int, int]) -> None:
    """Add up what was searched."""
    counts["variables"] = max(counts["variables"], size[0])
    counts["constraints"] = max(counts["constraints"], size[1])
    for name in ("branches", "conflicts", "extensions"):
        counts[name] += getattr(answer, name)
