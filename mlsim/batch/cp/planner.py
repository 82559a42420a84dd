"""The base of planners by CP-SAT, HCP'19: reduce, build, solve, place, and record the solve."""

import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.cp.cp_solve import SAME_COST, Answer, Control, Scheduling, Status, overstated, solve
from mlsim.batch.cp.instance import Instance, Queued
from mlsim.batch.cp.plan import LATER, Plan, Reduced, objective_of, reduce
from mlsim.batch.cp.unit_packing import Placing


@dataclass(frozen=True, slots=True)
class Solve:
    """Statistics of one pass."""

    queued: int  # waiting jobs
    considered: int = 0  # jobs in the model
    started: int = 0  # jobs that start now
    variables: int = 0  # of the model
    constraints: int = 0  # of the model
    branches: int = 0
    conflicts: int = 0
    extensions: int = 0  # doublings of the search's limit
    status: Status = Status.EMPTY
    objective: float = float("nan")  # sum of the expected slowdowns of the jobs in the plan; NaN without one
    # Proved bound on the objective; NaN without a plan, and for versions 1 and 2, whose objective is another.
    bound: float = float("nan")
    build_seconds: float = 0.0  # wall-clock time of building the model
    solve_seconds: float = 0.0  # wall-clock time of solving
    fallback: bool = False  # whether EASY decided because there was no solution
    unplaced: int = 0  # jobs that the model starts now but for which no nodes were found


class AnyPlanner(Protocol):
    """A planner."""

    def plan(self, instance: Instance) -> tuple[Plan, Solve]:
        """Return a plan and its statistics; with status UNKNOWN or INFEASIBLE the plan is empty."""
        ...


class Places(Protocol):
    """The places of units in a model."""

    def read(self, values: Ints) -> tuple[Ints | None, ...]:
        """Return the nodes allocated to each job, from the values of all variables."""
        ...


class Planner:
    """HCP'19: times on pooled resources; a job that then finds no nodes waits for the next pass.

    ``most_jobs`` (m) is the largest number of jobs of a model. Subclasses change parts of it.
    """

    name: ClassVar[str] = "hcp19"
    pace: ClassVar[float] = 0.1  # deterministic time per second at least, as `tools/bench/cp_limits.py` finds
    of_slowdowns: ClassVar[bool] = True  # whether the model minimises the sum of slowdowns
    fixed_search: ClassVar[bool] = True  # whether CP-SAT branches as `search` says
    # Seconds to make a variable or a constraint, and CP-SAT's reading it; more where constraints have many
    # terms.
    part_seconds: ClassVar[float] = 10e-6

    def __init__(self, control: Control, most_jobs: int = 100) -> None:
        self.control = replace(control, pace=self.pace)
        self.most_jobs = most_jobs

    def priority(self, instance: Instance) -> Floats:
        """Return the priority of each queued job; larger goes first."""
        return instance.priority()

    def weights(self, queued: Queued) -> Floats:
        """Return the cost of a second of waiting: 1 / d, so that the objective is the sum of slowdowns."""
        return 1.0 / queued.duration

    def after(self, _instance: Instance) -> Floats | None:
        """Return until when waiting costs nothing (s from now per queued job); None: it always costs."""
        return None

    def parts(self, instance: Instance) -> Floats:
        """Return the approximate number of variables and constraints per queued job."""
        return np.full(len(instance.queued), 4.0)

    def horizon(self, _instance: Instance) -> int | None:
        """Return the end of all plans (s from now); None: that of the serial schedule."""
        return None

    def place(self, model: Scheduling) -> Places | None:
        """Add the places of units. None: each job counts with the least power that it can add."""
        model.limit_power()
        return None

    def search(self, model: Scheduling, _places: Any) -> None:
        """Set the order of branching."""
        model.search_by_priority()

    def _affordable(self, reduced: Reduced) -> Reduced:
        """Keep the first jobs whose model is built within half of the last limit; at least one."""
        computed = self.part_seconds * np.cumsum(self.parts(reduced.instance))
        most = max(int(np.searchsorted(computed, 0.5 * self.control.last_limit, side="right")), 1)
        if most >= len(reduced.rows):
            return reduced
        first = np.arange(most)
        return Reduced(reduced.instance.with_queued(first), reduced.rows[first], reduced.whole)

    def plan(self, instance: Instance) -> tuple[Plan, Solve]:
        """Plan an instance; a status of UNKNOWN or INFEASIBLE comes with an empty plan."""
        began = time.perf_counter()
        n = len(instance.queued)
        reduced = reduce(instance, self.most_jobs, self.priority(instance))
        if not len(reduced.rows):
            return Plan.empty(n), Solve(n, build_seconds=time.perf_counter() - began)
        reduced = self._affordable(reduced)
        part = reduced.instance
        model = Scheduling.of(part, self.horizon(part))
        places = self.place(model)
        scale = model.minimize(self.weights(part.queued), self.after(part))
        if self.fixed_search:
            self.search(model, places)
        ready = time.perf_counter()
        variables, constraints = len(model.cp.proto.variables), len(model.cp.proto.constraints)
        control = self.control.after(ready - began, self.part_seconds * (variables + constraints))
        answer = solve(model.cp, control, self.fixed_search)
        values = answer.values
        starts = None if values is None else values[[start.index for start in model.starts]]
        plan, unplaced = self._plan_of(reduced, places, values, starts)
        done = Solve(
            queued=n,
            considered=len(reduced.rows),
            started=len(plan.starting()),
            variables=variables,
            constraints=constraints,
            branches=answer.branches,
            conflicts=answer.conflicts,
            extensions=answer.extensions,
            status=answer.status,
            build_seconds=ready - began,
            solve_seconds=time.perf_counter() - ready,
            unplaced=unplaced,
        )
        if starts is None:
            return plan, done
        value = objective_of(part, starts)
        done = replace(done, objective=value)
        if not self.of_slowdowns:
            return plan, done
        bound = value - self._gap(model, scale, answer, starts)
        proved = answer.status is Status.OPTIMAL and value - bound <= SAME_COST * value
        return plan, replace(done, bound=bound, status=Status.OPTIMAL if proved else Status.FEASIBLE)

    def _plan_of(
        self, reduced: Reduced, places: Places | None, values: Ints | None, starts: Ints | None
    ) -> tuple[Plan, int]:
        """Return the plan of a solution, and the number of its jobs without nodes."""
        if values is None or starts is None:
            return Plan.empty(reduced.whole), 0
        if places is not None:
            return reduced.widen(Plan(starts, places.read(values))), 0
        nodes = place_by_best_fit(reduced.instance, starts)
        unplaced = [k for k in np.flatnonzero(starts == 0).tolist() if nodes[k] is None]
        starts = starts.copy()
        starts[unplaced] = LATER
        return reduced.widen(Plan(starts, nodes)), len(unplaced)

    def _gap(self, model: Scheduling, scale: float, answer: Answer, starts: Ints) -> float:
        """Return an upper bound on the saving of any other plan."""
        queued = model.instance.queued
        weights = self.weights(queued)
        cost = float(weights @ starts)
        # Who starts later costs more alone than the whole of this plan.
        latest = np.minimum(cost / weights, np.maximum(model.horizon - queued.duration, 0))
        bound = answer.bound / scale - overstated(weights, scale, latest)
        return max(cost - bound, 0.0)


def place_by_best_fit(instance: Instance, starts: Ints) -> tuple[Ints | None, ...]:
    """Return best-fit nodes for the jobs that start now, in their order; None for a job that does not fit."""
    room = Placing(instance)
    nodes: list[Ints | None] = [None] * len(instance.queued)
    for k in np.flatnonzero(starts == 0).tolist():
        nodes[k] = room.place(k)
    return tuple(nodes)
