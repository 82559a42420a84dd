"""Reader and writer of workloads as CSV."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from mlsim._arrays import Floats, Ints, Mask
from mlsim._files import decode
from mlsim._files.parquet import refusing_damage
from mlsim.errors import InputError, OutputError
from mlsim.workload.compression import compressed_writer, read_whole
from mlsim.workload.log_columns import KNOWN, Identifiers, check_names, check_own, own_columns, typed_column
from mlsim.workload.log_dependencies import DEPENDENCIES, EXPECTED, parse_dependencies
from mlsim.workload.log_times import SURE_DIGITS, check_distinct
from mlsim.workload.named_columns import NamedColumns, named_columns, number_words
from mlsim.workload.request_columns import asking_columns, is_request, read_asked
from mlsim.workload.swf_fields import IDENTIFIERS, N_COLUMNS, SCHEDULED, Field, Header
from mlsim.workload.table_dates import TIMES, in_seconds
from mlsim.workload.workload_jobs import JobBlock, LogBlock


@dataclass(frozen=True, slots=True)
class CsvLog:
    """A CSV workload."""

    jobs: LogBlock
    """The jobs in the order of the file."""
    header: Header
    """Names behind the codes of text columns, and columns that were passed over."""
    broken_lines: int
    """Broken lines skipped."""
    counts: dict[str, int] = field(default_factory=dict)
    """What else was passed over, and how often."""


@dataclass(frozen=True, slots=True)
class _Records:
    """The structure of a file: what its lines hold, before any cell is understood."""

    names: list[str]
    text: str
    lines: Ints
    broken_lines: int


def read_csv(
    path: str | Path, *, lenient: bool = False, own: Sequence[str] = (), shared: Collection[str] = ()
) -> CsvLog:
    """Read a CSV workload, compressed or not.

    Parameters
    ----------
    path
        The file.
    lenient
        Skip and count broken lines.
    own
        Further columns that are wanted.
    shared
        Names of what the machine has as a whole, of which jobs ask for any amount.

    Raises
    ------
    InputError
        The file cannot be read, a required column is missing, or (unless `lenient`) a line is
        broken: another number of cells than there are columns, or a cell that is no number where
        one is needed or makes no sense in its column.
    """
    path = Path(path)
    records = _records(path, decode(read_whole(path, lines=True), path, "workload"), lenient)
    with refusing_damage(f"{path}: cannot be read as CSV"):
        cells = pl.read_csv(
            io.BytesIO(records.text.encode()), has_header=False, new_columns=records.names, infer_schema=False
        ).select(pl.all().str.strip_chars())
    if cells.height != records.lines.size:
        raise InputError(f"{path}: cannot be read as CSV; is a quote opened and never closed?")
    columns = np.full((N_COLUMNS, cells.height), -1.0)
    sound = np.ones(cells.height, np.bool_)
    header: Header = {}
    times = in_seconds({name: cells[name] for name in TIMES if name in records.names}, header)
    for name in (name for name in records.names if name in KNOWN and KNOWN[name] not in IDENTIFIERS):
        values, fits = typed_column(name, times.get(name, cells[name]), header)
        if not lenient:
            _complain(path, name, cells, fits, records.lines)
        if KNOWN[name] is Field.SUBMIT_TIME:
            _check_submits(path, cells, values, records.lines)
        columns[KNOWN[name]] = values
        sound &= fits
    ids = Identifiers(cells["job_id"], sound, header)
    identifiers = {Field.JOB_ID: ids.values}
    if not lenient:
        _complain(path, "job_id", cells, ids.fits, records.lines)
    sound &= ids.fits
    requests = [name for name in records.names if is_request(name)]

    def complain(name: str, fits: Mask, what: str) -> None:
        _require(path, records, cells, name, fits, lenient, what)

    processors = columns[Field.REQUESTED_PROCESSORS]
    asked, divides = read_asked(
        str(path), {name: cells[name] for name in requests}, processors, complain, shared
    )
    if asking := asking_columns(records.names):
        header["request_columns"] = asking
    if "preceding_job" in records.names:
        identifiers[Field.PRECEDING_JOB], fits = ids.others(cells["preceding_job"])
        complain("preceding_job", fits, Field.PRECEDING_JOB.expected)
        sound &= fits
    after = None
    if DEPENDENCIES in records.names:
        after, fits = parse_dependencies(cells[DEPENDENCIES].to_list(), ids.number)
        complain(DEPENDENCIES, fits, EXPECTED)
        sound &= fits
    ignored = [name for name in records.names if name not in (*KNOWN, *requests, DEPENDENCIES)]
    check_own(str(path), own, ignored)
    ignored = [name for name in ignored if name not in own]
    if ignored:
        header["ignored_columns"] = ignored
    further = own_columns(str(path), {name: cells[name] for name in own})
    jobs = LogBlock.from_columns(columns, asked, after, further, identifiers).rows(sound & divides)
    sound &= divides
    return CsvLog(jobs, header, records.broken_lines + int(np.sum(~sound)))


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


def _records(path: Path, text: str, lenient: bool) -> _Records:
    """Check the number of cells on every line; returns the records without header and blank lines."""
    names: list[str] = []
    kept, lines, broken = io.StringIO(), [], 0
    write = csv.writer(kept, lineterminator="\n", quoting=csv.QUOTE_ALL).writerow
    for line, cells in _numbered(path, text):
        if not names:
            names = [cell.strip() for cell in cells]
            check_names(f"{path}:{line}", names)
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


def _check_submits(path: Path, cells: pl.DataFrame, values: Floats, lines: Ints) -> None:
    """Check that submit times of more digits than a float64 has stay different."""
    texts = cells["submit_time"].fill_null("")
    if (texts.str.len_bytes() > SURE_DIGITS).any():
        check_distinct(
            str(path), texts.to_list(), values, lambda row: f"{cells['job_id'][row]} (line {lines[row]})"
        )


def _complain(path: Path, name: str, cells: pl.DataFrame, fits: Mask, lines: Ints) -> None:
    if fits.all():
        return
    row = int(np.argmin(fits))
    found = str(cells[name][row])[:60] if cells[name][row] else "an empty cell"
    job = f" (job {str(cells['job_id'][row])[:20]})" if KNOWN[name] in SCHEDULED else ""
    raise InputError(
        f"{path}:{lines[row]}: broken line: {name} is {found!r}; expected {KNOWN[name].expected}{job}\n"
        "  to skip and count such lines, set workload.lenient: true"
    )


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
