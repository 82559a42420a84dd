"""A plan, its checker, bounds on plans, and the reduction of an instance to what a model is made for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.cp.class_profiles import Profiles, profiles_of
from mlsim.batch.cp.instance import NODE, Instance
from mlsim.batch.cp.unit_packing import first_that_fit

LATER = -1
"""Start of a job without a start in the plan: it returns to the queue."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An answer to an instance."""

    start: Ints
    """int64[n]: seconds from now at which each queued job starts; ``LATER`` if it is not planned."""
    nodes: tuple[Ints | None, ...]
    """The node of each unit of each job; None where only the time is planned. Jobs that start now have nodes.
    """

    @classmethod
    def empty(cls, n: int) -> Plan:
        """Return a plan that starts nothing."""
        return cls(np.full(n, LATER, np.int64), (None,) * n)

    def starting(self) -> list[int]:
        """Return the rows of the jobs that start now."""
        rows: list[int] = np.flatnonzero(self.start == 0).tolist()
        return rows


def objective_of(instance: Instance, start: Ints) -> float:
    """Return the sum of expected slowdowns of the jobs in a plan."""
    planned = start != LATER
    queued = instance.queued
    wait = instance.now + start - queued.arrival
    slowdown = (wait + queued.duration) / queued.duration
    return float(slowdown[planned].sum())


def check_plan(instance: Instance, plan: Plan) -> list[str]:
    """Return the faults of a plan, in words; empty if it is valid.

    Checked at every instant at which a job starts: each unit is whole on one existing node; no node holds
    more of any resource than it has, running jobs included; machine-wide amounts that a job starting then
    asks for suffice; no power cap is exceeded, where a job without nodes counts with the least power that it
    can add.
    """
    queued = instance.queued
    wrong = []
    if len(plan.start) != len(queued) or len(plan.nodes) != len(queued):
        return [f"the plan is for {len(plan.start)} jobs, the instance has {len(queued)}"]
    boxes: list[tuple[int, int, int, Ints]] = [  # start, end, node, amounts
        (0, int(box.remaining[k]), int(box.node[k]), box.request[k] * box.units[k])
        for box in (instance.running,)
        for k in range(len(box))
    ]
    for k, (start, nodes) in enumerate(zip(plan.start.tolist(), plan.nodes, strict=True)):
        name = f"job {queued.job_id[k]}"
        if start == LATER:
            continue
        if start < 0:
            wrong.append(f"{name} starts {-start} s ago")
        if nodes is None:
            if start == 0:
                wrong.append(f"{name} starts now on no nodes")
            continue
        if len(nodes) != queued.units[k]:
            wrong.append(f"{name} has {queued.units[k]} units and nodes for {len(nodes)}")
        end = start + int(queued.duration[k])
        for node in nodes.tolist():
            if 0 <= node < instance.n_nodes:
                boxes.append((start, end, node, queued.request[k]))
            else:
                wrong.append(f"{name} on node {node} of {instance.n_nodes}")
    for at in sorted({box[0] for box in boxes}):
        used = np.zeros_like(instance.capacity)
        for start, end, node, amounts in boxes:
            if start <= at < end:
                used[node] += amounts
        for node, r in np.argwhere(used > instance.capacity).tolist():
            wrong.append(
                f"after {at} s: node {node}: {used[node, r]} of {instance.capacity[node, r]} "
                f"{instance.resources[r]}"
            )
    return wrong + _check_shared(instance, plan) + _check_power(instance, plan)


def _check_shared(instance: Instance, plan: Plan) -> list[str]:
    """Return where a plan takes too much of a machine-wide amount."""
    shared = instance.shared
    spans = [(0, int(end), held) for end, held in zip(shared.remaining, shared.held, strict=True)]
    for k, start in enumerate(plan.start.tolist() if shared.names else ()):
        if start != LATER:
            spans.append((start, start + int(instance.queued.duration[k]), shared.asked[k]))
    wrong = []
    planned = spans[len(shared.remaining) :]
    for at in sorted({begin for begin, _, _ in planned}):
        used = sum((held for begin, end, held in spans if begin <= at < end), np.zeros_like(shared.capacity))
        # Running jobs alone may hold more than a cap that has fallen, and hold ever less of it.
        asks = sum(held for begin, _, held in planned if begin == at) > 0
        for k in np.flatnonzero((used > shared.capacity) & asks).tolist():
            wrong.append(f"after {at} s: {used[k]} of {shared.capacity[k]} {shared.names[k]}")
    return wrong


def _check_power(instance: Instance, plan: Plan) -> list[str]:
    """Return where a plan exceeds a power cap on unequal nodes."""
    power = instance.power
    running = [(0, int(end), int(held)) for end, held in zip(power.remaining, power.held, strict=True)]
    planned = []
    for k, (start, nodes) in enumerate(zip(plan.start.tolist(), plan.nodes, strict=True)):
        if power and start != LATER:
            end = start + int(instance.queued.duration[k])
            planned.append((start, end, int(power.least[k]) if nodes is None else power.added(k, nodes)))
    most, wrong = power.free + int(power.held.sum()), []
    for at in sorted({begin for begin, _, _ in planned}):
        used = sum(added for begin, end, added in running + planned if begin <= at < end)
        if used > most:
            wrong.append(f"after {at} s: {used / 1e6:g} of {most / 1e6:g} W that jobs may add")
    return wrong


def is_pool(instance: Instance) -> bool:
    """Return whether every plan on the pool of all nodes can be placed on nodes.

    It can where there is one resource type and all queued jobs ask for the same g of it per unit: a node with
    x free has x

    g slots, a slot serves any unit, and running jobs only ever free slots. At each start enough slots are
    then free on some nodes, whichever units hold the others.
    """
    request = instance.queued.request
    return (
        request.shape[1] == 1
        and request.size > 0
        and bool(request[0, 0] > 0 and (request == request[0]).all())
    )


def pool_of(instance: Instance, remaining: Ints) -> Profiles:
    """Return the free slots of all nodes over time as the profile of one big node; :func:`is_pool` must hold.

    ``remaining`` is the time (s) until the expected end of each running box.
    """
    size = int(instance.queued.request[0, 0])
    if size == 1:
        free = int(instance.free.sum())
        ends, place = np.unique(remaining, return_inverse=True)
        held = instance.running.request[:, 0] * instance.running.units
        more = np.bincount(place, weights=held, minlength=len(ends)).astype(np.int64)
    else:
        nodes = profiles_of(instance, remaining, np.zeros(instance.n_nodes, np.int64))
        slots = nodes.room[:, :, 0] // size
        used = np.arange(slots.shape[1]) < nodes.n_steps[:, None]
        rises = np.diff(slots, axis=1, prepend=0) * nodes.sizes[:, None]
        free = int(rises[:, 0].sum())
        used[:, 0] = False
        ends, place = np.unique(nodes.times[used], return_inverse=True)
        more = np.bincount(place, weights=rises[used], minlength=len(ends)).astype(np.int64)
    times = np.concatenate(([0], ends)).astype(np.int64)
    room = np.cumsum(np.concatenate(([free], more))).astype(np.int64)
    one = np.ones(1, np.int64)
    return Profiles(
        one, np.zeros(1, np.int64), one * len(times), times[None, :], room[None, :, None], one * 0, one * 0
    )


_MOST_LEVELS = 8
"""Powers that limits are made for; of more, these are spread evenly."""


class PoolLimit(NamedTuple):
    """A limit at every time, wherever jobs are placed."""

    asked: Ints
    """int64[n]: request of each queued job."""
    held: Ints
    """int64[b]: amounts already held."""
    remaining: Ints
    """int64[b]: how long they are held (s)."""
    total: int
    """The amount that exists."""


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


_ROUNDING = 1e-9
"""Share by which sums of doubles may be too large."""


def least_makespan(instance: Instance) -> int:
    """Return a lower bound (s from now) on the end of all queued jobs.

    By then, as much amount x time of each resource type must have been free over all nodes as the jobs ask
    for, and likewise of each machine-wide amount and of a power cap, where a job counts with the least that
    it can add.
    """
    queued, running = instance.queued, instance.running
    asked = queued.request * queued.units[:, None]
    held = running.request * running.units[:, None]
    needs = (asked * queued.duration[:, None].astype(np.float64)).sum(axis=0)
    free = instance.free.sum(axis=0)
    ends = running.remaining
    filled = [_filled(ends, held[:, r], int(free[r]), float(needs[r])) for r in range(len(free))]
    whole = instance.shared
    needs = (whole.asked_by(len(queued)) * queued.duration[:, None].astype(np.float64)).sum(axis=0)
    filled += [
        _filled(whole.remaining, whole.held[:, k], int(whole.free[k]), float(needs[k]))
        for k in range(len(whole.names))
    ]
    power = instance.power
    if power:
        need = float(power.least.astype(np.float64) @ queued.duration)
        filled.append(_filled(power.remaining, power.held, power.free, need))
    return max(filled, default=0)


def _filled(ends: Ints, held: Ints, free: int, need: float) -> int:
    """Return when as much amount x time of a type has been free as is needed."""
    order = np.argsort(ends, kind="stable")
    time, left, rate = 0, need * (1 - _ROUNDING), float(free)
    for end, amount in zip(ends[order].tolist(), held[order].tolist(), strict=True):
        usable = max(rate, 0.0)  # less than nothing is free where a cap has fallen
        if left <= usable * (end - time):
            break
        left -= usable * (end - time)
        time, rate = end, rate + amount
    return time + (int(np.ceil(left / rate)) if left > 0 and rate > 0 else 0)


@dataclass(frozen=True, slots=True)
class Reduced:
    """The part of an instance for which a model is made."""

    instance: Instance
    """Queued jobs in order of priority, and the resource types that matter to them."""
    rows: Ints
    """Rows of these jobs in the whole instance."""
    whole: int
    """Queued jobs of the whole instance."""

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
    rows = first_that_fit(order, most, queued.units, queued.request, instance.free, instance.power)
    part = instance.with_queued(rows)
    return Reduced(part.without_resources(needed_resources(part)), rows, len(queued))
