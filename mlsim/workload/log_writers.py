"""Writer of logs of which only a block of jobs at a time is in memory: SWF, CSV and Parquet."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final, Protocol

import numpy as np

from mlsim.errors import InputError, OutputError
from mlsim.record.parquet.parquet_file import ParquetFile
from mlsim.scenario import WorkloadFormat
from mlsim.workload.compression import SUFFIXES, compressed_writer
from mlsim.workload.log_formats import FORMATS, format_of_name
from mlsim.workload.named_columns import NamedColumns, named_columns, number_words, other_directives
from mlsim.workload.parquet_logs import HEADER_KEY
from mlsim.workload.swf_fields import Header
from mlsim.workload.swf_writer import write_swf_blocks
from mlsim.workload.workload_jobs import LogBlock

_FORMATS: Final = (WorkloadFormat.SWF, WorkloadFormat.CSV, WorkloadFormat.PARQUET)
_AT_ONCE = 1 << 16


def check_format(path: Path) -> WorkloadFormat:
    """Return the format that the suffix of a file says, if logs can be written to it block by block.

    Raises
    ------
    InputError
        If they cannot.
    """
    found = format_of_name(path)
    if found in _FORMATS:
        return found
    suffixes = [FORMATS[word].suffix for word in _FORMATS]
    raise InputError(
        f"{path}: its suffix is none of {', '.join(suffixes)}, each also with {', '.join(SUFFIXES[:-1])} "
        f"or {SUFFIXES[-1]} behind it; mlsim workload convert makes other formats"
    )


def write_blocks(path: Path, header: Header, blocks: Iterable[LogBlock]) -> int:
    """Write a log as its suffix says; return how many jobs it has.

    Parameters
    ----------
    path
        Where to; to a temporary name first, then renamed, so that no half a log is ever seen.
    header
        What the log says of itself; CSV keeps no more of it than the names behind codes.
    blocks
        The jobs, in order. CSV and Parquet have the columns of which the first 65,536 jobs know something.

    Raises
    ------
    InputError
        If the format cannot be written so, or a column is known of later jobs only.
    OutputError
        If the file cannot be written.
    """
    found = check_format(path)
    count = _Count()
    counted = count.of(blocks)
    if found is WorkloadFormat.SWF:
        write_swf_blocks(path, header, (block.numbered() for block in counted))
        return count.jobs
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as raw, compressed_writer(path, raw) as packed:
            by_name = found is WorkloadFormat.CSV
            file: _Writer = _Csv(packed) if by_name else _Parquet(packed, header)
            for columns in _aligned(
                path, (named_columns(b, header, all_names=by_name) for b in _joined(counted))
            ):
                file.write(columns)
            file.close()
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return count.jobs


class _Count:
    """Counts jobs as they pass."""

    def __init__(self) -> None:
        self.jobs = 0

    def of(self, blocks: Iterable[LogBlock]) -> Iterator[LogBlock]:
        for block in blocks:
            self.jobs += len(block)
            yield block


class _Writer(Protocol):
    def write(self, columns: NamedColumns) -> None: ...
    def close(self) -> None: ...


class _Csv:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._begun = False

    def write(self, columns: NamedColumns) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self._begun:
            writer.writerow(columns)
        self._begun = True
        words = [each if isinstance(each, list) else number_words(each) for each in columns.values()]
        writer.writerows(zip(*words, strict=True))
        self._file.write(text.getvalue().encode())

    def close(self) -> None:
        """All is written."""


class _Parquet:
    def __init__(self, file: IO[bytes], header: Header) -> None:
        self._file = ParquetFile(file)
        self._header = json.dumps(other_directives(header), ensure_ascii=False)

    def write(self, columns: NamedColumns) -> None:
        self._file.write(
            {
                name: [word or None for word in column] if isinstance(column, list) else column
                for name, column in columns.items()
            }
        )

    def close(self) -> None:
        self._file.close({HEADER_KEY: self._header})


def _joined(blocks: Iterable[LogBlock]) -> Iterator[LogBlock]:
    """Yield blocks of 65,536 jobs or a little more."""
    waiting: list[LogBlock] = []
    for block in blocks:
        waiting.append(block)
        if sum(map(len, waiting)) >= _AT_ONCE:
            yield LogBlock.concatenate(waiting)
            waiting = []
    if waiting:
        yield LogBlock.concatenate(waiting)


def _aligned(path: Path, blocks: Iterable[NamedColumns]) -> Iterator[NamedColumns]:
    """Yield blocks of the same columns; what is unknown of a whole block is told as unknown."""
    kinds: Mapping[str, bool] | None = None
    for columns in blocks:
        found = {name: isinstance(column, list) for name, column in columns.items()}
        kinds = found if kinds is None else kinds
        if any(kinds.get(name) is not texts for name, texts in found.items()):
            late = next(name for name, texts in found.items() if kinds.get(name) is not texts)
            raise InputError(
                f"{path}: column {late}: the first jobs say nothing of it; try a file of suffix .swf"
            )
        n = len(columns["job_id"])
        yield {
            name: columns.get(name, [""] * n if texts else np.full(n, -1, np.int64))
            for name, texts in kinds.items()
        }
