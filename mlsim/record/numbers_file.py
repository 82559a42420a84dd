"""Parquet files of plain numbers, written a row group at a time.

For tables of very many rows. Polars, which writes all others, takes several times as long for them: its
encodings of whole numbers are looked for anew in each row group, and every column passes through its threads
and frames. Here whole numbers are kept as packed differences, other numbers as they are, and nothing is
compressed: see https://github.com/apache/parquet-format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mlsim.record.thrift import I32, I64, Struct, struct, varint

__all__ = ["NumbersFile"]

Numbers = NDArray[Any]

_MAGIC = b"PAR1"
_TYPES = {np.dtype(np.int32): 1, np.dtype(np.int64): 2, np.dtype(np.float64): 5}
_PLAIN, _RLE, _PACKED_DIFFERENCES = 0, 3, 5
_OPTIONAL, _UNCOMPRESSED, _DATA_PAGE = 1, 0, 0


class NumbersFile:
    """A Parquet file that is being written.

    Parameters
    ----------
    file
        Where to write, from its begin.
    columns
        Name of each column to the type of its values: int32, int64 or float64.
    """

    def __init__(self, file: IO[bytes], columns: Mapping[str, np.dtype[Any]]) -> None:
        self._file = file
        self._columns = dict(columns)
        self._at = 0
        self._rows = 0
        self._groups: list[Struct] = []
        self._packed = np.empty(0, np.uint8)
        self._put(_MAGIC)

    def write(self, values: Mapping[str, Numbers]) -> None:
        """Write some rows, one or more, as a row group: the values of each column. NaN becomes null."""
        began, rows = self._at, {len(column) for column in values.values()}
        chunks = [
            self._write(name, values[name].astype(dtype, copy=False)) for name, dtype in self._columns.items()
        ]
        (n,) = rows
        self._groups.append({1: chunks, 2: (I64, self._at - began), 3: (I64, n)})
        self._rows += n

    def close(self) -> None:
        """Write the footer; the file itself stays open."""
        root: Struct = {4: "schema", 5: (I32, len(self._columns))}
        leaves: list[Struct] = [
            {1: (I32, _TYPES[dtype]), 3: (I32, _OPTIONAL), 4: name} for name, dtype in self._columns.items()
        ]
        order: Struct = {1: {}}  # what is least and largest is meant as numbers are ordered
        footer = struct(
            {
                1: (I32, 1),
                2: [root, *leaves],
                3: (I64, self._rows),
                4: self._groups,
                6: "mlsim",
                7: [order] * len(leaves),
            }
        )
        self._put(footer, len(footer).to_bytes(4, "little"), _MAGIC)

    def _write(self, name: str, values: Numbers) -> Struct:
        """Write a column's values as one page; return what the footer says of it."""
        encoding = _PLAIN if values.dtype.kind == "f" else _PACKED_DIFFERENCES
        n, nulls = len(values), 0
        if encoding == _PACKED_DIFFERENCES or not np.isnan(values.min()):
            levels = varint(n << 1) + b"\1"  # so many are there
        else:
            known = ~np.isnan(values)
            levels = varint(-(-n // 8) << 1 | 1) + np.packbits(known, bitorder="little").tobytes()
            values = values[known]
            nulls = n - len(values)
        content = self._pack(values) if encoding == _PACKED_DIFFERENCES else np.ascontiguousarray(values)
        size = 4 + len(levels) + content.nbytes
        page: Struct = {1: (I32, n), 2: (I32, encoding), 3: (I32, _RLE), 4: (I32, _RLE)}
        header = struct({1: (I32, _DATA_PAGE), 2: (I32, size), 3: (I32, size), 5: page})
        began = self._at
        self._put(header, len(levels).to_bytes(4, "little"), levels, content.data.cast("B"))
        total = (I64, self._at - began)
        meta: Struct = {
            1: (I32, _TYPES[values.dtype]),
            2: [(I32, encoding), (I32, _RLE)],
            3: [name],
            4: (I32, _UNCOMPRESSED),
            5: (I64, n),
            6: total,
            7: total,
            9: (I64, began),
            12: _statistics(values, nulls),
        }
        return {2: (I64, began), 3: meta}

    def _pack(self, values: Numbers) -> Numbers:
        from mlsim.record.delta_packing import most_bytes, pack

        room = most_bytes(len(values))
        if len(self._packed) < room:
            self._packed = np.empty(room, np.uint8)
        return self._packed[: pack(values.astype(np.int64, copy=False), self._packed)]

    def _put(self, *parts: bytes | memoryview) -> None:
        for part in parts:
            self._file.write(part)
            self._at += len(part)


def _statistics(values: Numbers, nulls: int) -> Struct:
    """Return how many nulls a column has, its largest and its least value."""
    if not len(values):
        return {3: (I64, nulls)}
    least, largest = values.min(), values.max()
    if values.dtype.kind == "f":  # readers cannot rely on the sign of 0
        least = values.dtype.type(-0.0) if least == 0.0 else least
        largest = values.dtype.type(0.0) if largest == 0.0 else largest
    return {3: (I64, nulls), 5: largest.tobytes(), 6: least.tobytes()}
