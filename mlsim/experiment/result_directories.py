"""Directories of results: reserved before the simulation starts, and complete or absent."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from tempfile import gettempdir

from mlsim._runtime.places import unfinished
from mlsim.errors import InputError, OutputError, StoppedError
from mlsim.experiment.manifest import Owner, write_manifest


def are_there() -> bool:
    """Whether this system has file locks of POSIX; Windows has not."""
    return importlib.util.find_spec("fcntl") is not None


def take(descriptor: int, *, shared: bool = False) -> None:
    """Lock an open file without waiting.

    Raise OSError EWOULDBLOCK if another process has the lock, else ENOTSUP.
    """
    if not are_there():
        raise OSError(errno.ENOTSUP, "no locks of files here")
    import fcntl

    fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


_ADVICE = "Nothing was kept; free some space or give --out elsewhere."
_LONGEST_STEM = 140
"""Bytes; file systems take names of 255, and an owner has 90."""
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)
_TRIES = 200
_BETWEEN_TRIES = 0.01
_OLD = 86_400.0
"""Seconds after which left-overs of processes on other machines are reported."""

_log = logging.getLogger("mlsim")


class KeptError(OutputError):
    """The results are kept, but not all as requested; the message names the place and what is missing."""


@dataclass(frozen=True, slots=True)
class NextFree:
    """The first of ``name-001``, ``name-002`` ... in ``parent`` that is free and not being written."""

    parent: Path
    name: str

    def numbered(self) -> Iterator[Path]:
        """Return the paths, in order."""
        return (self.parent / f"{self.name}-{number:03d}" for number in count(1))


class Place:
    """A directory that results are being written to.

    Attributes
    ----------
    partial
        The hidden directory to write to.
    directory
        The intended name; after :meth:`keep` the final name.
    missing
        Files that could not be written, with the reason, by path in the directory.
    """

    def __init__(self, out: Path | NextFree, directory: Path, partial: Path, made: list[Path]) -> None:
        self.directory = directory
        self.missing: dict[str, str] = {}
        self._out = out
        self._made = made
        self._kept = False
        self._here = Path.cwd()
        """The current directory: user code may change it."""
        self.partial = self._here / partial

    @contextmanager
    def extra(self, path: Path) -> Iterator[Path]:
        """Write an optional file, such as a picture; if that fails, all other files are kept."""
        try:
            yield path
        except (StoppedError, KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # also panics of compiled libraries
            _remove(path)
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            kind = "" if isinstance(error, OSError | OutputError) else f"{type(error).__name__}: "
            self.missing[path.relative_to(self.partial).as_posix()] = kind + reason

    def keep(self, *, manifest: bool = True) -> None:
        """Rename the finished directory to its final name, by default with checksums of its files.

        Raises KeptError if the name is taken meanwhile, so that the directory gets another one, or if a file
        is missing; OSError if it cannot be written.
        """
        if manifest:
            write_manifest(self.partial)
        wanted = self.directory
        self.directory = self._take_name()
        self._kept = True
        problems = []
        if self.directory != wanted and isinstance(self._out, Path):
            problems.append(f"{wanted}: appeared while the run was going on, and is left as it is")
        for name, why in self.missing.items():
            reason = why.replace(str(self.partial), str(self.directory))
            problems.append(f"{self.directory / name}: cannot be written: {reason}")
        if problems:
            rest = "All else is" if self.missing else "The results are"
            raise KeptError(f"{'; '.join(problems)}. {rest} in {self.directory}")

    def _take_name(self) -> Path:
        out = self._out
        others = out if isinstance(out, NextFree) else NextFree(out.parent, out.name)
        names = chain([self.directory], others.numbered())
        return next(path for path in names if _renamed(self.partial, self._here / path))

    def discard(self) -> None:
        """Remove what was written, unless it is kept."""
        if not self._kept:
            shutil.rmtree(self.partial, ignore_errors=True)
            _remove_empty([self._here / directory for directory in self._made])


def _renamed(partial: Path, path: Path) -> bool:
    """Rename a directory; return whether the name was free."""
    if os.path.lexists(path):
        return False
    try:
        partial.rename(path)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def reserved(out: str | Path | NextFree, *, done: bool = False) -> Iterator[Place]:
    """Reserve a directory while the block runs; it is removed afterwards unless the block keeps it.

    Raises InputError if the directory exists, another process is writing it, or it cannot be written; see
    :func:`complete_or_gone`.
    """
    place = _reserve(out if isinstance(out, NextFree) else Path(out), done)
    try:
        with unfinished(place.partial):
            yield place
    finally:
        place.discard()


@contextmanager
def complete_or_gone(out: str | Path | NextFree, *, done: bool = False) -> Iterator[Place]:
    """Reserve a directory, and keep it if the block succeeds.

    With ``done`` the simulation has been done already, so that an existing directory is no reason to lose it.
    Raises OutputError if it cannot be written; nothing is left then, unless the message names a place.
    """
    with reserved(out, done=done) as place, writing(place.directory, place.partial):
        yield place
        place.keep()


def write_and_keep(place: Place, write: Callable[[Place], None]) -> None:
    """Write and keep finished results; if that fails, in the directory of temporary files.

    ``write`` writes everything into the given place; it may be called twice. Raises OutputError if not all
    could be written there; the message lists what is kept, and where.
    """
    try:
        with writing(place.directory, place.partial):
            write(place)
            place.keep()
    except KeptError:
        raise
    except OutputError as error:
        place.discard()
        kept = _written_elsewhere(NextFree(Path(gettempdir()), place.directory.name), write)
        if not kept:
            raise
        raise KeptError(f"{str(error).removesuffix(_ADVICE).rstrip()} {kept}") from error


def _written_elsewhere(out: NextFree, write: Callable[[Place], None]) -> str:
    """Write and keep results in another place; return a sentence that names it, "" if that fails too."""
    try:
        with complete_or_gone(out) as place:
            write(place)
    except KeptError as error:
        return str(error)
    except (InputError, OutputError):
        return ""
    return f"The results are in {place.directory}"


@contextmanager
def writing(directory: Path, partial: Path | None = None) -> Iterator[None]:
    """Raise failures to write as errors that state that nothing was kept and name the intended directory."""
    try:
        yield
    except KeptError:
        raise
    except OutputError as error:
        said = str(error) if partial is None else str(error).replace(str(partial), str(directory))
        raise OutputError(f"{said}. {_ADVICE}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{directory}: results cannot be written: {reason}. {_ADVICE}") from error


def check_target(directory: Path) -> None:
    """Refuse, before any work is done, a directory that results cannot be written to."""
    try:
        is_taken = directory.exists() or directory.is_symlink()
    except (OSError, ValueError) as error:
        raise _cannot_be(directory, error) from error
    if is_taken:
        raise InputError(
            f"{directory}: already exists; a run never overwrites anything. "
            "Give another --out, or move it away."
        )
    _check_parent(directory)


def _check_parent(directory: Path) -> None:
    """Refuse a directory that cannot be made where it is to be, whether it is there or not."""
    try:
        parent = _first_existing(directory.parent)
        is_directory = parent.is_dir()
    except (OSError, ValueError) as error:
        raise _cannot_be(directory, error) from error
    if not is_directory:
        raise InputError(f"{directory}: {parent} is not a directory. Give another --out.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{directory}: no permission to write in {parent}. Give another --out.")


def _cannot_be(directory: Path, error: OSError | ValueError) -> InputError:
    reason = getattr(error, "strerror", None) or error
    return InputError(f"{str(directory)[:200]!r}: {reason}. Give another --out.")


def _first_existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _reserve(out: Path | NextFree, done: bool) -> Place:
    if not done and isinstance(out, Path):
        check_target(out)
    elif not done and isinstance(out, NextFree):
        _check_parent(next(out.numbered()))  # whether a number is free is only known when it is reserved
    made: list[Path] = []
    for tries in count(1):
        try:
            made += _make_parents(out.parent)
            with _alone_in(out.parent):
                _clear(out)
                return Place(out, *_begin(out, done), made)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and tries < _TRIES:
                continue  # the process that had made the parent has removed it again
            _remove_empty(made)
            reason = error.strerror or error
            where = f"{out.parent / out.name}: nothing can be written there: {reason}"
            raise OutputError(f"{where}. {_ADVICE if done else 'Give another --out.'}") from error
    raise AssertionError("tries end")


def _remove_empty(directories: list[Path]) -> None:
    """Remove directories that were made and are still empty."""
    for directory in reversed(directories):
        with suppress(OSError):
            directory.rmdir()


def _make_parents(path: Path) -> list[Path]:
    """Make directories that are missing; return those that were made."""
    missing = [parent for parent in (path, *path.parents) if not parent.exists()]
    path.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Keep other processes of this machine from choosing a name in the directory at the same time.

    Where the file system knows no such locks, or the lock is never released, names are chosen without.
    Two processes may then choose the same one; the one that ends last takes the next.
    """
    if not are_there():
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        for _ in range(_TRIES):
            try:
                take(descriptor)
                break
            except BlockingIOError:
                time.sleep(_BETWEEN_TRIES)
            except OSError:
                break
        yield
    finally:
        os.close(descriptor)


def _begin(out: Path | NextFree, done: bool) -> tuple[Path, Path]:
    """Make the directory to write in; return it and its final name."""
    hidden = _hidden(out.parent)
    for path, stem in _candidates(out):
        writers = [owner for _, owner in hidden.get(stem, ())]
        if isinstance(out, NextFree) and (writers or os.path.lexists(path)):
            continue
        for owner in writers:
            if owner is not None and owner.lives() and not done:
                raise InputError(
                    f"{path}: process {owner.pid} is writing it at the moment. Give another --out, or wait."
                )
        partial = path.with_name(f".{stem}.{Owner.this_process().token}.partial")
        partial.mkdir()
        return path, partial
    raise AssertionError("numbers do not end")


def _candidates(out: Path | NextFree) -> Iterator[tuple[Path, str]]:
    """Yield the names that a directory may get, in order, each with its part of a hidden name."""
    if isinstance(out, Path):
        yield out, _short(out.name)
        return
    for number, path in enumerate(out.numbered(), start=1):
        yield path, f"{_short(out.name)}-{number:03d}"


def _short(name: str) -> str:
    """Shorten a name so that a hidden one with an owner is not too long for a file system."""
    data = os.fsencode(name)
    if len(data) <= _LONGEST_STEM:
        return name
    mark = hashlib.blake2b(data, digest_size=8).hexdigest()
    return os.fsdecode(data[: _LONGEST_STEM - len(mark) - 1]) + "~" + mark


def _hidden(parent: Path) -> dict[str, list[tuple[Path, Owner | None]]]:
    """Find what is being written in a directory, or was left over; None: the writer is unknown."""
    found: dict[str, list[tuple[Path, Owner | None]]] = {}
    for name in sorted(os.listdir(parent)):
        match = re.fullmatch(r"\.(.+)\.([^.]+)\.partial", name, flags=re.DOTALL)
        if match:
            found.setdefault(match[1], []).append((parent / name, Owner.of_token(match[2])))
    return found


def _clear(out: Path | NextFree) -> None:
    """Remove and report leftovers of processes that have ended; of others report only old ones."""
    pattern = re.escape(_short(out.name)) + (r"-\d{3,}" if isinstance(out, NextFree) else "")
    for stem, found in _hidden(out.parent).items():
        if re.fullmatch(pattern, stem):
            for path, owner in found:
                _clear_one(path, owner)


def _clear_one(path: Path, owner: Owner | None) -> None:
    lives = None if owner is None else owner.lives()
    who = "an unknown process" if owner is None else f"process {owner.pid} on {owner.host}"
    if lives is False:
        shutil.rmtree(path, ignore_errors=True)
        fate = "cannot be removed" if path.exists() else "removed"
        _log.warning("%s: left over by %s, which ended without finishing it; %s", path, who, fate)
    elif lives is None and _age(path) > _OLD:
        _log.warning(
            "%s: may be left over by %s, of which nothing can be told from here; remove it if nobody writes "
            "it any more",
            path,
            who,
        )


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
