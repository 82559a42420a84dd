"""``lists``: list schedules on classes of nodes; ``cp`` continues from there.

A pass goes through these steps and ends at the first that settles it:

1. nothing can start now: nothing is planned;
2. list schedules in a few orders, the order of the plan before among them; the best is the plan. If every
   job in it starts as early as it could alone, no plan is better.

Where estimates can be trusted, jobs are placed around each other in time, so a wide job has its start
reserved; elsewhere only the one that has waited longest for its estimate has. One that has waited longer
than ``patience`` comes first in every order until it starts, so that nothing delays it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.cp.class_profiles import (
    NEVER,
    Demands,
    Profiles,
    Ranks,
    alone,
    is_pool,
    list_schedule,
    pool_of,
    profiles_of,
    reset,
    start_more,
    whole_of,
    work_space,
)
from mlsim.batch.cp.cp_solve import Control, Status
from mlsim.batch.cp.experience import Experience
from mlsim.batch.cp.instance import Instance
from mlsim.batch.cp.plan import LATER, Plan, Reduced, least_makespan, needed_resources
from mlsim.batch.cp.planner import Solve, place_by_best_fit
from mlsim.batch.cp.unit_packing import Kinds, first_that_fit, kinds_of

_SHORTEST = 10.0  # seconds below which bounded slowdown does not count how short a job is
_LONG_WAIT = 0.5  # wait over estimate from which a job's start is kept though estimates are wrong
_MANY_SHORTER = 0.125
"""Share of arrivals 90 times shorter from which a job stays off reserved nodes, where estimates are right."""

_BY_SECONDS = ("wait", "makespan")  # goals for which a short job counts no more than a long one

Goal = str


@dataclass(frozen=True, slots=True)
class CpOptions:
    """Options of the dispatchers ``lists`` and ``cp``."""

    goal: Goal = "slowdown"
    """``slowdown``, ``bounded-slowdown`` or ``wait``: the mean that is minimised; or ``makespan``."""
    by_size: bool = False  # whether jobs weigh by the resources that they ask for
    headroom: float = 0.05
    """Share of the pool that long jobs leave free for much shorter ones, if estimates can be trusted."""
    reserve: float = 0.2
    """Share of the nodes with a scarce type that is kept for jobs that ask for it, if all do."""
    patience: float = 432_000.0  # seconds after which a waiting job comes first
    solve_jobs: int = 0  # `cp` uses CP-SAT up to this many jobs; 0: never


@dataclass(slots=True)
class Found:
    """The best plan of a pass so far."""

    order: Ints  # jobs in the order of placement
    starts: Ints  # int64[n]: the start of each job
    cost: float  # sum of weight x start, or the makespan
    earliest: Ints  # int64[n]: the earliest start of each job alone
    bound: float  # lower bound on the cost of any plan
    counts: dict[str, Any] = field(default_factory=dict)  # statistics of CP-SAT

    @property
    def status(self) -> Status:
        """Return whether the plan is proved optimal."""
        best = self.cost <= self.bound * (1 + 1e-9) + 1e-12
        return Status.OPTIMAL if best else Status.FEASIBLE


@dataclass(frozen=True, slots=True)
class Others:
    """Waiting jobs that are not planned for: those that fit start now, around the plan."""

    instance: Instance  # the instance of the pass
    rows: Ints  # rows of these jobs there
    tried: Ints  # rows of those that would fit now alone, at most as many as are planned for
    part: Instance  # the instance with these queued, and the resource types of the task
    jobs: Demands
    keep_free: Floats


@dataclass(slots=True)
class Task:
    """An instance in the form that list scheduling works on."""

    reduced: Reduced
    base: Profiles
    pooled: bool
    jobs: Demands
    ranks: Ranks
    scarcity: Floats
    power: Ints  # power of nodes of each kind, where a cap counts it node by node
    fixed: int
    work: Profiles
    whole: Profiles  # machine-wide amounts; `base` has those of nodes
    whole_work: Profiles
    others: Others | None = None

    @property
    def makespan(self) -> bool:
        """Whether the makespan is minimised."""
        return self.ranks.makespan

    def schedule(self, order: Ints, starts: Ints, nodes: Ints, bound: float = math.inf) -> float:
        """List-schedule the jobs in an order and return the cost of the schedule."""
        reset(self.base, self.work)
        reset(self.whole, self.whole_work)
        return float(
            list_schedule(
                order,
                self.jobs,
                self.ranks,
                self.scarcity,
                self.power,
                bound,
                self.work,
                self.whole_work,
                starts,
                nodes,
            )
        )

    def start_others(self, nodes: Ints) -> NDArray[np.bool_]:
        """Start others in what the last list schedule has left; return a mask of those that start.

        ``nodes`` receives the nodes of their units, unless it is empty.
        """
        assert self.others is not None
        began: NDArray[np.bool_] = start_more(
            self.others.jobs,
            self.others.keep_free,
            self.scarcity,
            self.power,
            self.work,
            self.whole_work,
            nodes,
        )
        return began

    def cost(self, starts: Ints) -> float:
        """Return the cost of a plan with these starts."""
        if self.makespan:
            return float((starts + self.jobs.durations).max())
        return float(self.ranks.weights @ starts)

    def least(self, earliest: Ints) -> float:
        """Return a lower bound on the cost of plans, given the earliest start of each job."""
        least = self.cost(earliest)
        if self.makespan and self.ranks.keep_start.all():  # else jobs are planned over each other
            least = max(least, float(least_makespan(self.reduced.instance)))
        return least


class Lists:
    """Plans by list schedules, for the ``most_jobs`` of the smallest share x duration.

    Without experience of earlier passes, no room is left free.
    """

    name: ClassVar[str] = "lists"

    def __init__(
        self,
        control: Control,
        most_jobs: int = 100,
        options: CpOptions | None = None,
        experience: Experience | None = None,
    ) -> None:
        self.control = control
        self.most_jobs = most_jobs
        self.options = options or CpOptions()
        self.experience = experience
        self._rank: dict[int, int] = {}  # of each job in the plan before

    def plan(self, instance: Instance) -> tuple[Plan, Solve]:
        """Plan an instance."""
        began = time.perf_counter()
        queued = instance.queued
        n = len(queued)
        order = np.flatnonzero(instance.shared.fits_now(n))
        if not len(first_that_fit(order, 1, instance)):
            return Plan.empty(n), Solve(n, build_seconds=time.perf_counter() - began)
        task = self._task(instance)
        ready = time.perf_counter()
        plan, solve_ = self._search(task)
        done = replace(
            solve_,
            queued=n,
            considered=len(task.jobs.units),
            started=len(plan.starting()),
            build_seconds=ready - began,
            solve_seconds=time.perf_counter() - ready,
        )
        return plan, done

    # What to plan for

    def _task(self, instance: Instance) -> Task:
        queued = instance.queued
        share = _shares(instance)
        waited = instance.now - queued.arrival
        makespan = self.options.goal == "makespan"
        area = share * queued.duration
        order = np.lexsort((queued.arrival, -area if makespan else area))
        patient = np.flatnonzero(waited > self.options.patience)
        fixed = 0
        if len(patient):
            first = patient[np.argmax(waited[patient])]
            order = np.concatenate(([first], order[order != first]))
            fixed = 1
        seen = self.visible(order)
        part = instance.with_queued(seen)
        part = part.without_resources(needed_resources(part))
        running = part.running
        kinds = self._kinds(instance, seen)
        pooled = is_pool(part) and not kinds.dislike.any() and not part.power
        base = (
            pool_of(part, running.remaining) if pooled else profiles_of(part, running.remaining, kinds.kind)
        )
        capacity = part.capacity.sum(axis=0)
        if pooled:
            capacity = capacity // part.queued.request[0]
        planned = self.planned(len(seen), base.n_classes)
        others = None
        if len(planned) < len(seen):
            others = self._others(instance, part, seen, planned, kinds, pooled, capacity)
            part = part.with_queued(planned)
        rows = seen[planned]
        jobs = part.queued
        demands = _demands(part, kinds, planned, pooled)
        weights = self._weights(jobs.duration, share[rows])
        whole = whole_of(part.shared, part.power)
        most = len(rows) + (len(others.tried) if others else 0)
        return Task(
            Reduced(part, rows, len(queued)),
            base,
            pooled,
            demands,
            Ranks(
                weights,
                self._keep_free(jobs.duration, demands.requests, jobs.units, capacity, fixed),
                self._keep_start(jobs.duration, instance.now - jobs.arrival, fixed),
                makespan,
            ),
            1.0 / np.maximum(capacity, 1),
            kinds.power,
            fixed,
            work_space(base, most),
            whole,
            work_space(whole, most),
            others,
        )

    def visible(self, order: Ints) -> Ints:
        """Return the waiting jobs that are considered, in their order."""
        return order[: self.most_jobs]

    def planned(self, n: int, _n_classes: int) -> Ints:
        """Return the places of the considered jobs that are planned for, ascending: all."""
        return np.arange(n)

    def _others(
        self,
        instance: Instance,
        part: Instance,
        seen: Ints,
        planned: Ints,
        kinds: Kinds,
        pooled: bool,
        capacity: Ints,
    ) -> Others:
        """Find the jobs that may start besides the planned ones; ``part`` has all that are considered."""
        queued = part.queued
        left = np.setdiff1d(np.arange(len(seen)), planned)
        could = left[part.shared.fits_now(len(queued))[left]]
        tried = first_that_fit(could, len(planned), part)
        theirs = part.with_queued(tried)
        jobs = _demands(theirs, kinds, tried, pooled)
        keep_free = self._keep_free(jobs.durations, jobs.requests, jobs.units, capacity, 0)
        return Others(instance, seen[left], seen[tried], theirs, jobs, keep_free)

    def _kinds(self, instance: Instance, rows: Ints) -> Kinds:
        """Return the classes of nodes, by their resource types and by reservation for jobs."""
        queued, experience = instance.queued, self.experience
        n = len(rows)
        if experience is None:
            return kinds_of(instance, rows, np.zeros(len(instance.resources) + 1), 0.0, np.zeros(n, np.bool_))
        yields = instance.now - queued.arrival[rows] <= self.options.patience
        if experience.trust > 0:
            yields &= experience.share_much_shorter(queued.duration[rows]) >= _MANY_SHORTER
        asked = experience.asked(len(instance.resources))
        return kinds_of(instance, rows, asked, self.options.reserve, yields)

    @property
    def _trusted(self) -> bool:
        return self.experience is None or self.experience.trust > 0

    def _keep_start(self, duration: Ints, waited: Floats, fixed: int) -> NDArray[np.bool_]:
        """Return the jobs that keep their planned start as a reservation, if they cannot start now.

        All, where estimates can be trusted. Elsewhere the times in a plan are little more than a guess, and
        only the job with the longest wait over estimate, from a half on, keeps its start.
        """
        keep = np.full(len(duration), self._trusted)
        late = waited / duration
        if not self._trusted and late.max() >= _LONG_WAIT:
            keep[np.argmax(late)] = True
        keep[:fixed] = True
        return keep

    def _weights(self, duration: Ints, share: Floats) -> Floats:
        """Return the cost of a second of waiting of each job."""
        goal = self.options.goal
        if goal in _BY_SECONDS:
            weights = np.ones(len(duration))
        else:
            weights = 1.0 / np.maximum(duration, _SHORTEST if goal == "bounded-slowdown" else 1.0)
        return weights * share if self.options.by_size else weights

    def _keep_free(self, duration: Ints, requests: Ints, units: Ints, capacity: Ints, fixed: int) -> Floats:
        """Return the headroom: the amount of each type that each job must leave free to start now."""
        experience, headroom = self.experience, self.options.headroom
        if experience is None or not headroom or self.options.goal in _BY_SECONDS:
            return np.zeros(requests.shape)
        rate = headroom * experience.trust * np.minimum(4 * experience.share_much_shorter(duration), 1.0)
        rate[:fixed] = 0.0
        keep = rate[:, None] * np.where(requests > 0, capacity, 0)
        # A job that needs nearly all there is starts when all the rest is free.
        rest: Floats = np.minimum(keep, np.maximum(capacity - requests * units[:, None], 0.0))
        return rest

    # Search

    def _search(self, task: Task) -> tuple[Plan, Solve]:
        earliest = alone(task.jobs, task.power, task.base, task.whole)
        if (earliest >= NEVER).any():
            return self._without(task, earliest < NEVER)
        found = self._best_list(task, earliest)
        if found.status is not Status.OPTIMAL:
            self.improve(task, found)
        plan = self._placed(task, found.order, found.starts)
        if found.status is not Status.OPTIMAL:
            plan = self.place_exactly(task, plan, found)
        jobs = task.reduced.instance.queued.job_id
        self._rank = {int(jobs[k]): place for place, k in enumerate(found.order.tolist())}
        before = self._cost_so_far(task)
        bound = before + min(found.bound, found.cost)
        return plan, Solve(0, status=found.status, objective=before + found.cost, bound=bound, **found.counts)

    def _cost_so_far(self, task: Task) -> float:
        """Return the objective without weight x start: waits so far, and run times in slowdowns."""
        if task.makespan:
            return 0.0
        part = task.reduced.instance
        waited = part.now - part.queued.arrival
        if self.options.goal != "wait":
            waited = waited + part.queued.duration
        return float(task.ranks.weights @ waited)

    def _best_list(self, task: Task, earliest: Ints) -> Found:
        """Return the cheapest of the list schedules by a few orders."""
        n = len(task.jobs.units)
        jobs = task.reduced.instance.queued.job_id.tolist()
        before = np.array([self._rank.get(job, n) for job in jobs])
        keys = [*_order_keys(task), before.astype(np.float64)]
        starts, no_nodes = np.empty(n, np.int64), np.empty(0, np.int64)
        found = None
        for key in keys:
            key[: task.fixed] = -np.inf
            order = np.argsort(key, kind="stable")
            cost = task.schedule(order, starts, no_nodes, found.cost if found else math.inf)
            if found is None or cost < found.cost:
                found = Found(order, starts.copy(), cost, earliest, task.least(earliest))
        assert found is not None
        return found

    def improve(self, _task: Task, _found: Found) -> None:
        """Improve the plan that was found; without a solver nothing is done."""

    def place_exactly(self, _task: Task, plan: Plan, _found: Found) -> Plan:
        """Return a plan that costs no more; without a solver it is the same."""
        return plan

    def _placed(self, task: Task, order: Ints, starts: Ints) -> Plan:
        """Return the plan with nodes allocated to the jobs that start now."""
        part = task.reduced.instance
        if task.pooled:
            if task.others is not None:
                return self._with_others_on_pool(task, order, starts)
            return task.reduced.widen(Plan(starts, place_by_best_fit(part, starts)))
        now = order[starts[order] == 0]
        nodes = np.empty(int(task.jobs.units[now].sum()), np.int64)
        task.schedule(order, starts, nodes)
        plan = task.reduced.widen(Plan(starts, _nodes_by_job(len(starts), now, task.jobs.units, nodes)))
        if task.others is None:
            return plan
        also = np.empty(int(task.others.jobs.units.sum()), np.int64)
        begun = task.start_others(also)
        return _both(
            plan,
            task.others,
            begun,
            _nodes_by_job(len(begun), np.flatnonzero(begun), task.others.jobs.units, also),
        )

    def _with_others_on_pool(self, task: Task, order: Ints, starts: Ints) -> Plan:
        """Return the plan with nodes for all jobs that start now, others included, as the pool decides."""
        others, no_nodes = task.others, np.empty(0, np.int64)
        assert others is not None
        task.schedule(order, starts, no_nodes)
        begun = task.start_others(no_nodes)
        rows = np.concatenate((task.reduced.rows, others.tried))
        both = others.instance.with_queued(rows).without_resources(
            np.array([others.instance.resources.index(name) for name in others.part.resources])
        )
        all_starts = np.concatenate((starts, np.where(begun, 0, LATER)))
        return Reduced(both, rows, task.reduced.whole).widen(
            Plan(all_starts, place_by_best_fit(both, all_starts))
        )

    def _without(self, task: Task, possible: NDArray[np.bool_]) -> tuple[Plan, Solve]:
        """Plan without the jobs that do not fit even when all running jobs have ended: nodes are down."""
        kept = np.flatnonzero(possible)
        part = task.reduced.instance.with_queued(kept)
        rows = task.reduced.rows[kept]
        if task.others is not None:
            rows = np.sort(np.concatenate((rows, task.others.rows)))
            part = task.others.instance.with_queued(rows)
        if not len(rows):
            return Plan.empty(task.reduced.whole), Solve(0, status=Status.EMPTY)
        plan, done = self.plan(part)
        return Reduced(part, rows, task.reduced.whole).widen(plan), done


def _demands(part: Instance, kinds: Kinds, rows: Ints, pooled: bool) -> Demands:
    """Return the requests of queued jobs, in slots on a pool; ``rows`` are their places in ``kinds``."""
    jobs, n = part.queued, len(part.queued)
    requests = np.ones_like(jobs.request) if pooled else jobs.request
    asked = part.shared.asked_by(n)
    if part.power:  # what a job adds is found where it is placed
        asked = np.column_stack((asked, np.zeros(n, np.int64)))
    counts = part.power.counts_of(n)
    return Demands(jobs.units, jobs.duration, requests, kinds.dislike[rows], asked, counts)


def _nodes_by_job(n: int, now: Ints, units: Ints, nodes: Ints) -> tuple[Ints | None, ...]:
    """Return the nodes of each of ``n`` jobs, of which those that start now have ``nodes``, job after job."""
    chosen: list[Ints | None] = [None] * n
    at = 0
    for k in now.tolist():
        chosen[k] = nodes[at : at + int(units[k])]
        at += int(units[k])
    return tuple(chosen)


def _both(plan: Plan, others: Others, begun: NDArray[np.bool_], nodes: tuple[Ints | None, ...]) -> Plan:
    """Add the starts of jobs that are not planned for to a plan."""
    start, chosen = plan.start.copy(), list(plan.nodes)
    for k in np.flatnonzero(begun).tolist():
        row = int(others.tried[k])
        start[row], chosen[row] = 0, nodes[k]
    return Plan(start, tuple(chosen))


def _shares(instance: Instance) -> Floats:
    """Return each job's dominant share: the largest fraction of any amount that it requests."""
    capacity = np.maximum(instance.capacity.sum(axis=0), 1)
    shares: Floats = (instance.queued.request * instance.queued.units[:, None] / capacity).max(axis=1)
    return np.maximum(shares, _share_of_whole(instance))


def _share_of_whole(instance: Instance) -> Floats:
    """Return the largest fraction that each job requests of machine-wide amounts and of power."""
    shares, power = instance.shared.dominant(len(instance.queued)), instance.power
    return np.maximum(shares, power.shares()) if power else shares


def _order_keys(task: Task) -> list[Floats]:
    """Return keys of the orders in which jobs are scheduled, smallest first."""
    durations = task.jobs.durations.astype(np.float64)
    share = (task.jobs.requests * task.jobs.units[:, None] * task.scarcity).max(axis=1, initial=0.0)
    share = np.maximum(share, _share_of_whole(task.reduced.instance))
    if task.makespan:  # what is long, large or wide first, as little is left to fill gaps at the end
        return [-durations, -share * durations, -share]
    # Smith's rule for the cost of waiting a machine-second, and the same without the duration.
    return [share / task.ranks.weights, share * durations / task.ranks.weights]
