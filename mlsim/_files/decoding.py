"""Bytes of files as text and as JSON; texts that no program can take are errors that name the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mlsim._files.opening import named, read_bytes
from mlsim.errors import InputError

__all__ = ["decode", "json_of", "read_json", "read_text"]

DEEPEST = 64
"""Levels of lists and objects that JSON may have."""
_HALF_LETTER = re.compile(r"\\u[dD][89a-fA-F]")
_DIGITS = re.compile(r"\d{400}")


def decode(content: bytes, path: Path, what: str = "file") -> str:
    """Read bytes as UTF-8, with or without a byte order mark.

    Raises
    ------
    InputError
        If they are not; the message names file, line and byte.
    """
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
    r"""Read JSON.

    Parameters
    ----------
    text
        One JSON value.
    place
        What messages begin with.

    Raises
    ------
    InputError
        If it is not JSON, is nested more than 64 levels deep, or has a number of hundreds of digits or a text
        of half a letter (an escape such as ``\ud800`` alone).
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
