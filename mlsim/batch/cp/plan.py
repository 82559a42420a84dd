"""A plan, its checker, bounds on plans, and the reduction of an instance to what a model is made for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.cp.instance import NODE, Instance
from mlsim.batch.cp.unit_packing import first_that_fit

LATER = -1  # start of a job without a start in the plan: it returns to the queue


@dataclass(frozen=True, slots=True)
class Plan:
    """An answer to an instance."""

    start: Ints  # int64[n]: seconds from now at which each queued job starts; `LATER` if it is not planned
    # The node of each unit of each job; None where only the time is planned. Jobs that start now have nodes.
    nodes: tuple[Ints | None, ...]

    @classmethod
    def empty(cls, n: int) -> Plan:
        """Return a plan that starts nothing."""
        return cls(np.full(n, LATER, np.int64), (None,) * n)

    def starting(self) -> list[int]:
        """Return the rows of the jobs that start now."""
        return np.flatnonzero(self.start == 0).tolist()


def objective_of(instance: Instance, start: Ints) -> float:
    """Return the sum of expected slowdowns of the jobs in a plan."""
    planned = start != LATER
    queued = instance.queued
    wait = instance.now + start - queued.arrival
    return float(((wait + queued.duration) / queued.duration)[planned].sum())


def check_plan(instance: Instance, plan: Plan) -> list[str]:
    """Return the faults of a plan, in words; empty if it is valid.

    Checked at every instant at which a job starts: each unit is whole on one existing node; no node holds
    more of any resource than it has, running jobs included; machine-wide amounts that a job starting then
    asks for suffice; no power cap is exceeded, where a job without nodes counts with the least power that it
    can add.
    """
    queued, running, shared, power = instance.queued, instance.running, instance.shared, instance.power
    if len(plan.start) != len(queued) or len(plan.nodes) != len(queued):
        return [f"the plan is for {len(plan.start)} jobs, the instance has {len(queued)}"]
    wrong = []
    # Amounts by place: each resource of each node, then those of the whole machine, then power. What runs
    # begins at -1, before all that is planned.
    types, on_nodes = np.arange(len(instance.resources)), instance.capacity.size
    of_machine = on_nodes + np.arange(len(shared.names))
    limits = np.concatenate(
        (instance.capacity.ravel(), shared.capacity, [power.free + power.held.sum()] if power else [])
    ).astype(np.int64)
    by_box = running.node[:, None] * len(types) + types
    boxes: list[tuple[Any, ...]] = [  # start, end, place, amount
        (-1, running.remaining[:, None], by_box, running.request * running.units[:, None]),
        (-1, shared.remaining[:, None], of_machine, shared.held_by(len(shared.remaining))),
        (-1, power.remaining, len(limits) - 1, power.held),
    ]
    for k, (start, nodes) in enumerate(zip(plan.start.tolist(), plan.nodes, strict=True)):
        name, end = f"job {queued.job_id[k]}", start + int(queued.duration[k])
        if start == LATER:
            continue
        if start < 0:
            wrong.append(f"{name} starts {-start} s ago")
        if nodes is None and start == 0:
            wrong.append(f"{name} starts now on no nodes")
        if nodes is not None:
            if len(nodes) != queued.units[k]:
                wrong.append(f"{name} has {queued.units[k]} units and nodes for {len(nodes)}")
            exists = (nodes >= 0) & (nodes < instance.n_nodes)
            wrong += [f"{name} on node {node} of {instance.n_nodes}" for node in nodes[~exists].tolist()]
            boxes.append((start, end, nodes[exists, None] * len(types) + types, queued.request[k]))
        if shared.names:
            boxes.append((start, end, of_machine, shared.asked[k]))
        if power:
            added = int(power.least[k]) if nodes is None else power.added(k, nodes)
            boxes.append((start, end, len(limits) - 1, added))
    flat = [[column.ravel() for column in np.broadcast_arrays(*box)] for box in boxes]
    begins, ends, places, amounts = (np.concatenate(column) for column in zip(*flat, strict=True))
    for at in sorted({0, *begins[begins >= 0].tolist()}):
        used, active = np.zeros_like(limits), (begins <= at) & (at < ends)
        np.add.at(used, places[active], amounts[active])
        over = used > limits
        # Running jobs alone may hold more than a cap that has fallen, and hold ever less of it.
        asked = places[(begins == at) & (amounts > 0)]
        over[on_nodes:] &= np.isin(np.arange(on_nodes, len(limits)), asked)
        wrong += [
            f"after {at} s: {_named(instance, place, int(used[place]), int(limits[place]))}"
            for place in np.flatnonzero(over).tolist()
        ]
    return wrong


def _named(instance: Instance, place: int, used: int, limit: int) -> str:
    """Return an amount that is exceeded, in words; see :func:`check_plan` for its place."""
    node, r = divmod(place, len(instance.resources))
    if node < instance.n_nodes:
        return f"node {node}: {used} of {limit} {instance.resources[r]}"
    names = instance.shared.names
    if place - instance.capacity.size < len(names):
        return f"{used} of {limit} {names[place - instance.capacity.size]}"
    return f"{used / 1e6:g} of {limit / 1e6:g} W that jobs may add"


_MOST_LEVELS = 8  # powers that limits are made for; of more, these are spread evenly


class PoolLimit(NamedTuple):
    """A limit at every time, wherever jobs are placed."""

    asked: Ints  # int64[n]: request of each queued job
    held: Ints  # int64[b]: amounts already held
    remaining: Ints  # int64[b]: how long they are held (s)
    total: int  # the amount that exists


def amount_limits(instance: Instance) -> Iterator[PoolLimit]:
    """Yield the limits on each resource type, over all nodes, and on each machine-wide amount."""
    queued, running, whole = instance.queued, instance.running, instance.shared
    for r in range(len(instance.resources)):
        asked, held = queued.request[:, r] * queued.units, running.request[:, r] * running.units
        yield PoolLimit(asked, held, running.remaining, int(instance.capacity[:, r].sum()))
    for k in range(len(whole.names)):
        yield PoolLimit(whole.asked[:, k], whole.held[:, k], whole.remaining, int(whole.capacity[k]))


def pool_limits(instance: Instance, horizon: int) -> Iterator[PoolLimit]:
    """Yield limits on the power of jobs whose nodes are unknown, each in its measure, rounded down.

    The instance has a cap on unequal power; plans take ``horizon`` seconds at most.
    """
    power, queued, running = instance.power, instance.queued, instance.running
    measure = power.measure(horizon)
    yield PoolLimit(power.least // measure, power.held // measure, power.remaining, power.capacity // measure)
    # A type of which each unit takes no less than it counts for power limits the units per node.
    counting = np.flatnonzero((queued.request >= power.counts[:, None]).all(axis=0))
    if not len(counting):
        return
    sizes, amounts = instance.capacity[:, counting[0]], running.request[:, counting[0]] * running.units
    counts = queued.units * power.counts
    for level in _levels(power.of_node[sizes > 0]):
        overstated = np.where(sizes > 0, np.maximum(level - power.of_node, 0), 0)
        more = int(overstated @ sizes)
        measure = power.measure(horizon, more)
        yield PoolLimit(
            np.maximum(power.least, level * counts) // measure,
            np.concatenate((power.held, overstated[running.node] * amounts)) // measure,
            np.concatenate((power.remaining, running.remaining)),
            (power.capacity + more) // measure,
        )


def _levels(of_node: Ints) -> list[int]:
    """Return the powers above the least; of many, some that are spread evenly."""
    above = np.unique(of_node)[1:]
    if len(above) > _MOST_LEVELS:
        above = above[np.linspace(0, len(above) - 1, _MOST_LEVELS).astype(np.int64)]
    levels: list[int] = above.tolist()
    return levels


_ROUNDING = 1e-9  # share by which sums of doubles may be too large


def least_makespan(instance: Instance) -> int:
    """Return a lower bound (s from now) on the end of all queued jobs.

    By then, as much amount x time of each resource type must have been free over all nodes as the jobs ask
    for, and likewise of each machine-wide amount and of a power cap, where a job counts with the least that
    it can add.
    """
    power = instance.power
    free = [*instance.free.sum(axis=0).tolist(), *instance.shared.free.tolist()]
    limits = list(zip(amount_limits(instance), free, strict=True))
    if power:
        limits.append((PoolLimit(power.least, power.held, power.remaining, power.capacity), power.free))
    durations = instance.queued.duration.astype(np.float64)
    return max((_filled(limit, free_now, durations) for limit, free_now in limits), default=0)


def _filled(limit: PoolLimit, free: int, durations: Floats) -> int:
    """Return when as much amount x time of a type has been free as is needed."""
    order = np.argsort(limit.remaining, kind="stable")
    time, left, rate = 0, float((limit.asked * durations).sum()) * (1 - _ROUNDING), float(free)
    for end, amount in zip(limit.remaining[order].tolist(), limit.held[order].tolist(), strict=True):
        usable = max(rate, 0.0)  # less than nothing is free where a cap has fallen
        if left <= usable * (end - time):
            break
        left -= usable * (end - time)
        time, rate = end, rate + amount
    return time + (int(np.ceil(left / rate)) if left > 0 and rate > 0 else 0)


@dataclass(frozen=True, slots=True)
class Reduced:
    """The part of an instance for which a model is made."""

    instance: Instance  # queued jobs in order of priority, and the resource types that matter to them
    rows: Ints  # rows of these jobs in the whole instance
    whole: int  # queued jobs of the whole instance

    def widen(self, plan: Plan) -> Plan:
        """Return the plan for the whole instance."""
        start = np.full(self.whole, LATER, np.int64)
        start[self.rows] = plan.start
        nodes: list[Ints | None] = [None] * self.whole
        for row, chosen in zip(self.rows.tolist(), plan.nodes, strict=True):
            nodes[row] = chosen
        return Plan(start, tuple(nodes))


def by_priority(priority: Floats, arrival: Floats) -> Ints:
    """Order jobs by larger priority, then earlier arrival, then row."""
    return np.lexsort((arrival, -priority))


def needed_resources(instance: Instance) -> Ints:
    """Return the indices of the resource types that can keep a queued job from starting.

    A type that no queued job asks for is dropped; with whole-node allocation, so is one of which every node
    in use has enough for every job.
    """
    if not len(instance.queued):
        return np.arange(min(1, len(instance.resources)))
    largest = instance.queued.request.max(axis=0)
    matters = largest > 0
    if instance.resources[0] == NODE:
        in_use = instance.capacity[:, 0] > 0
        enough = (instance.capacity[in_use] >= largest).all(axis=0)
        matters &= ~enough
        matters[0] = True
    return np.flatnonzero(matters)


def reduce(instance: Instance, most: int, priority: Floats | None = None) -> Reduced:
    """Keep the first ``most`` jobs that could start now, and the resource types that they ask for.

    Jobs are considered in order of priority, then arrival. A job could start now, alone, if all amounts are
    free, its units fit on the nodes, and a power cap allows some such placement.
    """
    queued = instance.queued
    order = by_priority(instance.priority() if priority is None else priority, queued.arrival)
    order = order[instance.shared.fits_now(len(queued))[order]]
    rows = first_that_fit(order, most, instance)
    part = instance.with_queued(rows)
    return Reduced(part.without_resources(needed_resources(part)), rows, len(queued))
