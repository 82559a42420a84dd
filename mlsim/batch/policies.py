"""Scheduling policies: the keys by which the queue is ordered, smaller first.

With submission time r, estimate p, processors q and wait w = now - r. Ties go by order of arrival,
(r, job id). The functions F1 to F4 were found by regression over simulations (Carastan-Santos and
de Camargo, "Obtaining Dynamic Scheduling Policies with Simulation and Machine Learning", SC 2017).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.batch.catalogue import POLICIES
from mlsim.batch.table import ESTIMATE, KEY, NUMBER, PROCESSORS, SUBMIT

__all__ = ["CODES", "enqueue", "is_live", "order_queue", "policy_key"]

CODES = {policy.name: code for code, policy in enumerate(POLICIES)}
_LIVE_FROM = next(code for code, policy in enumerate(POLICIES) if policy.live)

FCFS, LCFS, SPF, LPF, SQF, LQF, SAF, LAF, SRF, LRF, EDF, F1, F2, F3, F4 = range(15)
SEXP, LEXP, WFP, UNICEF = range(_LIVE_FROM, _LIVE_FROM + 4)


@kernel
def is_live(policy: int) -> bool:
    """Tell whether a policy's keys change as time goes on."""
    return policy >= _LIVE_FROM


@kernel
def _fixed_key(policy: int, r: float, p: float, q: float, deadline_factor: float) -> float:
    if policy in (FCFS, LCFS):
        return r if policy == FCFS else -r
    if policy in (SPF, LPF):
        return p if policy == SPF else -p
    if policy in (SQF, LQF):
        return q if policy == SQF else -q
    if policy in (SAF, LAF):
        return p * q if policy == SAF else -p * q
    if policy in (SRF, LRF):
        return p / q if policy == SRF else -p / q
    return r + deadline_factor * p


@kernel
def _learned_key(policy: int, r: float, p: float, q: float) -> float:
    log_r = math.log10(max(r, 1.0))  # r counts from 1 s up, so that the logarithm exists
    if policy == F1:
        return math.log10(max(p, 1.0)) * q + 870.0 * log_r
    if policy == F2:
        return math.sqrt(p) * q + 25600.0 * log_r
    if policy == F3:
        return p * q + 6.86e6 * log_r
    return p * math.sqrt(q) + 5.3e5 * log_r


@kernel
def _live_key(policy: int, w: float, p: float, q: float) -> float:
    p = max(p, 1.0)  # an estimate of nothing would divide by zero
    if policy in (SEXP, LEXP):
        expansion = (w + p) / p
        return expansion if policy == SEXP else -expansion
    if policy == WFP:
        return -((w / p) ** 3) * q
    return -w / (math.log2(max(q, 2.0)) * p)  # log2(1) would divide by zero


@kernel
def policy_key(policy: int, now: float, r: float, p: float, q: float, deadline_factor: float) -> float:
    """Give the key of one job under a policy.

    Parameters
    ----------
    policy
        Code of the policy, its place in :data:`mlsim.batch.catalogue.POLICIES`.
    now, r, p
        Current time, submission time and estimate, in seconds.
    q
        Processors.
    deadline_factor
        EDF's deadline is ``r + deadline_factor * p``.

    Returns
    -------
    float
        The key; the job with the smallest goes first.
    """
    if is_live(policy):
        return _live_key(policy, now - r, p, q)
    if policy >= F1:
        return _learned_key(policy, r, p, q)
    return _fixed_key(policy, r, p, q, deadline_factor)


@kernel
def _goes_before(a: int, b: int, ints: NDArray[np.int64], floats: NDArray[np.float64]) -> bool:
    if floats[KEY, a] != floats[KEY, b]:
        return bool(floats[KEY, a] < floats[KEY, b])
    return bool(ints[NUMBER, a] < ints[NUMBER, b])


@kernel
def _set_key(
    slot: int,
    policy: int,
    deadline_factor: float,
    now: float,
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
) -> None:
    floats[KEY, slot] = policy_key(
        policy,
        now,
        floats[SUBMIT, slot],
        floats[ESTIMATE, slot],
        float(ints[PROCESSORS, slot]),
        deadline_factor,
    )


@kernel
def enqueue(
    slot: int,
    n: int,
    policy: int,
    deadline_factor: float,
    now: float,
    queue: NDArray[np.int64],
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
) -> None:
    """Put a job in its place among the ``n`` waiting ones."""
    _set_key(slot, policy, deadline_factor, now, ints, floats)
    low, high = 0, n
    if n > 0 and _goes_before(queue[n - 1], slot, ints, floats):
        low = n  # the common case under FCFS: it goes to the end
    while low < high:
        middle = (low + high) // 2
        if _goes_before(queue[middle], slot, ints, floats):
            low = middle + 1
        else:
            high = middle
    for k in range(n, low, -1):
        queue[k] = queue[k - 1]
    queue[low] = slot


@kernel
def order_queue(
    n: int,
    policy: int,
    deadline_factor: float,
    now: float,
    queue: NDArray[np.int64],
    spare: NDArray[np.int64],
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
) -> None:
    """Compute the keys of the ``n`` waiting jobs anew and sort them (merge sort, bottom up)."""
    for k in range(n):
        _set_key(queue[k], policy, deadline_factor, now, ints, floats)
    width = 1
    while width < n:
        for left in range(0, n, 2 * width):
            _merge(left, min(left + width, n), min(left + 2 * width, n), queue, spare, ints, floats)
        queue[:n] = spare[:n]
        width *= 2


@kernel
def _merge(
    left: int,
    middle: int,
    right: int,
    queue: NDArray[np.int64],
    spare: NDArray[np.int64],
    ints: NDArray[np.int64],
    floats: NDArray[np.float64],
) -> None:
    a, b = left, middle
    for k in range(left, right):
        if b >= right or (a < middle and not _goes_before(queue[b], queue[a], ints, floats)):
            spare[k] = queue[a]
            a += 1
        else:
            spare[k] = queue[b]
            b += 1
