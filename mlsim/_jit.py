"""Compiled kernels: one decorator, one place that says when a machine compiles them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

import numba
from numba.core import event

__all__ = ["compile_seconds", "kernel", "quiet"]

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


class _Announcer(event.Listener):
    """Tells once per process that kernels are being compiled, and sums up the time spent."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.quiet = False
        self._depth = 0
        self._began = 0.0
        self._told = False

    def on_start(self, event: event.Event) -> None:  # noqa: ARG002 - the listener's signature
        if self._depth == 0:
            self._began = time.perf_counter()
            if not self._told and not self.quiet:
                self._told = True
                print("Compiling kernels (once per machine, kept on disk) ...", file=sys.stderr, flush=True)
        self._depth += 1

    def on_end(self, event: event.Event) -> None:  # noqa: ARG002 - the listener's signature
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began


_announcer = _Announcer()
event.register("numba:compile", _announcer)  # type: ignore[no-untyped-call]


@overload
def kernel(function: F, /) -> F: ...
@overload
def kernel(**options: Any) -> Callable[[F], F]: ...
def kernel(function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
    """Compile a function to machine code on its first call and keep the result on disk.

    Parameters
    ----------
    function
        A function over numbers and NumPy arrays.
    **options
        Further options of ``numba.njit``, such as ``inline="always"``.

    Notes
    -----
    Division follows NumPy's rules (no exception on zero). Floating point is strict: no reordering,
    so that results are the same bytes on every run.
    """

    def compile_later(body: F) -> F:
        return cast(F, numba.njit(**{**_OPTIONS, **options})(body))

    return compile_later if function is None else compile_later(function)


def compile_seconds() -> float:
    """Wall-clock seconds this process spent compiling kernels (0 when all came from the cache)."""
    return _announcer.seconds


def quiet() -> None:
    """Do not announce compilation on standard error."""
    _announcer.quiet = True
