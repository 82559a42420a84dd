"""Compiled event loop of the batch level, for jobs whose end is known when they start."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import borrowed, kernel
from mlsim.batch.backfill.reservations import next_reservation
from mlsim.batch.columns.arrays import ENDS_FIRST, KILLS, ONE_ROUND, PER_EVENT, QUEUED, USED_ROWS, Arrays
from mlsim.batch.columns.table import PLANNED, RUN, START, STATE, SUBMIT, WALLTIME
from mlsim.batch.room.pool import leave_time
from mlsim.batch.state.dispatch import enter_queue, happen
from mlsim.record import JobState

__all__ = ["borrow", "replay"]

# Why the event loop has come back.
ARRIVALS_WANTED, ROOM_WANTED, TIME_TO_TELL, OVER = range(4)

# Places in the array of progress.
ENDS, SEQUENCE, NEXT_ARRIVAL, OWED, PASSES, FINISHED = range(6)
N_PROGRESS: Final = 6

_KILLED = int(JobState.KILLED)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def borrow(s: Arrays) -> Arrays:
    """Give the state as arrays that kernels hand to each other without counting references."""
    return Arrays(
        borrowed(s.rules),
        borrowed(s.parameters),
        borrowed(s.floats),
        borrowed(s.ints),
        borrowed(s.queue),
        borrowed(s.spare),
        borrowed(s.running),
        borrowed(s.counts),
        borrowed(s.free),
        borrowed(s.cores),
        borrowed(s.rows),
        borrowed(s.times),
        borrowed(s.shares),
        borrowed(s.profile_times),
        borrowed(s.profile_free),
        borrowed(s.started),
    )


@kernel
def _is_before(a: int, b: int, floats: Floats, order: Ints) -> bool:
    if floats[PLANNED, a] != floats[PLANNED, b]:
        return bool(floats[PLANNED, a] < floats[PLANNED, b])
    return bool(order[a] < order[b])


@kernel
def _push(slot: int, n: int, ends: Ints, order: Ints, floats: Floats) -> None:
    """Put a job into the heap of the ``n`` ends to come."""
    place = n
    while place > 0 and _is_before(slot, ends[(place - 1) // 2], floats, order):
        ends[place] = ends[(place - 1) // 2]
        place = (place - 1) // 2
    ends[place] = slot


@kernel
def _pop(n: int, ends: Ints, order: Ints, floats: Floats) -> int:
    """Take the first of the ``n`` ends to come out of the heap."""
    first, last = ends[0], ends[n - 1]
    place, child = 0, 1
    while child < n - 1:
        if child + 1 < n - 1 and _is_before(ends[child + 1], ends[child], floats, order):
            child += 1
        if not _is_before(ends[child], last, floats, order):
            break
        ends[place] = ends[child]
        place, child = child, 2 * child + 1
    ends[place] = last
    return int(first)


@kernel(forceinline=True)
def _pop_all(now: float, progress: Ints, ends: Ints, order: Ints, ended: Ints, s: Arrays) -> int:
    """Take all jobs that end now out of the heap; give how many there are."""
    n_ended = 0
    while progress[ENDS] > 0 and s.floats[PLANNED, ends[0]] == now:
        ended[n_ended] = _pop(progress[ENDS], ends, order, s.floats)
        progress[ENDS] -= 1
        n_ended += 1
    return n_ended


@kernel(forceinline=True)
def _plan(n_started: int, now: float, progress: Ints, ends: Ints, order: Ints, s: Arrays) -> None:
    """Note when the jobs that have started will end, and how."""
    for k in range(n_started):
        slot = s.started[k]
        end = now + s.floats[RUN, slot]
        leaves = leave_time(end, s.floats[START, slot], s.floats[WALLTIME, slot], s.rules[KILLS] != 0)
        if leaves < end:
            s.ints[STATE, slot] = _KILLED
        s.floats[PLANNED, slot] = leaves
        order[slot] = progress[SEQUENCE]
        progress[SEQUENCE] += 1
        _push(slot, progress[ENDS], ends, order, s.floats)
        progress[ENDS] += 1


@kernel
def replay(
    more: bool,
    arrivals: Ints,
    clock: Floats,
    progress: Ints,
    ends: Ints,
    order: Ints,
    finished: Ints,
    row_limit: int,
    pass_limit: int,
    state: Arrays,
) -> int:
    """Let time go on until something is needed from outside.

    Parameters
    ----------
    more
        Whether further arrivals will come after these.
    arrivals
        Slots of the next jobs to be submitted, in order of (submission time, job id).
    clock
        The current time in seconds; one number.
    progress
        Ends to come, the next sequence number, the next arrival, whether a pass is owed at the current time,
        passes so far, finished jobs in ``finished``.
    ends, order
        Heap of running jobs by (end, order of start), and each job's order of start.
    finished
        Receives the slots of jobs that have ended.
    row_limit
        Occupancy rows from which on there is no room for another pass.
    pass_limit
        Passes after which the caller wants to hear of the progress.
    state
        State of the batch level; changed in place.

    Returns
    -------
    int
        What is needed: arrivals, room for occupancy rows, a report of progress, or nothing: all is over.
    """
    s, n = borrow(state), len(arrivals)
    nothing = np.empty(0, np.int64)
    arrivals, clock, progress = borrowed(arrivals), borrowed(clock), borrowed(progress)
    ends, order, finished = borrowed(ends), borrowed(order), borrowed(finished)
    while True:
        if s.counts[USED_ROWS] > row_limit:
            return ROOM_WANTED
        if progress[PASSES] >= pass_limit:
            return TIME_TO_TELL
        first = progress[NEXT_ARRIVAL]
        if first == n and more:
            return ARRIVALS_WANTED
        last, n_ended = first, 0
        now = clock[0]
        if not progress[OWED]:
            now = s.floats[SUBMIT, arrivals[first]] if first < n else np.inf
            if progress[ENDS] > 0:
                now = min(now, s.floats[PLANNED, ends[0]])
            if s.rules[ONE_ROUND] or now == np.inf:
                # Somebody may have been promised a time at which nothing else happens.
                now = min(now, next_reservation(clock[0], s.counts[QUEUED], s.queue, s.floats))
            if now == np.inf:
                return OVER
            clock[0] = now
        ends_now = progress[ENDS] > 0 and s.floats[PLANNED, ends[0]] == now
        if s.rules[PER_EVENT]:
            submits_now = first < n and s.floats[SUBMIT, arrivals[first]] == now
            if submits_now and not (s.rules[ENDS_FIRST] and ends_now):
                last = first + 1
        else:
            while last < n and s.floats[SUBMIT, arrivals[last]] == now:
                last += 1
            if last == n and last > first and more:
                # The next arrivals may belong to this time as well: the pass is owed until they are known.
                enter_queue(now, first, last, arrivals, s)
                progress[NEXT_ARRIVAL], progress[OWED] = last, 1
                return ARRIVALS_WANTED
        ended = finished[progress[FINISHED] :]
        if not s.rules[PER_EVENT]:
            n_ended = _pop_all(now, progress, ends, order, ended, s)
        elif last == first and ends_now:
            ended[0] = _pop(progress[ENDS], ends, order, s.floats)
            progress[ENDS] -= 1
            n_ended = 1
        progress[OWED] = 0
        progress[NEXT_ARRIVAL] = last
        n_started = happen(now, n_ended, ended, first, last, arrivals, nothing, s)
        progress[FINISHED] += n_ended
        progress[PASSES] += 1
        _plan(n_started, now, progress, ends, order, s)
