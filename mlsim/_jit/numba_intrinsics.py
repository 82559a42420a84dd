"""The operations of :mod:`mlsim._jit.intrinsics` as Numba compiles them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import impl_ret_new_ref
from numba.core.typing.npydecl import parse_dtype
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global
from numba.extending import infer_getattr, lower_getattr_generic, models, register_model
from numba.np import arrayobj
from numba.np.numpy_support import from_dtype

from mlsim._jit.intrinsics import PACKED_WORDS


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


def _masked(builder: Any, word: Any, place: Any, above: bool) -> Any:
    """Return the bits of a word above a place, or all others."""
    mask = builder.shl(ir.IntType(64)(-2), place)
    return builder.and_(word, mask if above else builder.not_(mask))


def next_bit(_typing: Any, word: Any, place: Any) -> Any:
    """Type ``next_bit(word, place)``."""

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(_masked(builder, arguments[0], arguments[1], above=True), ir.IntType(1)(0))

    return types.int64(word, place), make


def last_bit(_typing: Any, word: Any, place: Any) -> Any:
    """Type ``last_bit(word, place)``."""

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        masked = _masked(builder, arguments[0], arguments[1], above=False)
        zeros_before = builder.ctlz(masked, ir.IntType(1)(0))
        return builder.sub(ir.IntType(64)(63), zeros_before)

    return types.int64(word, place), make


def c_function(result: str, parameters: tuple[str, ...]) -> Any:
    """Make what types the function that :func:`mlsim._jit.c_function` returns."""
    returned_type = getattr(types, result)
    together = types.Tuple([getattr(types, name) for name in parameters])

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = [builder.extract_value(arguments[1], item) for item in range(len(signature.args[1]))]
        returned = context.get_value_type(signature.return_type)
        kind = ir.FunctionType(returned, [value.type for value in values])
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), values)

    def declare(_typing: Any, _address: Any, *_arguments: Any) -> Any:
        return returned_type(types.intp, together), make

    return declare


def type_of_choice(declared: Callable[..., Any], answers: Mapping[type, Callable[..., Any]]) -> Any:
    """Register the kernels that implement a declared function with Numba; return the function's type."""

    def chosen(arguments: Any) -> Any:
        return answers[arguments[-1].instance_class]

    class Choice(AbstractTemplate):
        key = declared

        def generic(self, args: Any, kws: Any) -> Any:
            assert not kws, "by position only"
            return types.Dispatcher(chosen(args).part).get_call_type(self.context, args, kws)

        def get_impl_key(self, sig: Any) -> Any:
            return chosen(sig.args).part.get_overload(sig.args)

    kind = types.Function(Choice)
    infer_global(declared, kind)
    return kind


def _read_by_name(kind: type[types.Type]) -> None:
    """Enable kernels to read fields of an address type, whose ``field(name)`` returns a field's type."""
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
