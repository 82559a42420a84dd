"""Lines of text files: one that is longer than any that programs write is refused before memory holds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from mlsim._files.decoding import decode
from mlsim._files.opening import named, read_bytes
from mlsim.errors import InputError

__all__ = ["LONGEST_LINE", "bounded_lines", "read_lines"]

LONGEST_LINE = 1 << 20
"""Bytes."""
_SHOWN = 60


def bounded_lines(path: Path, pieces: Iterable[bytes], what: str = "file") -> Iterator[bytes]:
    """Yield the pieces of a text file as they are, unless a line goes on for more than :data:`LONGEST_LINE`.

    Raises
    ------
    InputError
        With the number of the line.
    """
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
    """Read the lines of a text file as a whole, without their ends; see :func:`mlsim._files.read_text`.

    Raises
    ------
    InputError
        Also if a line is longer than :data:`LONGEST_LINE`.
    """
    content = read_bytes(path, what, checked=lambda pieces: bounded_lines(path, pieces, what))
    return decode(content, path, what).splitlines()
