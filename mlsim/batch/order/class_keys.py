"""Keys of two classes in one order: small jobs before large ones, each class by its policy."""

from __future__ import annotations

import math
from typing import Final

from mlsim._jit import apart_kernel

__all__ = ["class_key"]

_WIDEST: Final = 200
"""Sizes of keys are from 2^-200 to 2^200, or 0; beyond, they are equal."""
_UP: Final = 600
_ZERO: Final = 2.0**300


@apart_kernel
def _above_zero(key: float) -> float:
    """Return a number above 0 that is in the order of the keys, equal for equal ones, without rounding.

    With |key| = m 2^e and m in [0.5, 1): above 0 the exponent is raised, beyond what stands for 0; below, the
    larger |key| is the smaller is (1.5 - m) 2^-e, which is exact.
    """
    if key == 0.0:
        return _ZERO
    mantissa, exponent = math.frexp(abs(key))
    exponent = min(max(exponent, -_WIDEST), _WIDEST)
    if key > 0.0:
        return math.ldexp(mantissa, exponent + _UP)
    return math.ldexp(1.5 - mantissa, -exponent)


@apart_kernel
def class_key(key: float, large: bool) -> float:
    """Return the key of a job among those of both classes (Zrigui 2021, Algorithm 3).

    Every small job's is below 0 and every large one's above; within a class they are in the order of the
    policy's keys, and equal where these are.
    """
    return _above_zero(key) if large else -_above_zero(-key)
