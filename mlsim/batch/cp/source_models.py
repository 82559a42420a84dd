"""Models of the sources besides HCP'19: PCP'19, PCP4, PCP'21, PCP'21s, versions 1 and 2 of HCP and PCP."""

import itertools
from typing import Any, ClassVar

import numpy as np
from ortools.sat.python import cp_model
from ortools.sat.python.cp_model import IntervalVar, IntVar

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.cp.cp_solve import PowerOfPlaces, Scheduling, boxes_by_end
from mlsim.batch.cp.instance import Instance, Queued
from mlsim.batch.cp.planner import Planner


def units_on(instance: Instance) -> Ints:
    """Return how many units of each queued job fit on each empty node, p(i, n), shape (n, N)."""
    queued, fit = instance.queued, np.zeros((len(instance.queued), instance.n_nodes), np.int64)
    for job, (units, request) in enumerate(zip(queued.units.tolist(), queued.request, strict=True)):
        asked = request > 0
        fit[job] = (instance.capacity[:, asked] // request[asked]).min(axis=1, initial=units)
    return fit


def count_places(instance: Instance) -> Floats:
    """Count, per queued job, a literal and an interval for each place of a unit, and what time adds."""
    parts: Floats = 4.0 + 2.0 * units_on(instance).sum(axis=1)
    return parts


class NodePlaces:
    """Variables that place the units of all jobs on nodes, and the capacities of all nodes.

    They are a literal and an interval for each unit on each node that can hold it or, ``counted``, the number
    of units of a job there.
    """

    def __init__(self, model: Scheduling, counted: bool) -> None:
        cp, instance = model.cp, model.instance
        self._model = model
        self._variables: list[tuple[Ints, Ints]] = []  # of each job: indices, and their nodes
        power: list[PowerOfPlaces] = []
        # Of each node: job, interval, its number of units (1, or a variable), and the most that it can be.
        on_node: list[list[tuple[int, IntervalVar, Any, int]]] = [[] for _ in range(instance.n_nodes)]
        for job, fit in enumerate(units_on(instance)):
            duration, start = int(instance.queued.duration[job]), model.starts[job]
            nodes = np.flatnonzero(fit) if counted else np.repeat(np.arange(len(fit)), fit)
            if counted:
                variables = [cp.new_int_var(0, most, "") for most in fit[nodes].tolist()]
            else:
                variables = [cp.new_bool_var("") for _ in nodes]
            for node, variable in zip(nodes.tolist(), variables, strict=True):
                if counted:
                    on_node[node].append((job, model.intervals[job], variable, int(fit[node])))
                else:
                    interval = cp.new_optional_fixed_size_interval_var(start, duration, variable, "")
                    on_node[node].append((job, interval, 1, 1))
            cp.add(sum(variables) == int(instance.queued.units[job]))
            if instance.power:
                power.append(PowerOfPlaces(variables, model.power_of_unit(job)[nodes].tolist()))
            self._variables.append((np.array([each.index for each in variables], np.int64), nodes))
        for node, here in enumerate(on_node):
            if here:
                self._limit(node, here)
        model.limit_power(power)

    def _limit(self, node: int, here: list[tuple[int, IntervalVar, Any, int]]) -> None:
        """Constrain each resource type of a node by its capacity, running jobs included."""
        cp, instance = self._model.cp, self._model.instance
        running, request = instance.running, instance.queued.request
        for r in range(len(instance.resources)):
            asks = [
                (interval, units * int(request[job, r]), most * int(request[job, r]))
                for job, interval, units, most in here
                if request[job, r]
            ]
            amounts = np.where(running.node == node, running.request[:, r] * running.units, 0)
            total = int(instance.capacity[node, r])
            if not asks or sum(most for _, _, most in asks) + amounts.sum() <= total:
                continue
            ends, held = boxes_by_end(running.remaining, amounts)
            intervals = [cp.new_fixed_size_interval_var(0, end, "") for end in ends]
            intervals += [interval for interval, _, _ in asks]
            cp.add_cumulative(intervals, held + [demand for _, demand, _ in asks], total)

    def read(self, values: Ints) -> tuple[Ints | None, ...]:
        """Return the nodes allocated to each job."""
        return tuple(np.repeat(nodes, values[indices]) for indices, nodes in self._variables)


class Pcp19(Planner):
    """Times and nodes in one model, whose size grows with the number of nodes."""

    name: ClassVar[str] = "pcp19"
    pace: ClassVar[float] = 0.2
    part_seconds: ClassVar[float] = 13e-6

    def parts(self, instance: Instance) -> Floats:
        """Count the places of all units."""
        return count_places(instance)

    def place(self, model: Scheduling) -> NodePlaces:
        """Add an optional interval for each unit on each node that can hold it."""
        return NodePlaces(model, counted=False)


class Pcp4(Planner):
    """Times and nodes in one model; one integer per job and node."""

    name: ClassVar[str] = "pcp4"
    pace: ClassVar[float] = 0.025
    part_seconds: ClassVar[float] = 16e-6

    def parts(self, instance: Instance) -> Floats:
        """Count, per queued job, a variable for each node that can hold a unit, and what time adds."""
        parts: Floats = 4.0 + np.minimum(units_on(instance), 1).sum(axis=1)
        return parts

    def place(self, model: Scheduling) -> NodePlaces:
        """Add counts of units."""
        return NodePlaces(model, counted=True)


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

    def place(self, model: Scheduling) -> Positions:
        """Add boxes of units."""
        return Positions(model)

    def search(self, model: Scheduling, places: Any) -> None:
        """Branch on the start and the positions of one job after the other."""
        jobs = zip(model.starts, places.variables, strict=True)
        _branch_on(model, [variable for start, positions in jobs for variable in (start, *positions)])


class Pcp21s(Pcp21):
    """Branches on all start times before any position.

    A conflict then returns to a start time, instead of permuting positions of equal value.
    """

    name: ClassVar[str] = "pcp21s"

    def search(self, model: Scheduling, places: Any) -> None:
        """Branch on starts as HCP'19 does, then on positions."""
        model.search_by_priority()
        _branch_on(model, [variable for positions in places.variables for variable in positions])


def _branch_on(model: Scheduling, variables: list[IntVar]) -> None:
    """Branch on variables in their order, at their least values."""
    model.cp.add_decision_strategy(variables, cp_model.CHOOSE_FIRST, cp_model.SELECT_MIN_VALUE)


# Versions 1 and 2 of HCP and PCP, for ablation (thesis, Table 5.1)


class Hcp2(Planner):
    """HCP with the reduced model, improved search control, and at least 1 s for running jobs."""

    name: ClassVar[str] = "hcp2"
    of_slowdowns: ClassVar[bool] = False
    fixed_search: ClassVar[bool] = False

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


class Pcp2(Planner):
    """PCP: only waiting beyond the queue's ewt counts; jobs are considered in order of arrival."""

    name: ClassVar[str] = "pcp2"
    pace: ClassVar[float] = 0.07
    of_slowdowns: ClassVar[bool] = False
    fixed_search: ClassVar[bool] = False

    def parts(self, instance: Instance) -> Floats:
        """Count as in PCP'19."""
        return count_places(instance)

    def priority(self, instance: Instance) -> Floats:
        """Return the wait of each queued job: the longest-waiting goes first."""
        return instance.now - instance.queued.arrival

    def weights(self, queued: Queued) -> Floats:
        """Return the weight of each queued job, 1 / ewt."""
        return 1.0 / queued.ewt

    def after(self, instance: Instance) -> Floats:
        """Return the ends of expected waits: the objective is the sum of max(0, (s - q - ewt) / ewt)."""
        queued = instance.queued
        return queued.arrival + queued.ewt - instance.now

    def place(self, model: Scheduling) -> NodePlaces:
        """Add PCP'19's intervals."""
        return NodePlaces(model, counted=False)


class _ShrunkHorizon(Planner):
    """Version 1: remaining times of running jobs that outlived their estimates stay below 0."""

    def horizon(self, instance: Instance) -> int | None:
        """Return the sum of all remaining run times."""
        running = instance.running
        _, first = np.unique(running.job_id, return_index=True)
        left = np.where(running.late > 0, -running.late, running.remaining)[first]
        return int(left.sum() + instance.queued.duration.sum())


class Hcp1(_ShrunkHorizon, Hcp2):
    """HCP2 with the horizon of version 1."""

    name: ClassVar[str] = "hcp1"


class Pcp1(_ShrunkHorizon, Pcp2):
    """PCP2 with the horizon of version 1."""

    name: ClassVar[str] = "pcp1"


# Planners by the name of the dispatcher.
SOURCE_MODELS: dict[str, type[Planner]] = {
    kind.name: kind for kind in (Planner, Pcp19, Pcp4, Pcp21, Pcp21s, Hcp1, Hcp2, Pcp1, Pcp2)
}
