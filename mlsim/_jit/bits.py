"""Bits of whole numbers, found by one instruction each."""

from __future__ import annotations

from collections.abc import Callable

from mlsim import _interpreted
from mlsim._jit.mode import for_kernels

__all__ = ["last_bit", "next_bit"]

next_bit: Callable[[int, int], int] = for_kernels("bits.next_bit", _interpreted.next_bit)
"""Return the place of the first bit set of an int64 above a place (0 to 63); 64 if there is none."""
last_bit: Callable[[int, int], int] = for_kernels("bits.last_bit", _interpreted.last_bit)
"""Return the place of the last bit set of an int64 up to a place (0 to 63); -1 if there is none."""
