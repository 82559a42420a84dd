"""EASY on an instance: who decides in a pass without a solution."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Ints
from mlsim.batch.cp.problem.filter import needed_resources
from mlsim.batch.cp.problem.instance import Instance
from mlsim.batch.cp.problem.packing import Placing
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
    left, asked = part.shared.free.copy(), part.shared.asked_by(n)
    scarcity = 1.0 / np.maximum(part.capacity.sum(axis=0), 1)
    now = Placing(part.free.copy(), scarcity, part.power)
    start = np.full(n, LATER, np.int64)
    nodes: list[Ints | None] = [None] * n
    started: list[int] = []

    def begin(job: int, room: Placing, amounts: Ints) -> bool:
        if not _suffices(asked[job], amounts):
            return False
        chosen = room.place(job, int(queued.units[job]), queued.request[job])
        if chosen is None:
            return False
        start[job], nodes[job] = 0, chosen
        if room is not now:
            now.take(job, chosen, queued.request[job])
            amounts -= asked[job]
        left[:] -= asked[job]
        started.append(job)
        return True

    head = 0
    while head < n and begin(head, now, left):
        head += 1
    if head == n:
        return Plan(start, tuple(nodes))
    later, left_later, shadow = now.copy(), left.copy(), -1
    units, request = int(queued.units[head]), queued.request[head]
    for end, box, job, holder, powered in _ends(part, started):
        if box >= 0:
            later.free[running.node[box]] += running.request[box] * running.units[box]
        elif holder >= 0:
            left_later += part.shared.held[holder]
        elif powered >= 0:
            later.left += int(part.power.held[powered])
        else:
            left_later += asked[job]
            # Who has started has nodes; the list's type cannot say so.
            later.give_back(job, nodes[job], queued.request[job])  # type: ignore[arg-type]
        if _suffices(asked[head], left_later) and later.place(head, units, request) is not None:
            shadow = end
            break
    # Whatever else ends by then counts as gone, too.
    spare, spare_left = now.copy(), left
    if shadow >= 0:
        left_later -= asked[head]
        spare_left = np.minimum(left_later, left)
        spare.narrow(later)
    for job in range(head + 1, n):
        if shadow >= 0 and queued.duration[job] > shadow:
            if begin(job, spare, spare_left):
                spare.narrow(now)
        elif begin(job, now, left) and shadow >= 0:
            spare.narrow(now)
            spare_left = np.minimum(spare_left, left)
    return Plan(start, tuple(nodes))


def _suffices(asked: Ints, free: Ints) -> bool:
    """Return whether so much is free of each amount; who asks for none of one needs none."""
    return bool(((asked <= free) | (asked == 0)).all())


def _ends(instance: Instance, started: list[int]) -> list[tuple[int, int, int, int, int]]:
    """List in order what comes back: when, and the box, the job or the running job it is of.

    Of running jobs what the machine has as a whole and power are listed apart.
    """
    ends = [(int(r), k, -1, -1, -1) for k, r in enumerate(instance.running.remaining)]
    ends += [(int(instance.queued.duration[job]), -1, job, -1, -1) for job in started]
    ends += [(int(r), -1, -1, k, -1) for k, r in enumerate(instance.shared.remaining)]
    ends += [(int(r), -1, -1, -1, k) for k, r in enumerate(instance.power.remaining)]
    return sorted(ends)
