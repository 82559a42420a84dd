"""Identifiers of jobs: whole numbers, exactly, or names that stand for 1, 2, ... in the order of the log."""

from __future__ import annotations

import numpy as np
import polars as pl

from mlsim._arrays import Ints, Mask
from mlsim.workload.exact import exact_id
from mlsim.workload.fields import Field
from mlsim.workload.header import Header
from mlsim.workload.names import JOB_NAMES

__all__ = ["Identifiers"]

_DIGITS = r"^\+?[0-9]+$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


class Identifiers:
    """The identifiers of the jobs of a log.

    Where one is no number, all are names: the number of a job is the place of its name among the different
    ones, from 1, and the header keeps them.

    Parameters
    ----------
    cells
        Column of the identifiers: numbers, or texts without blanks around them.
    sound
        Which rows make sense apart from that; others do not tell what identifiers are.
    header
        Takes up names.

    Attributes
    ----------
    values : int64[n]
        0 where one makes no sense.
    fits : bool[n]
        Which make sense: names, and whole numbers from 0 below 2^63.
    """

    def __init__(self, cells: pl.Series, sound: Mask, header: Header) -> None:
        self._header = header
        self._numbers: dict[str, int] | None = None
        if not cells.dtype.is_numeric():
            cells = cells.cast(pl.String).str.strip_chars()
            told = pl.Series(sound) & cells.is_not_null() & (cells != "")
            if not cells.filter(told.fill_null(False)).str.contains(_NUMBER).all():
                self._name(cells, told.fill_null(False))
                return
        self.values, self.fits = _whole(cells)

    def _name(self, cells: pl.Series, told: pl.Series) -> None:
        names = cells.filter(told).unique(maintain_order=True).to_list()
        self._numbers = {name: number for number, name in enumerate(names, 1)}
        self._header[JOB_NAMES] = names
        values = cells.replace_strict(self._numbers, default=0, return_dtype=pl.Int64)
        self.values = values.fill_null(0).to_numpy().copy()
        self.fits = self.values > 0

    def others(self, cells: pl.Series) -> tuple[Ints, Mask]:
        """Read a column of identifiers of other jobs; -1 for none."""
        if cells.dtype.is_numeric():
            values, fits = _whole(cells)
            none = cells.is_null() | (cells.is_nan() if cells.dtype.is_float() else False) | (cells < 1)
        else:
            cells = cells.cast(pl.String).str.strip_chars()
            none = cells.is_null() | cells.is_in(["", "-1", "0"])
            if self._numbers is None:
                values, fits = _whole(cells)
            else:
                texts = cells.set(none.fill_null(True), "").to_list()
                values = np.array([self.number(text) if text else 0 for text in texts], np.int64)
                fits = values > 0
        empty: Mask = none.fill_null(True).to_numpy()
        return np.where(empty, -1, values), fits | empty

    def number(self, text: str) -> int | None:
        """Return the number of the job that a text names; None if it cannot be one.

        A name that the log does not have gets a number that no job has.
        """
        if self._numbers is None:
            return exact_id(text)
        if text not in self._numbers:
            names = self._header[JOB_NAMES]
            assert isinstance(names, list)
            names.append(text)
            self._numbers[text] = len(names)
        return self._numbers[text]


def _whole(cells: pl.Series) -> tuple[Ints, Mask]:
    """Read whole numbers from 0 below 2^63, exactly."""
    if cells.dtype.is_integer():
        whole = cells.cast(pl.Int64, strict=False)
    elif cells.dtype.is_numeric():
        whole = _from_floats(cells.cast(pl.Float64))
    else:
        digits = cells.str.contains(_DIGITS)
        whole = cells.str.strip_prefix("+").cast(pl.Int64, strict=False)
        if not digits.fill_null(False).all():
            floats = _from_floats(cells.cast(pl.Float64, strict=False))
            whole = pl.select(pl.when(digits).then(whole).otherwise(floats)).to_series()
    fits: Mask = (whole >= 0).fill_null(False).to_numpy()
    return np.where(fits, whole.fill_null(0).to_numpy(), 0), fits


def _from_floats(cells: pl.Series) -> pl.Series:
    values = cells.fill_null(np.nan).to_numpy()
    fits = Field.JOB_ID.allows(values) & (values < 2.0**63)
    return pl.Series(np.where(fits, values, -1.0).astype(np.int64))
