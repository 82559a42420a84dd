"""The profile: what is expected to be free from which time on.

Segment i begins at ``profile_times[i]`` and ends where the next begins; the first begins now, the last never
ends. It is made from the running jobs, and reservations take room out of it. What a segment holds, the room
knows: a number of units, or what is free on every node.
"""

from __future__ import annotations

import numpy as np

from mlsim._jit import inner_kernel
from mlsim.batch.columns.columns import RUNNING, SEGMENTS, Columns
from mlsim.batch.columns.running import first_after
from mlsim.batch.columns.table import EXPECTED
from mlsim.batch.columns.times import overdue_end, reserved_time, stay_end
from mlsim.batch.room.room import (
    Room,
    change_segments,
    copy_segment,
    drain_begin,
    drain_end,
    expect_held,
    fits_segment,
    fits_window,
    is_alike,
    n_drains,
    narrow_window,
    open_profile,
    open_window,
    place_at_once,
    place_in_window,
    shut_segment,
)

__all__ = ["earliest", "fits_now", "make_profile", "restore", "take"]


@inner_kernel
def make_profile(now: float, columns: Columns, room: Room) -> None:
    """Make the profile of what running jobs hold, until each one's expected end."""
    n = columns.counts[RUNNING]
    late = first_after(now, columns.running, n, columns.floats)
    overdue, k, overdue_time = late > 0, late, overdue_end(now, columns)
    columns.profile_times[0] = now
    open_profile(columns, room)
    segments = 1
    while k < n or overdue:
        time = columns.floats[EXPECTED, columns.running[k]] if k < n else np.inf
        copy_segment(segments, segments - 1, columns, room)
        if overdue and overdue_time <= time:
            time, overdue = overdue_time, False
            for j in range(late):
                expect_held(columns.running[j], segments, columns, room)
        while k < n and columns.floats[EXPECTED, columns.running[k]] <= time:
            expect_held(columns.running[k], segments, columns, room)
            k += 1
        columns.profile_times[segments] = time
        segments += 1
    columns.counts[SEGMENTS] = segments
    for drain in range(n_drains(room)):
        _cut_out(drain, now, columns, room)


@inner_kernel
def _cut_out(drain: int, now: float, columns: Columns, room: Room) -> None:
    """Free nothing of the nodes of an announced drain while it lasts."""
    end = drain_end(drain, now, room)
    first = _split(drain_begin(drain, now, room), columns, room)
    last = _split(end, columns, room) if end < np.inf else columns.counts[SEGMENTS]
    for segment in range(first, last):
        shut_segment(drain, segment, room)


@inner_kernel
def _split(time: float, columns: Columns, room: Room) -> int:
    """Begin a segment at ``time``, which is not before now; return which."""
    low, high = 0, columns.counts[SEGMENTS]
    while low < high:
        middle = (low + high) // 2
        if columns.profile_times[middle] < time:
            low = middle + 1
        else:
            high = middle
    n = columns.counts[SEGMENTS]
    if low < n and columns.profile_times[low] == time:
        return int(low)
    for k in range(n, low, -1):
        columns.profile_times[k] = columns.profile_times[k - 1]
        copy_segment(k, k - 1, columns, room)
    columns.profile_times[low] = time
    copy_segment(low, low - 1, columns, room)
    columns.counts[SEGMENTS] = n + 1
    return int(low)


@inner_kernel
def _join(segment: int, columns: Columns, room: Room) -> None:
    """Make a segment one with the one before it, where they are alike."""
    n = columns.counts[SEGMENTS]
    if 0 < segment < n and is_alike(segment, segment - 1, columns, room):
        for k in range(segment, n - 1):
            columns.profile_times[k] = columns.profile_times[k + 1]
            copy_segment(k, k + 1, columns, room)
        columns.counts[SEGMENTS] = n - 1


@inner_kernel
def _blocking(slot: int, first: int, columns: Columns, room: Room) -> int:
    """Find the first segment before whose end a job, begun in segment ``first``, lacks room; -1: none."""
    end = stay_end(columns.profile_times[first], reserved_time(slot, columns))
    open_window(first, room)
    k = first
    while fits_window(slot, k, columns, room):
        k += 1
        if k == columns.counts[SEGMENTS] or columns.profile_times[k] >= end:
            return -1
        narrow_window(k, room)
    return k


@inner_kernel
def earliest(slot: int, columns: Columns, room: Room) -> float:
    """Find the earliest time from which a job fits for as long as it asks for room; infinity if never.

    The room notes the units.
    """
    first = 0
    while first < columns.counts[SEGMENTS]:
        blocked = _blocking(slot, first, columns, room)
        if blocked < 0 and place_in_window(slot, columns, room):
            return float(columns.profile_times[first])
        if blocked > first and not fits_segment(slot, blocked, columns, room):
            first = blocked
        first += 1
    return np.inf


@inner_kernel
def fits_now(slot: int, columns: Columns, room: Room) -> bool:
    """Whether a job fits from now on for as long as it asks for room; the room notes the units."""
    return _blocking(slot, 0, columns, room) < 0 and place_at_once(slot, columns, room)


@inner_kernel
def take(slot: int, begin: float, columns: Columns, room: Room) -> None:
    """Take the units found for a job out of the profile, from ``begin`` for as long as it asks for room."""
    end = stay_end(begin, reserved_time(slot, columns))
    first, last = _split(begin, columns, room), _split(end, columns, room)
    change_segments(slot, first, last, -1, columns, room)


@inner_kernel
def restore(slot: int, begin: float, columns: Columns, room: Room) -> None:
    """Add to the profile what was taken out of it so."""
    end = stay_end(begin, reserved_time(slot, columns))
    first, last = _split(begin, columns, room), _split(end, columns, room)
    change_segments(slot, first, last, 1, columns, room)
    _join(last, columns, room)
    _join(first, columns, room)
