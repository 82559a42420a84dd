"""Kinds of nodes: on which of them a job should rather not be, and which are not for it.

Nodes that have the same types are of one kind. On a node with a type that a job does not ask for, the job
is in the way of those that do; and a few such nodes are kept for those alone, as a burst of jobs that
ask for cores only would else leave cards that nobody can reach for hours.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim.batch.allocators.demand import dislikes, kept_nodes, scarce_types
from mlsim.batch.cp.problem.instance import Instance
from mlsim.batch.cp.problem.power import least_powers
from mlsim.batch.cp.problem.profiles import power_of_kinds

__all__ = ["Kinds", "kinds_of"]

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Kinds:
    """Nodes classified by kind, and how much each job avoids each kind."""

    kind: Ints
    """int64[N]: of each node."""
    dislike: Floats
    """float64[n, K]: how little each job should be on nodes of each kind: the sum over the types that they
    have and the job does not ask for of the share of arrivals that ask for them. Infinite where it may not
    be.
    """
    power: Ints = field(default_factory=lambda: np.zeros((3, 0), np.int64))
    """int64[3, K]: what they add to the power of the machine, where a cap counts that node by node."""

    def by_power(self, of_node: Ints) -> Kinds:
        """Tell nodes of a kind apart by what each adds to the power of the machine, if that matters."""
        if not len(of_node):
            return self
        apart, kind = np.unique(np.column_stack((self.kind, of_node)), axis=0, return_inverse=True)
        dislike = np.ascontiguousarray(self.dislike[:, apart[:, 0]])
        return Kinds(kind.reshape(-1).astype(np.int64), dislike, power_of_kinds(apart[:, 1]))


def kinds_of(instance: Instance, rows: Ints, asked: Floats, reserve: float, yields: Bools) -> Kinds:
    """Return the nodes of an instance classified by resource types and reserved share.

    Parameters
    ----------
    instance
        With all its resource types.
    rows
        The queued jobs that count.
    asked, reserve
        As in :mod:`mlsim.batch.allocators.demand`, whose rules these are.
    yields : ndarray of bool, shape (n,)
        Whether a job stays off those nodes, if it has room elsewhere on an empty machine.
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
    """Return whether a job fits on some of the nodes when they are empty, under the power cap too."""
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
