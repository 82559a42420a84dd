"""Named tuples of which kernels are given an address: one word, however many arrays they hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

from mlsim import _interpreted
from mlsim._jit.mode import for_kernels

__all__ = ["PACKED_WORDS", "shared", "unpacker"]

Content = TypeVar("Content", bound=tuple[Any, ...])

PACKED_WORDS: Final = 4
"""Numbers by which an array is written down: its address, and lengths of up to three dimensions."""


def unpacker(kind: type[Content], fields: Sequence[tuple[str, str, int]]) -> Callable[[int], Content]:
    """Make the function by which a kernel reads a named tuple of arrays whose places are written down.

    Arrays are looked up where they are used, so a tuple of many is one word to every kernel that takes it.
    They are borrowed: the caller goes on owning them, and what is written down.

    Parameters
    ----------
    kind
        The named tuple.
    fields
        Name, dtype and number of dimensions of its arrays.

    Returns
    -------
    callable
        It takes the address of ``int64[len(fields), PACKED_WORDS]``: each array's address and shape.
    """
    in_python = _interpreted.unpacker(kind, fields)
    return cast(Callable[[int], Content], for_kernels("named_tuples.unpacker", in_python, kind, fields))


shared: Callable[[Content], Content] = for_kernels("named_tuples.shared", _interpreted.borrowed)
"""Put a named tuple inside a kernel where kernels that it calls find it, by one address.

A tuple of many arrays is many arguments, each of several words, and each array's references are counted.
Fields of what this returns, and of named tuples in it, are read as those of the tuple, and arrays in it
are borrowed: the caller must go on owning the tuple, and use it once more when all is done.
"""
