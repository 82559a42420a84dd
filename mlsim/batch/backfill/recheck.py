"""Reservations to recheck while they are compressed."""

from typing import Final

import numpy as np

from mlsim._jit import inner_kernel, leaf_kernel, next_bit
from mlsim.batch.backfill.free_profile import END
from mlsim.batch.backfill.reservations import N_SIZES, duration_class
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import Columns
from mlsim.batch.columns.running_jobs import reserved_time

N_PARTS: Final = 64
"""Parts of the profile's time for which it is known how short later jobs are."""

NONE: Final = -1
"""No gap, no job."""
ANYWHERE: Final = -2
"""Instead of a list of gaps: the job may have an earlier place anywhere."""

# Rows of the lists of gaps.
_GAP, _NEXT = range(2)

# Of the parts of the profile's time: when the first one begins, and how many there are in a second.
_BEGIN, _RATE = range(2)


@leaf_kernel
def lowest_bit(word: int) -> int:
    """Return the place of the lowest bit of a word that is not 0."""
    return 0 if word & 1 else int(next_bit(word, 0))


# Lists of jobs


@leaf_kernel
def begin_recheck(columns: Columns) -> None:
    """Begin with no job due."""
    columns.due[: (columns.counts[at.QUEUED] + 63) >> 6] = 0
    columns.counts[at.LISTED], columns.counts[at.UNLISTED] = 0, NONE
    for k in range(columns.counts[at.QUEUED]):
        slot = columns.queue[k]
        columns.ints[at.PLACE, slot], columns.ints[at.DUE, slot] = k, NONE


@leaf_kernel
def list_jobs(columns: Columns) -> None:
    """List the jobs with reservations; the lists are valid until others get one."""
    segment = columns.counts[at.FIRST]
    while segment != END:
        columns.profile_begins[segment] = NONE
        segment = columns.profile_next[segment]
    for k in range(columns.counts[at.QUEUED]):
        slot = columns.queue[k]
        if columns.ints[at.BEGIN_SEGMENT, slot] != END:
            add_beginner(slot, columns.ints[at.BEGIN_SEGMENT, slot], columns)
    begin = columns.profile_times[columns.counts[at.FIRST]]
    whole = columns.profile_times[columns.profile_before[END]] - begin
    columns.parts[_BEGIN], columns.parts[_RATE] = begin, N_PARTS / max(whole, 1.0)
    _sort_alike(columns)


@leaf_kernel
def _part_of(time: float, columns: Columns) -> int:
    """Return the part of the profile's time at a time."""
    return min(int((time - columns.parts[_BEGIN]) * columns.parts[_RATE]), N_PARTS - 1)


@leaf_kernel
def _sort_alike(columns: Columns) -> None:
    """List waiting jobs with reservations in classes of size and duration, the latest first."""
    columns.durations[:] = 0
    columns.shortest_later[:] = np.inf
    least, greatest, segment = N_SIZES - 1, 0, columns.counts[at.FIRST]
    while segment != END:
        part = _part_of(columns.profile_times[segment], columns)
        slot = columns.profile_begins[segment]
        while slot != NONE:
            size, duration = columns.ints[at.SIZE, slot], reserved_time(slot, columns)
            least, greatest = min(least, size), max(greatest, size)
            _list_alike(slot, size, duration, columns)
            columns.shortest_later[part, size] = min(columns.shortest_later[part, size], duration)
            slot = columns.ints[at.NEXT_BESIDE, slot]
        segment = columns.profile_next[segment]
    columns.counts[at.LEAST_SIZE], columns.counts[at.GREATEST_SIZE] = least, greatest
    for part in range(N_PARTS - 2, -1, -1):
        for size in range(least, greatest + 1):
            columns.shortest_later[part, size] = min(
                columns.shortest_later[part, size], columns.shortest_later[part + 1, size]
            )


@leaf_kernel
def _list_alike(slot: int, size: int, duration: float, columns: Columns) -> None:
    """List a job with those of its class."""
    lasts = duration_class(duration)
    bit = np.int64(1) << np.int64(lasts)
    if columns.durations[size] & bit == 0:
        columns.durations[size] |= bit
        columns.alike[size, lasts] = NONE
        columns.alike_shortest[size, lasts] = columns.alike_longest[size, lasts] = duration
    columns.alike_next[slot], columns.alike[size, lasts] = columns.alike[size, lasts], slot
    columns.alike_shortest[size, lasts] = min(columns.alike_shortest[size, lasts], duration)
    columns.alike_longest[size, lasts] = max(columns.alike_longest[size, lasts], duration)
    columns.alike_latest[slot] = columns.floats[at.RESERVED, slot]


@leaf_kernel
def shortest_after(size: int, time: float, columns: Columns) -> float:
    """Return the shortest duration (s) of the jobs of a class that are reserved after a time."""
    return float(columns.shortest_later[_part_of(time, columns), size])


@leaf_kernel
def add_beginner(slot: int, segment: int, columns: Columns) -> None:
    """Add a job to those that begin with a segment."""
    columns.ints[at.NEXT_BESIDE, slot] = columns.profile_begins[segment]
    columns.profile_begins[segment] = slot


@leaf_kernel
def remove_beginner(slot: int, segment: int, columns: Columns) -> None:
    """Remove a job from those that begin with a segment."""
    other = columns.profile_begins[segment]
    if other == slot:
        columns.profile_begins[segment] = columns.ints[at.NEXT_BESIDE, slot]
        return
    while columns.ints[at.NEXT_BESIDE, other] != slot:
        other = columns.ints[at.NEXT_BESIDE, other]
    columns.ints[at.NEXT_BESIDE, other] = columns.ints[at.NEXT_BESIDE, slot]


# Who is due


@leaf_kernel
def make_due(slot: int, columns: Columns) -> None:
    """Recheck a job in its turn."""
    place = columns.ints[at.PLACE, slot]
    columns.due[place >> 6] |= np.int64(1) << np.int64(place & 63)


@leaf_kernel
def next_due(place: int, columns: Columns) -> int:
    """Return the first place of the queue, from one on, whose job is due, and clear it; NONE if none is."""
    n_words, word = (columns.counts[at.QUEUED] + 63) >> 6, place >> 6
    if word >= n_words:
        return NONE
    left = columns.due[word] & (np.int64(-1) << np.int64(place & 63))
    while left == 0:
        word += 1
        if word >= n_words:
            return NONE
        left = columns.due[word]
    bit = lowest_bit(left)
    columns.due[word] &= ~(np.int64(1) << np.int64(bit))
    return int((word << 6) + bit)


@leaf_kernel
def recheck_all(columns: Columns) -> None:
    """Recheck every job, anywhere."""
    for k in range(columns.counts[at.QUEUED]):
        columns.ints[at.DUE, columns.queue[k]] = ANYWHERE
        make_due(columns.queue[k], columns)


@leaf_kernel
def recheck_beginners(first: int, last: int, added: int, columns: Columns) -> None:
    """Recheck jobs that fit right before their reservations since units were added there."""
    segment = first
    while segment != last:
        free = columns.profile_free[segment]
        segment = columns.profile_next[segment]
        slot = columns.profile_begins[segment]
        while slot != NONE:
            if free - added < columns.ints[at.UNITS, slot] <= free:
                make_due(slot, columns)
            slot = columns.ints[at.NEXT_BESIDE, slot]


@inner_kernel
def recheck_alike(
    gap: int, size: int, lasts: int, begin: float, reach: float, more_than: int, most: int, columns: Columns
) -> None:
    """Recheck jobs of a class with a gap, which begins at ``begin``.

    They are reserved later, last at most as long as runs around the gap, and fit only since the gap:
    ``more_than`` units fitted before throughout, ``most`` fit now.
    """
    slot = columns.alike[size, lasts]
    while slot != NONE and columns.alike_latest[slot] > begin:
        if (
            more_than < columns.ints[at.UNITS, slot] <= most
            and columns.floats[at.RESERVED, slot] > begin
            and reserved_time(slot, columns) <= reach
        ):
            _list_gap(slot, gap, columns)
            make_due(slot, columns)
        slot = columns.alike_next[slot]


# The gaps with which a job is looked at


@leaf_kernel
def _list_gap(slot: int, gap: int, columns: Columns) -> None:
    """Add a gap to a job's list; if the list is full, recheck the job anywhere."""
    if columns.ints[at.DUE, slot] == ANYWHERE:
        return
    entry = columns.counts[at.UNLISTED]
    if entry != NONE:
        columns.counts[at.UNLISTED] = columns.due_gaps[_NEXT, entry]
    elif columns.counts[at.LISTED] < columns.due_gaps.shape[1]:
        entry = columns.counts[at.LISTED]
        columns.counts[at.LISTED] += 1
    else:
        while columns.ints[at.DUE, slot] != NONE:
            take_gap(slot, columns)
        columns.ints[at.DUE, slot] = ANYWHERE
        return
    columns.due_gaps[_GAP, entry], columns.due_gaps[_NEXT, entry] = gap, columns.ints[at.DUE, slot]
    columns.ints[at.DUE, slot] = entry


@leaf_kernel
def take_gap(slot: int, columns: Columns) -> int:
    """Remove a gap from a job's list, which is not empty; return it."""
    entry = columns.ints[at.DUE, slot]
    columns.ints[at.DUE, slot] = columns.due_gaps[_NEXT, entry]
    columns.due_gaps[_NEXT, entry], columns.counts[at.UNLISTED] = columns.counts[at.UNLISTED], entry
    return int(columns.due_gaps[_GAP, entry])
