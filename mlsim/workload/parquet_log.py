"""Workloads as Parquet: reader and writer."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mlsim._files import json_of, place_of
from mlsim.errors import InputError
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog, read_whole
from mlsim.workload.log_fields import Header, is_header
from mlsim.workload.workload_jobs import NamedColumns, other_directives

if TYPE_CHECKING:
    from mlsim._files.parquet import Source

_HEADER_KEY = "mlsim.header"  # Key of the header, as JSON, in the metadata of a file


def read_parquet(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read a Parquet workload, which may be compressed once more as a file."""
    from mlsim._files.parquet import check_apart, read_columns, read_schema
    from mlsim.workload.log_columns import check_names, check_own, further_columns, log_of_table

    path = Path(path)
    place = place_of(path)
    content = read_whole(path)
    check_apart(path, content)
    names = list(read_schema(content, path))
    further = further_columns(names)
    check_names(place, names)
    check_own(place, options.own, further)
    wanted = [name for name in names if name in options.wanted(further) or name not in further]
    table = read_columns(content, path, wanted)
    return log_of_table(place, table, options, header_of(content, path), further)


def header_of(content: "Source", path: Path) -> Header:
    """Return the header of the log in the metadata of a file; empty where it has none."""
    from mlsim._files.parquet import read_metadata

    written = read_metadata(content, path).get(_HEADER_KEY, "{}")
    header = json_of(written, f"{path}: its metadata {_HEADER_KEY}")
    if not is_header(header):
        raise InputError(f"{path}: its metadata {_HEADER_KEY} is no JSON object of texts and lists of texts")
    return header


def write_parquet_blocks(file: IO[bytes], header: Header, blocks: Iterable[NamedColumns]) -> None:
    """Write blocks of jobs; the metadata holds the header."""
    import polars as pl

    from mlsim._files.parquet import write_frames

    def frame(columns: NamedColumns) -> pl.DataFrame:
        texts = {
            name: pl.Series([word or None for word in column], dtype=pl.String)
            for name, column in columns.items()
            if isinstance(column, list)
        }
        return pl.DataFrame({**columns, **texts}, nan_to_null=True)

    words = json.dumps(other_directives(header), ensure_ascii=False)
    write_frames(file, map(frame, blocks), {_HEADER_KEY: words})


FORMAT = Format(
    "parquet",
    "the columns of csv, as numbers or texts; the jobs.parquet of a run is one",
    lambda head: head.startswith(b"PAR1"),
    read_parquet,
    suffix=".parquet",
    writer=write_parquet_blocks,
    in_blocks=True,
    further=True,
    units="times in s, memory in MB of 10^6 B",
)
