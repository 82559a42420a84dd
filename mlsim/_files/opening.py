"""Files opened for reading: regular ones, of bounded size, in bounded memory."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from io import BufferedReader
from pathlib import Path

from mlsim.errors import InputError

_PREFIX = "mlsim-table-"


class HeldFile:
    """A file name in a temporary directory, removed with the object or at the end of the process."""

    def __init__(self, name: str) -> None:
        directory = tempfile.mkdtemp(prefix=_PREFIX)
        self.path = Path(directory, name)
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)


def place_of(path: Path) -> str:
    """Return what messages call a file: its path, or the table in memory that it holds."""
    return "the table of jobs" if path.parent.name.startswith(_PREFIX) else str(path)


VARIABLE = "MLSIM_MEMORY"
_GROUPS = Path("/sys/fs/cgroup")
_UNKNOWN = 4 << 30
"""Default where the system reports no value."""


def memory_limit() -> int:
    """Return the bytes that this process may use: $MLSIM_MEMORY (in GB), or else what the system allows.

    That is the least of the physical memory, the limit of each control group (versions 1 and 2) that the
    process is in, and the limit of its address space.
    """
    given = os.environ.get(VARIABLE, "")
    try:
        gigabytes = float(given)
    except ValueError:
        return _allowed()
    return int(gigabytes * 1e9) if 0 < gigabytes < 1e9 else _allowed()


@cache
def _allowed() -> int:
    return min([*_physical(), *_of_groups(), *_address_space()], default=_UNKNOWN)


def _physical() -> Iterator[int]:
    try:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return  # not reported by this system


def _address_space() -> Iterator[int]:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        yield soft


def _of_groups() -> Iterator[int]:
    """Yield the memory limit, in bytes, of every control group from the process' own to the root."""
    for group, name in _groups():
        for place in (group, *group.parents):
            if not place.is_relative_to(_GROUPS):
                break
            try:
                text = (place / name).read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError):
                continue  # no such file here: no limit at this level
            if text.isdecimal():
                yield int(text)


def _groups() -> Iterator[tuple[Path, str]]:
    """Yield the control groups that limit the process' memory: directory, and the limit's file name there."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return  # not Linux
    for line in lines:
        _, controllers, group = (line.split(":", 2) + ["", ""])[:3]
        if not controllers:
            yield _GROUPS / group.lstrip("/"), "memory.max"
        elif "memory" in controllers.split(","):
            yield _GROUPS / "memory" / group.lstrip("/"), "memory.limit_in_bytes"


_LONGEST_NAME = 300
_HELD_SHARE = 8
"""A file that is held as a whole may take this part of the memory: parsed, it takes several times as much."""
# Windows has O_BINARY in place of the others.
_READING = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_AT_ONCE: int = getattr(os, "O_NONBLOCK", 0)
_OWN = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+")
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def named(path: str | Path) -> str:
    """Return a path for a message: on one line, printable, shortened to 300 letters."""
    text = str(path)
    text = text if text.isprintable() else ascii(text)[1:-1]
    half = _LONGEST_NAME // 2
    return text if len(text) <= _LONGEST_NAME else f"{text[:half]}...{text[-half:]} ({len(text)} letters)"


def expanded(path: str | Path) -> Path:
    """Return a path with ``~`` and ``~user`` replaced by home directories."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InputError(f"{named(path)}: there is no such user, or no home directory is known") from error


def resolved(path: Path) -> Path:
    """Return a path without symbolic links."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"{named(path)}: {reason_of(error)}") from error


def is_file(path: Path) -> bool:
    """Whether there is a regular file; an inaccessible path is none."""
    return stat.S_ISREG(_mode(path))


def is_directory(path: Path) -> bool:
    """Whether there is a directory; an inaccessible path is none."""
    return stat.S_ISDIR(_mode(path))


def is_there(path: Path) -> bool:
    """Whether a path exists; an inaccessible path does not."""
    return _mode(path) != 0


def _mode(path: Path) -> int:
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return 0


def most_held() -> int:
    """Return the bytes up to which a file is read into memory as a whole: an eighth of the memory."""
    return memory_limit() // _HELD_SHARE


def open_file(path: Path, what: str = "file", *, stream: bool = False) -> BufferedReader:
    """Open a regular file, which messages call ``what``; never wait for a pipe or read an endless device.

    With ``stream``, standard input and descriptors of this process (``/dev/stdin``, ``/dev/fd/3``) may be
    read, whatever they are.
    """
    descriptor = -1
    try:
        own = stream and _OWN.fullmatch(str(path)) is not None
        if not own:
            _check_kind(path, os.stat(path).st_mode, what)
        descriptor = os.open(path, _READING | (0 if own else _AT_ONCE))
        _check_kind(path, os.fstat(descriptor).st_mode, what, stream=own)
        return os.fdopen(descriptor, "rb")
    except (OSError, ValueError) as error:
        if descriptor >= 0:
            os.close(descriptor)
        raise InputError(f"{named(path)}: {reason_of(error)}") from error
    except InputError:
        if descriptor >= 0:
            os.close(descriptor)
        raise


def _check_kind(path: Path, mode: int, what: str, *, stream: bool = False) -> None:
    kind = stat.S_IFMT(mode)
    if kind != stat.S_IFREG and (not stream or kind == stat.S_IFDIR):
        found = _KINDS.get(kind, "of another kind")
        raise InputError(f"{named(path)}: is {found}, not a regular file with a {what}")


def reason_of(error: Exception) -> str:
    """Return the reason in words why a path cannot be used."""
    if isinstance(error, RuntimeError):
        return "is a loop of symbolic links"
    if isinstance(error, UnicodeError):
        return "is no name that files can have here"
    if not isinstance(error, OSError):
        return "has a NUL byte in it; is no name of a file"
    match error.errno:
        case errno.ENOENT:
            return "there is no such file"
        case errno.ENOTDIR:
            return "there is no such file: a part of its path is no directory"
        case errno.ELOOP:
            return "is a loop of symbolic links"
        case errno.ENAMETOOLONG:
            return "the name is too long"
        case _:
            return f"cannot be read: {error.strerror or error}"


def read_bytes(
    path: Path,
    what: str = "file",
    most: int | None = None,
    *,
    stream: bool = True,
    checked: Callable[[Iterator[bytes]], Iterator[bytes]] = iter,
) -> bytes:
    """Read a whole file of at most ``most`` bytes (default: :func:`most_held`); see :func:`open_file`.

    ``checked`` sees the pieces as they are read.
    """
    most = most_held() if most is None else most
    with open_file(path, what, stream=stream) as file:
        try:
            status = os.fstat(file.fileno())
            size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            content = b"" if size > most else b"".join(checked(_pieces(file, most + 1)))
        except OSError as error:
            raise InputError(f"{named(path)}: {reason_of(error)}") from error
    if max(size, len(content)) > most:
        found = f"{size / 1e6:,.0f} MB" if size else "this"
        raise InputError(f"{named(path)}: {found} is too large for a {what}; allowed: {most / 1e6:,.0f} MB")
    return content


def _pieces(file: BufferedReader, most: int) -> Iterator[bytes]:
    """Read to the end, at most so much; a pipe gives some at a time."""
    while most > 0 and (piece := file.read(min(most, 1 << 20))):
        yield piece
        most -= len(piece)
