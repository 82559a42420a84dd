"""PCP'21: a box for each unit and type, in time and position (paper, section 3).

The positions of a type are its pieces on all nodes, in the order of the nodes. The sources tie position
to node by ``element`` on an array as long as there are pieces. Here neighbouring nodes of equal
capacities are a *segment*, in which a position is an affine function of the node; so the model is as
large as there are units and segments, and gigabytes of memory cost no more than cores. Under a power cap
the nodes of a segment add equal power, too.

The sources' second implied constraint, a cumulative along the positions of capacity eoh, is left out: the
durations of all jobs add up to no more than eoh, so that it always holds.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.batch.cp.planners.planner import Built, Planner
from mlsim.batch.cp.problem.instance import Instance
from mlsim.batch.cp.solver.model import PowerOfPlaces, Scheduling

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import IntervalVar, IntVar

__all__ = ["Pcp21", "Positions"]


def _segments(instance: Instance) -> list[tuple[int, int]]:
    """Return the stretches of nodes with equal capacities, and power under a cap, as (first, last + 1)."""
    capacity = instance.capacity
    if instance.power:
        capacity = np.column_stack((capacity, instance.power.of_node))
    changes = (capacity[1:] != capacity[:-1]).any(axis=1)
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(capacity)]
    return list(itertools.pairwise(bounds))


class Positions:
    """Boxes of all units, and what holds them together.

    Attributes
    ----------
    variables
        Position variables of each job: by type, the scarcest first, then by unit.
    """

    def __init__(self, model: Scheduling) -> None:
        instance = model.instance
        self._model, self._segments = model, _segments(instance)
        # Where the pieces of each node begin, for each type.
        self._base = np.cumsum(instance.capacity, axis=0) - instance.capacity
        free = instance.free.sum(axis=0)
        self._scarce_first: list[int] = np.argsort(free, kind="stable").tolist()
        self._boxes: list[tuple[list[IntervalVar], list[IntervalVar]]] = [
            ([], []) for _ in instance.resources
        ]
        self._node_indices: list[Ints] = []
        self._power: list[PowerOfPlaces] = []
        self.variables: list[list[IntVar]] = []
        for job in range(len(instance.queued)):
            self._add_job(job)
        self._add_running()
        for x, y in self._boxes:
            if len(x) > 1:
                model.cp.add_no_overlap_2d(x, y)
        model.limit_power(self._power)

    def _add_job(self, job: int) -> None:
        cp, queued = self._model.cp, self._model.instance.queued
        asked = [r for r in self._scarce_first if queued.request[job, r]]
        units = int(queued.units[job])
        columns: list[list[IntVar]] = [[] for _ in asked]
        nodes: list[IntVar] = []
        segments: list[tuple[int, IntVar]] = []
        for _ in range(units):
            node, positions, on = self._add_unit(queued.request[job], asked)
            nodes.append(node)
            segments += on
            for column, position in zip(columns, positions, strict=True):
                column.append(position)
        for r, column in zip(asked, columns, strict=True):
            size = int(queued.request[job, r])
            x, y = self._boxes[r]
            for position in column:
                x.append(self._model.intervals[job])
                y.append(cp.new_fixed_size_interval_var(position, size, ""))
            for left, right in itertools.pairwise(column):
                cp.add(left + size <= right)  # units are alike: one order of them is enough
        if self._model.instance.power:
            added = self._model.power_of_unit(job)
            literals = [literal for _, literal in segments]
            self._power.append(PowerOfPlaces(literals, [int(added[first]) for first, _ in segments]))
        self._node_indices.append(np.array([node.index for node in nodes], np.int64))
        self.variables.append([position for column in columns for position in column])

    def _add_unit(
        self, request: Ints, asked: list[int]
    ) -> tuple[IntVar, list[IntVar], list[tuple[int, IntVar]]]:
        """Make the node of a unit and its position in each type it asks for.

        Where segments make a difference, also the first node of each, with whether the unit is there.
        """
        from ortools.sat.python import cp_model

        cp, capacity = self._model.cp, self._model.instance.capacity
        possible = [s for s in self._segments if (capacity[s[0]] >= request).all()]
        domain = cp_model.Domain.from_intervals([[first, behind - 1] for first, behind in possible])
        node = cp.new_int_var_from_domain(domain, "")
        several = len(possible) > 1 or bool(self._model.instance.power)
        chosen = [cp.new_bool_var("") for _ in possible] if several else []
        if chosen:
            cp.add_exactly_one(chosen)
        for literal, (first, behind) in zip(chosen, possible, strict=bool(chosen)):
            cp.add_linear_constraint(node, first, behind - 1).only_enforce_if(literal)
        positions = []
        for r in asked:
            size = int(request[r])
            ranges = [
                [int(self._base[first, r]), int(self._base[behind - 1, r] + capacity[first, r]) - size]
                for first, behind in possible
            ]
            position = cp.new_int_var_from_domain(cp_model.Domain.from_intervals(ranges), "")
            for k, (first, _) in enumerate(possible):
                pieces = int(capacity[first, r])
                low = int(self._base[first, r]) - pieces * first
                inside = cp.add_linear_constraint(position - pieces * node, low, low + pieces - size)
                if chosen:
                    inside.only_enforce_if(chosen[k])
            positions.append(position)
        on = [(first, literal) for (first, _), literal in zip(possible, chosen, strict=bool(chosen))]
        return node, positions, on

    def _add_running(self) -> None:
        """Stack what runs on a node on its lowest positions, the longest lowest."""
        cp, running = self._model.cp, self._model.instance.running
        order = np.lexsort((running.job_id, -running.remaining, running.node))
        for r, (x, y) in enumerate(self._boxes):
            if not x:
                continue
            level: dict[int, int] = {}
            for box in order.tolist():
                amount = int(running.request[box, r] * running.units[box])
                if amount:
                    node = int(running.node[box])
                    at = level.get(node, int(self._base[node, r]))
                    level[node] = at + amount
                    x.append(cp.new_fixed_size_interval_var(0, int(running.remaining[box]), ""))
                    y.append(cp.new_fixed_size_interval_var(at, amount, ""))

    def read(self, values: Ints) -> tuple[Ints | None, ...]:
        """Return the nodes allocated to each job."""
        return tuple(values[indices] for indices in self._node_indices)


class Pcp21(Planner):
    """Times and nodes in one model, whose size does not depend on the number of nodes.

    Search goes job by job in order of priority: its earliest start, then its lowest positions, the
    scarcest type first.
    """

    name: ClassVar[str] = "pcp21"
    pace: ClassVar[float] = 0.09

    def parts(self, instance: Instance) -> Floats:
        """Count what each unit has: a node, and a position, an interval and limits for each type."""
        types = np.count_nonzero(instance.queued.request, axis=1)
        parts: Floats = 4.0 + instance.queued.units * (2.0 + 5.0 * types)
        return parts

    def build(self, instance: Instance) -> Built:
        """Make HCP's model, and boxes of units."""
        model = Scheduling.of(instance)
        positions = Positions(model)
        scale = model.minimize(self.weights(instance.queued))
        self.search(model, positions)
        return Built(model, positions.read, True, scale)

    def search(self, model: Scheduling, positions: Positions) -> None:
        """Say in which order to branch."""
        from ortools.sat.python import cp_model

        order = [
            variable
            for start, places in zip(model.starts, positions.variables, strict=True)
            for variable in (start, *places)
        ]
        model.cp.add_decision_strategy(order, cp_model.CHOOSE_FIRST, cp_model.SELECT_MIN_VALUE)
