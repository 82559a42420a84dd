"""Kernels chosen by type when the kernel that calls them is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global

from mlsim._jit.mode import INTERPRETED

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
        _declare(declared, answers)
        return declared

    return declare


def _declare(declared: Callable[..., Any], answers: Mapping[type, Callable[..., Any]]) -> None:
    """Register with numba the kernel that stands for a function."""

    def chosen(arguments: Any) -> Any:
        return answers[arguments[-1].instance_class]

    class Choice(AbstractTemplate):
        key = declared

        def generic(self, args: Any, kws: Any) -> Any:
            assert not kws, "by position only"
            return types.Dispatcher(chosen(args)).get_call_type(self.context, args, kws)

        def get_impl_key(self, sig: Any) -> Any:
            return chosen(sig.args).get_overload(sig.args)

    infer_global(declared, types.Function(Choice))
