"""Numba's objects for kernels: how they are compiled and kept."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config, event, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from mlsim._jit import kept
from mlsim._jit.announcing import announcer
from mlsim._jit.cache import cache_directory, room_of
from mlsim._jit.compiler.libraries import InnerCompiler, InnerLibrary, OuterCompiler, make_parts_of_numbas
from mlsim._jit.compiler.linear_algebra import load_without_scipy
from mlsim._jit.compiler.operators import remember_types
from mlsim._jit.compiler.shortcuts import take_shortcuts

__all__ = ["dispatcher_of", "type_of_intrinsic"]

_settings: Any = config  # mypy does not see the names that numba fills in later
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_LEVEL = 2
"""How hard LLVM tries, at most."""


class _Listener(event.Listener):
    """Has compiling announced."""

    def on_start(self, event: event.Event) -> None:  # noqa: ARG002 - the listener's signature
        announcer.begin()

    def on_end(self, event: event.Event) -> None:  # noqa: ARG002 - the listener's signature
        announcer.end()


event.register("numba:compile", _Listener())
load_without_scipy()
remember_types(cpu_target.typing_context)
take_shortcuts(cpu_target.target_context)
make_parts_of_numbas(cpu_target.target_context.codegen())


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
    directory = cache_directory(room_of(body))
    _settings.CACHE_DIR = str(Path(directory, "parts")) if inner else directory  # looked at by numba.njit
    own: dict[str, Any] = {"pipeline_class": OuterCompiler}
    if inner:
        own = {"no_cpython_wrapper": True, "pipeline_class": InnerCompiler}
    dispatcher: Any = numba.njit(**{**_OPTIONS, **own, **options})(body)
    _take_constants_as_numbers(dispatcher)
    _keep(dispatcher)
    _compile_sparingly(dispatcher)
    if inner:
        _load_as_inner(dispatcher)
        _refuse_python(dispatcher)
    return dispatcher


def type_of_intrinsic(typed: Callable[..., Any]) -> Any:
    """Register with numba a function that types calls and generates their code; return the type of it."""
    known = intrinsic(typed)
    context = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(known)


def _compile_sparingly(compiled: Any) -> None:
    """Have a kernel compiled with less effort than numba's.

    The most that LLVM can do, level 3, takes longer than level 2, and event loops and passes are not faster
    for it. And to collect garbage while numba's objects grow in number takes a tenth of the time, and finds
    little before the kernel is ready.
    """
    compile_all = compiled.compile

    def compile_sparingly(signature: Any) -> Any:
        level, collects = _settings.OPT, gc.isenabled()
        _settings.OPT = type(level)(min(level, _LEVEL))
        gc.disable()
        try:
            return compile_all(signature)
        finally:
            _settings.OPT = level
            if collects:
                gc.enable()

    compiled.compile = compile_sparingly


def _take_constants_as_numbers(compiled: Any) -> None:
    """Have a kernel that is called with constants compiled once, not once more for each."""
    template_for = compiled.get_call_template

    def template_for_numbers(arguments: Any, keywords: Any) -> Any:
        return template_for(tuple(map(types.unliteral, arguments)), keywords)

    compiled.get_call_template = template_for_numbers


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


def _refuse_python(compiled: Any) -> None:
    """Have a kernel that only kernels can call say so; numba would jump to address 0."""

    def refuse(*_arguments: Any, **_options: Any) -> Any:
        name = compiled.py_func.__name__
        raise TypeError(f"{name} is called from Python; only kernels can call it: declare yours with @kernel")

    compiled._compile_for_args = refuse
    compiled._insert = lambda *_arguments, **_options: None  # else Python's calls would find it


def _keep(compiled: Any) -> None:
    """Keep what Python calls for calls without numba as well; where it cannot be kept, go on without.

    Numba would raise where a kernel cannot be written to disk.
    """
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
