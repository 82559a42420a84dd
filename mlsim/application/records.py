"""Records: what event loops know of a PE or a queue, declared once, as a class, and kept in an array.

The fields of a record lie side by side in memory, so that an event touches few cache lines, and a kernel
that takes a record takes one address.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np

__all__ = ["Records", "dtype_of"]

Record = TypeVar("Record", covariant=True)

_KINDS = {"float": np.float64, "int": np.int64}


class Records(Protocol[Record]):
    """An array of records."""

    def __getitem__(self, index: Any, /) -> Record: ...
    def __len__(self) -> int: ...


def dtype_of(declared: type) -> np.dtype[Any]:
    """Return the NumPy type of a record whose fields, ``float`` or ``int``, a class declares.

    Raises
    ------
    TypeError
        Where a field is named like something that NumPy's records have, such as ``size``: a kernel that runs
        as a Python function would read that.
    """
    for name in declared.__annotations__:
        if hasattr(np.record, name):
            raise TypeError(f"{declared.__name__}.{name}: NumPy's records have a {name} of their own")
    fields = [(name, _KINDS[kind]) for name, kind in declared.__annotations__.items()]
    return np.dtype((np.record, fields))
