"""Slow-downs of nodes: speed factors as step functions of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError
from mlsim.scenario import PerturbationConfig, PlatformConfig, node_ranges

_BLOCK = 64
_MOST_SLOW_DOWNS = 10_000_000
# Keeps these random numbers apart from others that are keyed by the seed.
_STREAM = 0x510D0


class Steps(NamedTuple):
    """A step function of time: 1 before the first step."""

    time: Floats
    """float64[n], rising, in s of simulated time; of steps at one time the last holds."""
    factor: Floats
    """float64[n]: what the speed is multiplied by from that time on, until the next."""

    def at(self, times: Floats) -> Floats:
        """Return the speed factor at each of several times."""
        return np.append(1.0, self.factor)[np.searchsorted(self.time, times, side="right")]


class Perturbations:
    """The perturbations of a machine.

    Random ones are drawn on demand. Their random numbers are keyed by the seed, the entry and the node, and
    drawn in order of time: which times are asked for, and in which order, changes nothing.
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
        """Return the steps of a node's speed factor between two times.

        Parameters
        ----------
        node
            Number of the node.
        start, end
            In s of simulated time.

        Returns
        -------
        Steps
            Strictly rising in time; the first is at ``start``, unless the factor there is 1, and all
            others are after it and before ``end``.

        Raises
        ------
        InputError
            If a random process has too many slow-downs to be simulated.
        """
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
