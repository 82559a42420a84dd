"""Writer of workloads as CSV; what it writes reads back equal."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

from mlsim.errors import OutputError
from mlsim.workload.compression import compressed_writer
from mlsim.workload.header import Header
from mlsim.workload.jobs import JobBlock
from mlsim.workload.log import LogBlock
from mlsim.workload.named import NamedColumns, named_columns, number_words

__all__ = ["csv_of_columns", "csv_text", "write_csv"]


def write_csv(path: str | Path, jobs: JobBlock | LogBlock, header: Header | None = None) -> None:
    """Write jobs: to a temporary name first, then renamed, so that no half a workload is ever seen.

    Parameters
    ----------
    path
        Where to; the suffix .gz, .bz2, .xz or .zst compresses.
    jobs
        The jobs; columns of which nothing is known are left out.
    header
        Its ``<column>_names`` are written in place of a column's codes. Names in the order in which the
        codes first appear, 1 first, read back as the same codes.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as raw, compressed_writer(path, raw) as packed:
            packed.write(csv_text(jobs, header).encode())
        partial.replace(path)
    except OSError as err:
        raise OutputError(f"{path}: cannot be written: {err.strerror or err}") from err
    finally:
        partial.unlink(missing_ok=True)


def csv_text(jobs: JobBlock | LogBlock, header: Header | None = None) -> str:
    """Return the text of the file that :func:`write_csv` writes."""
    return csv_of_columns(named_columns(jobs, header))


def csv_of_columns(named: NamedColumns) -> str:
    """Return columns by name as CSV: a line of names, then one a job."""
    columns = {
        name: column if isinstance(column, list) else number_words(column) for name, column in named.items()
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()
