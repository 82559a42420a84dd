"""The base of planners: reduce, build, solve, place, and record the solve."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.cp.cp_model import SAME_COST, SECONDS_A_PART, Scheduling, building, overstated
from mlsim.batch.cp.cp_solve import Answer, Control, Status, solve
from mlsim.batch.cp.instance import Instance
from mlsim.batch.cp.plan import LATER, Plan, Reduced, objective_of, reduce
from mlsim.batch.cp.unit_packing import Placing

if TYPE_CHECKING:
    from mlsim.batch.cp.instance import Queued


ReadNodes = Callable[[Ints], tuple[Ints | None, ...]]
"""Returns the nodes of each job from the values of all variables."""


@dataclass(frozen=True, slots=True)
class Solve:
    """Statistics of one pass."""

    queued: int
    """Waiting jobs."""
    considered: int = 0
    """Jobs in the model."""
    started: int = 0
    """Jobs that start now."""
    variables: int = 0
    """Of the model."""
    constraints: int = 0
    """Of the model."""
    branches: int = 0
    conflicts: int = 0
    extensions: int = 0
    """Doublings of the search's limit."""
    status: Status = Status.EMPTY
    objective: float = float("nan")
    """Sum of the expected slowdowns of the jobs in the plan; NaN without a plan."""
    bound: float = float("nan")
    """Proved bound on the objective; NaN without a plan, and for versions 1 and 2, whose objective is
    another.
    """
    build_seconds: float = 0.0
    """Wall-clock time of building the model."""
    solve_seconds: float = 0.0
    """Wall-clock time of solving."""
    fallback: bool = False
    """Whether EASY decided because there was no solution."""
    unplaced: int = 0
    """Jobs that the model starts now but for which no nodes were found."""


class AnyPlanner(Protocol):
    """A planner."""

    def plan(self, instance: Instance) -> tuple[Plan, Solve]:
        """Return a plan and its statistics; with status UNKNOWN or INFEASIBLE the plan is empty."""
        ...


@dataclass(frozen=True, slots=True)
class Built:
    """A model that is ready to be solved."""

    scheduling: Scheduling
    """Start times and capacities."""
    read: ReadNodes | None
    """Reads the nodes of jobs; None if the model places no jobs."""
    fixed_search: bool
    """Whether to branch by the model's decision strategy."""
    scale: float
    """Of the weights in the objective."""


class Planner(ABC):
    """Base of planners: subclasses make the model; ``most_jobs`` (m) is its largest number of jobs."""

    name: ClassVar[str]
    pace: ClassVar[float]
    """Deterministic time per second at least, measured as :mod:`.cp_model` describes."""
    of_slowdowns: ClassVar[bool] = True
    """Whether the model minimises the sum of slowdowns."""
    part_seconds: ClassVar[float] = SECONDS_A_PART
    """Seconds to make a variable or a constraint of the model."""

    def __init__(self, control: Control, most_jobs: int = 100) -> None:
        self.control = replace(control, pace=self.pace)
        self.most_jobs = most_jobs

    def priority(self, instance: Instance) -> Floats:
        """Return the priority of each queued job; larger goes first."""
        return instance.priority()

    def weights(self, queued: Queued) -> Floats:
        """Return the cost of a second of waiting: 1 / d, so that the objective is the sum of slowdowns."""
        weights: Floats = 1.0 / queued.duration
        return weights

    def parts(self, instance: Instance) -> Floats:
        """Return the approximate number of variables and constraints per queued job."""
        return np.full(len(instance.queued), 4.0)

    def _affordable(self, reduced: Reduced) -> Reduced:
        """Keep the first jobs whose model is built within half of the last limit; at least one."""
        computed = building(np.cumsum(self.parts(reduced.instance)), self.part_seconds)
        most = max(int(np.searchsorted(computed, 0.5 * self.control.last_limit, side="right")), 1)
        if most >= len(reduced.rows):
            return reduced
        first = np.arange(most)
        return Reduced(reduced.instance.with_queued(first), reduced.rows[first], reduced.whole)

    @abstractmethod
    def build(self, instance: Instance) -> Built:
        """Make the model of a reduced instance."""

    def plan(self, instance: Instance) -> tuple[Plan, Solve]:
        """Plan an instance; a status of UNKNOWN or INFEASIBLE comes with an empty plan."""
        began = time.perf_counter()
        n = len(instance.queued)
        reduced = reduce(instance, self.most_jobs, self.priority(instance))
        if not len(reduced.rows):
            return Plan.empty(n), Solve(n, build_seconds=time.perf_counter() - began)
        reduced = self._affordable(reduced)
        built = self.build(reduced.instance)
        ready = time.perf_counter()
        proto = built.scheduling.cp.proto
        computed = building(len(proto.variables) + len(proto.constraints), self.part_seconds)
        answer = solve(built.scheduling.cp, self.control.after(ready - began, computed), built.fixed_search)
        plan, unplaced = self._read(reduced, built, answer)
        done = Solve(
            queued=n,
            considered=len(reduced.rows),
            started=len(plan.starting()),
            variables=len(proto.variables),
            constraints=len(proto.constraints),
            branches=answer.branches,
            conflicts=answer.conflicts,
            extensions=answer.extensions,
            status=answer.status,
            build_seconds=ready - began,
            solve_seconds=time.perf_counter() - ready,
            unplaced=unplaced,
        )
        if answer.values is None:
            return plan, done
        starts = self._starts(built, answer)
        value = objective_of(reduced.instance, starts)
        done = replace(done, objective=value)
        if not self.of_slowdowns:
            return plan, done
        bound = value - self._gap(built, answer, starts)
        proved = answer.status is Status.OPTIMAL and value - bound <= SAME_COST * value
        return plan, replace(done, bound=bound, status=Status.OPTIMAL if proved else Status.FEASIBLE)

    def _gap(self, built: Built, answer: Answer, starts: Ints) -> float:
        """Return an upper bound on the saving of any other plan."""
        queued = built.scheduling.instance.queued
        weights = self.weights(queued)
        cost = float(weights @ starts)
        # Who starts later costs more alone than the whole of this plan.
        latest = np.minimum(cost / weights, np.maximum(built.scheduling.horizon - queued.duration, 0))
        bound = answer.bound / built.scale - overstated(weights, built.scale, latest)
        return max(cost - bound, 0.0)

    def _starts(self, built: Built, answer: Answer) -> Ints:
        assert answer.values is not None
        return answer.values[[start.index for start in built.scheduling.starts]]

    def _read(self, reduced: Reduced, built: Built, answer: Answer) -> tuple[Plan, int]:
        """Return the plan of a solution, and the number of its jobs without nodes."""
        if answer.values is None:
            return Plan.empty(reduced.whole), 0
        starts = self._starts(built, answer)
        if built.read is not None:
            return reduced.widen(Plan(starts, built.read(answer.values))), 0
        nodes = place_by_best_fit(reduced.instance, starts)
        unplaced = [k for k in np.flatnonzero(starts == 0).tolist() if nodes[k] is None]
        starts[unplaced] = LATER
        return reduced.widen(Plan(starts, nodes)), len(unplaced)


def place_by_best_fit(instance: Instance, starts: Ints) -> tuple[Ints | None, ...]:
    """Return best-fit nodes for the jobs that start now, in their order; None for a job that does not fit."""
    queued = instance.queued
    room = Placing(instance.free.copy(), 1.0 / np.maximum(instance.capacity.sum(axis=0), 1), instance.power)
    nodes: list[Ints | None] = [None] * len(queued)
    for k in np.flatnonzero(starts == 0).tolist():
        nodes[k] = room.place(k, int(queued.units[k]), queued.request[k])
    return tuple(nodes)
