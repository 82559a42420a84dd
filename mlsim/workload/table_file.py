"""Tables in CSV or Parquet, told apart by how they begin."""

from __future__ import annotations

import io
from collections.abc import Collection
from pathlib import Path

import polars as pl

from mlsim._files.parquet import read_columns, read_schema, refusing_damage
from mlsim.workload.compression import read_chunks, read_whole

_PARQUET = b"PAR1"


def read_table(path: Path, purpose: str, wanted: Collection[str]) -> pl.DataFrame:
    """Read those of the wanted columns that a file has, compressed or not; of CSV as texts.

    Raises
    ------
    InputError
        If the file cannot be read, is more than memory holds, or has a line that is too long.
    """
    parquet = next(read_chunks(path, purpose), b"").startswith(_PARQUET)
    content = read_whole(path, lines=not parquet, what=purpose)
    if parquet:
        return read_columns(content, path, [name for name in read_schema(content, path) if name in wanted])
    with refusing_damage(f"{path}: cannot be read"):
        frame = pl.read_csv(io.BytesIO(content), infer_schema=False)
    return frame.select(name for name in frame.columns if name in wanted)
