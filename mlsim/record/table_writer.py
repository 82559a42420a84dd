"""Tables of a run as Parquet and CSV files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from mlsim._memory import importing
from mlsim.errors import OutputError
from mlsim.record.growing_arrays import let_go
from mlsim.record.record_tables import Records
from mlsim.record.table_blocks import chunk_blocks, copies_of, n_rows, record_blocks
from mlsim.record.table_files import ALWAYS, FILES

_ROW_GROUP = 1 << 16
"""Rows encoded at a time: bounds the memory that writing takes."""


def write_tables(directory: Path, records: Records, technique: str | None, csv: bool = False) -> list[Path]:
    """Write the tables of a run into a directory, which is made if it does not exist.

    ``jobs``, ``nodes`` and ``occupancy`` are always written, the others where they have rows. The same
    records give the same bytes. One table is in memory at a time.

    Parameters
    ----------
    directory
        Where to write.
    records
        What happened.
    technique
        The run's technique; None if jobs ran no loop.
    csv
        Also write each table as CSV.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    OutputError
        If a file cannot be written; the message names it.
    """
    _make_directory(directory)
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
    with importing():
        from mlsim._files.parquet import write_frames
        from mlsim.record.table_frames import frame

    with _writing(path):
        write_frames(path, (frame(table, block, technique) for block in _blocks(table, records)))
    return path


def _write_csv(table: str, records: Records, technique: str | None, path: Path) -> Path:
    from mlsim.record.table_frames import frame

    with _writing(path), path.open("wb") as file:
        for number, block in enumerate(_blocks(table, records)):
            frame(table, block, technique).write_csv(file, include_header=number == 0)
    return path


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise OutputError(f"cannot make the directory {directory}: {err.strerror}") from err


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        raise OutputError(f"cannot write {path}: {err.strerror or err}") from err
