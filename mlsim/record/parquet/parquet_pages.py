"""Columns of a row group as pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Ints, Mask
from mlsim._jit import inner_kernel, kernel, zeros
from mlsim.record.table_files import Known, Values, Words

Bytes = NDArray[np.uint8]

_BLOCK, _GROUP = 128, 32
_GROUPS = _BLOCK // _GROUP
_VARINT = 10
"""Bytes of a variable-length number of 64 bits, at most."""


def most_bytes(values: int) -> int:
    """Return how many bytes so many values take at most."""
    blocks = -(-values // _BLOCK)
    return 4 * _VARINT + blocks * (_VARINT + _GROUPS + 8 * _BLOCK)


@kernel
def pack(values: Ints, out: Bytes) -> int:
    """Write values; return how many bytes they take.

    Parameters
    ----------
    values
        One or more. Differences may overflow: readers' sums do as well.
    out
        Of at least :func:`most_bytes`.
    """
    n = len(values)
    at = _put_varint(out, 0, np.uint64(_BLOCK))
    at = _put_varint(out, at, np.uint64(_GROUPS))
    at = _put_varint(out, at, np.uint64(n))
    at = _put_varint(out, at, _zigzag(values[0]))
    differences = zeros(_BLOCK, np.int64)
    for first in range(1, n, _BLOCK):
        count = min(_BLOCK, n - first)
        least = values[first] - values[first - 1]
        for k in range(count):
            differences[k] = values[first + k] - values[first + k - 1]
            least = min(least, differences[k])
        for k in range(count, _BLOCK):
            differences[k] = least
        at = _put_varint(out, at, _zigzag(least))
        widths = at
        at += _GROUPS
        for group in range(_GROUPS):
            used = np.uint64(0)
            for k in range(_GROUP * group, _GROUP * (group + 1)):
                differences[k] -= least
                used |= np.uint64(differences[k])
            width = _bits(used)  # 0 of a last block's groups that have no values: readers expect no bytes
            out[widths + group] = width
            if width > 0:
                at = _put_bits(out, at, differences, _GROUP * group, width)
    return at


@inner_kernel
def _zigzag(value: int) -> np.uint64:
    return np.uint64((value << 1) ^ (value >> 63))


@inner_kernel
def _put_varint(out: Bytes, at: int, value: np.uint64) -> int:
    while value > np.uint64(0x7F):
        out[at] = np.uint8(value & np.uint64(0x7F) | np.uint64(0x80))
        value >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(value)
    return at + 1


@inner_kernel
def _bits(value: np.uint64) -> int:
    """Return the number of bits up to the highest one that is set."""
    width = 0
    while value > np.uint64(0):
        value >>= np.uint64(1)
        width += 1
    return width


@inner_kernel
def _put_bits(out: Bytes, at: int, values: Ints, first: int, width: int) -> int:
    """Write a group of numbers of so many bits one after the other, the lowest bit first."""
    word, filled = np.uint64(0), 0
    for k in range(first, first + _GROUP):
        value = np.uint64(values[k])
        word |= value << np.uint64(filled)
        filled += width
        if filled >= 64:
            for byte in range(8):
                out[at + byte] = np.uint8(word >> np.uint64(8 * byte) & np.uint64(0xFF))
            at += 8
            filled -= 64
            word = value >> np.uint64(width - filled) if filled > 0 else np.uint64(0)
    for byte in range(filled // 8):
        out[at + byte] = np.uint8(word >> np.uint64(8 * byte) & np.uint64(0xFF))
    return at + filled // 8


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


Numbers = NDArray[Any]
Kind: TypeAlias = "np.dtype[Any] | Sequence[str] | None"
"""The type of numbers or flags, the words of a closed set, or None: texts."""

TYPES = {np.dtype(np.bool_): 0, np.dtype(np.int32): 1, np.dtype(np.int64): 2, np.dtype(np.float64): 5}
"""Physical types of numbers and flags."""
TEXT = 6
PLAIN, RLE = 0, 3
_PACKED_DIFFERENCES, _LENGTHS_AND_TEXTS, _PLACES, _SPLIT_BYTES = 5, 6, 8, 9
_LONGEST = 64
"""Characters of texts up to which the footer tells the least and the largest."""


class Column(NamedTuple):
    """Values of a column."""

    kind: Kind
    values: Numbers | Words | list[str]
    """Of the rows that have one."""
    known: Mask | None
    """Which rows have one; None: all."""


class Page(NamedTuple):
    """A page of values, before it is compressed."""

    encoding: int
    content: Sequence[bytes | memoryview]
    nulls: int
    least: bytes | None
    largest: bytes | None
    words: Sequence[str] | None = None
    """What places are of: the page of words before it."""


def as_column(values: Values) -> Column:
    """Find out what a column is of, and which rows have no value."""
    if isinstance(values, Words):
        known = values.codes >= 0
        kept = values._replace(codes=values.codes if known.all() else values.codes[known])
        return Column(values.words if values.closed else None, kept, None if known.all() else known)
    if isinstance(values, Known):
        numbers, known = values.numbers, values.known
        return Column(numbers.dtype, numbers[known], None if known.all() else known)
    if not isinstance(values, np.ndarray) or values.dtype == object:
        known = np.fromiter((text is not None for text in values), np.bool_, len(values))
        texts = [text for text in values if text is not None]
        return Column(None, texts, None if known.all() else known)
    dtype = _dtype(values.dtype)
    values = values.astype(dtype, copy=False)
    if dtype.kind == "f" and len(values) and np.isnan(values.min()):
        known = ~np.isnan(values)
        return Column(dtype, values[known], known)
    return Column(dtype, values, None)


def _dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that files have for numbers of a type."""
    if dtype in TYPES:
        return dtype
    return np.dtype(np.float64 if dtype.kind == "f" else np.int64)


class Encoder:
    """Encodes the values of columns, one page at a time: the next one takes the memory of the last.

    Parameters
    ----------
    compressed
        Whether pages will be compressed.
    """

    def __init__(self, compressed: bool) -> None:
        self._compressed = compressed
        self._packed = np.empty(0, np.uint8)

    def page_of(self, column: Column) -> Page:
        """Encode the values of some rows."""
        values, known = column.values, column.known
        n = len(values.codes) if isinstance(values, Words) else len(values)
        nulls = 0 if known is None else len(known) - n
        levels = _levels(n, known)
        head = [len(levels).to_bytes(4, "little"), levels]
        if not n:
            return Page(PLAIN, head, nulls, None, None)
        if isinstance(values, Words):
            return Page(_PLACES, [*head, *_places(values)], nulls, None, None, values.words)
        if isinstance(values, list):
            return Page(_LENGTHS_AND_TEXTS, [*head, *self._texts(values)], nulls, *_text_range(values))
        encoding, content = self._numbers(values)
        return Page(encoding, [*head, content], nulls, *_range(values))

    def _numbers(self, values: Numbers) -> tuple[int, bytes | memoryview]:
        """Return the encoding of numbers or flags, and what they become."""
        if values.dtype.kind == "i":
            return _PACKED_DIFFERENCES, self._differences(values)
        if values.dtype.kind == "b":
            return PLAIN, np.packbits(values, bitorder="little").tobytes()
        values = np.ascontiguousarray(values)
        if self._compressed:
            split = np.ascontiguousarray(values.view(np.uint8).reshape(-1, values.itemsize).T)
            return _SPLIT_BYTES, split.data.cast("B")
        return PLAIN, values.data.cast("B")

    def _differences(self, numbers: Numbers) -> memoryview:
        room = most_bytes(len(numbers))
        if len(self._packed) < room:
            self._packed = np.empty(room, np.uint8)
        return self._packed[: pack(numbers.astype(np.int64, copy=False), self._packed)].data

    def _texts(self, texts: list[str]) -> list[bytes | memoryview]:
        """Return the lengths of texts in bytes, and the texts."""
        together = "".join(texts)
        lengths: map[int] = map(len, texts if together.isascii() else [text.encode() for text in texts])
        return [self._differences(np.fromiter(lengths, np.int64, len(texts))), together.encode()]


def words_page(words: Sequence[str]) -> bytes:
    """Encode words, each behind its length."""
    contents = [word.encode() for word in words]
    return b"".join(len(content).to_bytes(4, "little") + content for content in contents)


def _levels(n: int, known: Mask | None) -> bytes:
    """Return which rows have a value."""
    if known is None:
        return varint(n << 1) + b"\1"  # so many are there
    return varint(-(-len(known) // 8) << 1 | 1) + np.packbits(known, bitorder="little").tobytes()


def _places(words: Words) -> list[bytes | memoryview]:
    """Return places of words in as few bytes as the last one needs, in groups of eight rows."""
    size = 1 if len(words.words) <= 1 << 8 else 2 if len(words.words) <= 1 << 16 else 4
    groups = -(-len(words.codes) // 8)
    places = np.zeros(8 * groups, f"<u{size}")
    places[: len(words.codes)] = words.codes
    return [bytes([8 * size]), varint(groups << 1 | 1), places.tobytes()]


def _range(values: Numbers) -> tuple[bytes, bytes]:
    """Return the least and the largest number."""
    least, largest = values.min(), values.max()
    if values.dtype.kind == "f":  # readers cannot rely on the sign of 0
        least = values.dtype.type(-0.0) if least == 0.0 else least
        largest = values.dtype.type(0.0) if largest == 0.0 else largest
    return least.tobytes(), largest.tobytes()


def _text_range(texts: list[str]) -> tuple[bytes | None, bytes | None]:
    """Return the first and the last text in the order of characters, which is that of their bytes."""
    first, last = min(texts), max(texts)
    return (None, None) if len(first) + len(last) > _LONGEST else (first.encode(), last.encode())
