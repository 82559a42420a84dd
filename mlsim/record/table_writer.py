"""Tables of a run as data frames, Parquet and CSV files; imports Polars, and so is imported late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from mlsim._files.parquet import write_frames
from mlsim._runtime.forks import check_fork
from mlsim.errors import OutputError
from mlsim.record.growing_arrays import let_go
from mlsim.record.record_tables import Records
from mlsim.record.table_blocks import chunk_blocks, copies_of, n_rows, record_blocks
from mlsim.record.table_files import ALWAYS, FILES, Columns, Known, Values, Words, file_columns

_ROW_GROUP = 1 << 16
"""Rows encoded at a time: bounds the memory that writing takes."""


def write_tables(directory: Path, records: Records, technique: str | None, csv: bool = False) -> list[Path]:
    """Write the tables of a run into a directory, which is made if it does not exist; return the files.

    ``jobs``, ``nodes`` and ``occupancy`` are always written, the others where they have rows; with ``csv``
    each as CSV as well. The same records give the same bytes. One table is in memory at a time. Raises
    OutputError, which names the file, if one cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise OutputError(f"cannot make the directory {directory}: {err.strerror}") from err
    written: list[Path] = []
    for table in FILES:
        if table in ALWAYS or n_rows(getattr(records, table)):
            written.append(_write_parquet(table, records, technique, directory / f"{table}.parquet"))
            if csv:
                written.append(_write_csv(table, records, technique, directory / f"{table}.csv"))
    return written


def _blocks(table: str, records: Records) -> Iterator[Records]:
    """Yield records with some rows of a table that may be long after the other."""
    rows = getattr(records, table)
    if table == "chunks":
        for chunks in chunk_blocks(rows):
            yield replace(records, chunks=chunks)
    elif table not in ("jobs", "occupancy", "passes") or n_rows(rows) <= _ROW_GROUP:
        yield records
    elif table == "jobs":
        yield from record_blocks(records, _ROW_GROUP)
    else:
        for block in copies_of(rows, _ROW_GROUP):
            yield replace(records, **{table: block})
            let_go(records.jobs.job_id)


def _write_parquet(table: str, records: Records, technique: str | None, path: Path) -> Path:
    with _writing(path):
        write_frames(path, (frame(table, block, technique) for block in _blocks(table, records)))
    return path


def _write_csv(table: str, records: Records, technique: str | None, path: Path) -> Path:
    with _writing(path), path.open("wb") as file:
        for number, block in enumerate(_blocks(table, records)):
            frame(table, block, technique).write_csv(file, include_header=number == 0)
    return path


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        raise OutputError(f"cannot write {path}: {err.strerror or err}") from err


def frame(file: str, records: Records, technique: str | None) -> pl.DataFrame:
    """Return the frame of one table; parameters and columns are those of :func:`file_columns`."""
    return frame_of(file_columns(file, records, technique))


def frame_of(columns: Columns) -> pl.DataFrame:
    """Return a frame of plain columns; NaN becomes null."""
    check_fork()
    return pl.DataFrame({name: _series(values) for name, values in columns.items()}, nan_to_null=True)


def _series(values: Values) -> pl.Series | Values:
    if isinstance(values, Known):
        series = pl.Series(values.numbers)
        return series if values.known.all() else series.set(pl.Series(~values.known), None)
    if isinstance(values, Words):  # one byte per row where words are few, and a text to readers
        words = [*values.words, None]
        kind = pl.Enum(list(values.words)) if values.closed else pl.String()
        places = np.where(values.codes < 0, len(values.words), values.codes)
        return pl.Series(words, dtype=kind).gather(places.astype(np.uint32))
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values
    return pl.Series(list(values), dtype=pl.String)
