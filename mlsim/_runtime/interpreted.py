"""Python equivalents of compiled intrinsics, for kernels that run as Python functions.

Kernels do so with ``NUMBA_DISABLE_JIT=1``: for debugging, and for tests that change kernels.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from mlsim.errors import InputError

Array = TypeVar("Array")
Call = TypeVar("Call", bound=Callable[..., Any])
Content = TypeVar("Content", bound=tuple[Any, ...])


def with_error_model(function: Call) -> Call:
    """Return a function that runs without NumPy's warnings of division by zero, as compiled kernels do."""
    return np.errstate(divide="ignore", over="ignore", invalid="ignore")(function)


def borrowed(array: Array) -> Array:
    """Return the array itself: Python counts its references anyway."""
    return array


def unpacker(kind: type[Content], fields: Sequence[tuple[str, str, int]]) -> Callable[[int], Content]:
    """Make the function that makes a named tuple of arrays whose addresses and shapes are written down."""

    def unpack(address: int) -> Content:
        from numba.np.numpy_support import carray  # here, as compiled kernels can do without numba

        words = carray(ctypes.c_void_p(address), (len(fields), 4), np.int64)
        rows = zip(words, fields, strict=True)
        return kind(
            *(
                carray(ctypes.c_void_p(int(row[0])), tuple(row[1 : 1 + n].tolist()), np.dtype(dtype))
                for row, (_, dtype, n) in rows
            )
        )

    return unpack


def c_function(result: str, parameters: Sequence[str]) -> Callable[..., int]:
    """Make ``call(address, argument, ...)`` of a C function; types by numba's names."""
    kind = ctypes.CFUNCTYPE(_c_type(result), *map(_c_type, parameters))
    casts = [float if name.startswith("float") else int for name in parameters]

    def call(address: int, *arguments: Any) -> int:
        values = [convert(value) for convert, value in zip(casts, arguments, strict=True)]
        return int(kind(int(address))(*values))

    return call


def _c_type(name: str) -> Any:
    return np.ctypeslib.as_ctypes_type(np.dtype(name))


def next_bit(word: int, place: int) -> int:
    """Return the place of the first bit set of an int64 above a place; 64 if there is none."""
    above: int = (int(word) % 2**64) >> (int(place) + 1)
    return int(place) + (above & -above).bit_length() if above else 64


def last_bit(word: int, place: int) -> int:
    """Return the place of the last bit set of an int64 up to a place; -1 if there is none."""
    below: int = int(word) % (1 << int(place) + 1)
    return below.bit_length() - 1


def refuse_atomics(*_arguments: int) -> Any:
    """Refuse: Python has no ordered reads and writes, and no addition, in memory that others change."""
    raise InputError(
        "real runs with memory that ranks share need compiled kernels; unset NUMBA_DISABLE_JIT and run again"
    )
