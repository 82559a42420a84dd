"""The machine as columns: one entry a node, in allocation order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlsim.platform.network import Network
from mlsim.scenario import PlatformConfig

__all__ = ["Machine", "build_machine"]


@dataclass(frozen=True, slots=True)
class Machine:
    """Nodes, their cores and speeds, and the network.

    Attributes
    ----------
    name, group
        The node's name (group name and number in the group) and its group's name.
    cores
        Cores of each node.
    speed
        Speed of one core of each node relative to ``reference_speed``.
    reference_speed
        FLOP/s of a core at which costs in seconds and the run times of logs hold.
    network
        Times of messages between nodes.
    """

    name: list[str]
    group: list[str]
    cores: NDArray[np.int64]
    speed: NDArray[np.float64]
    reference_speed: float
    network: Network

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.name)

    @property
    def n_cores(self) -> int:
        """Number of cores of all nodes."""
        return int(self.cores.sum())


def build_machine(config: PlatformConfig) -> Machine:
    """Lay out the node groups of a scenario, in the order they are written."""
    groups = config.nodes
    reference = config.reference_speed or groups[0].core_speed
    counts = [group.count for group in groups]
    return Machine(
        name=[f"{group.name}{number}" for group in groups for number in range(group.count)],
        group=[group.name for group in groups for _ in range(group.count)],
        cores=np.repeat(np.array([group.cores for group in groups], np.int64), counts),
        speed=np.repeat(np.array([group.core_speed / reference for group in groups]), counts),
        reference_speed=reference,
        network=Network.from_config(config.network),
    )
