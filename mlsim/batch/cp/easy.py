"""EASY on an instance: who decides in a pass without a solution."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Ints
from mlsim._jit import kernel
from mlsim.batch.cp.problem.filter import needed_resources
from mlsim.batch.cp.problem.instance import Instance
from mlsim.batch.cp.problem.packing import best_fit, fitting_units
from mlsim.batch.cp.problem.plan import LATER, Plan

__all__ = ["easy"]


def easy(instance: Instance) -> Plan:
    """Start jobs in order of arrival; the first that does not fit gets a reservation (EASY).

    The reservation is of nodes: the first time, as running jobs end, at which all units of the job fit, and
    the nodes on which best-fit then places them. Later jobs start if they fit now and end by then, or fit
    on what the reservation leaves.
    """
    n = len(instance.queued)
    if not n:
        return Plan.empty(0)
    part = instance.without_resources(needed_resources(instance))
    queued, running = part.queued, part.running
    free, left = part.free.copy(), part.shared.free.copy()
    asked = part.shared.asked_by(n)
    scarcity = 1.0 / np.maximum(part.capacity.sum(axis=0), 1)
    start = np.full(n, LATER, np.int64)
    nodes: list[Ints | None] = [None] * n
    started: list[int] = []

    def begin(job: int, room: Ints, amounts: Ints) -> bool:
        chosen = np.empty(int(queued.units[job]), np.int64)
        if not _suffices(asked[job], amounts):
            return False
        if not best_fit(int(queued.units[job]), queued.request[job], room, scarcity, chosen):
            return False
        start[job], nodes[job] = 0, chosen
        if room is not free:
            _hold(chosen, queued.request[job], free)
            amounts -= asked[job]
        left[:] -= asked[job]
        started.append(job)
        return True

    head = 0
    while head < n and begin(head, free, left):
        head += 1
    if head == n:
        return Plan(start, tuple(nodes))
    later, left_later, shadow = free.copy(), left.copy(), -1
    for end, box, job, holder in _ends(part, started):
        if box >= 0:
            later[running.node[box]] += running.request[box] * running.units[box]
        elif holder >= 0:
            left_later += part.shared.held[holder]
        else:
            left_later += asked[job]
            # Who has started has nodes; the list's type cannot say so.
            _hold(nodes[job], -queued.request[job], later)  # type: ignore[arg-type]
        if _suffices(asked[head], left_later) and _fits(int(queued.units[head]), queued.request[head], later):
            shadow = end
            break
    # Whatever else ends by then counts as gone, too.
    if shadow >= 0:
        place = np.empty(int(queued.units[head]), np.int64)
        best_fit(int(queued.units[head]), queued.request[head], later, scarcity, place)
        left_later -= asked[head]
    spare_left = np.minimum(left_later, left) if shadow >= 0 else left
    spare = np.minimum(later, free) if shadow >= 0 else free
    for job in range(head + 1, n):
        if shadow >= 0 and queued.duration[job] > shadow:
            if begin(job, spare, spare_left):
                spare = np.minimum(spare, free)
        elif begin(job, free, left) and shadow >= 0:
            spare, spare_left = np.minimum(spare, free), np.minimum(spare_left, left)
    return Plan(start, tuple(nodes))


def _suffices(asked: Ints, free: Ints) -> bool:
    """Return whether so much is free of each amount; who asks for none of one needs none."""
    return bool(((asked <= free) | (asked == 0)).all())


def _ends(instance: Instance, started: list[int]) -> list[tuple[int, int, int, int]]:
    """List in order what comes back: when, and the box, the job or the running job it is of."""
    ends = [(int(r), k, -1, -1) for k, r in enumerate(instance.running.remaining)]
    ends += [(int(instance.queued.duration[job]), -1, job, -1) for job in started]
    ends += [(int(r), -1, -1, k) for k, r in enumerate(instance.shared.remaining)]
    return sorted(ends)


@kernel
def _hold(nodes: Ints, request: Ints, free: Ints) -> None:
    """Take one unit from each of the nodes."""
    for node in nodes:
        free[node] -= request


@kernel
def _fits(units: int, request: Ints, free: Ints) -> bool:
    fit = 0
    for node in range(free.shape[0]):
        fit += fitting_units(node, units - fit, request, free)
        if fit == units:
            return True
    return False
