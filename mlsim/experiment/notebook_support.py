"""Data frames of pandas, and results as HTML: what notebooks need beside plain data."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import polars as pl

from mlsim._files import read_bytes
from mlsim.errors import InputError
from mlsim.record import Records

if TYPE_CHECKING:
    import pandas
    from rich.console import RenderableType


def polars_of(table: Any) -> pl.DataFrame:
    """Return a table of jobs, a data frame of Polars or pandas, as one of Polars.

    Raise InputError if it is none.
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
    """Return a table as a data frame of pandas; integers stay integers where some are missing."""
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


_COLUMNS = 100
_TEXT = '<pre style="white-space:pre;overflow-x:auto;line-height:normal;font-family:monospace">{code}</pre>'


def run_html(summary: dict[str, Any], records: Records, name: str) -> str:
    """Return the summary of a run, as the command line prints it, and its utilization over time."""
    from mlsim.analysis import summary_table

    return _html_of(summary_table(summary)) + _utilization_picture(records, name)


def loop_html(facts: dict[str, Any]) -> str:
    """Return the metrics of a loop, as the command line prints them."""
    from mlsim.analysis.terminal_tables import loop_table

    return _html_of(loop_table([facts]))


def comparison_html(
    labels: Sequence[str],
    metrics: Sequence[dict[str, Any]],
    tolerance: float,
    differences: Mapping[str, list[Any]],
) -> str:
    """Return the tables of a comparison, as the command line prints them."""
    from rich.console import Group

    from mlsim.analysis.run_comparison import comparison_table, differences_table

    parts = [comparison_table(labels, metrics, tolerance)]
    if differences:
        parts.insert(0, differences_table(labels, differences))
    return _html_of(Group(*parts))


def _html_of(shown: RenderableType) -> str:
    from rich.console import Console

    console = Console(record=True, file=io.StringIO(), width=_COLUMNS)
    console.print(shown)
    return console.export_html(inline_styles=True, code_format=_TEXT)


def _utilization_picture(records: Records, name: str) -> str:
    """Return the picture of the utilization as an inline image; empty if no job ran."""
    if not len(records.occupancy.job):
        return ""
    from mlsim._runtime.late import load_matplotlib

    load_matplotlib()
    from mlsim.analysis.plots import draw_utilization

    with TemporaryDirectory(prefix="mlsim-") as directory:
        path = draw_utilization(Path(directory, "utilization.png"), records, name)
        data = b64encode(read_bytes(path)).decode()
    return f'<img alt="utilization over time" style="max-width:100%" src="data:image/png;base64,{data}">'
