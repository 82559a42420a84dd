"""Writer of workloads as CSV; what it writes reads back equal."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mlsim.errors import OutputError
from mlsim.workload.compression import compressed_writer
from mlsim.workload.fields import LARGEST_WHOLE
from mlsim.workload.header import Header
from mlsim.workload.jobs import JobBlock

__all__ = ["csv_text", "write_csv"]

_ALWAYS = ("job_id", "submit_time", "run_time", "estimate", "processors")
_IF_KNOWN = (
    *("status", "user", "group", "executable", "queue", "partition"),
    *("loop_iterations", "loop_limit"),
)


def write_csv(path: Path, jobs: JobBlock, header: Header | None = None) -> None:
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
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as raw, compressed_writer(path, raw) as packed:
            packed.write(csv_text(jobs, header).encode())
        partial.replace(path)
    except OSError as err:
        raise OutputError(f"{path}: cannot be written: {err.strerror or err}") from err
    finally:
        partial.unlink(missing_ok=True)


def csv_text(jobs: JobBlock, header: Header | None = None) -> str:
    """Give the text of the file that :func:`write_csv` writes."""
    known = [name for name in _IF_KNOWN if np.any(getattr(jobs, name) != -1)]
    columns = {name: _words(getattr(jobs, name)) for name in (*_ALWAYS, *known)}
    for name in known:
        names = (header or {}).get(f"{name}_names")
        if names is not None:
            columns[name] = [names[code - 1] if code > 0 else "" for code in getattr(jobs, name).tolist()]
    if jobs.asked is not None:
        columns |= {name: _words(column) for name, column in jobs.asked.columns().items()}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def _words(column: NDArray[np.float64] | NDArray[np.int64]) -> list[str]:
    """Shortest decimal texts that read back as the same numbers."""
    values = column.tolist()
    return [str(int(v)) if v == int(v) and abs(v) <= LARGEST_WHOLE else repr(v) for v in values]
