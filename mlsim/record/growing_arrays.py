"""Growing arrays: in memory, then in an anonymous file."""

import mmap
import os
import tempfile
from array import array
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mlsim.errors import OutputError

HELD_ROWS = 100_000  # maximum number of rows kept in memory

_COPIED_AT_ONCE = 1 << 16


class GrowingArray:
    """An array (columns, capacity), or (capacity,); :meth:`reserve` may make ``array`` another object."""

    def __init__(self, dtype: DTypeLike, columns: int | None = None, capacity: int = 1024) -> None:
        self._dtype = np.dtype(dtype)
        self._columns = columns
        self.array: NDArray[Any] = np.empty(self._shape(capacity), self._dtype)

    @property
    def capacity(self) -> int:
        """Number of rows that fit without growth."""
        return int(self.array.shape[-1])

    def reserve(self, needed: int, used: int) -> None:
        """Ensure capacity for ``needed`` rows, keeping the first ``used``; OutputError for a full disk."""
        if needed <= self.capacity:
            return
        shape = self._shape(max(needed, 2 * self.capacity))
        grown = np.empty(shape, self._dtype) if needed <= HELD_ROWS else _in_file(shape, self._dtype)
        for at in range(0, used, _COPIED_AT_ONCE):
            rows = slice(at, min(at + _COPIED_AT_ONCE, used))
            grown[..., rows] = self.array[..., rows]
            let_go(grown, self.array)
        self.array = grown

    def _shape(self, capacity: int) -> tuple[int, ...]:
        return (capacity,) if self._columns is None else (self._columns, capacity)


class GrowingTimes:
    """A growing column of times [s]."""

    def __init__(self) -> None:
        self._latest = array("d")
        self._earlier = GrowingArray(np.float64)
        self._n_earlier = 0
        self.append = self._latest.append

    def __len__(self) -> int:
        return self._n_earlier + len(self._latest)

    def settle(self) -> None:
        """Append the latest times to the column; called at intervals to save memory."""
        total = len(self)
        self._earlier.reserve(total, self._n_earlier)
        self._earlier.array[self._n_earlier : total] = self._latest
        self._n_earlier = total
        del self._latest[:]
        let_go(self._earlier.array)

    def values(self) -> NDArray[np.float64]:
        """Return all times so far, in order."""
        self.settle()
        seconds: NDArray[np.float64] = self._earlier.array[: self._n_earlier]
        return seconds


def zeros(rows: int) -> NDArray[np.float64]:
    """Return a column of zeros: in memory, or in a file if they are many."""
    return np.zeros(rows) if rows <= HELD_ROWS else _in_file((rows,), np.dtype(np.float64))


def column(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array to be filled in, with this number of rows: in memory, or in a file if they are many."""
    return np.empty(shape, dtype) if shape[0] <= HELD_ROWS else _in_file(shape, np.dtype(dtype))


def let_go(*arrays: NDArray[Any]) -> None:
    """Release the memory of arrays that are kept in files; their content stays."""
    for values in arrays:
        mapped = _mapping_of(values)
        if mapped is not None and hasattr(mapped, "madvise"):
            mapped.madvise(mmap.MADV_DONTNEED)


def _mapping_of(values: Any) -> mmap.mmap | None:
    while isinstance(values, np.ndarray):
        values = values.base
    if isinstance(values, memoryview):
        values = values.obj
    return values if isinstance(values, mmap.mmap) else None


def _in_file(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    size = int(np.prod(shape)) * dtype.itemsize
    try:
        with tempfile.TemporaryFile(prefix="mlsim-") as file:
            # Writing through the mapping into a file that has no room would end the process.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            mapped = mmap.mmap(file.fileno(), size)
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(
            f"{tempfile.gettempdir()}: no room for {size / 1e6:.0f} MB of intermediate results: {reason}; "
            "set TMPDIR to a directory with more"
        ) from error
    return np.frombuffer(mapped, dtype).reshape(shape)
