"""Tables of very long runs as Parquet and CSV files, written in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
from polars.io.plugins import register_io_source

from mlsim._memory import give_back

__all__ = ["FRAME_ROWS", "Frames", "write_frames"]

FRAME_ROWS = 1 << 13
"""Rows made at a time."""

_ROW_GROUP = 1 << 15
"""Rows encoded at a time. Many fewer would take more memory: a summary of each group is kept to the end."""

Frames = Callable[[], Iterator[pl.DataFrame]]


def write_frames(frames: Frames, path: Path) -> None:
    """Write the rows of frames of one form, one after the other, as what the file's suffix says.

    Parameters
    ----------
    frames
        Makes the frames, of which there is at least one, anew at every call.
    path
        A file ``.parquet`` or ``.csv``.
    """
    if path.suffix == ".csv":
        with path.open("wb") as file:
            for number, rows in enumerate(frames()):
                rows.write_csv(file, include_header=number == 0)
        return
    schema = next(frames()).schema
    give_back()  # making the first rows has loaded kernels

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        # A sink of all rows asks for no part of them.
        assert (columns, predicate, n_rows) == (None, None, None)
        yield from frames()

    lazy = register_io_source(source, schema=schema)
    lazy.sink_parquet(path, compression="zstd", compression_level=1, row_group_size=_ROW_GROUP)
