"""The one place where mlsim starts processes; signals that wait for C libraries."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from mlsim.errors import MlsimError, sentence_of

Process = subprocess.Popen
TimeoutExpired = subprocess.TimeoutExpired
DEVNULL, PIPE = subprocess.DEVNULL, subprocess.PIPE

_FIRST = """\
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from mlsim._runtime.processes import last_resort
sys.excepthook = last_resort
"""
_SECONDS_TO_END = 10.0  # Grace period for a process that ends by itself, so that its exit code is known
_DEATH_OF_PARENT = 1  # PR_SET_PDEATHSIG of Linux


class Ended(NamedTuple):
    """Exit code (below 0: the signal that ended it) and output of a process."""

    code: int
    out: str
    err: str


class HelperEndedError(Exception):
    """A helper has ended; ``code`` is its exit code, below 0 the signal that ended it."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def python(code: str, *words: str) -> list[str]:
    """Return the command of a Python process with this one's modules, and none of the current directory."""
    path = [place for place in sys.path if isinstance(place, str) and place]
    own = str(Path(__file__).resolve().parents[2])
    path += [own] * (own not in path)  # where this package was found by "", the current directory
    return [sys.executable, "-P", "-c", _FIRST + code, json.dumps(path), *words]


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    out: int | IO[bytes] | None = None,
    err: int | IO[bytes] | None = None,
    keep: Sequence[int] = (),
    session: bool = False,
    reads: int = DEVNULL,
) -> Process[bytes]:
    """Start a process, with ``environment`` added to this one's variables.

    ``keep``: descriptors that it inherits. ``session``: a session that the keys of a terminal do not reach.
    """
    return subprocess.Popen(
        command,
        stdin=reads,
        stdout=out,
        stderr=err,
        env=None if environment is None else {**os.environ, **environment},
        cwd=directory,
        pass_fds=keep,
        start_new_session=session,
    )


def call(
    command: Sequence[str],
    seconds: float,
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    content: bytes | None = None,
) -> Ended:
    """Execute a program to its end; after ``seconds`` it and all that it started are ended (TimeoutError)."""
    reads = DEVNULL if content is None else PIPE
    how: dict[str, Any] = {"environment": environment, "directory": directory, "out": PIPE, "err": PIPE}
    process = start(command, **how, reads=reads, session=True)  # so that what it starts can be ended with it
    try:
        out, err = process.communicate(content, timeout=seconds)
    except BaseException as error:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise TimeoutError(f"not done after {seconds:g} s") from error
        raise
    return Ended(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def end(process: Process[Any], seconds: float = _SECONDS_TO_END) -> int:
    """Ask a process to end, and kill it if it does not within some seconds; return how it ended."""
    process.terminate()
    if not has_ended(process, seconds):
        process.kill()
    return process.wait()


def has_ended(process: Process[Any], seconds: float) -> bool:
    """Whether a process ends within some seconds."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def has_children(pid: int) -> bool:
    """Whether a process has running children; true where the system does not report processes."""
    states = list(Path("/proc").glob("[0-9]*/stat"))
    for file in states:
        with suppress(OSError, ValueError):  # a process that has ended meanwhile
            state, parent, *_ = file.read_text(errors="replace").rpartition(")")[2].split()
            if int(parent) == pid and state != "Z":
                return True
    return not states


def last_resort(kind: type[BaseException], error: BaseException, _trace: object) -> None:
    """Print an error that nothing has caught as a sentence; a hook for the interpreter."""
    if not issubclass(kind, KeyboardInterrupt):
        with suppress(OSError, ValueError):  # standard error is full or closed
            print(f"mlsim: {error if isinstance(error, MlsimError) else sentence_of(error)}", file=sys.stderr)


class Helper:
    """A Python process, ended with this one, that calls ``module:name`` for each object it is sent."""

    def __init__(self, function: str) -> None:
        from multiprocessing import Pipe  # here: few commands start helpers

        self.connection, theirs = Pipe()
        self._began = 0.0
        words = (function, str(theirs.fileno()), str(os.getpid()))
        try:
            command = python("from mlsim._runtime.processes import serve; serve()", *words)
            self._process = start(command, out=subprocess.DEVNULL, keep=[theirs.fileno()])
        except BaseException:
            self.connection.close()
            raise
        finally:
            theirs.close()

    def send(self, thing: Any) -> None:
        """Send something; whether it has arrived is known when the answer is there."""
        self._began = time.perf_counter()
        with suppress(OSError):  # it has ended; reading from it reports that
            self.connection.send(thing)

    def seconds(self) -> float:
        """Return how long ago something was sent."""
        return time.perf_counter() - self._began

    def receive(self) -> Any:
        """Wait for the result of the object sent last; raise the function's error, or HelperEndedError."""
        try:
            answer = self.connection.recv()
        except (EOFError, OSError) as error:
            has_ended(self._process, _SECONDS_TO_END)
            raise HelperEndedError(self.kill()) from error
        if isinstance(answer, MlsimError):
            raise answer
        return answer[0]

    def kill(self) -> int:
        """End the process; return how it ended."""
        self._process.kill()
        code = self._process.wait()
        self.connection.close()
        return code


def wait(helpers: Sequence[Helper], seconds: float | None = None) -> list[Helper]:
    """Wait until some helpers have answered or ended, for some seconds at most; return which."""
    from multiprocessing import connection

    ready = connection.wait([helper.connection for helper in helpers], seconds)
    return [helper for helper in helpers if helper.connection in ready]


def serve() -> None:
    """Call the function of a :class:`Helper` for each thing that comes, until the pipe is closed."""
    descriptor, parent = int(sys.argv[2]), int(sys.argv[3])
    _end_with(parent)
    for number in (signal.SIGINT, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])):
        signal.signal(number, signal.SIG_IGN)  # the process that started this one ends it
    from multiprocessing.connection import Connection
    from pkgutil import resolve_name

    connection: Any = Connection(descriptor)
    function = _answer(resolve_name, sys.argv[1])  # before anything comes: it takes 1 s
    while True:
        try:
            thing = connection.recv()
        except EOFError:
            return
        connection.send(_answer(function[0], thing) if isinstance(function, tuple) else function)


def _answer(function: Callable[..., Any], argument: Any) -> tuple[Any] | MlsimError:
    """Return a tuple with what a function returns; or the error that it raises."""
    try:
        return (function(argument),)
    except MlsimError as error:
        return error
    except BaseException as error:  # also panics of compiled libraries
        return MlsimError(sentence_of(error))


def _end_with(parent: int) -> None:
    """Make the system kill this process when its parent ends for any reason (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_OF_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


class Postponed:
    """A short block in which a signal that asks the command to stop raises nothing; it is raised after it."""

    def __init__(self) -> None:
        self._depth = 0
        self._waiting: int | None = None

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._waiting is not None and not self._depth:
            number, self._waiting = self._waiting, None
            signal.raise_signal(number)

    def takes(self, number: int) -> bool:
        """Return whether a signal waits for the end of the block; asked by its handler."""
        if self._depth:
            self._waiting = number
        return self._depth > 0


postponed = Postponed()  # Of the main thread, where signals are handled
