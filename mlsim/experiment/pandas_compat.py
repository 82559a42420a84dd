"""Data frames of other libraries, read and returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from mlsim.errors import InputError

if TYPE_CHECKING:
    import pandas


def polars_of(table: Any) -> pl.DataFrame:
    """Return a table of jobs, a data frame of polars or pandas, as one of polars.

    Raises
    ------
    InputError
        If it is neither, has no rows, or what turns one into the other is not installed.
    """
    if isinstance(table, pl.LazyFrame):
        table = table.collect()
    elif type(table).__module__.partition(".")[0] == "pandas":
        table = _of_pandas(table)
    if not isinstance(table, pl.DataFrame):
        raise InputError(
            f"workload: found {type(table).__name__}; allowed: a data frame of polars or pandas, with the "
            "columns of a workload in CSV (job_id, submit_time, run_time, walltime, processors, ...)"
        )
    if not table.height:
        raise InputError("workload: the table has no rows; a run needs a job")
    return table


def _of_pandas(table: Any) -> pl.DataFrame:
    try:
        return pl.from_pandas(table)
    except ImportError as error:
        raise _lacking("to take this data frame of pandas as a workload", error) from error
    except (AttributeError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise InputError(f"workload: the data frame of pandas cannot be read: {error}") from error


def to_pandas(table: pl.DataFrame) -> pandas.DataFrame:
    """Return a table as a data frame of pandas; whole numbers stay whole where some are missing.

    Raises
    ------
    InputError
        If pandas or pyarrow is not installed.
    """
    try:
        import pandas

        frame = table.to_pandas()
    except ImportError as error:
        raise _lacking("a data frame of pandas cannot be made", error) from error
    for column in table.iter_columns():
        if column.dtype.is_integer() and column.null_count():
            frame[column.name] = pandas.array(column.to_list(), dtype="Int64")
    return frame


def _lacking(what: str, error: ImportError) -> InputError:
    return InputError(f"{what}: {error}; install the extra: pip install 'mlsim[pandas]'")
