"""Output of commands: standard streams, tables, JSON and progress on them, and new files."""

from __future__ import annotations

import codecs
import errno
import io
import json
import logging
import math
import os
import re
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from mlsim._runtime.places import unfinished
from mlsim._runtime.work_progress import Stage, how_far, progress_line, stage
from mlsim.errors import InputError, OutputError, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

_NARROWEST, _WIDEST = 40, 1000  # columns of help: fewer cannot be read, more take much memory
_LEAST_WIDTH = 30  # of tables: a label and a number
_HEIGHT = 100  # given, so that the width counts in dumb terminals too
_UNLIMITED = 1_000_000  # columns of what is no terminal
_SHOWN_AFTER = 3.0  # Seconds of work after which its progress is shown
_BETWEEN = 0.5
_ERRORS = "mlsim.readable"
_LOOK_ALIKES = {
    "…": "...",
    "§": "sec. ",
    "’": "'",
    "·": "*",
    "×": "x",
    "µ": "u",
    "±": "+-",
    "≈": "~",
    "▲": "^",
    "▼": "v",
    "─": "-",
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
    """Return how many columns the terminal has."""
    return _terminal[0] if _terminal else _columns()


def _columns() -> int:
    """Return the width that the environment or the terminal has; 80 if there is none.

    The standard library asks a stream that may be replaced, and then answers 80.
    """
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    for number in (1, 2, 0):
        with suppress(OSError):
            if columns := os.get_terminal_size(number).columns:
                return columns
    return 80


def _widen() -> None:
    """Set a readable width for help and messages."""
    columns = _columns()
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


def show(*parts: RenderableType, style: str = "", to_error: bool = False) -> None:
    """Print tables and the like; where the output is no terminal, nothing is cut or broken at any width."""
    from rich.console import Console
    from rich.measure import Measurement

    file = sys.stderr if to_error else sys.stdout
    console = Console(file=file, width=max(terminal_width(), _LEAST_WIDTH), height=_HEIGHT)
    if not file.isatty():
        options = console.options.update(width=_UNLIMITED)
        texts = (console.render_str(part) if isinstance(part, str) else part for part in parts)
        console.width = max([1, *(Measurement.get(console, options, part).maximum for part in texts)])
    for part in parts:
        console.print(part, style=style or None, highlight=False, markup=False, crop=False)


def ids_of(ids: list[int], count: int) -> str:
    """Return jobs by their first identifiers: ``job 17``, or ``3 jobs (1, 2, ...)``."""
    if count == 1:
        return f"job {ids[0]}"
    return f"{count} jobs ({', '.join(map(str, ids))}{', ...' if count > len(ids) else ''})"


@contextmanager
def working(words: str, total: float | None = None) -> Iterator[Stage]:
    """Show the progress of work that takes longer than some seconds, in a line on standard error."""
    with stage(words, total) as own:
        if not sys.stderr.isatty():
            yield own
            return
        ended = threading.Event()
        thread = threading.Thread(target=_show_until, args=(ended,), daemon=True)
        thread.start()
        try:
            yield own
        finally:
            ended.set()
            thread.join()


@contextmanager
def reporting(words: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of work that reports how many of its parts are done, and of how many."""
    with working(words) as own:

        def report(done: int, total: int) -> None:
            own.done, own.total = done, total

        yield report


def _show_until(ended: threading.Event) -> None:
    """Keep the line up to date, and remove it in the end."""
    if ended.wait(_SHOWN_AFTER):
        return
    width = terminal_width()
    try:
        while True:
            state = how_far()
            if state is not None:
                with suppress(OSError):  # of the terminal as it is now, whatever standard output is
                    width = os.get_terminal_size(2).columns or width
                sys.stderr.write(f"\r{progress_line(state, width - 1)}\x1b[K")
                sys.stderr.flush()
            if ended.wait(_BETWEEN):
                return
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


@contextmanager
def new_files(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield temporary names for new files, renamed to their own when the block ends without an error.

    Nothing is overwritten (InputError). If a file of that name appears meanwhile, the new files get numbered
    names (OutputError); if one cannot be written, none is left (OutputError).
    """
    from mlsim.experiment.manifest import Owner

    token = Owner.this_process().token
    places = [path.parent.resolve() / path.name for path in paths]
    for path, place in zip(paths, places, strict=True):
        _check(path)
        if places.count(place) > 1:
            raise InputError(f"{path}: is asked for twice; give each file a name of its own")
        _clear(path)
    names = [(path, *_split(path)) for path in paths]
    partial = [path.with_name(f".{stem}.{token}.partial{suffix}") for path, stem, suffix in names]
    numbered = (
        [path.with_name(f"{stem}-{number:03d}{suffix}") for path, stem, suffix in names]
        for number in count(1)
    )
    try:
        with unfinished(*partial):
            yield partial
        kept = next(free for free in chain([list(paths)], numbered) if _rename(partial, free))
    except OutputError as error:
        text = str(error)
        for hidden, path in zip(partial, paths, strict=True):
            text = text.replace(str(hidden), str(path))
        raise OutputError(text) from error
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"{paths[0]}: cannot be written: {reason}. Nothing was kept.") from error
    finally:
        for left in partial:
            left.unlink(missing_ok=True)
    if kept != list(paths):
        raise OutputError(
            f"{', '.join(map(str, paths))}: appeared meanwhile, and is left as it is. What was written is in "
            f"{', '.join(map(str, kept))}"
        )


def _split(path: Path) -> tuple[str, str]:
    """Return the name without its suffix, and the suffix: of a compressed file both, such as ``.swf.gz``."""
    from mlsim.workload.format_record import SUFFIXES

    inner = Path(path.stem).suffix if path.suffix in SUFFIXES else ""
    return path.name.removesuffix(inner + path.suffix), inner + path.suffix


def _rename(partial: Sequence[Path], names: Sequence[Path]) -> bool:
    """Rename the files, all or none; return whether all names were free."""
    done: list[Path] = []
    try:
        for source, path in zip(partial, names, strict=True):
            try:
                os.link(source, path)
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                if os.path.lexists(path):
                    raise FileExistsError(path) from None
                source.rename(path)
            done.append(path)
    except BaseException as error:
        for path in done:
            path.unlink()
        if isinstance(error, FileExistsError):
            return False
        raise
    return True


def _check(path: Path) -> None:
    try:
        if path.exists() or path.is_symlink():
            raise InputError(
                f"{path}: already exists; nothing is overwritten. Give another name, or move it away."
            )
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no directory {path.parent}; make it, or give another name")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{str(path)[:200]!r}: {reason}. Give another name.") from error
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"{path}: no permission to write in {path.parent}; give another name")


def _clear(path: Path) -> None:
    """Remove and report what processes left that have ended without finishing the file."""
    from mlsim.experiment.manifest import Owner

    stem, suffix = _split(path)
    # A writer may have had a further name for it, before it was renamed to ours.
    pattern = rf"\.?\.{re.escape(stem)}\.([^.]+)\.partial{re.escape(suffix)}(?:\.\d+\.partial)?"
    for name in sorted(os.listdir(path.parent)):
        match = re.fullmatch(pattern, name)
        owner = None if match is None else Owner.of_token(match[1])
        if owner is not None and owner.lives() is False:
            left = path.with_name(name)
            left.unlink(missing_ok=True)
            _log.warning(
                "%s: left over by process %d on %s, which ended without finishing it; removed",
                left,
                owner.pid,
                owner.host,
            )


def cell(value: object, form: str = ",.1f") -> str:
    """Return a value as text, a number in a form; nothing where it is not defined."""
    if isinstance(value, float):
        return "" if math.isnan(value) else format(value, form)
    return "" if value is None else str(value)


def show_rows(title: str, rows: Sequence[Mapping[str, object]], form: str = ",.1f") -> None:
    """Print rows of the same columns as a table, with numbers in a form."""
    words = [name for name, value in rows[0].items() if isinstance(value, str)]
    cells = ([cell(value, form) for value in row.values()] for row in rows)
    from mlsim.analysis.table_layout import NumberTable

    show(NumberTable(list(rows[0]), cells, left=words, heading=title, ruled=True))
