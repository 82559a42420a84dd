"""Compiled kernels on disk, and kernels that are being compiled."""

import atexit
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mlsim._jit import kernel_library
from mlsim._jit.kernel_identity import digest_of
from mlsim._jit.mode import INTERPRETED, is_usual
from mlsim._runtime.places import user_cache

PATIENCE = 2.0
"""Total seconds of compilation that are not announced."""


class Announcer:
    """Announces once per process that kernels are being compiled, if it takes long; sums up the time spent.

    A command that needs one or two kernels gets them within a second, without an announcement. Longer
    compilation is announced while the compiler is still running, by a timer, as no other code runs then.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
    ) -> None:
        self.seconds = 0.0
        self.last = 0.0  # CPU seconds of the last kernel, with those that it calls
        self.seconds_left: Callable[[], float] = float  # of the run's kernels that are not on disk
        self.quiet = False
        self._clock, self._timer = clock, timer
        self._depth = 0
        self._began = self._cpu = 0.0
        self._told = False
        self._warned = False
        self._waiting: threading.Timer | None = None

    def begin(self) -> None:
        """Note that the compiler begins with a kernel, or with one that a kernel calls."""
        if self._depth == 0:
            self._began, self._cpu = self._clock(), time.process_time()
            if not self._told and not self.quiet:
                self._waiting = self._timer(max(PATIENCE - self.seconds, 0.0), self._tell)
                self._waiting.daemon = True
                self._waiting.start()
        self._depth += 1

    def end(self) -> None:
        """Note that it has ended."""
        self._depth -= 1
        if self._depth == 0:
            self.last = time.process_time() - self._cpu
            self.seconds += self._clock() - self._began
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting.join()  # it is no more when the command looks whether it may end
                self._waiting = None

    def _tell(self) -> None:
        if not self._told and not self.quiet:
            self._told = True
            now = self._clock() - self._began
            left = self.seconds_left() - now
            share = (self.seconds + now) / (self.seconds + now + left) if left > 0 else 0.0
            so_far = f": {share:.0%} done, about {left:.0f} s left" if left > 0 else ""
            print(
                f"Compiling kernels (once per machine, kept on disk){so_far} ...", file=sys.stderr, flush=True
            )

    def cannot_keep(self, reason: str) -> None:
        """Warn once that compiled kernels are not written to disk."""
        self._warn(f"Compiled kernels cannot be kept ({reason}); the next run compiles again")

    def cannot_use(self, path: Path, reason: str) -> None:
        """Warn once that a kept kernel, or a directory of them, is not used."""
        self._warn(f"{path}: {reason}; it is not used, and kernels are compiled anew where need be")

    def _warn(self, text: str) -> None:
        if not self._warned and not self.quiet:
            self._warned = True
            print(text, file=sys.stderr, flush=True)


announcer = Announcer()


@contextmanager
def compiling() -> Iterator[None]:
    """Count as compiling, in this block, what Numba compiles of a user's code on behalf of a run."""
    if find_spec("numba") is None:  # Python code of the user's needs none
        yield
        return
    from numba.core import event

    with event.install_listener("numba:compile", _listener()):
        yield


@cache
def _listener() -> Any:
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, _event: Any) -> None:
            announcer.begin()

        def on_end(self, _event: Any) -> None:
            announcer.end()

    return Listener()


def estimate_by(seconds_left: Callable[[], float]) -> None:
    """Set what returns how long the kernels of a run that are missing still take (s)."""
    announcer.seconds_left = seconds_left


def compile_seconds() -> float:
    """Return the wall-clock seconds that this process spent compiling kernels (0: all from the cache)."""
    return announcer.seconds


def quiet() -> None:
    """Do not announce compilation on standard error."""
    announcer.quiet = True


_PACKAGE = Path(__file__).parent.parent
_MAGIC = b"mlsim kernel 2\n"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_NAME = f"kernels-{os.geteuid() if hasattr(os, 'geteuid') else 'own'}"


def file_name(module: str, name: str, key: str, types: Collection[str], suffix: str) -> str:
    """Return the name of the file of a kernel for arguments of some types."""
    readable = re.sub(r"[^\w.]", "_", f"{module.removeprefix('mlsim.')}.{name}")[-120:]
    return f"{readable}-{key[:16]}-{digest_of(chr(10).join((key, *types)).encode())}.{suffix}"


def is_kept(module: str, name: str, key: str) -> bool:
    """Whether some file of a kernel for calls without numba is there."""
    beginning = file_name(module, name, key, (), "entry").rpartition("-")[0]
    return any(_directory().glob(f"{beginning}-*.entry"))


def read(name: str) -> bytes | None:
    """Read a file; None if there is none that can be used."""
    try:
        content = _read(_directory() / name)
    except FileNotFoundError:
        return None
    except OSError as error:
        _discard(name, error.strerror or str(error))
        return None
    magic, digest, kept = (*content.split(b"\n", 2), b"", b"")[:3]
    if magic + b"\n" != _MAGIC or digest != _digest(name, kept):
        _discard(name, "it is damaged")
        return None
    return kept


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError("it is no file")
        if problem := _problem(facts):
            raise OSError(problem)
        return file.read()


def kept_files(suffix: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of all files of a kind that can be used, in the order of their names."""
    for path in sorted(_directory().glob(f"*.{suffix}")):
        if (kept := read(path.name)) is not None:
            yield path.name, kept


def write(name: str, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a loss of power, or raise OSError."""
    path = _directory() / name
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        try:
            file.write(_MAGIC + _digest(name, content) + b"\n" + content)
            file.flush()
            os.fsync(file.fileno())
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _digest(name: str, content: bytes) -> bytes:
    return digest_of(name.encode() + b"\n" + content).encode()


def _problem(facts: os.stat_result) -> str:
    """Return the reason why a file or directory cannot be trusted; empty if it can."""
    if hasattr(os, "geteuid") and facts.st_uid != os.geteuid():
        return "it belongs to another user"
    return "others can write to it" if facts.st_mode & _OTHERS_WRITE else ""


def _discard(name: str, reason: str) -> None:
    path = _directory() / name
    announcer.cannot_use(path, reason)
    _remove(path)


def _remove(path: Path) -> None:
    """Remove a file, link or directory, if that is allowed."""
    try:
        path.unlink()
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def _places() -> list[Path]:
    """List where all processes look: NUMBA_CACHE_DIR, beside the package, the user's cache."""
    users = user_cache()
    places = [_PACKAGE / "__pycache__", *([] if users is None else [users])]
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        places.insert(0, Path(given))
    return places


@cache
def _directory() -> Path:
    """Return the first directory that is this user's alone; where there is none, one of this process."""
    for place in _places():
        if _made(place / _NAME):
            return place / _NAME
    own = tempfile.mkdtemp(prefix="mlsim-kernels-")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Path(own)


def _made(directory: Path) -> bool:
    """Make a directory that only this user can write to; replace one that others could have written to."""
    for _ in range(2):
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            facts = directory.lstat()
        except FileExistsError:  # a file, or a link that leads nowhere
            problem = "it is no directory"
        except OSError:
            return False  # a read-only installation; the next place will do
        else:
            problem = _problem(facts) if stat.S_ISDIR(facts.st_mode) else "it is no directory"
        if not problem:
            return os.access(directory, os.W_OK | os.X_OK)
        announcer.cannot_use(directory, problem)
        _remove(directory)
    return False


def kept_kernels() -> dict[Path, int]:
    """Return how many compiled kernels that Python calls each place keeps."""
    return {place: sum(1 for _ in (place / _NAME).glob("*.entry")) for place in _places()}


def is_shared() -> bool:
    """Whether kernels are kept where other processes find them."""
    return _directory().parent in _places()


_waits: dict[str, Callable[[], object]] = {}


def is_compiled(room: str, kernel: str) -> bool:
    """Whether a kernel of a room (``FOLDERS.MODULE.NAME`` in it) need not be compiled ahead.

    The library has it, it is on disk, or this process would not look for it there.
    """
    if INTERPRETED or not is_usual() or not is_shared():
        return True
    module, _, name = f"mlsim.{room}.{kernel}".rpartition(".")
    found = getattr(import_module(module), name)
    if kernel_library.has_kernel(found):
        return True
    key = found.key
    return key is None or is_kept(module, name, key)


def room_of(function: Any) -> str:
    """Return the folder of the package in which a function is written."""
    parts = function.__module__.split(".")
    return parts[1] if parts[0] == "mlsim" and len(parts) > 2 else ""


def while_elsewhere(room: str, wait: Callable[[], object]) -> None:
    """Make the first use of a kernel of a room that is not on disk call ``wait``."""
    _waits[room] = wait


def no_longer_elsewhere(room: str) -> None:
    """Remove the wait for a room."""
    _waits.pop(room, None)


def wait_for_room(room: str) -> bool:
    """Wait for those who compile the kernels of a room; whether there were any."""
    wait = _waits.pop(room, None)
    if wait is None:
        return False
    announcer.begin()
    try:
        wait()
    finally:
        announcer.end()
    return True
