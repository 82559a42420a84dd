"""Elements of arrays, and their lengths, in a few instructions each.

For each element that a kernel names, Numba writes the array to memory and reads all its parts back: some
thirty instructions, of which LLVM leaves four. A sixth of what it was given to read were these.
"""

from __future__ import annotations

import operator
from typing import Any

from numba.core import types as numba_types
from numba.core.imputils import lower_builtin
from numba.np import arrayobj

__all__ = ["part_of", "with_part"]

types: Any = numba_types  # it is not typed itself
_NUMBERS = (types.Boolean, types.Integer, types.Float)


def _place(context: Any, kind: Any, name: str) -> int:
    return int(context.data_model_manager[kind].get_field_position(name))


def part_of(context: Any, builder: Any, kind: Any, array: Any, name: str, *places: int) -> Any:
    """Generate the code that reads a part of an array: its data, or one length of its shape."""
    return builder.extract_value(array, [_place(context, kind, name), *places])


def with_part(context: Any, builder: Any, kind: Any, array: Any, name: str, part: Any) -> Any:
    """Generate the code of an array with another part in place of its own."""
    return builder.insert_value(array, part, _place(context, kind, name))


@lower_builtin(operator.getitem, types.Array, types.Integer)
@lower_builtin(operator.getitem, types.Array, types.BaseTuple)
def _get(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind, index = signature.args
    where = _address(context, builder, kind, index, *arguments)
    if where is not None:
        return arrayobj.load_item(context, builder, kind, where)
    if isinstance(index, types.BaseTuple):
        return arrayobj.getitem_array_tuple(context, builder, signature, arguments)
    return arrayobj.getitem_arraynd_intp(context, builder, signature, arguments)


@lower_builtin(operator.setitem, types.Array, types.Integer, types.Any)
@lower_builtin(operator.setitem, types.Array, types.BaseTuple, types.Any)
def _set(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind, index, given = signature.args
    where = _address(context, builder, kind, index, *arguments[:2])
    if where is None:
        return arrayobj.setitem_array(context, builder, signature, arguments)
    value = context.cast(builder, arguments[2], given, kind.dtype)
    arrayobj.store_item(context, builder, kind, value, where)
    return None


@lower_builtin(len, types.Array)
def _len(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return part_of(context, builder, signature.args[0], arguments[0], "shape", 0)


def _address(context: Any, builder: Any, kind: Any, index: Any, array: Any, value: Any) -> Any:
    """Generate the code of where an element is; None where Numba must, as of what is not one number."""
    together = isinstance(index, types.BaseTuple)
    kinds = tuple(index) if together else (index,)
    simple = kind.layout == "C" and isinstance(kind.dtype, _NUMBERS) and not context.enable_boundscheck
    if not simple or len(kinds) != kind.ndim or not all(isinstance(one, types.Integer) for one in kinds):
        return None
    place: Any = None
    for axis, one in enumerate(kinds):
        length = part_of(context, builder, kind, array, "shape", axis)
        asked = builder.extract_value(value, axis) if together else value
        there = arrayobj.fix_integer_index(context, builder, one, asked, length)
        place = there if place is None else builder.add(builder.mul(place, length), there)
    return builder.gep(part_of(context, builder, kind, array, "data"), [place])
