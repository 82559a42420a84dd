"""Operations inside kernels that Python lacks: borrowed arrays, atomics, bits, C functions."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, Final, TypeVar, cast

import numpy as np

from mlsim._jit.mode import INTERPRETED, Late, for_kernels, late_intrinsic
from mlsim._runtime import interpreted

Array = TypeVar("Array")

borrowed: Callable[[Array], Array] = for_kernels("borrowed", interpreted.borrowed)
"""Return an array inside a kernel as one that is not reference-counted; its owner must outlive the call.

Kernels count the references to every array that they hand to each other, with atomic additions. Where
many small kernels share many arrays, that costs more than their work; borrowed arrays are not counted.
"""

zeros: Callable[..., Any] = for_kernels("zeros", np.zeros)
"""Return a new array of zeros inside a kernel, as ``numpy.zeros(shape, dtype)`` does.

For that, numba compiles three functions for each number of dimensions and each type, a quarter of a second
of work.
"""


load_acquire: Callable[[int], int] = for_kernels("load_acquire", interpreted.refuse_atomics)
"""Read, in a kernel, an int64 at an address that another process may write; see :data:`store_release`."""
store_release: Callable[[int, int], None] = for_kernels("store_release", interpreted.refuse_atomics)
"""Write an int64 at an address; who reads it with :data:`load_acquire` sees all that was written before."""
exchange: Callable[[int, int], int] = for_kernels("exchange", interpreted.refuse_atomics)
"""Replace atomically an int64 at an address, and return its former value."""
fetch_add: Callable[[int, int], int] = for_kernels("fetch_add", interpreted.refuse_atomics)
"""Add atomically to an int64 at an address, and return its former value."""


next_bit: Callable[[int, int], int] = for_kernels("next_bit", interpreted.next_bit)
"""Return the place of the first bit set of an int64 above a place (0 to 63); 64 if there is none."""
last_bit: Callable[[int, int], int] = for_kernels("last_bit", interpreted.last_bit)
"""Return the place of the last bit set of an int64 up to a place (0 to 63); -1 if there is none."""


def c_function(result: str, *parameters: str) -> Callable[..., int]:
    """Make ``call(address, argument, ...)`` of a C function that gives a whole number, for use in kernels.

    The address is an argument and no constant, so that compiled code can be kept on disk although the
    function lies elsewhere in every process. Types are whole numbers of any width (``int32``) and, for
    parameters, ``float64``; handles and pointers are ``intp``. Arguments are converted to these widths.
    """
    if INTERPRETED:  # a type of C functions loads modules that nothing else needs
        return interpreted.c_function(result, parameters)
    return cast(Callable[..., int], late_intrinsic("c_function", result, tuple(parameters)))


F = TypeVar("F", bound=Callable[..., Any])


def by_last_type(answers: Mapping[type, Callable[..., Any]]) -> Callable[[F], F]:
    """Dispatch a declared function, in kernels, to the kernel for the type of its last argument.

    The choice is made when the calling kernel is compiled, and costs nothing when it runs. ``answers`` are
    kernels by type of named tuple; all take what the declaration does, whose body is never run.
    """

    def declare(declared: F) -> F:
        if INTERPRETED:

            @wraps(declared)
            def ask(*arguments: Any) -> Any:
                return answers[type(arguments[-1])](*arguments)

            return cast(F, ask)

        def register() -> Any:
            return import_module("mlsim._jit.numba_intrinsics").type_of_choice(declared, answers)

        return cast(F, Late(register, answers))

    return declare


Content = TypeVar("Content", bound=tuple[Any, ...])

PACKED_WORDS: Final = 4
"""Numbers by which an array is written down: its address, and lengths of up to three dimensions."""


def unpacker(kind: type[Content], fields: Sequence[tuple[str, str, int]]) -> Callable[[int], Content]:
    """Make the function by which a kernel reads a named tuple of arrays whose places are written down.

    Arrays are looked up where they are used, so a tuple of many is one word to every kernel that takes it.
    They are borrowed: the caller goes on owning them, and what is written down. ``fields`` are name, dtype
    and number of dimensions of each array. The function made takes the address of ``int64[len(fields),
    PACKED_WORDS]``: each array's address and shape.
    """
    in_python = interpreted.unpacker(kind, fields)
    return cast(Callable[[int], Content], for_kernels("unpacker", in_python, kind, fields))


shared: Callable[[Content], Content] = for_kernels("shared", interpreted.borrowed)
"""Share a named tuple of a kernel with the kernels that it calls, by a single address.

A tuple of many arrays is many arguments, each of several words, and each array's references are counted.
Fields of the result, and of named tuples in it, are read as those of the tuple, and its arrays are
borrowed: the caller must keep owning the tuple, and use it once more after the last access.
"""
