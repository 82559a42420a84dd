"""Compiled kernels as numba knows them, kept on disk: pickles in files of :mod:`mlsim._jit.store`.

Numba's own cache goes by the file in which a function stands, and unpickles whatever it finds.
"""

from __future__ import annotations

import pickle
from typing import Any

from numba.core import types as numba_types
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature

from mlsim._jit import kept
from mlsim._jit.announcing import announcer
from mlsim._jit.compiler.libraries import InnerLibrary
from mlsim._jit.compiler.named_tuples import Packed, Shared
from mlsim._jit.identity import is_as_loaded, key_of, named_tuple, stamp
from mlsim._jit.store import file_name, read, write

__all__ = ["KeptResults"]

types: Any = numba_types  # it is not typed itself


class KeptResults(_Cache):
    """What numba asks for a compiled kernel, and gives one to keep.

    Parameters
    ----------
    kernel
        The kernel.
    inner
        Whether this is about it as a part of others, without machine code.
    """

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
        """Keep what was compiled, if it can be; where it cannot be written, go on without."""
        name = self._name(sig)
        lasts = not data.library.has_dynamic_globals and all(lifted.can_cache for lifted in data.lifted)
        if name is None or not lasts or key_of(self._kernel, fresh=True) != self._key:
            return
        if not is_as_loaded():
            announcer.cannot_keep("mlsim or Numba was changed while this process runs")
            return
        try:
            write(name, dumps(data._reduce()))
            made = getattr(data.library, "entry", None)
            if made is not None:
                kept.save(self._kernel, made)
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
    if isinstance(kind, types.Dispatcher | types.Function | types.Opaque | types.ClassInstanceType):
        return None
    if isinstance(kind, Shared):
        return f"shared {_described(kind.content)}"
    if isinstance(kind, Packed):
        return f"packed {named_tuple(kind.instance_class)} {kind.arrays}"
    if isinstance(kind, types.BaseTuple):
        items = [_described(item) for item in kind]
        name = named_tuple(getattr(kind, "instance_class", tuple))
        return None if None in items else f"{name}({', '.join(map(str, items))})"
    return str(kind)
