"""Tuples of arrays for kernels, which are handed over by the address of a table of their addresses.

The table is derived from the declaration of the tuple, a NamedTuple whose fields have the types here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import PACKED_WORDS, unpacker

__all__ = [
    "FloatColumns",
    "Floats",
    "IntBlocks",
    "IntColumns",
    "Ints",
    "by_address",
    "pack_pointers",
]

Ints = Annotated[NDArray[np.int64], "int64", 1]
IntColumns = Annotated[NDArray[np.int64], "int64", 2]
IntBlocks = Annotated[NDArray[np.int64], "int64", 3]
Floats = Annotated[NDArray[np.float64], "float64", 1]
FloatColumns = Annotated[NDArray[np.float64], "float64", 2]

Tuple = TypeVar("Tuple", bound=tuple[Any, ...])


@cache
def _fields(kind: type[Any]) -> Sequence[tuple[str, str, int]]:
    """List name, dtype and number of dimensions of the arrays of a tuple; found once, as it takes long."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((name, *get_args(hints[name])[1:]) for name in kind._fields)


def pack_pointers(arrays: tuple[NDArray[Any], ...]) -> NDArray[np.int64]:
    """Return where arrays are in memory, address and shape of each; the caller goes on owning them.

    Kernels take the address of what is returned, which has to live as long.
    """
    packed = np.zeros((len(arrays), PACKED_WORDS), np.int64)
    for (name, dtype, dimensions), array, row in zip(_fields(type(arrays)), arrays, packed, strict=True):
        assert array.flags.c_contiguous, name
        assert array.dtype == dtype, name
        assert array.ndim == dimensions, name
        row[0], row[1 : 1 + array.ndim] = array.ctypes.data, array.shape
    return packed


def by_address(kind: type[Tuple]) -> Callable[[int], Tuple]:
    """Make the function by which a kernel reads a tuple, of the address of what packing it returned."""
    return unpacker(kind, _fields(kind))
