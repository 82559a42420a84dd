"""What :mod:`mlsim._jit.atomics` declares."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

__all__ = ["exchange", "fetch_add", "load_acquire", "store_release"]


def _place(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, ir.IntType(64).as_pointer())


def load_acquire(_typing: Any, address: Any) -> Any:
    """Type ``load_acquire(address)``."""

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_place(builder, arguments[0]), "acquire", 8)

    return types.int64(address), make


def store_release(_typing: Any, address: Any, value: Any) -> Any:
    """Type ``store_release(address, value)``."""

    def make(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], _place(builder, arguments[0]), "release", 8)
        return context.get_dummy_value()

    return types.void(address, value), make


def exchange(_typing: Any, address: Any, value: Any) -> Any:
    """Type ``exchange(address, value)``."""

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("xchg", _place(builder, arguments[0]), arguments[1], "acq_rel")

    return types.int64(address, value), make


def fetch_add(_typing: Any, address: Any, value: Any) -> Any:
    """Type ``fetch_add(address, value)``."""

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", _place(builder, arguments[0]), arguments[1], "acq_rel")

    return types.int64(address, value), make
