"""Bits of whole numbers, found by one instruction each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types

from mlsim import _interpreted
from mlsim._jit.mode import for_kernels

__all__ = ["last_bit", "next_bit"]


def _masked(builder: Any, word: Any, place: Any, above: bool) -> Any:
    """Return the bits of a word above a place, or all others."""
    mask = builder.shl(ir.IntType(64)(-2), place)
    return builder.and_(word, mask if above else builder.not_(mask))


def _next_bit(_typing: Any, word: Any, place: Any) -> Any:

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(_masked(builder, arguments[0], arguments[1], above=True), ir.IntType(1)(0))

    return types.int64(word, place), make


def _last_bit(_typing: Any, word: Any, place: Any) -> Any:

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        masked = _masked(builder, arguments[0], arguments[1], above=False)
        zeros_before = builder.ctlz(masked, ir.IntType(1)(0))
        return builder.sub(ir.IntType(64)(63), zeros_before)

    return types.int64(word, place), make


next_bit: Callable[[int, int], int] = for_kernels(_next_bit, _interpreted.next_bit)
"""Return the place of the first bit set of an int64 above a place (0 to 63); 64 if there is none."""
last_bit: Callable[[int, int], int] = for_kernels(_last_bit, _interpreted.last_bit)
"""Return the place of the last bit set of an int64 up to a place (0 to 63); -1 if there is none."""
