"""Gaps: units that have become free in the profile, and the reservations that may move into them.

Where every waiting job has the earliest place beside all others, a job can only get an earlier one if that
overlaps room which has become free since. Let its reservation begin at t and last for d. Earlier places for
it begin before t; up to t they need room that others leave, and from t on it has its own. So it can move
exactly if, before t, there is a *run* of segments in which it fits that is as long as d or reaches t; and, as
there was none at the last try, only if that run overlaps a younger gap. The job moves to the earliest of
these runs. (No run that begins earlier is missed: it would overlap no younger gap, and the job would have
moved there before.)

So the jobs that may move are known when a gap is made (:mod:`mlsim.batch.backfill.recheck`): of the run that
a job moves into, the youngest gap is the last part that became wide enough for it. The job asks for more
units than were free there before, and for no more than now; and either it begins where that part ends, or
runs around the gap are long enough for it. The length of these runs is determined class of size by class of
size, only as far as later jobs last that long. Units that are taken afterwards only make runs shorter.
"""

from typing import Final

import numpy as np

from mlsim._jit import inner_kernel, leaf_kernel
from mlsim.batch.backfill import recheck
from mlsim.batch.backfill.free_profile import END, begin_at, begin_before, stop_using
from mlsim.batch.backfill.reservations import least_of, size_of
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import Columns
from mlsim.batch.columns.running_jobs import reserved_time, stay_end
from mlsim.batch.room.room import Room, change_segments, counts_only_units, fits_segment, in_room

_ROUNDED_UP: Final = 1.0 + 2.0**-52

# Rows of gaps: the segment with which each begins, and whether it had others.
_SEGMENT, _WIDE = range(2)

# Rows of the times of gaps.
_FROM, _UNTIL = range(2)


@leaf_kernel
def close_gaps(first: int, last: int, columns: Columns) -> None:
    """Forget gaps."""
    for gap in range(first, last):
        stop_using(columns.gaps[_SEGMENT, gap & (columns.gaps.shape[1] - 1)], columns)


@leaf_kernel
def _open_gap(first: int, last: int, columns: Columns) -> int:
    """Make a gap; return its place."""
    place = columns.counts[at.GAPS] & (columns.gaps.shape[1] - 1)
    columns.counts[at.GAPS] += 1
    columns.profile_uses[first] += 1
    columns.gaps[_SEGMENT, place] = first
    columns.gaps[_WIDE, place] = columns.profile_next[first] != last
    columns.gap_times[_FROM, place] = columns.profile_times[first]
    columns.gap_times[_UNTIL, place] = columns.profile_times[last]
    return int(place)


@in_room
def note_gap(first: int, last: int, added: int, columns: Columns, room: Room) -> None:
    """Note that at most ``added`` units have become free from one segment up to another."""
    if first != last:
        # Where jobs ask for more than units, these may have been free before.
        _note_gap(first, last, added if counts_only_units(room) else at.MOST_UNITS, columns)


@inner_kernel
def _note_gap(first: int, last: int, added: int, columns: Columns) -> None:
    gap = _open_gap(first, last, columns)
    recheck.recheck_beginners(first, last, added, columns)
    least, most, segment = columns.profile_free[first], 0, first
    while segment != last:
        least, most = min(least, columns.profile_free[segment]), max(most, columns.profile_free[segment])
        segment = columns.profile_next[segment]
    more_than = max(least - added, 0)
    sizes = range(
        min(size_of(most), columns.counts[at.GREATEST_SIZE]),
        max(size_of(more_than + 1), columns.counts[at.LEAST_SIZE]) - 1,
        -1,
    )
    begin = columns.profile_times[first]
    if not columns.gaps[_WIDE, gap] and not _is_long_for_any(sizes, first, last, more_than, columns):
        return
    for size in sizes:
        enough = recheck.shortest_after(size, begin, columns)
        if enough < np.inf:
            first, last = _look_around(gap, size, first, last, enough, more_than, most, columns)


@leaf_kernel
def _is_long_for_any(sizes: range, first: int, last: int, more_than: int, columns: Columns) -> bool:
    """Whether a run around a gap of one segment is long enough for any later job of some sizes."""
    begin, enough = columns.profile_times[first], np.inf
    for size in sizes:
        enough = min(enough, recheck.shortest_after(size, begin, columns))
    if enough == np.inf:
        return False
    first, last = _widen(more_than + 1, first, last, enough, columns)
    return length_of_run(first, last, columns) >= enough


@leaf_kernel
def _widen(units: int, first: int, last: int, enough: float, columns: Columns) -> tuple[int, int]:
    """Widen a run to both sides while units are free, until it is longer than ``enough`` (s)."""
    while (
        columns.profile_free[columns.profile_before[first]] >= units
        and columns.profile_times[last] - columns.profile_times[first] <= enough
    ):
        first = columns.profile_before[first]
    while (
        columns.profile_free[last] >= units
        and columns.profile_times[last] - columns.profile_times[first] <= enough
    ):
        last = columns.profile_next[last]
    return first, last


@leaf_kernel
def length_of_run(first: int, last: int, columns: Columns) -> float:
    """Return the longest duration (s) that fits into a run.

    A sum that is rounded down may fit into slightly less than its duration.
    """
    return float(columns.profile_times[last] * _ROUNDED_UP - columns.profile_times[first])


@leaf_kernel
def _look_around(
    gap: int, size: int, first: int, last: int, enough: float, more_than: int, most: int, columns: Columns
) -> tuple[int, int]:
    """Recheck jobs of a size that fit into a run around a gap; later ones last at least ``enough`` (s).

    Around a gap of one segment the run is widened as needed. Returns how far it was followed; runs of smaller
    sizes reach at least as far.
    """
    units, begin, wide = least_of(size), columns.gap_times[_FROM, gap], columns.gaps[_WIDE, gap] != 0
    if wide:
        reach = columns.gap_reach[gap, size] = _longest_around(gap, units, columns)
    else:
        first, last = _widen(units, first, last, enough, columns)
        reach = length_of_run(first, last, columns)
    left = int(columns.durations[size]) if reach >= enough else 0
    while left != 0:
        lasts = recheck.lowest_bit(left)
        left &= left - 1
        if columns.alike_latest[columns.alike[size, lasts]] <= begin:
            continue
        if not wide:
            first, last = _widen(units, first, last, columns.alike_longest[size, lasts], columns)
            reach = length_of_run(first, last, columns)
        if columns.alike_shortest[size, lasts] > reach:
            break
        recheck.recheck_alike(gap, size, lasts, begin, reach, more_than, most, columns)
    return first, last


@leaf_kernel
def _longest_around(gap: int, units: int, columns: Columns) -> float:
    """Return the length (s) of the longest run around a gap in which units are free; -1 if there is none."""
    segment, until = columns.gaps[_SEGMENT, gap], columns.gap_times[_UNTIL, gap]
    while columns.profile_free[columns.profile_before[segment]] >= units:
        segment = columns.profile_before[segment]
    run, longest = END, -1.0
    while run != END or columns.profile_times[segment] < until:
        fits = columns.profile_free[segment] >= units
        if fits and run == END:
            run = segment
        elif not fits and run != END:
            longest = max(longest, length_of_run(run, segment, columns))
            run = END
        if segment == END:
            break
        segment = columns.profile_next[segment]
    return longest


@in_room
def earlier_place(slot: int, columns: Columns, room: Room) -> int:
    """Return the earliest segment at which a job fits beside all others; END if it has no earlier place.

    Only the gaps that may have made such a place are searched.
    """
    begin = columns.ints[at.BEGIN_SEGMENT, slot]
    if begin == END:
        return END
    if columns.ints[at.DUE, slot] == recheck.ANYWHERE:
        columns.ints[at.DUE, slot] = recheck.NONE
        return _first_run(recheck.NONE, slot, columns.counts[at.FIRST], np.inf, columns, room)
    found, before = END, columns.profile_before[begin]
    while before != END and fits_segment(slot, before, columns, room):
        found = before
        before = columns.profile_before[before]
    time = columns.profile_times[begin if found == END else found]
    size, duration = columns.ints[at.SIZE, slot], reserved_time(slot, columns)
    while columns.ints[at.DUE, slot] != recheck.NONE:
        gap = recheck.take_gap(slot, columns)
        if columns.gap_times[_FROM, gap] >= time or (
            columns.gaps[_WIDE, gap] and columns.gap_reach[gap, size] < duration
        ):
            continue
        first, until = columns.gaps[_SEGMENT, gap], columns.gap_times[_UNTIL, gap]
        segment = _first_run(gap, slot, first, until, columns, room)
        if segment != END and columns.profile_times[segment] < time:
            found, time = segment, columns.profile_times[segment]
    return found


@in_room
def _first_run(gap: int, slot: int, segment: int, until: float, columns: Columns, room: Room) -> int:
    """Return the first run around a gap that is long enough for a job, before its reservation; or END."""
    duration = reserved_time(slot, columns)
    begin = columns.profile_times[columns.ints[at.BEGIN_SEGMENT, slot]]
    run, end, longest = END, np.inf, -1.0
    if fits_segment(slot, segment, columns, room):
        run = segment
        before = columns.profile_before[run]
        while before != END and fits_segment(slot, before, columns, room):
            run = before
            before = columns.profile_before[run]
        end = stay_end(columns.profile_times[run], duration)
    while columns.profile_times[segment] < begin and (run != END or columns.profile_times[segment] < until):
        if not fits_segment(slot, segment, columns, room):
            if run != END:
                longest = max(longest, length_of_run(run, segment, columns))
            run = END
        elif run == END:
            run, end = segment, stay_end(columns.profile_times[segment], duration)
        segment = columns.profile_next[segment]
        if run != END and columns.profile_times[segment] >= end:
            return run
    if columns.profile_times[segment] >= begin:
        return run
    if gap != recheck.NONE and columns.gaps[_WIDE, gap] and counts_only_units(room):
        _shorten(gap, slot, longest, columns)
    return END


@leaf_kernel
def _shorten(gap: int, slot: int, longest: float, columns: Columns) -> None:
    """Record the length of runs around a gap for a job, and for those that ask for more units."""
    size = columns.ints[at.SIZE, slot]
    if columns.ints[at.UNITS, slot] > least_of(size):
        size += 1
    for larger in range(size, columns.counts[at.GREATEST_SIZE] + 1):
        columns.gap_reach[gap, larger] = min(columns.gap_reach[gap, larger], longest)


@in_room
def move(slot: int, first: int, columns: Columns, room: Room) -> None:
    """Move a reservation to an earlier segment, and note the gap that it leaves."""
    old_first, old_last = columns.ints[at.BEGIN_SEGMENT, slot], columns.ints[at.END_SEGMENT, slot]
    end = stay_end(columns.profile_times[first], reserved_time(slot, columns))
    overlaps = end > columns.profile_times[old_first]
    last = begin_before(end, old_last, columns, room) if overlaps else begin_at(end, first, columns, room)
    columns.profile_uses[first] += 1
    columns.profile_uses[last] += 1
    columns.floats[at.RESERVED, slot] = columns.profile_times[first]
    columns.ints[at.BEGIN_SEGMENT, slot], columns.ints[at.END_SEGMENT, slot] = first, last
    recheck.remove_beginner(slot, old_first, columns)
    recheck.add_beginner(slot, first, columns)
    taken_until, free_from = (old_first, last) if overlaps else (last, old_first)
    change_segments(slot, first, taken_until, -1, columns, room)
    change_segments(slot, free_from, old_last, 1, columns, room)
    note_gap(free_from, old_last, columns.ints[at.UNITS, slot], columns, room)
    stop_using(old_first, columns)
    stop_using(old_last, columns)
