"""Reader of workloads as CSV: one line of column names, then one line a job.

========================  ========  ============================================================
column                    required  meaning
========================  ========  ============================================================
job_id                    yes       whole number from 0 up
submit_time               yes       s of the log's own time, from 0 up
run_time                  yes       s
walltime (or estimate)    yes       requested time [s]
processors                yes       whole number
status                    no        as in SWF: 1 completed, 0 failed, 5 cancelled
user, group, executable,  no        whole numbers; or names, which become 1, 2, ... in the order
queue, partition                    in which they first appear (the header keeps `<column>_names`)
loop_iterations           no        iterations of the loop that the job executes, from 1 up
loop_limit                no        most steps of a pixel in its Mandelbrot image, from 1 up
units                     no        identical units of the job, from 1 up; processors must divide by it
request_<resource>        no        what all units together ask of a resource of the platform, from 0
                                    up (request_memory in MB); must divide by the units
========================  ========  ============================================================

An empty cell means unknown, as -1 does, except for job_id and submit_time, which must be there.
Other columns are passed over and named in the header under `ignored_columns`. Unlike an SWF log, a
CSV file is held in memory as a whole.
"""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mlsim.errors import InputError
from mlsim.workload.asked import Asked
from mlsim.workload.compression import read_chunks
from mlsim.workload.fields import Field, LoopField
from mlsim.workload.header import Header
from mlsim.workload.log import LogBlock

__all__ = ["CsvLog", "read_csv"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_ALIASES = {"walltime": Field.REQUESTED_TIME, "estimate": Field.REQUESTED_TIME}
_REQUIRED = {
    "job_id": Field.JOB_ID,
    "submit_time": Field.SUBMIT_TIME,
    "run_time": Field.RUN_TIME,
    "processors": Field.REQUESTED_PROCESSORS,
}
_OPTIONAL = {"status": Field.STATUS}
_NAMED = {
    "user": Field.USER,
    "group": Field.GROUP,
    "executable": Field.EXECUTABLE,
    "queue": Field.QUEUE,
    "partition": Field.PARTITION,
}
_LOOP = {field.name.lower(): field for field in LoopField}
_KNOWN: dict[str, Field | LoopField] = _REQUIRED | _ALIASES | _OPTIONAL | _NAMED | _LOOP
_REQUEST = "request_"
_NEVER_EMPTY = (Field.JOB_ID, Field.SUBMIT_TIME)
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_WHOLE = r"^[+-]?[0-9]{1,15}$"


@dataclass(frozen=True, slots=True)
class CsvLog:
    """A CSV workload.

    Attributes
    ----------
    jobs
        The jobs in the order of the file.
    header
        Names behind the codes of text columns, and columns that were passed over.
    broken_lines
        Broken lines skipped.
    """

    jobs: LogBlock
    header: Header
    broken_lines: int


@dataclass(frozen=True, slots=True)
class _Records:
    """The structure of a file: what its lines hold, before any cell is understood."""

    names: list[str]
    text: str
    lines: Ints
    broken_lines: int


def read_csv(path: Path, *, lenient: bool = False) -> CsvLog:
    """Read a CSV workload, compressed or not.

    Parameters
    ----------
    path
        The file.
    lenient
        Skip and count broken lines.

    Raises
    ------
    InputError
        The file cannot be read, a required column is missing, or (unless `lenient`) a line is
        broken: another number of cells than there are columns, or a cell that is no number where
        one is needed or makes no sense in its column.
    """
    records = _records(path, _text(path), lenient)
    cells = pl.read_csv(
        io.BytesIO(records.text.encode()), has_header=False, new_columns=records.names, infer_schema=False
    ).select(pl.all().str.strip_chars())
    if cells.height != records.lines.size:
        raise InputError(f"{path}: cannot be read as CSV; is a quote opened and never closed?")
    columns = np.full((len(Field) + len(LoopField), cells.height), -1.0)
    sound = np.ones(cells.height, np.bool_)
    header: Header = {}
    for name in (name for name in records.names if name in _KNOWN):
        values, fits = _column(name, cells[name], header)
        if not lenient:
            _complain(path, name, cells[name], fits, records.lines)
        columns[_KNOWN[name]] = values
        sound &= fits
    asked, divides = _asked(path, records, cells, columns[Field.REQUESTED_PROCESSORS], lenient)
    if asked is not None:
        header["request_columns"] = [name for name in records.names if _is_request(name)]
    ignored = [name for name in records.names if name not in _KNOWN and not _is_request(name)]
    if ignored:
        header["ignored_columns"] = ignored
    jobs = replace(LogBlock.from_columns(columns), asked=asked).rows(sound & divides)
    sound &= divides
    return CsvLog(jobs, header, records.broken_lines + int(np.sum(~sound)))


def _is_request(name: str) -> bool:
    return name == "units" or (name.startswith(_REQUEST) and name != _REQUEST)


def _asked(
    path: Path, records: _Records, cells: pl.DataFrame, processors: Floats, lenient: bool
) -> tuple[Asked | None, Mask]:
    """Return what the jobs ask for beside processors, and which of them make sense."""
    columns = [name for name in records.names if _is_request(name)]
    sound = np.ones(cells.height, np.bool_)
    if not columns:
        return None, sound
    if f"{_REQUEST}cores" in columns:
        raise InputError(f"{path}: column request_cores: write the cores of a job as its processors")
    values: dict[str, Ints] = {}
    for name in columns:
        values[name], fits = _whole(cells[name], 1 if name == "units" else 0)
        _require(path, records, cells, name, fits, lenient, "a whole number, or nothing if unknown")
        sound &= fits
    units: Ints = values.pop("units", np.full(cells.height, -1, np.int64))
    totals_of: dict[str, NDArray[Any]] = {"processors": processors, **values}
    for name, amounts in totals_of.items():
        fits = (units < 1) | (amounts < 0) | (amounts % np.maximum(units, 1) == 0)
        _require(path, records, cells, name, fits, lenient, "a multiple of the job's units")
        sound &= fits
    totals = np.empty((cells.height, len(values)), np.int64)
    for column, known in enumerate(values.values()):
        totals[:, column] = known
    return Asked(tuple(name.removeprefix(_REQUEST) for name in values), units, totals), sound


def _whole(cells: pl.Series, least: int) -> tuple[Ints, Mask]:
    """Read whole numbers from ``least`` up; -1 for empty cells and -1 itself."""
    empty = (cells.is_null() | (cells == "").fill_null(True)).to_numpy()
    whole = cells.str.contains(_WHOLE).fill_null(False).to_numpy()
    values = cells.cast(pl.Int64, strict=False).fill_null(-1).to_numpy().copy()
    fits: Mask = empty | (whole & ((values >= least) | (values == -1)))
    return values.astype(np.int64), fits


def _require(
    path: Path, records: _Records, cells: pl.DataFrame, name: str, fits: Mask, lenient: bool, what: str
) -> None:
    if lenient or fits.all():
        return
    row = int(np.argmin(fits))
    raise InputError(
        f"{path}:{records.lines[row]}: broken line: {name} is {str(cells[name][row])[:60]!r}; "
        f"expected {what}\n"
        "  to skip and count such lines, set workload.lenient: true"
    )


def _text(path: Path) -> str:
    data = b"".join(read_chunks(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        line = data.count(b"\n", 0, err.start) + 1
        raise InputError(f"{path}:{line}: is not UTF-8 text; save the file as UTF-8") from err


def _records(path: Path, text: str, lenient: bool) -> _Records:
    """Check the number of cells on every line; returns the records without header and blank lines."""
    names: list[str] = []
    kept, lines, broken = io.StringIO(), [], 0
    write = csv.writer(kept, lineterminator="\n", quoting=csv.QUOTE_ALL).writerow
    for line, cells in _numbered(path, text):
        if not names:
            names = [cell.strip() for cell in cells]
            _check_names(path, line, names)
        elif len(cells) == len(names):
            write(cells)
            lines.append(line)
        elif lenient:
            broken += 1
        else:
            raise InputError(f"{path}:{line}: broken line: {len(cells)} cells; expected {len(names)}")
    if not lines:
        raise InputError(f"{path}: holds no job")
    return _Records(names, kept.getvalue(), np.array(lines), broken)


def _numbered(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the records that are not blank, with the number of the line each ends on."""
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as err:
        raise InputError(f"{path}:{reader.line_num}: cannot be read as CSV: {err}") from err


def _check_names(path: Path, line: int, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}:{line}: column {', '.join(twice)} is there twice")
    missing = [name for name in _REQUIRED if name not in names]
    estimates = [name for name in _ALIASES if name in names]
    if len(estimates) != 1:
        missing.append("walltime")
    if len(estimates) > 1:
        raise InputError(f"{path}:{line}: columns walltime and estimate mean the same; keep one of them")
    if missing:
        hints = [near for name in missing for near in difflib.get_close_matches(name, names, 1)]
        hint = f"\n  is {', '.join(hints)} meant?" if hints else ""
        raise InputError(
            f"{path}:{line}: column {', '.join(missing)} is missing\n"
            f"  found: {', '.join(names)}\n"
            f"  required: {', '.join(_REQUIRED)}, walltime; "
            f"optional: {', '.join(_OPTIONAL | _NAMED | _LOOP)}, units, request_<resource>{hint}"
        )


def _column(name: str, cells: pl.Series, header: Header) -> tuple[Floats, Mask]:
    """Return the values of one column and where they make sense."""
    field = _KNOWN[name]
    empty = (cells.is_null() | (cells == "").fill_null(True)).to_numpy()
    if name in _NAMED and not (cells.str.contains(_WHOLE).fill_null(True).to_numpy() | empty).all():
        return _codes(name, cells, header), np.ones(cells.len(), np.bool_)
    numeric = cells.str.contains(_NUMBER).fill_null(False).to_numpy()
    values = cells.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().copy()
    values[~numeric] = np.nan
    if field not in _NEVER_EMPTY:
        values[empty] = -1.0
    return values, field.allows(values)


def _codes(name: str, cells: pl.Series, header: Header) -> Floats:
    """Give numbers to the names of a text column from 1, in the order in which they first appear."""
    named = cells.set(cells == "", None)
    names = named.drop_nulls().unique(maintain_order=True)
    header[f"{name}_names"] = names.to_list()
    numbers = pl.Series(range(1, names.len() + 1), dtype=pl.Float64)
    return named.replace_strict(names, numbers, default=-1.0, return_dtype=pl.Float64).to_numpy().copy()


def _complain(path: Path, name: str, cells: pl.Series, fits: Mask, lines: Ints) -> None:
    if fits.all():
        return
    row = int(np.argmin(fits))
    found = str(cells[row])[:60] if cells[row] else "an empty cell"
    raise InputError(
        f"{path}:{lines[row]}: broken line: {name} is {found!r}; expected {_KNOWN[name].expected}\n"
        "  to skip and count such lines, set workload.lenient: true"
    )
