"""One log of several workflows, which arrive at given or drawn times; each copy has jobs of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError
from mlsim.scenario.words import WorkloadFormat
from mlsim.workload.format_record import Reading
from mlsim.workload.log_fields import Rates
from mlsim.workload.log_formats import FORMATS, LogReader, format_of, write_columns
from mlsim.workload.workload_columns import APPLICATION_COLUMNS
from mlsim.workload.workload_dependencies import DEPENDENCIES
from mlsim.workload.workload_jobs import WORKFLOW, LogBlock, NamedColumns, named_columns, named_own

if TYPE_CHECKING:
    import polars as pl

_MOST_COPIES = 100_000


def drawn_arrivals(count: int, mean: float, seed: int) -> Floats:
    """Return the times (s) of so many arrivals, from 0 on, apart by exponential times of a mean."""
    draws = np.random.default_rng(seed).exponential(mean, count - 1)
    return np.concatenate([[0.0], np.cumsum(draws)])


def write_workflows(
    sources: Sequence[Path],
    arrivals: Sequence[float],
    target: Path,
    to: WorkloadFormat,
    rates: Rates | None = None,
) -> int:
    """Write a log in which the sources arrive in turn at these times (s), again and again; return its jobs.

    Names of the third copy begin with ``3-``: those of jobs, also of those that others wait for, and of the
    workflow, which is that of the file where there is no column ``workflow``. Times of a source count from
    the arrival of its copy.
    """
    import polars as pl

    if not len(sources) <= len(arrivals) <= _MOST_COPIES:
        allowed = f"{len(sources):,}, one per file, to {_MOST_COPIES:,}"
        raise InputError(f"{len(arrivals):,} workflows arrive; allowed: {allowed}")
    if not FORMATS[to].further:
        raise InputError(f"{target}: {to} has no column for the workflow of a job; try .csv or .parquet")
    tables = [_table(source, rates) for source in sources]
    copies = [_copy(tables[k % len(tables)], f"{k + 1}-", at) for k, at in enumerate(arrivals)]
    jobs = pl.concat(copies, how="diagonal_relaxed")
    columns: NamedColumns = {
        column.name: column.fill_null("").to_list()
        if column.dtype == pl.String
        else column.fill_null(-1).to_numpy()
        for column in jobs
    }
    write_columns(target, FORMATS[to], {}, [columns])
    return jobs.height


def _table(source: Path, rates: Rates | None) -> pl.DataFrame:
    """Return the jobs of a log, with the name of its workflow."""
    import polars as pl

    reader = LogReader(source, format_of(source), Reading(rates=rates, if_there=APPLICATION_COLUMNS))
    log = LogBlock.concatenate(list(reader.blocks()))
    table = pl.DataFrame(
        named_columns(log, reader.header, all_names=True) | named_own(log.own, as_numbers=False)
    )
    workflow = pl.col(WORKFLOW) if WORKFLOW in table.columns else pl.lit("")
    named = pl.when(workflow == "").then(pl.lit(source.stem)).otherwise(workflow)
    return table.with_columns(named.alias(WORKFLOW))


def _copy(table: pl.DataFrame, prefix: str, arrival: float) -> pl.DataFrame:
    """Return a copy of a workflow that arrives at a time (s)."""
    import polars as pl

    changed = {
        "job_id": prefix + pl.col("job_id").cast(pl.String),
        WORKFLOW: prefix + pl.col(WORKFLOW),
        "submit_time": pl.col("submit_time") + arrival,
    }
    if DEPENDENCIES in table.columns:
        changed[DEPENDENCIES] = pl.col(DEPENDENCIES).str.replace_all(r":([^,:]+)", f":{prefix}$1")
    if "preceding_job" in table.columns:  # -1 or nothing for none
        before = pl.col("preceding_job").cast(pl.String)
        named = pl.when(before.is_in(["-1", "0", ""])).then(pl.lit("")).otherwise(prefix + before)
        changed["preceding_job"] = named
    return table.with_columns(**changed)
