"""The identity of a kernel: the key under which its machine code is found."""

import enum
import hashlib
import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mlsim._jit.mode import HARMLESS, SETTINGS_FILE, Late

_LIBRARIES = {"numpy", "numba", "llvmlite"}
"""Packages identified by their version alone."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic, np.dtype)
_COMPILER = Path(__file__).parent


def digest_of(content: bytes) -> str:
    """Return a checksum, as text."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


class _UnknownError(Exception):
    """A kernel names what has no identity beyond this process, such as an open file."""


def key_of(kernel: Any, fresh: bool = False) -> str | None:
    """Return the key of a kernel; None if it names what cannot be identified.

    With ``fresh``, all that it is made of is looked at again: constants may have been set meanwhile.
    """
    try:
        return _Digests({} if fresh else _known).of(kernel)
    except _UnknownError:
        return None


_known: Any = WeakKeyDictionary()


class _Digests:
    """Digests of kernels, each made of the digests of those that it calls."""

    def __init__(self, known: Any) -> None:
        self._known = known
        self._open: dict[int, int] = {}
        self._reached = 0
        self._looped: set[int] = set()  # places of kernels that one below them names

    def of(self, kernel: Any) -> str:
        """Return the digest of a kernel or function; one already being visited counts by its place above."""
        if kernel in self._known:
            return str(self._known[kernel])
        if id(kernel) in self._open:
            place = self._open[id(kernel)]
            self._reached = min(self._reached, place)
            if place < len(self._open) - 1:
                self._looped.add(place)
            return f"above {len(self._open) - place}"
        before, place = self._reached, len(self._open)
        self._open[id(kernel)], self._reached = place, place
        own = vars(kernel)
        options = own.get("options", own.get("targetoptions", {}))
        facts = [self._function(own.get("py_func", kernel)), self._of(dict(options)), str(own.get("inner"))]
        digest = digest_of("\n".join(facts).encode())
        del self._open[id(kernel)]
        # Kernels that name each other are not remembered: the digest of one would contain that of the other
        # or not, depending on which was visited first. Nor is one that depends on those above.
        if self._reached >= place and place not in self._looped:
            self._known[kernel] = digest
        self._looped.discard(place)
        self._reached = min(before, self._reached)
        return digest

    def _function(self, body: FunctionType) -> str:
        cells = [cell.cell_contents for cell in body.__closure__ or ()]
        names = frozenset(_names(body.__code__))
        held = body.__globals__
        used = [f"{name}={self._of(held[name], names)}" for name in sorted(names & held.keys())]
        own = [str(body.__module__), body.__qualname__, self._code(body.__code__)]
        rest = [self._of(part, names) for part in (body.__defaults__, body.__kwdefaults__, cells)]
        return "\n".join(own + rest + used)

    def _code(self, code: CodeType) -> str:
        parts = [code.co_code.hex(), code.co_exceptiontable.hex()]
        parts += map(repr, (code.co_names, code.co_varnames, code.co_freevars))
        parts += [f"{code.co_argcount} {code.co_kwonlyargcount} {code.co_flags}"]
        return " ".join([*parts, *map(self._of, code.co_consts)])

    def _of(self, value: Any, names: frozenset[str] = frozenset()) -> str:
        """Describe what a function names; ``names`` are those of attributes that it reads."""
        if isinstance(value, CodeType):
            return self._code(value)
        if isinstance(value, _PLAIN):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return f"{value.dtype} {value.shape} {digest_of(value.tobytes())}"
        if isinstance(value, tuple | list):
            return f"{named_tuple(type(value))}({', '.join(self._of(item, names) for item in value)})"
        if isinstance(value, set | frozenset):
            return f"set({sorted(self._of(item) for item in value)})"
        if isinstance(value, Mapping):
            return ", ".join(f"{self._of(key)}: {self._of(item, names)}" for key, item in value.items())
        if isinstance(value, Late):
            return f"late {self._of(value.identity)}"
        if "py_func" in getattr(value, "__dict__", ()):
            return self.of(value)
        return self._named(value, names)

    def _named(self, value: Any, names: frozenset[str]) -> str:
        """Describe modules, classes and functions: by name those of libraries, else by what is in them."""
        module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        root = (module or type(value).__module__).partition(".")[0]
        if root in _LIBRARIES or (root in sys.stdlib_module_names and not isinstance(value, FunctionType)):
            own = "" if isinstance(value, ModuleType) else repr(value)
            name = getattr(value, "__qualname__", own)
            if " at 0x" in name:
                raise _UnknownError  # it is known by its address alone
            return f"{module}.{name}"
        if isinstance(value, ModuleType):
            found = ((name, vars(value)[name]) for name in sorted(names & vars(value).keys()))
            return f"{module}: " + ", ".join(f"{name}={self._of(one, names)}" for name, one in found)
        if isinstance(value, FunctionType):
            return self.of(value)
        if isinstance(value, type) and issubclass(value, enum.Enum):
            return f"{named_tuple(value)} {self._of({one.name: one.value for one in value})}"
        if isinstance(value, type) and (issubclass(value, BaseException) or hasattr(value, "_fields")):
            return named_tuple(value)
        if isinstance(value, BuiltinFunctionType) or type(value).__module__ == "mlsim._jit.mode":
            return f"{module}.{getattr(value, '__qualname__', type(value).__qualname__)}"
        raise _UnknownError


def named_tuple(kind: type) -> str:
    """Name a kind of tuples, with its fields."""
    return f"{kind.__module__}.{kind.__qualname__}({' '.join(getattr(kind, '_fields', ()))})"


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _compiler_files() -> str:
    """Digest the compiler modules of this package; what is no file, such as an editor's lock, is none."""
    sources = (path for path in _COMPILER.rglob("*.py") if path.stem.isidentifier() and path.is_file())
    return digest_of(b"".join(f"\0{path.name}\0".encode() + path.read_bytes() for path in sorted(sources)))


_AT_FIRST = _compiler_files()
"""The compiler as it was before any of it was loaded."""


def is_as_loaded() -> bool:
    """Whether the compiler in memory is that of :func:`stamp`: its files are as they were, as is Numba."""
    numba = sys.modules.get("numba")
    try:
        return _compiler_files() == _AT_FIRST and (numba is None or numba.__version__ == _numba_version())
    except OSError:  # an upgrade removes files before it writes others
        return False


@cache
def _numba_version() -> str:
    """Return the version of Numba without loading it."""
    spec = find_spec("numba")
    if spec is None or spec.origin is None:
        raise ImportError("numba")
    text = Path(spec.origin).with_name("_version.py").read_text(encoding="utf-8")
    found = re.search(r'"version": "([^"]+)"', text)
    return found[1] if found else digest_of(text.encode())


@cache
def stamp() -> str:
    """Identify what machine code depends on besides the kernel: versions, settings and the processor.

    Raises ImportError, OSError or RuntimeError if it cannot be found out.
    """
    from llvmlite import __version__, binding

    settings = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NUMBA_"))
    settings = [setting for setting in settings if setting.partition("=")[0] not in HARMLESS]
    if SETTINGS_FILE.exists():
        settings.append(SETTINGS_FILE.read_text(encoding="utf-8"))
    cpu = binding.get_process_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    versions = sysconfig.get_config_var("SOABI") or sys.version, __version__, _numba_version(), np.__version__
    return digest_of("\n".join([*versions, *cpu, _AT_FIRST, *settings]).encode())
