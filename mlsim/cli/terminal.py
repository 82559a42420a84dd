"""Standard streams of a command, and tables and JSON on them."""

from __future__ import annotations

import codecs
import errno
import io
import json
import logging
import os
import shutil
import sys
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from mlsim.errors import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_NARROWEST, _WIDEST = 80, 1000  # columns: narrower tables cut numbers off, wider ones take much memory
_WHOLE = 240
_ERRORS = "mlsim.readable"
_LOOK_ALIKES = {
    "…": "...",
    "§": "sec. ",
    "’": "'",
    "·": "*",
    "×": "x",
    "µ": "u",
    "Σ": "sum",
    "√": "sqrt",
    "∞": "inf",
    "−": "-",
    "–": "-",
    "—": "-",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
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

    def look_alike(letter: str) -> str:
        if letter in _LOOK_ALIKES:
            return _LOOK_ALIKES[letter]
        name = unicodedata.name(letter, "")
        if name.startswith("GREEK SMALL LETTER "):
            return name.rsplit(" ", 1)[1].lower()
        return unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode() or "?"

    return "".join(map(look_alike, error.object[error.start : error.end])), error.end


_terminal: list[int] = []


def terminal_width() -> int:
    """Return how many columns the terminal has, for text that can be broken; tables of numbers have 80."""
    return _terminal[0] if _terminal else shutil.get_terminal_size().columns


def _widen() -> None:
    """Set a readable width for tables."""
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


def print_json(value: object, *, ensure_ascii: bool = True) -> None:
    """Print a value as JSON, which has no NaN."""
    print(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=ensure_ascii))


def table_of(
    titles: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[str], title: str = ""
) -> Table:
    """Lay rows out, with lines if there is a title; columns are aligned right, but for those in ``left``."""
    from rich.table import Table

    table = Table(title=title) if title else Table(box=None, pad_edge=False)
    for heading in titles:
        table.add_column(heading, justify="left" if heading in left else "right")
    for row in rows:
        table.add_row(*row)
    return table


def show(*parts: RenderableType) -> None:
    """Print tables and the like, none wider than the terminal."""
    from rich.console import Console

    console = Console()
    for part in parts:
        console.print(part)


def show_whole(table: Table) -> None:
    """Print a table; whole where the output is no terminal, whose width would cut its cells."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, _WHOLE))
    console.print(table)


def ids_of(ids: list[int], count: int) -> str:
    """Return jobs by their first identifiers: ``job 17``, or ``3 jobs (1, 2, ...)``."""
    if count == 1:
        return f"job {ids[0]}"
    return f"{count} jobs ({', '.join(map(str, ids))}{', ...' if count > len(ids) else ''})"
