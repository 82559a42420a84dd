"""Free amounts over time, for judges of rules: places of stays and reservations."""

import numpy as np

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints, Mask

# What is free over time: from times[k] on, free[k] of each amount; steps 0 to n - 1. times[0] is now.


@kernel
def _blocked_at(times: Floats, free: Ints, n: int, k: int, length: float, need: Ints) -> int:
    """Return the first step with too little for a stay from step ``k`` on; -1 if there is none."""
    here, end = k, times[k] + length - 1e-6
    while here < n and (here == k or times[here] < end):
        for r in range(len(need)):
            if free[here, r] < need[r]:
                return here
        here += 1
    return -1


@kernel
def _first_place(times: Floats, free: Ints, n: int, length: float, need: Ints) -> float:
    """Return the first time from which so much is free for so long."""
    k = 0
    while k < n:
        blocked = _blocked_at(times, free, n, k, length, need)
        if blocked < 0:
            break
        k = blocked + 1
    return times[k] if k < n else np.inf


@kernel
def _that_fit(times: Floats, free: Ints, n: int, length: Floats, need: Ints) -> Mask:
    """Return which of some jobs fit from now on."""
    fits = np.zeros(len(length), np.bool_)
    for job in range(len(length)):
        fits[job] = _blocked_at(times, free, n, 0, length[job], need[job]) < 0
    return fits


@kernel
def _add(times: Floats, free: Ints, n: int, begin: float, length: float, need: Ints, sign: int) -> int:
    """Reserve (``sign`` 1) or release (-1) from a time on for a length; return the number of steps.

    Equal steps become one.
    """
    end = max(begin + length, np.nextafter(begin, np.inf))
    for moment in (begin, end):
        here = n
        while here > 0 and times[here - 1] > moment:
            here -= 1
        if here > 0 and times[here - 1] < moment < np.inf:
            for other in range(n, here, -1):
                times[other], free[other] = times[other - 1], free[other - 1]
            times[here], free[here] = moment, free[here - 1]
            n += 1
    kept = 0
    for k in range(n):
        is_new = kept == 0
        for r in range(len(need)):
            left = free[k, r] - (sign * need[r] if begin <= times[k] < end else 0)
            is_new = is_new or free[kept - 1, r] != left
            free[kept, r] = left
        if is_new:
            times[kept] = times[k]
            kept += 1
    return kept


@kernel
def plan(times: Floats, free: Ints, n: int, reserved: Floats, length: Floats, need: Ints, rounds: int) -> int:
    """Reserve for jobs in their order; return the number of steps, or -1 where reservations do not hold.

    Jobs with a reservation keep it, or move to earlier places for so many rounds (-1: until none moves);
    the others get the first place beside all.
    """
    moved = False
    for job in range(len(reserved)):
        if reserved[job] < np.inf:
            if reserved[job] < times[0]:
                return -1
            n, moved = _add(times, free, n, reserved[job], length[job], need[job], 1), True
    if moved and free[:n].min() < 0:
        return -1
    while moved and rounds != 0:
        moved, rounds = False, rounds - 1
        for job in range(len(reserved)):
            if reserved[job] < np.inf:
                n = _add(times, free, n, reserved[job], length[job], need[job], -1)
                place = _first_place(times, free, n, length[job], need[job])
                if place < reserved[job]:
                    reserved[job], moved = place, True
                n = _add(times, free, n, reserved[job], length[job], need[job], 1)
    for job in range(len(reserved)):
        if reserved[job] == np.inf:
            reserved[job] = _first_place(times, free, n, length[job], need[job])
            if reserved[job] < np.inf:
                n = _add(times, free, n, reserved[job], length[job], need[job], 1)
    return n


class Profile:
    """The free amounts from now on."""

    def __init__(self, now: float, free: list[int], ends: list[float], held: Ints, room: int) -> None:
        """Begin with the running jobs, in the order of their expected ends; ``room``: jobs to come."""
        times, levels = np.array([now, *ends]), np.cumsum(np.vstack([free, held]), axis=0)
        last = np.append(times[1:] > times[:-1], True)  # of equal times
        self.n = n = int(last.sum())
        self.times, self.free = np.empty(n + 2 * room + 4), np.empty((n + 2 * room + 4, len(free)), np.int64)
        self.times[:n], self.free[:n] = times[last], levels[last]

    def first(self, length: float, need: Ints) -> float:
        """Return the first time from which so much is free for so long."""
        return float(_first_place(self.times, self.free, self.n, length, need))

    def add(self, begin: float, length: float, need: Ints, sign: int = 1) -> None:
        """Reserve from a time on for a length; ``sign`` -1: release."""
        if begin < np.inf:
            self.n = _add(self.times, self.free, self.n, begin, length, need, sign)

    def that_fit(self, length: Floats, need: Ints) -> Mask:
        """Return which of some jobs fit from now on."""
        return _that_fit(self.times, self.free, self.n, length, need)
