"""Reads the results of a study back as data frames."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlsim._files import expanded
from mlsim.errors import InputError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["StudyTables", "read_study"]


@dataclass(frozen=True)
class StudyTables:
    """The results of a study."""

    directory: Path
    """Where they are."""
    runs: pl.DataFrame
    """One row a run, or loop: its labels, then all metrics."""
    search: pl.DataFrame | None = None
    """Of a search: one row a candidate: parameters, objective, failures."""
    comparison: pl.DataFrame | None = None
    """Of a search with baselines: they and the best candidate, on what was searched and what was held out."""


def read_study(directory: str | Path) -> StudyTables:
    """Read the results of a study.

    Parameters
    ----------
    directory
        Where ``mlsim study`` wrote them.

    Raises
    ------
    InputError
        If there are none, or they are damaged.
    """
    from mlsim._files.parquet import check_apart, read_columns, read_schema

    place = expanded(directory)
    runs = next(
        (place / name for name in ("runs.parquet", "loops.parquet") if (place / name).is_file()), None
    )
    if runs is None:
        raise InputError(
            f"{place}: no results of a study: there is no runs.parquet or loops.parquet in it; "
            "`mlsim study` writes them when all runs are done"
        )
    others = {part: place / f"{part}.parquet" for part in ("search", "comparison")}
    there = {part: path for part, path in others.items() if path.is_file()}
    check_apart(place if there else runs, runs, *there.values())

    def table(path: Path) -> pl.DataFrame:
        return read_columns(path, path, list(read_schema(path, path)))

    return StudyTables(place, table(runs), **{part: table(path) for part, path in there.items()})
