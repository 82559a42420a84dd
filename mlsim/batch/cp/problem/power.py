"""A cap on the power of a machine whose nodes add unequal power, as a plan sees it.

What a job adds depends on the nodes that it gets: so much for each node that it holds, or for each core
where these are given singly. Where all add the same, a cap is an amount of the machine as a whole
(:mod:`mlsim.batch.cp.problem.shared`). Power is counted in microwatts, as the batch level counts it, so
that what a plan starts is what the batch level lets start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import kernel
from mlsim.batch.cp.problem.reading import MOST, whole_numbers
from mlsim.batch.view import StateView

__all__ = ["NO_PLACE", "PowerLimit", "PowerPart", "least_powers", "power_of", "ranks_of"]

NO_PLACE = np.iinfo(np.int64).max // 4
"""Power (microwatts) where not all units of a job fit: more than any cap."""
_MOST = 2**62
"""Power x time that CP-SAT may add up."""


def _none() -> Ints:
    return np.zeros(0, np.int64)


class PowerLimit(NamedTuple):
    """A cap as kernels see it that place units now."""

    of_node: Ints
    """int64[N]: what each node, or core, adds (microwatts)."""
    cheapest: Ints
    """int64[N]: nodes by it, the least first."""
    counts: Ints
    """int64[n]: of how many nodes, or cores, a unit of each job holds the power."""
    left: int
    """What jobs may add now (microwatts)."""


@dataclass(frozen=True, slots=True)
class PowerPart:
    """A cap on power, and what jobs take of it; nothing where there is none that could keep a job waiting.

    Attributes
    ----------
    of_node : ndarray of int64, shape (N,)
        What each node, or each core of it where these are given singly, adds when it is held (microwatts).
    free
        What jobs may add now (microwatts); below 0 where a cap has fallen below what running ones take.
    counts : ndarray of int64, shape (n,)
        Of how many nodes, or cores, a unit of each queued job holds the power.
    least : ndarray of int64, shape (n,)
        What each queued job adds at least on an empty machine (microwatts); NO_PLACE where it does not fit.
    held : ndarray of int64, shape (m,)
        What each running job adds (microwatts).
    remaining : ndarray of int64, shape (m,)
        Seconds from now until its expected end, at least 1.
    """

    of_node: Ints = field(default_factory=_none)
    free: int = 0
    counts: Ints = field(default_factory=_none)
    least: Ints = field(default_factory=_none)
    held: Ints = field(default_factory=_none)
    remaining: Ints = field(default_factory=_none)

    def __bool__(self) -> bool:
        return len(self.of_node) > 0

    @property
    def capacity(self) -> int:
        """What all jobs together may add (microwatts)."""
        return max(self.free + int(self.held.sum()), 0)

    def counts_of(self, n: int) -> Ints:
        """Return the counts of ``n`` queued jobs, also where there is no cap."""
        return self.counts if self else np.zeros(n, np.int64)

    def shares(self) -> Floats:
        """Return for each queued job the fraction of what all may add that it adds at least."""
        shares: Floats = self.least / max(self.capacity, 1)
        return shares

    def added(self, job: int, nodes: Ints) -> int:
        """Return what a queued job adds with its units on such nodes (microwatts)."""
        return int(self.counts[job]) * int(self.of_node[nodes].sum())

    def take(self, rows: Ints) -> PowerPart:
        """Keep only some queued jobs, in the order given."""
        if not self:
            return self
        return PowerPart(
            self.of_node, self.free, self.counts[rows], self.least[rows], self.held, self.remaining
        )

    def limit(self) -> PowerLimit:
        """Return the cap for kernels that place units now."""
        return PowerLimit(self.of_node, np.argsort(self.of_node, kind="stable"), self.counts, self.free)

    def measure(self, horizon: int, more: int = 0) -> int:
        """Return the microwatts that count as one in a model of CP-SAT for plans of so many seconds.

        That is what all nodes, or cores, add a whole number of, so that nothing is rounded. Only where power
        x time would be above 2^62 of these it is more, the least that will do; ``more`` is added to the cap.
        """
        exact = max(math.gcd(*self.of_node.tolist()), 1)
        return max(exact, math.ceil((self.capacity + more) * max(horizon, 1) / _MOST))

    def as_json(self) -> dict[str, Any]:
        """Return lists and numbers that :meth:`from_json` reads."""
        columns = {name: getattr(self, name).tolist() for name in ("of_node", "counts", "held", "remaining")}
        return {"free": self.free, **columns}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], units: Ints, request: Ints, capacity: Ints) -> PowerPart:
        """Read what :meth:`as_json` returned; the rest is of the instance."""
        of_node, counts, held, remaining = (
            whole_numbers(data, name, of="power.", least=int(name == "remaining"))
            for name in ("of_node", "counts", "held", "remaining")
        )
        if len(of_node) != len(capacity) or len(counts) != len(units) or len(held) != len(remaining):
            raise ValueError("power: not a number for each node, and each job")
        free = int(whole_numbers({"free": [data["free"]]}, "free", of="power.", least=-MOST)[0])
        most = max(float(units @ counts.astype(np.float64)) * of_node.max(initial=0), float(free))
        if most + held.sum(dtype=np.float64) > MOST:
            raise ValueError("power: allowed: numbers whose sums stay below 2^62")
        return cls.of(of_node, free, counts, held, remaining, units, request, capacity)

    @classmethod
    def of(
        cls,
        of_node: Ints,
        free: int,
        counts: Ints,
        held: Ints,
        remaining: Ints,
        units: Ints,
        request: Ints,
        capacity: Ints,
    ) -> PowerPart:
        """Make it of its columns, and of what queued jobs ask for and nodes have."""
        least = least_powers(units, request, counts, of_node, capacity)
        return cls(of_node, free, counts, least, held, remaining)


def ranks_of(power: Ints) -> Ints:
    """Return the rank of each power, 0 for the least; those that are equal have the same."""
    if not len(power):
        return power
    _, ranks = np.unique(power, return_inverse=True)
    return ranks.reshape(-1).astype(np.int64)


def least_powers(units: Ints, request: Ints, counts: Ints, of_node: Ints, room: Ints) -> Ints:
    """Return the least that each job can add on nodes with so much room (microwatts).

    Parameters
    ----------
    units : ndarray of int64, shape (n,)
        Of each job.
    request : ndarray of int64, shape (n, R)
        Of one unit.
    counts, of_node
        As in :class:`PowerPart`.
    room : ndarray of int64, shape (N, R)
        Of each node.

    Returns
    -------
    ndarray of int64, shape (n,)
        ``NO_PLACE`` where not all units fit.
    """
    alike, sizes = np.unique(np.column_stack((of_node, room)), axis=0, return_counts=True)
    rooms = np.ascontiguousarray(alike[:, 1:])
    return _least_powers(units, request, counts, alike[:, 0].copy(), sizes.astype(np.int64), rooms)


@kernel
def _least_powers(units: Ints, request: Ints, counts: Ints, powers: Ints, sizes: Ints, rooms: Ints) -> Ints:
    """Fill classes of nodes in their order, those that add least first."""
    least = np.empty(len(units), np.int64)
    for job in range(len(units)):
        left, total = units[job], 0
        for c in range(len(powers)):
            fit = left
            for r in range(request.shape[1]):
                if request[job, r] > 0:
                    fit = min(fit, rooms[c, r] // request[job, r])
            here = min(left, fit * sizes[c])
            total += here * powers[c]
            left -= here
        least[job] = total * counts[job] if left == 0 else NO_PLACE
    return least


def power_of(view: StateView, units: Ints, request: Ints, capacity: Ints, remaining: Ints) -> PowerPart:
    """Make it of what a dispatcher sees, if the cap may keep a waiting job from starting.

    Parameters
    ----------
    view
        The state at a pass.
    units, request, capacity
        Of the queued jobs and of the nodes, as an instance has them.
    remaining
        Of each running job.
    """
    if view.power_left is None or view.power_units is not None:
        return PowerPart()
    of_node, free = view.power_added.astype(np.int64), int(view.power_left)
    waiting, running = view.waiting, view.running
    counts, held_counts = np.ones(len(waiting), np.int64), np.ones(len(running.held_job), np.int64)
    sizes = (view.capacity.max(axis=1, initial=0) > 0).astype(np.int64)
    if not view.exclusive:
        counts = waiting.request[:, 0].astype(np.int64)
        held_counts = running.held_units * running.request[running.held_job, 0]
        sizes = view.capacity[:, 0]
    of_boxes = held_counts * of_node[running.held_node]
    held = np.zeros(len(running), np.int64)
    np.add.at(held, running.held_job, of_boxes)
    # Nodes out of use may be held; they are no longer counted among those that jobs may have.
    most = int(of_node @ sizes) + int(of_boxes[sizes[running.held_node] == 0].sum())
    asked = int((units * counts).sum()) * int(of_node.max(initial=0))
    if asked <= free or most <= free + int(held.sum()):
        return PowerPart()
    return PowerPart.of(of_node, free, counts, held, remaining, units, request, capacity)
