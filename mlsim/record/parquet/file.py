"""Parquet files, written a row group at a time.

Why there is a writer of our own is told in docs/decisions/parquet.md; see https://parquet.apache.org/docs/file-format.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import IO

import numpy as np

from mlsim.record.parquet.arrow_schema import KEY, arrow_schema
from mlsim.record.parquet.pages import PLAIN, RLE, TEXT, TYPES, Encoder, Kind, Page, as_column, words_page
from mlsim.record.parquet.thrift import I32, I64, Field, Struct, struct
from mlsim.record.values import Columns, n_values

__all__ = ["ParquetFile"]

_MAGIC = b"PAR1"
_OPTIONAL, _UTF8 = 1, 0
_UNCOMPRESSED, _GZIP = 0, 2
_DATA_PAGE, _WORDS_PAGE = 0, 2
_GZIP_WINDOW = 31
"""Bits of zlib's window, 15, and 16 for the head and the checksum of gzip."""
_LEVEL = 1
"""Of zlib: as little effort as there is."""


class ParquetFile:
    """A Parquet file that is being written.

    Parameters
    ----------
    file
        Where to write, from its begin.
    compressed
        Whether pages are compressed, which takes longer than all the rest.
    """

    def __init__(self, file: IO[bytes], compressed: bool = True) -> None:
        self._file = file
        self._compressed = compressed
        self._encoder = Encoder(compressed)
        self._at = 0
        self._rows = 0
        self._kinds: dict[str, Kind] = {}
        self._groups: list[Struct] = []
        self._put(_MAGIC)

    def write(self, columns: Columns) -> None:
        """Write some rows as a row group, none of no rows: the same columns each time, at least once."""
        began, parts = self._at, {name: as_column(values) for name, values in columns.items()}
        if not self._kinds:
            self._kinds = {name: part.kind for name, part in parts.items()}
        (n,) = {n_values(values) for values in columns.values()}
        if n:
            chunks = [self._write(name, n, self._encoder.page_of(parts[name])) for name in self._kinds]
            self._groups.append({1: chunks, 2: (I64, self._at - began), 3: (I64, n)})
            self._rows += n

    def close(self, metadata: Mapping[str, str] | None = None) -> None:
        """Write the footer, which holds texts by name too; the file itself stays open."""
        told = {KEY: arrow_schema(self._kinds), **(metadata or {})}
        root: Struct = {4: "schema", 5: (I32, len(self._kinds))}
        order: Struct = {1: {}}  # what is least and largest is meant as numbers and texts are ordered
        footer = struct(
            {
                1: (I32, 1),
                2: [root, *(_leaf(name, kind) for name, kind in self._kinds.items())],
                3: (I64, self._rows),
                4: self._groups,
                5: [{1: name, 2: text} for name, text in told.items()],
                6: "mlsim",
                7: [order] * len(self._kinds),
            }
        )
        self._put(footer, len(footer).to_bytes(4, "little"), _MAGIC)

    def _write(self, name: str, n: int, page: Page) -> Struct:
        """Write a column's values as one page; return what the footer says of it."""
        began, plain = self._at, 0
        if page.words is not None:
            head: Struct = {1: (I32, len(page.words)), 2: (I32, PLAIN)}
            plain += self._write_page(_WORDS_PAGE, [words_page(page.words)], {7: head})
        values_at = self._at
        head = {1: (I32, n), 2: (I32, page.encoding), 3: (I32, RLE), 4: (I32, RLE)}
        plain += self._write_page(_DATA_PAGE, page.content, {5: head})
        statistics: dict[int, Field] = {3: (I64, page.nulls)}
        if page.least is not None and page.largest is not None:
            statistics |= {5: page.largest, 6: page.least}
        meta: dict[int, Field] = {
            1: (I32, _type(self._kinds[name])),
            2: [(I32, encoding) for encoding in sorted({page.encoding, RLE, PLAIN})],
            3: [name],
            4: (I32, _GZIP if self._compressed else _UNCOMPRESSED),
            5: (I64, n),
            6: (I64, plain),
            7: (I64, self._at - began),
            9: (I64, values_at),
        }
        if page.words is not None:
            meta[11] = I64, began
        meta[12] = statistics
        return {2: (I64, began), 3: meta}

    def _write_page(self, kind: int, content: Sequence[bytes | memoryview], head: Struct) -> int:
        """Write a page behind its header; return how many bytes both would have if it were not compressed."""
        size = sum(map(len, content))
        if self._compressed:
            press = zlib.compressobj(_LEVEL, wbits=_GZIP_WINDOW)
            content = [*(press.compress(part) for part in content), press.flush()]
        written = sum(map(len, content))
        header = struct({1: (I32, kind), 2: (I32, size), 3: (I32, written), **head})
        self._put(header, *content)
        return len(header) + size

    def _put(self, *parts: bytes | memoryview) -> None:
        for part in parts:
            self._file.write(part)
            self._at += len(part)


def _leaf(name: str, kind: Kind) -> Struct:
    leaf: dict[int, Field] = {1: (I32, _type(kind)), 3: (I32, _OPTIONAL), 4: name}
    if _type(kind) == TEXT:
        leaf |= {6: (I32, _UTF8), 10: {1: {}}}
    return leaf


def _type(kind: Kind) -> int:
    return TYPES[kind] if isinstance(kind, np.dtype) else TEXT
