"""One instant of the batch level, compiled: what ended, what arrived, and the pass over the queue.

The pass is FCFS-like in the queue's order; with EASY backfilling the first job that does not fit
holds the one reservation (Zrigui 2021, Algorithm 1; Mu'alem and Feitelson 2001).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.batch.allocation import first_fit, take_back, write_row
from mlsim.batch.occupancy import COUNT, FINISH, NODE, NODE_CORES, RELEASED
from mlsim.batch.policies import enqueue, is_live, order_queue
from mlsim.batch.running import add_running, first_after, remove_running
from mlsim.batch.table import (
    BACKFILLED,
    CORES,
    END,
    ESTIMATE,
    EXPECTED,
    FIRST_ROW,
    HELD,
    NUMBER,
    ROWS,
    START,
    UNITS,
)

__all__ = ["end_job", "enter_queue", "instant", "release_row", "reserve", "return_node"]

# Places in the array of counts.
QUEUED, RUNNING, FREE, USED_ROWS, HINT, BACKFILLS = range(6)
N_COUNTS = 6

OVERDUE_GRACE = 1.0
"""Seconds after now at which a job that outlived its estimate is expected to end."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def end_job(
    slot: int,
    now: float,
    floats: Floats,
    ints: Ints,
    running: Ints,
    counts: Ints,
    free: Ints,
    rows: Ints,
    times: Floats,
) -> None:
    """Let a job leave: free what it still holds."""
    first = ints[FIRST_ROW, slot]
    for row in range(first, first + ints[ROWS, slot]):
        if np.isnan(times[FINISH, row]):
            take_back(row, now, free, rows, times)
            counts[HINT] = min(counts[HINT], rows[NODE, row])
    counts[FREE] += ints[HELD, slot]
    ints[HELD, slot] = 0
    floats[END, slot] = now
    remove_running(slot, running, counts[RUNNING], ints, floats)
    counts[RUNNING] -= 1


@kernel
def release_row(
    slot: int,
    row: int,
    now: float,
    exclusive: bool,
    ints: Ints,
    counts: Ints,
    free: Ints,
    rows: Ints,
    times: Floats,
) -> None:
    """Give back one node of a job that goes on without it."""
    cores = take_back(row, now, free, rows, times)
    units = rows[COUNT, row] if exclusive else cores
    rows[RELEASED, row] = 1
    ints[HELD, slot] -= units
    counts[FREE] += units
    counts[HINT] = min(counts[HINT], rows[NODE, row])


@kernel
def return_node(
    slot: int,
    node: int,
    now: float,
    ints: Ints,
    counts: Ints,
    free: Ints,
    rows: Ints,
    times: Floats,
) -> int:
    """Give a free node back to a job that had released it; gives the new occupancy row."""
    row = counts[USED_ROWS]
    write_row(row, ints[NUMBER, slot], node, free[node], now, rows, times)
    counts[USED_ROWS] = row + 1
    free[node] = 0
    counts[FREE] -= 1
    ints[HELD, slot] += 1
    return int(row)


@kernel
def _begin_job(
    slot: int,
    now: float,
    exclusive: bool,
    merge: bool,
    floats: Floats,
    ints: Ints,
    running: Ints,
    counts: Ints,
    free: Ints,
    cores: Ints,
    rows: Ints,
    times: Floats,
) -> None:
    """Start a job that fits."""
    first = counts[USED_ROWS]
    row, taken, hint = first_fit(
        ints[NUMBER, slot],
        ints[UNITS, slot],
        exclusive,
        merge,
        now,
        first,
        counts[HINT],
        free,
        cores,
        rows,
        times,
    )
    counts[HINT] = hint
    _note_start(slot, row, taken, now, floats, ints, running, counts)


@kernel
def _note_start(
    slot: int, row: int, taken: int, now: float, floats: Floats, ints: Ints, running: Ints, counts: Ints
) -> None:
    """Count a job whose occupancy rows up to ``row`` have been written as running."""
    units = ints[UNITS, slot]
    first = counts[USED_ROWS]
    counts[USED_ROWS] = row
    counts[FREE] -= units
    ints[HELD, slot] = units
    ints[CORES, slot] = taken
    ints[FIRST_ROW, slot], ints[ROWS, slot] = first, row - first
    floats[START, slot] = now
    floats[EXPECTED, slot] = now + floats[ESTIMATE, slot]
    add_running(slot, running, counts[RUNNING], ints, floats)
    counts[RUNNING] += 1


@kernel
def reserve(
    need: int, now: float, floats: Floats, ints: Ints, running: Ints, counts: Ints
) -> tuple[float, int]:
    """Find when enough units are expected to be free, and how many are left over then.

    Units are counted as each job still holds them, so nodes that a job has released early are not
    expected a second time. A job that outlived its estimate is expected at ``now + 1 s``.

    Parameters
    ----------
    need
        Units that the job with the reservation asks for; more than are free now.
    now
        Current time in seconds.
    floats, ints, running, counts
        State of the batch level.

    Returns
    -------
    time, extra
        The reservation's time, and the units free at that time beyond ``need``; infinity and none where
        nodes are out of use and there will not be enough.
    """
    n = counts[RUNNING]
    late = first_after(now, running, n, floats)
    overdue = 0
    for k in range(late):
        overdue += ints[HELD, running[k]]
    free, k, time = counts[FREE], late, now
    while free < need and time < np.inf:
        upcoming = floats[EXPECTED, running[k]] if k < n else np.inf
        time = min(upcoming, now + OVERDUE_GRACE) if overdue > 0 else upcoming
        if overdue > 0 and time == now + OVERDUE_GRACE:
            free += overdue
            overdue = 0
        while k < n and floats[EXPECTED, running[k]] <= time:
            free += ints[HELD, running[k]]
            k += 1
    return time, max(free - need, 0)


@kernel
def enter_queue(
    now: float,
    policy: int,
    deadline_factor: float,
    first: int,
    last: int,
    arrivals: Ints,
    floats: Floats,
    ints: Ints,
    queue: Ints,
    counts: Ints,
) -> None:
    """Put the jobs ``arrivals[first:last]`` into the queue."""
    for k in range(first, last):
        enqueue(arrivals[k], counts[QUEUED], policy, deadline_factor, now, queue, ints, floats)
        counts[QUEUED] += 1


@kernel
def _start_in_order(
    n_started: int,
    now: float,
    exclusive: bool,
    merge: bool,
    floats: Floats,
    ints: Ints,
    queue: Ints,
    running: Ints,
    counts: Ints,
    free: Ints,
    cores: Ints,
    rows: Ints,
    times: Floats,
    started: Ints,
) -> int:
    """Start jobs from the queue's head up to the first that does not fit; give the new count of starts."""
    n, head = counts[QUEUED], 0
    while head < n and ints[UNITS, queue[head]] <= counts[FREE]:
        slot = queue[head]
        _begin_job(slot, now, exclusive, merge, floats, ints, running, counts, free, cores, rows, times)
        started[n_started + head] = slot
        head += 1
    if head > 0:
        for k in range(head, n):
            queue[k - head] = queue[k]
        counts[QUEUED] = n - head
    return n_started + head


@kernel
def _shortest(
    room: int,
    now: float,
    easy: bool,
    floats: Floats,
    ints: Ints,
    queue: Ints,
    running: Ints,
    counts: Ints,
) -> int:
    """Find the place in the queue of the shortest job that may start on ``room`` released units; -1: none."""
    head = queue[0]
    shadow, extra = now, counts[FREE] - ints[UNITS, head]
    if extra < 0:
        shadow, extra = reserve(ints[UNITS, head], now, floats, ints, running, counts)
    best = -1
    for k in range(counts[QUEUED]):
        slot = queue[k]
        units = ints[UNITS, slot]
        harmless = k == 0 or not easy or now + floats[ESTIMATE, slot] <= shadow or units <= extra
        if units > min(room, counts[FREE]) or not harmless:
            continue
        if (
            best < 0
            or floats[ESTIMATE, slot] < floats[ESTIMATE, queue[best]]
            or (
                floats[ESTIMATE, slot] == floats[ESTIMATE, queue[best]]
                and ints[NUMBER, slot] < ints[NUMBER, queue[best]]
            )
        ):
            best = k
    return best


@kernel
def _begin_on_released(
    slot: int,
    now: float,
    exclusive: bool,
    merge: bool,
    released: Ints,
    floats: Floats,
    ints: Ints,
    running: Ints,
    counts: Ints,
    free: Ints,
    cores: Ints,
    rows: Ints,
    times: Floats,
) -> None:
    """Start a job on the first of the released cores."""
    first = counts[USED_ROWS]
    row, taken, _ = first_fit(
        ints[NUMBER, slot], ints[UNITS, slot], exclusive, merge, now, first, 0, released, cores, rows, times
    )
    for k in range(first, row):
        for node in range(rows[NODE, k], rows[NODE, k] + rows[COUNT, k]):
            free[node] -= rows[NODE_CORES, k]
    _note_start(slot, row, taken, now, floats, ints, running, counts)


@kernel
def _start_short_jobs(
    now: float,
    easy: bool,
    exclusive: bool,
    merge: bool,
    released: Ints,
    floats: Floats,
    ints: Ints,
    queue: Ints,
    running: Ints,
    counts: Ints,
    free: Ints,
    cores: Ints,
    rows: Ints,
    times: Floats,
    started: Ints,
) -> int:
    """Start the shortest jobs that fit on what was released since the last pass; give how many."""
    np.minimum(released, free, released)  # what failed in the meantime is gone
    room = 0
    for node in range(len(released)):
        room += released[node] if not exclusive else int(released[node] > 0)
    n_started = 0
    while room > 0 and counts[QUEUED] > 0:
        k = _shortest(room, now, easy, floats, ints, queue, running, counts)
        if k < 0:
            break
        slot = queue[k]
        for j in range(k + 1, counts[QUEUED]):
            queue[j - 1] = queue[j]
        counts[QUEUED] -= 1
        room -= ints[UNITS, slot]
        _begin_on_released(
            slot, now, exclusive, merge, released, floats, ints, running, counts, free, cores, rows, times
        )
        ints[BACKFILLED, slot] = 1 if k > 0 else 0
        started[n_started] = slot
        n_started += 1
    return n_started


@kernel
def _backfill(
    n_started: int,
    now: float,
    exclusive: bool,
    merge: bool,
    floats: Floats,
    ints: Ints,
    queue: Ints,
    running: Ints,
    counts: Ints,
    free: Ints,
    cores: Ints,
    rows: Ints,
    times: Floats,
    started: Ints,
) -> int:
    """Start jobs behind the head that do not delay its reservation; give the new count of starts."""
    shadow, extra = reserve(ints[UNITS, queue[0]], now, floats, ints, running, counts)
    n, kept, k = counts[QUEUED], 1, 1
    while k < n and counts[FREE] > 0:
        slot = queue[k]
        units = ints[UNITS, slot]
        in_time = now + floats[ESTIMATE, slot] <= shadow
        if units <= counts[FREE] and (in_time or units <= extra):
            if not in_time:
                extra -= units
            _begin_job(slot, now, exclusive, merge, floats, ints, running, counts, free, cores, rows, times)
            ints[BACKFILLED, slot] = 1
            counts[BACKFILLS] += 1
            started[n_started] = slot
            n_started += 1
        else:
            queue[kept] = slot
            kept += 1
        k += 1
    if kept < k:
        for j in range(k, n):
            queue[kept + j - k] = queue[j]
        counts[QUEUED] = n - (k - kept)
    return n_started


@kernel
def instant(
    now: float,
    policy: int,
    deadline_factor: float,
    easy: bool,
    exclusive: bool,
    merge: bool,
    released: Ints,
    n_ended: int,
    ended: Ints,
    first_arrival: int,
    last_arrival: int,
    arrivals: Ints,
    floats: Floats,
    ints: Ints,
    queue: Ints,
    spare: Ints,
    running: Ints,
    counts: Ints,
    free: Ints,
    cores: Ints,
    rows: Ints,
    times: Floats,
    started: Ints,
) -> int:
    """Handle everything that happens to the batch level at one time, then make a pass.

    Parameters
    ----------
    now
        Current time in seconds.
    policy, deadline_factor, easy, exclusive, merge
        The dispatcher: policy code, EDF's factor, EASY backfilling or none, whole nodes or cores,
        and whether occupancy rows of neighbouring nodes are merged.
    released
        Cores of each node released since the last pass, which go to short jobs first; empty where there are
        none or they are like any others.
    n_ended, ended
        Slots of the jobs that end now.
    first_arrival, last_arrival, arrivals
        Slots of the jobs submitted now, ``arrivals[first_arrival:last_arrival]``.
    floats, ints, queue, spare, running, counts, free, cores, rows, times
        State of the batch level; changed in place.
    started
        Receives the slots of the jobs that start, in order.

    Returns
    -------
    int
        How many jobs start.
    """
    for k in range(n_ended):
        end_job(ended[k], now, floats, ints, running, counts, free, rows, times)
    enter_queue(
        now, policy, deadline_factor, first_arrival, last_arrival, arrivals, floats, ints, queue, counts
    )
    if counts[QUEUED] == 0 or counts[FREE] == 0:
        return 0
    if is_live(policy):
        order_queue(counts[QUEUED], policy, deadline_factor, now, queue, spare, ints, floats)
    n_started = 0
    if len(released) > 0:
        n_started = _start_short_jobs(
            now,
            easy,
            exclusive,
            merge,
            released,
            floats,
            ints,
            queue,
            running,
            counts,
            free,
            cores,
            rows,
            times,
            started,
        )
    n_started = _start_in_order(
        n_started,
        now,
        exclusive,
        merge,
        floats,
        ints,
        queue,
        running,
        counts,
        free,
        cores,
        rows,
        times,
        started,
    )
    if easy and counts[QUEUED] > 1 and counts[FREE] > 0:
        n_started = _backfill(
            n_started,
            now,
            exclusive,
            merge,
            floats,
            ints,
            queue,
            running,
            counts,
            free,
            cores,
            rows,
            times,
            started,
        )
    return n_started
