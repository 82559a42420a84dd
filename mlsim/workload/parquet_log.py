"""Workloads as Parquet: reader and writer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

from mlsim._files.opening import place_of
from mlsim.errors import InputError
from mlsim.workload.compression import read_whole
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog
from mlsim.workload.named_columns import NamedColumns, other_directives
from mlsim.workload.swf_fields import Header, header_of_json

_HEADER_KEY = "mlsim.header"
"""Key of the header, as JSON, in the metadata of a file."""


def read_parquet(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read a Parquet workload, which may be compressed once more as a file."""
    from mlsim._files.parquet import check_apart, read_columns, read_metadata, read_schema
    from mlsim.workload.log_columns import check_names, check_own, in_seconds
    from mlsim.workload.log_table import LogTable, further_columns

    path = Path(path)
    place = place_of(path)
    content = read_whole(path)
    check_apart(path, content)
    names = list(read_schema(content, path))
    further = further_columns(names)
    check_names(place, names)
    check_own(place, options.own, further)
    table = read_columns(
        content, path, [name for name in names if name in options.own or name not in further]
    )
    if not table.height:
        raise InputError(f"{place}: holds no job")
    header = header_of_json(read_metadata(content, path).get(_HEADER_KEY, "{}"))
    if header is None:
        raise InputError(f"{path}: its metadata {_HEADER_KEY} is no JSON object of texts and lists of texts")
    return LogTable(place, in_seconds(table, header), header, options, further=further).log()


class ParquetWriter:
    """Writes row groups; the metadata holds the header."""

    def __init__(self, file: IO[bytes], header: Header) -> None:
        from mlsim.record.parquet.parquet_file import ParquetFile

        self._file = ParquetFile(file)
        self._header = json.dumps(other_directives(header), ensure_ascii=False)

    def write(self, columns: NamedColumns) -> None:
        """Write some jobs as a row group."""
        self._file.write(
            {
                name: [word or None for word in column] if isinstance(column, list) else column
                for name, column in columns.items()
            }
        )

    def close(self) -> None:
        """Write the metadata."""
        self._file.close({_HEADER_KEY: self._header})


FORMAT = Format(
    "parquet",
    "the columns of csv, as numbers or texts; the jobs.parquet of a run is one",
    lambda head: head.startswith(b"PAR1"),
    read_parquet,
    suffix=".parquet",
    writer=ParquetWriter,
    in_blocks=True,
    further=True,
)
