"""Best-fit placement of units on nodes, and kinds of nodes."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field

import numpy as np

from mlsim._jit import inner_kernel, kernel
from mlsim._runtime.arrays import Floats, Ints, NDArray
from mlsim.batch.allocators.node_fit import dislikes, kept_nodes, scarce_types
from mlsim.batch.cp.class_profiles import power_of_kinds
from mlsim.batch.cp.instance import Instance, PowerLimit, least_powers, ranks_of

_COSTLIER = 1e6
"""Weight of a rank of power, relative to the free resources of a node: at most the number of types."""


@kernel
def fitting_units(node: int, units: int, request: Ints, free: Ints) -> int:
    """Return how many of ``units`` fit on a node."""
    fit = units
    for r in range(request.size):
        if request[r] > 0:
            fit = min(fit, free[node, r] // request[r])
    return fit


@inner_kernel
def _has_power(job: int, units: Ints, request: Ints, free: Ints, limit: PowerLimit) -> bool:
    """Whether a cap allows a job to start now, on the nodes of least power."""
    left, power = units[job], 0
    for node in limit.cheapest:
        fit = fitting_units(node, left, request[job], free)
        power += fit * limit.of_node[node]
        left -= fit
        if left == 0:
            break
    has: bool = left == 0 and power * limit.counts[job] <= limit.left
    return has


def first_that_fit(order: Ints, most: int, instance: Instance) -> Ints:
    """Return the first ``most`` jobs of an order that could start now, each taken alone."""
    queued, power = instance.queued, instance.power
    return _first_that_fit(order, most, queued.units, queued.request, instance.free, power.limit())


@inner_kernel
def _on_nodes(job: int, units: Ints, request: Ints, free: Ints, pool: Ints) -> bool:
    """Whether all units of a job fit now; ``pool`` is the sum of what is free."""
    for r in range(pool.size):
        if request[job, r] * units[job] > pool[r]:
            return False
    fit = 0
    for node in range(free.shape[0]):
        fit += fitting_units(node, units[job] - fit, request[job], free)
        if fit == units[job]:
            return True
    return False


@kernel
def _first_that_fit(
    order: Ints, most: int, units: Ints, request: Ints, free: Ints, limit: PowerLimit
) -> Ints:
    found = np.empty(min(most, order.size), np.int64)
    n = 0
    pool = free.sum(axis=0)
    capped = len(limit.of_node) > 0
    for job in order:
        if n == found.size:
            break
        fits = _on_nodes(job, units, request, free, pool)
        if fits and (not capped or _has_power(job, units, request, free, limit)):
            found[n] = job
            n += 1
    return found[:n]


@kernel
def best_fit(
    units: int, request: Ints, free: Ints, scarcity: NDArray[np.float64], ranks: Ints, nodes: Ints
) -> bool:
    """Place the units of a job on the fullest nodes on which they fit; return whether all have a place.

    Nodes are filled one after the other, in order of their rank (none: all equal), then of what is free on
    them: each resource weighted by its scarcity, ties by number. ``free`` (N, R) is changed only if all units
    fit; ``nodes`` receives the node of each unit.
    """
    n_nodes, n_resources = free.shape
    load = np.full(n_nodes, np.inf)
    total = 0
    for node in range(n_nodes):
        fit = fitting_units(node, units, request, free)
        if fit > 0:
            total += fit
            load[node] = _COSTLIER * ranks[node] if len(ranks) > 0 else 0.0
            for r in range(n_resources):
                load[node] += free[node, r] * scarcity[r]
    if total < units:
        return False
    placed = 0
    if units == 1:
        best = np.argmin(load)
        nodes[0] = best
        for r in range(n_resources):
            free[best, r] -= request[r]
        return True
    for node in np.argsort(load, kind="mergesort"):
        fit = fitting_units(node, units - placed, request, free)
        for r in range(n_resources):
            free[node, r] -= fit * request[r]
        for _ in range(fit):
            nodes[placed] = node
            placed += 1
        if placed == units:
            break
    return True


class Placing:
    """Jobs of an instance placed now, one by one: on nodes by best-fit, and under all limits of the machine.

    What is free changes as jobs are placed: ``free`` (N, R) on nodes, ``amounts`` (S,) of the whole machine,
    and ``power`` that jobs may still add (microwatts).
    """

    def __init__(self, instance: Instance) -> None:
        self._queued, self._capped = instance.queued, instance.power
        self._scarcity = 1.0 / np.maximum(instance.capacity.sum(axis=0), 1)
        self._ranks = ranks_of(instance.power.of_node)
        self._asked = instance.shared.asked_by(len(instance.queued))
        self.free, self.amounts = instance.free.copy(), instance.shared.free.copy()
        self.power = instance.power.free

    def copy(self) -> Placing:
        """Return an independent copy."""
        other = copy(self)
        other.free, other.amounts = self.free.copy(), self.amounts.copy()
        return other

    def narrow(self, other: Placing) -> None:
        """Reduce what is free to no more than in another placing."""
        self.free = np.minimum(self.free, other.free)
        self.amounts = np.minimum(self.amounts, other.amounts)
        self.power = min(self.power, other.power)

    def place(self, job: int) -> Ints | None:
        """Place a job and return the node of each unit; None, with nothing changed, if it does not fit."""
        units, request = int(self._queued.units[job]), self._queued.request[job]
        asked, nodes = self._asked[job], np.empty(units, np.int64)
        if ((asked > self.amounts) & (asked > 0)).any():
            return None
        if not best_fit(units, request, self.free, self._scarcity, self._ranks, nodes):
            return None
        self._charge(job, nodes, 1)
        if self._capped and self.power < 0:
            self.take(job, nodes, -1)
            return None
        return nodes

    def take(self, job: int, nodes: Ints, sign: int = 1) -> None:
        """Allocate nodes to a job, with all that it asks for; release them (sign -1)."""
        np.subtract.at(self.free, nodes, sign * self._queued.request[job])
        self._charge(job, nodes, sign)

    def _charge(self, job: int, nodes: Ints, sign: int) -> None:
        """Subtract the machine-wide amounts and the power of a job on these nodes."""
        self.amounts -= sign * self._asked[job]
        if self._capped:
            self.power -= sign * self._capped.added(job, nodes)


Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Kinds:
    """Nodes classified by kind, and how much each job avoids each kind."""

    kind: Ints  # int64[N]: of each node
    dislike: Floats
    """float64[n, K]: penalty of each job on nodes of each kind: over the types that they have and the job
    does not ask for, the sum of the shares of arrivals that ask for them. Infinite where it may not be.
    """
    power: Ints = field(default_factory=lambda: np.zeros((3, 0), np.int64))
    """int64[3, K]: their power, where a cap counts it node by node."""

    def by_power(self, of_node: Ints) -> Kinds:
        """Split kinds by the power of their nodes, if that matters."""
        if not len(of_node):
            return self
        apart, kind = np.unique(np.column_stack((self.kind, of_node)), axis=0, return_inverse=True)
        dislike = np.ascontiguousarray(self.dislike[:, apart[:, 0]])
        return Kinds(kind.reshape(-1).astype(np.int64), dislike, power_of_kinds(apart[:, 1]))


def kinds_of(instance: Instance, rows: Ints, asked: Floats, reserve: float, yields: Bools) -> Kinds:
    """Classify the nodes of an instance by resource types and reserved share.

    ``rows`` are the queued jobs that count, ``yields`` (n,) marks those that keep off reserved nodes if they
    fit elsewhere on an empty machine. The rules, ``asked`` and ``reserve``, are those of
    :mod:`mlsim.batch.allocators.node_fit`.
    """
    has, kind = np.unique(instance.capacity > 0, axis=0, return_inverse=True)
    kind = kind.reshape(-1).astype(np.int64)
    request = instance.queued.request[rows]
    special = has & scarce_types(instance.capacity)
    sizes = np.bincount(kind)
    kept = np.zeros(len(has), np.int64)
    for row, scarce in enumerate(special.astype(np.int64)):
        kept[row] = kept_nodes(scarce, int(sizes[row]), reserve, asked)
    split = np.flatnonzero(kept)
    for new, k in enumerate(split.tolist(), start=len(has)):
        kind[np.flatnonzero(kind == k)[-kept[k] :]] = new
    whole = np.concatenate((has, has[split])).astype(np.int64)
    liked = np.empty((len(request), len(whole)))
    dislikes(request, whole, asked, liked)
    dislike = liked.copy()
    for new, k in enumerate(split.tolist(), start=len(has)):
        away = yields & (request[:, special[k]] == 0).all(axis=1)
        dislike[away, new] = np.inf
    for job in np.flatnonzero((dislike == np.inf).any(axis=1)).tolist():
        if not _fits(instance, int(rows[job]), dislike[job, kind] < np.inf):
            dislike[job] = liked[job]
    return Kinds(kind, dislike).by_power(instance.power.of_node)


def _fits(instance: Instance, job: int, allowed: Bools) -> bool:
    """Return whether a job fits on the allowed nodes when they are empty, under the power cap too."""
    units, request = int(instance.queued.units[job]), instance.queued.request[job]
    capacity, power, asked = instance.capacity[allowed], instance.power, request > 0
    if (capacity[:, asked] // request[asked]).min(axis=1, initial=units).sum() < units:
        return False
    if not power:
        return True
    one = slice(job, job + 1)
    added = least_powers(
        instance.queued.units[one],
        instance.queued.request[one],
        power.counts[one],
        power.of_node[allowed],
        capacity,
    )
    return bool(added[0] <= power.capacity)
