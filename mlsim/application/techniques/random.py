"""RND: chunks of random size, which depend on the seed and the step alone."""

from __future__ import annotations

import numpy as np

from mlsim._jit import inner_kernel

__all__ = ["random_key", "random_size"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@inner_kernel
def _mixed(state: int) -> int:
    """Mix the bits of a 64-bit number (SplitMix64; Steele, Lea and Flood 2014)."""
    z = np.uint64(state)
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return np.int64(z ^ (z >> np.uint64(31)))  # type: ignore[return-value]  # an int to kernels


@inner_kernel
def random_key(low: int, high: int) -> int:
    """Return the key of a loop's random numbers, from the lower 32 and the upper bits of the seed."""
    return _mixed(_mixed(low + 1) ^ high)


@inner_kernel
def random_size(i: int, low: int, high: int, key: int) -> int:
    """Return RND's chunk, uniform in ``low`` … ``high`` (Ciorba, Iwainsky and Buder 2018).

    Both are shares of N/P; 1 and ⌈N/P⌉ are those of Eleliemy 2021, Eq. 2.12. 63 random bits modulo the number
    of sizes, so sizes differ in probability by at most (high − low + 1) / 2^63. The generator is SplitMix64,
    whose i-th number needs none of those before it.
    """
    bits = np.uint64(_mixed(np.int64(np.uint64(key) + np.uint64(i + 1) * _GOLDEN)))  # type: ignore[arg-type]  # as above
    return int(np.int64(bits >> np.uint64(1))) % (high - low + 1) + low
