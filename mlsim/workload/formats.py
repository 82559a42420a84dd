"""Logs of any format as blocks of jobs: the one place that knows which formats there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlsim.errors import InputError
from mlsim.scenario import WorkloadFormat
from mlsim.workload.compression import read_chunks
from mlsim.workload.header import Header
from mlsim.workload.log import LogBlock
from mlsim.workload.swf import SwfReader

if TYPE_CHECKING:
    from mlsim.workload.batsim import BatsimLog
    from mlsim.workload.csv import CsvLog
    from mlsim.workload.parquet import ParquetLog
    from mlsim.workload.rates import Rates

__all__ = ["LogReader", "check_reader", "format_of"]

_BLOCK_JOBS = 16_384
_LONGEST_LINE = 1 << 20
_PARQUET_MAGIC = b"PAR1"


def format_of(path: str | Path) -> WorkloadFormat:
    """Tell the format of a log by its first bytes, after decompression.

    Parquet has a mark of its own, and a brace begins the object of a Batsim workload. A first line with a
    comma that does not start with a number or a semicolon names CSV columns; anything else is taken for
    SWF, whose reader says what is wrong with it.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    head = b""
    for chunk in read_chunks(path):
        head = (head + chunk).removeprefix(b"\xef\xbb\xbf").lstrip()
        if b"\n" in head or len(head) > _LONGEST_LINE:
            break
    if head.startswith(_PARQUET_MAGIC):
        return WorkloadFormat.PARQUET
    if head.startswith(b"{"):
        return WorkloadFormat.BATSIM
    line = head.partition(b"\n")[0]
    names_columns = b"," in line and not line.startswith(b";") and line[:1] not in b"+-.0123456789"
    return WorkloadFormat.CSV if names_columns else WorkloadFormat.SWF


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

    Attributes
    ----------
    header : dict
        What the log says about itself; complete after the first block.
    broken_lines : int
        Lines skipped so far because they were broken.
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
    ) -> None:
        self.path = Path(path)
        self.header: Header = {}
        self.broken_lines = 0
        self.jobs = 0
        self._format = format_of(path) if log_format is WorkloadFormat.AUTO else log_format
        self._lenient = lenient
        self._rates = rates
        self._own = tuple(own)
        if self._own and self._format in (WorkloadFormat.SWF, WorkloadFormat.BATSIM):
            raise InputError(
                f"{self.path}: workload.columns: logs of format {self._format} have no columns of one's own; "
                "those of formats csv and parquet do, and what readers of the user return"
            )

    @property
    def streams(self) -> bool:
        """Whether the log is read piece by piece; otherwise it is in memory as a whole while it is read."""
        return self._format is WorkloadFormat.SWF

    def blocks(self) -> Iterator[LogBlock]:
        """Yield the jobs in the order of the log, at most 16,384 at a time.

        Raises
        ------
        InputError
            The file cannot be read, or a line is broken and `lenient` is false.
        """
        for block in self._swf() if self.streams else self._whole():
            self.jobs += len(block)
            yield block

    def _swf(self) -> Iterator[LogBlock]:
        reader = SwfReader(self.path, lenient=self._lenient, block_jobs=_BLOCK_JOBS)
        self.header = reader.header
        for block in reader.blocks():
            self.broken_lines = reader.broken_lines
            yield LogBlock.from_columns(block.columns)
        self.broken_lines = reader.broken_lines

    def _whole(self) -> Iterator[LogBlock]:
        """Read a format that is held in memory as a whole."""
        log = self._read()
        self.header = log.header
        self.broken_lines = log.broken_lines
        for first in range(0, len(log.jobs), _BLOCK_JOBS):
            yield log.jobs.rows(slice(first, first + _BLOCK_JOBS))

    def _read(self) -> CsvLog | ParquetLog | BatsimLog:
        # Each brings polars, which takes long to import.
        if not isinstance(self._format, WorkloadFormat):
            from mlsim.workload.user_reader import read_by_user

            return read_by_user(self._format, self.path, lenient=self._lenient, own=self._own)
        if self._format is WorkloadFormat.PARQUET:
            from mlsim.workload.parquet import read_parquet

            return read_parquet(self.path, lenient=self._lenient, own=self._own)
        if self._format is WorkloadFormat.BATSIM:
            from mlsim.workload.batsim import read_batsim

            return read_batsim(self.path, self._rates, lenient=self._lenient)
        from mlsim.workload.csv import read_csv

        return read_csv(self.path, lenient=self._lenient, own=self._own)
