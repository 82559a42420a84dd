"""The profile: how many units are expected to be free from which time on.

Segment i has ``profile_free[i]`` free units from ``profile_times[i]`` until the next segment begins; the
first begins now, the last never ends. It is made from the running jobs, and reservations take room out of it.
"""

from __future__ import annotations

import numpy as np

from mlsim._jit import kernel
from mlsim.batch.backfill.easy import overdue_end
from mlsim.batch.columns.arrays import FREE, RUNNING, SEGMENTS, Arrays
from mlsim.batch.columns.running import first_after
from mlsim.batch.columns.table import EXPECTED, HELD

__all__ = ["earliest", "fits_now", "give", "make_profile", "stay_end", "take"]


@kernel(forceinline=True)
def stay_end(begin: float, duration: float) -> float:
    """Return when a stay of so long (s) is over, later than its begin even where rounding loses its length.

    Else two jobs of hardly any length could have the same units.
    """
    end = begin + duration
    return end if end > begin else float(np.nextafter(begin, np.inf))


@kernel(forceinline=True)
def make_profile(now: float, s: Arrays) -> None:
    """Make the profile of the units that running jobs hold, until each one's expected end."""
    n = s.counts[RUNNING]
    k = first_after(now, s.running, n, s.floats)
    overdue, overdue_time = 0, overdue_end(now, s)
    for late in range(k):
        overdue += s.ints[HELD, s.running[late]]
    s.profile_times[0], s.profile_free[0] = now, s.counts[FREE]
    segments = 1
    while k < n or overdue > 0:
        time = s.floats[EXPECTED, s.running[k]] if k < n else np.inf
        freed = 0
        if overdue > 0 and overdue_time <= time:
            time = overdue_time
            freed, overdue = overdue, 0
        while k < n and s.floats[EXPECTED, s.running[k]] <= time:
            freed += s.ints[HELD, s.running[k]]
            k += 1
        s.profile_times[segments] = time
        s.profile_free[segments] = s.profile_free[segments - 1] + freed
        segments += 1
    s.counts[SEGMENTS] = segments


@kernel(forceinline=True)
def earliest(units: int, duration: float, s: Arrays) -> float:
    """Find the earliest time from which so many units are free for so long (s); infinity if never."""
    n, first = s.counts[SEGMENTS], -1
    for k in range(n):
        if s.profile_free[k] < units:
            first = -1
            continue
        if first < 0:
            first = k
        if k + 1 == n or stay_end(s.profile_times[first], duration) <= s.profile_times[k + 1]:
            return float(s.profile_times[first])
    return np.inf


@kernel(forceinline=True)
def fits_now(units: int, duration: float, s: Arrays) -> bool:
    """Tell whether so many units are free from now on for so long (s)."""
    end = stay_end(s.profile_times[0], duration)
    for k in range(s.counts[SEGMENTS]):
        if k > 0 and s.profile_times[k] >= end:
            return True
        if s.profile_free[k] < units:
            return False
    return True


@kernel(forceinline=True)
def take(begin: float, duration: float, units: int, s: Arrays) -> None:
    """Take units out of the profile from ``begin`` on, for so long (s)."""
    first, last = _split(begin, s), _split(stay_end(begin, duration), s)
    for k in range(first, last):
        s.profile_free[k] -= units


@kernel(forceinline=True)
def give(begin: float, duration: float, units: int, s: Arrays) -> None:
    """Give back units that were taken from ``begin`` on, for so long (s)."""
    first, last = _split(begin, s), _split(stay_end(begin, duration), s)
    for k in range(first, last):
        s.profile_free[k] += units
    _join(last, s)
    _join(first, s)


@kernel(forceinline=True)
def _split(time: float, s: Arrays) -> int:
    """Let a segment begin at ``time``, which is not before now; give which."""
    low, high = 0, s.counts[SEGMENTS]
    while low < high:
        middle = (low + high) // 2
        if s.profile_times[middle] < time:
            low = middle + 1
        else:
            high = middle
    n = s.counts[SEGMENTS]
    if low < n and s.profile_times[low] == time:
        return low
    for k in range(n, low, -1):
        s.profile_times[k] = s.profile_times[k - 1]
        s.profile_free[k] = s.profile_free[k - 1]
    s.profile_times[low] = time
    s.profile_free[low] = s.profile_free[low - 1]
    s.counts[SEGMENTS] = n + 1
    return low


@kernel(forceinline=True)
def _join(segment: int, s: Arrays) -> None:
    """Let a segment be one with the one before it, if as many units are free in both."""
    n = s.counts[SEGMENTS]
    if 0 < segment < n and s.profile_free[segment] == s.profile_free[segment - 1]:
        for k in range(segment, n - 1):
            s.profile_times[k] = s.profile_times[k + 1]
            s.profile_free[k] = s.profile_free[k + 1]
        s.counts[SEGMENTS] = n - 1
