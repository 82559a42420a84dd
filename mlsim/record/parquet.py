"""Tables of a run as Parquet and CSV files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import polars as pl

from mlsim.errors import OutputError
from mlsim.record.blocks import chunk_blocks, copies_of, is_long, n_rows, record_blocks
from mlsim.record.chunk_store import StoredChunks
from mlsim.record.columns import empty
from mlsim.record.frames import ALWAYS, FILES, frame, job_frame, number_columns
from mlsim.record.growing import let_go
from mlsim.record.numbers_file import NumbersFile
from mlsim.record.streaming import FRAME_ROWS, Frames, write_frames
from mlsim.record.tables import Chunks, Records

__all__ = ["write_tables"]

_PROBE = 1 << 16
"""Bytes added to a file to find out whether there is room."""

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
        if table not in ALWAYS and not n_rows(getattr(records, table)):
            continue
        suffixes = (".parquet", ".csv") if csv else (".parquet",)
        paths = [directory / f"{table}{suffix}" for suffix in suffixes]
        if _is_of_many_chunks(table, records):
            written.append(_write_chunks(records, paths.pop(0)))
        parts = _parts(table, records, technique)
        if parts is None:
            rows = frame(table, records, technique)
            written += [_write(rows, path) for path in paths]
        else:
            written += [_write_parts(parts, path) for path in paths]
    return written


def _is_of_many_chunks(table: str, records: Records) -> bool:
    return table == "chunks" and (isinstance(records.chunks, StoredChunks) or is_long(records.chunks))


def _parts(
    table: str, records: Records, technique: str | None
) -> Callable[[], Iterator[pl.DataFrame]] | None:
    """Return the generator of a very long table's frames, some rows each; None for other tables."""
    jobs = records.jobs

    def of_jobs() -> Iterator[pl.DataFrame]:
        return (job_frame(block, technique) for block in record_blocks(records, FRAME_ROWS))

    def of_occupancy() -> Iterator[pl.DataFrame]:
        for block in copies_of(records.occupancy, FRAME_ROWS):
            yield frame("occupancy", replace(records, occupancy=block), technique)
            let_go(jobs.job_id)

    def of_passes() -> Iterator[pl.DataFrame]:
        for block in copies_of(records.passes, FRAME_ROWS):
            yield frame("passes", replace(records, passes=block), technique)

    def of_chunks() -> Iterator[pl.DataFrame]:
        for block in chunk_blocks(records.chunks):
            yield frame("chunks", replace(records, chunks=block), technique)

    if _is_of_many_chunks(table, records):
        return of_chunks
    if table == "jobs" and is_long(jobs):
        return of_jobs
    if table == "occupancy" and is_long(records.occupancy):
        return of_occupancy
    return of_passes if table == "passes" and is_long(records.passes) else None


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise OutputError(f"cannot make the directory {directory}: {err.strerror}") from err


def _write(rows: pl.DataFrame, path: Path) -> Path:
    with _writing(path):
        if path.suffix == ".csv":
            rows.write_csv(path)
        else:
            rows.write_parquet(path, compression="zstd", compression_level=1, row_group_size=_ROW_GROUP)
    return path


def _write_parts(parts: Frames, path: Path) -> Path:
    with _writing(path):
        write_frames(parts, path)
    return path


def _write_chunks(records: Records, path: Path) -> Path:
    with _writing(path), path.open("wb") as file:
        none = number_columns(empty(Chunks), records.jobs)
        numbers = NumbersFile(file, {name: values.dtype for name, values in none.items()})
        for block in chunk_blocks(records.chunks):
            numbers.write(number_columns(block, records.jobs))
        numbers.close()
    return path


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as err:
        raise OutputError(f"cannot write {path}: {_reason(err, path)}") from err


def _reason(error: Exception, path: Path) -> str:
    """Return the operating system's message of an error; Polars wraps it in its own, or drops it."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    system = re.search(r"([^:]+) \(os error \d+\)", str(error))
    if system:
        return system[1].strip()
    try:  # where a file cannot grow, it still cannot
        with path.open("ab") as file:
            file.write(b" " * _PROBE)
    except OSError as found:
        return found.strerror or str(error)
    return str(error)
