"""Classes of jobs by the units and by the time for which they ask: twice as fine as doubling."""

from __future__ import annotations

import math
from typing import Final

from mlsim._jit import leaf_kernel

__all__ = ["N_DURATIONS", "N_SIZES", "duration_class", "least_of", "shortest_of", "size_of"]

_FINE: Final = 2
"""Classes of sizes in which numbers of units double."""
N_SIZES: Final = 64
"""Classes; the last one has no end."""
N_DURATIONS: Final = 63
"""Classes of durations, two in which they double, one bit of a word each; the last one has no end."""

_LONG: Final = 2.0**31


@leaf_kernel
def size_of(units: int) -> int:
    """Return the class of a number of units, 0 of them or more."""
    doubled = 0
    while units >= 2 * _FINE:
        units >>= 1
        doubled += 1
    return min(_FINE * doubled + units, N_SIZES - 1)


@leaf_kernel
def least_of(size: int) -> int:
    """Return the smallest number of units of a class."""
    doubled = max(size // _FINE - 1, 0)
    return (size - _FINE * doubled) << doubled


@leaf_kernel
def duration_class(seconds: float) -> int:
    """Return the class of a duration (s), 0 or more."""
    if seconds >= _LONG:
        return N_DURATIONS - 1
    fraction, exponent = math.frexp(seconds)
    return int(min(max(2 * exponent + (1 if fraction >= 0.75 else 0), 0), N_DURATIONS - 1))


@leaf_kernel
def shortest_of(lasts: int) -> float:
    """Return the shortest duration (s) of a class."""
    if lasts == 0:
        return 0.0
    return math.ldexp(0.75 if lasts & 1 else 0.5, lasts >> 1)
