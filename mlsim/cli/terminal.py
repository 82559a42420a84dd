"""Standard streams of a command, and how a command ends."""

from __future__ import annotations

import atexit
import codecs
import errno
import io
import logging
import os
import shutil
import signal
import sys
import threading
import time
import traceback
import unicodedata
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

from mlsim._runtime.places import remove_unfinished
from mlsim._runtime.processes import postponed
from mlsim.errors import DEBUG, SIGNALS, MlsimError, StoppedError, printable, sentence_of

_NARROWEST, _WIDEST = 80, 1000
"""Columns: in narrower tables numbers are cut off, and wider ones take much memory."""
_ERRORS = "mlsim.readable"
_LOOK_ALIKES = {
    "…": "...",
    "§": "sec. ",
    "−": "-",
    "–": "-",
    "—": "-",
    "×": "x",
    "·": "*",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "→": "->",
    "µ": "u",
    "’": "'",
    "Σ": "sum",
    "√": "sqrt",
    "∞": "inf",
    "⌈": "ceil(",
    "⌉": ")",
    "⌊": "floor(",
    "⌋": ")",
}

_log = logging.getLogger("mlsim")


class _Stream(io.TextIOWrapper):
    """A stream that nothing fails for; ``failure`` is why it could not be written, None while it can."""

    failure: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Redirect the stream to the null device, with what its buffers hold."""
        self.failure = self.failure or error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def prepare() -> None:
    """Make standard output and error fit for what commands print."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # or the next file would get its number, and what is printed
    codecs.register_error(_ERRORS, _readable)
    sys.stdout, sys.stderr = _stream(sys.stdout), _stream(sys.stderr)
    _widen()
    notes = logging.StreamHandler()
    notes.setFormatter(_Notes("mlsim: note: %(message)s"))
    _log.addHandler(notes)
    _log.propagate = False


class _Notes(logging.Formatter):
    """Notes without characters that would change the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _stream(stream: TextIO | None) -> TextIO:
    if stream is None:  # it was closed before Python began
        return open(os.devnull, "w", encoding="utf-8")
    if type(stream) is not io.TextIOWrapper:
        return stream
    encoding, lines = stream.encoding, stream.line_buffering
    return _Stream(stream.detach(), encoding=encoding, errors=_ERRORS, line_buffering=lines)


def _readable(error: UnicodeError) -> tuple[str, int]:
    """Write what an encoding lacks with what every encoding has."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_look_alike, error.object[error.start : error.end])), error.end


def _look_alike(letter: str) -> str:
    if letter in _LOOK_ALIKES:
        return _LOOK_ALIKES[letter]
    name = unicodedata.name(letter, "")
    if name.startswith("GREEK SMALL LETTER "):
        return name.rsplit(" ", 1)[1].lower()
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return plain or "?"


_terminal: list[int] = []


def terminal_width() -> int:
    """Return how many columns the terminal has, for text that can be broken; tables of numbers have 80."""
    return _terminal[0] if _terminal else shutil.get_terminal_size().columns


def _widen() -> None:
    """Set a readable width for tables."""
    columns = shutil.get_terminal_size().columns
    _terminal[:] = [columns]
    given = os.environ.get("COLUMNS")
    if not _NARROWEST <= columns <= _WIDEST or (given is not None and given != str(columns)):
        os.environ["COLUMNS"] = str(min(max(columns, _NARROWEST), _WIDEST))


def quiet() -> None:
    """Print no notes, nor that kernels are being compiled."""
    from mlsim import _jit

    _jit.quiet()
    _log.setLevel(logging.ERROR)


def finish() -> bool:
    """Write what is left in buffers; whether all of standard output could be written."""
    sys.stderr.flush()
    sys.stdout.flush()
    failure = getattr(sys.stdout, "failure", None)
    if failure is not None and failure.errno != errno.EPIPE:  # a reader that has gone needs no report
        print(
            f"mlsim: standard output cannot be written: {failure.strerror}; files are written and whole",
            file=sys.stderr,
        )
    return failure is None


_signals = SIGNALS
_RANK = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
"""Variables that launchers of MPI set for the processes that they start."""
_RESEND_SECONDS = 0.05
_PATIENCE = 1.0
"""Seconds that compiled code may take to return to Python after a signal."""
_INTERRUPTED = "mlsim: interrupted; no partial files are left"
_ends_now = threading.Event()


def _stop(number: int, _: Any) -> None:
    if postponed.takes(number):  # for at most as long as the other thread waits
        return
    _signals.append(number)
    if _ends_now.is_set():  # the other thread is about to end the process
        threading.Event().wait()
    raise StoppedError(number)


def _watch() -> None:
    """End the process where a signal finds it in compiled code that does not return soon.

    Python handles signals between two of its own instructions only. Kernels leave the interpreter to other
    threads: one of them learns of signals at once, by the pipe to which Python's handler in C writes them.
    """
    if not hasattr(os, "register_at_fork"):  # on Windows, where signals are others
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # a child's signals are its own
    threading.Thread(target=_end_if_stuck, args=(reading,), name=_WATCH, daemon=True).start()


_WATCH = "mlsim-signals"


def _end_if_stuck(reading: int) -> None:
    while True:
        number = os.read(reading, 1)[0]
        if signal.getsignal(number) is _stop and _is_stuck():
            _ends_now.set()
            remove_unfinished()
            _restore_terminal()
            print(_INTERRUPTED, file=sys.stderr)
            finish()
            os._exit(128 + number)


def _is_stuck() -> bool:
    """Return, if the process has not ended before, whether its main thread does not return to Python.

    What is raised while a kernel calls back is kept until it returns: then, too, only the kernel goes on.
    """
    looks, between = 0, _PATIENCE / 50
    began = time.monotonic()
    while time.monotonic() < began + 30 * _PATIENCE:
        time.sleep(between)
        looks = looks + 1 if not _signals or _in_kernel() else 0
        if looks >= 50:
            return True
    return False


def _in_kernel() -> bool:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is not None and f"{os.sep}_jit{os.sep}" in frame.f_code.co_filename


def _restore_terminal() -> None:
    """Show the cursor again, which progress bars hide."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K\x1b[?25h")


def _stop_again(unraisable: Any) -> None:
    """Send the signal once more where Python ignored its exception, as in finalizers and C's callbacks.

    Not from here: what is raised in this function is ignored as well.
    """
    if isinstance(unraisable.exc_value, StoppedError):
        arguments = (os.getpid(), unraisable.exc_value.number)
        timer = threading.Timer(_RESEND_SECONDS, os.kill, arguments)
        timer.daemon = True
        timer.start()
    else:
        sys.__unraisablehook__(unraisable)


def run_and_exit(command: Callable[[], object]) -> NoReturn:
    """Run a command and exit."""
    prepare()
    _on_signals(_stop)
    _watch()
    sys.unraisablehook = _stop_again
    try:
        code = _run(command)
        # All is written and reported; only the interpreter is left to end. MPI may wait for ranks meanwhile.
        _on_signals(signal.SIG_DFL if "mpi4py" in sys.modules else signal.SIG_IGN)
    except StoppedError as stopped:  # a second one, while the first was being reported
        code = 128 + stopped.number
    if _signals and any(name in os.environ for name in _RANK):
        # A launcher ends the other ranks after a signal; after an exit code it may wait for ever.
        finish()
        _on_signals(signal.SIG_DFL)
        os.kill(os.getpid(), _signals[0])
    if _may_end_at_once():
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _may_end_at_once() -> bool:
    """Whether the interpreter shutdown can be skipped, which takes 25 ms, or 0.2 s with pictures.

    It cannot with user-defined code, which may leave files for Python to close, with MPI, which it finalizes,
    or under a debugger or profiler, which expects a regular end of the command.
    """
    plugins = sys.modules.get("mlsim.plugins")
    monitoring = getattr(sys, "monitoring", None)  # of Python 3.12 on
    looks_on = (
        sys.flags.inspect
        or sys.gettrace() is not None
        or sys.getprofile() is not None
        or (monitoring is not None and any(monitoring.get_tool(number) for number in range(6)))
    )
    others = [thread for thread in threading.enumerate() if thread.name != _WATCH]
    alone = others == [threading.main_thread()] == [threading.current_thread()]
    by_user = plugins is not None and plugins.any_loaded()
    return alone and not (looks_on or by_user or "mpi4py" in sys.modules)


def _on_signals(handler: Any) -> None:
    """Handle what asks a command to stop; under nohup, a closed terminal does not."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # not on Windows
        signal.signal(signal.SIGHUP, handler)


def _run(command: Callable[[], object]) -> int:
    """Run a command; return the exit code, once everything is printed."""
    try:
        code = _code_of(command)
    except StoppedError as stopped:
        code = _interrupted(stopped.number)
    except BaseException as error:  # also panics of compiled libraries, which are no Exceptions
        # LLVM's callbacks drop exceptions; the compiler then stumbles over what they have not done.
        code = _interrupted(_signals[0]) if _signals else _report(error)
    return code if finish() else code or 1


def _code_of(command: Callable[[], object]) -> int:
    try:
        command()
    except SystemExit as ended:  # how Typer ends every command, with 0 or another code
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _report(error: BaseException) -> int:
    """Print what went wrong, in a sentence; return the exit code."""
    if os.environ.get(DEBUG, "0") not in ("", "0"):
        traceback.print_exception(error)
    if isinstance(error, MlsimError):
        print(f"mlsim: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    print(f"mlsim: {printable(sentence_of(error))}", file=sys.stderr)
    return 1


def _interrupted(number: int) -> int:
    print(_INTERRUPTED, file=sys.stderr)
    return 128 + number
