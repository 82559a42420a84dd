"""Gaps where it matters which nodes are free.

A job of which no earlier place was found gets one only where something became free that this place has: it
overlaps a *gap* since then, a range of the profile in which nodes became free. What is taken meanwhile only
reduces places. So a job is tried again when there is a gap before its reservation ends, from the starts on
with which it would overlap a gap. For each job the begin of its first gap and the end of its last one are
noted.

In every segment up to its reservation an earlier place needs as much as the job asks for of what
``profile_free`` counts. So it lies in a run of such segments that the gap overlaps, which is as long as the
job lasts or reaches its reservation; the length of runs around a gap is determined once for each class of
size. From the reservation on, the job's own units come back, which may be on other nodes; so a gap that
overlaps the reservation counts as well, if enough is free right before it. Most of the remaining tries end
without examining any node.
"""

import numpy as np

from mlsim._jit import apart_kernel, leaf_kernel
from mlsim.batch.allocators.node_arrays import Nodes, clear_placed
from mlsim.batch.backfill.free_profile import END, earliest_in, reserve_from, stop_using
from mlsim.batch.backfill.gaps import length_of_run
from mlsim.batch.backfill.recheck import ANYWHERE, NONE, begin_recheck, make_due, next_due, recheck_all
from mlsim.batch.backfill.reservations import least_of, size_of
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import Columns, is_profile_kept
from mlsim.batch.columns.running_jobs import reserved_time, stay_end
from mlsim.batch.matrix import node_profile

# Rows of the reach of gaps, of which there is one at a time here: for each class of size, how long (s) runs
# around the gap are at most, when the last one ends, and for how long jobs of the class ask at most.
_REACH, _UNTIL, _LONGEST = range(3)


@apart_kernel
def compress_on_nodes(columns: Columns, nodes: Nodes) -> None:
    """Move each reservation to its earliest start, given all others, until nothing moves or for one round."""
    _begin(columns, nodes)
    moved = columns.rules[at.AT_ENDS] != at.RENEWS
    for k in range(0 if moved else columns.counts[at.QUEUED]):
        _place_anew(columns.queue[k], columns, nodes)
    while moved:
        moved = False
        if not node_profile.fits_less_in_less(nodes):
            recheck_all(columns)
        k = next_due(0, columns)
        while k != NONE:
            moved = _move(columns.queue[k], columns, nodes) or moved
            k = next_due(k + 1, columns)
        moved = moved and not columns.rules[at.ONE_ROUND]
    for k in range(columns.counts[at.QUEUED] if columns.rules[at.ONE_ROUND] else 0):
        _forget_gaps(columns.queue[k], columns)


@apart_kernel
def _begin(columns: Columns, nodes: Nodes) -> None:
    """Recheck the jobs that may move because of early releases, or all."""
    begin_recheck(columns)
    columns.gap_reach[_LONGEST] = -1.0
    least, greatest = columns.gap_reach.shape[1], 0
    for k in range(columns.counts[at.QUEUED]):
        slot = columns.queue[k]
        units = node_profile.requested(slot, columns, nodes)
        size, duration = size_of(units), reserved_time(slot, columns)
        columns.ints[at.ASKED, slot], columns.ints[at.SIZE, slot] = units, size
        columns.gap_reach[_LONGEST, size] = max(columns.gap_reach[_LONGEST, size], duration)
        least, greatest = min(least, size), max(greatest, size)
        columns.ints[at.LOOK_SEGMENT, slot], columns.floats[at.LOOK_UNTIL, slot] = END, -np.inf
    columns.counts[at.LEAST_SIZE], columns.counts[at.GREATEST_SIZE] = least, greatest
    if columns.counts[at.UNSEEN]:
        recheck_all(columns)
    if is_profile_kept(columns):
        first, last = columns.counts[at.FIRST], columns.counts[at.FIRST]
        for k in range(columns.counts[at.EARLY]):
            if columns.profile_times[columns.back_until[k]] > columns.profile_times[last]:
                last = columns.back_until[k]
        _note_gap(NONE, first, last, columns)
        for k in range(columns.counts[at.EARLY]):
            if columns.profile_times[columns.back_until[k]] > columns.profile_times[first]:
                stop_using(columns.back_until[k], columns)
    columns.counts[at.UNSEEN] = columns.rules[at.ONE_ROUND]


@leaf_kernel
def _forget_gaps(slot: int, columns: Columns) -> None:
    """Clear the gaps of a job."""
    if columns.ints[at.LOOK_SEGMENT, slot] != END:
        stop_using(columns.ints[at.LOOK_SEGMENT, slot], columns)
    columns.ints[at.LOOK_SEGMENT, slot], columns.floats[at.LOOK_UNTIL, slot] = END, -np.inf


@leaf_kernel
def _look_from(slot: int, first: int, columns: Columns) -> None:
    """Recheck a job from a gap on that begins with a segment."""
    old = columns.ints[at.LOOK_SEGMENT, slot]
    if old != END:
        if columns.profile_times[old] <= columns.profile_times[first]:
            return
        stop_using(old, columns)
    columns.profile_uses[first] += 1
    columns.ints[at.LOOK_SEGMENT, slot] = first


@apart_kernel
def _note_gap(of: int, first: int, last: int, columns: Columns) -> None:
    """Recheck the jobs, except one, that may move as something became free between two segments."""
    begin, end = columns.profile_times[first], columns.profile_times[last]
    most, segment = -1, first
    while segment != last:
        most = max(most, columns.profile_free[segment])
        segment = columns.profile_next[segment]
    _measure_runs(first, last, most, columns)
    for k in range(columns.counts[at.QUEUED] if begin < end else 0):
        slot = columns.queue[k]
        reserved, size = columns.floats[at.RESERVED, slot], columns.ints[at.SIZE, slot]
        may_move = (
            reserved > begin
            and columns.ints[at.ASKED, slot] <= most
            and columns.ints[at.BEGIN_SEGMENT, slot] != END
            and (
                reserved <= columns.gap_reach[_UNTIL, size]
                or reserved_time(slot, columns) <= columns.gap_reach[_REACH, size]
            )
        )
        if not may_move and reserved < end:
            may_move = _is_overlapped(slot, begin, columns)
        if may_move and slot != of:
            _look_from(slot, first, columns)
            columns.floats[at.LOOK_UNTIL, slot] = max(columns.floats[at.LOOK_UNTIL, slot], end)
            make_due(slot, columns)


@apart_kernel
def _measure_runs(first: int, last: int, most: int, columns: Columns) -> None:
    """Measure the runs around a gap in which jobs of each class of size fit, by what is counted."""
    for size in range(columns.counts[at.LEAST_SIZE], columns.counts[at.GREATEST_SIZE] + 1):
        columns.gap_reach[_REACH, size], columns.gap_reach[_UNTIL, size] = -1.0, -np.inf
        if size <= size_of(most) and columns.gap_reach[_LONGEST, size] >= 0:
            _measure_runs_of(size, first, last, columns)


@leaf_kernel
def _measure_runs_of(size: int, first: int, last: int, columns: Columns) -> None:
    """Measure the runs in which jobs of one class of size fit, no further than its longest job lasts."""
    units, longest = least_of(size), columns.gap_reach[_LONGEST, size]
    segment, end = first, columns.profile_times[last]
    while (
        columns.profile_free[columns.profile_before[segment]] >= units
        and columns.profile_times[first] - columns.profile_times[segment] <= longest
    ):
        segment = columns.profile_before[segment]
    run, reach, until = END, -1.0, -np.inf
    while segment != END and reach <= longest and (run != END or columns.profile_times[segment] < end):
        if columns.profile_free[segment] < units:
            run = END
        else:
            run = segment if run == END else run
            until = columns.profile_times[columns.profile_next[segment]]
            reach = max(reach, length_of_run(run, columns.profile_next[segment], columns))
        segment = columns.profile_next[segment]
    columns.gap_reach[_REACH, size], columns.gap_reach[_UNTIL, size] = reach, until


@leaf_kernel
def _is_overlapped(slot: int, begin: float, columns: Columns) -> bool:
    """Whether a reservation ends after a gap has begun, with enough free right before the reservation."""
    old = columns.ints[at.BEGIN_SEGMENT, slot]
    return bool(
        old != END
        and columns.profile_times[columns.ints[at.END_SEGMENT, slot]] > begin
        and columns.ints[at.ASKED, slot] <= columns.profile_free[columns.profile_before[old]]
    )


@leaf_kernel
def _first_start(slot: int, segment: int, until: float, columns: Columns) -> int:
    """Return the first segment, before ``until``, at which a job may begin, by what is counted, or END.

    The job would end after the given segment begins.
    """
    units, duration = columns.ints[at.ASKED, slot], reserved_time(slot, columns)
    since, own = columns.profile_times[segment], columns.profile_times[columns.ints[at.BEGIN_SEGMENT, slot]]
    before = columns.profile_before[segment]
    while before != END and stay_end(columns.profile_times[before], duration) > since:
        segment = before
        before = columns.profile_before[segment]
    found, end = END, np.inf
    while columns.profile_times[segment] < own:
        if columns.profile_free[segment] < units:
            found = END
        elif found == END:
            found, end = segment, stay_end(columns.profile_times[segment], duration)
        segment = columns.profile_next[segment]
        if found != END and columns.profile_times[segment] >= end:
            break
        if found == END and columns.profile_times[segment] >= until:
            return END
    return int(found)


@leaf_kernel
def _free_reserved(slot: int, first: int, last: int, columns: Columns, nodes: Nodes) -> None:
    """Free what a job has reserved in these segments, which remain."""
    node_profile.load_plan(slot, nodes)
    node_profile.change_segments(slot, first, last, 1, columns, nodes)
    clear_placed(nodes)


@apart_kernel
def _place_anew(slot: int, columns: Columns, nodes: Nodes) -> None:
    """Reserve the earliest place of a job given all others, on the nodes that the allocator prefers."""
    old_first, old_last = columns.ints[at.BEGIN_SEGMENT, slot], columns.ints[at.END_SEGMENT, slot]
    if old_first != END:
        _free_reserved(slot, old_first, old_last, columns, nodes)
    columns.ints[at.BEGIN_SEGMENT, slot], columns.floats[at.RESERVED, slot] = END, np.inf
    first = earliest_in(slot, columns.counts[at.FIRST], np.inf, columns, nodes)
    if first != END:
        reserve_from(slot, first, columns, nodes)
        node_profile.store_plan(slot, nodes)
    if old_first != END:
        stop_using(old_first, columns)
        stop_using(old_last, columns)


@apart_kernel
def _move(slot: int, columns: Columns, nodes: Nodes) -> bool:
    """Move a reservation to its earliest start, if gaps may have made an earlier one; whether it moved."""
    first, until = columns.ints[at.LOOK_SEGMENT, slot], columns.floats[at.LOOK_UNTIL, slot]
    if columns.ints[at.DUE, slot] == ANYWHERE:
        first, until = columns.counts[at.FIRST], np.inf
        columns.ints[at.DUE, slot] = NONE
    old_first, old_last = columns.ints[at.BEGIN_SEGMENT, slot], columns.ints[at.END_SEGMENT, slot]
    if old_first == END:
        return False
    until = min(until, columns.profile_times[old_first])
    first = _first_start(slot, first, until, columns)
    _forget_gaps(slot, columns)
    if first == END:
        return False
    _free_reserved(slot, old_first, old_last, columns, nodes)
    first = earliest_in(slot, first, until, columns, nodes)
    if first == END:
        node_profile.load_plan(slot, nodes)
        node_profile.change_segments(slot, old_first, old_last, -1, columns, nodes)
        clear_placed(nodes)
        return False
    stays = node_profile.is_stored_plan(slot, nodes)
    node_profile.store_plan(slot, nodes)
    node_profile.load_plan(slot, nodes)
    reserve_from(slot, first, columns, nodes)
    clear_placed(nodes)
    left, last = old_first, columns.ints[at.END_SEGMENT, slot]
    if stays and columns.profile_times[last] > columns.profile_times[old_first]:
        left = last  # until then it has the same nodes
    _note_gap(slot, left, old_last, columns)
    stop_using(old_first, columns)
    stop_using(old_last, columns)
    return True
