"""Techniques of the user: calls of a compiled function through its address.

The address is data and no constant, so the kernels that call it can be kept on disk although the
function lies elsewhere in every process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types as numba_types
from numba.extending import intrinsic

from mlsim._jit import kernel

__all__ = ["user_size"]

types: Any = numba_types  # it is not typed itself


def _build_call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Turn the first argument into a function pointer and call it with the others."""
    result = context.get_value_type(signature.return_type)
    kind = ir.FunctionType(result, [value.type for value in arguments[1:]])
    return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])


def _declare(
    _context: Any, _address: Any, _n: Any, _p: Any, _remaining: Any, _step: Any, _pe: Any
) -> tuple[Any, Any]:
    return types.int64(*[types.int64] * 6), _build_call


_call = cast(Callable[[int, int, int, int, int, int], int], intrinsic(_declare))


@kernel
def user_size(address: int, n: int, p: int, remaining: int, step: int, pe: int) -> int:
    """Size a chunk by the function at an address; below 1 where the function is wrong."""
    return _call(address, n, p, remaining, step, pe)
