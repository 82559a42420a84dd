"""Atomic operations on memory that several processes share."""

from __future__ import annotations

from collections.abc import Callable

from mlsim import _interpreted
from mlsim._jit.mode import for_kernels

__all__ = ["exchange", "fetch_add", "load_acquire", "store_release"]

load_acquire: Callable[[int], int] = for_kernels("atomics.load_acquire", _interpreted.refuse_atomics)
"""Read, in a kernel, an int64 at an address that another process may write; see :data:`store_release`."""
store_release: Callable[[int, int], None] = for_kernels("atomics.store_release", _interpreted.refuse_atomics)
"""Write an int64 at an address; who reads it with :data:`load_acquire` sees all that was written before."""
exchange: Callable[[int, int], int] = for_kernels("atomics.exchange", _interpreted.refuse_atomics)
"""Replace atomically an int64 at an address, and return its former value."""
fetch_add: Callable[[int, int], int] = for_kernels("atomics.fetch_add", _interpreted.refuse_atomics)
"""Add atomically to an int64 at an address, and return its former value."""
