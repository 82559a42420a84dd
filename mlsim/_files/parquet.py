"""Reader and writer of Parquet files: the one place that calls Polars for them.

Polars is written in Rust. A damaged file may make a part of it *panic*: that is no ``Exception`` in Python,
and its text goes straight to the process' standard error. Here it is caught, and its text is held back.
Where damage asks for more memory than there is, the process that reads is ended without more ado: files that
nothing vouches for are read by another one first (:func:`check_apart`).
"""

import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeVar

import polars as pl
from polars.io.plugins import register_io_source

from mlsim._files import first_line, named, open_file
from mlsim._runtime.forks import check_fork
from mlsim._runtime.processes import call, python
from mlsim.errors import InputError

T = TypeVar("T")
Source = Path | bytes
_CODE = re.compile(r"\(os error (\d+)\)")
_PAGE = 1 << 16
_LEVEL = 1  # Of Zstandard; higher ones take several times as long for a tenth of the bytes
_LONGEST, _SLOWEST = 60.0, 1e6
"""Seconds that a file is read for at least, and the bytes per second that it is read with at least."""
_READ_ALL = """
import io, resource, polars
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # nothing is left behind
for path in sys.argv[1:] or [io.BytesIO(sys.stdin.buffer.read())]:
    try:
        polars.read_parquet(path)
    except BaseException:
        continue  # whoever reads it in earnest says what is wrong
"""


def check_apart(place: Path, *sources: Source) -> None:
    """Read files to the end in a separate process, as damaged files may crash it; messages name ``place``."""
    paths = [str(source) for source in sources if isinstance(source, Path) and _has_end(source)]
    content = b"".join(source for source in sources if isinstance(source, bytes) and _has_end(source))
    if not paths and not content:
        return  # what Polars looks at first is wrong
    size = len(content) + sum(os.path.getsize(path) for path in paths)
    try:
        ended = call(python(_READ_ALL, *paths), _LONGEST + size / _SLOWEST, content=content).code
    except OSError as error:
        raise InputError(f"{named(place)}: cannot be read by a process of its own: {error}") from error
    if ended < 0:
        raise InputError(
            f"{named(place)}: cannot be read as Parquet: the file is damaged or needs more memory than there "
            f"is (reading it in a process of its own ended by signal {-ended})"
        )


def _has_end(source: Source) -> bool:
    """Whether a file has a Parquet footer and is long enough for the metadata length in it."""
    with io.BytesIO(source) if isinstance(source, bytes) else open_file(source, "table in Parquet") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 8, 0))
        end = file.read()
    return end[4:] == b"PAR1" and int.from_bytes(end[:4], "little") + 12 <= size


def read_schema(source: Source, place: Path) -> Mapping[str, Any]:
    """Return the names and types of a Parquet file's columns."""
    return _read(source, place, pl.read_parquet_schema)


def read_metadata(source: Source, place: Path) -> Mapping[str, str]:
    """Return the key-value metadata of a file; see :func:`read_schema`."""
    return _read(source, place, pl.read_parquet_metadata)


def read_columns(source: Source, place: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Read some columns; see :func:`read_schema`."""
    return _read(source, place, lambda file: pl.read_parquet(file, columns=list(columns)))


def read_rows(
    path: Path, columns: Sequence[str], column: str, values: Sequence[int]
) -> tuple[pl.DataFrame, pl.Series]:
    """Read some columns of the rows whose ``column`` has one of the values, and the places of these rows."""
    place = max((*columns, ""), key=len) + "+"  # a name that no column has
    wanted = pl.col(column).is_in(values)

    def read(file: Any) -> pl.DataFrame:
        return pl.scan_parquet(file, row_index_name=place).select(*columns, place).filter(wanted).collect()

    found = _read(path, path, read)
    return found.drop(place), found[place]


ROW_GROUP = 1 << 16  # Rows that are in memory at a time while a long table is written


def write_frames(
    file: Path | IO[bytes],
    frames: Iterable[pl.DataFrame],
    metadata: Mapping[str, str] | None = None,
    rows: int = ROW_GROUP,
) -> None:
    """Write frames of one schema, each requested when it is due, as one table; OSError if that fails.

    ``rows`` of a row group are in memory at a time.
    """
    check_fork()
    frames = iter(frames)
    first = next(frames)
    source = register_io_source(lambda *_: chain([first], frames), schema=first.schema)
    try:
        source.sink_parquet(
            file,
            compression="zstd",
            compression_level=_LEVEL,
            row_group_size=rows,
            metadata=dict(metadata) if metadata else None,
        )
    except pl.exceptions.PolarsError as error:
        raise _system_error(error, file) from error


def _system_error(error: Exception, file: Path | IO[bytes]) -> OSError:
    """Return the operating system error behind an error of Polars, which may not name it."""
    if code := _CODE.search(str(error)):
        return OSError(int(code[1]), os.strerror(int(code[1])))
    if isinstance(file, Path):
        try:  # one more page meets the same limit
            with file.open("ab") as rest:
                rest.write(bytes(_PAGE))
        except OSError as reason:
            return reason
    return OSError(first_line(error))


def _read(source: Source, place: Path, reader: Callable[[Any], T]) -> T:
    if isinstance(source, Path):
        open_file(source, "table in Parquet").close()  # pipes, devices and what must not be read
    with refusing_damage(f"{named(place)}: cannot be read as Parquet"):
        return reader(source if isinstance(source, Path) else io.BytesIO(source))


@contextmanager
def refusing_damage(message: str) -> Iterator[None]:
    """Turn whatever Polars raises, panics included, into an InputError that begins with a message."""
    check_fork()
    try:
        with _held_stderr() as held:
            try:
                yield
            except BaseException as error:
                if isinstance(error, pl.exceptions.PanicException):
                    held.truncate(0)  # the panic's own text
                raise
    except pl.exceptions.PanicException as error:
        raise InputError(f"{message}: the file is damaged ({first_line(error)})") from error
    except (pl.exceptions.PolarsError, OSError, ValueError, OverflowError, MemoryError) as error:
        raise InputError(f"{message}: {first_line(error)}") from error


@contextmanager
def _held_stderr() -> Iterator[IO[bytes]]:
    """Redirect standard error to a temporary file in the context; write its remaining content afterwards."""
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        try:
            there = os.dup(2)
        except OSError:
            yield held  # no standard error, nothing to hold back
            return
        os.dup2(held.fileno(), 2)
        try:
            yield held
        finally:
            os.dup2(there, 2)
            os.close(there)
            held.seek(0)
            if text := held.read():
                with suppress(OSError):
                    os.write(2, text)
