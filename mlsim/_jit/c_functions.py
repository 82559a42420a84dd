"""C functions that kernels call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba.core import types

from mlsim import _interpreted
from mlsim._jit.mode import for_kernels

__all__ = ["c_function"]


def c_function(result: Any, *parameters: Any) -> Callable[..., int]:
    """Make ``call(address, argument, ...)`` of a C function that gives a whole number, for use in kernels.

    The address is an argument and no constant, so that compiled code can be kept on disk although the
    function lies elsewhere in every process.

    Parameters
    ----------
    result, *parameters
        Types of numba: whole numbers of any width and, for parameters, float64. Handles and pointers are
        ``intp``.
        Arguments are converted to the widths of the C parameters.
    """

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = [builder.extract_value(arguments[1], item) for item in range(len(signature.args[1]))]
        returned = context.get_value_type(signature.return_type)
        kind = ir.FunctionType(returned, [value.type for value in values])
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), values)

    def declare(_typing: Any, _address: Any, *_arguments: Any) -> Any:
        together = types.Tuple(parameters)
        return result(types.intp, together), make

    names = [str(parameter) for parameter in parameters]
    return cast(Callable[..., int], for_kernels(declare, _interpreted.c_function(str(result), names)))
