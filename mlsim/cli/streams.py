"""Standard output and error of a command: in any encoding, of any width, and where they cannot be written.

A command goes on when its output cannot be written: its results are in files. That standard output could
not be written is reported at the end.
"""

from __future__ import annotations

import codecs
import errno
import io
import logging
import os
import shutil
import sys
import unicodedata
from typing import TextIO

from mlsim.errors import printable

__all__ = ["finish", "prepare", "quiet", "terminal_width"]

_NARROWEST, _WIDEST = 80, 1000
"""Columns: in narrower tables numbers are cut off, and wider ones take much memory."""
_ERRORS = "mlsim.readable"
_LOOK_ALIKES = {
    "…": "...",
    "§": "sec. ",
    "−": "-",
    "–": "-",
    "—": "-",
    "×": "x",
    "·": "*",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "→": "->",
    "µ": "u",
    "’": "'",
    "Σ": "sum",
    "√": "sqrt",
    "∞": "inf",
    "⌈": "ceil(",
    "⌉": ")",
    "⌊": "floor(",
    "⌋": ")",
}

_log = logging.getLogger("mlsim")


class _Stream(io.TextIOWrapper):
    """A stream that nothing fails for; ``failure`` is why it could not be written, None while it can."""

    failure: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Redirect the stream to the null device, with what its buffers hold."""
        self.failure = self.failure or error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def prepare() -> None:
    """Make standard output and error fit for what commands print."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # or the next file would get its number, and what is printed
    codecs.register_error(_ERRORS, _readable)
    sys.stdout, sys.stderr = _stream(sys.stdout), _stream(sys.stderr)
    _widen()
    notes = logging.StreamHandler()
    notes.setFormatter(_Notes("mlsim: note: %(message)s"))
    _log.addHandler(notes)
    _log.propagate = False


class _Notes(logging.Formatter):
    """Notes without characters that would change the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _stream(stream: TextIO | None) -> TextIO:
    if stream is None:  # it was closed before Python began
        return open(os.devnull, "w", encoding="utf-8")
    if type(stream) is not io.TextIOWrapper:
        return stream
    encoding, lines = stream.encoding, stream.line_buffering
    return _Stream(stream.detach(), encoding=encoding, errors=_ERRORS, line_buffering=lines)


def _readable(error: UnicodeError) -> tuple[str, int]:
    """Write what an encoding lacks with what every encoding has."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_look_alike, error.object[error.start : error.end])), error.end


def _look_alike(letter: str) -> str:
    if letter in _LOOK_ALIKES:
        return _LOOK_ALIKES[letter]
    name = unicodedata.name(letter, "")
    if name.startswith("GREEK SMALL LETTER "):
        return name.rsplit(" ", 1)[1].lower()
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return plain or "?"


_terminal: list[int] = []


def terminal_width() -> int:
    """Return how many columns the terminal has, for text that can be broken; tables of numbers have 80."""
    return _terminal[0] if _terminal else shutil.get_terminal_size().columns


def _widen() -> None:
    """Have tables laid out for a width that they can be read in."""
    columns = shutil.get_terminal_size().columns
    _terminal[:] = [columns]
    given = os.environ.get("COLUMNS")
    if not _NARROWEST <= columns <= _WIDEST or (given is not None and given != str(columns)):
        os.environ["COLUMNS"] = str(min(max(columns, _NARROWEST), _WIDEST))


def quiet() -> None:
    """Print no notes, nor that kernels are being compiled."""
    from mlsim import _jit

    _jit.quiet()
    _log.setLevel(logging.ERROR)


def finish() -> bool:
    """Write what is left in buffers; whether all of standard output could be written."""
    sys.stderr.flush()
    sys.stdout.flush()
    failure = getattr(sys.stdout, "failure", None)
    if failure is not None and failure.errno != errno.EPIPE:  # a reader that has gone needs no report
        print(
            f"mlsim: standard output cannot be written: {failure.strerror}; files are written and whole",
            file=sys.stderr,
        )
    return failure is None
