"""Writer of the Standard Workload Format; what it writes reads back equal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from mlsim._arrays import Floats, Ints
from mlsim.errors import OutputError
from mlsim.workload.compression import compressed_writer
from mlsim.workload.swf_fields import IDENTIFIERS, LARGEST_WHOLE, Field, header_lines

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
