"""What columns of stored tables may hold: everything else was written by no run, and would become a number.

Checksums tell damage, not a program that wrote something else and sealed it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from mlsim._arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.record.columns import Stored

__all__ = ["check_nodes", "check_times", "check_values"]

_LARGEST, _MOST = 1e18, 10**15
"""Of numbers with a unit, in its amount; and of counts."""
_NUMBERS = ("job_id", "user", "group", "executable", "queue", "partition", "qos")
"""Columns of names that are numbers: any will do."""
_NEVER_NULL = ("submit_time",)


def check_values(path: Path, stored: Stored, series: pl.Series) -> None:
    """Refuse values that no run writes into a column.

    Parameters
    ----------
    path
        The file.
    stored
        What is declared of the column.
    series
        What the file holds.

    Raises
    ------
    InputError
        With the row, what it has and what is allowed.
    """
    column = stored.column
    floats = stored.dtype is not None and stored.dtype.kind == "f"
    if stored.name in _NEVER_NULL or not (floats or column.unknown or stored.optional):
        _refuse(path, stored.name, series, series.is_null(), "a value in every row")
    if not series.dtype.is_numeric() or column.words is not None or stored.dtype is None:
        return  # words and texts are what they are read as
    if series.dtype.is_float():
        # A comparison with NaN is true in Polars where NaN is the larger one.
        _refuse(path, stored.name, series, series.abs() > _LARGEST, f"finite, {_LARGEST:g} at most")
    elif stored.name not in _NUMBERS and not column.job:
        least = -1 if column.unknown or "-1" in column.meaning else 0
        numbers = series.cast(pl.Float64)  # narrow types hold no bound that lies beyond them
        outside = (numbers < least) | (numbers > _MOST)
        _refuse(path, stored.name, series, outside, f"{least} to {_MOST:.0e}")


def _refuse(path: Path, name: str, series: pl.Series, wrong: pl.Series, allowed: str) -> None:
    rows = wrong.fill_null(False).arg_true()
    if rows.len():
        found = "null" if series[rows[0]] is None else f"{series[rows[0]]!r:.40}"
        raise InputError(
            f"{path}: column {name!r} holds what no run writes: {found} in row {rows[0] + 1}; allowed: "
            f"{allowed}. Run the scenario again."
        )


def check_times(path: Path, start: Floats, end: Floats) -> None:
    """Refuse rows that end before they start, or have one of both times alone.

    Raises
    ------
    InputError
        With the row.
    """
    wrong = (end < start) | (np.isnan(start) != np.isnan(end))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{path}: row {row + 1} holds what no run writes: a start at {start[row]:g} and an end at "
            f"{end[row]:g} s. Run the scenario again."
        )


def check_nodes(path: Path, node: Ints, nodes: int, count: Ints | None = None) -> None:
    """Refuse numbers of nodes that the machine does not have.

    Raises
    ------
    InputError
        With the row.
    """
    wrong = node + (1 if count is None else np.maximum(count, 1)) > nodes
    if wrong.any():
        row = int(np.argmax(wrong))
        last = int(node[row]) + (0 if count is None else max(int(count[row]), 1) - 1)
        raise InputError(
            f"{path}: row {row + 1} holds what no run writes: node {last} of a machine of {nodes}. "
            "Run the scenario again."
        )
