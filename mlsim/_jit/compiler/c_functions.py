"""What :mod:`mlsim._jit.c_functions` declares."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

__all__ = ["c_function"]


def c_function(result: str, parameters: tuple[str, ...]) -> Any:
    """Make what types the function that :func:`mlsim._jit.c_function` returns."""
    returned_type = getattr(types, result)
    together = types.Tuple([getattr(types, name) for name in parameters])

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = [builder.extract_value(arguments[1], item) for item in range(len(signature.args[1]))]
        returned = context.get_value_type(signature.return_type)
        kind = ir.FunctionType(returned, [value.type for value in values])
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), values)

    def declare(_typing: Any, _address: Any, *_arguments: Any) -> Any:
        return returned_type(types.intp, together), make

    return declare
