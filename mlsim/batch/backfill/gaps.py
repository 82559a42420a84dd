"""Gaps: where room has become free in the profile, and which reservations may move into them.

Where every waiting job has the earliest place that there is beside all others, a job can only get an earlier
one if that overlaps room which has become free since. Let its reservation begin at t and last for d. Earlier
places for it begin before t; up to t they need room that others leave, and from t on it has its own. So it
can move exactly if, before t, there is a *run* of segments in which it fits that is as long as d or reaches
t; and, as there was none when it was last looked at, only if that run overlaps a gap that is younger. The
earliest of these runs is where it moves. (No run that begins earlier is missed: it would overlap no younger
gap, and the job would have moved there before.)

A run that reaches t is found from t. For the others, it is kept how long runs around each gap are at most, by
classes of the units that are free throughout, and for stretches of gaps together; what becomes free later
beside a gap is a gap of its own, and what is taken only makes runs shorter. So most jobs need no look at the
profile. Units are counted here; what else a job may ask for only makes less fit.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlsim._jit import inner_kernel, leaf_kernel
from mlsim.batch.backfill.profile import END, begin_at, stop_using
from mlsim.batch.columns.columns import FIRST, GAPS, GREATEST_SIZE, LEAST_SIZE, QUEUED, Columns
from mlsim.batch.columns.table import BEGIN_SEGMENT, END_SEGMENT, RESERVED, SEEN, SIZE
from mlsim.batch.columns.times import reserved_time, stay_end
from mlsim.batch.room.room import Room, change_segments, fits_segment, in_room

__all__ = [
    "N_SIZES",
    "STRETCH",
    "begin_gaps",
    "close_gaps",
    "earlier_place",
    "move",
    "note_all",
    "note_gap",
    "size_of",
]

_FINE: Final = 2
"""Classes of sizes in which numbers of units double."""
N_SIZES: Final = 64
"""Classes; the last one has no end."""
STRETCH: Final = 16
"""Gaps that are looked at together first."""


_ROUNDED_UP: Final = 1.0 + 2.0**-52

# Rows of the times of gaps.
_FROM, _UNTIL = range(2)


@leaf_kernel
def size_of(units: int) -> int:
    """Return the class of a number of units, 0 of them or more."""
    doubled = 0
    while units >= 2 * _FINE:
        units >>= 1
        doubled += 1
    return min(_FINE * doubled + units, N_SIZES - 1)


@leaf_kernel
def _least_of(size: int) -> int:
    """Return the smallest number of units of a class."""
    doubled = max(size // _FINE - 1, 0)
    return (size - _FINE * doubled) << doubled


@leaf_kernel
def begin_gaps(columns: Columns) -> float:
    """Begin without any gap; return the longest time that a waiting job asks for (s)."""
    longest, least, greatest = 0.0, N_SIZES, 0
    for k in range(columns.counts[QUEUED]):
        slot = columns.queue[k]
        columns.ints[SEEN, slot] = 0
        if columns.ints[BEGIN_SEGMENT, slot] != END:
            longest = max(longest, reserved_time(slot, columns))
            least = min(least, columns.ints[SIZE, slot])
            greatest = max(greatest, columns.ints[SIZE, slot])
    columns.counts[GAPS], columns.counts[LEAST_SIZE], columns.counts[GREATEST_SIZE] = 0, least, greatest
    return longest


@leaf_kernel
def close_gaps(first: int, last: int, columns: Columns) -> None:
    """Forget gaps."""
    for gap in range(first, last):
        stop_using(columns.gaps[gap & (len(columns.gaps) - 1)], columns)


@leaf_kernel
def _open_gap(first: int, until: float, columns: Columns) -> int:
    """Make a gap; return its place."""
    place = columns.counts[GAPS] & (len(columns.gaps) - 1)
    columns.counts[GAPS] += 1
    columns.profile_uses[first] += 1
    columns.gaps[place] = first
    columns.gap_times[_FROM, place], columns.gap_times[_UNTIL, place] = columns.profile_times[first], until
    stretch = place // STRETCH
    if place % STRETCH == 0:
        columns.stretch_from[stretch] = np.inf
        for size in range(columns.counts[LEAST_SIZE], columns.counts[GREATEST_SIZE] + 1):
            columns.stretch_reach[size, stretch] = -1.0
    columns.stretch_from[stretch] = min(columns.stretch_from[stretch], columns.profile_times[first])
    return int(place)


@leaf_kernel
def note_all(columns: Columns) -> None:
    """Take note that anything may have become free, from now on for good."""
    place = _open_gap(columns.counts[FIRST], np.inf, columns)
    for size in range(columns.counts[LEAST_SIZE], columns.counts[GREATEST_SIZE] + 1):
        columns.gap_reach[size, place] = columns.stretch_reach[size, place // STRETCH] = np.inf


@inner_kernel
def note_gap(first: int, last: int, longest: float, columns: Columns) -> None:
    """Take note that room has become free from a segment up to another.

    ``longest`` is the longest time (s) that a waiting job asks for.
    """
    if first != last:
        place = _open_gap(first, columns.profile_times[last], columns)
        _measure(place, first, last, longest, columns)
        for size in range(columns.counts[LEAST_SIZE], columns.counts[GREATEST_SIZE] + 1):
            columns.stretch_reach[size, place // STRETCH] = max(
                columns.stretch_reach[size, place // STRETCH], columns.gap_reach[size, place]
            )


@inner_kernel
def _measure(place: int, first: int, last: int, longest: float, columns: Columns) -> None:
    """Note how long runs are at most that overlap a gap, up to ``longest``; -1 for sizes that never fit.

    In the gap itself all is taken to be as wide as its widest segment: too much, never too little.
    """
    most, segment = 0, first
    while segment != last:
        most = max(most, columns.profile_free[segment])
        segment = columns.profile_next[segment]
    length = -1.0
    for size in range(columns.counts[GREATEST_SIZE], columns.counts[LEAST_SIZE] - 1, -1):
        units = _least_of(size)
        if units <= most and length < longest:
            while columns.profile_free[columns.profile_before[first]] >= units:
                first = columns.profile_before[first]
            while columns.profile_free[last] >= units:
                last = columns.profile_next[last]
            # A sum that is rounded down may fit into slightly less than it seems to ask for.
            length = columns.profile_times[last] * _ROUNDED_UP - columns.profile_times[first]
        columns.gap_reach[size, place] = length


@in_room
def earlier_place(slot: int, since: int, columns: Columns, room: Room) -> int:
    """Find the earliest segment from which on a job fits beside all others; END if it has no earlier place.

    All jobs have been looked at with the gaps before ``since``.
    """
    begin = columns.ints[BEGIN_SEGMENT, slot]
    if begin == END:
        return END
    time, found = columns.profile_times[begin], END
    before = columns.profile_before[begin]
    while before != END and fits_segment(slot, before, columns, room):
        found = before
        before = columns.profile_before[before]
    if found != END:
        time = columns.profile_times[found]
    n, size, duration = columns.counts[GAPS], columns.ints[SIZE, slot], reserved_time(slot, columns)
    gap = max(since, columns.ints[SEEN, slot])
    columns.ints[SEEN, slot] = n
    while gap < n:
        place = gap & (len(columns.gaps) - 1)
        stretch = place // STRETCH
        if columns.stretch_reach[size, stretch] < duration or columns.stretch_from[stretch] >= time:
            gap += STRETCH - place % STRETCH
            continue
        if columns.gap_reach[size, place] >= duration and columns.gap_times[_FROM, place] < time:
            segment = _place_around(place, slot, duration, columns, room)
            if segment != END and columns.profile_times[segment] < time:
                found, time = segment, columns.profile_times[segment]
        gap += 1
    return found


@in_room
def _place_around(place: int, slot: int, duration: float, columns: Columns, room: Room) -> int:
    """Find the first run around a gap that is long enough for a job, before its reservation; END: none."""
    segment, until = columns.gaps[place], columns.gap_times[_UNTIL, place]
    begin = columns.profile_times[columns.ints[BEGIN_SEGMENT, slot]]
    run, end = END, np.inf
    if fits_segment(slot, segment, columns, room):
        run = segment
        before = columns.profile_before[run]
        while before != END and fits_segment(slot, before, columns, room):
            run = before
            before = columns.profile_before[run]
        end = stay_end(columns.profile_times[run], duration)
    while columns.profile_times[segment] < begin and (run != END or columns.profile_times[segment] < until):
        if not fits_segment(slot, segment, columns, room):
            run = END
        elif run == END:
            run, end = segment, stay_end(columns.profile_times[segment], duration)
        segment = columns.profile_next[segment]
        if run != END and columns.profile_times[segment] >= end:
            return run
    return run if columns.profile_times[segment] >= begin else END


@in_room
def move(slot: int, first: int, longest: float, columns: Columns, room: Room) -> None:
    """Have a job's reservation begin with a segment before, and note the gap that it leaves."""
    old_first, old_last = columns.ints[BEGIN_SEGMENT, slot], columns.ints[END_SEGMENT, slot]
    end = stay_end(columns.profile_times[first], reserved_time(slot, columns))
    last = begin_at(end, first, columns, room)
    columns.profile_uses[first] += 1
    columns.profile_uses[last] += 1
    columns.floats[RESERVED, slot] = columns.profile_times[first]
    columns.ints[BEGIN_SEGMENT, slot], columns.ints[END_SEGMENT, slot] = first, last
    if end > columns.profile_times[old_first]:
        change_segments(slot, first, old_first, -1, columns, room)
        change_segments(slot, last, old_last, 1, columns, room)
        note_gap(last, old_last, longest, columns)
    else:
        change_segments(slot, first, last, -1, columns, room)
        change_segments(slot, old_first, old_last, 1, columns, room)
        note_gap(old_first, old_last, longest, columns)
    stop_using(old_first, columns)
    stop_using(old_last, columns)
