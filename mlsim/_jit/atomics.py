"""Atomic operations on memory that several processes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types

from mlsim import _interpreted
from mlsim._jit.mode import for_kernels

__all__ = ["fetch_add", "load_acquire", "store_release"]


def _place(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, ir.IntType(64).as_pointer())


def _load_acquire(_typing: Any, address: Any) -> Any:

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_place(builder, arguments[0]), "acquire", 8)

    return types.int64(address), make


def _store_release(_typing: Any, address: Any, value: Any) -> Any:

    def make(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], _place(builder, arguments[0]), "release", 8)
        return context.get_dummy_value()

    return types.void(address, value), make


def _fetch_add(_typing: Any, address: Any, value: Any) -> Any:

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", _place(builder, arguments[0]), arguments[1], "acq_rel")

    return types.int64(address, value), make


load_acquire: Callable[[int], int] = for_kernels(_load_acquire, _interpreted.refuse_atomics)
"""Read, in a kernel, an int64 at an address that another process may write; see :data:`store_release`."""
store_release: Callable[[int, int], None] = for_kernels(_store_release, _interpreted.refuse_atomics)
"""Write an int64 at an address; who reads it with :data:`load_acquire` sees all that was written before."""
fetch_add: Callable[[int, int], int] = for_kernels(_fetch_add, _interpreted.refuse_atomics)
"""Add atomically to an int64 at an address, and return its former value."""
