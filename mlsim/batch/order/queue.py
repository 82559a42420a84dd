"""The queue: waiting jobs in the order of their keys, and how it is kept that way."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import inner_kernel, leaf_kernel
from mlsim.batch.columns.columns import LEAST_UNITS, ORDER, POLICY, QUEUED, Columns
from mlsim.batch.columns.copying import copy_ints
from mlsim.batch.columns.table import ACCOUNT, ESTIMATE, KEY, NUMBER, PROCESSORS, SUBMIT, UNITS, WALK_KEY
from mlsim.batch.order.fairshare import usage_at
from mlsim.batch.order.policies import FAIRSHARE, FCFS, HALF_LIFE, THRESHOLD, is_live, is_starved, policy_key

__all__ = ["enqueue", "order_queue", "order_walk", "sort_slots"]


_MOVES_PER_JOB = 8
"""Insertion sort is abandoned after so many moves a job; an order that has hardly changed needs fewer."""


@leaf_kernel
def key_of(slot: int, policy: int, now: float, columns: Columns) -> float:
    """Return the key of the job in a slot under a policy; minus infinity past the threshold."""
    r = columns.floats[SUBMIT, slot]
    if is_starved(policy, now, r, columns.parameters):
        return -np.inf
    used = 0.0
    if policy == FAIRSHARE:
        used = usage_at(columns.ints[ACCOUNT, slot], now, columns.parameters[HALF_LIFE], columns.shares)
    q = float(columns.ints[PROCESSORS, slot])
    return policy_key(policy, now, r, columns.floats[ESTIMATE, slot], q, used, columns.parameters)


@inner_kernel
def _goes_before(a: int, b: int, column: int, ints: Ints, floats: Floats) -> bool:
    if floats[column, a] != floats[column, b]:
        return bool(floats[column, a] < floats[column, b])
    return bool(ints[NUMBER, a] < ints[NUMBER, b])


@leaf_kernel
def _insert(slot: int, n: int, columns: Columns) -> None:
    """Put a job in its place among the ``n`` first of the queue."""
    low, high = 0, n
    if n > 0 and _goes_before(columns.queue[n - 1], slot, KEY, columns.ints, columns.floats):
        low = n  # the common case under FCFS: it goes to the end
    while low < high:
        middle = (low + high) // 2
        if _goes_before(columns.queue[middle], slot, KEY, columns.ints, columns.floats):
            low = middle + 1
        else:
            high = middle
    for k in range(n, low, -1):
        columns.queue[k] = columns.queue[k - 1]
    columns.queue[low] = slot


@leaf_kernel
def enqueue(slot: int, now: float, columns: Columns) -> None:
    """Put a job into the queue."""
    columns.floats[KEY, slot] = key_of(slot, columns.rules[POLICY], now, columns)
    _insert(slot, columns.counts[QUEUED], columns)
    columns.counts[QUEUED] += 1
    columns.counts[LEAST_UNITS] = min(columns.counts[LEAST_UNITS], columns.ints[UNITS, slot])


@leaf_kernel
def order_queue(now: float, columns: Columns) -> None:
    """Bring the queue into the order of now: live keys anew, jobs past the threshold to the head."""
    n, policy = columns.counts[QUEUED], columns.rules[POLICY]
    if is_live(policy):
        _order_anew(n, policy, now, columns.queue, columns.spare, KEY, columns)
    elif policy != FCFS and columns.parameters[THRESHOLD] < np.inf:
        for k in range(n):
            slot = columns.queue[k]
            if columns.floats[KEY, slot] > -np.inf and is_starved(
                policy, now, columns.floats[SUBMIT, slot], columns.parameters
            ):
                columns.floats[KEY, slot] = -np.inf
                _insert(slot, k, columns)


@inner_kernel
def order_walk(n: int, now: float, slots: Ints, scratch: Ints, columns: Columns) -> None:
    """Sort ``n`` waiting jobs by the order of backfilling."""
    _order_anew(n, columns.rules[ORDER], now, slots, scratch, WALK_KEY, columns)


@inner_kernel
def _order_anew(
    n: int, policy: int, now: float, slots: Ints, scratch: Ints, column: int, columns: Columns
) -> None:
    """Compute the keys of ``n`` waiting jobs and sort by them, in one go while their order hardly changes.

    A key above the one before it, as nearly all are, needs no other look than that.
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


@inner_kernel
def _move_up(k: int, slots: Ints, column: int, ints: Ints, floats: Floats) -> int:
    """Move the k-th slot before all that it goes before, of those before it; return its place."""
    slot, place = slots[k], k
    while place > 0 and _goes_before(slot, slots[place - 1], column, ints, floats):
        slots[place] = slots[place - 1]
        place -= 1
    slots[place] = slot
    return int(place)


@inner_kernel
def sort_slots(n: int, slots: Ints, scratch: Ints, column: int, ints: Ints, floats: Floats) -> None:
    """Sort by insertion while that is quick, as it is from one pass to the next; else by merging."""
    moves = 0
    for k in range(1, n):
        moves += k - _move_up(k, slots, column, ints, floats)
        if moves > _MOVES_PER_JOB * n:
            _merge_sort(n, slots, scratch, column, ints, floats)
            return


@inner_kernel
def _merge_sort(n: int, slots: Ints, scratch: Ints, column: int, ints: Ints, floats: Floats) -> None:
    """Sort by merging, bottom up."""
    width = 1
    while width < n:
        for left in range(0, n, 2 * width):
            middle, right = min(left + width, n), min(left + 2 * width, n)
            a, b = left, middle
            for k in range(left, right):
                if b >= right or (a < middle and not _goes_before(slots[b], slots[a], column, ints, floats)):
                    scratch[k] = slots[a]
                    a += 1
                else:
                    scratch[k] = slots[b]
                    b += 1
        copy_ints(slots, scratch, n)
        width *= 2
