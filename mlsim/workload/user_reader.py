"""User-defined readers of logs: a function of a path, or a class with a method ``read``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

import polars as pl

from mlsim.errors import InputError, user_code_error
from mlsim.plugins import Family, check_plugin, make_callable
from mlsim.scenario import WorkloadFormat
from mlsim.workload.format_record import Reading, WholeLog
from mlsim.workload.log_columns import check_names, in_seconds
from mlsim.workload.log_table import LogTable, further_columns
from mlsim.workload.swf_fields import Header

READERS: Final = Family(
    "workload format",
    "workload.format",
    "mlsim.workloads",
    ("read",),
    tuple(WorkloadFormat),
    "docs/reference/workloads.md",
    arguments=1,
)


def check_reader(name: str, execute: bool) -> None:
    """Check a user-defined reader; its code is executed only if ``execute``."""
    check_plugin(READERS, name, execute)


def read_by_user(name: str, path: str | Path, options: Reading) -> WholeLog:
    """Read a log with a user-defined reader, ``path/file.py:reader`` or the name of an entry point.

    The reader gets the path, and returns a table with the columns of CSV workloads: a data frame, or a
    mapping of names to columns.
    """
    title = f"{READERS.name} {name}"
    read = make_callable(READERS, name, entry_points)
    try:
        table = _table_of(read(Path(path)))
    except BaseException as error:  # whatever the user's code raises
        raise user_code_error(f"{title}: {path} cannot be read", error) from error
    place = f"{path}, as {name} reads it"
    check_names(place, table.columns)
    further = further_columns(table.columns)
    if not table.height:
        raise InputError(f"{place}: holds no job")
    header: Header = {}
    return LogTable(place, in_seconds(table, header), header, options, further=further).log()


def _table_of(found: Any) -> pl.DataFrame:
    if isinstance(found, pl.DataFrame):
        return found
    if isinstance(found, Mapping):
        return pl.DataFrame({str(name): column for name, column in found.items()})
    raise TypeError(
        f"it gives {type(found).__name__}; allowed: a polars.DataFrame, or a mapping of names to columns"
    )
