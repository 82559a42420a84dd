"""Workloads as CSV: reader and writer."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from mlsim._files import decode
from mlsim.errors import InputError
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog, new_file, quoted_rows, read_whole
from mlsim.workload.log_fields import SCHEDULED, SURE_DIGITS, Field, Header, check_distinct, number_words
from mlsim.workload.workload_dependencies import DEPENDENCIES
from mlsim.workload.workload_jobs import JobBlock, LogBlock, NamedColumns, is_request, named_columns


def read_csv(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read a CSV workload, compressed or not."""
    import polars as pl

    from mlsim._files.parquet import refusing_damage
    from mlsim.workload.log_columns import KNOWN, LogTable, in_seconds

    path = Path(path)
    content = decode(read_whole(path, lines=True), path, "workload")
    names, text, lines, broken = _records(path, content, options.lenient)
    with refusing_damage(f"{path}: cannot be read as CSV"):
        cells = pl.read_csv(
            io.BytesIO(text.encode()), has_header=False, new_columns=names, infer_schema=False
        ).select(pl.all().str.strip_chars())
    further = [n for n in names if n not in KNOWN and n != DEPENDENCIES and not is_request(n)]

    def locate(name: str, row: int) -> str:
        found = str(cells[name][row])[:60] if cells[name][row] else "an empty cell"
        job = f" of job {str(cells['job_id'][row])[:20]}" if KNOWN.get(name) in SCHEDULED else ""
        return f"{path}:{lines[row]}: broken line{job}: {name} is {found!r}"

    header: Header = {}
    table = LogTable(
        str(path), in_seconds(cells, header), header, options, further=further, locate=locate, rows="lines"
    )
    texts = cells["submit_time"].fill_null("")
    if (texts.str.len_bytes() > SURE_DIGITS).any():
        check_distinct(
            str(path),
            texts.to_list(),
            table.columns[Field.SUBMIT_TIME],
            lambda row: f"{cells['job_id'][row]} (line {lines[row]})",
        )
    return table.log(broken)


def _records(path: Path, text: str, lenient: bool) -> tuple[list[str], str, list[int], int]:
    """Return names, text without header, blank and broken lines, number of each line, how many are broken."""
    from mlsim.workload.log_columns import check_names

    names: list[str] = []
    lines: list[int] = []
    kept, broken = io.StringIO(), 0
    write = csv.writer(kept, lineterminator="\n", quoting=csv.QUOTE_ALL).writerow
    try:
        for line, cells in quoted_rows(io.StringIO(text, newline="").readlines(), ","):
            if not any(cell.strip() for cell in cells):
                continue
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
    except csv.Error as err:
        raise InputError(f"{path}: cannot be read as CSV: {err}") from err
    if not lines:
        raise InputError(f"{path}: holds no job")
    return names, kept.getvalue(), lines, broken


def write_csv(path: str | Path, jobs: JobBlock | LogBlock, header: Header | None = None) -> None:
    """Write jobs, compressed by the suffix; the header's ``<column>_names`` replace a column's codes."""
    with new_file(Path(path)) as file:
        file.write(csv_text(jobs, header).encode())


def csv_text(jobs: JobBlock | LogBlock, header: Header | None = None) -> str:
    """Return the text of the file that :func:`write_csv` writes."""
    file = io.BytesIO()
    write_csv_blocks(file, {}, [named_columns(jobs, header)])
    return file.getvalue().decode()


def write_csv_blocks(file: IO[bytes], header: Header, blocks: Iterable[NamedColumns]) -> None:
    """Write a line of names, then one line per job; columns hold the names of codes, not the header."""
    del header
    for number, columns in enumerate(blocks):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if number == 0:
            writer.writerow(columns)
        words = [each if isinstance(each, list) else number_words(each) for each in columns.values()]
        writer.writerows(zip(*words, strict=True))
        file.write(text.getvalue().encode())


def _names_columns(head: bytes) -> bool:
    """Whether a first line has a comma and starts neither with a number nor with a semicolon."""
    line = head.partition(b"\n")[0]
    return b"," in line and not line.startswith(b";") and line[:1] not in b"+-.0123456789"


FORMAT = Format(
    "csv",
    "columns by name, one line per job",
    _names_columns,
    read_csv,
    suffix=".csv",
    writer=write_csv_blocks,
    in_blocks=True,
    keeps_header=False,
    further=True,
    breadth=2,
    units="times in s, memory in MB of 10^6 B, unless a cell has a unit",
)
