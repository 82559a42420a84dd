"""Tuples of arrays for kernels: handed over by the addresses of the arrays, or without counting references.

Both are derived from the declaration of the tuple, a NamedTuple whose fields have the types here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar, cast, get_args, get_type_hints

import numpy as np
from numba.np.numpy_support import carray
from numpy.typing import NDArray

from mlsim._jit import borrowed, generated, pointer

__all__ = [
    "FloatColumns",
    "Floats",
    "IntBlocks",
    "IntColumns",
    "Ints",
    "borrower",
    "pack_pointers",
    "unpacker",
]

Ints = Annotated[NDArray[np.int64], "int64", 1]
IntColumns = Annotated[NDArray[np.int64], "int64", 2]
IntBlocks = Annotated[NDArray[np.int64], "int64", 3]
Floats = Annotated[NDArray[np.float64], "float64", 1]
FloatColumns = Annotated[NDArray[np.float64], "float64", 2]

Tuple = TypeVar("Tuple", bound=tuple[Any, ...])


def _fields(kind: type[Any]) -> list[tuple[str, str, int]]:
    """List name, dtype and number of dimensions of the arrays of a tuple."""
    hints = get_type_hints(kind, include_extras=True)
    return [(name, *get_args(hints[name])[1:]) for name in kind._fields]


def pack_pointers(arrays: tuple[NDArray[Any], ...]) -> NDArray[np.int64]:
    """Return where arrays are in memory, address and shape of each; the caller goes on owning them."""
    packed = np.zeros((len(arrays), 4), np.int64)
    for (name, dtype, dimensions), array, row in zip(_fields(type(arrays)), arrays, packed, strict=True):
        assert array.flags.c_contiguous, name
        assert array.dtype == dtype, name
        assert array.ndim == dimensions, name
        row[0], row[1 : 1 + array.ndim] = array.ctypes.data, array.shape
    return packed


def unpacker(kind: type[Tuple]) -> Callable[[NDArray[np.int64]], Tuple]:
    """Make the function that, in a kernel, makes a tuple of what :func:`pack_pointers` returns."""
    fields = []
    for k, (_, dtype, dimensions) in enumerate(_fields(kind)):
        shape = "".join(f"packed[{k}, {axis + 1}], " for axis in range(dimensions))
        fields.append(f"carray(pointer(packed[{k}, 0]), ({shape}), np.{dtype})")
    return _made("packed", kind, fields)


def borrower(kind: type[Tuple]) -> Callable[[Tuple], Tuple]:
    """Make the function that, in a kernel, returns a tuple whose arrays are borrowed."""
    return _made("arrays", kind, [f"borrowed(arrays.{name})" for name, *_ in _fields(kind)])


def _made(parameter: str, kind: type[Any], fields: list[str]) -> Callable[[Any], Any]:
    """Make the function of one parameter that returns a tuple of these expressions."""
    namespace = {
        "__name__": __name__,
        "kind": kind,
        "carray": carray,
        "pointer": pointer,
        "borrowed": borrowed,
        "np": np,
    }
    exec(f"def make({parameter}):\n    return kind({', '.join(fields)})", namespace)
    return generated(cast(Callable[[Any], Any], namespace["make"]))
