"""Files and directories that are being written: what a process removes that has to end at once."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["remove_unfinished", "unfinished"]

_unfinished: dict[object, Path] = {}


@contextmanager
def unfinished(*paths: Path) -> Iterator[None]:
    """Note that files or directories of these hidden names are not finished while the block runs."""
    keys = [object() for _ in paths]
    _unfinished.update(zip(keys, paths, strict=True))
    try:
        yield
    finally:
        for key in keys:
            _unfinished.pop(key, None)


def remove_unfinished() -> None:
    """Remove all that is not finished, and temporary files, for the process ends now.

    A writer may have given a file one more hidden name, which begins with its own.
    """
    for path in list(_unfinished.values()):
        with suppress(OSError):
            for left in (path, *path.parent.glob(f".{path.name}.*")):
                if left.is_dir() and not left.is_symlink():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink(missing_ok=True)
    finalize: Any = weakref.finalize
    finalize._exitfunc()  # temporary directories, which only the end of the interpreter would remove
