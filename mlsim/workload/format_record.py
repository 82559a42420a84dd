"""Declaration of a log format, and files that may be compressed: gzip, bzip2, xz, Zstandard or plain.

A module ``<word>_log.py`` of this room is the format ``<word>``: it declares a :class:`Format` called
``FORMAT``, and nothing else has to know of it. Such modules are imported to recognize any log, so they import
polars (200 ms) inside the functions that need it.

Reading goes by the first bytes, never by the file's name. A stream that ends early or does not
decompress is an error that names the file, so that half a download never passes for a short log.
"""

import bz2
import csv
import gzip
import lzma
import math
import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import numpy as np

from mlsim._files import bounded_lines, decode, expanded, json_of, most_held, named, open_file, reason_of
from mlsim._runtime.work_progress import followed, stage
from mlsim.errors import InputError, OutputError
from mlsim.workload.log_fields import LARGEST_WHOLE, Header, Rates, clock_seconds
from mlsim.workload.workload_jobs import RECORDED_NODES, RECORDED_START, WORKFLOW, LogBlock, NamedColumns

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


_READ_BYTES = 1 << 17  # compressed; typical logs grow about eightfold
_PLAIN_BYTES = 1 << 20
_STEP_BYTES = 1 << 20  # what one step may give, decompressed
_XZ_MEMORY = 1 << 29  # the strongest preset takes an eighth of it


@dataclass(frozen=True, slots=True)
class _Compression:
    name: str
    magic: bytes
    suffix: str
    decompressor: Callable[[], Any]
    writer: Callable[[IO[bytes]], Any]


_FORMATS = (
    # No name and no time in gzip's header: the same content gives the same bytes.
    _Compression(
        *("gzip", b"\x1f\x8b", ".gz", lambda: zlib.decompressobj(wbits=31)),
        lambda file: gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0),
    ),
    _Compression("bzip2", b"BZh", ".bz2", bz2.BZ2Decompressor, lambda file: bz2.BZ2File(file, "wb")),
    _Compression(
        *("xz", b"\xfd7zXZ\x00", ".xz", lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY)),
        partial(lzma.LZMAFile, mode="wb"),
    ),
    _Compression(
        *("Zstandard", b"\x28\xb5\x2f\xfd", ".zst", zstd.ZstdDecompressor),
        lambda file: zstd.ZstdFile(file, "wb", options={zstd.CompressionParameter.checksum_flag: 1}),
    ),
)

SUFFIXES = tuple(known.suffix for known in _FORMATS)  # Of compressed files
_FOREIGN = {b"\x1f\x9d": "compress (.Z)", b"PK\x03\x04": "zip", b"7z\xbc\xaf": "7-Zip"}
_ERRORS = (zlib.error, lzma.LZMAError, zstd.ZstdError, OSError, EOFError, ValueError)


def read_chunks(path: str | Path, what: str = "workload") -> Iterator[bytes]:
    """Yield the decompressed bytes of a file piece by piece, in constant memory; ``what``: its kind."""
    path = expanded(path)
    with (
        open_file(path, what) as file,
        stage(f"reading {path.name}", os.fstat(file.fileno()).st_size) as work,
    ):
        head = _head(path, file)
        known = next((known for known in _FORMATS if head.startswith(known.magic)), None)
        pieces = followed(_pieces(path, file, _READ_BYTES if known else _PLAIN_BYTES), work, len)
        yield from pieces if known is None else _joined(_decompressed(path, pieces, known))


def read_whole(path: str | Path, *, lines: bool = False, what: str = "workload") -> bytes:
    """Return all decompressed bytes of a file, if memory holds them; ``lines``: a text of bounded lines."""
    pieces, size, most = [], 0, most_held()
    chunks = read_chunks(path, what)
    for piece in bounded_lines(Path(path), chunks, what) if lines else chunks:
        size += len(piece)
        if size > most:
            raise InputError(
                f"{named(path)}: is more than {most / 1e6:,.0f} MB when decompressed, which this format "
                "would need in memory at once\n  convert it to SWF, which is read piece by piece, or cut it"
            )
        pieces.append(piece)
    return b"".join(pieces)


def compressed_writer(path: Path, file: IO[bytes]) -> IO[bytes]:
    """Wrap an open binary file, which stays open, in the compression of the suffix of `path`, if any."""
    known = next((known for known in _FORMATS if known.suffix == path.suffix.lower()), None)
    return known.writer(file) if known else file


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing, compressed according to its suffix; it is renamed when complete."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as raw, compressed_writer(path, raw) as packed:
            yield packed
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _head(path: Path, file: IO[bytes]) -> bytes:
    """Return the first bytes of the file, which stays at its start."""
    head = next(_pieces(path, file, 8), b"")
    file.seek(0)
    foreign = next((name for magic, name in _FOREIGN.items() if head.startswith(magic)), None)
    if foreign:
        raise InputError(
            f"{path}: is packed with {foreign}, which is not supported\n"
            "  allowed: plain text, or gzip, bzip2, xz or Zstandard; unpack it and try again"
        )
    return head


def _pieces(path: Path, file: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield raw pieces of the file until its end."""
    while True:
        try:
            piece = file.read(size)
        except OSError as err:
            raise InputError(f"{named(path)}: {reason_of(err)}") from err
        if not piece:
            return
        yield piece


def _decompressed(path: Path, pieces: Iterator[bytes], known: _Compression) -> Iterator[bytes]:
    """Decompress one stream after the other: a file may be several, set end to end."""
    decompressor: Any = known.decompressor()
    for piece in pieces:
        rest = piece
        while rest:
            if decompressor.eof:
                rest = rest.lstrip(b"\x00")  # padding between and after streams is legal
                if not rest:
                    break
                decompressor = known.decompressor()
            yield from _stepped(path, decompressor, rest, known)
            rest = decompressor.unused_data if decompressor.eof else b""
    if not decompressor.eof:
        raise InputError(
            f"{path}: ends in the middle of the compressed data ({known.name}); is the download complete?"
        )


def _joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join small pieces, of which each would cost its reader some time."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _STEP_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if size:
        yield b"".join(held)


def _stepped(path: Path, decompressor: Any, data: bytes, known: _Compression) -> Iterator[bytes]:
    """Decompress some bytes, at most `_STEP_BYTES` per step."""
    by_tail = hasattr(decompressor, "unconsumed_tail")  # zlib's; the others keep the input that is left
    try:
        found = decompressor.decompress(data, _STEP_BYTES)
        yield found
        while not decompressor.eof and (
            decompressor.unconsumed_tail or len(found) == _STEP_BYTES
            if by_tail
            else not decompressor.needs_input
        ):
            found = decompressor.decompress(decompressor.unconsumed_tail if by_tail else b"", _STEP_BYTES)
            yield found
    except _ERRORS as err:
        raise InputError(
            f"{path}: the compressed data ({known.name}) is corrupt: {err}\n"
            "  is the download complete and of the right kind?"
        ) from err


Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class WholeLog:
    """A log in memory."""

    jobs: LogBlock  # in the order of the file
    header: Header
    broken_lines: int = 0  # broken jobs that were skipped
    counts: Mapping[str, int] = field(default_factory=dict)  # what else was skipped
    understood: Mapping[str, str] = field(default_factory=dict)  # columns of the log, and their sources


@dataclass(frozen=True, slots=True)
class Reading:
    """Options of reading a log."""

    lenient: bool = False  # skip and count broken lines
    own: Sequence[str] = ()  # further columns that are wanted (`workload.columns`)
    shared: Sequence[str] = ()  # machine-wide resources, of which jobs ask for any amount (`platform.shared`)
    rates: Rates | None = None  # that turn operations and bytes into seconds
    if_there: Sequence[str] = ()  # further columns that are read where a log has them
    join_attempts: bool = False  # attempts of a job that returned to the queue are one job

    def wanted(self, further: Sequence[str]) -> list[str]:
        """Return the columns to read of the ``further`` ones of a log."""
        there = (*self.if_there, RECORDED_NODES, WORKFLOW)
        return [*self.own, *(name for name in there if name in further and name not in self.own)]


STRICT: Final = Reading()


@dataclass(frozen=True, slots=True)
class Format:
    """A log format: recognition, reader and writer."""

    word: str  # name in scenarios
    meaning: str
    begins: Callable[[bytes], bool]  # whether a file has it, by its first bytes, without blanks
    read: Callable[[Path, Reading], WholeLog] | None = None  # None for SWF, which is read block by block
    suffix: str = ""  # of its files, compression aside; empty where they have none of their own
    writer: Callable[[IO[bytes], Header, Iterable[NamedColumns]], None] | None = None
    """Writes blocks of jobs, all of the same columns, to an open file; None where logs are not written in
    this format, and for SWF."""
    in_blocks: bool = False  # whether logs are written block by block, so that not all jobs are in memory
    keeps_header: bool = True  # whether a file holds the header with codes; else columns hold their names
    check: Callable[[LogBlock, Path], None] | None = None  # rejects jobs of a file that it cannot express
    further: bool = False  # whether logs may have further columns, for the user's own code
    holds: tuple[str, ...] | None = None  # columns that it can hold; None: all that have a name
    numbered: bool = False  # whether it has numbered fields and directives, and is written as SWF
    units: str = ""  # units that a file does not write down
    breadth: int = 0  # order of trial: 0 has a mark of its own, broader ones take similar files too

    @property
    def can_be_written(self) -> bool:
        """Whether logs can be converted to it."""
        return self.numbered or self.writer is not None


class _NeverClosedError(Exception):
    """A quote is open at the end of its line, and the next line is a row of its own."""


def quoted_rows(lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield rows of cells with quotes, and the line on which each ends, from 1.

    Lines have their ends, and the first one has the names. A quoted cell may have several lines. One that
    would hold a whole row has a quote that is none: that line is read without quotes.
    """
    if not any('"' in line for line in lines):
        yield from enumerate(csv.reader(lines, delimiter=delimiter), start=1)
        return
    width = first = 0  # the row that is being read begins at the line `first`

    def fed(start: int) -> Iterator[str]:
        for k in range(start, len(lines)):
            if k > first and lines[k].partition('"')[0].count(delimiter) + 1 >= max(width, 2):
                raise _NeverClosedError
            yield lines[k]

    while first < len(lines):
        start = first
        reader = csv.reader(fed(start), delimiter=delimiter)
        try:
            for row in reader:
                first = start + reader.line_num
                width = width or len(row)
                yield first, row
        except _NeverClosedError:
            first += 1
            yield first, lines[first - 1].rstrip("\r\n").split(delimiter)


# Accounting: one record per job, with times in seconds since 1970


def record_lines(path: Path, *, blank: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, those that are blank only on request."""
    text = decode(read_whole(path, lines=True), path, "workload")
    return ((k, line) for k, line in enumerate(text.splitlines(), start=1) if blank or line.strip())


def read_records(
    path: Path,
    records: Iterable[tuple[int, Record]],
    job: Callable[[Record], dict[str, str] | None],
    options: Reading,
    *,
    left_out: Callable[[], Mapping[str, int]] = dict,
    sources: str = "",
    unit: str = "line",
) -> WholeLog:
    """Make a log of numbered records of accounting; time 0 is the first submission.

    ``job`` turns a record into cells of CSV columns, None for a job that has not ended; its ValueError
    describes a fault, its KeyError names what is missing. ``left_out`` is called after the last record.
    ``sources``: columns and their keys, between semicolons. Resources that no job asks for are left out.
    """
    import polars as pl

    from mlsim.workload.log_columns import TIMES, LogTable

    cells_of: dict[str, list[str]] = {}  # a dict per job would take several times the memory
    requeued: list[bool] = []
    broken = unfinished = 0
    for number, record in records:
        try:
            row = job(record)
        except (ValueError, KeyError) as error:
            found = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
            if not options.lenient:
                raise InputError(
                    f"{path}: {unit} {number}: {found}\n"
                    f"  to skip and count such {unit}s, set workload.lenient: true"
                ) from error
            broken += 1
            continue
        if row is None:
            unfinished += 1
            continue
        requeued.append(bool(row.pop(REQUEUED, "")))
        for name, cell in row.items():
            cells_of.setdefault(name, []).append(cell)
    if not cells_of:
        raise InputError(f"{path}: holds no job that ended")
    known = [float(cell) for cell in cells_of["submit_time"] if cell]
    zero = min(known, default=0.0)
    header: Header = {"UnixStartTime": str(int(zero))} if zero.is_integer() else {}
    columns = {
        name: [str(max(float(cell) - zero, 0.0)) if cell else "" for cell in cells]
        if name in TIMES
        else cells
        for name, cells in cells_of.items()
        if any(cells) or name in _ALWAYS
    }
    columns["submit_time"] = [cell or "-1" for cell in columns["submit_time"]]
    further = [RECORDED_NODES] if RECORDED_NODES in columns else []
    table = LogTable(str(path), pl.DataFrame(columns), header, options, further=further)
    counts = Counter[str](left_out())
    counts["unfinished_jobs"] += unfinished
    read = dict(row.split(maxsplit=1) for row in sources.split(";") if row.strip())
    understood = {name: read.get(name, name) for name in columns}
    return table.log(broken, +counts, understood, np.array(requeued, np.bool_))


REQUEUED: Final = "requeued"  # Cell of an attempt that ended in a return to the queue, if not empty
_ALWAYS = ("job_id", "submit_time", "run_time", "walltime", "processors")


def job_cells(
    job_id: object,
    submit: float | None,
    start: float | None,
    end: float | None,
    *,
    status: int | None,
    **cells: object,
) -> dict[str, str]:
    """Return the cells of a job of accounting, of times in seconds since 1970.

    A job without a start never ran: it was cancelled, and left the queue at its end.
    """
    if start is not None and end is not None and end < start:
        raise ValueError(f"it ended at {end:g}, before its start at {start:g}")
    ran = start is not None
    row: dict[str, object] = {
        "job_id": job_id,
        "submit_time": submit,
        "run_time": 0 if start is None else "" if end is None else end - start,
        **cells,
        "status": 5 if not ran else None if status is None else int(status),
        RECORDED_START: start,
        "withdraw_time": "" if ran else end,
    }
    return {name: "" if cell is None else str(cell) for name, cell in row.items()}


def json_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSON list, of the list or mapping inside an object, or one per line."""
    text = decode(read_whole(path), path, "workload")
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and all(line.startswith("{") and line.rstrip().endswith("}") for line in lines):
        content = [json_of(line, f"{named(path)}: line {k}") for k, line in enumerate(lines, start=1)]
    else:
        content = json_of(text, named(path))
    if isinstance(content, dict):
        inside = next((content[key] for key in ("jobs", "items") if key in content), content)
        by_name = isinstance(inside, dict) and all(isinstance(each, dict) for each in inside.values())
        content = inside if isinstance(inside, list) else list(inside.values()) if by_name else [content]
    if not isinstance(content, list):
        raise InputError(f"{path}: holds no list of jobs")
    return enumerate((record for record in content if isinstance(record, dict)), start=1)


def time_of(value: object, what: str) -> float | None:
    """Return a time in seconds since 1970, None for an unknown one (empty, 0 or below)."""
    if value in (None, ""):
        return None
    try:
        time = float(str(value))
    except ValueError:
        time = math.nan
    if not math.isfinite(time) or time >= LARGEST_WHOLE:
        raise ValueError(f"{what} is {value!r:.60}; expected seconds since 1970")
    return time if time > 0 else None


def whole_number(text: str, what: str) -> int:
    """Return a whole number of at most 15 digits."""
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise ValueError(f"{what} is {text!r:.60}; expected a whole number")
    return int(text)


def seconds_cell(text: str, what: str) -> str:
    """Return the seconds of a time such as 04:00:00, as a cell; empty for an empty text."""
    seconds = clock_seconds(text)
    if text and seconds is None:
        raise ValueError(f"{what} is {text!r:.60}; expected a time such as 04:00:00")
    return "" if seconds is None else str(seconds)
