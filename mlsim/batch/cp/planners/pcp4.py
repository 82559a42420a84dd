"""PCP4: how many units of each job on each node (thesis, section 6.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.batch.cp.planners.hcp19 import Hcp19
from mlsim.batch.cp.planners.pcp19 import most_units, units_on
from mlsim.batch.cp.planners.planner import ReadNodes
from mlsim.batch.cp.problem.instance import Instance
from mlsim.batch.cp.solver.model import PowerOfPlaces, Scheduling, boxes_by_end

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import IntVar

__all__ = ["Pcp4"]


class _Counts:
    """A count variable for each job on each node that can hold it, and the capacities of all nodes."""

    def __init__(self, model: Scheduling) -> None:
        self._model = model
        self._indices: list[tuple[Ints, Ints]] = []  # of each job: variables, and their nodes
        on_node: list[list[tuple[int, IntVar, int]]] = [[] for _ in range(model.instance.n_nodes)]
        queued, capacity = model.instance.queued, model.instance.capacity
        power: list[PowerOfPlaces] = []
        for job in range(len(queued)):
            units = int(queued.units[job])
            fit = most_units(units, queued.request[job], capacity)
            places = np.flatnonzero(fit)
            counts = [model.cp.new_int_var(0, most, "") for most in fit[places].tolist()]
            model.cp.add(sum(counts) == units)
            if model.instance.power:
                power.append(PowerOfPlaces(counts, model.power_of_unit(job)[places].tolist()))
            self._indices.append((np.array([count.index for count in counts], np.int64), places))
            for node, count, most in zip(places.tolist(), counts, fit[places].tolist(), strict=True):
                on_node[node].append((job, count, most))
        for node, here in enumerate(on_node):
            if here:
                self._limit(node, here)
        model.limit_power(power)

    def _limit(self, node: int, here: list[tuple[int, IntVar, int]]) -> None:
        cp, instance = self._model.cp, self._model.instance
        boxes = np.flatnonzero(instance.running.node == node)
        for r in range(len(instance.resources)):
            asks = [(job, count, int(instance.queued.request[job, r]), most) for job, count, most in here]
            asks = [ask for ask in asks if ask[2]]
            amounts = np.zeros(len(instance.running), np.int64)
            amounts[boxes] = instance.running.request[boxes, r] * instance.running.units[boxes]
            total = int(instance.capacity[node, r])
            if not asks or sum(each * most for _, _, each, most in asks) + amounts.sum() <= total:
                continue
            held = boxes_by_end(instance.running.remaining, amounts)
            intervals = [cp.new_fixed_size_interval_var(0, end, "") for end, _ in held]
            demands: list[Any] = [amount for _, amount in held]
            for job, count, each, _ in asks:
                intervals.append(self._model.intervals[job])
                demands.append(count * each)
            cp.add_cumulative(intervals, demands, total)

    def read(self, values: Ints) -> tuple[Ints | None, ...]:
        """Return the nodes allocated to each job."""
        return tuple(np.repeat(places, values[indices]) for indices, places in self._indices)


class Pcp4(Hcp19):
    """Times and nodes in one model; one integer a job and node."""

    name: ClassVar[str] = "pcp4"
    pace: ClassVar[float] = 0.025
    part_seconds: ClassVar[float] = 16e-6

    def parts(self, instance: Instance) -> Floats:
        """Count a variable for each node that can hold a unit, and what time brings."""
        parts: Floats = 4.0 + np.minimum(units_on(instance), 1).sum(axis=1)
        return parts

    def place(self, model: Scheduling) -> ReadNodes:
        """Add counts of units."""
        return _Counts(model).read
