"""Tables in CSV or Parquet, told apart by how they begin."""

from __future__ import annotations

import io
from collections.abc import Collection
from pathlib import Path

import polars as pl

from mlsim._files.opening import open_file
from mlsim._files.parquet import read_columns, read_schema, refusing_damage

__all__ = ["read_table"]


def read_table(path: Path, purpose: str, wanted: Collection[str]) -> pl.DataFrame:
    """Read those of the wanted columns that a file has, compressed or not; of CSV as texts.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    with open_file(path, purpose) as file:
        content = file.read()
    if content[:4] == b"PAR1":
        return read_columns(content, path, [name for name in read_schema(content, path) if name in wanted])
    with refusing_damage(f"{path}: cannot be read"):
        frame = pl.read_csv(io.BytesIO(content), infer_schema=False)
    return frame.select(name for name in frame.columns if name in wanted)
