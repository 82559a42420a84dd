"""PCP'19: an optional interval for each unit on each node (thesis, PCP3; paper, section 2.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.batch.cp.planners.hcp19 import Hcp19
from mlsim.batch.cp.planners.planner import ReadNodes
from mlsim.batch.cp.problem.instance import Instance
from mlsim.batch.cp.solver.model import PowerOfPlaces, Scheduling, boxes_by_end

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import IntervalVar

__all__ = ["Pcp19", "UnitIntervals", "most_units", "parts_of_places", "units_on"]


def most_units(units: int, request: Ints, capacity: Ints) -> Ints:
    """Return how many units of a job fit on each empty node: p(i, n)."""
    asked = request > 0
    if not asked.any():
        return np.full(len(capacity), units)
    fit: Ints = np.minimum((capacity[:, asked] // request[asked]).min(axis=1), units)
    return fit


def parts_of_places(instance: Instance) -> Floats:
    """Count a literal and an interval for each place of a unit, and what time brings, of each queued job."""
    parts: Floats = 4.0 + 2.0 * units_on(instance).sum(axis=1)
    return parts


def units_on(instance: Instance) -> Ints:
    """Return how many units of each queued job fit on each empty node, shape (n, N)."""
    queued, capacity = instance.queued, instance.capacity
    rows = [most_units(int(u), r, capacity) for u, r in zip(queued.units, queued.request, strict=True)]
    return np.array(rows, np.int64).reshape(len(queued), len(capacity))


class UnitIntervals:
    """The units of all jobs as optional intervals, and the capacities of all nodes."""

    def __init__(self, model: Scheduling) -> None:
        self._model = model
        self._literals: list[tuple[Ints, Ints]] = []  # of each job: literals, and their nodes
        self._power: list[PowerOfPlaces] = []
        on_node: list[list[tuple[int, IntervalVar]]] = [[] for _ in range(model.instance.n_nodes)]
        for job in range(len(model.instance.queued)):
            self._add_job(job, on_node)
        for node, here in enumerate(on_node):
            if here:
                self._limit(node, here)
        model.limit_power(self._power)

    def _add_job(self, job: int, on_node: list[list[tuple[int, IntervalVar]]]) -> None:
        cp, queued = self._model.cp, self._model.instance.queued
        units, duration, start = int(queued.units[job]), int(queued.duration[job]), self._model.starts[job]
        fit = most_units(units, queued.request[job], self._model.instance.capacity)
        places = np.repeat(np.arange(len(fit)), fit)
        literals = [cp.new_bool_var("") for _ in range(len(places))]
        for node, literal in zip(places.tolist(), literals, strict=True):
            interval = cp.new_optional_fixed_size_interval_var(start, duration, literal, "")
            on_node[node].append((job, interval))
        cp.add(sum(literals) == units)
        if self._model.instance.power:
            self._power.append(PowerOfPlaces(literals, self._model.power_of_unit(job)[places].tolist()))
        self._literals.append((np.array([literal.index for literal in literals], np.int64), places))

    def _limit(self, node: int, here: list[tuple[int, IntervalVar]]) -> None:
        """Constrain each resource type of a node by its capacity, running jobs included."""
        cp, instance = self._model.cp, self._model.instance
        boxes = np.flatnonzero(instance.running.node == node)
        for r in range(len(instance.resources)):
            demands = instance.queued.request[[job for job, _ in here], r]
            amounts = np.zeros(len(instance.running), np.int64)
            amounts[boxes] = instance.running.request[boxes, r] * instance.running.units[boxes]
            total = int(instance.capacity[node, r])
            if not demands.any() or demands.sum() + amounts.sum() <= total:
                continue
            held = boxes_by_end(instance.running.remaining, amounts)
            intervals = [cp.new_fixed_size_interval_var(0, end, "") for end, _ in held]
            asks = [amount for _, amount in held]
            for (_, interval), demand in zip(here, demands.tolist(), strict=True):
                if demand:
                    intervals.append(interval)
                    asks.append(demand)
            cp.add_cumulative(intervals, asks, total)

    def read(self, values: Ints) -> tuple[Ints | None, ...]:
        """Return the nodes allocated to each job."""
        return tuple(places[values[literals] == 1] for literals, places in self._literals)


class Pcp19(Hcp19):
    """Times and nodes in one model, whose size grows with the number of nodes."""

    name: ClassVar[str] = "pcp19"
    pace: ClassVar[float] = 0.2
    part_seconds: ClassVar[float] = 13e-6

    def parts(self, instance: Instance) -> Floats:
        """Count those of all places of the units."""
        return parts_of_places(instance)

    def place(self, model: Scheduling) -> ReadNodes:
        """Add an optional interval for each unit on each node that can hold it."""
        return UnitIntervals(model).read
