"""Input files: opened, of bounded size, and decoded as text, lines, JSON and NumPy's columns.

Defects in a user's file raise an :class:`~mlsim.errors.InputError` that names the file, whichever library
detects them. ``parquet`` is apart, as it loads Polars.
"""

import errno
import io
import json
import math
import os
import re
import shutil
import stat
import tempfile
import tokenize
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mlsim.errors import InputError

VARIABLE = "MLSIM_MEMORY"
LONGEST_LINE = 1 << 20  # bytes
DEEPEST = 64  # levels of lists and objects that JSON may have
_PREFIX = "mlsim-table-"
_GROUPS = Path("/sys/fs/cgroup")
_UNKNOWN = 4 << 30  # memory where the system reports no value
_SHOWN, _LONGEST_NAME = 60, 300
# A file that is held as a whole may take this part of the memory: parsed, it takes several times as much.
_HELD_SHARE = 8


class HeldFile:
    """A file name in a temporary directory, removed with the object or at the end of the process."""

    def __init__(self, name: str) -> None:
        directory = tempfile.mkdtemp(prefix=_PREFIX)
        self.path = Path(directory, name)
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)


def place_of(path: Path) -> str:
    """Return what messages call a file: its path, or the table in memory that it holds."""
    return "the table of jobs" if path.parent.name.startswith(_PREFIX) else str(path)


def memory_limit() -> int:
    """Return the bytes that this process may use: $MLSIM_MEMORY (in GB), or else what the system allows."""
    given = os.environ.get(VARIABLE, "")
    try:
        gigabytes = float(given)
    except ValueError:
        return _allowed()
    return int(gigabytes * 1e9) if 0 < gigabytes < 1e9 else _allowed()


@cache
def _allowed() -> int:
    found = list(_of_groups())
    with suppress(AttributeError, ValueError, OSError):  # not reported by every system
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(ImportError):  # Windows has no such limit
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        found += [soft] if soft != resource.RLIM_INFINITY else []
    return min(found, default=_UNKNOWN)


def _of_groups() -> Iterator[int]:
    """Yield the memory limit, in bytes, of every control group from the process' own to the root."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return  # not Linux
    for line in lines:
        _, controllers, name = (line.split(":", 2) + ["", ""])[:3]
        if not controllers:
            group, limit = _GROUPS / name.lstrip("/"), "memory.max"
        elif "memory" in controllers.split(","):
            group, limit = _GROUPS / "memory" / name.lstrip("/"), "memory.limit_in_bytes"
        else:
            continue
        for place in (group, *group.parents):
            if not place.is_relative_to(_GROUPS):
                break
            with suppress(OSError, UnicodeDecodeError):  # no such file here: no limit at this level
                text = (place / limit).read_text(encoding="ascii").strip()
                if text.isdecimal():
                    yield int(text)


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


_REASONS = {
    errno.ENOENT: "there is no such file",
    errno.ENOTDIR: "there is no such file: a part of its path is no directory",
    errno.ELOOP: "is a loop of symbolic links",
    errno.ENAMETOOLONG: "the name is too long",
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


def open_file(path: Path, what: str = "file", *, stream: bool = False) -> io.BufferedReader:
    """Open a regular file, which messages call ``what``; never wait for a pipe or read an endless device.

    With ``stream``, standard input and descriptors of this process (``/dev/fd/3``) may be of any kind.
    """
    descriptor = -1
    try:
        own = stream and _OWN.fullmatch(str(path)) is not None
        if not own:
            _check_kind(path, os.stat(path).st_mode, what)
        descriptor = os.open(path, _READING | (0 if own else _AT_ONCE))
        _check_kind(path, os.fstat(descriptor).st_mode, what, stream=own)
        return os.fdopen(descriptor, "rb")
    except (OSError, ValueError, InputError) as error:
        if descriptor >= 0:
            os.close(descriptor)
        if isinstance(error, InputError):
            raise
        raise InputError(f"{named(path)}: {reason_of(error)}") from error


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
    return _REASONS.get(error.errno or 0, f"cannot be read: {error.strerror or error}")


def read_bytes(
    path: Path,
    what: str = "file",
    most: int | None = None,
    *,
    stream: bool = True,
    checked: Callable[[Iterator[bytes]], Iterator[bytes]] = iter,
) -> bytes:
    """Read a file of at most ``most`` bytes (default: :func:`most_held`); ``checked`` sees its pieces."""
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


def _pieces(file: io.BufferedReader, most: int) -> Iterator[bytes]:
    """Read to the end, at most so much; a pipe gives some at a time."""
    while most > 0 and (piece := file.read(min(most, 1 << 20))):
        yield piece
        most -= len(piece)


# Texts and JSON

_HALF_LETTER = re.compile(r"\\u[dD][89a-fA-F]")
_DIGITS = re.compile(r"\d{400}")


def decode(content: bytes, path: Path, what: str = "file") -> str:
    """Read bytes as UTF-8, with or without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        raise InputError(
            f"{named(path)}:{line}: is not UTF-8 text (byte 0x{byte:02x}); is it a {what}?"
        ) from error


def read_text(path: Path, what: str = "file", most: int | None = None) -> str:
    """Read a text file as a whole; see :func:`read_bytes` and :func:`decode`."""
    return decode(read_bytes(path, what, most), path, what)


def read_json(path: Path, what: str = "file", most: int | None = None) -> Any:
    """Read a JSON file as a whole; see :func:`json_of`."""
    return json_of(read_text(path, what, most), named(path))


def json_of(text: str, place: str) -> Any:
    r"""Read one JSON value; an InputError begins with ``place``.

    Refused as well: more than 64 levels, numbers of hundreds of digits, half a letter (``\ud800`` alone).
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise InputError(f"{place}: {_TOO_DEEP}") from error
    except ValueError as error:
        if _DIGITS.search(text) and not isinstance(error, json.JSONDecodeError):
            raise InputError(f"{place}: has a number of too many digits to be one") from error
        raise InputError(f"{place}: cannot be read as JSON: {error}") from error
    if _HALF_LETTER.search(text) and not _is_text(value):
        raise InputError(
            f"{place}: has an escape of half a letter (\\ud800 to \\udfff) in it; not Unicode text"
        )
    if _is_deep(value):
        raise InputError(f"{place}: {_TOO_DEEP}")
    return value


_TOO_DEEP = f"nested too deeply; allowed: {DEEPEST} levels"


def _is_text(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def _is_deep(value: object) -> bool:
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        children = (child for item in level for child in (item.values() if isinstance(item, dict) else item))
        level = [child for child in children if isinstance(child, dict | list)]
    return bool(level)


# What Python's own parser, which reads the header, raises for texts that are none.
_UNREADABLE = (
    *(ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError),
    tokenize.TokenError,
)
# zipfile raises RuntimeError where a password is asked for, or a kind of compression is not known.
_NO_ARCHIVE = (*_UNREADABLE, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npy(path: Path, what: str = "column of numbers") -> NDArray[Any]:
    """Read an array without Python objects."""
    with open_file(path, what) as file:
        try:
            return _array(path, file)
        except OSError as error:
            raise InputError(f"{named(path)}: {reason_of(error)}") from error
        except _UNREADABLE as error:
            raise InputError(f"{named(path)}: not a NumPy file of numbers: {first_line(error)}") from error


def read_npz(path: Path, what: str = "columns") -> dict[str, NDArray[Any]]:
    """Read all arrays of a file by their names, none of Python objects."""
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(path, what))) as content:
            _check_size(path, sum(entry.file_size for entry in content.infolist()))
            return {
                name.removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(content.read(name)), allow_pickle=False
                )
                for name in content.namelist()
            }
    except _NO_ARCHIVE as error:
        raise InputError(f"{named(path)}: not a NumPy file of {what}: {first_line(error)}") from error


def _check_size(path: Path, wanted: int) -> None:
    if wanted > (most := most_held()):
        found, allowed = wanted / 1e6, most / 1e6
        raise InputError(f"{named(path)}: {found:,.0f} MB of values; allowed here: {allowed:,.0f} MB")


def first_line(error: BaseException) -> str:
    """Return the first line of a library's error for a message, or the error's type."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]


def _array(path: Path, file: BinaryIO) -> NDArray[Any]:
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"its format is version {version[0]}.{version[1]}; allowed: 1.0 and 2.0")
    shape, fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError("holds Python objects, which may be programs and are never read")
    if any(length < 0 for length in shape):
        raise ValueError(f"its header says shape {shape}")
    wanted = math.prod(shape) * dtype.itemsize
    there = os.fstat(file.fileno()).st_size - file.tell()
    if wanted > there:
        raise ValueError(f"its header says {wanted:,} bytes of values, and the file has {there:,}")
    _check_size(path, wanted)
    return np.frombuffer(file.read(wanted), dtype).copy().reshape(shape, order="F" if fortran else "C")


def bounded_lines(path: Path, pieces: Iterable[bytes], what: str = "file") -> Iterator[bytes]:
    """Yield the pieces of a text file as they are; refuse a line longer than :data:`LONGEST_LINE`."""
    line, size, held = 1, 0, b""
    for piece in pieces:
        ends = [end for end in (piece.find(b"\n"), piece.find(b"\r")) if end >= 0]
        held = held or piece[:_SHOWN]
        size += min(ends, default=len(piece))
        if size > LONGEST_LINE:
            raise InputError(
                f"{named(path)}:{line}: has a line of more than {LONGEST_LINE:,} bytes; is it a {what}?\n"
                f"  found: {held.decode(errors='replace')!a} ..."
            )
        if ends:
            line += piece.count(b"\n") or piece.count(b"\r")
            last = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
            held, size = piece[last : last + _SHOWN], len(piece) - last
        yield piece


def read_lines(path: Path, what: str = "file") -> list[str]:
    """Read the lines of a text file as a whole, without their ends; see :func:`read_text`."""
    content = read_bytes(path, what, checked=lambda pieces: bounded_lines(path, pieces, what))
    return decode(content, path, what).splitlines()
