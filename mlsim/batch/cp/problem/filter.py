"""Model reduction: which jobs and which resource types a model is about (thesis, section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.batch.cp.problem.instance import NODE, Instance
from mlsim.batch.cp.problem.packing import first_that_fit
from mlsim.batch.cp.problem.plan import LATER, Plan

__all__ = ["Reduced", "by_priority", "needed_resources", "reduce"]


@dataclass(frozen=True, slots=True)
class Reduced:
    """The part of an instance that a model is made for."""

    instance: Instance
    """Queued jobs in order of priority, and the resource types that matter to them."""
    rows: Ints
    """Which queued jobs of the whole instance they are."""
    whole: int
    """How many queued jobs the whole instance has."""

    def widen(self, plan: Plan) -> Plan:
        """Make a plan for the whole instance of one for this part."""
        start = np.full(self.whole, LATER, np.int64)
        start[self.rows] = plan.start
        nodes: list[Ints | None] = [None] * self.whole
        for row, chosen in zip(self.rows.tolist(), plan.nodes, strict=True):
            nodes[row] = chosen
        return Plan(start, tuple(nodes))


def by_priority(priority: Floats, arrival: Floats) -> Ints:
    """Order jobs: larger priority first, then earlier arrival, then as they come."""
    return np.lexsort((arrival, -priority))


def needed_resources(instance: Instance) -> Ints:
    """Return the indices of the resource types that can keep a queued job from starting.

    A type that no queued job asks for is dropped; so is, where nodes are given whole, one of which every
    node in use has enough for every job.
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
    """Keep the first ``most`` jobs that could start now, and the resource types that somebody asks for.

    Jobs are considered in order of priority, then arrival. A job could start now if enough of every type
    and of what the machine has as a whole is free, and enough units fit on the nodes, on some such that a
    power cap allows it. The others stay queued, out of the model.
    """
    queued = instance.queued
    order = by_priority(instance.priority() if priority is None else priority, queued.arrival)
    order = order[instance.shared.fits_now(len(queued))[order]]
    rows = first_that_fit(order, most, queued.units, queued.request, instance.free, instance.power)
    part = instance.with_queued(rows)
    return Reduced(part.without_resources(needed_resources(part)), rows, len(queued))
