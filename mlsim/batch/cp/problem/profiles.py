"""Free room over time on classes of nodes, and list scheduling in it; compiled.

A class is a set of nodes of which each has the same free room at every time from now on. Its profile is a
step function: ``times[c, k]`` is when step k begins and ``room[c, k]`` what is free on each of its
nodes from then on. Nodes of a class lie side by side in ``members``, from ``first[c]``. Placing units splits
a class at most twice, so that there are as many classes as different nodes, not as nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim._jit import kernel
from mlsim.batch.cp.problem.instance import Instance

__all__ = ["Profiles", "alone", "list_schedule", "profiles_of", "reset"]


NEVER = np.iinfo(np.int64).max // 4
_DISLIKED = 1e6
"""What dislike counts for, against what is free; no more is free on a node than all there is."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """What is free when, before anything is planned.

    Attributes
    ----------
    count, first, n_steps : ndarray of int64, shape (C,)
        Nodes of each class, where they begin in ``members``, and how many steps its profile has.
    times : ndarray of int64, shape (C, S)
        When each step begins: seconds from now, 0 first.
    room : ndarray of int64, shape (C, S, R)
        Free on each node of the class.
    kind : ndarray of int64, shape (C,)
        Which of the rows of what nodes have, all types counted, the nodes of the class have.
    members : ndarray of int64, shape (N,)
        Nodes, class by class.
    """

    count: Ints
    first: Ints
    n_steps: Ints
    times: Ints
    room: Ints
    kind: Ints
    members: Ints

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.count)


def profiles_of(instance: Instance, remaining: Ints, kind: Ints) -> Profiles:
    """Group the nodes of an instance by what is free on them from now on.

    Parameters
    ----------
    instance
        With the resource types that matter.
    remaining
        Seconds until each running box is expected to end.
    kind
        Of each node; nodes of different kinds are never in one class.
    """
    running = instance.running
    amounts = running.request * running.units[:, None]
    held: NDArray[np.bool_] = amounts.sum(axis=1) > 0
    order = np.lexsort((remaining, running.node))
    order = order[held[order]]
    sizes = np.bincount(running.node[order], minlength=instance.n_nodes)
    deepest = int(sizes.max(initial=0)) + 1
    shape = (instance.n_nodes, deepest)
    times = np.zeros(shape, np.int64)
    room = np.zeros((*shape, len(instance.resources)), np.int64)
    steps = np.zeros(instance.n_nodes, np.int64)
    _fill(instance.free, running.node[order], remaining[order], amounts[order], steps, times, room)
    # Nodes with the same bytes are alike; steps that are not used are all zero.
    rows = np.column_stack((kind, instance.capacity, steps, times, room.reshape(instance.n_nodes, -1)))
    _, example, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    # Classes in the order of their first nodes.
    rank = np.argsort(np.argsort(example))
    which, example = rank[which], np.sort(example)
    count = np.bincount(which, minlength=len(example)).astype(np.int64)
    return Profiles(
        count,
        np.cumsum(count) - count,
        steps[example],
        np.ascontiguousarray(times[example]),
        np.ascontiguousarray(room[example]),
        kind[example],
        np.argsort(which, kind="stable"),
    )


@kernel
def _fill(
    free: Ints, node: Ints, remaining: Ints, amounts: Ints, steps: Ints, times: Ints, room: Ints
) -> None:
    """Write the profile of each node from what runs there, in order of (node, end)."""
    for n in range(free.shape[0]):
        room[n, 0] = free[n]
        steps[n] = 1
    for box in range(node.size):
        n = node[box]
        k = steps[n]
        if times[n, k - 1] != remaining[box]:
            times[n, k] = remaining[box]
            room[n, k] = room[n, k - 1]
            steps[n] = k + 1
            k += 1
        room[n, k - 1] += amounts[box]


@kernel
def _fit(c: int, at: int, duration: int, request: Ints, n_steps: Ints, times: Ints, room: Ints) -> int:
    """Return how many units fit on one node of a class from ``at`` for a duration."""
    n = n_steps[c]
    k = 0
    while k + 1 < n and times[c, k + 1] <= at:
        k += 1
    fit = NEVER
    while k < n and (times[c, k] <= at or times[c, k] < at + duration):
        for r in range(request.size):
            if request[r] > 0:
                fit = min(fit, room[c, k, r] // request[r])
        if fit <= 0:
            return 0
        k += 1
    return fit


@kernel
def _earliest_of_one(
    c: int, not_before: int, duration: int, request: Ints, n_steps: Ints, times: Ints, room: Ints, limit: int
) -> int:
    """Return the earliest start of one unit on a node of a class; ``limit`` if not before that."""
    n = n_steps[c]
    start = not_before
    k = 0
    while k + 1 < n and times[c, k + 1] <= start:
        k += 1
    while start < limit:
        j = k
        good = True
        while j < n and (j == k or times[c, j] < start + duration):
            for r in range(request.size):
                if room[c, j, r] < request[r]:
                    good = False
            if not good:
                break
            j += 1
        if good:
            return start
        k = j + 1
        if k >= n:
            return limit
        start = times[c, k]
    return limit


@kernel
def _earliest(
    not_before: int,
    units: int,
    duration: int,
    request: Ints,
    n_classes: int,
    count: Ints,
    n_steps: Ints,
    times: Ints,
    room: Ints,
    kind: Ints,
    dislike: Floats,
    candidates: Ints,
) -> int:
    """Return the earliest start, from ``not_before``, of all units of a job on the nodes it may use."""
    if units == 1:
        best: int = NEVER
        for c in range(n_classes):
            if dislike[kind[c]] == np.inf:
                continue
            best = _earliest_of_one(c, not_before, duration, request, n_steps, times, room, best)
            if best == not_before:
                break
        return best
    fit = 0
    for c in range(n_classes):
        if dislike[kind[c]] == np.inf:
            continue
        fit += count[c] * min(units, _fit(c, not_before, duration, request, n_steps, times, room))
        if fit >= units:
            return not_before
    # The sum of what fits grows only where a step begins.
    n = 0
    for c in range(n_classes):
        if dislike[kind[c]] == np.inf:
            continue
        for k in range(1, n_steps[c]):
            if times[c, k] > not_before:
                candidates[n] = times[c, k]
                n += 1
    candidates[:n].sort()
    before = not_before
    for i in range(n):
        at: int = candidates[i]
        if at == before:
            continue
        before = at
        fit = 0
        for c in range(n_classes):
            if dislike[kind[c]] == np.inf:
                continue
            fit += count[c] * min(units, _fit(c, at, duration, request, n_steps, times, room))
            if fit >= units:
                return at
    return NEVER


@kernel
def _split(
    c: int,
    kept: int,
    n_classes: int,
    count: Ints,
    first: Ints,
    n_steps: Ints,
    times: Ints,
    room: Ints,
    kind: Ints,
) -> None:
    """Leave ``kept`` nodes in a class; the others become the class behind the last."""
    new = n_classes
    n = n_steps[c]
    count[new] = count[c] - kept
    first[new] = first[c] + kept
    n_steps[new] = n
    times[new, :n] = times[c, :n]
    room[new, :n] = room[c, :n]
    kind[new] = kind[c]
    count[c] = kept


@kernel
def _break_at(c: int, at: int, n_steps: Ints, times: Ints, room: Ints) -> None:
    """Split the step of a class's profile that covers a time, so that one begins there."""
    n = n_steps[c]
    k = n
    while times[c, k - 1] > at:
        k -= 1
    if times[c, k - 1] == at:
        return
    for j in range(n, k, -1):
        times[c, j] = times[c, j - 1]
        room[c, j] = room[c, j - 1]
    times[c, k] = at
    room[c, k] = room[c, k - 1]
    n_steps[c] = n + 1


@kernel
def _take(
    c: int, units: int, at: int, duration: int, request: Ints, n_steps: Ints, times: Ints, room: Ints
) -> None:
    """Take room for so many units on each node of a class."""
    _break_at(c, at, n_steps, times, room)
    _break_at(c, at + duration, n_steps, times, room)
    for k in range(n_steps[c]):
        if at <= times[c, k] < at + duration:
            for r in range(request.size):
                room[c, k, r] -= units * request[r]


@kernel
def _place(
    at: int,
    units: int,
    duration: int,
    request: Ints,
    scarcity: Floats,
    n_classes: int,
    count: Ints,
    first: Ints,
    n_steps: Ints,
    times: Ints,
    room: Ints,
    kind: Ints,
    dislike: Floats,
    members: Ints,
    nodes: Ints,
) -> int:
    """Place a job that fits, least disliked nodes first, then the fullest; return the number of classes."""
    load = np.full(n_classes, np.inf)
    fits = np.zeros(n_classes, np.int64)
    for c in range(n_classes):
        if dislike[kind[c]] == np.inf:
            continue
        fits[c] = min(units, _fit(c, at, duration, request, n_steps, times, room))
        if fits[c] > 0:
            k = 0
            while k + 1 < n_steps[c] and times[c, k + 1] <= at:
                k += 1
            load[c] = _DISLIKED * dislike[kind[c]]
            for r in range(request.size):
                load[c] += room[c, k, r] * scarcity[r]
    left = units
    placed = 0
    n_before = n_classes
    while left > 0:
        c = 0
        for other in range(1, n_before):
            if load[other] < load[c]:
                c = other
        load[c] = np.inf
        full = min(count[c], left // fits[c])
        rest = 0
        if full < count[c]:
            rest = min(fits[c], left - full * fits[c])
        if full > 0:
            if full < count[c]:
                _split(c, full, n_classes, count, first, n_steps, times, room, kind)
                other = n_classes
                n_classes += 1
            else:
                other = c
            _take(c, fits[c], at, duration, request, n_steps, times, room)
            if nodes.size > 0:
                for j in range(full * fits[c]):
                    nodes[placed + j] = members[first[c] + j // fits[c]]
            placed += full * fits[c]
            left -= full * fits[c]
        else:
            other = c
        if rest > 0:
            if count[other] > 1:
                _split(other, 1, n_classes, count, first, n_steps, times, room, kind)
                n_classes += 1
            _take(other, rest, at, duration, request, n_steps, times, room)
            if nodes.size > 0:
                for j in range(rest):
                    nodes[placed + j] = members[first[other]]
            placed += rest
            left -= rest
    return n_classes


@kernel
def alone(
    units: Ints,
    durations: Ints,
    requests: Ints,
    count: Ints,
    n_steps: Ints,
    times: Ints,
    room: Ints,
    kind: Ints,
    dislike: Floats,
) -> Ints:
    """Return the earliest start of each job if no other job waited."""
    starts = np.empty(units.size, np.int64)
    candidates = np.empty(n_steps.sum() + 1, np.int64)
    for job in range(units.size):
        starts[job] = _earliest(
            0,
            units[job],
            durations[job],
            requests[job],
            count.size,
            count,
            n_steps,
            times,
            room,
            kind,
            dislike[job],
            candidates,
        )
    return starts


@kernel
def reset(
    base_count: Ints,
    base_first: Ints,
    base_steps: Ints,
    base_times: Ints,
    base_room: Ints,
    base_kind: Ints,
    count: Ints,
    first: Ints,
    n_steps: Ints,
    times: Ints,
    room: Ints,
    kind: Ints,
) -> None:
    """Copy the profiles to where they may be changed."""
    count[:] = 0
    for c in range(base_count.size):
        count[c], first[c], n_steps[c] = base_count[c], base_first[c], base_steps[c]
        kind[c] = base_kind[c]
        for k in range(base_steps[c]):
            times[c, k] = base_times[c, k]
            room[c, k] = base_room[c, k]


@kernel
def list_schedule(
    order: Ints,
    units: Ints,
    durations: Ints,
    requests: Ints,
    weights: Floats,
    keep_free: Floats,
    scarcity: Floats,
    dislike: Floats,
    keep_start: NDArray[np.bool_],
    bound: float,
    count: Ints,
    first: Ints,
    n_steps: Ints,
    times: Ints,
    room: Ints,
    kind: Ints,
    members: Ints,
    starts: Ints,
    nodes: Ints,
) -> float:
    """Schedule the jobs of an order one by one, each at its earliest start around those before it.

    Parameters
    ----------
    order
        Jobs.
    units, durations, requests, weights
        Of the jobs.
    keep_free : ndarray, shape (n, R)
        What must be left free in all, of each type, by a job that starts now.
    scarcity : ndarray, shape (R,)
        How much one of each type counts for best-fit.
    dislike : ndarray, shape (n, K)
        How little each job should be on nodes of each kind; infinite where it may not be.
    keep_start : ndarray of bool, shape (n,)
        Whether later jobs of the order make way for a start that is not now. Where they do not, the
        start given is the one that the job could have at its place in the order.
    bound
        Give up as soon as the cost reaches this.
    count, first, n_steps, times, room, kind, members
        A copy of the profiles with room for new classes and steps; changed.
    starts
        Receives the start of each job.
    nodes : ndarray, shape (U,) or (0,)
        Receives the nodes of the units of the jobs that start now, in the order of ``order``; empty if
        they are not wanted.

    Returns
    -------
    float
        Sum of weight x start, or infinity if it reaches ``bound`` or a job can never start.
    """
    n_resources = requests.shape[1]
    n_classes = 0
    while n_classes < count.size and count[n_classes] > 0:
        n_classes += 1
    pool = np.zeros(n_resources)
    total_steps = 0
    for c in range(n_classes):
        total_steps += n_steps[c]
        for r in range(n_resources):
            pool[r] += count[c] * room[c, 0, r]
    candidates = np.empty((count.size + 2) * times.shape[1], np.int64)
    nobody = np.empty(0, np.int64)
    cost = 0.0
    written = 0
    for job in order:
        later = 0
        for r in range(n_resources):
            if keep_free[job, r] > 0 and pool[r] - units[job] * requests[job, r] < keep_free[job, r]:
                later = 1
        at = _earliest(
            later,
            units[job],
            durations[job],
            requests[job],
            n_classes,
            count,
            n_steps,
            times,
            room,
            kind,
            dislike[job],
            candidates,
        )
        starts[job] = at
        cost += weights[job] * at
        if at >= NEVER or cost >= bound:
            return np.inf
        here = nobody
        if at > 0:
            if not keep_start[job]:
                continue
        else:
            for r in range(n_resources):
                pool[r] -= units[job] * requests[job, r]
            if nodes.size > 0:
                here = nodes[written : written + units[job]]
                written += units[job]
        n_classes = _place(
            at,
            units[job],
            durations[job],
            requests[job],
            scarcity,
            n_classes,
            count,
            first,
            n_steps,
            times,
            room,
            kind,
            dislike[job],
            members,
            here,
        )
    return cost
