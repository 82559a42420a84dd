"""The kernel library: machine code of mlsim's kernels that is built before users get it.

``python -m mlsim._jit build`` compiles every kernel of the manifest ahead of time and links them to one
shared library beside an index. Where both are there and fit, a process calls its kernels and needs neither
Numba nor LLVM. Where they are absent (a checkout, another processor), Numba compiles.
"""

import ctypes
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mlsim._jit.kernel_identity import digest_of

PACKAGE = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / "built"
LIBRARY, INDEX = "kernels.so", "kernels.json"
FORMAT = 1
"""Raised where an older mlsim could not call what a library has."""


class BuiltKernel(NamedTuple):
    """A kernel of the library, for arguments of some kinds."""

    address: int
    returns: tuple[str, ...]
    """Kinds of what it returns."""
    together: bool
    """Whether these are the items of a tuple."""


@dataclass(frozen=True, slots=True)
class _Library:
    """The open library, with what its index lists."""

    code: ctypes.CDLL
    level: int
    kernels: dict[str, dict[str, Any]]
    modules: dict[str, str]
    unchecked: set[str]


def name_of(kernel: Any) -> str:
    """Return the name of a kernel in the manifest and the index, its module without the package's name."""
    return f"{kernel.__module__.removeprefix('mlsim.')}.{kernel.__qualname__}"


def key_of_call(name: str, kinds: Sequence[str]) -> str:
    """Return the key of a kernel, for arguments of some kinds, in the index."""
    return f"{name}|{'|'.join(kinds)}"


def source_digest(path: Path) -> str:
    """Return the checksum of a module's source."""
    return digest_of(path.read_bytes())


def built(kernel: Any, kinds: tuple[str, ...]) -> BuiltKernel | None:
    """Return the built kernel for arguments of these kinds; None if the library has none that fits."""
    library = _library()
    if library is None or not kernel.__module__.startswith("mlsim."):
        return None
    entry = library.kernels.get(key_of_call(name_of(kernel), kinds))
    if entry is None or not _is_of_these_sources(library):
        return None
    address = ctypes.cast(getattr(library.code, f"{entry['symbol']}_{library.level}"), ctypes.c_void_p).value
    return BuiltKernel(int(address or 0), tuple(entry["returns"]), entry["together"])


def has_kernel(kernel: Any) -> bool:
    """Whether the library has a kernel, for arguments of some kinds."""
    library = _library()
    beginning = key_of_call(name_of(kernel), ())
    return (
        library is not None
        and any(key.startswith(beginning) for key in library.kernels)
        and _is_of_these_sources(library)
    )


def release(owner: int) -> None:
    """Drop a reference to the owner of an array that a built kernel made; 0: it belongs to an argument."""
    library = _library()
    if owner and library is not None:
        library.code.NRT_MemInfo_release(ctypes.c_void_p(owner))


def library_file() -> Path | None:
    """Return the file of the library that this process uses; None where Numba compiles."""
    library = _library()
    return None if library is None or not _is_of_these_sources(library) else FOLDER / LIBRARY


def _is_of_these_sources(library: _Library) -> bool:
    """Whether the modules that this process has loaded are those that the library was built of.

    A kernel is made of what its own and other loaded modules define. Each is compared once.
    """
    new = {name for name in library.unchecked if name in sys.modules}
    for name in new:
        path = getattr(sys.modules[name], "__file__", None)
        if path is None or source_digest(Path(path)) != library.modules[name]:
            _changed.append(name)
    library.unchecked.difference_update(new)
    return not _changed


_changed: list[str] = []
"""Loaded modules whose source is another one than the library's."""


@cache
def _library() -> _Library | None:
    """Open the library; None if there is none, or if it is damaged or not of this version and processor."""
    from mlsim import __version__

    try:
        index = json.loads((FOLDER / INDEX).read_bytes())
        if (index["format"], index["version"]) != (FORMAT, __version__):
            return None
        if digest_of((FOLDER / LIBRARY).read_bytes()) != index["digest"]:
            return None
        code = ctypes.CDLL(str(FOLDER / LIBRARY))
        level = next((level for level in index["levels"] if level <= code.mlsim_level()), None)
    except (OSError, ValueError, KeyError, AttributeError):  # none, damaged, or of another system
        return None
    if level is None:
        return None
    code.NRT_MemInfo_release.restype = None
    return _Library(code, level, index["kernels"], index["modules"], set(index["modules"]))
