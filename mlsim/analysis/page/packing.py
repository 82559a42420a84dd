"""Columns as text that a page unpacks: the n-th bytes of all values together, deflated, in Base64.

Neighbours in a column of a run resemble each other, so that their bytes of one significance compress well.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Packed", "packed", "packed_columns"]

Packed = dict[str, Any]

_KINDS = {"float64": "f8", "float32": "f4", "int32": "i4", "uint8": "u1"}
_LEVEL = 6


def packed(values: NDArray[Any]) -> Packed:
    """Return a column as ``type``, ``n`` and ``data``; integers of 64 bits become the narrowest that fits."""
    narrow = _narrow(np.ascontiguousarray(values))
    planes = narrow.view(np.uint8).reshape(len(narrow), narrow.itemsize).T
    data = base64.b64encode(zlib.compress(planes.tobytes(), _LEVEL)).decode("ascii")
    return {"type": _KINDS[narrow.dtype.name], "n": len(narrow), "data": data}


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.name in _KINDS:
        return values
    if values.dtype == np.bool_ or values.dtype == np.int8:
        return values.astype(np.uint8)
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    limits = np.iinfo(np.int32)
    fits = limits.min <= low and high <= limits.max
    return values.astype(np.int32 if fits else np.float64)


def packed_columns(columns: Mapping[str, NDArray[Any]]) -> dict[str, Packed]:
    """Return columns by name; see :func:`packed`."""
    return {name: packed(values) for name, values in columns.items()}
