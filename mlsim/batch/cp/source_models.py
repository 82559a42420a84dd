"""Models of the sources: HCP'19, PCP'19, PCP4, PCP'21, PCP'21s, and versions 1 and 2 of HCP and PCP."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.cp.cp_model import PowerOfPlaces, Scheduling, boxes_by_end
from mlsim.batch.cp.instance import Instance, Queued
from mlsim.batch.cp.planner import Built, Planner, ReadNodes

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import IntervalVar, IntVar


class Hcp19(Planner):
    """Times on pooled resources; a job that then finds no nodes waits for the next pass."""

    name: ClassVar[str] = "hcp19"
    pace: ClassVar[float] = 0.1

    def build(self, instance: Instance) -> Built:
        """Make start variables and one cumulative per resource type."""
        model = Scheduling.of(instance)
        read = self.place(model)
        scale = model.minimize(self.weights(instance.queued))
        model.search_by_priority()
        return Built(model, read, True, scale)

    def place(self, model: Scheduling) -> ReadNodes | None:
        """Return None: the model places no job, and each counts with the least power that it can add."""
        model.limit_power()
        return None


def most_units(units: int, request: Ints, capacity: Ints) -> Ints:
    """Return how many units of a job fit on each empty node: p(i, n)."""
    asked = request > 0
    if not asked.any():
        return np.full(len(capacity), units)
    fit: Ints = np.minimum((capacity[:, asked] // request[asked]).min(axis=1), units)
    return fit


def count_places(instance: Instance) -> Floats:
    """Count, per queued job, a literal and an interval for each place of a unit, and what time adds."""
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
        """Count the places of all units."""
        return count_places(instance)

    def place(self, model: Scheduling) -> ReadNodes:
        """Add an optional interval for each unit on each node that can hold it."""
        return UnitIntervals(model).read


def _segments(instance: Instance) -> list[tuple[int, int]]:
    """Return the ranges of nodes with equal capacities, and equal power under a cap, as (first, last + 1)."""
    capacity = instance.capacity
    if instance.power:
        capacity = np.column_stack((capacity, instance.power.of_node))
    changes = (capacity[1:] != capacity[:-1]).any(axis=1)
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(capacity)]
    return list(itertools.pairwise(bounds))


class Positions:
    """Boxes of all units in time and position.

    ``variables`` has the position variables of each job: by type, the scarcest first, then by unit.
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
        """Make the node of a unit and its position in each type that it asks for.

        Where segments matter, also return the first node of each, with the literal that the unit is there.
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
        """Stack running jobs on the lowest positions of their nodes, the longest lowest."""
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
        """Count, per unit, a node, and a position, an interval and limits for each type."""
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
        """Set the order of branching."""
        from ortools.sat.python import cp_model

        order = [
            variable
            for start, places in zip(model.starts, positions.variables, strict=True)
            for variable in (start, *places)
        ]
        model.cp.add_decision_strategy(order, cp_model.CHOOSE_FIRST, cp_model.SELECT_MIN_VALUE)


class Pcp21s(Pcp21):
    """Branches on all start times before any position.

    A conflict then returns to a start time, instead of permuting positions of equal value.
    """

    name: ClassVar[str] = "pcp21s"

    def search(self, model: Scheduling, positions: Positions) -> None:
        """Branch on starts as HCP'19 does, then on positions."""
        from ortools.sat.python import cp_model

        model.search_by_priority()
        places = [variable for column in positions.variables for variable in column]
        model.cp.add_decision_strategy(places, cp_model.CHOOSE_FIRST, cp_model.SELECT_MIN_VALUE)


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
    """Times and nodes in one model; one integer per job and node."""

    name: ClassVar[str] = "pcp4"
    pace: ClassVar[float] = 0.025
    part_seconds: ClassVar[float] = 16e-6

    def parts(self, instance: Instance) -> Floats:
        """Count, per queued job, a variable for each node that can hold a unit, and what time adds."""
        parts: Floats = 4.0 + np.minimum(units_on(instance), 1).sum(axis=1)
        return parts

    def place(self, model: Scheduling) -> ReadNodes:
        """Add counts of units."""
        return _Counts(model).read


# Versions 1 and 2 of HCP and PCP, for ablation (thesis, Table 5.1)


def _shrunk_horizon(instance: Instance) -> int:
    """Return the sum of all remaining run times, below 0 for running jobs past their estimates."""
    running = instance.running
    _, first = np.unique(running.job_id, return_index=True)
    left = np.where(running.late > 0, -running.late, running.remaining)[first]
    return int(left.sum() + instance.queued.duration.sum())


class Hcp2(Planner):
    """HCP with the reduced model, improved search control, and at least 1 s for running jobs."""

    name: ClassVar[str] = "hcp2"
    pace: ClassVar[float] = 0.1
    of_slowdowns: ClassVar[bool] = False

    def priority(self, instance: Instance) -> Floats:
        """Weigh the wait by max(ewt) / ewt; ties go to the smaller demand, resources x duration."""
        queued = instance.queued
        wait = (instance.now - queued.arrival) * self.weights(queued)
        pool = np.maximum(instance.capacity.sum(axis=0), 1)
        demand = (queued.request / pool).sum(axis=1) * queued.units * queued.duration
        order = np.lexsort((queued.arrival, demand, -wait))
        priority = np.empty(len(queued))
        priority[order] = -np.arange(len(queued), dtype=np.float64)
        return priority

    def weights(self, queued: Queued) -> Floats:
        """Return the weight of each queued job, max(ewt) / ewt."""
        weights: Floats = queued.ewt.max(initial=1.0) / queued.ewt
        return weights

    def build(self, instance: Instance) -> Built:
        """Make start variables and one cumulative per resource type."""
        model = Scheduling.of(instance, self.horizon(instance))
        model.limit_power()
        return Built(model, None, False, model.minimize(self.weights(instance.queued)))

    def horizon(self, _instance: Instance) -> int | None:
        """Return None: the model's horizon is the end of the serial schedule."""
        return None


class Hcp1(Hcp2):
    """HCP2 with the remaining times of running jobs that outlived their estimate as they are, below 0."""

    name: ClassVar[str] = "hcp1"

    def horizon(self, instance: Instance) -> int | None:
        """Return the sum of remaining run times, below 0 for running jobs past their estimates."""
        return _shrunk_horizon(instance)


class Pcp2(Hcp2):
    """PCP: only waiting beyond the queue's ewt counts; jobs are considered in order of arrival."""

    name: ClassVar[str] = "pcp2"
    pace: ClassVar[float] = 0.07

    def parts(self, instance: Instance) -> Floats:
        """Count as in PCP'19."""
        return count_places(instance)

    def priority(self, instance: Instance) -> Floats:
        """Return the wait of each queued job: the longest-waiting goes first."""
        wait: Floats = instance.now - instance.queued.arrival
        return wait

    def weights(self, queued: Queued) -> Floats:
        """Return the weight of each queued job, 1 / ewt."""
        weights: Floats = 1.0 / queued.ewt
        return weights

    def build(self, instance: Instance) -> Built:
        """Make PCP'19's model with the objective max(0, (s - q - ewt) / ewt)."""
        model = Scheduling.of(instance, self.horizon(instance))
        units = UnitIntervals(model)
        queued = instance.queued
        after = queued.arrival + queued.ewt - instance.now
        return Built(model, units.read, False, model.minimize(self.weights(queued), after))


class Pcp1(Pcp2):
    """PCP2 with the remaining times of running jobs that outlived their estimate as they are, below 0."""

    name: ClassVar[str] = "pcp1"

    def horizon(self, instance: Instance) -> int | None:
        """Return the sum of remaining run times, below 0 for running jobs past their estimates."""
        return _shrunk_horizon(instance)


SOURCE_MODELS: dict[str, type[Planner]] = {
    kind.name: kind for kind in (Hcp19, Pcp19, Pcp4, Pcp21, Pcp21s, Hcp1, Hcp2, Pcp1, Pcp2)
}
"""Planners by the name of the dispatcher."""
