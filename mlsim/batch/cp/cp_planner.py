"""``cp``: the list planner's plan, improved by CP-SAT within a bound on the whole pass."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.cp import cp_solve
from mlsim.batch.cp.instance import Instance
from mlsim.batch.cp.list_planner import Found, Lists, Task
from mlsim.batch.cp.plan import Plan, PoolLimit, amount_limits, pool_limits
from mlsim.batch.cp.source_models import NodePlaces

_WINDOW = 20  # jobs of a neighbourhood; as many as CP-SAT mostly proves an optimum for within a few ms
_MOST_COUNTS = 200  # jobs x nodes up to which units are placed on nodes by CP-SAT
_PACE_OF_COUNTS = 0.04  # deterministic time that passes in a second at least, with models of small instances
_PACE = 0.3  # the same with models of neighbourhoods
_SEARCH = 0.004  # seconds of search that a neighbourhood is worth making a model for
_MODEL = 0.002  # seconds that the model of a neighbourhood takes
# Seconds to look at a step of a profile, or at a class, for one job of a list: the dearest that was measured.
_SECONDS_A_STEP = 5e-8
_LISTS = 5  # list schedules of a pass, what each job could have alone and the last placing counted as such
_NO_BETTER = 1e-9  # share of the cost by which a plan has to be better: less is what doubles round
_COUNTED = ("branches", "conflicts", "extensions")

# Parameters of CP-SAT with which a small model is searched at once: presolve may take longer.
_QUICKLY = cp_solve.NO_PRESOLVE | {"linearization_level": 0}
# Seconds of a conflict for each constraint. Deterministic time runs slowly without presolve, so that
# conflicts are counted as well.
_SECONDS_A_CONFLICT = 5.5e-7
# Conflicts get dearer one by one, as each may leave another time that starts are compared with: where a
# search goes through a horizon second by second, its time grows with the square of its conflicts
# (``tools/bench/cp_limits.py``).
_SECONDS_A_PAIR = 4e-8
# Weights of jobs of days, a few millionths, are so rounded by a millionth of themselves at most.
_FINE_SCALE = 1e12
_LEAST_CONFLICTS = 10
_MOST_CONFLICTS = 2**62


class Cp(Lists):
    """List schedules improved by CP-SAT."""

    _turn: int = 0  # neighbourhoods of long queues searched so far: the next pass continues behind these
    _planned: int = 0  # jobs beyond the first ones that were planned for in turns so far

    def visible(self, order: Ints) -> Ints:
        """Return all waiting jobs."""
        return order

    def planned(self, n: int, n_classes: int) -> Ints:
        """Return the jobs to plan for: of a long queue as many as can be listed in half of the limit.

        There are ``batch.cp.jobs`` at least. Where more wait, the first of the order are planned for in every
        pass, and others take turns, so that all are in a few passes.
        """
        if n <= self.config.jobs:
            return np.arange(n)
        computed = 0.5 * self.control.limit / (_LISTS * _SECONDS_A_STEP)  # n (classes + 2 n) of a list
        most = max(int((np.sqrt(n_classes**2 + 8.0 * computed) - n_classes) / 4), self.config.jobs)
        if n <= most:
            return np.arange(n)
        turns = max(most - self.config.jobs, self.config.jobs // 10)
        first = most - turns
        others = first + (self._planned + np.arange(turns)) % (n - first)
        self._planned += turns
        return np.concatenate((np.arange(first), np.sort(others)))

    def improve(self, task: Task, found: Found) -> None:
        """Search as many neighbourhoods with CP-SAT as the remaining limit allows."""
        n = len(task.jobs.units)
        found.counts = dict.fromkeys(("variables", "constraints", *_COUNTED), 0)
        if n - task.fixed < 2 or n > self.config.solve_jobs:
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
            if found.status is cp_solve.Status.OPTIMAL:
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
        small = n * part.n_nodes <= _MOST_COUNTS and not task.fixed and n <= self.config.solve_jobs
        small = small and task.others is None
        # Room that is left free, nodes that are kept and starts that make way are not in the model.
        plain = task.ranks.keep_start.all() and not task.ranks.keep_free.any()
        if not small or not plain or not np.isfinite(task.jobs.dislike).all():
            return plan
        model = cp_solve.Scheduling.of(part)
        places = NodePlaces(model, counted=True)
        latest = _latest(task, found, np.arange(n))
        for start, low, high in zip(model.starts, found.earliest.tolist(), latest.tolist(), strict=True):
            model.cp.add_linear_constraint(start, low, max(low, high))
        scale = model.minimize_makespan() if task.makespan else model.minimize(task.ranks.weights)
        answer = cp_solve.solve(
            model.cp, replace(self.control, pace=_PACE_OF_COUNTS), False, linearization_level=0
        )
        if answer.values is None:
            return plan
        starts = answer.values[[start.index for start in model.starts]]
        cost = task.cost(starts)
        if cost < found.cost * (1 - _NO_BETTER):
            chosen = zip(places.read(answer.values), starts.tolist(), strict=True)
            nodes = [each if start == 0 else None for each, start in chosen]
            plan = task.reduced.widen(Plan(starts, tuple(nodes)))
            found.starts, found.cost = starts, cost
        found.bound = max(found.bound, _proved(task, answer, scale, latest, found.cost))
        return plan


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


def _proved(task: Task, answer: cp_solve.Answer, scale: float, latest: Ints, cost: float) -> float:
    """Return the bound on the cost of all jobs; the cost itself if they differ by less than rounding."""
    bound = answer.bound / scale
    if task.makespan:  # whole seconds; the fraction distinguishes plans with the same makespan
        bound = float(np.floor(bound))
        return cost if bound >= cost else bound
    bound -= cp_solve.overstated(task.ranks.weights, scale, latest.astype(np.float64))
    return cost if bound >= cost - cp_solve.SAME_COST * cost else bound


def _search(task: Task, found: Found, free: Ints, control: cp_solve.Control) -> None:
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
    if (cost := task.schedule(by_start, starts, bound=found.cost)) < found.cost:
        found.order, found.starts, found.cost = by_start, starts, cost
    if len(free) == n:
        found.bound = max(found.bound, _proved(task, answer, scale, latest, found.cost))


def _count(counts: dict[str, Any], answer: cp_solve.Answer, size: tuple[int, int]) -> None:
    """Add the counts of a search."""
    counts["variables"] = max(counts["variables"], size[0])
    counts["constraints"] = max(counts["constraints"], size[1])
    for name in _COUNTED:
        counts[name] += getattr(answer, name)


# Neighbourhoods


@dataclass(frozen=True, slots=True)
class Window:
    """A neighbourhood: jobs that may move, and how far."""

    free: Ints  # jobs that move
    starts: Ints  # int64[n]: the starts of all jobs in the plan so far
    earliest: Ints  # int64[n]: the earliest start of each job if no other waited
    latest: Ints  # the latest start of each job that moves in any better plan
    weights: Floats  # float64[n]: cost of a second of waiting
    makespan: bool  # whether the end of the last job is minimised instead


def solve_window(
    instance: Instance, window: Window, control: cp_solve.Control
) -> tuple[Ints | None, cp_solve.Answer, float, tuple[int, int]]:
    """Move some jobs on the pool of all nodes, to reduce the cost of the plan.

    Returns the starts of all jobs (None if nothing was found), CP-SAT's answer, the scale of costs, and the
    number of variables and constraints.
    """
    free, duration = window.free, instance.queued.duration
    fixed = np.setdiff1d(np.arange(len(duration)), free)
    cp = cp_model.CpModel()
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
    limits: Iterator[PoolLimit] = amount_limits(instance)
    if instance.power:  # where others are placed is not kept
        limits = chain(limits, pool_limits(instance, horizon))
    for limit in limits:
        begins = np.concatenate((np.zeros(len(limit.held), np.int64), window.starts[fixed]))
        ends = np.concatenate((limit.remaining, window.starts[fixed] + duration[fixed]))
        begins, ends = np.maximum(begins, first), np.minimum(ends, horizon)
        steps = _steps(begins, ends, np.concatenate((limit.held, limit.asked[fixed])))
        _limit(cp, intervals, limit.asked[free].tolist(), steps, limit.total)
    if window.makespan:
        last = int((window.starts[fixed] + duration[fixed]).max(initial=0))
        scale = cp_solve.minimize_last(cp, starts, duration[free], last, horizon)
    else:
        weights, scale = cp_solve.scaled(window.weights[free], horizon, _FINE_SCALE)
        cp.minimize(cp_model.LinearExpr.weighted_sum(starts, weights.tolist()))
    for start, hint in zip(starts, window.starts[free].tolist(), strict=True):
        cp.add_hint(start, hint)
    cp.add_decision_strategy(starts, cp_model.CHOOSE_LOWEST_MIN, cp_model.SELECT_MIN_VALUE)
    size = len(cp.proto.variables), len(cp.proto.constraints)
    conflicts = _conflicts_within(control.last_limit, size[1])
    answer = cp_solve.solve(cp, control, False, max_number_of_conflicts=conflicts, **_QUICKLY)
    if answer.values is None:
        return None, answer, scale, size
    found = window.starts.copy()
    found[free] = answer.values[[start.index for start in starts]]
    return found, answer, scale, size


def _steps(begins: Ints, ends: Ints, amounts: Ints) -> list[tuple[int, int, int]]:
    """Sum the amounts of fixed boxes: (from, until, amount), one after the other."""
    held = (amounts > 0) & (ends > begins)
    times, place = np.unique(np.concatenate((begins[held], ends[held])), return_inverse=True)
    change = np.concatenate((amounts[held], -amounts[held]))
    level = np.cumsum(np.bincount(place, weights=change, minlength=len(times)).astype(np.int64))
    busy = np.flatnonzero(level[:-1] > 0) if len(times) else np.empty(0, np.int64)
    return list(zip(times[busy].tolist(), times[busy + 1].tolist(), level[busy].tolist(), strict=True))


def _limit(
    cp: cp_model.CpModel,
    intervals: list[cp_model.IntervalVar],
    demands: list[int],
    held: list[tuple[int, int, int]],
    total: int,
) -> None:
    """Limit moving jobs, with the amounts held by others, to a total at every time."""
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


def _conflicts_within(limit: float, constraints: int) -> int:
    """Return the allowed conflicts within a limit (s): n for which a n + b n^2 is the limit."""
    a, b = _SECONDS_A_CONFLICT * constraints, _SECONDS_A_PAIR
    # Not (root - a) / 2 b, which loses its digits where limits are short.
    conflicts = limit / (0.5 * (a + math.sqrt(a * a + 4 * b * limit)))
    return min(max(int(conflicts), _LEAST_CONFLICTS), _MOST_CONFLICTS)
