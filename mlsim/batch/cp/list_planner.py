"""``lists``: list schedules on classes of nodes; ``cp`` continues from there.

A pass goes through these steps and ends at the first that settles it:

1. nothing can start now: nothing is planned;
2. list schedules in a few orders, the order of the plan before among them; the best is the plan. If every
   job in it starts as early as it could alone, no plan is better.

Where estimates can be trusted, jobs are placed around each other in time, so a wide job has its start
reserved; elsewhere only the one that has waited longest for its estimate has. One that has waited longer
than ``patience`` comes first in every order until it starts, so that nothing delays it.
"""

import math
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.batch.cp import class_profiles
from mlsim.batch.cp.class_profiles import Demands, Profiles, Ranks
from mlsim.batch.cp.cp_solve import Control, Status
from mlsim.batch.cp.experience import Experience
from mlsim.batch.cp.instance import Instance
from mlsim.batch.cp.plan import LATER, Plan, Reduced, least_makespan, needed_resources
from mlsim.batch.cp.planner import Solve, place_by_best_fit
from mlsim.batch.cp.unit_packing import Kinds, first_that_fit, kinds_of
from mlsim.scenario import CpConfig
from mlsim.scenario.words import PlanGoal

_SHORTEST = 10.0  # seconds below which bounded slowdown does not count how short a job is
_LONG_WAIT = 0.5  # wait over estimate from which a job's start is kept though estimates are wrong
# Share of arrivals 90 times shorter from which a job stays off reserved nodes, where estimates are right.
_MANY_SHORTER = 0.125
_BY_SECONDS = (PlanGoal.WAIT, PlanGoal.MAKESPAN)  # goals for which a short job counts no more than a long one
_NO_NODES = np.empty(0, np.int64)


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

    def schedule(self, order: Ints, starts: Ints, nodes: Ints = _NO_NODES, bound: float = math.inf) -> float:
        """List-schedule the jobs in an order and return the cost of the schedule."""
        class_profiles.reset(self.base, self.work)
        class_profiles.reset(self.whole, self.whole_work)
        return self._schedule(order, self.jobs, self.ranks, bound, starts, nodes)

    def start_others(self, others: Others, nodes: Ints = _NO_NODES) -> Mask:
        """Start others in what the last list schedule has left; return a mask of those that start.

        ``nodes`` receives the nodes of their units, unless it is empty.
        """
        n = len(others.jobs.units)
        starts, order = np.empty(n, np.int64), np.arange(n)
        ranks = Ranks(np.zeros(n), others.keep_free, np.zeros(n, np.bool_), False, limit=1)
        self._schedule(order, others.jobs, ranks, math.inf, starts, nodes)
        begun: Mask = starts == 0
        return begun

    def _schedule(
        self, order: Ints, jobs: Demands, ranks: Ranks, bound: float, starts: Ints, nodes: Ints
    ) -> float:
        room = (self.work, self.whole_work)
        return float(
            class_profiles.list_schedule(
                order, jobs, ranks, self.scarcity, self.power, bound, *room, starts, nodes
            )
        )

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
    """Plans by list schedules, for the ``batch.cp.jobs`` of the smallest share x duration.

    Without experience of earlier passes, no room is left free.
    """

    def __init__(self, control: Control, config: CpConfig | None = None) -> None:
        self.control, self.config = control, config or CpConfig()
        self.experience: Experience | None = None
        self._rank: dict[int, int] = {}  # of each job in the plan before

    def plan(self, instance: Instance) -> tuple[Plan, Solve]:
        """Plan an instance."""
        began = time.perf_counter()
        n = len(instance.queued)
        order = np.flatnonzero(instance.shared.fits_now(n))
        if not len(first_that_fit(order, 1, instance)):
            return Plan.empty(n), Solve(n, build_seconds=time.perf_counter() - began)
        task = self._task(instance)
        ready = time.perf_counter()
        plan, solve_ = self._search(task, instance)
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
        queued, share = instance.queued, _shares(instance)
        seen, fixed = self._considered(instance, share)
        part = instance.with_queued(seen)
        part = part.without_resources(needed_resources(part))
        remaining = part.running.remaining
        kinds = self._kinds(instance, seen)
        pooled = class_profiles.is_pool(part) and not kinds.dislike.any() and not part.power
        base = (
            class_profiles.pool_of(part, remaining)
            if pooled
            else class_profiles.profiles_of(part, remaining, kinds.kind)
        )
        capacity = part.capacity.sum(axis=0)
        if pooled:
            capacity = capacity // part.queued.request[0]
        planned = self.planned(len(seen), base.n_classes)
        others = None
        if len(planned) < len(seen):
            others = self._others(instance, part, seen, planned, kinds, pooled, capacity)
            part = part.with_queued(planned)
        rows, jobs = seen[planned], part.queued
        demands = _demands(part, kinds, planned, pooled)
        whole = class_profiles.whole_of(part.shared, part.power)
        most = len(rows) + (len(others.tried) if others else 0)
        return Task(
            reduced=Reduced(part, rows, len(queued)),
            base=base,
            pooled=pooled,
            jobs=demands,
            ranks=Ranks(
                self._weights(jobs.duration, share[rows]),
                self._keep_free(demands, capacity, fixed),
                self._keep_start(jobs.duration, instance.now - jobs.arrival, fixed),
                self.config.goal is PlanGoal.MAKESPAN,
            ),
            scarcity=1.0 / np.maximum(capacity, 1),
            power=kinds.power,
            fixed=fixed,
            work=class_profiles.work_space(base, most),
            whole=whole,
            whole_work=class_profiles.work_space(whole, most),
            others=others,
        )

    def _considered(self, instance: Instance, share: Floats) -> tuple[Ints, int]:
        """Return the waiting jobs that are considered, in their order, and how many of them come first."""
        queued = instance.queued
        waited = instance.now - queued.arrival
        area = share * queued.duration
        order = np.lexsort((queued.arrival, -area if self.config.goal is PlanGoal.MAKESPAN else area))
        patient = np.flatnonzero(waited > self.config.patience)
        if not len(patient):
            return self.visible(order), 0
        first = patient[np.argmax(waited[patient])]
        return self.visible(np.concatenate(([first], order[order != first]))), 1

    def visible(self, order: Ints) -> Ints:
        """Return the waiting jobs that are considered, in their order."""
        return order[: self.config.jobs]

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
        return Others(instance, seen[left], seen[tried], theirs, jobs, self._keep_free(jobs, capacity, 0))

    def _kinds(self, instance: Instance, rows: Ints) -> Kinds:
        """Return the classes of nodes, by their resource types and by reservation for jobs."""
        queued, experience = instance.queued, self.experience
        n = len(rows)
        if experience is None:
            return kinds_of(instance, rows, np.zeros(len(instance.resources) + 1), 0.0, np.zeros(n, np.bool_))
        yields = instance.now - queued.arrival[rows] <= self.config.patience
        if experience.trust > 0:
            yields &= experience.share_much_shorter(queued.duration[rows]) >= _MANY_SHORTER
        asked = experience.asked(len(instance.resources))
        return kinds_of(instance, rows, asked, self.config.reserve, yields)

    @property
    def _trusted(self) -> bool:
        return self.experience is None or self.experience.trust > 0

    def _keep_start(self, duration: Ints, waited: Floats, fixed: int) -> Mask:
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
        if self.config.goal in _BY_SECONDS:
            weights = np.ones(len(duration))
        else:
            bounded = self.config.goal is PlanGoal.BOUNDED_SLOWDOWN
            weights = 1.0 / np.maximum(duration, _SHORTEST if bounded else 1.0)
        return weights * share if self.config.by_size else weights

    def _keep_free(self, jobs: Demands, capacity: Ints, fixed: int) -> Floats:
        """Return the headroom: the amount of each type that each job must leave free to start now."""
        experience, headroom, requests = self.experience, self.config.headroom, jobs.requests
        if experience is None or not headroom or self.config.goal in _BY_SECONDS:
            return np.zeros(requests.shape)
        shorter = experience.share_much_shorter(jobs.durations)
        rate = headroom * experience.trust * np.minimum(4 * shorter, 1.0)
        rate[:fixed] = 0.0
        keep = rate[:, None] * np.where(requests > 0, capacity, 0)
        # A job that needs nearly all there is starts when all the rest is free.
        return np.minimum(keep, np.maximum(capacity - requests * jobs.units[:, None], 0.0))

    # Search

    def _search(self, task: Task, instance: Instance) -> tuple[Plan, Solve]:
        earliest = class_profiles.alone(task.jobs, task.power, task.base, task.whole)
        if (earliest >= class_profiles.NEVER).any():
            return self._plan_possible(instance, task, earliest < class_profiles.NEVER)
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
        if self.config.goal is not PlanGoal.WAIT:
            waited = waited + part.queued.duration
        return float(task.ranks.weights @ waited)

    def _best_list(self, task: Task, earliest: Ints) -> Found:
        """Return the cheapest of the list schedules by a few orders."""
        n = len(task.jobs.units)
        jobs = task.reduced.instance.queued.job_id.tolist()
        before = np.array([self._rank.get(job, n) for job in jobs])
        keys = [*_order_keys(task), before.astype(np.float64)]
        starts, found = np.empty(n, np.int64), None
        for key in keys:
            key[: task.fixed] = -np.inf
            order = np.argsort(key, kind="stable")
            cost = task.schedule(order, starts, bound=found.cost if found else math.inf)
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
        part, others = task.reduced.instance, task.others
        if task.pooled:
            if others is not None:
                task.schedule(order, starts)
                return _place_both(task, starts, others, task.start_others(others))
            return task.reduced.widen(Plan(starts, place_by_best_fit(part, starts)))
        now = order[starts[order] == 0]
        nodes = np.empty(int(task.jobs.units[now].sum()), np.int64)
        task.schedule(order, starts, nodes)
        chosen = _nodes_by_job(len(starts), now, task.jobs.units, nodes)
        plan = task.reduced.widen(Plan(starts, tuple(chosen)))
        if others is None:
            return plan
        also = np.empty(int(others.jobs.units.sum()), np.int64)
        begun = np.flatnonzero(task.start_others(others, also))
        start, of_all = plan.start.copy(), list(plan.nodes)
        theirs = _nodes_by_job(len(others.tried), begun, others.jobs.units, also)
        for k in begun.tolist():
            start[others.tried[k]], of_all[others.tried[k]] = 0, theirs[k]
        return Plan(start, tuple(of_all))

    def _plan_possible(self, instance: Instance, task: Task, possible: Mask) -> tuple[Plan, Solve]:
        """Plan without the jobs that do not fit even when all running jobs have ended: nodes are down."""
        rows = task.reduced.rows[possible]
        if task.others is not None:
            rows = np.sort(np.concatenate((rows, task.others.rows)))
        if not len(rows):
            return Plan.empty(task.reduced.whole), Solve(0, status=Status.EMPTY)
        part = instance.with_queued(rows)
        plan, done = self.plan(part)
        return Reduced(part, rows, task.reduced.whole).widen(plan), done


def _place_both(task: Task, starts: Ints, others: Others, begun: Mask) -> Plan:
    """Return the plan on a pool with nodes for all jobs that start now, others included."""
    rows = np.concatenate((task.reduced.rows, others.tried))
    kept = [others.instance.resources.index(name) for name in others.part.resources]
    both = others.instance.with_queued(rows).without_resources(np.array(kept))
    starts = np.concatenate((starts, np.where(begun, 0, LATER)))
    return Reduced(both, rows, task.reduced.whole).widen(Plan(starts, place_by_best_fit(both, starts)))


def _demands(part: Instance, kinds: Kinds, rows: Ints, pooled: bool) -> Demands:
    """Return the requests of queued jobs, in slots on a pool; ``rows`` are their places in ``kinds``."""
    jobs, n = part.queued, len(part.queued)
    requests = np.ones_like(jobs.request) if pooled else jobs.request
    asked = part.shared.asked_by(n)
    if part.power:  # what a job adds is found where it is placed
        asked = np.column_stack((asked, np.zeros(n, np.int64)))
    counts = part.power.counts_of(n)
    return Demands(jobs.units, jobs.duration, requests, kinds.dislike[rows], asked, counts)


def _nodes_by_job(n: int, now: Ints, units: Ints, nodes: Ints) -> list[Ints | None]:
    """Return the nodes of each of ``n`` jobs, of which those that start now have ``nodes``, job after job."""
    chosen: list[Ints | None] = [None] * n
    ends = np.cumsum(units[now])
    for k, end in zip(now.tolist(), ends.tolist(), strict=True):
        chosen[k] = nodes[end - int(units[k]) : end]
    return chosen


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
