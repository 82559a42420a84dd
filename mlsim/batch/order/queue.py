"""The queue: waiting jobs in the order of their keys, and how it is kept that way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.batch.columns.arrays import ORDER, POLICY, QUEUED, Arrays
from mlsim.batch.columns.table import ACCOUNT, ESTIMATE, KEY, NUMBER, PROCESSORS, SUBMIT, WALK_KEY
from mlsim.batch.order.fairshare import usage_at
from mlsim.batch.order.policies import FAIRSHARE, FCFS, HALF_LIFE, THRESHOLD, is_live, is_starved, policy_key

__all__ = ["enqueue", "order_queue", "order_walk"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOVES_PER_JOB = 8
"""Insertion sort gives up after so many moves a job; an order that has hardly changed needs fewer."""


@kernel(forceinline=True)
def key_of(slot: int, policy: int, now: float, s: Arrays) -> float:
    """Give the key of the job in a slot under a policy; minus infinity past the threshold."""
    r = s.floats[SUBMIT, slot]
    if is_starved(policy, now, r, s.parameters):
        return -np.inf
    used = 0.0
    if policy == FAIRSHARE:
        used = usage_at(s.ints[ACCOUNT, slot], now, s.parameters[HALF_LIFE], s.shares)
    q = float(s.ints[PROCESSORS, slot])
    return policy_key(policy, now, r, s.floats[ESTIMATE, slot], q, used, s.parameters)


@kernel
def _goes_before(a: int, b: int, column: int, ints: Ints, floats: Floats) -> bool:
    if floats[column, a] != floats[column, b]:
        return bool(floats[column, a] < floats[column, b])
    return bool(ints[NUMBER, a] < ints[NUMBER, b])


@kernel(forceinline=True)
def _insert(slot: int, n: int, s: Arrays) -> None:
    """Put a job in its place among the ``n`` first of the queue."""
    low, high = 0, n
    if n > 0 and _goes_before(s.queue[n - 1], slot, KEY, s.ints, s.floats):
        low = n  # the common case under FCFS: it goes to the end
    while low < high:
        middle = (low + high) // 2
        if _goes_before(s.queue[middle], slot, KEY, s.ints, s.floats):
            low = middle + 1
        else:
            high = middle
    for k in range(n, low, -1):
        s.queue[k] = s.queue[k - 1]
    s.queue[low] = slot


@kernel(forceinline=True)
def enqueue(slot: int, now: float, s: Arrays) -> None:
    """Put a job into the queue."""
    s.floats[KEY, slot] = key_of(slot, s.rules[POLICY], now, s)
    _insert(slot, s.counts[QUEUED], s)
    s.counts[QUEUED] += 1


@kernel(forceinline=True)
def order_queue(now: float, s: Arrays) -> None:
    """Bring the queue into the order of now: live keys anew, jobs past the threshold to the head."""
    n, policy = s.counts[QUEUED], s.rules[POLICY]
    if is_live(policy):
        for k in range(n):
            s.floats[KEY, s.queue[k]] = key_of(s.queue[k], policy, now, s)
        _sort(n, s.queue, s.spare, KEY, s.ints, s.floats)
    elif policy != FCFS and s.parameters[THRESHOLD] < np.inf:
        for k in range(n):
            slot = s.queue[k]
            if s.floats[KEY, slot] > -np.inf and is_starved(
                policy, now, s.floats[SUBMIT, slot], s.parameters
            ):
                s.floats[KEY, slot] = -np.inf
                _insert(slot, k, s)


@kernel
def order_walk(n: int, now: float, slots: Ints, scratch: Ints, s: Arrays) -> None:
    """Sort ``n`` waiting jobs by the order of backfilling."""
    for k in range(n):
        s.floats[WALK_KEY, slots[k]] = key_of(slots[k], s.rules[ORDER], now, s)
    _sort(n, slots, scratch, WALK_KEY, s.ints, s.floats)


@kernel
def _sort(n: int, slots: Ints, scratch: Ints, column: int, ints: Ints, floats: Floats) -> None:
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


@kernel
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
        slots[:n] = scratch[:n]
        width *= 2
