"""The decorators of kernels."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

import numba
from numba.core import types

from mlsim._jit.announcing import cannot_keep
from mlsim._jit.cache import cache_directory, room_of
from mlsim._jit.libraries import InnerCompiler, InnerLibrary, OuterCompiler
from mlsim._jit.mode import INTERPRETED, numba_config

__all__ = ["inlined", "inner_kernel", "kernel", "leaf_kernel"]

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_LEVEL = 2
"""How hard LLVM tries, at most."""


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
        if INTERPRETED:
            return body
        numba_config.CACHE_DIR = cache_directory(room_of(body))  # looked at when a function is decorated
        compiled = numba.njit(**{**_OPTIONS, "pipeline_class": OuterCompiler, **options})(body)
        _take_constants_as_numbers(compiled)
        _forgive_full_disk(compiled)
        _compile_sparingly(compiled)
        return cast(F, compiled)

    return compile_later if function is None else compile_later(function)


def _compile_sparingly(compiled: Any) -> None:
    """Have a kernel compiled with less effort than numba's.

    The most that LLVM can do, level 3, takes longer than level 2, and event loops and passes are not faster
    for it. And to collect garbage while numba's objects grow in number takes a tenth of the time, and finds
    little before the kernel is ready.
    """
    compile_all = compiled.compile

    def compile_sparingly(signature: Any) -> Any:
        level, collects = numba_config.OPT, gc.isenabled()
        numba_config.OPT = type(level)(min(level, _LEVEL))
        gc.disable()
        try:
            return compile_all(signature)
        finally:
            numba_config.OPT = level
            if collects:
                gc.enable()

    compiled.compile = compile_sparingly


def _take_constants_as_numbers(compiled: Any) -> None:
    """Have a kernel that is called with constants compiled once, not once more for each."""
    template_for = compiled.get_call_template

    def template_for_numbers(arguments: Any, keywords: Any) -> Any:
        return template_for(tuple(map(types.unliteral, arguments)), keywords)

    compiled.get_call_template = template_for_numbers


def _inner(function: F, **options: Any) -> F:
    """Compile a kernel that lacks the wrappers by which Python calls it, and machine code."""
    compiled = kernel(
        no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=InnerCompiler, **options
    )(function)
    if not INTERPRETED:
        _load_as_inner(compiled)
        _refuse_python(compiled)
    return compiled


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


def inner_kernel(function: F) -> F:
    """Compile a kernel that only kernels call, and that becomes machine code with them alone."""
    return _inner(function)


def inlined(function: F) -> F:
    """Make a function part of the source of each kernel that calls it: it is compiled with them alone."""
    return kernel(inline="always")(function)


def leaf_kernel(function: F) -> F:
    """Compile a small kernel whose machine code becomes part of each kernel that calls it."""
    return _inner(function, forceinline=True)


def _forgive_full_disk(compiled: Any) -> None:
    """Use a kernel that cannot be kept on disk all the same; numba would raise."""
    cache = compiled._cache
    save = cache.save_overload

    def save_if_possible(signature: Any, data: Any) -> None:
        try:
            save(signature, data)
        except OSError as error:
            cannot_keep(error)

    cache.save_overload = save_if_possible
