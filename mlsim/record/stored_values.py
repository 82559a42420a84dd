"""What columns of stored tables may hold: everything else was written by no run, and would become a number.

Checksums tell damage, not a program that wrote something else and sealed it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from mlsim._arrays import Floats, Ints, Mask
from mlsim.errors import InputError
from mlsim.record.columns import Stored
from mlsim.record.tables import Chunks, Loops, PEs

__all__ = ["check_loop_rows", "check_nodes", "check_rows", "check_times", "check_values"]

_LARGEST, _MOST = 1e18, 10**15
"""Of numbers with a unit, in its amount; and of counts."""
_NUMBERS = ("job_id", "user", "group", "executable", "queue", "partition", "qos")
"""Columns of names that are numbers: any will do."""


def check_values(path: Path, stored: Stored, series: pl.Series, places: Ints | None = None) -> None:
    """Refuse values that no run writes into a column.

    Parameters
    ----------
    path
        The file.
    stored
        What is declared of the column.
    series
        What the file holds.
    places
        Its rows in the file, from 0; None: all of them.

    Raises
    ------
    InputError
        With the row, what it has and what is allowed.
    """
    column = stored.column
    floats = stored.dtype is not None and stored.dtype.kind == "f"
    if column.always or not (floats or column.unknown or stored.optional):
        missing = series.is_null() | series.is_nan() if series.dtype.is_float() else series.is_null()
        _refuse(path, stored.name, series, missing, "a value in every row", places)
    if not series.dtype.is_numeric() or column.words is not None or stored.dtype is None:
        return  # words and texts are what they are read as
    if series.dtype.is_float():
        # A comparison with NaN is true in Polars where NaN is the larger one.
        _refuse(path, stored.name, series, series.abs() > _LARGEST, f"finite, {_LARGEST:g} at most", places)
    elif stored.name not in _NUMBERS and not column.job:
        least = -1 if column.unknown or "-1" in column.meaning else 0
        numbers = series.cast(pl.Float64)  # narrow types hold no bound that lies beyond them
        outside = (numbers < least) | (numbers > _MOST)
        _refuse(path, stored.name, series, outside, f"{least} to {_MOST:.0e}", places)


def _refuse(
    path: Path, name: str, series: pl.Series, wrong: pl.Series, allowed: str, places: Ints | None
) -> None:
    rows = wrong.fill_null(False).arg_true()
    if rows.len():
        found = "null" if series[rows[0]] is None else f"{series[rows[0]]!r:.40}"
        raise InputError(
            f"{path}: column {name!r} holds what no run writes: {found} in row {_row(rows[0], places)}; "
            f"allowed: {allowed}. Run the scenario again."
        )


def _row(row: int, places: Ints | None) -> int:
    return row + 1 if places is None else int(places[row]) + 1


def check_rows(path: Path, wrong: Mask, said: Callable[[int], str], places: Ints | None = None) -> None:
    """Refuse a table with rows in which values do not go together.

    Parameters
    ----------
    path
        The file.
    wrong
        Which rows.
    said
        Says what is in one.
    places
        As for :func:`check_values`.

    Raises
    ------
    InputError
        With the first of them.
    """
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{path}: row {_row(row, places)} holds what no run writes: {said(row)}. Run the scenario again."
        )


def check_times(path: Path, start: Floats, end: Floats, places: Ints | None = None) -> None:
    """Refuse rows that end before they start, or have one of both times alone.

    Raises
    ------
    InputError
        With the row.
    """
    wrong = (end < start) | (np.isnan(start) != np.isnan(end))
    check_rows(path, wrong, lambda row: f"a start at {start[row]:g} and an end at {end[row]:g} s", places)


def check_nodes(path: Path, node: Ints, nodes: int, count: Ints | None = None) -> None:
    """Refuse numbers of nodes that the machine does not have.

    Raises
    ------
    InputError
        With the row.
    """
    last = node if count is None else node + np.maximum(count, 1) - 1
    check_rows(path, last >= nodes, lambda row: f"node {last[row]} of a machine of {nodes}")


def check_loop_rows(path: Path, rows: Chunks | PEs, loops: Loops, places: Ints) -> None:
    """Refuse PEs that a loop does not have, and chunks that are no part of it.

    Parameters
    ----------
    path
        The file.
    rows
        Chunks or PEs.
    loops
        Those of the run; that of each row is among them.
    places
        As for :func:`check_values`.

    Raises
    ------
    InputError
        With the row.
    """
    order = np.argsort(loops.job, kind="stable")
    of = order[np.searchsorted(loops.job[order], rows.job)]
    pes, iterations = loops.pes[of], loops.iterations[of]
    check_rows(
        path,
        (rows.pe < 0) | (rows.pe >= pes),
        lambda row: f"PE {rows.pe[row]} of a loop on {pes[row]} PEs",
        places,
    )
    if isinstance(rows, Chunks):
        first, size = rows.first, rows.size
        check_times(path, rows.start, rows.end, places)
        check_rows(
            path,
            (size < 1) | (first < 0) | (first + size > iterations),
            lambda row: f"{size[row]} iterations from {first[row]} on, of a loop of {iterations[row]}",
            places,
        )
