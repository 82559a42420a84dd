"""Writers of workloads, a block of jobs at a time."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike

from mlsim._arrays import Floats, Ints
from mlsim.errors import InputError, OutputError
from mlsim.record.parquet.parquet_file import ParquetFile
from mlsim.scenario import WorkloadFormat
from mlsim.workload.compression import SUFFIXES, compressed_writer
from mlsim.workload.log_formats import FORMATS, format_of_name
from mlsim.workload.named_columns import NamedColumns, named_columns, number_words, other_directives
from mlsim.workload.parquet_logs import HEADER_KEY
from mlsim.workload.swf_fields import IDENTIFIERS, LARGEST_WHOLE, Field, Header, header_lines
from mlsim.workload.workload_jobs import LogBlock

_ROWS_AT_ONCE = 16_384


def write_swf(
    path: str | Path,
    header: Mapping[str, str | Sequence[str]],
    columns: Mapping[Field, ArrayLike],
    extras: Sequence[Sequence[str]] | None = None,
) -> None:
    """Write a log: to a temporary name first, then renamed, so that no half a log is ever seen.

    Parameters
    ----------
    path
        Where to; the suffix .gz, .bz2, .xz or .zst compresses.
    header
        Directives, written as `; Key: value`; a list of values makes a line of each.
    columns
        Values by column, all of one length; columns not given are written as -1, unknown.
    extras
        Words for the columns after the 18th, one sequence a job, all of one length.

    Raises
    ------
    ValueError
        The columns differ in length, or a value cannot stand in its column.
    OutputError
        The file cannot be written.
    """
    path = Path(path)
    table = _table(columns)
    _write(path, header, _rows(table, _identifiers(columns), _tails(extras, table.shape[1])))


def write_swf_blocks(
    path: Path,
    header: Mapping[str, str | Sequence[str]],
    blocks: Iterable[Mapping[Field, ArrayLike]],
) -> None:
    """Write a log as :func:`write_swf` does, of which only a block of jobs at a time is in memory."""

    def lines() -> Iterator[bytes]:
        for columns in blocks:
            table = _table(columns)
            yield from _rows(table, _identifiers(columns), _tails(None, table.shape[1]))

    _write(path, header, lines())


def _write(path: Path, header: Mapping[str, str | Sequence[str]], rows: Iterable[bytes]) -> None:
    comments = list(header_lines(header))
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as raw, compressed_writer(path, raw) as packed:
            packed.write("".join(f"{comment}\n" for comment in comments).encode())
            for lines in rows:
                packed.write(lines)
        partial.replace(path)
    except OSError as err:
        raise OutputError(f"{path}: cannot be written: {err.strerror or err}") from err
    finally:
        partial.unlink(missing_ok=True)


def _table(columns: Mapping[Field, ArrayLike]) -> Floats:
    """Return all 18 columns as one array of shape (18, jobs), checked."""
    given = {field: np.atleast_1d(np.asarray(values, np.float64)) for field, values in columns.items()}
    lengths = {values.shape for values in given.values()}
    if len(lengths) != 1:
        raise ValueError(f"columns must be given and of one length, found shapes {sorted(lengths)}")
    table = np.full((len(Field), lengths.pop()[0]), -1.0)
    for field, values in given.items():
        _check(field, values)
        table[field] = values
    return table


def _check(field: Field, values: Floats) -> None:
    wrong = values[~field.allows(values)]
    if wrong.size:
        raise ValueError(f"{field.label} holds {wrong[0]}; expected {field.expected}")


def _tails(extras: Sequence[Sequence[str]] | None, jobs: int) -> list[str]:
    if extras is None:
        return [""] * jobs
    if len(extras) != jobs or len({len(words) for words in extras}) > 1:
        raise ValueError("extras must hold the same number of words for every job")
    for words in extras:
        for word in words:
            if word.split() != [word]:
                raise ValueError(f"extras hold {word!r}; expected one word without blanks")
    return ["".join(f" {word}" for word in words) for words in extras]


def _identifiers(columns: Mapping[Field, ArrayLike]) -> dict[int, Ints]:
    """Return the columns that are whole numbers, as float64 may not hold them."""
    given = {
        int(field): np.atleast_1d(np.asarray(columns[field])) for field in IDENTIFIERS if field in columns
    }
    return {place: values for place, values in given.items() if values.dtype == np.int64}


def _rows(table: Floats, identifiers: Mapping[int, Ints], tails: Sequence[str]) -> Iterator[bytes]:
    """Yield the lines of the jobs, many at once."""
    for first in range(0, table.shape[1], _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        columns = [identifiers.get(place, column)[rows] for place, column in enumerate(table)]
        words = zip(*(_words(column) for column in columns), strict=True)
        lines = (f"{' '.join(row)}{tail}\n" for row, tail in zip(words, tails[rows], strict=True))
        yield "".join(lines).encode()


def _words(column: Floats | Ints) -> list[str]:
    """Return the shortest decimal texts that read back as the same numbers."""
    if column.dtype == np.int64:
        return [str(value) for value in column.tolist()]
    if np.all((column == np.floor(column)) & (np.abs(column) <= LARGEST_WHOLE)):
        return [str(value) for value in column.astype(np.int64).tolist()]
    return [
        str(int(value)) if value.is_integer() and abs(value) <= LARGEST_WHOLE else repr(value)
        for value in column.tolist()
    ]


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
