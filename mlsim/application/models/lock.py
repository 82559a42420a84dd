"""Polling of a lock: when it is freed with w PEs waiting, each tries again uniformly in the interval r.

So the first comes after r·(1 − (1 − u)^(1/w)), with u uniform in [0, 1), and is any PE's with equal
probability. Both are drawn from numbers that depend on the seed, the lock and the count of draws alone.
"""

from __future__ import annotations

from mlsim._jit import kernel
from mlsim.application.techniques.random import random_key, random_size

__all__ = ["lock_key", "next_attempt"]

_STEPS = 1 << 16
_BITS = 1 << 53


@kernel
def lock_key(seed_low: int, seed_high: int, number: int) -> int:
    """Return the key of one lock's random numbers."""
    return random_key(seed_low, seed_high + ((number + 1) << 32))


@kernel
def next_attempt(key: int, draw: int, waiting: int, interval: float) -> tuple[int, float]:
    """Draw which of those that wait tries next, and how long after the lock was freed, in s.

    The time is rounded down to the 65,536th part of the interval, so that mathematical libraries that
    differ in the last digit give the same.
    """
    who = random_size(2 * draw, 1, waiting, key) - 1
    u = (random_size(2 * draw + 1, 1, _BITS, key) - 1) / _BITS
    share = 1.0 - (1.0 - u) ** (1.0 / waiting)
    return who, interval * (int(share * _STEPS) / _STEPS)
