"""From processors asked for to units of the machine: whole nodes or cores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlsim.platform import Machine
from mlsim.scenario import Mapping

__all__ = ["Requests"]


@dataclass(frozen=True, slots=True)
class Requests:
    """How jobs ask this machine for room.

    Attributes
    ----------
    mapping
        ``core``: a processor is a core, jobs share nodes. ``node``: a processor is a whole node.
        ``packed``: a job gets as many whole nodes as its processors fill.
    capacity
        Units of the whole machine.
    cores_per_node
        Cores of every node (``packed`` only).
    """

    mapping: Mapping
    capacity: int
    cores_per_node: int

    @classmethod
    def on(cls, machine: Machine, mapping: Mapping) -> Requests:
        """Describe the requests of a mapping on a machine."""
        capacity = machine.n_cores if mapping is Mapping.CORE else machine.n_nodes
        return cls(mapping, capacity, int(machine.cores[0]))

    @property
    def exclusive(self) -> bool:
        """Whether nodes are given whole."""
        return self.mapping is not Mapping.CORE

    @property
    def largest(self) -> int:
        """The most processors that a job can ask for and still fit on the empty machine."""
        return self.capacity * self.cores_per_node if self.mapping is Mapping.PACKED else self.capacity

    def units(self, processors: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the units for jobs that ask for so many processors."""
        if self.mapping is Mapping.PACKED:
            return -(-processors // self.cores_per_node)
        return processors.copy()

    def working(self, processors: NDArray[np.int64], cores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give how many of the cores that jobs hold their processors fill."""
        return cores.copy() if self.mapping is Mapping.NODE else np.minimum(processors, cores)
