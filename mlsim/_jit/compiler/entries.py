"""The C functions by which kernels are called without numba; see :mod:`mlsim._jit.kept`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core import types as numba_types
from numba.np.arrayobj import populate_array

from mlsim._jit.kept import Entry, array_kind, tuple_kind

__all__ = ["Draft", "draft"]

types: Any = numba_types  # it is not typed itself

_WORD = ir.IntType(64)
_NUMBERS = (types.Boolean, types.Integer, types.Float)
_LARGEST = 64


class Draft:
    """An entry whose code is not there yet."""

    def __init__(self, kinds: list[str], symbol: str, returns: list[str], together: bool) -> None:
        self._kinds, self._symbol = tuple(kinds), symbol
        self._returns, self._together = tuple(returns), together

    def entry(self, needs: list[str], code: bytes) -> Entry:
        """Return the entry."""
        return Entry(self._kinds, self._symbol, self._returns, self._together, tuple(needs), code)


def draft(context: Any, library: Any, described: Any) -> Draft | None:
    """Add the entry to a library of a kernel; None if it takes or returns what words cannot hold."""
    kinds: list[str] = []
    if not all(_name(kind, kinds) for kind in described.argtypes):
        return None
    result = described.restype
    together = isinstance(result, types.BaseTuple)
    parts = list(result) if together else [] if result == types.none else [result]
    returns: list[str] = []
    if isinstance(result, types.BaseNamedTuple) or any(isinstance(part, types.BaseTuple) for part in parts):
        return None
    if not all(_name(kind, returns) for kind in parts):
        return None
    returns = [kind.removesuffix(" read-only") for kind in returns]
    symbol = f"mlsim.{described.llvm_func_name}"
    _generate(context, library, described, symbol, parts)
    return Draft(kinds, symbol, returns, together)


def _name(kind: Any, names: list[str]) -> bool:
    """Add the name of a type, and of the types of a tuple's items; return whether words can hold it."""
    if isinstance(kind, types.BaseTuple):
        names.append(tuple_kind(getattr(kind, "instance_class", tuple), len(kind)))
        return all(_name(item, names) for item in kind)
    if isinstance(kind, types.Array):
        names.append(array_kind(str(kind.dtype), kind.ndim, kind.mutable))
        return kind.layout == "C" and kind.aligned and isinstance(kind.dtype, _NUMBERS)
    names.append(str(kind))
    fits = not isinstance(kind, types.Literal) and getattr(kind, "bitwidth", 0) <= _LARGEST
    return isinstance(kind, _NUMBERS) and fits


def _generate(context: Any, library: Any, described: Any, symbol: str, parts: list[Any]) -> None:
    """Generate ``int32 symbol(int64 *words)``."""
    module = library.create_ir_module(symbol)
    function = ir.Function(module, ir.FunctionType(ir.IntType(32), [_WORD.as_pointer()]), symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    words = _Words(builder, function.args[0])
    arguments = [_read(context, builder, kind, words) for kind in described.argtypes]
    kernel = context.declare_function(module, described)
    status, result = context.call_conv.call_function(
        builder, kernel, described.restype, described.argtypes, arguments
    )
    with builder.if_then(builder.not_(status.is_ok), likely=False):
        words.write(builder.ptrtoint(status.excinfoptr, _WORD))
        builder.ret(status.code)
    together = isinstance(described.restype, types.BaseTuple)
    for place, kind in enumerate(parts):
        value = builder.extract_value(result, place) if together else result
        for word in _written(context, builder, kind, value):
            words.write(word)
            words.place += 1
    builder.ret(ir.IntType(32)(0))
    library.add_ir_module(module)


class _Words:
    """Words in memory, one after the other."""

    def __init__(self, builder: Any, address: Any) -> None:
        self._builder, self._address, self.place = builder, address, 0

    def _next(self) -> Any:
        return self._builder.gep(self._address, [ir.IntType(32)(self.place)])

    def read(self) -> Any:
        """Generate the code that reads the next word."""
        word = self._builder.load(self._next())
        self.place += 1
        return word

    def write(self, value: Any) -> None:
        """Generate the code that writes the next word."""
        self._builder.store(value, self._next())


def _read(context: Any, builder: Any, kind: Any, words: _Words) -> Any:
    """Generate the code that makes an argument of words."""
    if isinstance(kind, types.BaseTuple):
        items = [_read(context, builder, item, words) for item in kind]
        return context.make_tuple(builder, kind, items)
    if isinstance(kind, types.Array):
        return _read_array(context, builder, kind, words)
    word = words.read()
    if isinstance(kind, types.Float):
        value = builder.bitcast(word, ir.DoubleType())
        return builder.fptrunc(value, ir.FloatType()) if kind == types.float32 else value
    if isinstance(kind, types.Boolean):
        return builder.icmp_unsigned("!=", word, _WORD(0))
    return word if kind.bitwidth == _LARGEST else builder.trunc(word, ir.IntType(kind.bitwidth))


def _read_array(context: Any, builder: Any, kind: Any, words: _Words) -> Any:
    array = context.make_array(kind)(context, builder)
    size = _WORD(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    data = builder.inttoptr(words.read(), array.data.type)
    shape = [words.read() for _ in range(kind.ndim)]
    strides = [size]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    populate_array(array, data=data, shape=shape, strides=strides[: kind.ndim], itemsize=size, meminfo=None)
    return array._getvalue()


def _written(context: Any, builder: Any, kind: Any, value: Any) -> Iterator[Any]:
    """Generate the code that makes words of a result."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        yield builder.ptrtoint(array.meminfo, _WORD)
        yield builder.ptrtoint(array.data, _WORD)
        yield from cgutils.unpack_tuple(builder, array.shape, kind.ndim)
    elif isinstance(kind, types.Float):
        value = builder.fpext(value, ir.DoubleType()) if kind == types.float32 else value
        yield builder.bitcast(value, _WORD)
    elif isinstance(kind, types.Boolean):
        yield builder.zext(value, _WORD)
    elif kind.bitwidth == _LARGEST:
        yield value
    else:
        yield (builder.sext if kind.signed else builder.zext)(value, _WORD)
