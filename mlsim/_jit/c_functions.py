"""C functions that kernels call."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from mlsim import _interpreted
from mlsim._jit.mode import for_kernels

__all__ = ["c_function"]


def c_function(result: str, *parameters: str) -> Callable[..., int]:
    """Make ``call(address, argument, ...)`` of a C function that gives a whole number, for use in kernels.

    The address is an argument and no constant, so that compiled code can be kept on disk although the
    function lies elsewhere in every process.

    Parameters
    ----------
    result, *parameters
        Names of types: whole numbers of any width (``int32``) and, for parameters, ``float64``. Handles and
        pointers are ``intp``.
        Arguments are converted to the widths of the C parameters.
    """
    in_python = _interpreted.c_function(result, parameters)
    return cast(
        Callable[..., int], for_kernels("c_functions.c_function", in_python, result, tuple(parameters))
    )
