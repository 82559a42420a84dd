"""Calls of CP-SAT: time limits, answers, and large neighbourhood search."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.cp.cp_model import minimize_last, presolving, scaled
from mlsim.batch.cp.instance import Instance
from mlsim.batch.cp.plan import pool_limits
from mlsim.errors import InputError

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntervalVar


class Status(StrEnum):
    """The result of a pass."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"
    EMPTY = "empty"
    """No job could start: there was nothing to solve."""


@dataclass(frozen=True, slots=True)
class Control:
    """Time limits and mode of a search."""

    limit: float = 1.0
    """First limit (s); with ``deterministic`` converted to CP-SAT's deterministic time."""
    last_limit: float = 16.0
    """Last limit (s), likewise."""
    patience: int = 2
    """Extensions in a row without improvement after which the search ends."""
    deterministic: bool = True
    """One worker, fixed seed, deterministic time: the same answer on every machine."""
    seed: int = 0
    workers: int = 1
    """Threads of CP-SAT if not deterministic."""
    pace: float = 1.0
    """Deterministic time per second at least, with the models at hand."""

    def after(self, seconds: float, computed: float) -> Control:
        """Return the remaining limits after a model was built; at least a tenth of each.

        ``seconds`` is the wall-clock time of building, ``computed`` that computed from its size, which counts
        where answers must not depend on the machine.
        """
        gone = computed if self.deterministic else seconds
        limits = [max(limit - gone, 0.1 * limit) for limit in (self.limit, self.last_limit)]
        return replace(self, limit=limits[0], last_limit=limits[1])


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of CP-SAT."""

    status: Status
    values: Ints | None
    """The value of each variable, by index; None without a solution."""
    objective: float
    """In the units of the model; NaN without a solution."""
    bound: float
    """Likewise."""
    branches: int
    conflicts: int
    extensions: int


def solve(model: CpModel, control: Control, fixed_search: bool, **parameters: Any) -> Answer:
    """Search for the best solution of a model.

    With ``fixed_search`` CP-SAT follows the model's decision strategy; further parameters are those of
    CP-SAT.
    """
    look = _deterministic if control.deterministic else _wall_clock
    return look(model, control, fixed_search, parameters)


def _solver(control: Control, fixed_search: bool, parameters: dict[str, Any]) -> Any:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    settings = solver.parameters
    settings.random_seed = control.seed
    settings.num_workers = 1 if control.deterministic else control.workers
    if fixed_search:
        settings.search_branching = cp_model.FIXED_SEARCH
    for name, value in parameters.items():
        setattr(settings, name, value)
    return solver


def _parts(model: CpModel) -> int:
    return len(model.proto.variables) + len(model.proto.constraints)


def _skip_presolve(solver: Any) -> None:
    """Search a model without presolve, which would exceed the limit."""
    solver.parameters.cp_model_presolve = False
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0


def _status(code: Any, model: CpModel) -> Status:
    """Return the status of a search.

    Raises InputError if CP-SAT rejects the numbers of the model.
    """
    from ortools.sat.python import cp_model

    if code == cp_model.MODEL_INVALID:
        reason = model.validate().partition("\n")[0] or "it is invalid"
        raise InputError(
            f"CP-SAT does not take the model of a pass: {reason}; allowed: capacities, requests and times "
            "whose sums stay below 2^63. Dispatcher lists makes no model."
        )
    return {
        cp_model.OPTIMAL: Status.OPTIMAL,
        cp_model.FEASIBLE: Status.FEASIBLE,
        cp_model.INFEASIBLE: Status.INFEASIBLE,
        cp_model.UNKNOWN: Status.UNKNOWN,
    }[code]


def _answer(solver: Any, status: Status, before: Answer | None, extensions: int) -> Answer:
    response = solver.response_proto
    found = status in (Status.OPTIMAL, Status.FEASIBLE)
    bound = float(response.best_objective_bound)
    if before is not None and before.values is not None:  # what was proved then holds
        bound = max(bound, before.bound)
    return Answer(
        status,
        np.array(response.solution, np.int64) if found else None,
        float(response.objective_value) if found else float("nan"),
        bound if found else float("nan"),
        int(response.num_branches) + (before.branches if before else 0),
        int(response.num_conflicts) + (before.conflicts if before else 0),
        extensions,
    )


def _deterministic(
    model: CpModel, control: Control, fixed_search: bool, parameters: dict[str, Any]
) -> Answer:
    """Search within deterministic time.

    CP-SAT cannot resume a search, so an extension starts from the best solution and the bound found before;
    clauses learned from conflicts are lost.
    """
    best: Answer | None = None
    presolve = presolving(_parts(model))
    step = spent = control.limit
    extensions = stale = 0
    while True:
        solver = _solver(control, fixed_search, parameters)
        searching = step
        if solver.parameters.cp_model_presolve:
            if presolve <= 0.5 * step:
                searching -= presolve
            else:
                _skip_presolve(solver)
        solver.parameters.max_deterministic_time = control.pace * searching
        status = _status(solver.solve(model), model)
        answer = _answer(solver, status, best, extensions)
        improved = answer.values is not None and (
            best is None or best.values is None or answer.objective < best.objective
        )
        if best is not None and best.values is not None and answer.values is None:
            answer = _kept(best, answer)
        if extensions and answer.values is not None:
            stale = 0 if improved else stale + 1
        best = answer
        done = best.status in (Status.OPTIMAL, Status.INFEASIBLE) or stale >= control.patience
        step = min(spent, control.last_limit - spent)
        if done or step <= 0:
            return best
        spent += step
        extensions += 1
        if best.values is not None:
            _hint_solution(model, best)


def _kept(best: Answer, later: Answer) -> Answer:
    """Keep the previous solution where the extension has found none."""
    status = Status.OPTIMAL if later.status is Status.INFEASIBLE else Status.FEASIBLE
    return Answer(
        status, best.values, best.objective, best.bound, later.branches, later.conflicts, later.extensions
    )


def _hint_solution(model: CpModel, best: Answer) -> None:
    assert best.values is not None
    proto = model.proto
    proto.solution_hint.vars.clear()
    proto.solution_hint.values.clear()
    proto.solution_hint.vars.extend(range(len(best.values)))
    proto.solution_hint.values.extend(best.values.tolist())


def _wall_clock(model: CpModel, control: Control, fixed_search: bool, parameters: dict[str, Any]) -> Answer:
    """Search once, within wall-clock time; a second thread decides at each limit whether to continue."""
    from ortools.sat.python import cp_model

    class Best(cp_model.CpSolverSolutionCallback):
        """Remembers the objective of the last solution."""

        def __init__(self) -> None:
            super().__init__()
            self.found: float | None = None

        def on_solution_callback(self) -> None:
            self.found = self.objective_value

    solver, best, ended = _solver(control, fixed_search, parameters), Best(), threading.Event()
    if presolving(_parts(model)) > 0.5 * control.limit:
        _skip_presolve(solver)
    last_limit = min(control.last_limit, threading.TIMEOUT_MAX)
    solver.parameters.max_time_in_seconds = last_limit
    extensions = 0

    def watch() -> None:
        nonlocal extensions
        began, limit, stale, before = time.monotonic(), min(control.limit, last_limit), 0, None
        while not ended.wait(max(began + limit - time.monotonic(), 0.0)):
            if extensions and best.found is not None:
                stale = 0 if best.found != before else stale + 1
            before = best.found
            if stale >= control.patience or limit >= last_limit:
                # Asked again and again: the search may not have begun yet.
                while not ended.wait(0.001):
                    solver.stop_search()
                return
            limit = min(2 * limit, last_limit)
            extensions += 1

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        status = _status(solver.solve(model, best), model)
    finally:
        ended.set()
        watcher.join()
    return _answer(solver, status, None, extensions)


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
    """A neighbourhood: jobs that may move, and how far."""

    free: Ints
    """Jobs that move."""
    starts: Ints
    """int64[n]: the starts of all jobs in the plan so far."""
    earliest: Ints
    """int64[n]: the earliest start of each job if no other waited."""
    latest: Ints
    """The latest start of each job that moves in any better plan."""
    weights: Floats
    """float64[n]: cost of a second of waiting."""
    makespan: bool
    """Whether the end of the last job is minimised instead."""


def _steps(begins: Ints, ends: Ints, amounts: Ints) -> list[tuple[int, int, int]]:
    """Sum the amounts of fixed boxes: (from, until, amount), one after the other."""
    held = (amounts > 0) & (ends > begins)
    times, place = np.unique(np.concatenate((begins[held], ends[held])), return_inverse=True)
    change = np.concatenate((amounts[held], -amounts[held]))
    level = np.cumsum(np.bincount(place, weights=change, minlength=len(times)).astype(np.int64))
    busy = np.flatnonzero(level[:-1] > 0) if len(times) else np.empty(0, np.int64)
    return list(zip(times[busy].tolist(), times[busy + 1].tolist(), level[busy].tolist(), strict=True))


def solve_window(
    instance: Instance, window: Window, control: Control
) -> tuple[Ints | None, Answer, float, tuple[int, int]]:
    """Move some jobs on the pool of all nodes, to reduce the cost of the plan.

    Returns the starts of all jobs (None if nothing was found), CP-SAT's answer, the scale of costs, and the
    number of variables and constraints.
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
    """Return the allowed conflicts within a limit (s): n for which a n + b n^2 is the limit."""
    a, b = _SECONDS_A_CONFLICT * constraints, _SECONDS_A_PAIR
    # Not (root - a) / 2 b, which loses its digits where limits are short.
    conflicts = limit / (0.5 * (a + math.sqrt(a * a + 4 * b * limit)))
    return min(max(int(conflicts), _LEAST_CONFLICTS), _MOST_CONFLICTS)


def _limit(
    cp: CpModel, intervals: list[IntervalVar], asked: Ints, held: list[tuple[int, int, int]], total: int
) -> None:
    """Limit moving jobs, with the amounts held by others, to a total at every time."""
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
