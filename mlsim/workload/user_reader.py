"""Readers of logs of the user's own: a function of a path, or a class with a method ``read``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

import polars as pl

from mlsim.errors import InputError, user_code_error
from mlsim.plugins import Family, make_callable
from mlsim.scenario import WorkloadFormat
from mlsim.workload.log_columns import check_names, check_own
from mlsim.workload.parquet_logs import ParquetLog, further_columns, log_of_table

READERS: Final = Family(
    "workload format",
    "workload.format",
    "mlsim.workloads",
    ("read",),
    tuple(WorkloadFormat),
    "docs/reference/workloads.md",
    arguments=1,
)


def read_by_user(
    name: str,
    path: str | Path,
    *,
    lenient: bool = False,
    own: Sequence[str] = (),
    shared: Collection[str] = (),
) -> ParquetLog:
    """Have a reader of the user read a log.

    Parameters
    ----------
    name
        ``path/file.py:reader``, the path seen from the current directory, or the name of an entry point.
    path
        The log. The reader gets it, and returns a table with the columns of CSV workloads: a data frame, or
        a mapping of names to columns.
    lenient, own, shared
        As for :func:`mlsim.workload.parquet_logs.read_parquet`.

    Raises
    ------
    InputError
        If there is no such reader, it fails, or what it returns is no table of jobs.
    """
    title = f"{READERS.name} {name}"
    read = make_callable(READERS, name, entry_points)
    try:
        table = _table(read(Path(path)))
    except BaseException as error:  # whatever the user's code raises
        raise user_code_error(f"{title}: {path} cannot be read", error) from error
    place = f"{path}, as {name} reads it"
    check_names(place, table.columns)
    check_own(place, own, further_columns(table.columns))
    if not table.height:
        raise InputError(f"{place}: holds no job")
    return log_of_table(place, table.columns, table, {}, lenient=lenient, own=own, shared=shared)


def _table(found: Any) -> pl.DataFrame:
    if isinstance(found, pl.DataFrame):
        return found
    if isinstance(found, Mapping):
        return pl.DataFrame({str(name): column for name, column in found.items()})
    raise TypeError(
        f"it gives {type(found).__name__}; allowed: a polars.DataFrame, or a mapping of names to columns"
    )
