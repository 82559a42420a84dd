"""Declaration of table columns, the closed sets behind columns of codes, and columns that grow."""

from __future__ import annotations

import mmap
import os
import tempfile
from array import array
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mlsim.errors import OutputError

if TYPE_CHECKING:
    from mlsim.record.record_tables import Records


Table = TypeVar("Table")


@dataclass(frozen=True, slots=True)
class Column:
    """Meaning of a table column, and its representation in files."""

    meaning: str  # in a phrase
    unit: str = ""
    file: str = ""  # its name in files; empty if it is the field's
    words: type[IntEnum] | None = None  # the closed set that its codes are of: files hold words
    job: bool = False  # holds rows of Jobs: files hold identifiers
    unknown: bool = False  # -1 marks a missing value, and files hold null; times use NaN, without this flag
    always: bool = False  # every row has a value, of times too
    after: str = ""  # the column of the file that it follows; empty: the one declared before it


@dataclass(frozen=True, slots=True)
class Stored:
    """A column that a table has."""

    field: str  # its name in the table
    column: Column  # what is declared of it
    dtype: np.dtype[Any] | None  # of its elements; None for text
    optional: bool  # a table may lack it

    @property
    def name(self) -> str:
        """Its name in files."""
        return self.column.file or self.field

    @property
    def unit(self) -> str:
        """Its unit."""
        return self.column.unit

    @property
    def meaning(self) -> str:
        """Meaning of the column."""
        return self.column.meaning

    @property
    def kind(self) -> str:
        """Type of its values in files, in words."""
        if self.column.words is not None:
            return ", ".join(words_of(self.column.words))
        return "text" if self.dtype is None else str(self.dtype)


@dataclass(frozen=True, slots=True)
class Derived:
    """A column of files that follows from others; name, kind, unit and meaning are as of :class:`Stored`."""

    name: str
    kind: str
    unit: str
    meaning: str
    after: str  # the column of the file that it follows; "" for the first
    # Of all records, and the technique of the run (None: no loops); None where a run has no such column.
    values: Callable[[Records, str | None], Any]


def stored_columns(table: type[Any]) -> tuple[Stored, ...]:
    """Return the columns that a table declares, in their order."""
    if table not in _DECLARED:
        hints = get_type_hints(table, include_extras=True)
        declared = ((field.name, get_args(hints[field.name])) for field in fields(table))
        _DECLARED[table] = tuple(
            Stored(name, parts[1], _dtype(parts[0]), NoneType in get_args(parts[0]))
            for name, parts in declared
            if len(parts) == 2 and isinstance(parts[1], Column)
        )
    return _DECLARED[table]


_DECLARED: dict[type[Any], tuple[Stored, ...]] = {}


def _dtype(hint: Any) -> np.dtype[Any] | None:
    """Return the type of an array's elements from its type hint; None for a list of text."""
    dtype: np.dtype[Any] | None = None
    for part in get_args(hint) if NoneType in get_args(hint) else (hint,):
        # NumPy 2.5 declares NDArray as an alias of its own; until then it was ndarray[shape, dtype[scalar]].
        if get_origin(part) is NDArray:
            dtype = np.dtype(get_args(part)[0])
        elif get_origin(part) is np.ndarray:
            dtype = np.dtype(get_args(get_args(part)[1])[0])
    return dtype


def words_of(codes: type[IntEnum]) -> list[str]:
    """Return the words of a closed set, in order of its codes."""
    return [member.name.lower().replace("_", "-") for member in codes]


def empty(table: type[Table]) -> Table:
    """Make a table of columns with no rows, without the columns that a table may lack."""
    return table(
        **{
            stored.field: [] if stored.dtype is None else np.empty(0, stored.dtype)
            for stored in stored_columns(table)
            if not stored.optional
        }
    )


class JobState(IntEnum):
    """Final state of a job."""

    COMPLETED = 0
    KILLED = 1
    REJECTED = 2
    FAILED = 3
    WITHDRAWN = 4  # left the queue before it started, as its user withdrew it in the log


class MessageKind(IntEnum):
    """Kind of a coordination message."""

    NODE_IDLE = 0
    JOB_COMPLETED = 1
    RELEASE_REQUEST = 2
    RELEASE_ACCEPTED = 3
    RELEASE_REJECTED = 4
    NODE_RETURNED = 5

    @property
    def from_batch(self) -> bool:
        """Whether the batch system sends it, and not the application."""
        return self in (MessageKind.RELEASE_REQUEST, MessageKind.NODE_RETURNED)


class OutageKind(IntEnum):
    """Why a node was out of use."""

    FAILED = 0
    DRAINED = 1
    ANNOUNCED_DRAIN = 2


class SolveStatus(IntEnum):
    """Solver status of the plan of a pass."""

    OPTIMAL = 0
    FEASIBLE = 1
    INFEASIBLE = 2
    UNKNOWN = 3
    EMPTY = 4


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
        return self._earlier.array[: self._n_earlier]


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
