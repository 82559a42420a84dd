"""A file that is there for as long as an object refers to it."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

__all__ = ["HeldFile", "place_of"]

_PREFIX = "mlsim-table-"


class HeldFile:
    """A name in a directory of its own, which is removed with the object, at the latest with the process.

    Parameters
    ----------
    name
        What the file is called.

    Attributes
    ----------
    path
        Where it is; whoever made the object writes it.
    """

    def __init__(self, name: str) -> None:
        directory = tempfile.mkdtemp(prefix=_PREFIX)
        self.path = Path(directory, name)
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)


def place_of(path: Path) -> str:
    """Return what messages call a file: its path, or the table in memory that it holds."""
    return "the table of jobs" if path.parent.name.startswith(_PREFIX) else str(path)
