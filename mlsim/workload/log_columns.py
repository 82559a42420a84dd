"""Columns of workload files by name: cells of numbers, texts, dates, identifiers and further columns."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.errors import InputError
from mlsim.scenario.unit_types import nearest
from mlsim.workload.log_times import exact_id, unix_time
from mlsim.workload.swf_fields import JOB_NAMES, ExtraField, Field, Header
from mlsim.workload.workload_jobs import OwnColumns

_ALIASES = {"walltime": Field.REQUESTED_TIME, "estimate": Field.REQUESTED_TIME}
_REQUIRED = {
    "job_id": Field.JOB_ID,
    "submit_time": Field.SUBMIT_TIME,
    "run_time": Field.RUN_TIME,
    "processors": Field.REQUESTED_PROCESSORS,
}
_OPTIONAL: dict[str, Field | ExtraField] = {
    "status": Field.STATUS,
    "preceding_job": Field.PRECEDING_JOB,
    "think_time": Field.THINK_TIME,
    "withdraw_time": ExtraField.WITHDRAW_TIME,
}
_NAMED: dict[str, Field | ExtraField] = {
    "user": Field.USER,
    "group": Field.GROUP,
    "executable": Field.EXECUTABLE,
    "queue": Field.QUEUE,
    "partition": Field.PARTITION,
    "qos": ExtraField.QOS,
}
_FURTHER: dict[str, Field | ExtraField] = {
    "loop_iterations": ExtraField.LOOP_ITERATIONS,
    "loop_limit": ExtraField.LOOP_LIMIT,
    "node_count": ExtraField.NODE_COUNT,
}
KNOWN: dict[str, Field | ExtraField] = _REQUIRED | _ALIASES | _OPTIONAL | _NAMED | _FURTHER
"""Column of the log for each name that is understood."""

_SHOWN_NAMES, _SHOWN_LETTERS = 40, 60
_NEVER_EMPTY = (Field.JOB_ID, Field.SUBMIT_TIME)
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
WHOLE = r"^[+-]?[0-9]{1,15}$"


def check_names(place: str, names: Sequence[str]) -> None:
    """Check that every required column is there, and none twice; ``place``: file, and line, for messages."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InputError(f"{place}: column {_some(twice)} is there twice")
    missing = [name for name in _REQUIRED if name not in names]
    estimates = [name for name in _ALIASES if name in names]
    if len(estimates) != 1:
        missing.append("walltime")
    if len(estimates) > 1:
        raise InputError(f"{place}: columns walltime and estimate mean the same; keep one of them")
    if missing:
        hints = [
            near for name in missing for near in difflib.get_close_matches(name, names[:_SHOWN_NAMES], 1)
        ]
        hint = f"\n  is {', '.join(hints)} meant?" if hints else ""
        raise InputError(
            f"{place}: column {', '.join(missing)} is missing\n"
            f"  found: {_some(names)}\n"
            f"  required: {', '.join(_REQUIRED)}, walltime; "
            f"optional: {', '.join(_OPTIONAL | _NAMED | _FURTHER)}, dependencies, units, "
            f"request_<resource>{hint}"
        )


def _some(names: Sequence[str]) -> str:
    """Return the first few names, shortened, for a message."""
    shown = [name if len(name) <= _SHOWN_LETTERS else name[:_SHOWN_LETTERS] + "..." for name in names]
    more = f" and {len(names) - _SHOWN_NAMES:,} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(shown[:_SHOWN_NAMES]) + more


def text_column(name: str, cells: pl.Series, header: Header) -> tuple[Floats, Mask]:
    """Read a column of texts without blanks around them, null or empty for unknown.

    Returns the values, -1 where unknown, and which make sense in the column. Names behind codes go into the
    header as ``<name>_names``.
    """
    field = KNOWN[name]
    empty = (cells.is_null() | (cells == "").fill_null(True)).to_numpy()
    if name in _NAMED and not (cells.str.contains(WHOLE).fill_null(True).to_numpy() | empty).all():
        return _codes(name, cells, header), np.ones(cells.len(), np.bool_)
    numeric = cells.str.contains(_NUMBER).fill_null(False).to_numpy()
    values = cells.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().copy()
    values[~numeric] = np.nan
    if field not in _NEVER_EMPTY:
        values[empty] = -1.0
    return values, field.allows(values)


def typed_column(name: str, cells: pl.Series, header: Header) -> tuple[Floats, Mask]:
    """Read a column of numbers or texts, as :func:`text_column` does; null or NaN is unknown."""
    if cells.dtype.is_numeric():
        field = KNOWN[name]
        values = cells.cast(pl.Float64).fill_null(np.nan).to_numpy().copy()
        if field not in _NEVER_EMPTY:
            values[np.isnan(values)] = -1.0
        return values, field.allows(values)
    return text_column(name, cells.cast(pl.String).str.strip_chars(), header)


def _codes(name: str, cells: pl.Series, header: Header) -> Floats:
    """Encode a text column: numbers from 1 in the order in which names first appear, -1 for unknown."""
    named = cells.set(cells == "", None)
    names = named.drop_nulls().unique(maintain_order=True)
    header[f"{name}_names"] = names.to_list()
    numbers = pl.Series(range(1, names.len() + 1), dtype=pl.Float64)
    return named.replace_strict(names, numbers, default=-1.0, return_dtype=pl.Float64).to_numpy().copy()


_SHOWN = 20


def check_own(place: str, wanted: Sequence[str], further: Sequence[str]) -> None:
    """Check that the columns of ``workload.columns`` are among the further ones of a log."""
    for name in wanted:
        if name not in further:
            meant = nearest(name, further)
            there = ", ".join(further[:_SHOWN]) or "none"
            raise InputError(
                f"{place}: workload.columns: there is no further column {name!r};{meant} the log has: {there}"
            )


def own_columns(place: str, cells: dict[str, pl.Series]) -> OwnColumns | None:
    """Read further columns: numbers, booleans or texts; None where none is wanted."""
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
        if not empty.any() and cells.str.contains(WHOLE).all():
            return cells.cast(pl.Int64).to_numpy(writable=True)
        if (cells.str.contains(_NUMBER).fill_null(False) | empty).all():
            return cells.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy(writable=True)
    texts = np.empty(cells.len(), object)
    texts[:] = [text or None for text in cells.to_list()]
    return texts


_DIGITS = r"^\+?[0-9]+$"


class Identifiers:
    """The identifiers of the jobs of a log: ``values`` (0 where one makes no sense), and which ``fits``.

    Where one is no number, all are names: the number of a job is the place of its name among the different
    ones, from 1, and the header keeps them. ``sound``: rows that make sense otherwise; others do not decide
    whether identifiers are names.
    """

    def __init__(self, cells: pl.Series, sound: Mask, header: Header) -> None:
        self._header = header
        self._numbers: dict[str, int] | None = None
        if not cells.dtype.is_numeric():
            cells = cells.cast(pl.String).str.strip_chars()
            given = pl.Series(sound) & cells.is_not_null() & (cells != "")
            if not cells.filter(given.fill_null(False)).str.contains(_NUMBER).all():
                self._name(cells, given.fill_null(False))
                return
        self.values, self.fits = _whole(cells)

    def _name(self, cells: pl.Series, given: pl.Series) -> None:
        names = cells.filter(given).unique(maintain_order=True).to_list()
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


TIMES = ("submit_time", "withdraw_time")
"""Columns that may hold dates."""
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"


def in_seconds(table: pl.DataFrame, header: Header) -> pl.DataFrame:
    """Return a table whose dates are seconds since the first submission, and whose durations are seconds.

    Dates without a zone are counted as if they were UTC, as those of sacct are. A cell among dates that is no
    date becomes a text that no time is. The header gets the start, if it is a whole second.
    """
    found = {name: _seconds(table[name]) for name in table.columns if name in KNOWN}
    if not _holds_dates(found.get("submit_time")):
        return table.with_columns(**found)
    moments = {name: _moments(found[name]) for name in TIMES if name in found}
    zero = moments["submit_time"].min()
    if not isinstance(zero, float):
        return table.with_columns(**found)
    if zero.is_integer():
        header["UnixStartTime"] = str(int(zero))
    for name, times in moments.items():
        wrong = times.is_null() & _is_filled(found[name])
        found[name] = (
            times - zero
            if not wrong.any()
            else pl.select(
                pl.when(wrong).then(found[name].cast(pl.String)).otherwise((times - zero).cast(pl.String))
            ).to_series()
        )
    return table.with_columns(**found)


def _holds_dates(cells: pl.Series | None) -> bool:
    if cells is None:
        return False
    if cells.dtype == pl.String:
        return bool(cells.str.strip_chars().str.contains(_DATE).any())
    return cells.dtype in (pl.Date, pl.Datetime)


def _seconds(cells: pl.Series) -> pl.Series:
    """Return durations as seconds, other columns as they are."""
    return cells.dt.total_microseconds() / 1e6 if cells.dtype == pl.Duration else cells


def _is_filled(cells: pl.Series) -> pl.Series:
    return cells.is_not_null() & (cells.cast(pl.String).str.strip_chars() != "").fill_null(False)


def _moments(cells: pl.Series) -> pl.Series:
    """Return seconds since 1970, null for what is no date."""
    if cells.dtype in (pl.Date, pl.Datetime):
        return cells.cast(pl.Datetime("us")).dt.epoch("us") / 1e6
    texts = cells.cast(pl.String).str.strip_chars()
    known = {text: _moment(text) for text in texts.unique().to_list()}
    return pl.Series([known[text] for text in texts.to_list()], dtype=pl.Float64)


def _moment(text: str | None) -> float | None:
    try:
        return unix_time(text or "")
    except ValueError:
        return None
