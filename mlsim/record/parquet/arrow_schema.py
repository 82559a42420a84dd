"""What Arrow's readers (Polars, PyArrow, DuckDB) want to know of the columns of a Parquet file.

Without it they read the words of a closed set as texts. It is a message of Arrow's, in the form of
FlatBuffers: see https://github.com/apache/arrow/blob/main/format/Schema.fbs and https://flatbuffers.dev/internals.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from struct import pack
from typing import TypeAlias

import numpy as np

__all__ = ["KEY", "arrow_schema"]

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
