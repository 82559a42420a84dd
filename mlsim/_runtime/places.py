"""Places on disk: the user's cache directory, and files that are being written."""

import os
import shutil
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def user_cache() -> Path | None:
    """Return the directory for mlsim in $XDG_CACHE_HOME or ~/.cache; None where no home is known."""
    place = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    found = os.path.expanduser(place)  # a container's user may have neither HOME nor an entry among users
    return Path(found, "mlsim") if os.path.isabs(found) else None


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
    """Remove files that are not finished, also under a further hidden name, and temporary files."""
    for path in list(_unfinished.values()):
        with suppress(OSError):
            for left in (path, *path.parent.glob(f".{path.name}.*")):
                if left.is_dir() and not left.is_symlink():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink(missing_ok=True)
    finalize: Any = weakref.finalize
    finalize._exitfunc()  # temporary directories, which only the end of the interpreter would remove
