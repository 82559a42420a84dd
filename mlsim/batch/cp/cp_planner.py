"""``cp``: the list planner's plan, improved by CP-SAT within a bound on the whole pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from mlsim._runtime.arrays import Ints
from mlsim.batch.cp.cp_model import SAME_COST, Scheduling, overstated
from mlsim.batch.cp.cp_solve import Answer, Control, Status, Window, solve, solve_window
from mlsim.batch.cp.list_planner import Found, Lists, Task
from mlsim.batch.cp.plan import Plan
from mlsim.batch.cp.source_models import Pcp4

_WINDOW = 20
"""Jobs of a neighbourhood; as many as CP-SAT mostly proves an optimum for within a few ms."""
_MOST_COUNTS = 200
"""Jobs x nodes up to which units are placed on nodes by CP-SAT."""
_PACE_OF_COUNTS = 0.04
"""Deterministic time that passes in a second at least, with models of small instances."""
_SEARCH = 0.004
"""Seconds of search that a neighbourhood is worth making a model for."""
_MODEL = 0.002
"""Seconds that the model of a neighbourhood takes."""
_SECONDS_A_STEP = 5e-8
"""Looking at a step of a profile, or at a class, for one job of a list: the dearest that was measured."""
_NO_BETTER = 1e-9
"""Share of the cost by which a plan has to be better: less is what doubles round."""
_PACE = 0.3
"""Deterministic time that passes in a second at least, with models of neighbourhoods."""


class Cp(Lists):
    """List schedules improved by CP-SAT."""

    name: ClassVar[str] = "cp"
    _turn: int = 0
    """Neighbourhoods of long queues searched so far: the next pass continues with those that follow."""
    _planned: int = 0
    """Jobs beyond the first ones that were planned for in turns so far."""

    def visible(self, order: Ints) -> Ints:
        """Return all waiting jobs."""
        return order

    def planned(self, n: int, n_classes: int) -> Ints:
        """Return the jobs to plan for: of a long queue as many as can be listed in half of the limit.

        There are ``most_jobs`` at least. Where more wait, the first of the order are planned for in every
        pass, and others take turns, so that all are in a few passes.
        """
        if n <= self.most_jobs:
            return np.arange(n)
        computed = 0.5 * self.control.limit / (_LISTS * _SECONDS_A_STEP)  # n (classes + 2 n) of a list
        most = max(int((np.sqrt(n_classes**2 + 8.0 * computed) - n_classes) / 4), self.most_jobs)
        if n <= most:
            return np.arange(n)
        turns = max(most - self.most_jobs, self.most_jobs // 10)
        first = most - turns
        others = first + (self._planned + np.arange(turns)) % (n - first)
        self._planned += turns
        return np.concatenate((np.arange(first), np.sort(others)))

    def improve(self, task: Task, found: Found) -> None:
        """Search as many neighbourhoods with CP-SAT as the remaining limit allows."""
        n = len(task.jobs.units)
        found.counts = dict.fromkeys(("variables", "constraints", *_COUNTED), 0)
        if n - task.fixed < 2 or n > self.options.solve_jobs:
            return
        scheduling = _listing(task)
        left = max(self.control.limit - _LISTS * scheduling, 0.1 * self.control.limit)
        extra = max(self.control.last_limit - self.control.limit, 0.0)
        each = scheduling + _MODEL + _SEARCH
        # Only jobs that end late can make a plan end earlier.
        order = np.argsort(-(found.starts + task.jobs.durations), kind="stable")
        neighbourhoods = self._neighbourhoods(
            order if task.makespan else found.order, max(int(left / each), 1)
        )
        parts = len(neighbourhoods)
        limit = max(left / parts - scheduling - _MODEL, 0.1 * left / parts)
        control = replace(self.control, limit=limit, last_limit=limit + extra / parts, pace=_PACE)
        for free in neighbourhoods:
            _search(task, found, free, control)
            if found.status is Status.OPTIMAL:
                break

    def _neighbourhoods(self, order: Ints, most: int) -> list[Ints]:
        """Return the jobs that move together: all, or jobs that are consecutive in the order.

        Of a long queue the first ones are searched in every pass, as they may start now; the others take
        turns, so that all are searched in a few passes.
        """
        n = len(order)
        if n <= _WINDOW:
            return [np.arange(n)]
        firsts = list(range(0, n - _WINDOW // 2, _WINDOW // 2))
        others = firsts[1:]
        chosen = [(self._turn + k) % len(others) for k in range(min(most - 1, len(others)))]
        self._turn += len(chosen)
        return [np.sort(order[f : f + _WINDOW]) for f in (0, *(others[k] for k in sorted(chosen)))]

    def place_exactly(self, task: Task, plan: Plan, found: Found) -> Plan:
        """Place the units of a small instance by CP-SAT; return a plan that costs no more."""
        part = task.reduced.instance
        n = len(part.queued)
        small = n * part.n_nodes <= _MOST_COUNTS and not task.fixed and n <= self.options.solve_jobs
        small = small and task.others is None
        # Room that is left free, nodes that are kept and starts that make way are not in the model.
        plain = task.ranks.keep_start.all() and not task.ranks.keep_free.any()
        if not small or not plain or not np.isfinite(task.jobs.dislike).all():
            return plan
        model = Scheduling.of(part)
        read = Pcp4(self.control).place(model)
        assert read is not None
        latest = _latest(task, found, np.arange(n))
        for start, low, high in zip(model.starts, found.earliest.tolist(), latest.tolist(), strict=True):
            model.cp.add_linear_constraint(start, low, max(low, high))
        scale = model.minimize_makespan() if task.makespan else model.minimize(task.ranks.weights)
        answer = solve(model.cp, replace(self.control, pace=_PACE_OF_COUNTS), False, linearization_level=0)
        if answer.values is None:
            return plan
        starts = answer.values[[start.index for start in model.starts]]
        cost = task.cost(starts)
        if cost < found.cost * (1 - _NO_BETTER):
            chosen = zip(read(answer.values), starts.tolist(), strict=True)
            nodes = [each if start == 0 else None for each, start in chosen]
            plan = task.reduced.widen(Plan(starts, tuple(nodes)))
            found.starts, found.cost = starts, cost
        found.bound = max(found.bound, _proved(task, answer, scale, latest, found.cost))
        return plan


_COUNTED = ("branches", "conflicts", "extensions")
_LISTS = 5
"""List schedules of a pass, what each job could have alone and the last placing counted as such."""


def _listing(task: Task) -> float:
    """Return the time of a list schedule (s), computed from its size: the largest that was measured."""
    n = len(task.jobs.units)
    return _SECONDS_A_STEP * n * (task.base.n_classes + 2 * n)


def _latest(task: Task, found: Found, free: Ints) -> Ints:
    """Return the latest start of each free job in a cheaper plan, if all others stay."""
    starts, earliest, weights = found.starts[free], found.earliest[free], task.ranks.weights[free]
    if task.makespan:
        return int(found.cost) - task.jobs.durations[free]
    # With the other free jobs as early as can be, a later start would cost more than they do now.
    above = float(weights @ (starts - earliest))
    slack = np.minimum(above / weights, 2.0**40).astype(np.int64) + 1
    latest: Ints = np.maximum(earliest + slack, starts)
    return latest


def _proved(task: Task, answer: Answer, scale: float, latest: Ints, cost: float) -> float:
    """Return the bound on the cost of all jobs; the cost itself if they differ by less than rounding."""
    bound = answer.bound / scale
    if task.makespan:  # whole seconds; the fraction distinguishes plans with the same makespan
        bound = float(np.floor(bound))
        return cost if bound >= cost else bound
    bound -= overstated(task.ranks.weights, scale, latest.astype(np.float64))
    return cost if bound >= cost - SAME_COST * cost else bound


def _search(task: Task, found: Found, free: Ints, control: Control) -> None:
    """Move some jobs on the pool, and list-schedule all by the starts that are found."""
    n = len(found.order)
    latest = _latest(task, found, free)
    window = Window(free, found.starts, found.earliest, latest, task.ranks.weights, task.makespan)
    moved, answer, scale, size = solve_window(task.reduced.instance, window, control)
    _count(found.counts, answer, size)
    if moved is None:
        return
    by_start = np.argsort(moved, kind="stable")
    fixed = found.order[: task.fixed]
    by_start = np.concatenate((fixed, by_start[~np.isin(by_start, fixed)]))
    starts = np.empty(n, np.int64)
    if (cost := task.schedule(by_start, starts, np.empty(0, np.int64), found.cost)) < found.cost:
        found.order, found.starts, found.cost = by_start, starts, cost
    if len(free) == n:
        found.bound = max(found.bound, _proved(task, answer, scale, latest, found.cost))


def _count(counts: dict[str, Any], answer: Answer, size: tuple[int, int]) -> None:
    """Add the counts of a search."""
    counts["variables"] = max(counts["variables"], size[0])
    counts["constraints"] = max(counts["constraints"], size[1])
    for name in _COUNTED:
        counts[name] += getattr(answer, name)
