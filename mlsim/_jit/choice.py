"""Kernels chosen by type when the kernel that calls them is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar, cast

from mlsim._jit.mode import INTERPRETED, Late

__all__ = ["by_last_type"]

F = TypeVar("F", bound=Callable[..., Any])


def by_last_type(answers: Mapping[type, Callable[..., Any]]) -> Callable[[F], F]:
    """Have a declared function answered, in kernels, by the kernel for the type of its last argument.

    The choice is made when the calling kernel is compiled, and costs nothing when it runs.

    Parameters
    ----------
    answers
        Kernels by type of named tuple; all take what the declaration does.

    Returns
    -------
    callable
        A decorator for the declaration, whose body is never run.
    """

    def declare(declared: F) -> F:
        if INTERPRETED:

            @wraps(declared)
            def ask(*arguments: Any) -> Any:
                return answers[type(arguments[-1])](*arguments)

            return cast(F, ask)

        def register() -> Any:
            return import_module("mlsim._jit.compiler.choice").type_of_choice(declared, answers)

        return cast(F, Late(register, answers))

    return declare
