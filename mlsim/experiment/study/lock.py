"""One process at a time does a study: a lock on its directory, which goes with the process that holds it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlsim.errors import InputError
from mlsim.experiment import locks
from mlsim.experiment.owner import Owner
from mlsim.experiment.study.store import Store, disk_error

__all__ = ["holder", "locked"]

_FILE = "lock"


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Keep other processes from doing the same study while the block runs.

    The lock is that of the file system, which ends with the process. On one without locks the process that
    the file names is looked for; on another machine it cannot be, and is not waited for.

    Raises
    ------
    InputError
        If another process is doing it.
    OutputError
        If the lock cannot be written.
    """
    directory, path = store.directory, store.inner(_FILE)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise disk_error(directory, error) from error
    try:
        _take(descriptor, directory)
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, Owner.this_process().token.encode())
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, directory: Path) -> None:
    try:
        locks.take(descriptor)
        return
    except OSError as error:
        knows_locks = error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
    owner = Owner.of_token(os.read(descriptor, 1000).decode("ascii", "replace"))
    if knows_locks or (owner is not None and owner.lives()):
        raise InputError(
            f"{directory}: {_name(owner)} is doing this study at the moment. "
            f"`mlsim study status {directory}` shows how far it is; wait for it, or give another --out."
        )


def _name(owner: Owner | None) -> str:
    return "another process" if owner is None else f"process {owner.pid} on {owner.host}"


def holder(store: Store) -> str:
    """Return the name of the process that is doing a study; "" if there is none."""
    try:
        descriptor = os.open(store.inner(_FILE), os.O_RDONLY)
    except OSError:
        return ""
    try:
        owner = Owner.of_token(os.read(descriptor, 1000).decode("ascii", "replace"))
        try:
            locks.take(descriptor, shared=True)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
                return _name(owner)
            return _name(owner) if owner is not None and owner.lives() else ""
        return ""
    finally:
        os.close(descriptor)
