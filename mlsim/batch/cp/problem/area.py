"""What jobs need of a machine in all, as a bound on when they have ended."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Ints
from mlsim.batch.cp.problem.instance import Instance

__all__ = ["least_makespan"]

_ROUNDING = 1e-9
"""Share by which sums of doubles may be too large."""


def least_makespan(instance: Instance) -> int:
    """Return the seconds from now before which the queued jobs cannot all have ended.

    Until then as much amount x time of each resource type must have been free, over all nodes, as they ask
    for, and of each amount that the machine has as a whole; of a power cap, what they add at least.
    """
    queued, running = instance.queued, instance.running
    asked = queued.request * queued.units[:, None]
    held = running.request * running.units[:, None]
    needs = (asked * queued.duration[:, None].astype(np.float64)).sum(axis=0)
    free = instance.free.sum(axis=0)
    ends = running.remaining
    filled = [_filled(ends, held[:, r], int(free[r]), float(needs[r])) for r in range(len(free))]
    whole = instance.shared
    needs = (whole.asked_by(len(queued)) * queued.duration[:, None].astype(np.float64)).sum(axis=0)
    filled += [
        _filled(whole.remaining, whole.held[:, k], int(whole.free[k]), float(needs[k]))
        for k in range(len(whole.names))
    ]
    power = instance.power
    if power:
        need = float(power.least.astype(np.float64) @ queued.duration)
        filled.append(_filled(power.remaining, power.held, power.free, need))
    return max(filled, default=0)


def _filled(ends: Ints, held: Ints, free: int, need: float) -> int:
    """Return when as much of a type has been free as is needed."""
    order = np.argsort(ends, kind="stable")
    time, left, rate = 0, need * (1 - _ROUNDING), float(free)
    for end, amount in zip(ends[order].tolist(), held[order].tolist(), strict=True):
        usable = max(rate, 0.0)  # less than nothing is free where a cap has fallen
        if left <= usable * (end - time):
            break
        left -= usable * (end - time)
        time, rate = end, rate + amount
    return time + (int(np.ceil(left / rate)) if left > 0 and rate > 0 else 0)
