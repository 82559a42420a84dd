"""The queue: waiting jobs in the order of their keys, and how it is kept that way."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import inner_kernel, leaf_kernel
from mlsim.batch.columns.columns import ORDER, POLICY, QUEUED, Columns
from mlsim.batch.columns.copying import copy_ints
from mlsim.batch.columns.table import ACCOUNT, ESTIMATE, KEY, NUMBER, PROCESSORS, SUBMIT, WALK_KEY
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


@leaf_kernel
def order_queue(now: float, columns: Columns) -> None:
    """Bring the queue into the order of now: live keys anew, jobs past the threshold to the head."""
    n, policy = columns.counts[QUEUED], columns.rules[POLICY]
    if is_live(policy):
        for k in range(n):
            columns.floats[KEY, columns.queue[k]] = key_of(columns.queue[k], policy, now, columns)
        sort_slots(n, columns.queue, columns.spare, KEY, columns.ints, columns.floats)
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
    for k in range(n):
        columns.floats[WALK_KEY, slots[k]] = key_of(slots[k], columns.rules[ORDER], now, columns)
    sort_slots(n, slots, scratch, WALK_KEY, columns.ints, columns.floats)


@inner_kernel
def sort_slots(n: int, slots: Ints, scratch: Ints, column: int, ints: Ints, floats: Floats) -> None:
    """Sort by insertion while that is quick, as it is from one pass to the next; else by merging."""
    moves = 0
    for k in range(1, n):
        slot, place = slots[k], k
        while place > 0 and _goes_before(slot, slots[place - 1], column, ints, floats):
            slots[place] = slots[place - 1]
            place -= 1
        slots[place] = slot
        moves += k - place
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
