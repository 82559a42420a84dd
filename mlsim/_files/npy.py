"""Columns of numbers in NumPy's own format; their header is held against the file before memory is taken."""

from __future__ import annotations

import io
import math
import os
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mlsim._files.opening import most_held, named, open_file, read_bytes, reason_of
from mlsim.errors import InputError

__all__ = ["read_npy", "read_npz"]

# What Python's own parser, which reads the header, raises for texts that are none.
_UNREADABLE = (
    *(ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError),
    tokenize.TokenError,
)
# zipfile raises RuntimeError where a password is asked for, or a kind of compression is not known.
_NO_ARCHIVE = (*_UNREADABLE, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npy(path: Path, what: str = "column of numbers") -> NDArray[Any]:
    """Read an array without Python objects.

    Raises
    ------
    InputError
        If the file is none, or does not hold as many values as its header says, or more than can be held.
    """
    with open_file(path, what) as file:
        try:
            return _array(path, file)
        except OSError as error:
            raise InputError(f"{named(path)}: {reason_of(error)}") from error
        except _UNREADABLE as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"{named(path)}: not a NumPy file of numbers: {first[:200]}") from error


def read_npz(path: Path, what: str = "columns") -> dict[str, NDArray[Any]]:
    """Read all arrays of a file by their names, none of Python objects.

    Raises
    ------
    InputError
        If the file is none, or holds more than can be held.
    """
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
