"""Workloads as Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

from mlsim._arrays import Mask
from mlsim._files.opening import place_of
from mlsim._files.parquet import check_apart, read_columns, read_metadata, read_schema, refusing_damage
from mlsim.errors import InputError
from mlsim.workload.compression import read_whole
from mlsim.workload.log_columns import KNOWN, Identifiers, check_names, check_own, own_columns, typed_column
from mlsim.workload.log_dependencies import DEPENDENCIES, EXPECTED, parse_dependencies
from mlsim.workload.log_names import directives_of, names_of
from mlsim.workload.named_columns import NamedColumns, other_directives
from mlsim.workload.request_columns import asking_columns, is_request, read_asked
from mlsim.workload.swf_fields import CODED, IDENTIFIERS, N_COLUMNS, Field, Header, header_of_json
from mlsim.workload.table_dates import in_seconds
from mlsim.workload.workload_jobs import LogBlock

HEADER_KEY = "mlsim.header"
"""Under which the metadata of a file has the header, as JSON."""
_ROW_GROUP = 1 << 16


class ParquetLog:
    """A workload: its ``jobs`` in the order of the file, its ``header``, ``broken_lines`` skipped.

    ``counts`` says what else was passed over, and how often.
    """

    def __init__(
        self, jobs: LogBlock, header: Header, broken_lines: int, counts: Mapping[str, int] | None = None
    ) -> None:
        self.jobs = jobs
        self.header = header
        self.broken_lines = broken_lines
        self.counts = dict(counts or {})


def read_parquet(
    path: str | Path, *, lenient: bool = False, own: Sequence[str] = (), shared: Collection[str] = ()
) -> ParquetLog:
    """Read a Parquet workload, which may be compressed once more as a file.

    Parameters
    ----------
    path
        The file.
    lenient
        Skip and count rows with values that make no sense in their column.
    own
        Further columns that are wanted.
    shared
        Names of what the machine has as a whole, of which jobs ask for any amount.

    Raises
    ------
    InputError
        The file cannot be read, a required column is missing, or (unless `lenient`) a value makes no sense.
    """
    path = Path(path)
    place = place_of(path)
    content = read_whole(path)
    check_apart(path, content)
    names = list(read_schema(content, path))
    check_names(place, names)
    check_own(place, own, further_columns(names))
    read = [name for name in names if name in own or name not in further_columns(names)]
    table = read_columns(content, path, read)
    metadata = read_metadata(content, path).get(HEADER_KEY, "{}")
    if not table.height:
        raise InputError(f"{place}: holds no job")
    header = header_of_json(metadata)
    if header is None:
        raise InputError(f"{path}: its metadata {HEADER_KEY} is no JSON object of texts and lists of texts")
    return log_of_table(place, names, table, header, lenient=lenient, own=own, shared=shared)


def further_columns(names: Sequence[str]) -> list[str]:
    """Return the columns among these that say nothing to mlsim."""
    words = [f"{name}_name" for name in CODED if name in names]
    return [
        name
        for name in names
        if name not in KNOWN and name != DEPENDENCIES and name not in words and not is_request(name)
    ]


def log_of_table(
    place: str,
    names: Sequence[str],
    table: pl.DataFrame,
    header: Header,
    *,
    lenient: bool = False,
    own: Sequence[str] = (),
    shared: Collection[str] = (),
) -> ParquetLog:
    """Make a log of a table.

    Parameters
    ----------
    place
        Where it comes from, for messages.
    names
        Columns that there are; checked by :func:`mlsim.workload.log_columns.check_names`.
    table
        Those of them that are read, with at least one row.
    header
        What the log says about itself; more is put in.
    lenient, own, shared
        As for :func:`read_parquet`.

    Raises
    ------
    InputError
        If (unless `lenient`) a value makes no sense, or a column is of a type that is not understood.
    """
    known = [name for name in names if name in KNOWN and KNOWN[name] not in IDENTIFIERS]
    requests = [name for name in names if is_request(name)]
    links = [name for name in names if name == DEPENDENCIES]
    words = [f"{name}_name" for name in CODED if name in known and f"{name}_name" in names]
    table = table.with_columns(**in_seconds({name: table[name] for name in known}, header))
    columns = np.full((N_COLUMNS, table.height), -1.0)
    sound = np.ones(table.height, np.bool_)

    def complain(name: str, fits: Mask, expected: str) -> None:
        if lenient or fits.all():
            return
        row = int(np.argmin(fits))
        raise InputError(
            f"{place}: row {row + 1}: {name} is {table[name][row]!r}; expected {expected}\n"
            "  to skip and count such rows, set workload.lenient: true"
        )

    for name in known:
        with _as_needed(place, name, table):
            values, fits = typed_column(name, table[name], header)
        complain(name, fits, KNOWN[name].expected)
        columns[KNOWN[name]] = values
        sound &= fits
    with _as_needed(place, "job_id", table):
        ids = Identifiers(table["job_id"], sound, header)
    complain("job_id", ids.fits, Field.JOB_ID.expected)
    identifiers = {Field.JOB_ID: ids.values}
    sound &= ids.fits
    if "preceding_job" in names:
        with _as_needed(place, "preceding_job", table):
            identifiers[Field.PRECEDING_JOB], fits = ids.others(table["preceding_job"])
        complain("preceding_job", fits, Field.PRECEDING_JOB.expected)
        sound &= fits
    said = names_of(header)
    for word in words:
        column = word.removesuffix("_name")
        with _as_needed(place, word, table):
            of_codes = {column: _names_in(table[column], table[word])}
        header |= {} if column in said else directives_of(of_codes)
    asked_columns = {}
    for name in requests:
        with _as_needed(place, name, table):
            cells = table[name]
            asked_columns[name] = cells if cells.dtype.is_numeric() else cells.cast(pl.String)
    asked, fits = read_asked(place, asked_columns, columns[Field.REQUESTED_PROCESSORS], complain, shared)
    sound &= fits
    after = None
    for name in links:
        with _as_needed(place, name, table):
            after, fits = parse_dependencies(table[name].cast(pl.String).to_list(), ids.number)
        complain(name, fits, EXPECTED)
        sound &= fits
    if asking := asking_columns(names):
        header["request_columns"] = asking
    ignored = [name for name in further_columns(names) if name not in own]
    if ignored:
        header["ignored_columns"] = ignored
    further = own_columns(place, {name: table[name] for name in own})
    jobs = LogBlock.from_columns(columns, asked, after, further, identifiers).rows(sound)
    return ParquetLog(jobs, header, int(np.sum(~sound)))


def _names_in(codes: pl.Series, names: pl.Series) -> dict[int, str]:
    """Return the name that each code has in the same row, the first if there are several."""
    if not codes.dtype.is_numeric():
        return {}
    pairs = pl.DataFrame({"code": codes.cast(pl.Int64), "name": names.cast(pl.String)})
    named = pairs.drop_nulls().filter(pl.col("code") >= 0).unique("code", keep="first").sort("code")
    return dict(zip(named["code"].to_list(), named["name"].to_list(), strict=True))


def _as_needed(place: str, name: str, table: pl.DataFrame) -> AbstractContextManager[None]:
    found = str(table[name].dtype)[:40]
    return refusing_damage(f"{place}: column {name} is of type {found}; expected numbers or texts")


def write_parquet(file: IO[bytes], columns: NamedColumns, header: Header) -> None:
    """Write a table of jobs.

    Parameters
    ----------
    file
        Open for writing.
    columns
        As :func:`mlsim.workload.named_columns.named_columns` makes them.
    header
        What the log says about itself; names behind codes are in the columns already.
    """
    table = pl.DataFrame(
        {
            name: [word or None for word in column] if isinstance(column, list) else column
            for name, column in columns.items()
        }
    )
    metadata = {HEADER_KEY: json.dumps(other_directives(header), ensure_ascii=False)}
    buffer = io.BytesIO()
    table.write_parquet(
        buffer, compression="zstd", compression_level=1, row_group_size=_ROW_GROUP, metadata=metadata
    )
    file.write(buffer.getbuffer())
