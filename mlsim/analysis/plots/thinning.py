"""Curves of very many points, thinned to those that differ in a picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Ints
from mlsim._jit import kernel

__all__ = ["Thinned", "are_new"]

_PER_DECADE = 400
"""So many sizes between 1 and 10 are told apart."""


class Thinned:
    """Points of a curve of chunks, the first of those that look the same.

    Parameters
    ----------
    n
        How many chunks there are.
    columns
        Steps are told apart down to this part of the axis.
    """

    def __init__(self, n: int, columns: int) -> None:
        self._n, self._columns = max(n, 1), min(n, columns)
        self._key = self._step = self._size = np.empty(0, np.int64)
        self._rows = self._key

    def add(self, step: Ints, size: Ints) -> None:
        """Add chunks that follow those added before: of neighbours that look the same, the first."""
        if len(self._rows) < len(step):
            self._rows = np.empty(len(step), np.int64)
        changes = self._rows[: _changes(step, size, self._n, self._columns, self._rows)]
        step, size = step[changes], size[changes]
        row = np.rint(np.log10(np.maximum(size, 1)) * _PER_DECADE).astype(np.int64)
        key = np.concatenate([self._key, self._columns * step // self._n * (1 << 20) + row])
        self._key, kept = np.unique(key, return_index=True)
        self._step = np.concatenate([self._step, step])[kept]
        self._size = np.concatenate([self._size, size])[kept]

    def points(self) -> tuple[Ints, Ints]:
        """Return step and size of each point."""
        return self._step, self._size


@kernel
def _changes(step: Ints, size: Ints, n: int, columns: int, rows: Ints) -> int:
    """Write down the rows of another size, or another column of the picture, than the one before."""
    count = low = high = 0  # steps of the column of the row before: from low on, before high
    for row in range(len(step)):
        here = step[row]
        if low <= here < high and size[row] == size[row - 1]:
            continue
        rows[count] = row
        count += 1
        column = columns * here // n
        low, high = -(-column * n // columns), -(-(column + 1) * n // columns)
    return count


@kernel
def are_new(steps: Ints, seen: NDArray[np.uint8]) -> bool:
    """Note steps, a bit each; return whether none had been noted."""
    are_new = True
    for row in range(len(steps)):
        place, bit = steps[row] >> 3, np.uint8(1 << (steps[row] & 7))
        are_new &= seen[place] & bit == 0
        seen[place] |= bit
    return are_new
