"""Numba's objects for kernels: how they are compiled and kept."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core import config, types
from numba.core import dispatcher as numba_dispatcher
from numba.core.registry import CPUDispatcher, cpu_target
from numba.extending import intrinsic

from mlsim._jit import kept
from mlsim._jit.announcing import announcer
from mlsim._jit.cache import cache_directory, room_of
from mlsim._jit.compiler.libraries import InnerCompiler, InnerLibrary, OuterCompiler

__all__ = ["dispatcher_of", "type_of_intrinsic"]

_settings: Any = config  # mypy does not see the names that numba fills in later
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


def dispatcher_of(body: Callable[..., Any], options: dict[str, Any], inner: bool) -> Any:
    """Make numba's object for a kernel.

    Parameters
    ----------
    body
        The function.
    options
        Of ``numba.njit``, on top of what holds for all kernels.
    inner
        Whether it lacks machine code, and the wrappers by which Python calls it.
    """
    own = dict(options)
    keeps = own.pop("cache", True)
    if not inner:
        dispatcher: Any = _Dispatcher(body, {**_OPTIONS, **own})
    else:
        dispatcher = _InnerDispatcher(body, {**_OPTIONS, "no_cpython_wrapper": True, **own})
    if keeps:
        _keep(dispatcher, inner)
    return dispatcher


def type_of_intrinsic(typed: Callable[..., Any]) -> Any:
    """Register with numba a function that types calls and generates their code; return the type of it."""
    known = intrinsic(typed)
    context = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(known)


def _keep(compiled: Any, inner: bool) -> None:
    """Keep what Python calls for calls without numba as well; where it cannot be kept, go on without.

    Numba would raise where a kernel cannot be written to disk.
    """
    directory = cache_directory(room_of(compiled.py_func))
    before = _settings.CACHE_DIR
    _settings.CACHE_DIR = str(Path(directory, "parts")) if inner else directory
    try:
        compiled.enable_caching()
    finally:
        _settings.CACHE_DIR = before
    cache = compiled._cache
    save = cache.save_overload

    def save_if_possible(signature: Any, data: Any) -> None:
        try:
            save(signature, data)
            made = getattr(data.library, "entry", None)
            if made is not None:
                kept.save(compiled.py_func, made)
        except OSError as error:
            announcer.cannot_keep(error)

    cache.save_overload = save_if_possible
    cache.load_overload = getattr(cache, "_load_overload", cache.load_overload)  # or it looks for additions
    if inner:
        _load_as_inner(compiled)


def _load_as_inner(compiled: Any) -> None:
    """Have what was kept of a kernel without machine code loaded without making any."""
    keeper = compiled._cache._impl
    rebuild = keeper.rebuild

    def rebuild_as_inner(context: Any, kept: Any) -> Any:
        codegen = context.codegen()
        usual, codegen._library_class = codegen._library_class, InnerLibrary
        try:
            return rebuild(context, kept)
        finally:
            codegen._library_class = usual

    keeper.rebuild = rebuild_as_inner
