"""Models for CP-SAT: start times, capacities, objective; and calls of CP-SAT within time limits."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.cp.instance import Instance
from mlsim.batch.cp.plan import PoolLimit, amount_limits, pool_limits
from mlsim.errors import InputError

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntervalVar, IntVar


_LARGEST_OBJECTIVE = 2.0**50  # sums above this lose precision in what CP-SAT computes with doubles
_LARGEST_SCALE = 1e9
SAME_COST = 2e-5  # share of the cost up to which a plan counts as an optimum: weights in models are rounded


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
    return float(np.maximum(_rounded(weights, scale) / scale - weights, 0.0) @ latest)


def boxes_by_end(remaining: Ints, amounts: Ints) -> tuple[list[int], list[int]]:
    """Sum the amounts of one resource held by running units by end; return ends, ascending, and sums."""
    held = amounts > 0
    ends, place = np.unique(remaining[held], return_inverse=True)
    sums = np.bincount(place, weights=amounts[held], minlength=len(ends)).astype(np.int64)
    return ends.tolist(), sums.tolist()


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
    amounts: list[int]  # power per unit of each variable, in the model's measure


@dataclass(slots=True)
class Scheduling:
    """Start times, intervals and capacities of a model; every job of the reduced instance could start now."""

    instance: Instance
    cp: CpModel
    starts: list[IntVar]
    intervals: list[IntervalVar]
    horizon: int  # end of the worst plan (s)

    @classmethod
    def of(cls, instance: Instance, horizon: int | None = None) -> Scheduling:
        """Make start variables and intervals, and pool each resource type over all nodes (HCP's relaxation).

        All jobs end by ``horizon`` (None: that of the serial schedule, the queued jobs one by one after the
        last running one); a job that cannot makes the model infeasible.
        """
        from ortools.sat.python import cp_model

        cp = cp_model.CpModel()
        durations: list[int] = instance.queued.duration.tolist()
        if horizon is None:
            horizon = int(instance.running.remaining.max(initial=0)) + sum(durations)
        starts = [cp.new_int_var(0, max(horizon - d, 0), "") for d in durations]
        if horizon < max(durations, default=0):
            cp.add_bool_or([])  # no plan ends by then
        intervals = [cp.new_fixed_size_interval_var(s, d, "") for s, d in zip(starts, durations, strict=True)]
        model = cls(instance, cp, starts, intervals, horizon)
        for limit in amount_limits(instance):
            model._limit(limit)
        return model

    def _limit(self, limit: PoolLimit) -> None:
        """Limit jobs and the amounts held by running ones, until their ends, to a total at every time."""
        demands: list[int] = limit.asked.tolist()
        ends, amounts = boxes_by_end(limit.remaining, limit.held)
        if not any(demands) or sum(demands) + sum(amounts) <= limit.total:
            return
        asking = [(i, demand) for i, demand in zip(self.intervals, demands, strict=True) if demand]
        intervals, heights = self._boxes(ends, amounts, limit.total)
        intervals += [interval for interval, _ in asking]
        self.cp.add_cumulative(intervals, heights + [demand for _, demand in asking], limit.total)

    def _boxes(self, ends: list[int], amounts: list[int], total: int) -> tuple[list[IntervalVar], list[int]]:
        """Return fixed intervals and their heights for amounts held until their ends.

        Running jobs may hold more than the total, where a cap has fallen; then nothing is free, and no less.
        """
        make = self.cp.new_fixed_size_interval_var
        if sum(amounts) <= total:
            return [make(0, end, "") for end in ends], amounts
        left = np.cumsum(amounts[::-1])[::-1]
        lengths = np.diff(ends, prepend=0).tolist()
        boxes = [make(end - length, length, "") for end, length in zip(ends, lengths, strict=True)]
        return boxes, np.minimum(left, total).tolist()

    def limit_power(self, places: list[PowerOfPlaces] | None = None) -> None:
        """Constrain power by a cap, where nodes add unequal power.

        ``places`` is the power of each job by its nodes. None: its nodes are not in the model, which then has
        only the limits of :func:`~mlsim.batch.cp.plan.pool_limits`; they forbid no plan.
        """
        power, measure = self.instance.power, self.power_measure
        if not power:
            return
        for limit in pool_limits(self.instance, self.horizon):
            self._limit(limit)
        if places is None:
            return
        # Rounded up, so that nothing is above the cap.
        held, total = -(-power.held // measure), power.capacity // measure
        least = (power.least // measure).tolist()
        added = [self._added(of_job, low, total) for of_job, low in zip(places, least, strict=True)]
        fixed, heights = self._boxes(*boxes_by_end(power.remaining, held), total)
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
        return -(-power.of_node * int(power.counts[job]) // self.power_measure)

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


# Calls of CP-SAT


class Status(StrEnum):
    """The result of a pass."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"
    EMPTY = "empty"  # no job could start: there was nothing to solve


@dataclass(frozen=True, slots=True)
class Control:
    """Time limits and mode of a search."""

    limit: float = 1.0  # first limit (s); with `deterministic` converted to CP-SAT's deterministic time
    last_limit: float = 16.0  # last limit (s), likewise
    patience: int = 2  # extensions in a row without improvement after which the search ends
    deterministic: bool = True  # one worker, fixed seed, deterministic time: the same answer on every machine
    seed: int = 0
    workers: int = 1  # threads of CP-SAT if not deterministic
    pace: float = 1.0  # deterministic time per second at least, with the models at hand

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
    values: Ints | None  # the value of each variable, by index; None without a solution
    objective: float  # in the units of the model; NaN without a solution
    bound: float  # likewise
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


_SECONDS_A_PAIR = 3e-7  # presolve: it grows with about the square of variables and constraints


def _presolving(model: CpModel) -> float:
    """Return the longest time of CP-SAT's presolve (s), which ignores limits."""
    parts = len(model.proto.variables) + len(model.proto.constraints)
    return _SECONDS_A_PAIR * parts * parts


NO_PRESOLVE = {"cp_model_presolve": False, "cp_model_probing_level": 0, "symmetry_level": 0}


def _skip_presolve(solver: Any) -> None:
    """Search a model without presolve, which would exceed the limit."""
    for name, value in NO_PRESOLVE.items():
        setattr(solver.parameters, name, value)


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
    presolve = _presolving(model)
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
            # The extension has found none: the solution before it stays.
            proved = Status.OPTIMAL if status is Status.INFEASIBLE else Status.FEASIBLE
            branches, conflicts = answer.branches, answer.conflicts
            answer = Answer(proved, best.values, best.objective, best.bound, branches, conflicts, extensions)
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
            hint = model.proto.solution_hint
            hint.vars.clear()
            hint.values.clear()
            hint.vars.extend(range(len(best.values)))
            hint.values.extend(best.values.tolist())


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
    if _presolving(model) > 0.5 * control.limit:
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
