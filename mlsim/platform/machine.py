"""The machine as columns: nodes in allocation order, with their power."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim.errors import InputError
from mlsim.platform.network import Network
from mlsim.platform.node_speeds import Perturbations
from mlsim.scenario import CORES, MEMORY, PlatformConfig, Scenario, megabytes, resolve_path


@dataclass(frozen=True, slots=True)
class SharedResources:
    """Amounts of the whole machine, which jobs request in total."""

    names: tuple[str, ...] = ()
    """Of the S resources."""
    units: tuple[str, ...] = ()
    """Unit of each: ``MB``, ``Mbit/s``, or none."""
    capacity: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """int64[S]: how much of each there is."""


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
    perturbations
        Slowdowns of nodes over time.
    resources
        Names of node resources: ``cores``, then ``memory`` if the platform specifies it, then the others.
    capacity : ndarray of int64, shape (n_nodes, len(resources))
        Amount of each resource per node; memory in MB.
    shared
        Machine-wide resources.
    """

    name: list[str]
    group: list[str]
    cores: NDArray[np.int64]
    speed: NDArray[np.float64]
    reference_speed: float
    network: Network
    perturbations: Perturbations
    resources: tuple[str, ...]
    capacity: NDArray[np.int64]
    shared: SharedResources = field(default_factory=SharedResources)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.name)

    @property
    def n_cores(self) -> int:
        """Number of cores of all nodes."""
        return int(self.cores.sum())


def machine_of(scenario: Scenario) -> Machine:
    """Build the machine of a scenario, with the files that its platform names.

    Raises
    ------
    InputError
        If an edge list cannot be used.
    """
    network = scenario.platform.network
    edges = None
    if network.path is not None:
        edges = resolve_path(scenario, network.path, key="platform.network.path")
    try:
        return build_machine(scenario.platform, scenario.seed, edges)
    except InputError as error:
        raise InputError(f"{scenario.source}: platform.network: {error}") from error


def build_machine(config: PlatformConfig, seed: int = 0, edges: Path | None = None) -> Machine:
    """Lay out the node groups of a scenario, in the order they are written.

    ``seed`` is that of random perturbations, ``edges`` the file of an edge list.

    Raises
    ------
    InputError
        If an edge list cannot be used.
    """
    groups = config.nodes
    reference = config.reference_speed or groups[0].core_speed
    counts = [group.count for group in groups]
    names = [f"{group.name}{number}" for group in groups for number in range(group.count)]
    return Machine(
        name=names,
        group=[name for group in groups for name in [group.name] * group.count],
        cores=np.repeat(np.array([group.cores for group in groups], np.int64), counts),
        speed=np.repeat(np.array([group.core_speed / reference for group in groups]), counts),
        reference_speed=reference,
        network=Network.from_config(config.network, names, edges),
        perturbations=Perturbations.from_config(config, seed),
        resources=(CORES, *config.resource_names),
        capacity=np.repeat(_capacity(config), counts, axis=0),
        shared=_shared(config),
    )


def _shared(config: PlatformConfig) -> SharedResources:
    shares = config.shares
    return SharedResources(
        tuple(shares),
        tuple(share.unit for share in shares.values()),
        np.array([share.whole for share in shares.values()], np.int64),
    )


def _capacity(config: PlatformConfig) -> NDArray[np.int64]:
    """Return the capacity of a node of each group, by resource."""
    rows = [
        [group.cores]
        + [
            megabytes(group.memory or 0.0) if name == MEMORY else group.resources.get(name, 0)
            for name in config.resource_names
        ]
        for group in config.nodes
    ]
    return np.array(rows, np.int64)


class PowerColumns(NamedTuple):
    """Power of each node, in W, when no core is held, when all are, and when it is out of use."""

    idle: NDArray[np.float64]
    busy: NDArray[np.float64]
    off: NDArray[np.float64]


def power_of(config: PlatformConfig) -> PowerColumns | None:
    """Return the power of each node; None where the scenario has none."""
    powers = [group.power for group in config.nodes]
    if any(power is None for power in powers):
        return None  # then it is None for all, as the section makes sure
    counts = [group.count for group in config.nodes]
    rows = [(power.idle, power.busy, power.off) for power in powers if power is not None]
    return PowerColumns(*np.repeat(np.array(rows, np.float64).T, counts, axis=1))
