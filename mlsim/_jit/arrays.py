"""Arrays inside kernels: borrowed ones, whose references nobody counts, and new ones of zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba.core import cgutils, types
from numba.core.imputils import impl_ret_new_ref
from numba.core.typing.npydecl import parse_dtype
from numba.np import arrayobj

from mlsim import _interpreted
from mlsim._jit.mode import for_kernels

__all__ = ["borrowed", "without_owner", "zeros"]

Array = TypeVar("Array")


def without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Generate the code of an array of a type as a borrowed one."""
    view = context.make_array(kind)(context, builder, value)
    view.meminfo = context.get_constant_null(types.voidptr)
    return view._getvalue()


def _borrowed(_typing: Any, array: Any) -> Any:

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return without_owner(context, builder, signature.args[0], arguments[0])

    return array(array), make


borrowed: Callable[[Array], Array] = for_kernels(_borrowed, _interpreted.borrowed)
"""Return an array inside a kernel as one that is not reference-counted; its owner must outlive the call.

Kernels count the references to every array that they hand to each other, with atomic additions. Where
many small kernels share many arrays, that costs more than their work; borrowed arrays are not counted.
"""


def _zeros(_typing: Any, shape: Any, kind: Any) -> Any:
    array = types.Array(parse_dtype(kind), getattr(shape, "count", 1), "C")

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lengths = arrayobj._parse_shape(context, builder, signature.args[0], arguments[0])
        made = arrayobj._empty_nd_impl(context, builder, array, lengths)
        size = builder.mul(made.itemsize, made.nitems)
        cgutils.memset(builder, made.data, size, 0)
        return impl_ret_new_ref(context, builder, array, made._getvalue())

    return array(types.unliteral(shape), kind), make


zeros: Callable[..., Any] = for_kernels(_zeros, np.zeros)
"""Return a new array of zeros inside a kernel, as ``numpy.zeros(shape, dtype)`` does.

For that, numba compiles three functions for each number of dimensions and each type, a quarter of a second
of work.
"""
