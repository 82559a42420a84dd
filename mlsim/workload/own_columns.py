"""How further columns of a log, which mlsim has no use for itself, are checked, and read from its cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mlsim.errors import InputError
from mlsim.scenario.values.hints import nearest
from mlsim.workload.own import OwnColumns

__all__ = ["check_own", "own_columns"]

_WHOLE = r"^[+-]?[0-9]{1,15}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_SHOWN = 20


def check_own(place: str, wanted: Sequence[str], further: Sequence[str]) -> None:
    """Check that a log has the columns that are wanted of it.

    Parameters
    ----------
    place
        What a message begins with.
    wanted
        Of the scenario.
    further
        Columns of the log that mlsim does not read itself.

    Raises
    ------
    InputError
        If one is not there.
    """
    for name in wanted:
        if name not in further:
            meant = nearest(name, further)
            there = ", ".join(further[:_SHOWN]) or "none"
            raise InputError(
                f"{place}: workload.columns: there is no further column {name!r};{meant} the log has: {there}"
            )


def own_columns(place: str, cells: dict[str, pl.Series]) -> OwnColumns | None:
    """Read further columns; None where none is wanted.

    Raises
    ------
    InputError
        If one holds neither numbers, booleans nor texts.
    """
    return OwnColumns({name: _values(place, series) for name, series in cells.items()}) if cells else None


def _values(place: str, series: pl.Series) -> NDArray[Any]:
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype == pl.String:
        return _of_texts(series)
    if series.dtype == pl.Boolean:
        series = series.cast(pl.Int64)
    if not series.dtype.is_numeric():
        raise InputError(
            f"{place}: workload.columns: column {series.name} is of type {series.dtype}; allowed: numbers, "
            "booleans, texts"
        )
    if series.dtype.is_integer() and not series.null_count():
        return series.cast(pl.Int64).to_numpy(writable=True)
    return series.cast(pl.Float64).fill_null(np.nan).to_numpy(writable=True)


def _of_texts(cells: pl.Series) -> NDArray[Any]:
    """Read texts: whole numbers if all that are there are, numbers if all are, else texts; empty is none."""
    empty = cells.is_null() | (cells == "").fill_null(True)
    if not empty.all():
        if not empty.any() and cells.str.contains(_WHOLE).all():
            return cells.cast(pl.Int64).to_numpy(writable=True)
        if (cells.str.contains(_NUMBER).fill_null(False) | empty).all():
            return cells.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy(writable=True)
    texts = np.empty(cells.len(), object)
    texts[:] = [text or None for text in cells.to_list()]
    return texts
