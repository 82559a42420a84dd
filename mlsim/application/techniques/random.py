"""RND: chunks of random size, which depend on the seed and the step alone."""

from __future__ import annotations

import numpy as np

from mlsim._jit import inner_kernel, kernel
from mlsim.application.techniques.fixed import ceil_div

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


@kernel
def random_key(low: int, high: int) -> int:
    """Return the key of a loop's random numbers, from the lower 32 and the upper bits of the seed."""
    return _mixed(_mixed(low + 1) ^ high)


@kernel
def random_size(i: int, n: int, p: int, key: int) -> int:
    """Return RND's chunk, uniform in 1 … ⌈N/P⌉ (Ciorba, Iwainsky and Buder 2018; Eleliemy 2021, Eq. 2.12).

    63 random bits modulo ⌈N/P⌉, so sizes differ in probability by at most ⌈N/P⌉ / 2^63. The generator is
    SplitMix64, whose i-th number needs none of those before it.
    """
    bits = np.uint64(_mixed(np.int64(np.uint64(key) + np.uint64(i + 1) * _GOLDEN)))  # type: ignore[arg-type]  # as above
    return int(np.int64(bits >> np.uint64(1))) % max(ceil_div(n, p), 1) + 1
