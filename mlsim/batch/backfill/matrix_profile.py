"""The profile of every node: what is expected to be free from which time on.

Segment i begins at ``profile_times[i]`` and holds a matrix (nodes, R); the first begins now, the last never
ends. Where units are all alike (``POOLED``), the profile of the pool, which only counts them, does the same
at a fraction of the time: jobs on identical whole nodes can always be put on nodes in order of their starts.
"""

from __future__ import annotations

import numpy as np

from mlsim._jit import inner_kernel
from mlsim.batch.allocators.placing import place
from mlsim.batch.backfill import profile as pool
from mlsim.batch.backfill.drains import end_of, expect_back
from mlsim.batch.backfill.easy import overdue_end
from mlsim.batch.backfill.reservations import reserved_time
from mlsim.batch.columns.arrays import EXCLUSIVE, RUNNING, SEGMENTS, Arrays
from mlsim.batch.columns.occupancy import COUNT, FINISH, NODE
from mlsim.batch.columns.running import first_after
from mlsim.batch.columns.table import EXPECTED, FIRST_ROW, ROWS, UNITS
from mlsim.batch.room.fit import room_for
from mlsim.batch.room.grid import DRAINS, POOLED, RETURNED, Grid
from mlsim.batch.room.matrix import units_in_row

__all__ = ["earliest", "fits_now", "give", "is_sound", "make_profile", "take"]


@inner_kernel
def _add(slot: int, node: int, units: int, sign: int, segment: int, s: Arrays, g: Grid) -> None:
    if g.back[node] == np.inf and sign > 0:
        return  # it is out of use, nobody knows until when
    for r in range(g.profile.shape[2]):
        amount = g.full[node, r] if s.rules[EXCLUSIVE] else units * g.request[slot, r]
        g.profile[segment, node, r] += sign * amount


@inner_kernel
def _add_held(slot: int, segment: int, s: Arrays, g: Grid) -> None:
    """Let a running job be gone in a segment."""
    first = s.ints[FIRST_ROW, slot]
    for row in range(first, first + s.ints[ROWS, slot]):
        if np.isnan(s.times[FINISH, row]):
            units, node = units_in_row(slot, row, s, g), s.rows[NODE, row]
            for held in range(node, node + s.rows[COUNT, row]):
                _add(slot, held, units, 1, segment, s, g)
    if g.settings[RETURNED] > 0:
        for node in range(len(g.owner)):
            if g.owner[node] == slot + 1:
                _add(slot, node, 1, 1, segment, s, g)


@inner_kernel
def _split(time: float, s: Arrays, g: Grid) -> int:
    """Let a segment begin at ``time``, which is not before now; give which."""
    n = s.counts[SEGMENTS]
    place_of = np.searchsorted(s.profile_times[:n], time)
    if place_of < n and s.profile_times[place_of] == time:
        return int(place_of)
    for k in range(n, place_of, -1):
        s.profile_times[k] = s.profile_times[k - 1]
        g.profile[k] = g.profile[k - 1]
    s.profile_times[place_of] = time
    g.profile[place_of] = g.profile[place_of - 1]
    s.counts[SEGMENTS] = n + 1
    return int(place_of)


@inner_kernel
def _cut_out(drain: int, now: float, s: Arrays, g: Grid) -> None:
    """Let nothing be free of the nodes of an announced drain while it lasts."""
    end = end_of(drain, now, g)
    first = _split(max(g.drain_times[0, drain], now), s, g)
    last = _split(end, s, g) if end < np.inf else s.counts[SEGMENTS]
    for segment in range(first, last):
        for k in range(g.drain_first[drain], g.drain_first[drain + 1]):
            g.profile[segment, g.drain_nodes[k]] = 0


@inner_kernel
def make_profile(now: float, s: Arrays, g: Grid) -> None:
    """Make the profile of what running jobs hold, until each one's expected end."""
    if g.settings[POOLED]:
        pool.make_profile(now, s)
        return
    n = s.counts[RUNNING]
    late = first_after(now, s.running, n, s.floats)
    overdue, k, overdue_time = late > 0, late, overdue_end(now, s)
    s.profile_times[0] = now
    expect_back(g.profile[0], s, g)
    segments = 1
    while k < n or overdue:
        time = s.floats[EXPECTED, s.running[k]] if k < n else np.inf
        g.profile[segments] = g.profile[segments - 1]
        if overdue and overdue_time <= time:
            time, overdue = overdue_time, False
            for j in range(late):
                _add_held(s.running[j], segments, s, g)
        while k < n and s.floats[EXPECTED, s.running[k]] <= time:
            _add_held(s.running[k], segments, s, g)
            k += 1
        s.profile_times[segments] = time
        segments += 1
    s.counts[SEGMENTS] = segments
    for drain in range(g.settings[DRAINS]):
        _cut_out(drain, now, s, g)


@inner_kernel
def _narrow(segment: int, g: Grid) -> None:
    """Let the window be what is free in a segment too."""
    for node in range(g.window.shape[0]):
        for r in range(g.window.shape[1]):
            g.window[node, r] = min(g.window[node, r], g.profile[segment, node, r])


@inner_kernel
def _blocking(slot: int, first: int, s: Arrays, g: Grid) -> int:
    """Find the first segment before whose end a job, begun in segment ``first``, lacks room; -1 if none.

    What is free throughout is left in the window.
    """
    units = s.ints[UNITS, slot]
    end = pool.stay_end(s.profile_times[first], reserved_time(slot, s))
    g.window[:] = g.profile[first]
    k = first
    while room_for(slot, units, g.window, s, g) == units:
        k += 1
        if k == s.counts[SEGMENTS] or s.profile_times[k] >= end:
            return -1
        _narrow(k, g)
    return k


@inner_kernel
def earliest(slot: int, s: Arrays, g: Grid) -> float:
    """Find the earliest time from which a job fits for as long as it asks for room; infinity if never.

    The units are left in ``g.placed`` (not where they are only counted), as the allocator puts them on what
    is free throughout.
    """
    if g.settings[POOLED]:
        return pool.earliest(s.ints[UNITS, slot], reserved_time(slot, s), s)
    units, first = s.ints[UNITS, slot], 0
    while first < s.counts[SEGMENTS]:
        blocked = _blocking(slot, first, s, g)
        if blocked < 0 and place(slot, g.window, s, g):
            return float(s.profile_times[first])
        if blocked > first and room_for(slot, units, g.profile[blocked], s, g) < units:
            first = blocked
        first += 1
    return np.inf


@inner_kernel
def fits_now(slot: int, s: Arrays, g: Grid) -> bool:
    """Tell whether a job fits from now on for as long as it asks for room; its units are left placed."""
    if not g.settings[POOLED]:
        return _blocking(slot, 0, s, g) < 0 and place(slot, g.window, s, g)
    fits = pool.fits_now(s.ints[UNITS, slot], reserved_time(slot, s), s)
    return fits and place(slot, g.free, s, g)


@inner_kernel
def take(slot: int, begin: float, s: Arrays, g: Grid) -> None:
    """Take what is placed for a job out of the profile, from ``begin`` for as long as it asks for room."""
    duration = reserved_time(slot, s)
    if g.settings[POOLED]:
        pool.take(begin, duration, s.ints[UNITS, slot], s)
    else:
        _change(slot, begin, pool.stay_end(begin, duration), -1, s, g)


@inner_kernel
def give(slot: int, begin: float, s: Arrays, g: Grid) -> None:
    """Give back what was taken so."""
    duration = reserved_time(slot, s)
    if g.settings[POOLED]:
        pool.give(begin, duration, s.ints[UNITS, slot], s)
    else:
        _change(slot, begin, pool.stay_end(begin, duration), 1, s, g)


@inner_kernel
def _change(slot: int, begin: float, end: float, sign: int, s: Arrays, g: Grid) -> None:
    first, last = _split(begin, s, g), _split(end, s, g)
    for node in range(len(g.placed)):
        if g.placed[node] > 0:
            for segment in range(first, last):
                _add(slot, node, g.placed[node], sign, segment, s, g)


@inner_kernel
def is_sound(s: Arrays, g: Grid) -> bool:
    """Tell whether nothing was taken out of the profile that is not there."""
    if g.settings[POOLED]:
        return bool(s.profile_free[: s.counts[SEGMENTS]].min() >= 0)
    return bool(g.profile[: s.counts[SEGMENTS]].min() >= 0)
