"""What :mod:`mlsim._jit.arrays` declares."""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.core.imputils import impl_ret_new_ref
from numba.core.typing.npydecl import parse_dtype
from numba.np import arrayobj

__all__ = ["borrowed", "with_part", "without_owner", "zeros"]


def with_part(context: Any, builder: Any, kind: Any, value: Any, name: str, part: Any) -> Any:
    """Generate the code of an array with another part (data, shape, owner) in place of its own."""
    return builder.insert_value(value, part, context.data_model_manager[kind].get_field_position(name))


def without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Generate the code of an array of a type as a borrowed one."""
    nobody = context.get_constant_null(types.MemInfoPointer(types.voidptr))
    return with_part(context, builder, kind, value, "meminfo", nobody)


def borrowed(_typing: Any, array: Any) -> Any:
    """Type ``borrowed(array)``."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return without_owner(context, builder, signature.args[0], arguments[0])

    return array(array), make


def zeros(_typing: Any, shape: Any, kind: Any) -> Any:
    """Type ``zeros(shape, dtype)``."""
    array = types.Array(parse_dtype(kind), getattr(shape, "count", 1), "C")

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lengths = arrayobj._parse_shape(context, builder, signature.args[0], arguments[0])
        made = arrayobj._empty_nd_impl(context, builder, array, lengths)
        size = builder.mul(made.itemsize, made.nitems)
        cgutils.memset(builder, made.data, size, 0)
        return impl_ret_new_ref(context, builder, array, made._getvalue())

    return array(types.unliteral(shape), kind), make
