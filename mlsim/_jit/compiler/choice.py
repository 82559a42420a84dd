"""What :mod:`mlsim._jit.choice` declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global

__all__ = ["type_of_choice"]


def type_of_choice(declared: Callable[..., Any], answers: Mapping[type, Callable[..., Any]]) -> Any:
    """Register with numba the kernel that stands for a function; return the function's type."""

    def chosen(arguments: Any) -> Any:
        return answers[arguments[-1].instance_class]

    class Choice(AbstractTemplate):
        key = declared

        def generic(self, args: Any, kws: Any) -> Any:
            assert not kws, "by position only"
            return types.Dispatcher(chosen(args).part).get_call_type(self.context, args, kws)

        def get_impl_key(self, sig: Any) -> Any:
            return chosen(sig.args).part.get_overload(sig.args)

    kind = types.Function(Choice)
    infer_global(declared, kind)
    return kind
