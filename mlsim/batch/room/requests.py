"""From what jobs ask for to units of the machine: whole nodes, cores, or shares of nodes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mlsim.platform import Machine
from mlsim.scenario import MEMORY, Mapping, RequestConfig, megabytes
from mlsim.workload.jobs import JobBlock

__all__ = ["Requests"]

Ints = NDArray[np.int64]


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
            machine.shared.names,
            _default_shares(machine, config),
        )

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
        """Return the units of jobs that ask for so many processors and say nothing of units."""
        if self.mapping is Mapping.PACKED:
            return -(-processors // self.cores_per_node)
        return processors.copy()

    def units_of(self, jobs: JobBlock) -> Ints:
        """Return the units of jobs."""
        units = self.units(jobs.processors)
        if jobs.asked is not None:
            units = np.where(jobs.asked.units > 0, jobs.asked.units, units)
        return units

    def per_unit(self, jobs: JobBlock, units: Ints) -> Ints:
        """Return what one unit of each job asks of each resource.

        Cores are those that the job's processors fill on a unit; with whole nodes the unit gets the others
        too. Totals of a log that do not divide by the mapping's units are rounded up.

        Returns
        -------
        ndarray of int64, shape (jobs, resources)
        """
        request = np.empty((len(jobs), len(self.resources)), np.int64)
        request[:, 0] = -(-jobs.processors // units)
        if self.mapping is Mapping.CORE:
            own = np.zeros(len(jobs), np.bool_) if jobs.asked is None else jobs.asked.units > 0
            request[:, 0] = np.where(own, request[:, 0], self.cores_per_unit)
        request[:, 1:] = self.defaults
        if jobs.asked is not None:
            for column, name in enumerate(jobs.asked.names):
                if name in self.shared:
                    continue
                place = self.resources.index(name)
                known = jobs.asked.totals[:, column] >= 0
                request[known, place] = -(-jobs.asked.totals[known, column] // units[known])
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


def _default_shares(machine: Machine, config: RequestConfig) -> Ints:
    amounts = {name: share.whole for name, share in config.shares.items()}
    return np.array([amounts.get(name, 0) for name in machine.shared.names], np.int64)
