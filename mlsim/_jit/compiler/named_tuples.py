"""What :mod:`mlsim._jit.named_tuples` declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, lower_getattr_generic, models, register_model
from numba.np.numpy_support import from_dtype

from mlsim._jit.compiler.arrays import with_part, without_owner
from mlsim._jit.named_tuples import PACKED_WORDS

__all__ = ["Packed", "Shared", "shared", "unpacker"]


def _read_by_name(kind: type[types.Type]) -> None:
    """Have kernels read fields of a type that is an address; its ``field(name)`` returns a field's type."""
    register_model(kind)(models.OpaqueModel)

    @infer_getattr
    class Fields(AttributeTemplate):
        key = kind

        def generic_resolve(self, found: Any, name: str) -> Any:  # type: ignore[override]  # of NotImplemented
            return found.field(name)


class Shared(types.Type):
    """A named tuple that lies in memory, of which kernels are given the address."""

    def __init__(self, content: Any) -> None:
        self.content, self.instance_class = content, getattr(content, "instance_class", tuple)
        super().__init__(f"Shared({content})")

    def field(self, name: str) -> Any:
        """Return the type of a field, None if there is none; a named tuple inside is an address, too."""
        if name not in self.content.fields:
            return None
        kind = self.content.types[self.content.fields.index(name)]
        return Shared(kind) if isinstance(kind, types.BaseNamedTuple) else kind


_read_by_name(Shared)


@lower_getattr_generic(Shared)
def _read_field(context: Any, builder: Any, shared: Any, value: Any, name: str) -> Any:
    content = shared.content
    place = content.fields.index(name)
    kind = content.types[place]
    memory = builder.bitcast(value, context.get_value_type(content).as_pointer())
    field = builder.gep(memory, [ir.IntType(32)(0), ir.IntType(32)(place)], inbounds=True)
    if isinstance(kind, types.BaseNamedTuple):
        return builder.bitcast(field, context.get_value_type(shared))
    loaded = builder.load(field)
    return without_owner(context, builder, kind, loaded) if isinstance(kind, types.Array) else loaded


class Packed(types.Type):
    """A named tuple of arrays, of which kernels are given where it is written down where these are.

    ``instance_class`` is called as that of numba's own types of named tuples.
    """

    def __init__(self, instance_class: type, arrays: Mapping[str, Any]) -> None:
        self.instance_class = instance_class
        self.arrays = dict(arrays)
        super().__init__(f"Packed({instance_class.__module__}.{instance_class.__name__})")

    def field(self, name: str) -> Any:
        """Return the type of an array, None if there is none."""
        return self.arrays.get(name)


_read_by_name(Packed)


@lower_getattr_generic(Packed)
def _unpack_array(context: Any, builder: Any, packed: Any, value: Any, name: str) -> Any:
    first = PACKED_WORDS * list(packed.arrays).index(name)
    words = builder.bitcast(value, ir.IntType(64).as_pointer())
    never_changes = builder.module.add_metadata([])

    def word(place: int) -> Any:
        found = builder.load(builder.gep(words, [ir.IntType(32)(first + place)], inbounds=True))
        found.set_metadata("invariant.load", never_changes)  # so that it is read once, whatever is written
        return found

    kind = packed.arrays[name]
    size = ir.IntType(64)(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    shape = [word(1 + axis) for axis in range(kind.ndim)]
    strides, items = [size], shape[0]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
        items = builder.mul(items, length)
    nobody = context.get_constant_null(types.MemInfoPointer(types.voidptr))
    array = context.get_constant_undef(kind)
    address = builder.inttoptr(word(0), context.get_data_type(kind.dtype).as_pointer())
    parts = {"meminfo": nobody, "parent": context.get_constant_null(types.pyobject), "nitems": items}
    parts |= {"itemsize": size, "data": address}
    parts |= {"shape": cgutils.pack_array(builder, shape), "strides": cgutils.pack_array(builder, strides)}
    for part, held in parts.items():
        array = with_part(context, builder, kind, array, part, held)
    return array


def unpacker(kind: type, fields: Sequence[tuple[str, str, int]]) -> Any:
    """Make what types the function that :func:`mlsim._jit.unpacker` returns."""
    arrays = {name: types.Array(from_dtype(np.dtype(dtype)), n, "C") for name, dtype, n in fields}
    packed = Packed(kind, arrays)

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    def typed(_typing: Any, address: Any) -> Any:
        return packed(address), make

    return typed


def shared(_typing: Any, content: Any) -> Any:
    """Type ``shared(content)``."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = cgutils.alloca_once_value(builder, arguments[0])
        return builder.bitcast(memory, context.get_value_type(signature.return_type))

    return Shared(content)(content), make
