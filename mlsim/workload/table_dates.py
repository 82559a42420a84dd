"""Dates in tables of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import polars as pl

from mlsim.workload.swf_fields import Header

TIMES = ("submit_time", "withdraw_time")
"""Columns that may hold dates."""
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"


def in_seconds(columns: Mapping[str, pl.Series], header: Header) -> dict[str, pl.Series]:
    """Return columns of which dates are seconds since the first submission, and durations seconds.

    Dates without a zone are counted as if they were UTC, as those of sacct are. What is no date among dates
    becomes a text that no time is.

    Parameters
    ----------
    columns
        By name, of any type.
    header
        Is told the start, in seconds since 1970, if it is a whole one.
    """
    found = {name: _seconds(cells) for name, cells in columns.items()}
    if not _holds_dates(columns.get("submit_time")):
        return found
    moments = {name: _moments(found[name]) for name in TIMES if name in found}
    zero = moments["submit_time"].min()
    if not isinstance(zero, float):
        return found
    if zero.is_integer():
        header["UnixStartTime"] = str(int(zero))
    for name, times in moments.items():
        wrong = times.is_null() & _given(found[name])
        found[name] = (
            times - zero
            if not wrong.any()
            else pl.select(
                pl.when(wrong).then(found[name].cast(pl.String)).otherwise((times - zero).cast(pl.String))
            ).to_series()
        )
    return found


def _holds_dates(cells: pl.Series | None) -> bool:
    if cells is None:
        return False
    if cells.dtype == pl.String:
        return bool(cells.str.strip_chars().str.contains(_DATE).any())
    return cells.dtype in (pl.Date, pl.Datetime)


def _seconds(cells: pl.Series) -> pl.Series:
    """Return durations as seconds, other columns as they are."""
    return cells.dt.total_microseconds() / 1e6 if cells.dtype == pl.Duration else cells


def _given(cells: pl.Series) -> pl.Series:
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
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
