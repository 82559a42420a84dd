"""Local search over the orders of list scheduling; compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.batch.cp.profiles import list_schedule

__all__ = ["improve", "reset"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def _random(state: Ints, below: int) -> int:
    """Give a number from 0 to ``below`` - 1 (Marsaglia's xorshift on 62 bits)."""
    x = state[0]
    x ^= (x << 13) & 0x3FFFFFFFFFFFFFFF
    x ^= x >> 7
    x ^= (x << 17) & 0x3FFFFFFFFFFFFFFF
    state[0] = x
    return int(x % below)


@kernel
def improve(
    rounds: int,
    fixed: int,
    seed: int,
    order: Ints,
    cost: float,
    units: Ints,
    durations: Ints,
    requests: Ints,
    weights: Floats,
    keep_free: Floats,
    scarcity: Floats,
    dislike: Floats,
    keep_start: NDArray[np.bool_],
    base_count: Ints,
    base_first: Ints,
    base_steps: Ints,
    base_times: Ints,
    base_room: Ints,
    base_kind: Ints,
    members: Ints,
    count: Ints,
    first: Ints,
    n_steps: Ints,
    times: Ints,
    room: Ints,
    kind: Ints,
) -> float:
    """Swap and move jobs in an order, and keep what lowers the cost.

    Parameters
    ----------
    rounds
        How many neighbours to try.
    fixed
        Places at the order's beginning that stay as they are.
    seed
        Of the random numbers; above 0.
    order
        Jobs; changed to the best order found.
    cost
        Cost of ``order``.
    units, durations, requests, weights, keep_free, scarcity, dislike, keep_start
        As for :func:`~mlsim.batch.cp.profiles.list_schedule`.
    base_count, base_first, base_steps, base_times, base_room, base_kind, members
        Profiles before anything is planned.
    count, first, n_steps, times, room, kind
        Room to work in.

    Returns
    -------
    float
        The new cost.
    """
    n = order.size
    trial = order.copy()
    starts = np.empty(units.size, np.int64)
    nobody = np.empty(0, np.int64)
    state = np.array([seed * 2654435761 + 88172645463325252])
    for _ in range(rounds):
        if n - fixed < 2:
            break
        i = fixed + _random(state, n - fixed)
        j = fixed + _random(state, n - fixed)
        if i == j:
            continue
        trial[:] = order
        job = order[i]
        if _random(state, 2) == 0:
            trial[i], trial[j] = order[j], job
        elif i < j:
            trial[i:j] = order[i + 1 : j + 1]
            trial[j] = job
        else:
            trial[j + 1 : i + 1] = order[j:i]
            trial[j] = job
        reset(
            base_count,
            base_first,
            base_steps,
            base_times,
            base_room,
            base_kind,
            count,
            first,
            n_steps,
            times,
            room,
            kind,
        )
        found = list_schedule(
            trial,
            units,
            durations,
            requests,
            weights,
            keep_free,
            scarcity,
            dislike,
            keep_start,
            cost,
            count,
            first,
            n_steps,
            times,
            room,
            kind,
            members,
            starts,
            nobody,
        )
        if found < cost:
            cost = found
            order[:] = trial
    return cost


@kernel
def reset(
    base_count: Ints,
    base_first: Ints,
    base_steps: Ints,
    base_times: Ints,
    base_room: Ints,
    base_kind: Ints,
    count: Ints,
    first: Ints,
    n_steps: Ints,
    times: Ints,
    room: Ints,
    kind: Ints,
) -> None:
    """Copy the profiles to where they may be changed."""
    count[:] = 0
    for c in range(base_count.size):
        count[c], first[c], n_steps[c] = base_count[c], base_first[c], base_steps[c]
        kind[c] = base_kind[c]
        for k in range(base_steps[c]):
            times[c, k] = base_times[c, k]
            room[c, k] = base_room[c, k]
