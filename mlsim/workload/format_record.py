"""Declaration of a log format.

A module ``<word>_log.py`` of this room is the format ``<word>``: it declares a :class:`Format` called
``FORMAT``, and nothing else has to know of it. Such modules are imported to recognize any log, so they import
polars (200 ms) inside the functions that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeVar

from mlsim._files import decode
from mlsim.errors import InputError
from mlsim.workload.compression import read_whole
from mlsim.workload.log_times import Rates, clock_seconds
from mlsim.workload.resource_requests import NODE_COUNT, is_request
from mlsim.workload.swf_fields import Header

if TYPE_CHECKING:
    from mlsim.workload.workload_jobs import LogBlock, NamedColumns

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class WholeLog:
    """A log in memory."""

    jobs: LogBlock  # in the order of the file
    header: Header
    broken_lines: int = 0  # broken jobs that were skipped
    counts: Mapping[str, int] = field(default_factory=dict)  # what else was skipped


@dataclass(frozen=True, slots=True)
class Reading:
    """Options of reading a log."""

    lenient: bool = False  # skip and count broken lines
    own: Sequence[str] = ()  # further columns that are wanted (`workload.columns`)
    shared: Sequence[str] = ()  # machine-wide resources, of which jobs ask for any amount (`platform.shared`)
    rates: Rates | None = None  # that turn operations and bytes into seconds


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
    numbered: bool = False  # whether it has numbered fields and directives, and is written as SWF
    breadth: int = 0  # order of trial: 0 has a mark of its own, broader ones take similar files too

    @property
    def can_be_written(self) -> bool:
        """Whether logs can be converted to it."""
        return self.numbered or self.writer is not None


# Accounting: one record per job, with times in seconds since 1970


def record_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, with their numbers."""
    text = decode(read_whole(path, lines=True), path, "workload")
    return ((number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip())


def read_records(
    path: Path,
    records: Iterable[tuple[int, Record]],
    job: Callable[[Record], dict[str, str]],
    options: Reading,
    *,
    counts: Callable[[], Mapping[str, int]] = dict,
    further: Sequence[str] = (),
    unit: str = "line",
) -> WholeLog:
    """Make a log of numbered records of accounting; time 0 is the first submission.

    ``job`` turns a record into cells of CSV columns; its ValueError describes a fault, its KeyError names
    what is missing. ``counts`` is called after the last record. Resources that no job asks for are left out.
    """
    import polars as pl

    from mlsim.workload.log_columns import TIMES
    from mlsim.workload.log_table import LogTable

    cells_of: dict[str, list[str]] = {}  # a dict per job would take several times the memory
    broken = 0
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
        for name, cell in row.items():
            cells_of.setdefault(name, []).append(cell)
    if not cells_of:
        raise InputError(f"{path}: holds no job that ended")
    zero = min(map(float, cells_of["submit_time"]))
    header: Header = {"UnixStartTime": str(int(zero))} if zero.is_integer() else {}
    columns = {
        name: [str(float(cell) - zero) if cell else "" for cell in cells] if name in TIMES else cells
        for name, cells in cells_of.items()
        if any(cells) or not (is_request(name) or name == NODE_COUNT)
    }
    table = LogTable(str(path), pl.DataFrame(columns), header, options, further=further)
    return table.log(broken, counts())


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
