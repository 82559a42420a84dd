"""Locks of the file system, which end with the process that holds them."""

from __future__ import annotations

import errno
import importlib.util

__all__ = ["are_there", "take"]


def are_there() -> bool:
    """Whether this system has them: Windows has others."""
    return importlib.util.find_spec("fcntl") is not None


def take(descriptor: int, *, shared: bool = False) -> None:
    """Take the lock of an open file at once.

    Raises
    ------
    OSError
        If another process has it (EWOULDBLOCK), or there are no such locks here (ENOTSUP).
    """
    if not are_there():
        raise OSError(errno.ENOTSUP, "no locks of files here")
    import fcntl

    fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
