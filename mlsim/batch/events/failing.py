"""Random failures: an independent process for each node, with its own stream of random numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mlsim.batch.room.announced import AnnouncedDrain
from mlsim.scenario import (
    DrainConfig,
    FailureConfig,
    PlatformConfig,
    RandomFailureConfig,
    node_ranges,
)

__all__ = ["FailureProcess", "OutagePlan"]

# Keeps these random numbers apart from others that are keyed by the seed.
_STREAM = 0xFA11


class FailureProcess:
    """Failures and repairs of one node: time in use by Weibull, time to repair exponential.

    The random numbers are keyed by the seed, the entry of the scenario and the node, and drawn in order of
    time, so what happens to other nodes and to jobs changes nothing.

    Parameters
    ----------
    node
        Number of the node.
    config
        Means and shape.
    key
        Key of its random numbers.
    """

    def __init__(self, node: int, config: RandomFailureConfig, key: np.random.SeedSequence) -> None:
        self.node = node
        self._shape = config.shape
        # The mean of the Weibull distribution is scale · Γ(1 + 1 / shape).
        self._scale = config.mtbf / math.gamma(1.0 + 1.0 / config.shape)
        self._mean_repair = config.mttr
        self._random = np.random.default_rng(key)

    def time_in_use(self) -> float:
        """Draw how long the node is in use until it fails, in s."""
        return self._scale * float(self._random.weibull(self._shape))

    def time_to_repair(self) -> float:
        """Draw how long its repair takes, in s."""
        return self._mean_repair * float(self._random.standard_exponential())


@dataclass(frozen=True, slots=True)
class OutagePlan:
    """What is known beforehand of nodes that will be out of use.

    Attributes
    ----------
    failures, random_failures, drains
        The entries of the scenario.
    groups
        Name and number of nodes of every node group.
    seed
        Seed of the scenario.
    """

    failures: tuple[FailureConfig, ...] = ()
    random_failures: tuple[RandomFailureConfig, ...] = ()
    drains: tuple[DrainConfig, ...] = ()
    groups: tuple[tuple[str, int], ...] = ()
    seed: int = 0

    @classmethod
    def from_config(cls, config: PlatformConfig, seed: int) -> OutagePlan:
        """Take over the entries of a scenario."""
        groups = tuple((group.name, group.count) for group in config.nodes)
        return cls(config.failures, config.random_failures, config.drains, groups, seed)

    def __bool__(self) -> bool:
        return bool(self.failures or self.random_failures or self.drains)

    @property
    def announces(self) -> bool:
        """Whether any drain is announced to dispatchers."""
        return any(drain.announced for drain in self.drains)

    def announced(self, drain: DrainConfig) -> AnnouncedDrain:
        """Return a drain as it is announced to dispatchers."""
        end = math.inf if drain.end is None else drain.end
        return AnnouncedDrain(drain.start, end, tuple(self.nodes_of(drain.nodes)))

    def processes(self) -> Iterator[FailureProcess]:
        """Yield the failure process of every node, in order of entry and node."""
        for entry, config in enumerate(self.random_failures):
            for node in self.nodes_of(config.nodes):
                key = np.random.SeedSequence(self.seed, spawn_key=(_STREAM, entry, node))
                yield FailureProcess(node, config, key)

    def nodes_of(self, choice: str | None) -> list[int]:
        """Return the numbers of the nodes that an entry names, each once, ascending."""
        return sorted({node for part in node_ranges(choice, list(self.groups)) for node in part})
