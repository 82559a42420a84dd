"""Whether units fit on nodes, and best-fit; compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Ints
from mlsim._jit import kernel

__all__ = ["best_fit", "first_that_fit", "fitting_units"]


@kernel
def fitting_units(node: int, units: int, request: Ints, free: Ints) -> int:
    """Return how many of ``units`` fit on a node."""
    fit = units
    for r in range(request.size):
        if request[r] > 0:
            fit = min(fit, free[node, r] // request[r])
    return fit


@kernel
def first_that_fit(order: Ints, most: int, units: Ints, request: Ints, free: Ints) -> Ints:
    """Return the first jobs of an order that could start now, each taken alone.

    Parameters
    ----------
    order
        Jobs in the order in which they are considered.
    most
        How many at most.
    units, request, free
        As in :class:`~mlsim.batch.cp.problem.instance.Instance`.
    """
    found = np.empty(min(most, order.size), np.int64)
    n = 0
    pool = free.sum(axis=0)
    for job in order:
        if n == found.size:
            break
        possible = True
        for r in range(pool.size):
            if request[job, r] * units[job] > pool[r]:
                possible = False
                break
        if not possible:
            continue
        fit = 0
        for node in range(free.shape[0]):
            fit += fitting_units(node, units[job] - fit, request[job], free)
            if fit == units[job]:
                break
        if fit == units[job]:
            found[n] = job
            n += 1
    return found[:n]


@kernel
def best_fit(units: int, request: Ints, free: Ints, scarcity: NDArray[np.float64], nodes: Ints) -> bool:
    """Place the units of a job on the fullest nodes on which they fit.

    Nodes are filled one after the other, in order of what is free on them: each resource weighted by its
    scarcity, ties by number. ``free`` is changed only if all units find a place.

    Parameters
    ----------
    units, request
        The job.
    free : ndarray, shape (N, R)
        What is free on each node.
    scarcity : ndarray, shape (R,)
        How much one of each resource counts.
    nodes : ndarray, shape (units,)
        Receives the node of each unit.

    Returns
    -------
    bool
        Whether all units have a place.
    """
    n_nodes, n_resources = free.shape
    load = np.full(n_nodes, np.inf)
    total = 0
    for node in range(n_nodes):
        fit = fitting_units(node, units, request, free)
        if fit > 0:
            total += fit
            load[node] = 0.0
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
