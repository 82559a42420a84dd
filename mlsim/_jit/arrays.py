"""Arrays inside kernels: borrowed ones, whose references nobody counts, and new ones of zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from mlsim import _interpreted
from mlsim._jit.mode import for_kernels

__all__ = ["borrowed", "zeros"]

Array = TypeVar("Array")

borrowed: Callable[[Array], Array] = for_kernels("arrays.borrowed", _interpreted.borrowed)
"""Return an array inside a kernel as one that is not reference-counted; its owner must outlive the call.

Kernels count the references to every array that they hand to each other, with atomic additions. Where
many small kernels share many arrays, that costs more than their work; borrowed arrays are not counted.
"""

zeros: Callable[..., Any] = for_kernels("arrays.zeros", np.zeros)
"""Return a new array of zeros inside a kernel, as ``numpy.zeros(shape, dtype)`` does.

For that, numba compiles three functions for each number of dimensions and each type, a quarter of a second
of work.
"""
