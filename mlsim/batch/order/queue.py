"""The queue in the order of its keys, and jobs withdrawn from it."""

import numpy as np

from mlsim._jit import apart_kernel, kernel, leaf_kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import Columns, columns_at, copy_ints, forget_profile, goes_before
from mlsim.batch.order import queue_blocks as blocks
from mlsim.batch.order.policies import FAIRSHARE, FCFS, class_key, is_live, is_starved, policy_key, usage_at
from mlsim.batch.order.queue_blocks import BLOCK, GONE
from mlsim.record import JobState
from mlsim.scenario.policy_words import HALF_LIFE, THRESHOLD

_MOVES_PER_JOB = 8
"""Moves per job after which insertion sort is abandoned; an order with few changes needs fewer."""


@leaf_kernel
def key_of(slot: int, policy: int, now: float, columns: Columns) -> float:
    """Return the key of the job in a slot under a policy; minus infinity past the threshold."""
    r = columns.floats[at.SUBMIT, slot]
    classes = columns.rules[at.CLASSES] != 0
    if is_starved(policy, classes, now, r, columns.parameters):
        return -np.inf
    used = 0.0
    if policy == FAIRSHARE:
        used = usage_at(columns.ints[at.ACCOUNT, slot], now, columns.parameters[HALF_LIFE], columns.shares)
    q = float(columns.ints[at.PROCESSORS, slot])
    key = policy_key(policy, now, r, columns.floats[at.ESTIMATE, slot], q, used, columns.parameters)
    return class_key(key, columns.ints[at.LARGE, slot] != 0) if classes else key


@leaf_kernel
def _place_of(slot: int, columns: Columns) -> int:
    """Return the first place from which on every job is behind this one."""
    low, high = columns.counts[at.FRONT], columns.counts[at.PLACES]
    while low < high:
        middle = (low + high) // 2
        place = middle
        while place < high and columns.queue[place] == GONE:
            place += 1
        if place < high and goes_before(columns.queue[place], slot, at.KEY, columns.ints, columns.floats):
            low = place + 1
        else:
            high = middle
    return int(low)


@leaf_kernel
def _put_at(place: int, slot: int, columns: Columns) -> None:
    """Insert a job at an empty place."""
    columns.queue[place] = slot
    blocks.allow_for(slot, place, columns)


@leaf_kernel
def _append(slot: int, columns: Columns) -> None:
    """Append a job to the queue."""
    place = columns.counts[at.PLACES]
    columns.counts[at.PLACES] = place + 1
    if place % BLOCK == 0:
        blocks.begin_block(place, columns)
    _put_at(place, slot, columns)


@leaf_kernel
def insert(slot: int, columns: Columns) -> None:
    """Insert a job into the queue; those behind it move up to the next empty place."""
    while columns.counts[at.PLACES] > 0 and columns.queue[columns.counts[at.PLACES] - 1] == GONE:
        columns.counts[at.PLACES] -= 1
    front, end = min(columns.counts[at.FRONT], columns.counts[at.PLACES]), columns.counts[at.PLACES]
    columns.counts[at.FRONT] = front
    if end == front or goes_before(columns.queue[end - 1], slot, at.KEY, columns.ints, columns.floats):
        _append(slot, columns)  # the common case under FCFS
        return
    place = _place_of(slot, columns)
    if place == front and front > 0:
        columns.counts[at.FRONT] = place = front - 1
    elif place > front and columns.queue[place - 1] == GONE:
        place -= 1
    elif columns.queue[place] != GONE:
        _make_way(place, columns)
    _put_at(place, slot, columns)


@apart_kernel
def _make_way(place: int, columns: Columns) -> None:
    """Move the jobs from a place on up, to the next empty place."""
    hole = place
    while hole < columns.counts[at.PLACES] and columns.queue[hole] != GONE:
        hole += 1
    if hole == columns.counts[at.PLACES]:
        columns.counts[at.PLACES] += 1
        if hole % BLOCK == 0:
            blocks.begin_block(hole, columns)
    while hole > place:
        first = max(place, hole // BLOCK * BLOCK)
        for k in range(hole, first, -1):
            columns.queue[k] = columns.queue[k - 1]
        blocks.loosen(hole, columns)
        hole = first
        if hole > place:
            columns.queue[hole] = columns.queue[hole - 1]
            blocks.allow_for(columns.queue[hole], hole, columns)
            hole -= 1


@leaf_kernel
def _change_places(n: int, columns: Columns) -> None:
    """Update the blocks after ``n`` jobs have changed places."""
    if n <= BLOCK:
        blocks.loosen(0, columns)  # the bounds of the only block hold
    else:
        blocks.forget_blocks(0, columns)


@apart_kernel
def tidy(columns: Columns) -> None:
    """Move every waiting job up to the front, so that the queue has no empty places."""
    if columns.counts[at.PLACES] == columns.counts[at.QUEUED]:
        return
    kept = 0
    for place in range(columns.counts[at.FRONT], columns.counts[at.PLACES]):
        if columns.queue[place] != GONE:
            columns.queue[kept] = columns.queue[place]
            kept += 1
    before = columns.counts[at.PLACES]
    columns.counts[at.FRONT], columns.counts[at.HEAD], columns.counts[at.PLACES] = 0, 0, kept
    _change_places(before, columns)


@leaf_kernel
def _first_of(place: int, other: int, columns: Columns) -> int:
    """Return the first of two places by key; the other one may be empty."""
    if other == GONE:
        return place
    a, b = columns.queue[place], columns.queue[other]
    return place if goes_before(a, b, at.KEY, columns.ints, columns.floats) else other


@leaf_kernel
def _find_first_of(block: int, columns: Columns) -> None:
    """Find the first job of a block by key."""
    first = GONE
    for place in range(block * BLOCK, min((block + 1) * BLOCK, columns.counts[at.PLACES])):
        if columns.queue[place] != GONE:
            first = _first_of(place, first, columns)
    columns.block_first[block] = first


@leaf_kernel
def _skip_empty_places(columns: Columns) -> None:
    """Move the front to the first place that is not empty."""
    front = columns.counts[at.FRONT]
    while front < columns.counts[at.PLACES] and columns.queue[front] == GONE:
        front += 1
    columns.counts[at.FRONT] = front


@leaf_kernel
def leave(place: int, columns: Columns) -> None:
    """Remove the job at a place from the queue."""
    columns.queue[place] = GONE
    columns.counts[at.QUEUED] -= 1
    blocks.loosen(place, columns)
    if columns.counts[at.QUEUED] == 0:
        columns.counts[at.FRONT] = columns.counts[at.HEAD] = columns.counts[at.PLACES] = 0
    _skip_empty_places(columns)
    if columns.counts[at.UNSORTED]:
        _find_first_of(place // BLOCK, columns)
    else:
        columns.counts[at.HEAD] = columns.counts[at.FRONT]


@apart_kernel
def drop_started(columns: Columns) -> None:
    """Remove started jobs from the whole queue, and move the others up."""
    for place in range(columns.counts[at.FRONT], columns.counts[at.PLACES]):
        slot = columns.queue[place]
        if slot != GONE and not np.isnan(columns.floats[at.START, slot]):
            leave(place, columns)
    tidy(columns)


@leaf_kernel
def enqueue(slot: int, now: float, columns: Columns) -> None:
    """Insert a job: in its place, or at the end where keys are computed anew in each pass."""
    if columns.counts[at.PLACES] == len(columns.queue):
        tidy(columns)
    if is_live(columns.rules[at.POLICY]):
        _append(slot, columns)
        columns.counts[at.UNSORTED] = 1
    else:
        columns.floats[at.KEY, slot] = key_of(slot, columns.rules[at.POLICY], now, columns)
        insert(slot, columns)
        columns.counts[at.HEAD] = columns.counts[at.FRONT]
    columns.counts[at.QUEUED] += 1


@leaf_kernel
def order_queue(now: float, whole: bool, columns: Columns) -> None:
    """Update the queue's order: recompute live keys, move jobs past the threshold to the head.

    Unless the ``whole`` queue is needed, jobs with live keys stay where they are, and only the head is found,
    if any job fits.
    """
    policy = columns.rules[at.POLICY]
    if is_live(policy):
        _order_live(now, whole, columns)
        return
    if columns.counts[at.PLACES] > 2 * columns.counts[at.QUEUED] + BLOCK:
        tidy(columns)
    needs_threshold = policy != FCFS or columns.rules[at.CLASSES] != 0
    if needs_threshold and columns.parameters[THRESHOLD] < np.inf:
        _raise_starved(policy, now, columns)


@apart_kernel
def _order_live(now: float, whole: bool, columns: Columns) -> None:
    """Update the order by live keys; a short queue is sorted, which is as fast."""
    places = columns.counts[at.PLACES]
    if not whole and not columns.rules[at.KEEPS]:
        free = columns.counts[at.FREE]
        if blocks.next_fitting(columns.counts[at.FRONT], free, at.MOST_UNITS, now, np.inf, columns) == places:
            return
    if whole or places <= BLOCK:
        _sort_queue(now, columns)
        return
    if places > 2 * columns.counts[at.QUEUED] + BLOCK:
        tidy(columns)
    find_head(now, columns)


@apart_kernel
def _sort_queue(now: float, columns: Columns) -> None:
    """Compute live keys, and sort the queue by them."""
    tidy(columns)
    policy, n = columns.rules[at.POLICY], columns.counts[at.QUEUED]
    _order_anew(n, policy, now, columns.queue, columns.spare, at.KEY, columns)
    _change_places(n, columns)
    columns.counts[at.UNSORTED] = columns.counts[at.HEAD] = 0


@apart_kernel
def _raise_starved(policy: int, now: float, columns: Columns) -> None:
    """Move jobs that have waited for longer than the threshold to the head."""
    classes = columns.rules[at.CLASSES] != 0
    place = columns.counts[at.FRONT]
    while place < columns.counts[at.PLACES]:
        block = place // BLOCK
        after = min((block + 1) * BLOCK, columns.counts[at.PLACES])
        if blocks.knows_all(block, columns) and not is_starved(
            policy, classes, now, columns.block_times[blocks.OLDEST, block], columns.parameters
        ):
            place = after
            continue
        while place < after:
            slot = columns.queue[place]
            if (
                slot != GONE
                and columns.floats[at.KEY, slot] > -np.inf
                and is_starved(policy, classes, now, columns.floats[at.SUBMIT, slot], columns.parameters)
            ):
                columns.floats[at.KEY, slot] = -np.inf
                columns.queue[place] = GONE
                insert(slot, columns)
            place += 1
        if blocks.knows_all(block, columns):
            blocks.measure(block, columns)
    _skip_empty_places(columns)
    columns.counts[at.HEAD] = columns.counts[at.FRONT]


@apart_kernel
def find_head(now: float, columns: Columns) -> None:
    """Compute live keys, and find the head."""
    policy = columns.rules[at.POLICY]
    for block in range(columns.counts[at.FRONT] // BLOCK, (columns.counts[at.PLACES] - 1) // BLOCK + 1):
        first, least = GONE, np.inf
        for place in range(block * BLOCK, min((block + 1) * BLOCK, columns.counts[at.PLACES])):
            slot = columns.queue[place]
            if slot != GONE:
                key = key_of(slot, policy, now, columns)
                columns.floats[at.KEY, slot] = key
                if not key > least:
                    first = _first_of(place, first, columns)
                    least = columns.floats[at.KEY, columns.queue[first]]
        columns.block_first[block] = first
    columns.counts[at.UNSORTED] = 1
    find_next_head(columns)


@apart_kernel
def find_next_head(columns: Columns) -> None:
    """Find the head by the existing keys, among the first jobs of the blocks."""
    head = GONE
    for block in range(columns.counts[at.FRONT] // BLOCK, (columns.counts[at.PLACES] - 1) // BLOCK + 1):
        if columns.block_first[block] != GONE:
            head = _first_of(columns.block_first[block], head, columns)
    columns.counts[at.HEAD] = max(head, 0)


@apart_kernel
def sort_by_keys(columns: Columns) -> None:
    """Sort the queue by the existing keys."""
    tidy(columns)
    sort_slots(columns.counts[at.QUEUED], columns.queue, columns.spare, at.KEY, columns.ints, columns.floats)
    _change_places(columns.counts[at.QUEUED], columns)
    columns.counts[at.UNSORTED] = columns.counts[at.HEAD] = 0


@apart_kernel
def compute_walk_keys(n: int, now: float, slots: Ints, columns: Columns) -> None:
    """Compute the keys of ``n`` waiting jobs by the order of backfilling."""
    for k in range(n):
        columns.floats[at.WALK_KEY, slots[k]] = key_of(slots[k], columns.rules[at.ORDER], now, columns)


@apart_kernel
def order_walk(n: int, now: float, slots: Ints, scratch: Ints, columns: Columns) -> None:
    """Sort ``n`` waiting jobs by the order of backfilling."""
    _order_anew(n, columns.rules[at.ORDER], now, slots, scratch, at.WALK_KEY, columns)


@apart_kernel
def _order_anew(
    n: int, policy: int, now: float, slots: Ints, scratch: Ints, column: int, columns: Columns
) -> None:
    """Compute the keys of ``n`` waiting jobs and sort by them, in one go while their order hardly changes.

    A key above the one before it, as nearly all are, needs no other comparison.
    """
    ints, floats, moves, last = columns.ints, columns.floats, 0, -np.inf
    for k in range(n):
        key = key_of(slots[k], policy, now, columns)
        floats[column, slots[k]] = key
        if key > last:
            last = key
            continue
        place = _move_up(k, slots, column, ints, floats)
        if place == k:
            last = key
        moves += k - place
        if moves > _MOVES_PER_JOB * n:
            for rest in range(k + 1, n):
                floats[column, slots[rest]] = key_of(slots[rest], policy, now, columns)
            _merge_sort(n, slots, scratch, column, ints, floats)
            return


@apart_kernel
def _move_up(k: int, slots: Ints, column: int, ints: Ints, floats: Floats) -> int:
    """Move the k-th slot before all earlier slots that it precedes; return its place."""
    slot, place = slots[k], k
    while place > 0 and goes_before(slot, slots[place - 1], column, ints, floats):
        slots[place] = slots[place - 1]
        place -= 1
    slots[place] = slot
    return int(place)


@apart_kernel
def sort_slots(n: int, slots: Ints, scratch: Ints, column: int, ints: Ints, floats: Floats) -> None:
    """Sort by insertion while that is fast, as it is from one pass to the next; else by merging."""
    moves = 0
    for k in range(1, n):
        moves += k - _move_up(k, slots, column, ints, floats)
        if moves > _MOVES_PER_JOB * n:
            _merge_sort(n, slots, scratch, column, ints, floats)
            return


@apart_kernel
def _merge_sort(n: int, slots: Ints, scratch: Ints, column: int, ints: Ints, floats: Floats) -> None:
    """Sort by merging, bottom up."""
    width = 1
    while width < n:
        for left in range(0, n, 2 * width):
            middle, right = min(left + width, n), min(left + 2 * width, n)
            a, b = left, middle
            for k in range(left, right):
                if b >= right or (a < middle and not goes_before(slots[b], slots[a], column, ints, floats)):
                    scratch[k] = slots[a]
                    a += 1
                else:
                    scratch[k] = slots[b]
                    b += 1
        copy_ints(slots, scratch, n)
        width *= 2


_WITHDRAWN = int(JobState.WITHDRAWN)


@leaf_kernel
def skip_started(first: int, withdrawals: at.IntColumn, columns: Columns) -> int:
    """Return the place of the first withdrawal, from a place on, of a job that has never started."""
    while first < len(withdrawals) and (
        not np.isnan(columns.floats[at.START, withdrawals[first]])
        or columns.floats[at.WITHDRAWAL, withdrawals[first]] == np.inf
    ):
        first += 1
    return first


@leaf_kernel
def next_withdrawal(first: int, withdrawals: at.IntColumn, columns: Columns) -> float:
    """Return when the job at a place is withdrawn [s]; infinity if there is none."""
    return float(columns.floats[at.WITHDRAWAL, withdrawals[first]]) if first < len(withdrawals) else np.inf


@apart_kernel
def withdrawals_in_order(slots: at.IntColumn, floats: at.FloatColumns) -> at.IntColumn:
    """Return the slots of jobs that are withdrawn after too long a wait, in order of that time."""
    coming = slots[floats[at.WITHDRAWAL][slots] < np.inf]
    ordered: at.IntColumn = coming[np.argsort(floats[at.WITHDRAWAL][coming], kind="mergesort")]
    return ordered


@apart_kernel
def withdraw(slot: int, columns: Columns) -> None:
    """Remove a waiting job from the queue for good, with its reservation."""
    place = columns.counts[at.FRONT]
    while place < columns.counts[at.PLACES] and columns.queue[place] != slot:
        place += 1
    if place < columns.counts[at.PLACES]:
        leave(place, columns)
        if columns.counts[at.UNSORTED]:
            find_next_head(columns)
    if columns.floats[at.RESERVED, slot] < np.inf:
        columns.counts[at.EARLY] = 1
        forget_profile(columns)
    columns.floats[at.RESERVED, slot] = np.nan
    columns.ints[at.STATE, slot] = _WITHDRAWN


@kernel
def withdraw_one(slot: int, columns: int) -> None:
    """Call :func:`withdraw` from Python, with the address of the columns."""
    withdraw(slot, columns_at(columns))
