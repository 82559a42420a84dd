"""The store of a study, the lock on it, and the files of its results."""

import errno
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, Self

from mlsim._files import read_bytes
from mlsim.errors import InputError, OutputError, StoppedError
from mlsim.experiment import manifest, result_directories
from mlsim.experiment.study.study_file import KEEP

STORE_VERSION = 1
_INNER = "store"
_MARK = "store.json"
_WRITTEN = "results.json"
_LOCK = "lock"
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)  # another process has the lock
_log = logging.getLogger("mlsim")

Content = dict[str, Any]


class Entries(Protocol):
    """Results of runs, by digest."""

    def get(self, key: str, /) -> Content | None:
        """Return an entry; None if there is none."""

    def put(self, key: str, content: Content, /) -> None:
        """Keep an entry."""


class Memory(dict[str, Content]):
    """Entries for as long as the process lasts."""

    put = dict.__setitem__


class Store:
    """Entries in the directory of a study's results; see :meth:`open`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._entries = directory / _INNER

    @classmethod
    def open(cls, directory: Path, name: str, kind: str) -> Self:
        """Create a store, or resume one; refuse a directory that is something else."""
        check_store(directory, name, kind)
        store = cls(directory)
        try:
            store._entries.mkdir(parents=True, exist_ok=True)
            mark = {"store_version": STORE_VERSION, "name": name, "of": kind}
            if not store.inner(_MARK).exists():
                write_whole(store.inner(_MARK), manifest.json_text(mark).encode())
        except OSError as error:
            raise disk_error(directory, error) from error
        return store

    def get(self, key: str) -> Content | None:
        """Return an entry; None if there is none, or if it is damaged, with a warning."""
        path = self.beside(key, "json")
        if not os.path.lexists(path):
            return None
        checksum, _, text = read_bytes(path, "result").partition(b"\n")
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
        path, data = self.beside(key, "json"), _checksum(text).encode() + b"\n" + text
        try:
            write_whole(path, data)
        except FileNotFoundError:  # the first entry of its directory
            path.parent.mkdir(exist_ok=True)
            write_whole(path, data)

    def inner(self, name: str) -> Path:
        """Return the path of a file about the store itself."""
        return self._entries / name

    def beside(self, key: str, name: str) -> Path:
        """Return the path of a run's entry (``json``), of a further file, or of its directory (``run``)."""
        return self._entries.joinpath(key[:2], f"{key[2:]}.{name}")

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
    """Whether an entry has all that is wanted of a run; only whole directories depend on ``output``."""
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
    """Write a file under another name and rename it, so that it is complete or as before."""
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
    """The files of a study's results, beside its store."""

    def __init__(self, store: Store, formats: Sequence[str] = ("png",)) -> None:
        self.store, self.directory = store, store.directory
        self.missing: dict[str, str] = {}  # pictures that failed, with the reason
        self._formats = formats
        self._names: list[str] = []

    def data(self, name: str, data: bytes | str) -> None:
        """Write bytes, or a text."""
        self._names.append(name)
        write_whole(self.directory / name, data.encode() if isinstance(data, str) else data)

    @contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """Yield the path to write a file to; it gets its name if the block succeeds."""
        part = self.directory / f".{os.getpid()}.part{Path(name).suffix}"
        try:
            yield part
            part.replace(self.directory / name)
            self._names.append(name)
        finally:
            part.unlink(missing_ok=True)

    def picture(self, stem: str, write: Callable[[Path], object]) -> None:
        """Write a picture in all formats; a failure is noted, and the rest is written."""
        for name in (f"{stem}.{suffix}" for suffix in self._formats):
            try:
                with self.file(name) as part:
                    write(part)
            except (StoppedError, KeyboardInterrupt, SystemExit):
                raise
            except Exception as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                self.missing[name] = reason

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
        manifest.write_manifest(self.directory)


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Prevent other processes from running the same study while the block runs.

    The lock ends with the process. On a file system without locks, the process that the file names is looked
    for; on another machine it cannot be found, and does not block.
    """
    directory = store.directory
    try:
        descriptor = os.open(store.inner(_LOCK), os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise disk_error(directory, error) from error
    try:
        other = _holder(descriptor, shared=False)
        if other:
            raise InputError(
                f"{directory}: {other} is running this study. "
                f"`mlsim study status {directory}` shows how far it is; wait for it, or give another --out."
            )
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, manifest.Owner.this_process().token.encode())
        yield
    finally:
        os.close(descriptor)


def holder(store: Store) -> str:
    """Return the name of the process that runs a study; "" without one."""
    try:
        descriptor = os.open(store.inner(_LOCK), os.O_RDONLY)
    except OSError:
        return ""
    try:
        return _holder(descriptor, shared=True)
    finally:
        os.close(descriptor)


def _holder(descriptor: int, *, shared: bool) -> str:
    """Acquire the lock if no other process has it; return the name of the one that has, else ""."""
    try:
        result_directories.take(descriptor, shared=shared)
        return ""
    except OSError as error:
        knows_locks = error.errno in _BUSY
    owner = manifest.Owner.of_token(os.read(descriptor, 1000).decode("ascii", "replace"))
    if not knows_locks and not (owner is not None and owner.lives()):
        return ""
    return "another process" if owner is None else f"process {owner.pid} on {owner.host}"
