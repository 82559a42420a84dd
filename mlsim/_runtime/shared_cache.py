"""A cache of logs, costs and loops that the runs of a study in one process share.

Nothing is kept outside of :func:`sharing`, so that a single run holds no more than it takes. The memory is
bounded; the least recently used object is dropped first. Kept objects are read-only.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

import numpy as np

MOST_BYTES = 1_256_000_000  # Bytes of all that is kept in a process

Kept = TypeVar("Kept")

_kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
_lock = RLock()
_depth = 0


@contextmanager
def sharing() -> Iterator[None]:
    """Cache shared objects while the block runs; :func:`forget` empties the cache."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def is_sharing() -> bool:
    """Return whether anything is kept at the moment."""
    return _depth > 0


def shared(key: Hashable, make: Callable[[], tuple[Kept, int]]) -> Kept:
    """Return the object kept under a key; ``make`` returns a new one with its size in bytes."""
    with _lock:
        if _depth == 0:
            return make()[0]
        if key in _kept:
            _kept.move_to_end(key)
            found: Kept = _kept[key][0]
            return found
        made, size = make()
        if size <= MOST_BYTES:
            _kept[key] = made, size
            while sum(bytes_of for _, bytes_of in _kept.values()) > MOST_BYTES:
                _kept.popitem(last=False)
        return made


def forget() -> None:
    """Empty the cache."""
    with _lock:
        _kept.clear()


def file_identity(path: Path) -> tuple[Hashable, ...] | None:
    """Identity key of a file (device, inode, size, times); None if it cannot be read."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return str(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def bytes_of(value: Any) -> int:
    """Return the bytes of the arrays in an array, a record of arrays, or a mapping to arrays."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_dataclass(value):
        return sum(bytes_of(getattr(value, column.name)) for column in fields(value))
    return sum(map(bytes_of, value.values())) if isinstance(value, Mapping) else 0
