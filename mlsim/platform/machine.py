"""The machine as columns: nodes in allocation order, their power, and their slow-downs over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.platform.network import Network
from mlsim.scenario import PlatformConfig, Scenario
from mlsim.scenario.amount_types import node_ranges
from mlsim.scenario.platform_section import PerturbationConfig
from mlsim.scenario.resources_section import CORES, DEVICE_PARTS, MEMORY, megabytes
from mlsim.scenario.scenario_paths import resolve_path

_BLOCK = 64
_MOST_SLOW_DOWNS = 10_000_000
# Keeps these random numbers apart from others that are keyed by the seed.
_STREAM = 0x510D0


class Steps(NamedTuple):
    """A step function of time: 1 before the first step."""

    time: Floats  # float64[n], rising, in s of simulated time; of steps at one time the last holds
    factor: Floats  # float64[n]: what the speed is multiplied by from that time on, until the next

    def at(self, times: Floats) -> Floats:
        """Return the speed factor at each of several times."""
        return np.append(1.0, self.factor)[np.searchsorted(self.time, times, side="right")]


class Perturbations:
    """The slow-downs of a machine's nodes; random ones are drawn on demand.

    Random numbers are keyed by seed, entry and node, and drawn in order of time, whatever is asked for.
    """

    def __init__(
        self, entries: Sequence[PerturbationConfig], groups: list[tuple[str, int]], seed: int
    ) -> None:
        self._entries = tuple(entries)
        self._nodes = [node_ranges(entry.nodes, groups) for entry in entries]
        self._seed = seed
        self._processes: dict[tuple[int, int], _Process] = {}

    @classmethod
    def from_config(cls, config: PlatformConfig, seed: int) -> Perturbations:
        """Return the perturbations of a scenario."""
        return cls(config.perturbations, [(group.name, group.count) for group in config.nodes], seed)

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def are_random(self) -> bool:
        """Whether there is a random process among them."""
        return any(entry.is_random for entry in self._entries)

    def steps(self, node: int, start: float, end: float) -> Steps:
        """Return the steps of a node's speed factor from ``start`` until before ``end`` [s]."""
        parts = [
            self._part(number, entry, node, start, end)
            for number, entry in enumerate(self._entries)
            if any(node in nodes for nodes in self._nodes[number])
        ]
        changes = np.concatenate([[start], *(part.time for part in parts)])
        times = np.unique(changes[(changes >= start) & (changes < end)])
        factors = np.ones(len(times))
        for part in parts:
            factors *= part.at(times)
        changed = np.diff(factors, prepend=1.0) != 0.0
        return Steps(times[changed], factors[changed])

    def _part(self, number: int, entry: PerturbationConfig, node: int, start: float, end: float) -> Steps:
        """Return the steps that one entry causes on a node: at least those between two times."""
        if not entry.is_random:
            back = [] if entry.end is None else [entry.end]
            return Steps(np.array([entry.begin, *back]), np.array([entry.factor[0], *(1.0 for _ in back)]))
        process = self._processes.get((number, node))
        if process is None:
            # Entries that are not random leave the random numbers of the others as they are.
            order = sum(other.is_random for other in self._entries[:number])
            key = np.random.SeedSequence(self._seed, spawn_key=(_STREAM, order, node))
            process = self._processes[number, node] = _Process(entry, number, node, key)
        return process.steps(start, end)


class _Process:
    """Availability of one node: up for a while, slowed down for a while, and so on; both exponential."""

    def __init__(
        self, entry: PerturbationConfig, number: int, node: int, key: np.random.SeedSequence
    ) -> None:
        assert entry.mean_time_between is not None
        assert entry.mean_duration is not None
        self._means = np.array([entry.mean_time_between, entry.mean_duration])
        self._range = entry.factor
        self._place = f"platform.perturbations.{number}, node {node}"
        self._random = np.random.default_rng(key)
        self._end = math.inf if entry.end is None else entry.end
        self._drawn = entry.begin  # what happens before is known
        self._known = Steps(np.empty(0), np.empty(0))

    def steps(self, start: float, end: float) -> Steps:
        """Return the steps from the last one up to ``start`` to the last one before ``end``."""
        while self._drawn < min(end, self._end):
            self._draw()
        time, factor = self._known
        first, last = np.searchsorted(time, start, side="right") - 1, np.searchsorted(time, end)
        wanted = slice(max(first, 0), last)
        return Steps(time[wanted], factor[wanted])

    def _draw(self) -> None:
        """Double the number of drawn slow-downs, always with the same numbers in the same order."""
        known = len(self._known.time) // 2
        if known > _MOST_SLOW_DOWNS:
            raise InputError(
                f"{self._place}: more than {_MOST_SLOW_DOWNS} slow-downs in {self._drawn:g} s, too many to "
                "simulate; give a larger mean_time_between, or an earlier end (to)"
            )
        count = max(known, _BLOCK)
        lengths = self._random.standard_exponential((count, 2)) * self._means
        time = self._drawn + np.cumsum(lengths)
        self._drawn = float(time[-1])
        low, high = self._range
        factor = np.ones((count, 2))
        factor[:, 0] = low + (high - low) * self._random.random(count)
        # A slow-down at the end of the process ends with it, and later ones do not begin.
        kept = np.repeat(time[::2] < self._end, 2)
        self._known = Steps(
            np.append(self._known.time, np.minimum(time, self._end)[kept]),
            np.append(self._known.factor, factor.ravel()[kept]),
        )


@dataclass(frozen=True, slots=True)
class SharedResources:
    """Amounts of the whole machine, which jobs request in total."""

    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()  # unit of each: `MB`, `Mbit/s`, or none
    capacity: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # how much of each there is


@dataclass(frozen=True, slots=True)
class Machine:
    """Nodes, their cores and speeds, and the network."""

    name: list[str]  # of each node: the name of its group and its number there
    group: list[str]  # name of each node's group
    cores: Ints
    speed: Floats  # of one core of each node, relative to `reference_speed`
    reference_speed: float  # FLOP/s of a core at which costs in seconds and the run times of logs hold
    network: Network
    perturbations: Perturbations
    resources: tuple[str, ...]  # of nodes: `cores`, then `memory` if the platform specifies it, then others
    capacity: Ints  # (n_nodes, len(resources)): of each node; memory in MB, devices in `parts`
    shared: SharedResources = field(default_factory=SharedResources)
    devices: tuple[str, ...] = ()  # the resources that are devices

    @property
    def parts(self) -> Ints:
        """Amount of each resource that one of it is: a device is many parts."""
        return np.array([DEVICE_PARTS if name in self.devices else 1 for name in self.resources], np.int64)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.name)

    @property
    def n_cores(self) -> int:
        """Number of cores of all nodes."""
        return int(self.cores.sum())


def machine_of(scenario: Scenario) -> Machine:
    """Build the machine of a scenario, with the files that its platform names."""
    network = scenario.platform.network
    edges = None
    if network.path is not None:
        edges = resolve_path(scenario, network.path, key="platform.network.path")
    try:
        return build_machine(scenario.platform, scenario.seed, edges)
    except InputError as error:
        raise InputError(f"{scenario.source}: platform.network: {error}") from error


def build_machine(config: PlatformConfig, seed: int = 0, edges: Path | None = None) -> Machine:
    """Lay out the node groups of a scenario in the order they are written; ``edges``: file of a list."""
    groups, shares = config.nodes, config.shares
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
        devices=config.device_names,
        shared=SharedResources(
            tuple(shares),
            tuple(share.unit for share in shares.values()),
            np.array([share.whole for share in shares.values()], np.int64),
        ),
    )


def _capacity(config: PlatformConfig) -> Ints:
    """Return the capacity of a node of each group, by resource."""
    rows = [
        [group.cores]
        + [
            megabytes(group.memory or 0.0) if name == MEMORY else group.resources.get(name, 0)
            for name in config.resource_names
        ]
        for group in config.nodes
    ]
    parts = [DEVICE_PARTS if name in config.device_names else 1 for name in (CORES, *config.resource_names)]
    return np.array(rows, np.int64) * np.array(parts, np.int64)


class PowerColumns(NamedTuple):
    """Power of each node, in W, when no core is held, when all are, and when it is out of use."""

    idle: Floats
    busy: Floats
    off: Floats


def power_of(config: PlatformConfig) -> PowerColumns | None:
    """Return the power of each node; None where the scenario has none."""
    powers = [group.power for group in config.nodes]
    if any(power is None for power in powers):
        return None  # then it is None for all, as the section makes sure
    counts = [group.count for group in config.nodes]
    rows = [(power.idle, power.busy, power.off) for power in powers if power is not None]
    return PowerColumns(*np.repeat(np.array(rows, np.float64).T, counts, axis=1))
