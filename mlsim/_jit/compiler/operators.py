"""Operators over numbers, whose types numba works out anew wherever one is used."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from numba.core import types as numba_types

__all__ = ["remember_types"]

types: Any = numba_types  # it is not typed itself


def remember_types(context: Any) -> None:
    """Have a typing context remember what operators and other built-in functions return.

    Numba asks all that could answer, of arrays, texts, sets and dates as well, for each place where ``a + b``
    or ``a[k]`` is written, when it works out types and again when it generates code: a tenth of the time
    that compiling takes. The answer depends on nothing but the types of the arguments.
    """
    context.resolve_function_type = _remembered(context.resolve_function_type)
    ask = types.Function.get_call_type
    answers: dict[Any, Callable[..., Any]] = {}

    def answer(function: Any, asked: Any, arguments: Any, named: Any) -> Any:
        if asked is not context:
            return ask(function, asked, arguments, named)
        if function not in answers:
            answers[function] = _remembered(lambda _, *given: ask(function, context, *given))
        return answers[function](function, arguments, named)

    types.Function.get_call_type = answer


def _remembered(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that resolves a call once for each function and types of numbers and arrays."""
    known: dict[Hashable, Any] = {}

    def resolve_once(function: Any, arguments: Any, named: Any) -> Any:
        if named or not (_is_built_in(function) and all(map(_is_plain, arguments))):
            return resolve(function, arguments, named)
        question = function, tuple(arguments)
        if question not in known:
            found = resolve(function, arguments, named)
            if found is None:
                return None
            known[question] = found
        return known[question]

    return resolve_once


def _is_built_in(function: Any) -> bool:
    """Whether this is an operator, or a function of Python's own such as ``max``."""
    key = getattr(function, "typing_key", function)
    return getattr(key, "__module__", "") in ("_operator", "builtins")


def _is_plain(kind: Any) -> bool:
    """Whether nothing that is compiled can change what a type means: numbers, and arrays of them."""
    if isinstance(kind, types.Array):
        kind = kind.dtype
    return isinstance(kind, types.Number | types.Boolean)
