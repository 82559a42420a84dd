"""Parquet files, written a row group at a time."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from struct import pack
from typing import IO, TypeAlias

import numpy as np

from mlsim.record.parquet.parquet_pages import (
    I32,
    I64,
    PLAIN,
    RLE,
    TEXT,
    TYPES,
    Encoder,
    Field,
    Kind,
    Page,
    Struct,
    as_column,
    struct,
    words_page,
)
from mlsim.record.table_files import Columns, n_values

KEY = "ARROW:schema"
"""Under which a file's footer has it."""

Part: TypeAlias = "int | str | Sequence[Part] | Table"
"""A small number, a text, a list, or a table."""
_V5, _SCHEMA = 4, 1
_INT, _FLOAT, _BOOL, _TEXT = 2, 3, 6, 20
_DOUBLE = 2
_ENUM = "_PL_ENUM_VALUES2"
"""Key of the field's words, for Polars: each after its length."""


class Table(tuple["Part | None", ...]):
    """Fields by number; None: left out."""

    __slots__ = ()


def arrow_schema(columns: Mapping[str, np.dtype | Sequence[str] | None]) -> str:
    """Return the description of columns.

    Parameters
    ----------
    columns
        Name of each column to the type of its numbers, its words if they are a closed set, or None: texts.
    """
    fields = [_field(name, kind) for name, kind in columns.items()]
    out = bytearray(4)
    out[:4] = pack("<I", _put(out, Table([_V5, _SCHEMA, Table([None, fields])])))
    out += bytes(-len(out) % 8)
    return b64encode(pack("<Ii", 0xFFFFFFFF, len(out)) + out).decode()


def _field(name: str, kind: np.dtype | Sequence[str] | None) -> Table:
    dictionary, notes = None, None
    if kind is None:
        number, details = _TEXT, Table()
    elif not isinstance(kind, np.dtype):
        number, details = _TEXT, Table()
        bits = next(bits for bits in (8, 16, 32) if len(kind) < 1 << bits)
        dictionary = Table([None, Table([bits, 0]), 1])
        notes = [Table([_ENUM, "".join(f"{len(word.encode())};{word}" for word in kind)])]
    elif kind.kind == "b":
        number, details = _BOOL, Table()
    elif kind.kind == "f":
        number, details = _FLOAT, Table([_DOUBLE])
    else:
        number, details = _INT, Table([8 * kind.itemsize, 1])
    return Table([name, 1, number, details, dictionary, [], notes])


def _put(out: bytearray, part: str | Sequence[Part | None]) -> int:
    """Write a part, and those in it behind it; return its place."""
    out += bytes(-len(out) % 4)
    at = len(out)
    if isinstance(part, str):
        content = part.encode()
        out += pack("<I", len(content)) + content + b"\0"
        return at
    inner = [field for field in part if field is not None]
    if isinstance(part, Table):
        out += _places(part)
        at, begin = len(out), at
        out += pack("<i", at - begin)
    else:
        out += pack("<I", len(inner))
    first = len(out)
    out += bytes(4 * len(inner))
    for here, field in zip(range(first, len(out), 4), inner, strict=True):
        value = field if isinstance(field, int) else _put(out, field) - here
        out[here : here + 4] = pack("<I", value)
    return at


def _places(table: Table) -> bytes:
    """Return where the fields of a table are, of 4 bytes each; 0 of those left out."""
    there = [field is not None for field in table]
    places = [4 * sum(there[: number + 1]) * here for number, here in enumerate(there)]
    content = pack(f"<{2 + len(table)}H", 4 + 2 * len(table), 4 + 4 * sum(there), *places)
    return content + bytes(-len(content) % 4)


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
