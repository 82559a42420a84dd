"""Techniques of the user: calls of a compiled function through its address.

The address is data and no constant, so the kernels that call it can be kept on disk although the
function lies elsewhere in every process.
"""

from __future__ import annotations

from mlsim._jit import c_function, inner_kernel

__all__ = ["user_size"]

_call = c_function("int64", *["int64"] * 5)


@inner_kernel
def user_size(address: int, n: int, p: int, remaining: int, step: int, pe: int) -> int:
    """Size a chunk by the function at an address; below 1 where the function is wrong."""
    return _call(address, n, p, remaining, step, pe)
