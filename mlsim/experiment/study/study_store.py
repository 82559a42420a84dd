"""The store of a study, and the lock on it."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mlsim._files import read_bytes
from mlsim.errors import InputError, OutputError, StoppedError
from mlsim.experiment import result_directories
from mlsim.experiment.manifest import Owner, json_text, write_manifest

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

STORE_VERSION = 1
KEEP = ("summary", "tables", "all")
"""Levels of stored results of a run, from least to most."""

_INNER = "store"
_MARK = "store.json"
_WRITTEN = "results.json"
_log = logging.getLogger("mlsim")

Content = dict[str, Any]


class Entries(Protocol):
    """Results of runs, by digest."""

    def get(self, key: str) -> Content | None:
        """Return an entry; None if there is none."""

    def put(self, key: str, content: Content) -> None:
        """Keep an entry."""


class Memory:
    """Entries for as long as the process lasts."""

    def __init__(self) -> None:
        self._entries: dict[str, Content] = {}

    def get(self, key: str) -> Content | None:
        """Return an entry; None if there is none."""
        return self._entries.get(key)

    def put(self, key: str, content: Content) -> None:
        """Keep an entry."""
        self._entries[key] = content


class Store:
    """Entries in the directory of a study's results; see :meth:`open`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._entries = directory / _INNER

    @classmethod
    def open(cls, directory: Path, name: str, kind: str) -> Store:
        """Create a store, or resume one.

        Raises InputError if the directory has other content, or the store of another study or version;
        OutputError if it cannot be written.
        """
        check_store(directory, name, kind)
        store = cls(directory)
        try:
            store._entries.mkdir(parents=True, exist_ok=True)
            mark = {"store_version": STORE_VERSION, "name": name, "of": kind}
            if not store.inner(_MARK).exists():
                write_whole(store.inner(_MARK), json_text(mark).encode())
        except OSError as error:
            raise disk_error(directory, error) from error
        return store

    def get(self, key: str) -> Content | None:
        """Return an entry; None if there is none, or if it is damaged, with a warning."""
        path = self.path(key, ".json")
        if not os.path.lexists(path):
            return None
        data = read_bytes(path, "result")
        checksum, _, text = data.partition(b"\n")
        if checksum.decode("ascii", "replace") != _checksum(text):
            _log.warning("%s: is damaged or was cut short; the run is done again", path)
            path.unlink(missing_ok=True)
            return None
        content: Content = json.loads(text)
        if any(not self.beside(key, name).exists() for name in content.get("files", ())):
            _log.warning("%s: lacks files that belong to it; the run is done again", path)
            return None
        return content

    def put(self, key: str, content: Content) -> None:
        """Store an entry; raise OSError, with nothing left of it, if that fails."""
        text = json.dumps(content, separators=(",", ":")).encode()
        path, data = self.path(key, ".json"), _checksum(text).encode() + b"\n" + text
        try:
            write_whole(path, data)
        except FileNotFoundError:  # the first entry of its directory
            path.parent.mkdir(exist_ok=True)
            write_whole(path, data)

    def inner(self, name: str) -> Path:
        """Return the path of a file about the store itself."""
        return self._entries / name

    def path(self, key: str, suffix: str) -> Path:
        """Return the path of a file of a run."""
        return self._entries.joinpath(key[:2], f"{key[2:]}{suffix}")

    def beside(self, key: str, name: str) -> Path:
        """Return the path of a further file of a run, or of its directory (``run``)."""
        return self.path(key, f".{name}")

    def clear_unfinished(self) -> None:
        """Remove partial files of killed processes; no other process may be writing."""
        for path in chain(
            self.directory.glob(".*.part*"), self._entries.glob(".*.part"), self._entries.glob("*/.*.part*")
        ):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def is_store(directory: Path) -> bool:
    """Whether a directory has the store of a study."""
    return (directory / _INNER / _MARK).is_file()


def check_store(directory: Path, name: str, kind: str) -> None:
    """Refuse an existing directory that is no store of this study."""
    mark = directory / _INNER / _MARK
    try:
        if not os.path.lexists(directory) or (directory.is_dir() and not any(directory.iterdir())):
            return
        found = json.loads(read_bytes(mark))
        version, there, of = found["store_version"], found["name"], found["of"]
    except (InputError, OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{directory}: already exists, and is no store of a study ({_INNER}/{_MARK} cannot be read in "
            "it). Give another --out, or move it away."
        ) from error
    if version != STORE_VERSION:
        raise InputError(
            f"{directory}: is a store of version {version!r:.20}, and this mlsim has version "
            f"{STORE_VERSION}. Give another --out, or use the mlsim that wrote it."
        )
    if (there, of) != (name, kind):
        raise InputError(
            f"{directory}: has the results of another study: {there!r:.100}, of {of!r:.20}; this one is "
            f"{name!r}, of {kind!r}. Give another --out."
        )


def covers(content: Mapping[str, Any] | None, keep: str, output: str, shows: Mapping[str, str]) -> bool:
    """Whether an entry has everything that is wanted of a run: ``keep``, ``shows``, or its failure.

    ``output`` is the digest of the output-only keys, on which only a whole run directory depends.
    """
    if content is None:
        return False
    if content["status"] != "done":
        return True
    kept = content["keep"]
    enough = KEEP.index(kept) >= KEEP.index(keep) and (keep != "all" or content["output"] == output)
    return enough and shows.items() <= content["shows"].items()


def beside_name(name: str) -> str:
    """Return the name of a picture's file in the store, short enough for any file system."""
    return f"{hashlib.sha256(name.encode()).hexdigest()[:12]}{os.path.splitext(name)[1]}"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under another name and rename it, so that it is complete or as before.

    Raise OSError if not.
    """
    directory, name = os.path.split(path)
    part = os.path.join(directory, f".{name}.{os.getpid()}.part")
    try:
        with open(part, "wb", buffering=0) as file:
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def disk_error(directory: Path, error: OSError) -> OutputError:
    """Return the error that a store cannot be written, and that nothing finished is lost."""
    reason = error.strerror or str(error)
    advice = "Free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "See to that"
    return OutputError(
        f"{directory}: cannot be written: {reason}. All runs that were finished are kept there. "
        f"{advice}, and start the study again: it goes on where it ended."
    )


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Results:
    """The files of a study's results, beside its store.

    ``missing`` has pictures that failed, with the reason.
    """

    def __init__(self, store: Store, formats: Sequence[str] = ("png",)) -> None:
        self.store = store
        self._formats = formats
        self.directory = store.directory
        self.missing: dict[str, str] = {}
        self._names: list[str] = []

    def text(self, name: str, text: str) -> None:
        """Write a text."""
        self._names.append(name)
        write_whole(self.directory / name, text.encode())

    def data(self, name: str, data: bytes) -> None:
        """Write bytes."""
        self._names.append(name)
        write_whole(self.directory / name, data)

    def table(self, name: str, frame: pl.DataFrame) -> None:
        """Write a table as CSV or Parquet, by the suffix."""
        part = self._part(name)
        try:
            if name.endswith(".csv"):
                frame.write_csv(part)
            else:
                frame.write_parquet(part)
            self._take(part, name)
        finally:
            part.unlink(missing_ok=True)

    def picture(self, name: str, figure: Figure) -> None:
        """Write a picture in all formats; a failure is noted, and the rest is written."""
        for suffix in self._formats:
            self._picture(f"{name}.{suffix}", figure)

    def _picture(self, name: str, figure: Figure) -> None:
        from mlsim.analysis.plots import write_picture

        part = self._part(name)
        try:
            write_picture(figure, part)
            self._take(part, name)
        except (StoppedError, KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.missing[name] = reason
        finally:
            part.unlink(missing_ok=True)

    def finish(self) -> None:
        """Remove files of an earlier version of the study, and write checksums."""
        memory = self.store.inner(_WRITTEN)
        try:
            earlier = json.loads(read_bytes(memory))
        except (InputError, ValueError):
            earlier = []
        for name in set(earlier) - set(self._names):
            with suppress(OSError):
                (self.directory / name).unlink()
        write_whole(memory, json.dumps(sorted(self._names)).encode())
        write_manifest(self.directory)

    def _part(self, name: str) -> Path:
        return self.directory / f".{os.getpid()}.part{Path(name).suffix}"

    def _take(self, part: Path, name: str) -> None:
        part.replace(self.directory / name)
        self._names.append(name)


_FILE = "lock"


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Prevent other processes from running the same study while the block runs.

    The lock is that of the file system, which ends with the process. On one without locks, the process that
    the file names is looked for; on another machine it cannot be found, and does not block. Raises InputError
    if another process runs the study, OutputError if the lock cannot be written.
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
        result_directories.take(descriptor)
        return
    except OSError as error:
        knows_locks = error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
    owner = Owner.of_token(os.read(descriptor, 1000).decode("ascii", "replace"))
    if knows_locks or (owner is not None and owner.lives()):
        raise InputError(
            f"{directory}: {_name(owner)} is running this study. "
            f"`mlsim study status {directory}` shows how far it is; wait for it, or give another --out."
        )


def _name(owner: Owner | None) -> str:
    return "another process" if owner is None else f"process {owner.pid} on {owner.host}"


def holder(store: Store) -> str:
    """Return the name of the process that runs a study; "" without one."""
    try:
        descriptor = os.open(store.inner(_FILE), os.O_RDONLY)
    except OSError:
        return ""
    try:
        owner = Owner.of_token(os.read(descriptor, 1000).decode("ascii", "replace"))
        try:
            result_directories.take(descriptor, shared=True)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
                return _name(owner)
            return _name(owner) if owner is not None and owner.lives() else ""
        return ""
    finally:
        os.close(descriptor)
