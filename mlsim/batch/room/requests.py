"""From what jobs ask for to units of the machine: whole nodes, cores, or shares of nodes.

One rule holds for logs of every format. A job is a number of identical units, each on one node, which
together hold what the job asks for in all:

- column ``units``: as many, where the log says so;
- whole nodes (``mapping: node``, ``packed``): the job's nodes, where the log says how many, but no fewer than
  its processors fill; each node must have its part of the totals, rounded up;
- shared nodes (``mapping: core``): as many units as the job asks for nodes, where processors and totals
  divide by them; else the most units by which all of them divide. So a job of one node stays on one node, and
  16 cores and 4 GPUs of a job that says nothing of nodes are 4 units of 4 cores and a GPU.

Memory divides to the byte; nodes and units count whole MB of it, rounded down.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from mlsim._arrays import Ints, Mask
from mlsim.platform import Machine
from mlsim.scenario import MEMORY, Mapping, RequestConfig, megabytes
from mlsim.workload.jobs import JobBlock
from mlsim.workload.memory_units import MB
from mlsim.workload.resource_requests import NODE_COUNT, ResourceRequests

__all__ = ["Requests"]


@dataclass(frozen=True, slots=True)
class Requests:
    """How jobs ask this machine for room."""

    mapping: Mapping
    """``core``: a processor is a unit of one core or more, jobs share nodes. ``node``: a processor is a whole
    node. ``packed``: a job gets as many whole nodes as its processors fill.
    """
    capacity: int
    """Units of the whole machine, for jobs that say nothing of their own."""
    cores_per_node: int
    """Cores of every node (``packed`` only)."""
    cores_per_unit: int = 1
    """Cores of a unit (``core`` only)."""
    resources: tuple[str, ...] = ("cores",)
    """Names of what a node has; ``cores`` first."""
    defaults: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """What a unit asks of each beside cores where its log does not say it."""
    per_job: bool = False
    """Whether the log says what its jobs ask for."""
    largest_node: int = 1
    """Cores of the largest node."""
    shared: tuple[str, ...] = ()
    """Names of what the machine has as a whole."""
    shared_defaults: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """What a job asks of each, in all, where its log does not say it."""

    @classmethod
    def on(
        cls,
        machine: Machine,
        mapping: Mapping,
        config: RequestConfig | None = None,
        per_job: bool = False,
    ) -> Requests:
        """Describe the requests of a mapping on a machine."""
        config = config or RequestConfig()
        capacity = machine.n_nodes
        if mapping is Mapping.CORE:
            capacity = int((machine.cores // config.cores).sum())
        amounts = dict(config.resources) | {MEMORY: megabytes(config.default_memory)}
        defaults = [amounts.get(name, 0) for name in machine.resources[1:]]
        return cls(
            mapping,
            capacity,
            int(machine.cores[0]),
            config.cores,
            machine.resources,
            np.array(defaults, np.int64),
            per_job,
            int(machine.cores.max()),
            machine.shared.names,
            _default_shares(machine, config),
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
        """Whether nodes are given whole."""
        return self.mapping is not Mapping.CORE

    @property
    def largest(self) -> int:
        """The most processors that a job can ask for and still fit on the empty machine."""
        return self.capacity * self.cores_per_node if self.mapping is Mapping.PACKED else self.capacity

    def units(self, processors: Ints) -> Ints:
        """Return the units of jobs that ask for so many processors and say nothing of nodes and units."""
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
        return np.where(_own_units(jobs), _units(jobs), units)

    def _divided(self, jobs: JobBlock) -> Ints:
        """Return the units by which processors and totals of jobs on shared nodes divide."""
        units, nodes = jobs.processors.copy(), jobs.node_count
        if jobs.asked is not None:
            for name, totals in zip(jobs.asked.names, jobs.asked.totals.T, strict=True):
                if name != MEMORY and name not in self.shared:
                    units = np.gcd(units, np.maximum(totals, 0))
        # Who asks for more cores than so many nodes have cannot be bound to them: the count is a least one.
        bound = (nodes > 0) & (jobs.processors * self.cores_per_unit <= nodes * self.largest_node)
        return np.where(bound & (units % np.maximum(nodes, 1) == 0), nodes, units)

    def per_unit(self, jobs: JobBlock, units: Ints) -> Ints:
        """Return what one unit of each job asks of each resource.

        Cores are those that the job's processors fill on a unit; with whole nodes the unit gets the others
        too.

        Returns
        -------
        ndarray of int64, shape (jobs, resources)
        """
        own, each = _own_units(jobs), -(-jobs.processors // units)
        request = np.empty((len(jobs), len(self.resources)), np.int64)
        request[:, 0] = each
        request[:, 1:] = self.defaults
        if self.mapping is Mapping.CORE:  # a unit may be several processors; defaults are those of one
            request[~own, 0] *= self.cores_per_unit
            request[~own, 1:] *= each[~own, None]
        elif self.mapping is Mapping.NODE:
            request[~own, 0] = 1
        if jobs.asked is not None:
            for name, totals in zip(jobs.asked.names, jobs.asked.totals.T, strict=True):
                if name not in self.shared:
                    place, known = self.resources.index(name), totals >= 0
                    parts = (
                        _memory_of_each(jobs.asked, totals, units) if name == MEMORY else -(-totals // units)
                    )
                    request[known, place] = parts[known]
        return request

    def shares_of(self, jobs: JobBlock) -> Ints:
        """Return what each job asks, in all, of what the machine has as a whole.

        Returns
        -------
        ndarray of int64, shape (jobs, shared)
        """
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


def _own_units(jobs: JobBlock) -> Mask:
    """Return which jobs' log says their units."""
    return _units(jobs) > 0


def _units(jobs: JobBlock) -> Ints:
    return np.full(len(jobs), -1, np.int64) if jobs.asked is None else jobs.asked.units


def _memory_of_each(asked: ResourceRequests, totals: Ints, units: Ints) -> Ints:
    """Return the memory of each unit (MB, rounded down)."""
    size = totals * MB if asked.exact is None else np.where(asked.exact >= 0, asked.exact, totals * MB)
    return size // units // MB


def _default_shares(machine: Machine, config: RequestConfig) -> Ints:
    amounts = {name: share.whole for name, share in config.shares.items()}
    return np.array([amounts.get(name, 0) for name in machine.shared.names], np.int64)
