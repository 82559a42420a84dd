"""Where compiled kernels are kept on disk, and that nothing but what this user has kept is taken from there.

Machine code and pickles are executed, so a file counts only if it is this user's, nobody else can write to it
or to its directory, and its checksum, over its name and its content, is right. The name has the key of the
kernel and of the types of its arguments. Anything else is as good as nothing: it is removed, the first time
with a line on standard error, and the kernel is compiled anew.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Collection
from functools import cache
from pathlib import Path

from mlsim._jit.announcing import announcer
from mlsim._jit.identity import digest_of
from mlsim._user_cache import user_cache

__all__ = ["file_name", "is_kept", "is_shared", "kept_kernels", "read", "write"]

_PACKAGE = Path(__file__).parent.parent
_MAGIC = b"mlsim kernel 2\n"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_NAME = f"kernels-{os.geteuid() if hasattr(os, 'geteuid') else 'own'}"


def file_name(module: str, name: str, key: str, types: Collection[str], suffix: str) -> str:
    """Return the name of the file of a kernel for arguments of some types."""
    readable = re.sub(r"[^\w.]", "_", f"{module.removeprefix('mlsim.')}.{name}")[-120:]
    return f"{readable}-{key[:16]}-{digest_of(chr(10).join((key, *types)).encode())}.{suffix}"


def is_kept(module: str, name: str, key: str) -> bool:
    """Whether some file of a kernel for calls without numba is there."""
    beginning = file_name(module, name, key, (), "entry").rpartition("-")[0]
    return any(_directory().glob(f"{beginning}-*.entry"))


def read(name: str) -> bytes | None:
    """Read a file; None if there is none that can be used."""
    try:
        content = _read(_directory() / name)
    except FileNotFoundError:
        return None
    except OSError as error:
        _discard(name, error.strerror or str(error))
        return None
    magic, digest, kept = (*content.split(b"\n", 2), b"", b"")[:3]
    if magic + b"\n" != _MAGIC or digest != _digest(name, kept):
        _discard(name, "it is damaged")
        return None
    return kept


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError("it is no file")
        if problem := _problem(facts):
            raise OSError(problem)
        return file.read()


def write(name: str, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a loss of power.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    path = _directory() / name
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        try:
            file.write(_MAGIC + _digest(name, content) + b"\n" + content)
            file.flush()
            os.fsync(file.fileno())
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _digest(name: str, content: bytes) -> bytes:
    return digest_of(name.encode() + b"\n" + content).encode()


def _problem(facts: os.stat_result) -> str:
    """Say why a file or directory cannot be trusted; nothing where it can."""
    if hasattr(os, "geteuid") and facts.st_uid != os.geteuid():
        return "it belongs to another user"
    return "others can write to it" if facts.st_mode & _OTHERS_WRITE else ""


def _discard(name: str, reason: str) -> None:
    path = _directory() / name
    announcer.cannot_use(path, reason)
    _remove(path)


def _remove(path: Path) -> None:
    """Remove a file, link or directory, if that is allowed."""
    try:
        path.unlink()
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def _places() -> list[Path]:
    """List where all processes look: NUMBA_CACHE_DIR, beside the package, the user's cache."""
    users = user_cache()
    places = [_PACKAGE / "__pycache__", *([] if users is None else [users])]
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        places.insert(0, Path(given))
    return places


@cache
def _directory() -> Path:
    """Return the first directory that is this user's alone; where there is none, one of this process."""
    for place in _places():
        if _made(place / _NAME):
            return place / _NAME
    own = tempfile.mkdtemp(prefix="mlsim-kernels-")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Path(own)


def _made(directory: Path) -> bool:
    """Make a directory that only this user can write to; replace one that others could have written to."""
    for _ in range(2):
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            facts = directory.lstat()
        except FileExistsError:  # a file, or a link that leads nowhere
            problem = "it is no directory"
        except OSError:
            return False  # a read-only installation; the next place will do
        else:
            problem = _problem(facts) if stat.S_ISDIR(facts.st_mode) else "it is no directory"
        if not problem:
            return os.access(directory, os.W_OK | os.X_OK)
        announcer.cannot_use(directory, problem)
        _remove(directory)
    return False


def kept_kernels() -> dict[Path, int]:
    """Return how many compiled kernels that Python calls each place keeps."""
    return {place: sum(1 for _ in (place / _NAME).glob("*.entry")) for place in _places()}


def is_shared() -> bool:
    """Whether kernels are kept where other processes find them."""
    return _directory().parent in _places()
