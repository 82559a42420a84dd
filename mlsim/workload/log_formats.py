"""Logs of any format, read and written in blocks of jobs."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

import numpy as np

from mlsim._files import LONGEST_LINE, expanded, is_directory
from mlsim.errors import InputError
from mlsim.scenario.words import WorkloadFormat
from mlsim.workload.format_record import SUFFIXES, Format, Reading, WholeLog, new_file, read_chunks
from mlsim.workload.lb4omp_times import MARKS
from mlsim.workload.log_fields import Field, Header
from mlsim.workload.swf_log import SwfReader, write_swf_blocks
from mlsim.workload.workload_jobs import LogBlock, NamedColumns, named_columns

_BLOCK_JOBS = 16_384
_FIRST_BURST, _LAST_BURST = 2, 4


_FOUND: dict[WorkloadFormat, Format] = {
    word: import_module(f"mlsim.workload.{word}_log").FORMAT
    for word in WorkloadFormat
    if word is not WorkloadFormat.AUTO
}
FORMATS: Final = dict(sorted(_FOUND.items(), key=lambda each: each[1].breadth))
"""All formats, in the order in which they are tried; SWF takes the rest, and its reader reports errors."""

_UNREAD = {b"<": "a page or a table in HTML or XML", b"PK\x03\x04": "an archive or a spreadsheet"}
"""First bytes of files that are often mistaken for logs, with the kind of each."""


def format_of(path: str | Path) -> WorkloadFormat:
    """Return the format of a log: the first of the :data:`FORMATS` that its decompressed begin fits."""
    if is_directory(expanded(path)):
        return WorkloadFormat.RUN
    head = b""
    for chunk in read_chunks(path):
        head = (head + chunk).removeprefix(b"\xef\xbb\xbf").lstrip()
        while head.startswith(b"#") and b"\n" in head:  # comments of Grid Engine
            head = head.partition(b"\n")[2].lstrip()
        plain = head[:1] not in (b"{", b"[", b"*") and b" = " not in head[:100]
        if (plain and b"\n" in head) or len(head) > LONGEST_LINE:
            break
    if head.startswith(MARKS):
        raise InputError(
            f"{path}: loop times of LB4OMP; make it a workload: mlsim workload convert {path} OUT"
        )
    for mark, system in _UNREAD.items():
        if head.startswith(mark):
            raise InputError(
                f"{path}: this looks like {system}, which is not read; write a reader: "
                "docs/reference/workloads.md"
            )
    return next(word for word, known in FORMATS.items() if known.begins(head))


def format_of_name(path: Path) -> WorkloadFormat | None:
    """Return the format of a file's suffix, compression aside; None if no format has it."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in SUFFIXES:
        suffixes.pop()
    return next((word for word, known in FORMATS.items() if suffixes[-1:] == [known.suffix]), None)


class LogReader:
    """Reads one log from its start to its end, once; the first block completes the ``header``."""

    def __init__(self, path: str | Path, log_format: str, options: Reading) -> None:
        self.path = Path(path)
        self.header: Header = {}
        self.broken_lines = 0
        self.jobs = 0
        self.counts = Counter[str]()
        self.understood: Mapping[str, str] = {}
        """Columns of the log, and the columns or fields of the file that they come from."""
        self._summary = -1
        name = format_of(path) if log_format == WorkloadFormat.AUTO else log_format
        known = FORMATS[name] if isinstance(name, WorkloadFormat) else None
        self.format = known
        self._read: Callable[[Path, Reading], WholeLog] | None
        if known is None:
            from mlsim.workload.user_workloads import read_by_user  # imports the plug-ins, which takes 40 ms

            self._read = partial(read_by_user, name)
        else:
            self._read = known.read
        self._options = options
        if options.own and known is not None and not known.further:
            raise InputError(
                f"{self.path}: workload.columns: logs of format {known.word} have no columns of one's own; "
                "those of formats csv, parquet and sacct do, and what readers of the user return"
            )

    @property
    def streams(self) -> bool:
        """Whether the log is read block by block; otherwise it is in memory as a whole."""
        return self._read is None

    def blocks(self) -> Iterator[LogBlock]:
        """Yield the jobs in the order of the log, at most 16,384 at a time."""
        for block in self._streamed() if self._read is None else self._whole(self._read):
            self.jobs += len(block)
            yield block

    def _streamed(self) -> Iterator[LogBlock]:
        reader = SwfReader(self.path, lenient=self._options.lenient, block_jobs=_BLOCK_JOBS)
        self.header = reader.header
        self.understood = {column: f"field {field + 1}" for column, field in SWF_FIELDS.items()}
        for block in reader.blocks():
            self.broken_lines = reader.broken_lines
            yield self._without_bursts(LogBlock.from_columns(block.columns, identifiers=block.identifiers()))
        self.broken_lines = reader.broken_lines

    def _without_bursts(self, log: LogBlock) -> LogBlock:
        """Leave out the parts of an interrupted job (SWF, status 2 to 4), which follow the whole job."""
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

    def _whole(self, read: Callable[[Path, Reading], WholeLog]) -> Iterator[LogBlock]:
        log = read(self.path, self._options)
        self.header = log.header
        self.broken_lines = log.broken_lines
        self.counts.update(log.counts)
        self.understood = log.understood
        for first in range(0, len(log.jobs), _BLOCK_JOBS):
            yield log.jobs.rows(slice(first, first + _BLOCK_JOBS))


SWF_FIELDS = {field.label: int(field) for field in Field} | {"recorded_start": int(Field.WAIT_TIME)}
_AT_ONCE = 1 << 16


def check_format(path: Path) -> WorkloadFormat:
    """Return the format that the suffix of a file names, if logs can be written in it block by block."""
    found = format_of_name(path)
    if found is not None and FORMATS[found].in_blocks:
        return found
    suffixes = sorted(known.suffix for known in FORMATS.values() if known.in_blocks)
    raise InputError(
        f"{path}: its suffix is none of {', '.join(suffixes)}, each also with {', '.join(SUFFIXES[:-1])} "
        f"or {SUFFIXES[-1]} behind it; mlsim workload convert makes other formats"
    )


def write_blocks(path: Path, header: Header, blocks: Iterable[LogBlock]) -> int:
    """Write a log in the format of its suffix; return the number of jobs."""
    known = FORMATS[check_format(path)]
    jobs = 0

    def counted() -> Iterator[LogBlock]:
        nonlocal jobs
        for block in blocks:
            jobs += len(block)
            yield block

    if known.numbered:
        write_swf_blocks(path, header, (block.numbered() for block in counted()))
    else:
        named = (named_columns(b, header, all_names=not known.keeps_header) for b in _joined(counted()))
        write_columns(path, known, header, _aligned(path, named))
    return jobs


def write_columns(path: Path, to: Format, header: Header, blocks: Iterable[NamedColumns]) -> None:
    """Write blocks of the same columns in a format that has a writer of columns."""
    assert to.writer is not None
    with new_file(path) as file:
        to.writer(file, header, blocks)


def _joined(blocks: Iterable[LogBlock]) -> Iterator[LogBlock]:
    """Yield blocks of 65,536 jobs or a little more; the first one decides which columns are written."""
    waiting: list[LogBlock] = []
    for block in blocks:
        waiting.append(block)
        if sum(map(len, waiting)) >= _AT_ONCE:
            yield LogBlock.concatenate(waiting)
            waiting = []
    if waiting:
        yield LogBlock.concatenate(waiting)


def _aligned(path: Path, blocks: Iterable[NamedColumns]) -> Iterator[NamedColumns]:
    """Yield blocks of the same columns; a column that a whole block lacks is unknown there."""
    kinds: dict[str, bool] = {}
    for columns in blocks:
        found = {name: isinstance(column, list) for name, column in columns.items()}
        kinds = kinds or found
        late = next((name for name, texts in found.items() if kinds.get(name) is not texts), None)
        if late is not None:
            raise InputError(
                f"{path}: column {late}: the first jobs say nothing of it; try a file of suffix .swf"
            )
        n = len(columns["job_id"])
        yield {
            name: columns.get(name, [""] * n if texts else np.full(n, -1, np.int64))
            for name, texts in kinds.items()
        }
