"""The ends and releases to come of running jobs, in a heap."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from mlsim._jit import kernel, leaf_kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import Columns, FloatColumn, IntColumn, by_address, columns_at
from mlsim.batch.columns.occupancy import NODE
from mlsim.batch.columns.running_jobs import leave_time
from mlsim.batch.room.pool import Pool
from mlsim.batch.room.room import release_row
from mlsim.record import JobState

# Places in the array of progress: the ends to come, the next sequence number, the next arrival, whether a
# pass is owed at the current time, passes, finished jobs, the next withdrawal, and jobs to be launched.
ENDS, SEQUENCE, NEXT_ARRIVAL, OWED, PASSES, FINISHED, NEXT_WITHDRAWAL, LAUNCHES = range(8)
N_PROGRESS: Final = 8


class Events(NamedTuple):
    """The events to come; all arrays but ``clock`` are of int64."""

    arrivals: Ints  # slots of the next jobs by (submit time, job id)
    clock: Floats  # float64[1]: the current time [s]
    progress: Ints  # int64[N_PROGRESS]
    ends: Ints  # heap of running jobs by (end or next release, `order` of start)
    order: Ints
    finished: Ints  # receives the slots of ended jobs
    withdrawals: Ints  # slots in order of withdrawal time

    @classmethod
    def of(cls, arrivals: Ints, withdrawals: Ints, capacity: int) -> Events:
        """Return events at time 0, for so many jobs; each ends twice at most."""
        ends, order, finished = (np.zeros(n, np.int64) for n in (capacity, capacity, 2 * capacity))
        return cls(arrivals, np.zeros(1), np.zeros(N_PROGRESS, np.int64), ends, order, finished, withdrawals)


class Releasing(NamedTuple):
    """Nodes that running jobs will release, by slot; empty where jobs end after their run times.

    Until its last release, the planned end of a job is the time of its next one.
    """

    first: Ints  # place of its next release in the last two columns
    last: Ints  # one past the place of its last release
    leaves: Floats  # when it ends [s]
    row_of: Ints  # receives the occupancy row of each node of the machine, for one job at a time
    time: Floats  # of each release: when [s], and the occupancy row of its node
    row: Ints


_NONE = np.empty(0, np.int64)
NO_RELEASES = Releasing(_NONE, _NONE, np.empty(0), _NONE, np.empty(0), _NONE)


class Planning(NamedTuple):
    """Columns of :class:`Events` and :class:`Releasing` that change when a job is planned."""

    progress: IntColumn
    ends: IntColumn
    order: IntColumn
    first: IntColumn
    last: IntColumn
    leaves: FloatColumn
    row_of: IntColumn
    time: FloatColumn
    row: IntColumn


planning_at = by_address(Planning)


_KILLED = int(JobState.KILLED)


@leaf_kernel
def _is_before(a: int, b: int, floats: Floats, order: Ints) -> bool:
    if floats[at.PLANNED, a] != floats[at.PLANNED, b]:
        return bool(floats[at.PLANNED, a] < floats[at.PLANNED, b])
    return bool(order[a] < order[b])


@leaf_kernel
def _push(slot: int, n: int, ends: Ints, order: Ints, floats: Floats) -> None:
    """Insert a job into the heap of the ``n`` pending ends."""
    place = n
    while place > 0 and _is_before(slot, ends[(place - 1) // 2], floats, order):
        ends[place] = ends[(place - 1) // 2]
        place = (place - 1) // 2
    ends[place] = slot


@leaf_kernel
def pop_end(n: int, ends: Ints, order: Ints, floats: Floats) -> int:
    """Remove and return the first of the ``n`` pending ends of the heap."""
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


@leaf_kernel
def _next_of(slot: int, releasing: Releasing) -> float:
    """Return when a running job releases its next node, or ends [s]."""
    place = releasing.first[slot]
    return float(releasing.time[place] if place < releasing.last[slot] else releasing.leaves[slot])


@leaf_kernel
def pop_ends(
    now: float, progress: Ints, ends: Ints, order: Ints, releasing: Releasing, columns: Columns, pool: Pool
) -> int:
    """Pop all jobs that end now from the heap, to the column of ended jobs; return their number.

    Nodes that jobs release now are freed at once.
    """
    n_ended = 0
    while progress[ENDS] > 0 and columns.floats[at.PLANNED, ends[0]] == now:
        slot = pop_end(progress[ENDS], ends, order, columns.floats)
        if len(releasing.first) > 0 and releasing.first[slot] < releasing.last[slot]:
            release_row(slot, releasing.row[releasing.first[slot]], now, columns, pool)
            releasing.first[slot] += 1
            columns.floats[at.PLANNED, slot] = _next_of(slot, releasing)
            _push(slot, progress[ENDS] - 1, ends, order, columns.floats)
            continue
        columns.ended[n_ended] = slot
        progress[ENDS] -= 1
        n_ended += 1
    return n_ended


@leaf_kernel
def when_it_leaves(slot: int, end: float, columns: Columns) -> float:
    """Return when a job leaves that would end at ``end`` [s]; note whether it is killed then."""
    start, walltime = columns.floats[at.START, slot], columns.floats[at.WALLTIME, slot]
    leaves = leave_time(end, start, walltime, columns.rules[at.KILLS] != 0)
    if leaves < end:
        columns.ints[at.STATE, slot] = _KILLED
    return float(leaves)


@leaf_kernel
def expect(slot: int, then: float, progress: Ints, ends: Ints, order: Ints, columns: Columns) -> None:
    """Add a job that has started to the heap; ``then`` [s] it ends or releases its first node."""
    columns.floats[at.PLANNED, slot] = then
    order[slot] = progress[SEQUENCE]
    progress[SEQUENCE] += 1
    _push(slot, progress[ENDS], ends, order, columns.floats)
    progress[ENDS] += 1


@leaf_kernel
def plan_ends(n_started: int, now: float, progress: Ints, ends: Ints, order: Ints, columns: Columns) -> None:
    """Store when the jobs that have started will end, and how."""
    for k in range(n_started):
        slot = columns.started[k]
        leaves = when_it_leaves(slot, now + columns.floats[at.RUN, slot], columns)
        expect(slot, leaves, progress, ends, order, columns)


@kernel
def plan_releases(
    slot: int,
    end: float,
    latency: float,
    sent: Floats,
    node: Ints,
    place: int,
    planning_address: int,
    columns_address: int,
) -> int:
    """Plan the end of a job that has started, and its releases of nodes from ``place`` on.

    ``sent`` [s], rising, are its messages about idle nodes, which take ``latency`` [s]. The last node stays
    with the job, so that it is never without one, and no node is released at or after its end. Return one
    past the place of its last release.
    """
    columns, plan = columns_at(columns_address), planning_at(planning_address)
    leaves = when_it_leaves(slot, end, columns)
    first = columns.ints[at.FIRST_ROW, slot]
    if len(sent) > 1:
        for row in range(first, first + columns.ints[at.ROWS, slot]):
            plan.row_of[columns.rows[NODE, row]] = row
    last = place
    for k in range(len(sent) - 1):
        if sent[k] + latency >= leaves:
            break
        plan.time[last] = sent[k] + latency
        plan.row[last] = plan.row_of[node[k]]
        last += 1
    plan.first[slot], plan.last[slot], plan.leaves[slot] = place, last, leaves
    then = plan.time[place] if last > place else leaves
    expect(slot, then, plan.progress, plan.ends, plan.order, columns)
    return last
