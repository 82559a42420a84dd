"""Requests of jobs in units of the machine, requests that never fit, and the power cap as units."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from mlsim._runtime.arrays import Ints, Mask
from mlsim.platform import Machine
from mlsim.platform.machine import PowerColumns
from mlsim.platform.node_lists import RecordedNodes
from mlsim.scenario.resources_section import CORES, DEVICE_PARTS, MEMORY, RequestConfig, megabytes
from mlsim.scenario.words import Mapping
from mlsim.workload.workload_jobs import MB, NODE_COUNT, JobBlock, NodeSets, ResourceRequests

_ROUNDING = 1e-6  # units by which the power of held units may exceed the cap through rounding errors


def _no_amounts() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Requests:
    """The mapping of jobs' requests to units of this machine."""

    # ``core``: a processor is a unit of one core or more, jobs share nodes. ``node``: a processor is a whole
    # node.
    # ``packed``: a job gets as many whole nodes as its processors fill.
    mapping: Mapping
    capacity: int  # units of the whole machine, for jobs whose log does not specify units
    cores_per_node: int  # of every node (``packed`` only)
    cores_per_unit: int = 1  # (``core`` only)
    resources: tuple[str, ...] = ("cores",)  # names of the resources of nodes; ``cores`` first
    # Request of a unit for each resource beside cores; of devices in parts.
    defaults: Ints = field(default_factory=_no_amounts)
    devices: tuple[str, ...] = ()  # the resources of nodes that are devices
    per_job: bool = False  # whether the log has requests of its jobs
    largest_node: int = 1  # cores of the largest node
    shared: tuple[str, ...] = ()  # names of the amounts of the whole machine (``platform.shared``)
    shared_defaults: Ints = field(default_factory=_no_amounts)  # request of a job, in total, for each
    node_sets: bool = False  # whether jobs may have sets of nodes that they may use (``JobBlock.node_sets``)
    named: RecordedNodes | None = None  # that the log names for its jobs, which get these if they are free

    @classmethod
    def on(
        cls,
        machine: Machine,
        mapping: Mapping,
        config: RequestConfig | None = None,
        per_job: bool = False,
        node_sets: bool = False,
    ) -> Requests:
        """Describe the requests of a mapping on a machine."""
        config = config or RequestConfig()
        capacity = machine.n_nodes
        if mapping is Mapping.CORE:
            capacity = int((machine.cores // config.cores).sum())
        amounts = dict(config.resources) | {MEMORY: megabytes(config.default_memory)}
        defaults = [
            round(amounts.get(name, 0) * parts)
            for name, parts in zip(machine.resources[1:], machine.parts[1:].tolist(), strict=True)
        ]
        return cls(
            mapping,
            capacity,
            int(machine.cores[0]),
            config.cores,
            machine.resources,
            np.array(defaults, np.int64),
            machine.devices,
            per_job,
            int(machine.cores.max()),
            machine.shared.names,
            _default_shares(machine, config),
            node_sets,
        )

    def for_columns(self, columns: Collection[str]) -> Requests:
        """Return the same for a log with these columns of requests (its header's ``request_columns``)."""
        # Whole nodes are units of a pool, however many nodes a job asks for.
        plain = {NODE_COUNT} if self.exclusive else set()
        return replace(self, per_job=bool(set(columns) - plain))

    @property
    def plain(self) -> bool:
        """Whether every unit is a whole node, whatever it has, or one core."""
        return len(self.resources) == 1 and self.cores_per_unit == 1 and not self.per_job

    @property
    def exclusive(self) -> bool:
        """Whether nodes are allocated whole."""
        return self.mapping is not Mapping.CORE

    @property
    def largest(self) -> int:
        """The most processors that a job can ask for and still fit on the empty machine."""
        return self.capacity * self.cores_per_node if self.mapping is Mapping.PACKED else self.capacity

    def units(self, processors: Ints) -> Ints:
        """Return the units of jobs that only request processors."""
        if self.mapping is Mapping.PACKED:
            return -(-processors // self.cores_per_node)
        return processors.copy()

    def units_of(self, jobs: JobBlock) -> Ints:
        """Return the units of jobs."""
        units, nodes = self.units(jobs.processors), jobs.node_count
        if not self.exclusive:
            units = self._divided(jobs)
        elif self.mapping is Mapping.PACKED:
            units = np.maximum(units, nodes)
        else:
            units = np.where(nodes > 0, nodes, units)
        return np.where(_logged_units(jobs) > 0, _logged_units(jobs), units)

    def _divided(self, jobs: JobBlock) -> Ints:
        """Return the units by which processors and totals of jobs on shared nodes divide."""
        units, nodes = jobs.processors.copy(), jobs.node_count
        if jobs.asked is not None:
            for name, totals in zip(jobs.asked.names, jobs.asked.totals.T, strict=True):
                if name != MEMORY and name not in self.shared:
                    units = np.gcd(units, np.maximum(totals, 0))
        # A job with more cores than so many nodes have is not bound to them: the count is a minimum.
        bound = (nodes > 0) & (jobs.processors * self.cores_per_unit <= nodes * self.largest_node)
        units = np.where(bound & (units % np.maximum(nodes, 1) == 0), nodes, units)
        return np.where(self._asks_for_share(jobs) & (nodes <= 1), 1, units)

    def _asks_for_share(self, jobs: JobBlock) -> Mask:
        """Return which jobs ask for a share of a device, so that they are one unit."""
        found = np.zeros(len(jobs), np.bool_)
        for place in np.flatnonzero(self._default_shares).tolist():
            found |= jobs.asked is None or jobs.asked.totals_of(self.resources[place + 1]) < 0
        return found if jobs.asked is None else found | jobs.asked.has_share

    @property
    def _default_shares(self) -> Mask:
        """Whether each default is a share of a device."""
        return np.array([name in self.devices for name in self.resources[1:]], np.bool_) & (
            self.defaults % DEVICE_PARTS > 0
        )

    def per_unit(self, jobs: JobBlock, units: Ints) -> Ints:
        """Return the request of one unit of each job, shape (jobs, resources); cores: those that it uses."""
        own, each = _logged_units(jobs) > 0, -(-jobs.processors // units)
        request = np.empty((len(jobs), len(self.resources)), np.int64)
        request[:, 0] = each
        request[:, 1:] = self.defaults
        if self.mapping is Mapping.CORE:  # a unit may be several processors; defaults are those of one
            request[~own, 0] *= self.cores_per_unit
            request[~own, 1:] *= np.where(self._default_shares, 1, each[~own, None])
        elif self.mapping is Mapping.NODE:
            request[~own, 0] = 1
        if jobs.asked is not None:
            for name, totals in zip(jobs.asked.names, jobs.asked.totals.T, strict=True):
                if name not in self.shared:
                    place, known = self.resources.index(name), totals >= 0
                    parts = (
                        _memory_of_each(jobs.asked, totals, units) if name == MEMORY else -(-totals // units)
                    )
                    if name in self.devices:
                        parts = jobs.asked.in_parts(name, parts)
                    request[known, place] = parts[known]
        return request

    def shares_of(self, jobs: JobBlock) -> Ints:
        """Return the total request of each job for the amounts of the whole machine, shape (jobs, shared)."""
        shares = np.tile(self.shared_defaults, (len(jobs), 1))
        if jobs.asked is not None:
            for place, name in enumerate(self.shared):
                if name in jobs.asked.names:
                    totals = jobs.asked.totals[:, jobs.asked.names.index(name)]
                    shares[:, place] = np.where(totals >= 0, totals, shares[:, place])
        return shares

    def working(self, processors: Ints, cores: Ints) -> Ints:
        """Return how many of the cores that jobs hold their processors fill."""
        if self.mapping is Mapping.NODE:
            return cores.copy()
        return np.minimum(processors * self.cores_per_unit, cores)


def _logged_units(jobs: JobBlock) -> Ints:
    """Return the units of jobs in the log; -1 where it has none."""
    return np.full(len(jobs), -1, np.int64) if jobs.asked is None else jobs.asked.units


def _memory_of_each(asked: ResourceRequests, totals: Ints, units: Ints) -> Ints:  # MB, rounded down
    size = totals * MB if asked.exact is None else np.where(asked.exact >= 0, asked.exact, totals * MB)
    return size // units // MB


def _default_shares(machine: Machine, config: RequestConfig) -> Ints:
    amounts = {name: share.whole for name, share in config.shares.items()}
    return np.array([amounts.get(name, 0) for name in machine.shared.names], np.int64)


_MOST_REASONS = 100  # that name amounts; further ones do not, so that tables of reasons stay short


class PowerCap:
    """The power that a cap leaves to jobs; counts of units make sense only if all units add the same.

    A unit is a node if ``exclusive``, else a core. ``levels`` are (time [s], cap [W]) in order of time.
    """

    def __init__(
        self, power: PowerColumns, cores: Ints, exclusive: bool, levels: tuple[tuple[float, float], ...]
    ) -> None:
        self._power = power
        # What each node, or each of its cores where these are allocated singly, adds when it is held [W].
        self.of_each = (power.busy - power.idle) / (1 if exclusive else cores)
        self.of_waking = power.idle - power.off  # what each node adds when it returns to service [W]
        self._of_a_unit = float(self.of_each[0])
        self._units = len(cores) if exclusive else int(cores.sum())
        self.levels = levels
        self.watts = math.inf if levels[0][0] > 0.0 else levels[0][1]  # the cap now

    @property
    def is_even(self) -> bool:
        """Whether every node, or core, adds the same."""
        return bool((self.of_each == self.of_each[0]).all())

    @property
    def highest(self) -> float:
        """Power that jobs may add when all nodes are in use and the cap is at its highest, in W."""
        # Before the first level there is no cap.
        most = math.inf if self.levels[0][0] > 0.0 else max(watts for _, watts in self.levels)
        return most - float(self._power.idle.sum())

    def left(self, is_on: Mask) -> float:
        """Return what jobs may add to the power of nodes that are on, in W; below 0 if nothing."""
        return self.watts - float(np.where(is_on, self._power.idle, self._power.off).sum())

    @property
    def largest(self) -> int:
        """Units that jobs may hold when all nodes are in use and the cap is at its highest."""
        return self._units_under(self.highest)

    def units(self, is_on: Mask) -> int:
        """Return the units that jobs may hold now; ``is_on``: nodes that are in use, or held all the same."""
        return self._units_under(self.left(is_on))

    def _units_under(self, left: float) -> int:
        """Units that may be held where they may add so much."""
        if self._of_a_unit == 0.0 or left == math.inf:
            return self._units if left >= 0.0 else 0
        return min(math.floor(left / self._of_a_unit + _ROUNDING), self._units)


class Misfits:
    """Finds jobs that the empty machine, or the nodes that they may use, cannot hold.

    ``strict``: a job needs neighbouring nodes. ``cap``: a cap under which every unit adds the same power.
    """

    def __init__(
        self, machine: Machine, requests: Requests, strict: bool = False, cap: PowerCap | None = None
    ) -> None:
        self._requests, self._strict, self._cap = requests, strict, cap
        self._shared = machine.shared
        # Neighbours matter only to jobs that need them.
        self._capacity = machine.capacity
        if strict:
            self._has, self._count = machine.capacity, np.ones(machine.n_nodes, np.int64)
        else:
            self._has, self._count = np.unique(machine.capacity, axis=0, return_counts=True)
        self._nouns = tuple("MB of memory" if name == MEMORY else name for name in machine.resources)
        self._parts = machine.parts
        self._named: set[str] = set()

    def find(self, units: Ints, request: Ints, shares: Ints, sets: NodeSets | None = None) -> dict[str, Mask]:
        """Return, by reason, which jobs the machine, or the nodes that they may use, cannot hold.

        ``units`` are those of each job, ``request`` and ``shares`` as :meth:`Requests.per_unit` and
        :meth:`Requests.shares_of` return them.
        """
        of_job = np.zeros(len(units), np.int64) if sets is None else sets.of_job
        asked = np.column_stack([units, of_job, request, shares])
        distinct, of = np.unique(asked, axis=0, return_inverse=True)
        last, reasons = 2 + request.shape[1], []
        for row in distinct:
            reason = self._reason(int(row[0]), row[2:last], row[last:])
            if not reason and sets is not None and row[1] > 0:
                reason = self._reason_in(sets.masks[row[1] - 1], int(row[0]), row[2:last])
            reasons.append(reason)
        return {
            reason: np.array([found == reason for found in reasons], np.bool_)[of.ravel()]
            for reason in sorted(set(reasons) - {""})
        }

    def find_in(self, jobs: JobBlock) -> dict[str, Mask]:
        """Return which jobs of a block the machine cannot hold, by reason."""
        units = self._requests.units_of(jobs)
        request, shares = self._requests.per_unit(jobs, units), self._requests.shares_of(jobs)
        return self.find(units, request, shares, jobs.node_sets)

    def _reason(self, units: int, request: Ints, shares: Ints) -> str:
        exclusive = self._requests.exclusive
        largest, asked, shown = self._has.max(axis=0), request > 0, self._shown
        for r in np.flatnonzero(request % self._parts).tolist():
            if request[r] > self._parts[r] or (units > 1 and not exclusive):
                of = f" for each of {units:,} units" if units > 1 else ""
                there = "a job of one unit may ask for a share of one device, others for whole ones"
                return self.say(f"{shown(request[r], r)} ", self._nouns[r], of, there)
        for r in np.flatnonzero(request > largest).tolist():
            there = f"the largest has {shown(largest[r], r)}"
            return self.say(f"{shown(request[r], r)} ", self._nouns[r], " on one node", there)
        each = ", ".join(f"{shown(request[r], r)} {self._nouns[r]}" for r in np.flatnonzero(asked).tolist())
        fit = (self._has[:, asked] // request[asked]).min(axis=1, initial=1 if exclusive else units)
        if not fit.any():
            return self.say(f"{each}: ", "all of them", " on one node", "no node has them together")
        total = self._count @ self._has
        for r in np.flatnonzero(units * request > total).tolist() if not exclusive else ():
            there = f"the machine has {shown(total[r], r)}"
            return self.say(f"{shown(units * request[r], r)} ", self._nouns[r], "", there)
        if (held := int(fit @ self._count)) < units:
            of_each = f" of {each} each" if request[1:].any() or not exclusive else ""
            there = f"the machine has {held:,}"
            return self.say(f"{units:,} ", "nodes" if exclusive else "units", of_each, there)
        for name, unit, asks, has in zip(
            self._shared.names, self._shared.units, shares, self._shared.capacity, strict=True
        ):
            if asks > has:
                noun = f"{unit} of {name}" if unit else name
                return self.say(f"{asks:,} ", noun, "", f"the machine has {has:,}")
        if self._strict and (longest := _most_in_a_row(fit)) < units:
            there = f"at most {longest:,} are side by side"
            return self.say(f"{units:,} ", f"neighbouring {'nodes' if exclusive else 'units'}", "", there)
        powered = units if exclusive else units * int(request[0])
        if self._cap is not None and powered > self._cap.largest:
            there = f"the power cap leaves {self._cap.largest:,}"
            return self.say(f"{powered:,} ", "nodes" if exclusive else CORES, "", there)
        return ""

    def _shown(self, amount: int, r: int) -> str:
        return f"{amount / self._parts[r]:,.10g}" if self._parts[r] > 1 else f"{amount:,}"

    def _reason_in(self, may_use: Mask, units: int, request: Ints) -> str:
        """Return why the nodes that a job may use cannot hold it, or an empty text."""
        asked, exclusive = request > 0, self._requests.exclusive
        most = 1 if exclusive else units
        fit = (self._capacity[:, asked] // request[asked]).min(axis=1, initial=most) * may_use
        noun, n = "nodes" if exclusive else "units", int(may_use.sum())
        there = f"the {n:,} node{'s' * (n != 1)} that it may use {'have' if n != 1 else 'has'}"
        if (held := int(fit.sum())) < units:
            return self.say(f"{units:,} ", noun, "", f"{there} room for {held:,}")
        if self._strict and (longest := _most_in_a_row(fit)) < units:
            return self.say(
                f"{units:,} ", f"neighbouring {noun}", "", f"{there} {longest:,} side by side at most"
            )
        return ""

    def say(self, amount: str, noun: str, where: str, there: str) -> str:
        """Return a reason; one without amounts if very many have been named already."""
        reason = f"asks for {amount}{noun}{where}; {there}"
        if reason not in self._named and len(self._named) >= _MOST_REASONS:
            return f"asks for more {noun}{' on one node' if where else ''} than there are"
        self._named.add(reason)
        return reason


def _most_in_a_row(fit: Ints) -> int:
    """Return the most units that neighbouring nodes, all with room, hold."""
    stretches = np.split(fit, np.flatnonzero(fit == 0))
    return max(int(stretch.sum()) for stretch in stretches)


def without_start(block: JobBlock, reasons: dict[str, Mask]) -> dict[str, Mask]:
    """Return which other jobs ``dispatcher: recorded`` rejects: those without a start or a withdrawal."""
    others = np.logical_or.reduce([block.recorded_start >= 0, block.patience >= 0, *reasons.values()])
    return {} if others.all() else {"has no recorded start": ~others}
