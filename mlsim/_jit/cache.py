"""Where compiled kernels are kept on disk: a directory for each state of all the kernels of a room.

Numba takes a kernel from its cache if the kernel's own file has not changed, even where a kernel it
calls has. So the cache has a directory for each state of all the kernels of a room together; kernels
call none of another room.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["cache_directory", "fingerprint", "made_of", "room_of"]

_PACKAGE = Path(__file__).parent.parent
_IMPORTS = re.compile(r"^[ \t]*from (mlsim[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


def fingerprint(package: Path, room: str) -> str:
    """Fingerprint what the kernels of a room, that is of a folder of the package, are made of."""
    digest = hashlib.blake2b(digest_size=8)
    for _, source in sorted(made_of(package, room).items()):
        digest.update(source)
    return digest.hexdigest()


def made_of(package: Path, room: str) -> dict[Path, bytes]:
    """Read the sources of a room's kernels, and of the modules whose constants are compiled into them.

    Those are what kernels import, and, inside the room, what that imports in turn.
    """
    inside = package / room
    sources = {path: path.read_bytes() for path in inside.rglob("*.py")}
    waiting = [path for path, source in sources.items() if b"mlsim._jit" in source]
    found = {path: path.read_bytes() for path in (package / "_jit").rglob("*.py")}
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = sources[path] if path in sources else path.read_bytes()
            if path.is_relative_to(inside):
                waiting += _imported(package, found[path].decode())
    return found


def _imported(package: Path, source: str, of: Collection[str] | None = None) -> list[Path]:
    """List the files of the package that a source imports; with ``of``, those that give it these names."""
    files = []
    head = source.split("\n__all__", 1)[0]  # imports stand before it, and looking at it alone is quick
    for module, imported in _IMPORTS.findall(head):
        if module == "mlsim._jit":
            continue  # all of it counts anyway
        names = set(re.findall(r"\w+", imported))
        if of is not None and names.isdisjoint(of):
            continue
        place = package.joinpath(*module.split(".")[1:])
        files += [place.with_suffix(".py"), *(place / f"{name}.py" for name in sorted(names))]
        if of is None and (room := place / "__init__.py").is_file():
            files += [room, *_imported(package, room.read_text(encoding="utf-8"), names)]
    return [path for path in files if path.is_file()]


@cache
def cache_directory(room: str) -> str:
    """Return the first writable one of NUMBA_CACHE_DIR, a directory beside the package, the user's cache."""
    name = f"kernels-{room}-{fingerprint(_PACKAGE, room)}"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    places = [_PACKAGE / "__pycache__", home / "mlsim"]
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        places.insert(0, Path(given))
    for place in places:
        directory = place / name
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue  # a read-only installation; the next place will do
        if os.access(directory, os.W_OK | os.X_OK):
            return str(directory)
    return tempfile.mkdtemp(prefix="mlsim-kernels-")


def room_of(function: Callable[..., Any]) -> str:
    """Return the folder of the package in which a function is written."""
    parts = function.__module__.split(".")
    return parts[1] if parts[0] == "mlsim" and len(parts) > 2 else ""
