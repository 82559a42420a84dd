"""Numba's objects for kernels: how they are compiled and kept."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from numba.core import dispatcher as numba_dispatcher
from numba.core import types
from numba.core.registry import CPUDispatcher, cpu_target
from numba.extending import intrinsic

from mlsim._jit.announcing import announcer
from mlsim._jit.compiler.libraries import InnerCompiler, OuterCompiler
from mlsim._jit.compiler.results import KeptResults

__all__ = ["dispatcher_of", "type_of_intrinsic"]

_OPTIONS: dict[str, Any] = {"nopython": True, "boundscheck": None, "nogil": True, "no_cfunc_wrapper": True}
_OPTIONS |= {"error_model": "numpy"}
cpu_target.target_context.refresh()  # kernels that are read from disk need numba's memory of arrays as well


_FunctionCompiler: Any = numba_dispatcher._FunctionCompiler  # type: ignore[attr-defined]  # not public


class _Compiler(_FunctionCompiler):
    """Numba's compiler of one function, announced where it takes long.

    Garbage is not collected meanwhile: numba's objects grow in number, looking through them takes a tenth of
    the time, and there is little to be found before the kernel is ready.
    """

    def compile(self, args: Any, return_type: Any) -> Any:
        """Compile the function for arguments of these types."""
        collects = gc.isenabled()
        gc.disable()
        announcer.begin()
        try:
            return super().compile(args, return_type)
        finally:
            announcer.end()
            if collects:
                gc.enable()


class _Dispatcher(CPUDispatcher):
    """Numba's object for a kernel that Python calls."""

    pipeline: type = OuterCompiler

    def __init__(self, body: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(body, locals={}, targetoptions=options, pipeline_class=self.pipeline)
        self._compiler = _Compiler(body, self.targetdescr, options, {}, self.pipeline)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Type a call; one with constants as one with numbers, which compiles nothing for each constant."""
        return super().get_call_template(tuple(map(types.unliteral, args)), kws)


class _InnerDispatcher(_Dispatcher):
    """Numba's object for a kernel that only kernels call: Python would jump to address 0."""

    pipeline = InnerCompiler

    def _compile_for_args(self, *_arguments: Any, **_options: Any) -> Any:
        name = self.py_func.__name__
        raise TypeError(f"{name} is called from Python; only kernels can call it: declare yours with @kernel")

    def _insert(self, *_arguments: Any, **_options: Any) -> None:
        """Let calls from Python find nothing."""


def dispatcher_of(kernel: Any, inner: bool) -> Any:
    """Make numba's object for a kernel.

    Parameters
    ----------
    kernel
        The kernel, with its options of ``numba.njit`` on top of what holds for all.
    inner
        Whether it lacks machine code, and the wrappers by which Python calls it.
    """
    options = {**_OPTIONS, "no_cpython_wrapper": True} if inner else dict(_OPTIONS)
    options |= kernel.options
    keeps = options.pop("cache", True)
    made: Any = (_InnerDispatcher if inner else _Dispatcher)(kernel.py_func, options)
    if keeps:
        made._cache = KeptResults(kernel, inner)
    return made


def type_of_intrinsic(typed: Callable[..., Any]) -> Any:
    """Register with numba a function that types calls and generates their code; return the type of it."""
    known = intrinsic(typed)
    context = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(known)
