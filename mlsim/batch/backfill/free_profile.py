"""The profile: free resources expected over time, as a list of segments."""

from typing import Final

import numpy as np

from mlsim._jit import apart_kernel, leaf_kernel
from mlsim.batch.allocators.node_arrays import DRAINS, Nodes
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns import running_jobs
from mlsim.batch.columns.job_columns import Columns
from mlsim.batch.matrix.node_profile import close_segment
from mlsim.batch.room import room as machine
from mlsim.batch.room.room import Room, in_room, nodes_answer

END: Final = 0
"""Successor of the last segment."""

# Rows of segments that are sorted: the new number of each, and what is free in each and uses it, by that.
_NUMBER, _FREE, _USES = range(3)


@leaf_kernel
def _put_after(segment: int, time: float, columns: Columns) -> int:
    """Begin a new segment within another at ``time``; return it."""
    new = columns.counts[at.UNUSED]
    if new == END:
        new = columns.counts[at.SEGMENTS]
        columns.counts[at.SEGMENTS] = new + 1
    else:
        columns.counts[at.UNUSED] = columns.profile_next[new]
    after = columns.profile_next[segment]
    columns.profile_next[segment], columns.profile_before[after] = new, new
    columns.profile_next[new], columns.profile_before[new] = after, segment
    columns.profile_times[new], columns.profile_uses[new], columns.profile_begins[new] = time, 0, -1
    return int(new)


@leaf_kernel
def _take_out(segment: int, columns: Columns) -> None:
    """Merge a segment into the one before it, and reuse its number."""
    before, after = columns.profile_before[segment], columns.profile_next[segment]
    columns.profile_next[before], columns.profile_before[after] = after, before
    columns.profile_next[segment], columns.counts[at.UNUSED] = columns.counts[at.UNUSED], segment


@leaf_kernel
def stop_using(segment: int, columns: Columns) -> None:
    """Drop one begin or end of a job at a segment; an unused segment merges into the one before it."""
    columns.profile_uses[segment] -= 1
    if columns.profile_uses[segment] == 0 and segment != columns.counts[at.FIRST]:
        _take_out(segment, columns)


@in_room
def make_profile(now: float, columns: Columns, room: Room) -> None:
    """Build the profile from running jobs, each until its expected end."""
    late, n = running_jobs.first_after(now, columns), running_jobs.end_of_running(columns)
    k, overdue_time = late, running_jobs.overdue_end(now, columns)
    last = _begin_profile(now, columns)
    machine.open_profile(last, columns, room)
    overdue = _expect_due(late, last, now, columns, room)
    while k < n or overdue:
        time = columns.floats[at.EXPECTED, running_jobs.running_at(k, columns)] if k < n else np.inf
        if overdue and overdue_time <= time:
            time = overdue_time
        segment = _put_after(last, time, columns)
        machine.copy_segment(segment, last, columns, room)
        if overdue and overdue_time <= time:
            overdue = False
            j = 0
            while j < late:
                if not running_jobs.is_due(running_jobs.running_at(j, columns), now, columns):
                    machine.expect_held(running_jobs.running_at(j, columns), segment, columns, room)
                j = running_jobs.next_running(j, columns)
            columns.profile_uses[segment] = 1
        while k < n and columns.floats[at.EXPECTED, running_jobs.running_at(k, columns)] <= time:
            slot = running_jobs.running_at(k, columns)
            machine.expect_held(slot, segment, columns, room)
            columns.ints[at.END_SEGMENT, slot] = segment
            columns.profile_uses[segment] += 1
            k = running_jobs.next_running(k, columns)
        last = segment
    _cut_out_drains(now, columns, room)


@in_room
def _expect_due(late: int, first: int, now: float, columns: Columns, room: Room) -> bool:
    """Add the units of jobs that end now; return whether others are past their expected ends."""
    overdue, place = False, 0
    columns.counts[at.PENDING] = 0
    while place < late:
        slot = running_jobs.running_at(place, columns)
        if running_jobs.is_due(slot, now, columns):
            machine.expect_held(slot, first, columns, room)
            columns.counts[at.PENDING] += 1
        else:
            overdue = True
        place = running_jobs.next_running(place, columns)
    return overdue


@leaf_kernel
def _begin_profile(now: float, columns: Columns) -> int:
    """Reset the profile to one segment; return it."""
    first = END + 1
    columns.counts[at.FIRST], columns.counts[at.SEGMENTS], columns.counts[at.UNUSED] = first, first + 1, END
    columns.profile_times[first], columns.profile_times[END] = now, np.inf
    columns.profile_next[first] = columns.profile_before[first] = END
    columns.profile_before[END], columns.profile_free[END] = first, -1
    return first


@in_room
def begin_at(time: float, segment: int, columns: Columns, room: Room) -> int:
    """Begin a segment at ``time``, in the given one or later; return it."""
    after = columns.profile_next[segment]
    while columns.profile_times[after] <= time:
        segment = after
        after = columns.profile_next[segment]
    if columns.profile_times[segment] == time:
        return int(segment)
    new = _put_after(segment, time, columns)
    machine.copy_segment(new, segment, columns, room)
    return new


@apart_kernel
def _cut_out_on_nodes(now: float, columns: Columns, nodes: Nodes) -> None:
    for drain in range(nodes.settings[DRAINS]):
        begin, end = max(nodes.drain_times[0, drain], now), nodes.drain_times[1, drain]
        if end <= now:
            columns.counts[at.PENDING] += 1  # its end has only not been handled yet
            continue
        segment = begin_at(begin, columns.counts[at.FIRST], columns, nodes)
        last = begin_at(end, segment, columns, nodes) if end < np.inf else END
        columns.profile_uses[segment] += 1
        columns.profile_uses[last] += 1
        while segment != last:
            close_segment(drain, segment, columns, nodes)
            segment = columns.profile_next[segment]


@nodes_answer(_cut_out_on_nodes)
def _cut_out_drains(_now: float, _columns: Columns, _room: Room) -> None:
    """Make the nodes of announced drains unavailable while these last; a pool has none."""


@in_room
def begin_before(time: float, segment: int, columns: Columns, room: Room) -> int:
    """Begin a segment at ``time``, not after the begin of the given one; return it."""
    before = columns.profile_before[segment]
    while columns.profile_times[before] > time:
        before = columns.profile_before[before]
    return begin_at(time, before, columns, room)


@leaf_kernel
def forget_past(now: float, columns: Columns) -> None:
    """Drop the segments before now."""
    first = columns.counts[at.FIRST]
    while columns.profile_times[columns.profile_next[first]] <= now:
        after = columns.profile_next[first]
        columns.profile_next[first], columns.counts[at.UNUSED] = columns.counts[at.UNUSED], first
        columns.profile_times[first] = -np.inf
        first = after
    columns.counts[at.FIRST], columns.profile_before[first] = first, END
    columns.profile_times[first] = now


@leaf_kernel
def sort_segments(columns: Columns) -> None:
    """Renumber segments of a profile that counts units by time, so that neighbours are adjacent in memory."""
    numbers = columns.sorted_segments[_NUMBER]
    n, segment = 0, columns.counts[at.FIRST]
    while segment != END:
        n += 1
        numbers[segment] = n
        columns.sorted_segments[_FREE, n] = columns.profile_free[segment]
        columns.sorted_segments[_USES, n] = columns.profile_uses[segment]
        columns.sorted_times[n] = columns.profile_times[segment]
        segment = columns.profile_next[segment]
    for k in range(columns.counts[at.EARLY]):
        past = columns.profile_times[columns.back_until[k]] == -np.inf
        columns.back_until[k] = 1 if past else numbers[columns.back_until[k]]
    for segment in range(1, n + 1):
        columns.profile_free[segment] = columns.sorted_segments[_FREE, segment]
        columns.profile_uses[segment] = columns.sorted_segments[_USES, segment]
        columns.profile_times[segment] = columns.sorted_times[segment]
        columns.profile_next[segment], columns.profile_before[segment] = segment + 1, segment - 1
    columns.profile_next[n], columns.profile_before[END] = END, n
    columns.counts[at.FIRST], columns.counts[at.SEGMENTS], columns.counts[at.UNUSED] = 1, n + 1, END
    for k in range(columns.counts[at.QUEUED]):
        slot = columns.queue[k]
        if columns.ints[at.BEGIN_SEGMENT, slot] != END:
            columns.ints[at.BEGIN_SEGMENT, slot] = numbers[columns.ints[at.BEGIN_SEGMENT, slot]]
            columns.ints[at.END_SEGMENT, slot] = numbers[columns.ints[at.END_SEGMENT, slot]]
    k = 0
    while k < running_jobs.end_of_running(columns):
        slot = running_jobs.running_at(k, columns)
        columns.ints[at.END_SEGMENT, slot] = numbers[columns.ints[at.END_SEGMENT, slot]]
        k = running_jobs.next_running(k, columns)


@leaf_kernel
def short_of(units: int, segment: int, end: float, columns: Columns) -> int:
    """Return the first segment, from one on and before a time, with fewer free units; END if none."""
    while columns.profile_times[segment] < end:
        if columns.profile_free[segment] < units:
            return int(segment)
        segment = columns.profile_next[segment]
    return END


@leaf_kernel
def earliest_counted(units: int, duration: float, first: int, columns: Columns) -> int:
    """Return the first segment from which these units are free for ``duration``; END if never."""
    while first != END:
        short = short_of(units, first, running_jobs.stay_end(columns.profile_times[first], duration), columns)
        if short == END:
            return int(first)
        first = columns.profile_next[short]
    return END


@in_room
def _blocking(slot: int, first: int, duration: float, columns: Columns, room: Room) -> int:
    """Return the first segment that lacks room for a job that begins with ``first``; END if there is none."""
    end = running_jobs.stay_end(columns.profile_times[first], duration)
    if not machine.counts_units(room):
        short = short_of(machine.requested(slot, columns, room), first, end, columns)
        if short != END:
            return short
    if not machine.open_window(slot, first, columns, room):
        return first
    k = columns.profile_next[first]
    while columns.profile_times[k] < end:
        if not machine.extend_window(slot, k, columns, room):
            return int(k)
        k = columns.profile_next[k]
    return END


@in_room
def earliest_in(slot: int, first: int, until: float, columns: Columns, room: Room) -> int:
    """Return the first segment, before ``until``, at which a job fits for its duration, or END."""
    duration = running_jobs.reserved_time(slot, columns)
    while columns.profile_times[first] < until:
        blocked = _blocking(slot, first, duration, columns, room)
        if blocked == END:
            if machine.place_in_window(slot, False, columns, room):
                return int(first)
        elif blocked != first and not machine.fits_segment(slot, blocked, columns, room):
            first = blocked
        first = columns.profile_next[first]
    return END


@in_room
def fits_now(slot: int, columns: Columns, room: Room) -> bool:
    """Whether a job fits from now on for its duration; the room notes the units."""
    blocked = _blocking(
        slot, columns.counts[at.FIRST], running_jobs.reserved_time(slot, columns), columns, room
    )
    return blocked == END and machine.place_in_window(slot, True, columns, room)


@in_room
def take(slot: int, first: int, columns: Columns, room: Room) -> int:
    """Remove the units found for a job from the profile, for its duration; return the segment after that."""
    end = running_jobs.stay_end(columns.profile_times[first], running_jobs.reserved_time(slot, columns))
    last = begin_at(end, first, columns, room)
    machine.change_segments(slot, first, last, -1, columns, room)
    return last


@in_room
def reserve_from(slot: int, first: int, columns: Columns, room: Room) -> None:
    """Reserve the units found for a job, from a segment on."""
    last = take(slot, first, columns, room)
    columns.profile_uses[first] += 1
    columns.profile_uses[last] += 1
    columns.ints[at.BEGIN_SEGMENT, slot], columns.ints[at.END_SEGMENT, slot] = first, last
    columns.floats[at.RESERVED, slot] = columns.profile_times[first]
