"""Where compiled kernels are kept on disk: a directory for each state of all the kernels of a room.

Numba takes a kernel from its cache if the kernel's own file has not changed, even where a kernel it
calls has. So the cache has a directory for each state of all the kernels of a room together; kernels
call none of another room.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "Fingerprints",
    "cache_directory",
    "digest_of",
    "fingerprint",
    "is_shared",
    "kept_kernels",
    "made_of",
    "room_of",
    "write_whole",
]

_PACKAGE = Path(__file__).parent.parent
_RECENT_SECONDS = 2.0
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


class Fingerprints:
    """Fingerprints of rooms, kept on disk with what all files of the package were like.

    To read the sources of a run's rooms takes 0.05 s, to look at what the file system says of them a tenth.
    Whatever changes a file changes its time, which nobody can set; times within the last seconds are not
    trusted, as the next change could have the same.

    Parameters
    ----------
    package
        Where the rooms are.
    place
        A directory for the file, which may lack or be read-only.
    """

    def __init__(self, package: Path, place: Path) -> None:
        self._package, self._path = package, place / "kernels.sources"
        self._state, self._changed = _state_of(package)
        self._kept: dict[str, str] = self._read()

    def of(self, room: str) -> str:
        """Return the fingerprint of a room."""
        if room not in self._kept:
            self._kept[room] = fingerprint(self._package, room)
            self._write()
        return self._kept[room]

    def _read(self) -> dict[str, str]:
        try:
            state, digest, content = self._path.read_text(encoding="utf-8").split("\n", 2)
        except (OSError, ValueError):  # there is none, or it is damaged
            return {}
        if state != self._state or digest != digest_of(content.encode()):
            return {}
        return dict(line.split(" ", 1) for line in content.splitlines())

    def _write(self) -> None:
        if self._changed > time.time() - _RECENT_SECONDS:
            return
        content = "".join(f"{room} {kept}\n" for room, kept in self._kept.items())
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, f"{self._state}\n{digest_of(content.encode())}\n{content}".encode())
        except OSError:
            return  # read-only, or no room: sources are read again the next time


def _state_of(package: Path) -> tuple[str, float]:
    """Digest what the file system says of all modules of the package; also when the last one was changed."""
    found, folders, last = [], [package], 0
    while folders:
        folder = folders.pop()
        for entry in os.scandir(folder):
            if entry.name.endswith(".py"):
                facts = entry.stat()
                times = f"{facts.st_mtime_ns} {facts.st_ctime_ns}"
                found.append(f"{entry.path} {facts.st_ino} {facts.st_size} {times}")
                last = max(last, facts.st_ctime_ns)
            elif entry.name != "__pycache__" and entry.is_dir():
                folders.append(Path(entry.path))
    return digest_of("\n".join(sorted(found)).encode()), last / 1e9


def digest_of(content: bytes) -> str:
    """Return a checksum, as text."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, also for a process that reads it meanwhile.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        try:
            file.write(content)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


@cache
def _fingerprints() -> Fingerprints:
    return Fingerprints(_PACKAGE, _made_writable("") or _own_directory())


def _places() -> list[Path]:
    """List where all processes look: NUMBA_CACHE_DIR, beside the package, the user's cache."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    places = [_PACKAGE / "__pycache__", home / "mlsim"]
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        places.insert(0, Path(given))
    return places


def _made_writable(name: str) -> Path | None:
    """Make a directory in the first place that is writable; None where none is."""
    for place in _places():
        directory = place / name
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue  # a read-only installation; the next place will do
        if os.access(directory, os.W_OK | os.X_OK):
            return directory
    return None


@cache
def _own_directory() -> Path:
    """Make a directory for this process alone, which goes with it."""
    directory = tempfile.mkdtemp(prefix="mlsim-kernels-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


@cache
def cache_directory(room: str) -> str:
    """Return the first writable one of NUMBA_CACHE_DIR, a directory beside the package, the user's cache."""
    return str(_made_writable(_name_of(room)) or _own_directory())


def kept_kernels() -> dict[Path, int]:
    """Return how many compiled kernels of the sources as they are now each directory keeps."""
    rooms = ["", *(path.parent.name for path in _PACKAGE.glob("*/__init__.py"))]
    return {
        place: sum(1 for room in rooms for _ in (place / _name_of(room)).rglob("*.nbi"))
        for place in _places()
    }


def _name_of(room: str) -> str:
    return f"kernels-{room}-{_fingerprints().of(room)}"


def is_shared(room: str) -> bool:
    """Whether kernels of a room are kept where other processes find them."""
    return Path(cache_directory(room)).parent in _places()


def room_of(function: Callable[..., Any]) -> str:
    """Return the folder of the package in which a function is written."""
    parts = function.__module__.split(".")
    return parts[1] if parts[0] == "mlsim" and len(parts) > 2 else ""
