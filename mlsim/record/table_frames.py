"""Tables of a run as data frames."""

from __future__ import annotations

import numpy as np
import polars as pl

from mlsim._forks import check_fork
from mlsim.record.record_tables import Records
from mlsim.record.table_files import Columns, Known, Values, Words, file_columns


def frame(file: str, records: Records, technique: str | None) -> pl.DataFrame:
    """Return the frame of one table; parameters and columns are those of :func:`file_columns`."""
    return frame_of(file_columns(file, records, technique))


def frame_of(columns: Columns) -> pl.DataFrame:
    """Return a frame of plain columns; NaN becomes null."""
    check_fork()
    return pl.DataFrame({name: _series(values) for name, values in columns.items()}, nan_to_null=True)


def _series(values: Values) -> pl.Series | Values:
    if isinstance(values, Known):
        series = pl.Series(values.numbers)
        return series if values.known.all() else series.set(pl.Series(~values.known), None)
    if isinstance(values, Words):  # one byte a row where words are few, and a text to whoever reads it
        words = [*values.words, None]
        kind = pl.Enum(list(values.words)) if values.closed else pl.String()
        places = np.where(values.codes < 0, len(values.words), values.codes)
        return pl.Series(words, dtype=kind).gather(places.astype(np.uint32))
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values
    return pl.Series(list(values), dtype=pl.String)
