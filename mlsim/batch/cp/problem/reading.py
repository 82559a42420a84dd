"""Columns of saved instances, read from JSON; messages name them and say what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints

__all__ = ["MOST", "names_of", "seconds", "section_of", "whole_numbers", "whole_rows"]

MOST = 2**62
"""What sums of columns stay below, so that none leaves 64 bits."""
_EXACT = 2.0**53
"""Whole numbers above this are not all doubles."""


def section_of(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a section of an instance."""
    section = data[name]
    if not isinstance(section, Mapping):
        raise ValueError(f"{name}: allowed: columns by name")
    return section


def names_of(data: Mapping[str, Any], key: str, *, of: str = "") -> tuple[str, ...]:
    """Read a list of names."""
    names = data[key]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{of}{key}: allowed: a list of names, one at least")
    return tuple(names)


def whole_numbers(data: Mapping[str, Any], key: str, *, of: str = "", least: int = 0) -> Ints:
    """Read a column of whole numbers.

    Parameters
    ----------
    data, key
        Where it is.
    of
        The name of the section, for messages.
    least
        What none is below.
    """
    allowed = f"{of}{key}: allowed: a list of whole numbers" + (f", {least} and more" if least >= 0 else "")
    return _whole(data[key], 1, allowed, least)


def whole_rows(data: Mapping[str, Any], key: str, wide: int, *, of: str = "", each: str = "resource") -> Ints:
    """Read a table of whole numbers of 0 and more, with ``wide`` of them in each row."""
    allowed = f"{of}{key}: allowed: rows of {wide} whole numbers, 0 and more, one a {each}"
    table = _whole(data[key], 2, allowed, 0)
    if not table.size:
        return np.zeros((0, wide), np.int64)
    if table.shape[1] != wide:
        raise ValueError(allowed)
    return table


def seconds(data: Mapping[str, Any], key: str, *, of: str = "", above: float = -np.inf) -> Floats:
    """Read a column of times (s), all above a number."""
    column = _numbers(data[key])
    if column is None or column.ndim != 1:
        raise ValueError(f"{of}{key}: allowed: a list of numbers")
    column = column.astype(np.float64)
    if not ((column > above) & (column < np.inf)).all():
        raise ValueError(f"{of}{key}: allowed: numbers above {above:g}, not infinite")
    return column


def _whole(values: Any, dimensions: int, allowed: str, least: int) -> Ints:
    table = _numbers(values)
    if table is not None and not table.size and isinstance(values, list):
        return np.zeros((0,) * dimensions, np.int64)
    if table is None or table.ndim != dimensions:
        raise ValueError(allowed)
    if table.dtype.kind == "f" and not ((table == np.floor(table)) & (np.abs(table) < _EXACT)).all():
        raise ValueError(allowed)
    whole = table.astype(np.int64)
    if (whole < least).any():
        raise ValueError(f"{allowed}; there is {whole.min()}")
    return whole


def _numbers(values: Any) -> NDArray[Any] | None:
    """Return an array of what is numbers, none of them 2^63 or more in size; None otherwise."""
    try:
        table = np.asarray(values)
    except (ValueError, OverflowError):  # rows of unequal length
        return None
    return table if table.dtype.kind in "if" else None
