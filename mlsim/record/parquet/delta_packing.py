"""Whole numbers as the differences between neighbours, each in as few bits as its neighbours' need.

It is Parquet's encoding DELTA_BINARY_PACKED: see
https://github.com/apache/parquet-format/blob/master/Encodings.md. Blocks have 128 differences, whose least
one is taken off, in four groups of 32; a group has one width in bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Ints
from mlsim._jit import inner_kernel, kernel, zeros

__all__ = ["most_bytes", "pack"]

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
