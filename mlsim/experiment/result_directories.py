"""Directories of results: reserved before the simulation starts, and complete or absent."""

import errno
import hashlib
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


def take(descriptor: int, *, shared: bool = False) -> None:
    """Lock an open file without waiting; raise EWOULDBLOCK if another process has the lock, else ENOTSUP."""
    try:
        import fcntl
    except ImportError as error:  # Windows has no locks of POSIX
        raise OSError(errno.ENOTSUP, "no locks of files here") from error
    fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


_ADVICE = "Nothing was kept; free some space or give --out elsewhere."
_LONGEST_STEM = 140  # Bytes; file systems take names of 255, and an owner has 90
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)
_TRIES = 200
_BETWEEN_TRIES = 0.01
_OLD = 86_400.0  # Seconds after which left-overs of processes on other machines are reported

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
    """A directory that results are being written to."""

    def __init__(self, out: Path | NextFree, directory: Path, partial: Path, made: list[Path]) -> None:
        self._out, self._made = out, made
        self._here = Path.cwd()  # user code may change it
        self._kept = False
        self.directory = directory  # the intended name; after `keep` the final name
        self.partial = self._here / partial  # the hidden directory to write to
        self.missing: dict[str, str] = {}  # files that could not be written, with the reason

    @contextmanager
    def extra(self, path: Path) -> Iterator[Path]:
        """Write an optional file, such as a picture; if that fails, all other files are kept."""
        try:
            yield path
        except (StoppedError, KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # also panics of compiled libraries
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            kind = "" if isinstance(error, OSError | OutputError) else f"{type(error).__name__}: "
            self.missing[path.relative_to(self.partial).as_posix()] = kind + reason

    def keep(self, *, manifest: bool = True) -> None:
        """Rename the finished directory to its final name (if that is taken, another: KeptError)."""
        if manifest:
            write_manifest(self.partial)
        wanted = self.directory
        others = self._out if isinstance(self._out, NextFree) else NextFree(wanted.parent, self._out.name)
        names = chain([wanted], others.numbered())
        self.directory = next(path for path in names if _renamed(self.partial, self._here / path))
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


@contextmanager
def reserved(out: str | Path | NextFree, *, done: bool = False) -> Iterator[Place]:
    """Reserve a directory while the block runs; it is removed afterwards unless the block keeps it."""
    place = _reserve(out if isinstance(out, NextFree) else Path(out), done)
    try:
        with unfinished(place.partial):
            yield place
    finally:
        place.discard()


@contextmanager
def complete_or_gone(out: str | Path | NextFree, *, done: bool = False) -> Iterator[Place]:
    """Reserve a directory, and keep it if the block succeeds; with ``done`` an existing one loses nothing."""
    with reserved(out, done=done) as place, writing(place.directory, place.partial):
        yield place
        place.keep()


def write_and_keep(place: Place, write: Callable[[Place], None]) -> None:
    """Write and keep finished results, in the directory of temporary files if all else fails."""
    try:
        with writing(place.directory, place.partial):
            write(place)
            place.keep()
    except KeptError:
        raise
    except OutputError as error:
        place.discard()
        try:
            with complete_or_gone(NextFree(Path(gettempdir()), place.directory.name)) as other:
                write(other)
            kept = f"The results are in {other.directory}"
        except KeptError as problem:
            kept = str(problem)
        except (InputError, OutputError):
            kept = ""
        if not kept:
            raise
        raise KeptError(f"{str(error).removesuffix(_ADVICE).rstrip()} {kept}") from error


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


def check_target(directory: Path, *, free: bool = True) -> None:
    """Refuse, before any work is done, a directory that cannot be made, or that exists (``free``)."""
    try:
        is_taken = free and (directory.exists() or directory.is_symlink())
        parent = directory.parent
        while not parent.exists():
            parent = parent.parent
        is_directory = parent.is_dir()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{str(directory)[:200]!r}: {reason}. Give another --out.") from error
    if is_taken:
        raise InputError(
            f"{directory}: already exists; a run never overwrites anything. "
            "Give another --out, or move it away."
        )
    if not is_directory:
        raise InputError(f"{directory}: {parent} is not a directory. Give another --out.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{directory}: no permission to write in {parent}. Give another --out.")


def _reserve(out: Path | NextFree, done: bool) -> Place:
    if not done:
        numbered = isinstance(out, NextFree)  # whether a number is free is only known when it is reserved
        check_target(next(path for path, _ in _candidates(out)), free=not numbered)
    made: list[Path] = []
    for left in reversed(range(_TRIES)):
        try:
            parents = (out.parent, *out.parent.parents)
            missing = [parent for parent in parents if not parent.exists()]
            out.parent.mkdir(parents=True, exist_ok=True)
            made += missing[::-1]
            with _alone_in(out.parent):
                _clear(out)
                return Place(out, *_begin(out, done), made)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and left:
                continue  # the process that had made the parent has removed it again
            _remove_empty(made)
            reason = error.strerror or error
            where = f"{out.parent / out.name}: nothing can be written there: {reason}"
            raise OutputError(f"{where}. {_ADVICE if done else 'Give another --out.'}") from error
    raise AssertionError("tries end")


def _remove_empty(directories: list[Path]) -> None:
    for directory in reversed(directories):
        with suppress(OSError):
            directory.rmdir()


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Keep other processes of this machine from choosing a name in the directory at the same time.

    Without such locks, two processes may choose the same one; the one that ends last takes the next.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except PermissionError:  # Windows opens no directories
        yield
        return
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
    hidden = _hidden(out.parent)
    for path, owner in (one for stem in hidden if re.fullmatch(pattern, stem) for one in hidden[stem]):
        lives = None if owner is None else owner.lives()
        who = "an unknown process" if owner is None else f"process {owner.pid} on {owner.host}"
        if lives is False:
            shutil.rmtree(path, ignore_errors=True)
            fate = "cannot be removed" if path.exists() else "removed"
            _log.warning("%s: left over by %s, which ended without finishing it; %s", path, who, fate)
        elif lives is None:
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _OLD:
                    _log.warning(
                        "%s: may be left over by %s, of which nothing can be told from here; remove it if "
                        "nobody writes it any more",
                        path,
                        who,
                    )
