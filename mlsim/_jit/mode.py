"""Compiled or interpreted mode of kernels, and substitutes for compiled functions in interpreted mode."""

import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mlsim.errors import InputError

HARMLESS = {"NUMBA_CACHE_DIR", "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "NUMBA_DISABLE_JIT"}
"""Settings of Numba that do not change what it compiles."""
SETTINGS_FILE = Path(".numba_config.yaml")
"""File from which Numba reads further settings."""
_INTRINSICS = "mlsim._jit.numba_intrinsics"
_COMPILER = "mlsim._jit.numba_compiler"


def is_usual() -> bool:
    """Whether Numba compiles with its default settings: no variable and no file changes them."""
    told = {name for name in os.environ if name.startswith("NUMBA_")} - HARMLESS
    return not told and not SETTINGS_FILE.exists()


def _is_interpreted() -> bool:
    if is_usual() and os.environ.get("NUMBA_DISABLE_JIT", "0") in ("0", "1"):
        return os.environ.get("NUMBA_DISABLE_JIT") == "1"
    from numba.core import config  # it reads its settings in ways of its own

    settings: Any = config
    return bool(settings.DISABLE_JIT)


INTERPRETED = _is_interpreted()
"""Whether kernels run as Python functions, for ``NUMBA_DISABLE_JIT=1``."""


def require_numba(what: str) -> None:
    """Raise InputError if Numba is not installed, which alone can compile ``what``."""
    if find_spec("numba") is None:
        raise InputError(
            f"{what}: is not in mlsim's library of built kernels and has to be compiled by Numba, which is "
            "not installed; pip install 'mlsim[jit]'"
        )


class Late:
    """Placeholder that registers its content with Numba when the first kernel that names it is compiled.

    Numba asks a value that it does not know for its type. ``identity`` is all that it depends on.
    """

    def __init__(self, register: Callable[[], Any], *identity: Any) -> None:
        self._register, self.identity = register, identity
        self._type: Any = None

    @property
    def _numba_type_(self) -> Any:
        if self._type is None:
            self._type = self._register()
        return self._type

    def __call__(self, *_arguments: Any, **_options: Any) -> Any:
        """Refuse: only kernels can call it."""
        raise NotImplementedError("only kernels can call this")


def for_kernels(name: str, in_python: Callable[..., Any], *given: Any) -> Any:
    """Make a function that kernels call and numba does not know; interpreted runs call ``in_python``.

    Numba types the call by the function ``name`` of :mod:`mlsim._jit.numba_intrinsics`, or by what that makes
    of ``given``.
    """
    return in_python if INTERPRETED else late_intrinsic(name, *given)


def late_intrinsic(name: str, *given: Any) -> Late:
    """Make the placeholder of a function of :mod:`mlsim._jit.numba_intrinsics`, until a kernel names it."""

    def register() -> Any:
        typed = getattr(import_module(_INTRINSICS), name)
        return import_module(_COMPILER).type_of_intrinsic(typed(*given) if given else typed)

    return Late(register, name, *given)
