"""Techniques of the user: calls of a compiled function through its address.

The address is data and no constant, so the kernels that call it can be kept on disk although the
function lies elsewhere in every process.
"""

from __future__ import annotations

from typing import Any

from numba import types as numba_types

from mlsim._jit import c_function, inner_kernel

__all__ = ["user_size"]

types: Any = numba_types  # it is not typed itself

_call = c_function(types.int64, *[types.int64] * 5)


@inner_kernel
def user_size(address: int, n: int, p: int, remaining: int, step: int, pe: int) -> int:
    """Size a chunk by the function at an address; below 1 where the function is wrong."""
    return _call(address, n, p, remaining, step, pe)
