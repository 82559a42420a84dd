"""Thrift's compact protocol, as far as the headers and the footer of Parquet files need it.

See https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

__all__ = ["Field", "Struct", "struct", "varint", "zigzag"]

Struct: TypeAlias = "Mapping[int, Field]"
"""Numbers of fields to their values, in order."""
Field: TypeAlias = "tuple[int, int] | bytes | str | Struct | Sequence[Field]"
"""A whole number with its type (I32, I64), bytes, a text, a struct, or a list of one kind."""

I32, I64 = 5, 6
_BINARY, _LIST, _STRUCT = 8, 9, 12


def struct(fields: Struct) -> bytes:
    """Return a struct as bytes."""
    parts, last = [], 0
    for number, value in fields.items():
        parts += [bytes([(number - last) << 4 | _type(value)]), _content(value)]
        last = number
    return b"".join(parts) + b"\0"


def varint(value: int) -> bytes:
    """Return a number of 0 or more, 7 bits a byte, the lowest first."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def zigzag(value: int) -> int:
    """Return a number of 0 or more for any number: 0, -1, 1, -2 ... are 0, 1, 2, 3 ..."""
    return 2 * value if value >= 0 else -2 * value - 1


def _type(value: Field) -> int:
    if isinstance(value, tuple):
        return int(value[0])
    if isinstance(value, bytes | str):
        return _BINARY
    return _STRUCT if isinstance(value, Mapping) else _LIST


def _content(value: Field) -> bytes:
    if isinstance(value, tuple):
        return varint(zigzag(value[1]))
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return varint(len(value)) + value
    if isinstance(value, Mapping):
        return struct(value)
    kind = _type(value[0]) if value else _STRUCT  # the only lists that may be empty
    length = bytes([len(value) << 4 | kind]) if len(value) < 15 else bytes([0xF0 | kind]) + varint(len(value))
    return length + b"".join(map(_content, value))
