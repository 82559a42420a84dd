"""Columns of files as plain arrays: what the writer of files and data frames are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Mask

__all__ = ["Columns", "Known", "Values", "Words", "n_values"]


class Known(NamedTuple):
    """Whole numbers, some of which are not known."""

    numbers: NDArray[Any]
    """One a row, whatever where it is not known."""
    known: Mask
    """Whether it is."""


class Words(NamedTuple):
    """Texts of which there are few."""

    codes: NDArray[np.integer[Any]]
    """Place of the text of each row among the words; -1 where there is none."""
    words: Sequence[str]
    """Each once."""
    closed: bool = True
    """Whether the words are a closed set, which files name; else they are just texts."""


Values: TypeAlias = "NDArray[Any] | Known | Words | Sequence[str | None]"
"""Numbers, NaN where there is none, or flags; numbers and words of which some are missing; or texts."""
Columns: TypeAlias = "Mapping[str, Values]"
"""Names of columns to their values."""


def n_values(values: Values) -> int:
    """Return how many rows a column has."""
    return len(values[0]) if isinstance(values, Known | Words) else len(values)
