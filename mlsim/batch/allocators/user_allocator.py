"""The allocator of the user's own that the kernels ask; there is one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import by_numba

__all__ = ["answer", "asked_in_kernels"]

Ints = NDArray[np.int64]
Answer = Callable[[int, int, Ints, Ints, Ints, Ints], bool]

_current: list[Answer] = []


@contextmanager
def asked_in_kernels(allocator: Answer | None) -> Iterator[None]:
    """Have kernels ask this allocator meanwhile."""
    if allocator is None:
        yield
        return
    by_numba()  # kernels that are called without it cannot ask Python
    _current.append(allocator)
    try:
        yield
    finally:
        _current.pop()


def answer(number: int, units: int, request: Ints, free: Ints, capacity: Ints, placed: Ints) -> bool:
    """Put units on nodes of ``placed``; give whether there was room for all."""
    return _current[-1](number, units, request, free, capacity, placed)
