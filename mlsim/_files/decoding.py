"""Bytes of files as text, lines, JSON and columns of NumPy's own format."""

from __future__ import annotations

import io
import json
import math
import os
import re
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mlsim._files.opening import most_held, named, open_file, read_bytes, reason_of
from mlsim.errors import InputError

DEEPEST = 64
"""Levels of lists and objects that JSON may have."""
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
    """Read a text file as a whole; see :func:`~mlsim._files.opening.read_bytes` and :func:`decode`."""
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
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        level = [child for item in level for child in _children(item)]
        if not level:
            return False
    return any(isinstance(item, dict | list) for item in level)


def _children(value: object) -> Iterable[Any]:
    """Return the lists and objects that a JSON value holds directly."""
    if isinstance(value, dict):
        return [child for child in value.values() if isinstance(child, dict | list)]
    if isinstance(value, list):
        return [child for child in value if isinstance(child, dict | list)]
    return ()


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
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"{named(path)}: not a NumPy file of numbers: {first[:200]}") from error


def read_npz(path: Path, what: str = "columns") -> dict[str, NDArray[Any]]:
    """Read all arrays of a file by their names, none of Python objects."""
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(path, what))) as content:
            wanted = sum(entry.file_size for entry in content.infolist())
            if wanted > most_held():
                allowed = most_held() / 1e6
                raise InputError(
                    f"{named(path)}: {wanted / 1e6:,.0f} MB of values; allowed here: {allowed:,.0f} MB"
                )
            return {
                name.removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(content.read(name)), allow_pickle=False
                )
                for name in content.namelist()
            }
    except _NO_ARCHIVE as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{named(path)}: not a NumPy file of {what}: {first[:200]}") from error


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
    if wanted > most_held():
        allowed = most_held() / 1e6
        raise InputError(f"{named(path)}: {wanted / 1e6:,.0f} MB of values; allowed here: {allowed:,.0f} MB")
    values = np.frombuffer(file.read(wanted), dtype).copy()
    return values.reshape(shape, order="F" if fortran else "C")


LONGEST_LINE = 1 << 20
"""Bytes."""
_SHOWN = 60


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
    """Read the lines of a text file as a whole, without their ends; see :func:`mlsim._files.read_text`."""
    content = read_bytes(path, what, checked=lambda pieces: bounded_lines(path, pieces, what))
    return decode(content, path, what).splitlines()
