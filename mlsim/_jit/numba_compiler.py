"""Kernel compilation by Numba, and registration of compiled kernels with it."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from typing import Any

from numba.core import dispatcher as numba_dispatcher
from numba.core import types
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from mlsim._jit import object_cache
from mlsim._jit.kernel_identity import is_as_loaded, key_of, named_tuple, stamp
from mlsim._jit.kernel_store import announcer, file_name, read, write
from mlsim._jit.numba_intrinsics import Packed, Shared
from mlsim._jit.numba_libraries import InnerCompiler, InnerLibrary, OuterCompiler, has_counted_names

_untyped: Any = types  # it is not typed itself


class KeptResults(_Cache):
    """Cache of a kernel for Numba; ``inner``: of the kernel as a part of others, without machine code."""

    def __init__(self, kernel: Any, inner: bool) -> None:
        self._kernel, self._inner = kernel, inner
        self._key = kernel.key

    @property
    def cache_path(self) -> None:
        """Nothing: it has no files of numba's."""

    def enable(self) -> None:
        """Numba asks for it."""

    def disable(self) -> None:
        """Numba asks for it."""

    def flush(self) -> None:
        """Numba asks for it before it compiles anew what is in memory."""

    def _name(self, signature: Any) -> str | None:
        arguments = [_described(kind) for kind in normalize_signature(signature)[0]]
        named = [kind for kind in arguments if kind is not None]
        if self._key is None or len(named) < len(arguments):
            return None
        suffix = "part" if self._inner else "whole"
        return file_name(
            self._kernel.__module__, self._kernel.__qualname__, self._key, (stamp(), *named), suffix
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was kept for a signature; None if nothing was."""
        name = self._name(sig)
        content = None if name is None else read(name)
        if content is None:
            return None
        context = _Reader(target_context) if self._inner else target_context
        try:
            result = CompileResult._rebuild(context, *pickle.loads(content))
        except (ImportError, AttributeError):  # of a module that only the process that kept it had
            return None
        return result._replace(target_context=target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if it can be; where it cannot be written, continue without."""
        name = self._name(sig)
        lasts = not data.library.has_dynamic_globals and all(lifted.can_cache for lifted in data.lifted)
        lasts = lasts and not (self._inner and has_counted_names(data.library))
        if name is None or not lasts or key_of(self._kernel, fresh=True) != self._key:
            return
        if not is_as_loaded():
            announcer.cannot_keep("mlsim or Numba was changed while this process runs")
            return
        try:
            write(name, dumps(data._reduce()))
            made = getattr(data.library, "entry", None)
            if made is not None:
                object_cache.save(self._kernel, made, announcer.last)
        except OSError as error:
            announcer.cannot_keep(error.strerror or str(error))


class _Reader:
    """A context of numba's that reads back parts of kernels."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def codegen(self) -> _Reader:
        """Return what reads a library."""
        return self

    def unserialize_library(self, state: Any) -> InnerLibrary:
        """Read a library, without making machine code."""
        return InnerLibrary.read_back(self._context.codegen(), state)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _described(kind: Any) -> str | None:
    """Describe a type of arguments by all that is in it; None if it means something in this process alone."""
    if isinstance(
        kind, _untyped.Dispatcher | _untyped.Function | _untyped.Opaque | _untyped.ClassInstanceType
    ):
        return None
    if isinstance(kind, Shared):
        return f"shared {_described(kind.content)}"
    if isinstance(kind, Packed):
        return f"packed {named_tuple(kind.instance_class)} {kind.arrays}"
    if isinstance(kind, _untyped.BaseTuple):
        items = [_described(item) for item in kind]
        name = named_tuple(getattr(kind, "instance_class", tuple))
        return None if None in items else f"{name}({', '.join(map(str, items))})"
    return str(kind)


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

    def __init__(self, body: Callable[..., Any], options: dict[str, Any], key: str | None) -> None:
        pipeline = type(self.pipeline.__name__, (self.pipeline,), {"key": key})
        super().__init__(body, locals={}, targetoptions=options, pipeline_class=pipeline)
        self._compiler = _Compiler(body, self.targetdescr, options, {}, pipeline)

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
        """Register no entry point for calls from Python."""


def dispatcher_of(kernel: Any, inner: bool) -> Any:
    """Make numba's object for a kernel; an ``inner`` one lacks machine code, and Python cannot call it."""
    options = {**_OPTIONS, "no_cpython_wrapper": True} if inner else dict(_OPTIONS)
    options |= kernel.options
    keeps = options.pop("cache", True)
    made: Any = (_InnerDispatcher if inner else _Dispatcher)(kernel.py_func, options, kernel.key)
    if keeps:
        made._cache = KeptResults(kernel, inner)
    return made


def type_of_intrinsic(typed: Callable[..., Any]) -> Any:
    """Register with numba a function that types calls and generates their code; return the type of it."""
    known = intrinsic(typed)
    context = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(known)
