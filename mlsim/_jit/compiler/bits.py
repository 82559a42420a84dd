"""What :mod:`mlsim._jit.bits` declares."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

__all__ = ["last_bit", "next_bit"]


def _masked(builder: Any, word: Any, place: Any, above: bool) -> Any:
    """Return the bits of a word above a place, or all others."""
    mask = builder.shl(ir.IntType(64)(-2), place)
    return builder.and_(word, mask if above else builder.not_(mask))


def next_bit(_typing: Any, word: Any, place: Any) -> Any:
    """Type ``next_bit(word, place)``."""

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(_masked(builder, arguments[0], arguments[1], above=True), ir.IntType(1)(0))

    return types.int64(word, place), make


def last_bit(_typing: Any, word: Any, place: Any) -> Any:
    """Type ``last_bit(word, place)``."""

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        masked = _masked(builder, arguments[0], arguments[1], above=False)
        zeros_before = builder.ctlz(masked, ir.IntType(1)(0))
        return builder.sub(ir.IntType(64)(63), zeros_before)

    return types.int64(word, place), make
