"""Logs of any format as blocks of jobs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

import numpy as np

from mlsim._files.decoding import LONGEST_LINE
from mlsim.errors import InputError
from mlsim.scenario import WorkloadFormat
from mlsim.workload.compression import SUFFIXES, read_chunks
from mlsim.workload.swf_fields import Header
from mlsim.workload.swf_reader import SwfReader
from mlsim.workload.workload_jobs import LogBlock

if TYPE_CHECKING:
    from mlsim.workload.log_times import Rates
    from mlsim.workload.named_columns import NamedColumns


_BLOCK_JOBS = 16_384
_FIRST_BURST, _LAST_BURST = 2, 4
PBS_LINE = re.compile(rb"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z];[^;]+;")
SGE_LINE = re.compile(rb"(?:[^:\n]*:){5}\d+:[^:\n]*:-?\d+:\d+:\d+:\d+:(?:[^:\n]*:){23}\d+:\d+:")


class _WholeLog(Protocol):
    """A log in memory: its jobs in the order of the file, its header, broken jobs skipped."""

    @property
    def jobs(self) -> LogBlock: ...
    @property
    def header(self) -> Header: ...
    @property
    def broken_lines(self) -> int: ...
    @property
    def counts(self) -> Mapping[str, int]: ...


_Read = Callable[[Path, "Rates | None", bool, Sequence[str], Collection[str]], _WholeLog]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of workloads: how it is recognized, read and written."""

    word: WorkloadFormat
    """Its name in scenarios."""
    meaning: str
    """What it is."""
    suffix: str
    """Of its files, compression aside; empty where they have none of their own."""
    begins: Callable[[bytes], bool]
    """Whether the first bytes of a file, decompressed and without blanks, are of this format."""
    read: _Read | None = None
    """Reads a log as a whole (path, rates, whether lenient, further columns that are wanted, names of what
    the machine has as a whole); None for SWF, which is read piece by piece.
    """
    write: Callable[[IO[bytes], NamedColumns, Header], None] | None = None
    """Writes columns with names, and the header; None where that is not known, and for SWF."""
    keeps_header: bool = True
    """Whether a file holds the header, and codes with it; otherwise columns hold the names of codes."""
    check: Callable[[LogBlock, Path], None] | None = None
    """Refuses jobs that the format cannot express (jobs, file they come from)."""
    further: bool = False
    """Whether logs may have further columns, for the user's own code."""
    numbered: bool = False
    """Whether it has numbered fields and directives, as SWF has, and is written as that."""

    @property
    def can_be_written(self) -> bool:
        """Whether logs can be converted to it."""
        return self.numbered or self.write is not None


# What reads and writes other formats than SWF brings polars, which takes long to import.


def _read_parquet(
    path: Path, _: Rates | None, lenient: bool, own: Sequence[str], shared: Collection[str]
) -> _WholeLog:
    from mlsim.workload.parquet_logs import read_parquet

    return read_parquet(path, lenient=lenient, own=own, shared=shared)


def _write_parquet(file: IO[bytes], columns: NamedColumns, header: Header) -> None:
    from mlsim.workload.parquet_logs import write_parquet

    write_parquet(file, columns, header)


def _read_batsim(
    path: Path, rates: Rates | None, lenient: bool, _: Sequence[str], shared: Collection[str]
) -> _WholeLog:
    from mlsim.workload.batsim import read_batsim

    return read_batsim(path, rates, lenient=lenient, shared=shared)


def _write_batsim(file: IO[bytes], columns: NamedColumns, header: Header) -> None:
    from mlsim.workload.batsim import write_batsim

    write_batsim(file, columns, header)


def _check_batsim(log: LogBlock, source: Path) -> None:
    from mlsim.workload.batsim import check_jobs

    check_jobs(log, source)


def _read_csv(
    path: Path, _: Rates | None, lenient: bool, own: Sequence[str], shared: Collection[str]
) -> _WholeLog:
    from mlsim.workload.csv_logs import read_csv

    return read_csv(path, lenient=lenient, own=own, shared=shared)


def _read_sacct(
    path: Path, _: Rates | None, lenient: bool, own: Sequence[str], _shared: Collection[str]
) -> _WholeLog:
    from mlsim.workload.sacct import read_sacct

    return read_sacct(path, lenient=lenient, own=own)


def _names_jobs(head: bytes) -> bool:
    """Whether a first line names columns of sacct, whatever stands between them."""
    line = head.partition(b"\n")[0].decode("utf-8", "replace")
    cells = re.split(r"[|\t,; ]+", line.strip().strip('"'))
    return not {"JobID", "JobIDRaw"}.isdisjoint(cell.strip('"') for cell in cells)


def _is_sacct_json(head: bytes) -> bool:
    """Whether a JSON object begins as those of sacct do."""
    batsim = re.search(rb'"(nb_res|profiles|subtime)"\s*:', head)
    return batsim is None and re.search(rb'"(association|meta|data_parser|openapi)"\s*:', head) is not None


def _is_sacct(head: bytes) -> bool:
    """Whether a file begins as what sacct prints does."""
    return _is_sacct_json(head) if head.startswith(b"{") else _names_jobs(head)


def _read_pbs(
    path: Path, _: Rates | None, lenient: bool, _own: Sequence[str], _shared: Collection[str]
) -> _WholeLog:
    from mlsim.workload.accounting import read_pbs

    return read_pbs(path, lenient=lenient)


def _read_sge(
    path: Path, _: Rates | None, lenient: bool, _own: Sequence[str], _shared: Collection[str]
) -> _WholeLog:
    from mlsim.workload.accounting import read_sge

    return read_sge(path, lenient=lenient)


def _read_by_user(
    name: str, path: Path, _: Rates | None, lenient: bool, own: Sequence[str], shared: Collection[str]
) -> _WholeLog:
    from mlsim.workload.user_reader import read_by_user

    return read_by_user(name, path, lenient=lenient, own=own, shared=shared)


def _write_csv(file: IO[bytes], columns: NamedColumns, _: Header) -> None:
    from mlsim.workload.csv_logs import csv_of_columns

    file.write(csv_of_columns(columns).encode())


def _names_columns(head: bytes) -> bool:
    """Whether a first line has a comma and starts neither with a number nor with a semicolon."""
    line = head.partition(b"\n")[0]
    return b"," in line and not line.startswith(b";") and line[:1] not in b"+-.0123456789"


FORMATS = {
    known.word: known
    for known in (
        Format(
            WorkloadFormat.PARQUET,
            "the columns of csv, as numbers or texts; the jobs.parquet of a run is one",
            ".parquet",
            lambda head: head.startswith(b"PAR1"),
            _read_parquet,
            _write_parquet,
            further=True,
        ),
        Format(
            WorkloadFormat.SACCT,
            "what Slurm's accounting prints: sacct --parsable2, or --json",
            "",
            _is_sacct,
            _read_sacct,
            further=True,
        ),
        Format(
            WorkloadFormat.PBS,
            "accounting of PBS, Torque and OpenPBS: records of jobs that ended",
            "",
            lambda head: PBS_LINE.match(head) is not None,
            _read_pbs,
        ),
        Format(
            WorkloadFormat.SGE,
            "accounting of Grid Engine: one line a job, fields between colons",
            "",
            lambda head: SGE_LINE.match(head) is not None,
            _read_sge,
        ),
        Format(
            WorkloadFormat.BATSIM,
            "JSON of the simulator Batsim",
            ".json",
            lambda head: head.startswith(b"{"),
            _read_batsim,
            _write_batsim,
            check=_check_batsim,
        ),
        Format(
            WorkloadFormat.CSV,
            "columns by name, one line a job",
            ".csv",
            _names_columns,
            _read_csv,
            _write_csv,
            keeps_header=False,
            further=True,
        ),
        Format(
            WorkloadFormat.SWF,
            "Standard Workload Format, version 2.2",
            ".swf",
            lambda _: True,
            numbered=True,
        ),
    )
}
"""All formats, in the order in which they are looked for: what is none of the others is taken for SWF."""


_UNREAD = {
    b'"JOB_': "accounting of LSF (lsb.acct)",
    b"<": "a page or a table in HTML or XML",
    b"PK\x03\x04": "an archive or a spreadsheet",
}
"""How files begin that are often taken for logs, and what they are."""


def format_of(path: str | Path) -> WorkloadFormat:
    """Return the format of a log, by its first bytes after decompression.

    Parquet has a mark of its own. A brace begins the object of a Batsim workload, or of sacct, by the keys
    that come first. A first line with JobID or JobIDRaw names columns of sacct; records of PBS and Grid
    Engine have a form of their own. A first line with a comma that does not start with a number or a
    semicolon names CSV columns; anything else is taken for SWF, whose reader says what is wrong with it.

    Raises
    ------
    InputError
        The file cannot be read, or begins as no format does that is read.
    """
    head = b""
    for chunk in read_chunks(path):
        head = (head + chunk).removeprefix(b"\xef\xbb\xbf").lstrip()
        while head.startswith(b"#") and b"\n" in head:  # comments of Grid Engine
            head = head.partition(b"\n")[2].lstrip()
        enough = len(head) > LONGEST_LINE if head.startswith(b"{") else b"\n" in head
        if enough or len(head) > LONGEST_LINE:
            break
    for mark, system in _UNREAD.items():
        if head.startswith(mark):
            raise InputError(
                f"{path}: this looks like {system}, which is not read; write a reader: "
                "docs/reference/workloads.md"
            )
    return next(known.word for known in FORMATS.values() if known.begins(head))


def format_of_name(path: Path) -> WorkloadFormat | None:
    """Return the format that a file's suffix stands for, compression aside; None if it stands for none."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in SUFFIXES:
        suffixes.pop()
    return next((known.word for known in FORMATS.values() if suffixes[-1:] == [known.suffix]), None)


def check_reader(name: str, execute: bool) -> None:
    """Check the reader of the user's own that a workload names as its format.

    Parameters
    ----------
    name
        With its file as it was found.
    execute
        Whether it is made; otherwise no code of its is executed.

    Raises
    ------
    InputError
        If it cannot be found, made or used.
    """
    from mlsim.plugins import check_plugin
    from mlsim.workload.user_reader import READERS

    check_plugin(READERS, name, execute)


class LogReader:
    """Reads one log from its start to its end, once.

    Parameters
    ----------
    path, log_format, lenient
        As in the scenario's `workload` section; a reader of the user's own with its file as it was found.
    rates
        What turns operations and bytes of a Batsim workload into seconds.
    own
        Further columns that are wanted (`workload.columns`).
    shared
        Names of what the machine has as a whole, of which jobs ask for any amount (`platform.shared`).

    Attributes
    ----------
    header : dict
        What the log says about itself; complete after the first block.
    broken_lines : int
        Lines skipped so far because they were broken.
    counts : Counter
        What else was passed over so far, and how often.
    jobs : int
        Jobs read so far.
    """

    def __init__(
        self,
        path: str | Path,
        log_format: str,
        *,
        lenient: bool,
        rates: Rates | None = None,
        own: Sequence[str] = (),
        shared: Collection[str] = (),
    ) -> None:
        self.path = Path(path)
        self.header: Header = {}
        self.broken_lines = 0
        self.jobs = 0
        self.counts = Counter[str]()
        self._summary = -1
        name = format_of(path) if log_format == WorkloadFormat.AUTO else log_format
        known = FORMATS[name] if isinstance(name, WorkloadFormat) else None
        self._read: _Read | None = partial(_read_by_user, name) if known is None else known.read
        self._lenient = lenient
        self._rates = rates
        self._own, self._shared = tuple(own), tuple(shared)
        if self._own and known is not None and not known.further:
            raise InputError(
                f"{self.path}: workload.columns: logs of format {known.word} have no columns of one's own; "
                "those of formats csv, parquet and sacct do, and what readers of the user return"
            )

    @property
    def streams(self) -> bool:
        """Whether the log is read piece by piece; otherwise it is in memory as a whole while it is read."""
        return self._read is None

    def blocks(self) -> Iterator[LogBlock]:
        """Yield the jobs in the order of the log, at most 16,384 at a time.

        Raises
        ------
        InputError
            The file cannot be read, or a line is broken and `lenient` is false.
        """
        for block in self._swf() if self._read is None else self._whole(self._read):
            self.jobs += len(block)
            yield block

    def _swf(self) -> Iterator[LogBlock]:
        reader = SwfReader(self.path, lenient=self._lenient, block_jobs=_BLOCK_JOBS)
        self.header = reader.header
        for block in reader.blocks():
            self.broken_lines = reader.broken_lines
            yield self._without_bursts(LogBlock.from_columns(block.columns, identifiers=block.identifiers()))
        self.broken_lines = reader.broken_lines

    def _without_bursts(self, log: LogBlock) -> LogBlock:
        """Leave out the parts of a job that was interrupted; the line before them has it as a whole.

        Source: the definition of the Standard Workload Format, status 2, 3 and 4.
        """
        burst = (log.status >= _FIRST_BURST) & (log.status <= _LAST_BURST)
        if not len(log):
            return log
        rows = np.arange(len(log))
        before = np.maximum.accumulate(np.where(burst, -1, rows))
        whole = np.where(before >= 0, log.job_id[before], self._summary)
        if before[-1] >= 0:
            self._summary = int(log.job_id[before[-1]])
        parts = burst & (log.job_id == whole)
        if not parts.any():
            return log
        self.counts["bursts"] += int(np.count_nonzero(parts))
        return log.rows(~parts)

    def _whole(self, read: _Read) -> Iterator[LogBlock]:
        """Read a format that is held in memory as a whole."""
        log = read(self.path, self._rates, self._lenient, self._own, self._shared)
        self.header = log.header
        self.broken_lines = log.broken_lines
        self.counts.update(log.counts)
        for first in range(0, len(log.jobs), _BLOCK_JOBS):
            yield log.jobs.rows(slice(first, first + _BLOCK_JOBS))
